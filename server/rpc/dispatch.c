/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/rpc/dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "proto/record.h"
#include "server/errors.h"

/* Any reply but for what follows its head as a body or as pages. */
#define HEAD_BYTES_MAX 512u
/* Smaller data are copied behind the head: cheaper than pieces of their own. */
#define COPY_MAX 512u

_Static_assert(4 + RPC_REPLY_HEAD_BYTES + NFS3_RES_BYTES_MAX <= HEAD_BYTES_MAX, "a head fits");

static void run_on_worker(struct job *job, struct srv_thread *worker);
static void back_on_loop(struct fsc_msg *msg);

const struct srv_program *const programs[] = {&nfs3_program, &mount3_program, NULL};

const struct srv_program *program_find(uint32_t number)
{
	for (unsigned i = 0; programs[i]; i++)
		if (programs[i]->number == number)
			return programs[i];
	return NULL;
}

/* ---------------------------------------------------------- loop and peer */

static void owner_put(void *owner)
{
	request_put(owner);
}

void rpc_loop_init(struct rpc_loop *loop, struct server *srv, struct fsc_thread *fsc,
	struct loop_counters *counters)
{
	memset(loop, 0, sizeof(*loop));
	loop->thread.srv = srv;
	loop->thread.fsc = fsc;
	loop->counters = counters;
	outq_pool_init(&loop->out_pool, owner_put);
}

void rpc_loop_fini(struct rpc_loop *loop)
{
	while (loop->free) {
		struct request *req = loop->free;

		loop->free = req->next;
		free(req);
	}
	while (loop->free_bodies) {
		struct free_body *body = loop->free_bodies;

		loop->free_bodies = body->next;
		free(body);
	}
	outq_pool_fini(&loop->out_pool);
}

void rpc_peer_init(struct rpc_peer *peer, struct rpc_loop *loop, const struct net_addr *addr,
	void (*ready)(struct rpc_peer *peer))
{
	memset(peer, 0, sizeof(*peer));
	peer->loop = loop;
	peer->addr = *addr;
	peer->ready = ready;
	outq_init(&peer->out);
}

void rpc_peer_close(struct rpc_peer *peer)
{
	peer->closed = true;
	replay_origin_close(peer->origin, peer->all_received);
	peer->origin = NULL;
	outq_clear(&peer->out, &peer->loop->out_pool);
}

const struct export_rules *rpc_peer_rules(const struct rpc_peer *peer, const struct export *e)
{
	return export_match(e, &peer->addr);
}

/* ---------------------------------------------------------------- replies */

/* Starts a reply behind room for its record mark. */
static bool reply_begin(struct rpc_peer *peer, struct wire_out *out)
{
	uint8_t *p = outq_reserve(&peer->out, &peer->loop->out_pool, HEAD_BYTES_MAX + COPY_MAX);

	if (!p)
		return false;
	wire_out_init(out, p, HEAD_BYTES_MAX + COPY_MAX);
	wire_reserve(out, 4);
	return true;
}

/*
 * Starts the reply of a request. A client whose reply could not be queued would wait for
 * it for ever: its connection is closed, so that it comes again and asks.
 */
static bool answer_begin(struct rpc_peer *peer, struct wire_out *out)
{
	if (peer->closed)
		return false;
	if (reply_begin(peer, out))
		return true;
	log_limited(LOG_LVL_ERROR, "out of memory for a reply");
	rpc_peer_close(peer);
	return false;
}

/* more: bytes of the record that are queued behind the head. */
static void reply_commit(struct rpc_peer *peer, const struct wire_out *out, size_t more)
{
	const struct outq_block *b = peer->out.tail;
	size_t len = (size_t)(out->p - (b->data + b->used));

	wire_set_u32(peer->out.tail->data + b->used, (uint32_t)(len - 4 + more) | RECORD_LAST);
	outq_commit(&peer->out, len);
}

static int reply_error(struct rpc_peer *peer, const struct rpc_call *call, int kind)
{
	struct wire_out out;

	counter_add(&peer->loop->counters->rpc_errors, 1);
	if (!reply_begin(peer, &out))
		return -ENOMEM;
	rpc_put_accepted(&out, call->xid, (enum rpc_accept_stat)kind);
	reply_commit(peer, &out, 0);
	return 0;
}

static int reply_denied(struct rpc_peer *peer, const struct rpc_call *call)
{
	struct wire_out out;

	counter_add(&peer->loop->counters->rpc_errors, 1);
	if (!reply_begin(peer, &out))
		return -ENOMEM;
	if (call->rpc_version != RPC_VERSION)
		rpc_put_rpc_mismatch(&out, call->xid);
	else
		rpc_put_auth_error(&out, call->xid, call->auth);
	reply_commit(peer, &out, 0);
	return 0;
}

static int reply_bad_version(
	struct rpc_peer *peer, const struct rpc_call *call, const struct srv_program *prog)
{
	struct wire_out out;

	counter_add(&peer->loop->counters->rpc_errors, 1);
	if (!reply_begin(peer, &out))
		return -ENOMEM;
	rpc_put_prog_mismatch(&out, call->xid, prog->version, prog->version);
	reply_commit(peer, &out, 0);
	return 0;
}

/* What follows the head of a successful reply. */
struct tail {
	const struct iovec *iov;
	unsigned n_iov;
	size_t len;
};

static struct tail tail_of(struct request *req, struct iovec *one)
{
	struct tail t = {NULL, 0, 0};

	if (req->op->flags & OP_READ) {
		t.iov = req->rd.iov;
		t.n_iov = req->rd.n_iov;
		t.len = req->rd.result_bytes;
	} else if (req->op->flags & OP_BODY) {
		one->iov_base = req->body;
		one->iov_len = t.len = req->body_len;
		t.iov = one;
		t.n_iov = 1;
	}
	return t;
}

static void copy_tail(struct wire_out *out, const struct tail *t)
{
	size_t left = t->len;

	for (unsigned i = 0; i < t->n_iov && left; i++) {
		size_t n = MIN(t->iov[i].iov_len, left);
		uint8_t *p = wire_reserve(out, n);

		if (!p)
			return;
		memcpy(p, t->iov[i].iov_base, n);
		left -= n;
	}
}

static void put_padding(struct wire_out *out, size_t len)
{
	size_t pad = wire_padded(len) - len;
	uint8_t *p = wire_reserve(out, pad);

	if (p)
		memset(p, 0, pad);
}

/* The queue takes the request over, until its data have been sent. */
static void queue_tail(struct request *req, const struct tail *t)
{
	static const uint8_t zeros[4];
	struct rpc_peer *peer = req->peer;
	struct outq_pool *pool = &peer->loop->out_pool;
	struct iovec pad = {(void *)(uintptr_t)zeros, wire_padded(t->len) - t->len};
	bool taken;

	req->state = REQUEST_SENDING;
	taken = outq_add_pieces(&peer->out, pool, t->iov, t->n_iov, t->len, req);
	if (taken &&
		(!pad.iov_len || outq_add_pieces(&peer->out, pool, &pad, 1, pad.iov_len, NULL)))
		return;
	/* Half a reply is queued: nothing sensible can follow it. */
	log_limited(LOG_LVL_ERROR, "out of memory for a reply");
	rpc_peer_close(peer);
	if (!taken)
		request_put(req);
}

static void count_end(struct request *req, bool failed)
{
	struct op_counters *c = req->counters;

	if (failed)
		counter_add(&c->errors, 1);
	hist_add(&c->latency, clock_now_ns() - req->start_ns);
}

/* The head of a reply, which is all of it but for data. */
static void put_head(struct request *req, uint32_t status, struct wire_out *out)
{
	/* Without results of its own an operation has no other way to fail. */
	rpc_put_accepted(
		out, req->call.xid, status && !req->op->encode ? RPC_SYSTEM_ERR : RPC_SUCCESS);
	if (req->op->encode)
		req->op->encode(out, status, &req->res);
}

/* Keeps the reply for retransmissions, unless the client is told to try again. */
static void keep_reply(struct request *req, int result, const uint8_t *head, size_t len)
{
	replay_end(req->replay, head, len, !errors_is_transient(result), req->loop->now_ns);
	req->replay = NULL;
}

/* The client is gone, but it may come back and ask again. */
static void finish_unsent(struct request *req, int result)
{
	uint8_t head[REPLAY_REPLY_BYTES];
	struct wire_out out;

	if (req->replay) {
		wire_out_init(&out, head, sizeof(head));
		put_head(req, req->program->status(result), &out);
		keep_reply(req, result, head, (size_t)(out.p - head));
	}
	request_put(req);
}

/* The reply of a request that has ended, and the end of the request. */
static void finish(struct request *req, int result)
{
	struct rpc_peer *peer = req->peer;
	uint32_t status = req->program->status(result);
	struct tail tail = {NULL, 0, 0};
	struct wire_out out;
	struct iovec one;
	uint8_t *head;

	req->state = REQUEST_DONE;
	count_end(req, status != 0);
	if (!answer_begin(peer, &out)) {
		finish_unsent(req, result);
		return;
	}
	head = out.p;
	put_head(req, status, &out);
	if (req->replay)
		keep_reply(req, result, head, (size_t)(out.p - head));
	if (!status)
		tail = tail_of(req, &one);
	if (tail.len <= COPY_MAX - 4) {
		copy_tail(&out, &tail);
		put_padding(&out, tail.len);
		reply_commit(peer, &out, 0);
		request_put(req);
		return;
	}
	reply_commit(peer, &out, wire_padded(tail.len));
	queue_tail(req, &tail);
}

/* -------------------------------------------------------------- execution */

static bool decode_args(struct request *req, const uint8_t *data, size_t len, size_t args_off)
{
	struct wire_in in;

	if (!req->op->decode)
		return true;
	wire_in_init(&in, data + args_off, len - args_off);
	return req->op->decode(&in, &req->args);
}

/*
 * The record leaves the loop's buffer before the request ends. One that has
 * memory of its own is taken over; of another, the arguments are decoded again
 * from a copy, so that no operation needs code to copy its own.
 */
static bool keep_record(struct request *req, struct rpc_input *in, size_t args_off)
{
	struct rpc_record *r = &req->record;

	if (in->owned) {
		r->data = in->owned;
		in->owned = NULL;
		return true;
	}
	r->data = in->len <= sizeof(r->small) ? r->small : malloc(in->len);
	if (!r->data)
		return false;
	memcpy(r->data, in->data, in->len);
	return decode_args(req, r->data, in->len, args_off);
}

static int to_worker(struct request *req)
{
	unsigned why = (unsigned)req->ctx.blocked % FSC_BLOCKED_REASONS;

	req->state = REQUEST_QUEUED;
	counter_add(&req->counters->done_worker, 1);
	counter_add(&req->counters->blocked[why], 1);
	request_reset(req);
	req->job.tenant = req->tenant;
	req->job.cost = JOBS_QUANTUM + req->charge / 4096;
	req->job.run = run_on_worker;
	return jobs_add(req->loop->thread.srv->jobs, &req->job);
}

/* It ended where no run has filled in the results: they hold nothing then. */
static void finish_unrun(struct request *req, int result)
{
	memset(&req->res, 0, sizeof(req->res));
	finish(req, result);
}

static void finish_synced(struct request *req, int status)
{
	/* What makes data durable can fail in many ways; clients know three. */
	if (status && status != -ENOSPC && status != -EDQUOT)
		status = -EIO;
	if (req->op->synced)
		req->op->synced(req, status);
	finish(req, req->result ? req->result : status);
}

/* What a request was parked on is durable, or failed. */
static void sync_done(struct fsc_sync *sync)
{
	struct request *req = container_of(sync, struct request, sync);
	struct rpc_peer *peer = req->peer;

	finish_synced(req, sync->status);
	peer->ready(peer);
}

/*
 * The last run has ended; what is left happens on the loop. False: the request
 * is parked until what it did is durable.
 */
static bool settle(struct request *req, int result)
{
	int ret;

	if (req->durable == DURABLE_NOTHING) {
		finish(req, result);
		return true;
	}
	req->result = result;
	request_drop_record(req);
	req->state = REQUEST_PARKED;
	req->sync.thread = req->loop->thread.fsc;
	req->sync.done = sync_done;
	if (req->durable == DURABLE_NAMES)
		ret = fsc_sync_names(req->loop->thread.srv->vol, &req->sync);
	else
		ret = fsc_sync_inode(req->object[0].inode, &req->sync);
	if (ret == -EINPROGRESS) {
		counter_add(&req->counters->parked_sync, 1);
		return false;
	}
	finish_synced(req, ret);
	return true;
}

static void run_on_worker(struct job *job, struct srv_thread *worker)
{
	struct request *req = container_of(job, struct request, job);

	req->thread = worker;
	req->ctx = (struct fsc_ctx){.thread = worker->fsc};
	req->result = req->op->run(req);
	req->msg.fn = back_on_loop;
	fsc_thread_post(req->loop->thread.fsc, &req->msg);
}

static void back_on_loop(struct fsc_msg *msg)
{
	struct request *req = container_of(msg, struct request, msg);
	struct rpc_peer *peer = req->peer;

	req->thread = &req->loop->thread;
	if (settle(req, req->result))
		peer->ready(peer);
}

/* The I/O that a request was parked on has ended: run() looks at its result. */
static void read_done(struct fsc_read *rd)
{
	struct request *req = container_of(rd, struct request, rd);
	struct rpc_peer *peer = req->peer;
	int ret;

	req->read_ended = true;
	ret = req->op->run(req);
	if (ret == -EAGAIN) {
		ret = req->args_lost ? -ENOMEM : to_worker(req);
		if (!ret)
			return;
		finish_unrun(req, ret);
	} else {
		counter_add(&req->counters->done_async, 1);
		finish(req, ret);
	}
	peer->ready(peer);
}

/*
 * Takes what the request may hold into account until it is freed: itself, its record,
 * whatever is in it, its entry in the replay cache, and what its reply needs.
 */
static void charge(struct request *req, const struct rpc_input *in)
{
	size_t bytes = sizeof(*req) + MAX(in->len, in->owned_bytes);

	if (req->op->charge)
		bytes += req->op->charge(&req->args);
	if (req->op->flags & OP_REPLAY)
		bytes += REPLAY_ENTRY_BYTES;
	req->charge = (uint32_t)bytes;
	req->peer->request_bytes += req->charge;
	req->loop->request_bytes += req->charge;
}

/* The first run, on the loop, without waiting. */
static void run_inline(struct request *req, struct rpc_input *in, size_t args_off)
{
	int ret;

	req->thread = &req->loop->thread;
	req->ctx.thread = req->thread->fsc;
	req->ctx.flags = FSC_NOWAIT;
	req->ctx.blocked = FSC_BLOCKED_NOT;
	req->rd.done = read_done;
	ret = req->op->run(req);
	if (ret != -EAGAIN && ret != -EINPROGRESS) {
		counter_add(&req->counters->done_inline, 1);
		settle(req, ret);
		return;
	}
	if (ret == -EINPROGRESS) {
		/* A read under way cannot be called back: memory first. */
		req->state = REQUEST_PARKED;
		if (!keep_record(req, in, args_off))
			req->args_lost = true;
		return;
	}
	ret = keep_record(req, in, args_off) ? to_worker(req) : -ENOMEM;
	if (ret)
		finish_unrun(req, ret);
}

/* ---------------------------------------------------------------- replays */

/* Sends the reply of another request that was the same call. */
static void send_replay(struct request *req)
{
	struct rpc_peer *peer = req->peer;
	struct wire_out out;
	const uint8_t *reply;
	size_t len;

	req->state = REQUEST_DONE;
	reply = replay_reply(req->replay, &len);
	if (answer_begin(peer, &out)) {
		wire_put_fixed(&out, reply, len);
		reply_commit(peer, &out, 0);
	}
	replay_put(req->replay);
	req->replay = NULL;
	request_put(req);
}

static void replay_on_loop(struct fsc_msg *msg)
{
	struct request *req = container_of(msg, struct request, msg);
	struct rpc_peer *peer = req->peer;

	send_replay(req);
	peer->ready(peer);
}

/* On the thread of the first run. */
static void first_run_ended(struct replay_waiter *w)
{
	struct request *req = container_of(w, struct request, waiter);

	fsc_thread_post(req->loop->thread.fsc, &req->msg);
}

/* True when the call must run; otherwise its reply was sent, or will be. */
static bool begin_replay(struct request *req, const struct rpc_input *in, size_t args_off)
{
	struct replay_cache *cache = req->loop->thread.srv->replays;
	struct rpc_peer *peer = req->peer;
	struct replay_call call = {
		.kind = req->op->flags & OP_REPLAY_DATA ? REPLAY_DATA : REPLAY_NAMES,
		.call = &req->call,
		.args = in->data + args_off,
		.args_len = in->len - args_off,
		.now_ns = req->loop->now_ns};

	if (!cache)
		return true;
	if (!peer->origin)
		peer->origin = replay_origin_create(cache, peer->addr.ip, peer->addr.port);
	if (!peer->origin)
		return true;
	call.origin = peer->origin;
	/* All that first_run_ended() needs: it may be called at once. */
	req->waiter.ended = first_run_ended;
	req->msg.fn = replay_on_loop;
	switch (replay_begin(cache, &call, &req->waiter, &req->replay)) {
	case REPLAY_NEW:
	case REPLAY_NO_ROOM:
		return true;
	case REPLAY_RUNNING:
		req->state = REQUEST_WAITING;
		return false;
	case REPLAY_DONE:
		send_replay(req);
		return false;
	}
	return true;
}

static int start(struct rpc_peer *peer, const struct rpc_call *call, const struct srv_program *prog,
	struct rpc_input *in, size_t args_off)
{
	struct request *req = request_get(peer);

	if (!req)
		return -ENOMEM;
	req->program = prog;
	req->op = &prog->ops[call->procedure];
	req->counters = &peer->loop->counters->op[prog->first_counter + call->procedure];
	req->call = *call;
	if (!decode_args(req, in->data, in->len, args_off)) {
		request_put(req);
		return reply_error(peer, call, RPC_GARBAGE_ARGS);
	}
	charge(req, in);
	if (req->op->flags & OP_REPLAY && !begin_replay(req, in, args_off))
		return 0;
	counter_add(&req->counters->calls, 1);
	run_inline(req, in, args_off);
	return 0;
}

/* A procedure that does nothing, which clients call to see whether we live. */
static int reply_null(struct rpc_peer *peer, const struct rpc_call *call, struct op_counters *c)
{
	struct wire_out out;

	counter_add(&c->calls, 1);
	counter_add(&c->done_inline, 1);
	hist_add(&c->latency, clock_now_ns() - peer->loop->now_ns);
	if (!reply_begin(peer, &out))
		return -ENOMEM;
	rpc_put_accepted(&out, call->xid, RPC_SUCCESS);
	reply_commit(peer, &out, 0);
	return 0;
}

static int dispatch_call(
	struct rpc_peer *peer, const struct rpc_call *call, struct rpc_input *in, size_t args_off)
{
	const struct srv_program *prog;

	if (call->auth != RPC_AUTH_OK)
		return reply_denied(peer, call);
	prog = program_find(call->program);
	if (!prog)
		return reply_error(peer, call, RPC_PROG_UNAVAIL);
	if (call->version != prog->version)
		return reply_bad_version(peer, call, prog);
	if (call->procedure >= prog->n_ops)
		return reply_error(peer, call, RPC_PROC_UNAVAIL);
	if (!prog->ops[call->procedure].run)
		return reply_null(peer, call,
			&peer->loop->counters->op[prog->first_counter + call->procedure]);
	return start(peer, call, prog, in, args_off);
}

int rpc_dispatch(struct rpc_peer *peer, struct rpc_input *input)
{
	struct rpc_call call;
	struct wire_in in;
	int ret = 0;

	wire_in_init(&in, input->data, input->len);
	switch (rpc_decode_call(&in, &call)) {
	case RPC_IS_CALL:
		ret = dispatch_call(peer, &call, input, (size_t)(in.p - input->data));
		break;
	case RPC_BAD_VERSION:
		ret = reply_denied(peer, &call);
		break;
	case RPC_IS_NOT_CALL:
	case RPC_BAD_HEADER:
		return -EBADMSG;
	}
	return peer->closed ? -ENOMEM : ret;
}
