/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/server/rpc_client.h"

#include <poll.h>
#include <stdlib.h>

#include "base/util.h"
#include "server/fh.h"
#include "server/jobs.h"
#include "server/mount/mount_list.h"
#include "tests/server/check.h"

static void on_ready(struct rpc_peer *peer)
{
	container_of(peer, struct world, peer)->readies++;
}

/* Subvolume 300 is in the top one as "sub", and 301 in that as "inner". */
static void make_tree(void)
{
	struct fsc_inode *top, *sub;

	fake_volume();
	top = fake_root(FSC_SUBVOL_TOP);
	sub = fake_make_subvol(top, "sub", 300);
	fake_make_subvol(sub, "inner", 301);
}

struct world *world_begin(const char *const *export_specs, unsigned workers)
{
	struct world *w = calloc(1, sizeof(*w));
	struct net_addr addr = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}, .port = 700};
	char error[EXPORT_ERROR_MAX];

	CHECK(w);
	make_tree();
	w->exports = exports_create();
	for (; *export_specs; export_specs++)
		CHECK(!exports_add_spec(w->exports, *export_specs, error));
	CHECK(!fsc_thread_create(&w->fsc));
	w->srv.vol = NULL;
	CHECK(!exports_resolve(w->exports, w->fsc, NULL));
	w->srv.exports = w->exports;
	w->srv.mounts = mount_list_create();
	CHECK(!replay_cache_create(1u << 20, &w->srv.replays));
	CHECK(!write_verf_init(&w->srv.write_verf));
	fsc_volume_info(NULL, &w->srv.vol_info);
	if (workers)
		CHECK(!jobs_create(&w->srv, workers, workers, &w->srv.jobs));
	rpc_loop_init(&w->loop, &w->srv, w->fsc, &w->counters);
	rpc_peer_init(&w->peer, &w->loop, &addr, on_ready);
	w->cred = (struct rpc_cred){.flavor = RPC_AUTH_SYS, .uid = 1000, .gid = 1000};
	return w;
}

void world_reconnect(struct world *w, bool all_received)
{
	struct net_addr addr = w->peer.addr;

	w->peer.all_received = all_received;
	rpc_peer_close(&w->peer);
	CHECK(!w->peer.n_requests);
	addr.port++;
	rpc_peer_init(&w->peer, &w->loop, &addr, on_ready);
}

void world_end(struct world *w)
{
	rpc_peer_close(&w->peer);
	jobs_destroy(w->srv.jobs);
	fsc_thread_reap(w->fsc);
	CHECK(w->peer.n_requests == 0);
	CHECK(w->peer.request_bytes == 0);
	CHECK(w->loop.n_requests == 0);
	CHECK(w->loop.request_bytes == 0);
	CHECK(w->loop.out_pool.n_used == 0);
	CHECK(atomic_load(&fake.inode_refs) == 0);
	CHECK(atomic_load(&fake.reads) == 0);
	rpc_loop_fini(&w->loop);
	mount_list_destroy(w->srv.mounts);
	replay_cache_destroy(w->srv.replays);
	exports_destroy(w->exports);
	fsc_thread_destroy(w->fsc);
	fake_volume_free();
	free(w);
}

static void holding_run(struct job *job, struct srv_thread *thread)
{
	/* One of w->holding, whose tenant numbers them. */
	struct world *w = container_of(job - job->tenant % WORKERS_HELD_MAX, struct world, holding);

	(void)thread;
	sem_post(&w->held);
	while (sem_wait(&w->let_go))
		; /* a signal */
}

void hold_worker(struct world *w)
{
	struct job *job = &w->holding[w->n_held];

	CHECK(w->n_held < WORKERS_HELD_MAX);
	if (!w->n_held) {
		sem_init(&w->held, 0, 0);
		sem_init(&w->let_go, 0, 0);
	}
	*job = (struct job){.cost = 1, .run = holding_run};
	job->tenant = (1u << 20) + w->n_held++;
	CHECK(!jobs_add(w->srv.jobs, job));
	while (sem_wait(&w->held))
		; /* a signal */
}

void let_workers_go(struct world *w)
{
	for (; w->n_held; w->n_held--)
		sem_post(&w->let_go);
}

static void wait_for_message(struct world *w)
{
	struct pollfd p = {.fd = fsc_thread_fd(w->fsc), .events = POLLIN};

	CHECK(poll(&p, 1, 10000) == 1);
	fsc_thread_reap(w->fsc);
}

void wait_for_requests(struct world *w, const struct rpc_peer *peer)
{
	while (peer->n_requests)
		wait_for_message(w);
}

static void put_cred(struct wire_out *out, const struct rpc_cred *cred)
{
	wire_put_u32(out, cred->flavor);
	if (cred->flavor != RPC_AUTH_SYS) {
		wire_put_u32(out, 0);
		return;
	}
	wire_put_u32(out, 4 + 4 + 4 + 8 + 4 + 4 * cred->n_gids);
	wire_put_u32(out, 0);
	wire_put_opaque(out, "test", 4);
	wire_put_u32(out, cred->uid);
	wire_put_u32(out, cred->gid);
	wire_put_u32(out, cred->n_gids);
	for (uint32_t i = 0; i < cred->n_gids; i++)
		wire_put_u32(out, cred->gids[i]);
}

void call_begin(struct world *w, struct call *c, uint32_t program, uint32_t proc)
{
	wire_out_init(&c->out, c->data, sizeof(c->data));
	wire_put_u32(&c->out, ++w->xid);
	wire_put_u32(&c->out, RPC_CALL);
	wire_put_u32(&c->out, RPC_VERSION);
	wire_put_u32(&c->out, program);
	wire_put_u32(&c->out, 3);
	wire_put_u32(&c->out, proc);
	put_cred(&c->out, &w->cred);
	wire_put_u32(&c->out, RPC_AUTH_NONE);
	wire_put_u32(&c->out, 0);
}

void call_nfs3(struct world *w, struct call *c, uint32_t proc)
{
	call_begin(w, c, NFS3_PROGRAM, proc);
}

int call_send_by(struct world *w, struct rpc_peer *peer, const struct call *c)
{
	size_t len = (size_t)(c->out.p - c->data);
	uint8_t *copy = malloc(len);
	struct rpc_input in;
	int ret;

	/* As the loop's buffer: gone when the dispatcher has returned. */
	CHECK(copy && !c->out.bad);
	memcpy(copy, c->data, len);
	in = (struct rpc_input){.data = copy, .len = len, .owned = w->own_records ? copy : NULL};
	ret = rpc_dispatch(peer, &in);
	if (in.owned || !w->own_records)
		free(copy);
	return ret;
}

int call_send(struct world *w, const struct call *c)
{
	return call_send_by(w, &w->peer, c);
}

/* Takes len bytes off the queue. */
static void take_bytes(struct world *w, void *to, size_t len)
{
	uint8_t *p = to;

	while (len) {
		struct iovec iov;
		size_t n;

		CHECK(outq_front(&w->peer.out, &iov, 1) == 1);
		n = MIN(iov.iov_len, len);
		memcpy(p, iov.iov_base, n);
		outq_sent(&w->peer.out, &w->loop.out_pool, n);
		p += n;
		len -= n;
	}
}

static void parse_head(struct reply *r)
{
	wire_in_init(&r->in, r->data, r->len);
	r->xid = wire_get_u32(&r->in);
	CHECK(wire_get_u32(&r->in) == RPC_REPLY);
	r->denied = wire_get_bool(&r->in);
	if (!r->denied)
		CHECK(wire_get_u64(&r->in) == 0);
	r->stat = wire_get_u32(&r->in);
	CHECK(!r->in.bad);
}

bool reply_take(struct world *w, struct reply *r)
{
	uint32_t mark;

	if (!w->peer.out.bytes)
		return false;
	take_bytes(w, &mark, 4);
	mark = be32toh(mark);
	CHECK(mark >> 31);
	r->len = mark & 0x7fffffff;
	CHECK(r->len % 4 == 0 && r->len <= w->peer.out.bytes);
	r->data = malloc(r->len);
	CHECK(r->data);
	take_bytes(w, r->data, r->len);
	parse_head(r);
	return true;
}

void reply_wait(struct world *w, struct reply *r)
{
	while (!reply_take(w, r))
		wait_for_message(w);
}

void reply_free(struct reply *r)
{
	free(r->data);
	r->data = NULL;
}

void call_reply(struct world *w, const struct call *c, struct reply *r)
{
	CHECK(!call_send(w, c));
	CHECK(reply_take(w, r));
	CHECK(r->xid == w->xid && !r->denied && r->stat == RPC_SUCCESS);
}

void put_fh(struct wire_out *out, struct fsc_inode *inode)
{
	const struct fsc_attr *a = fake_attr(inode);
	struct fh_id id = {a->subvol, a->ino, a->generation};
	struct fsc_volume_info info;
	uint8_t fh[FH_BYTES];

	fsc_volume_info(NULL, &info);
	fh_encode(info.uuid, &id, fh);
	wire_put_opaque(out, fh, FH_BYTES);
}
