/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rpc/dispatch.c: RPC errors, the step to a worker, parked reads, and what is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "tests/server/rpc_client.h"

static const char *const one_export[] = {"/e=/,no_root_squash", NULL};

static struct world *begin(unsigned workers)
{
	struct world *w = world_begin(one_export, workers);

	might_wait_set_loop(true);
	return w;
}

static void end(struct world *w)
{
	might_wait_set_loop(false);
	atomic_store(&fake.async_reads, false);
	world_end(w);
}

/* The reply, which must be there at once. */
static void want_reply(struct world *w, const struct call *c, struct reply *r)
{
	assert_int_equal(call_send(w, c), 0);
	assert_true(reply_take(w, r));
}

static void want_stat(struct world *w, const struct call *c, uint32_t stat)
{
	struct reply r;

	want_reply(w, c, &r);
	assert_int_equal(r.xid, w->xid);
	assert_false(r.denied);
	assert_int_equal(r.stat, stat);
	reply_free(&r);
	assert_int_equal(w->peer.n_requests, 0);
}

static void test_dispatch_null_succeeds(void **state)
{
	struct world *w = begin(0);
	struct call c;

	(void)state;
	call_nfs3(w, &c, NFS3_NULL);
	want_stat(w, &c, RPC_SUCCESS);
	call_begin(w, &c, MOUNT3_PROGRAM, MOUNT3_NULL);
	want_stat(w, &c, RPC_SUCCESS);
	assert_int_equal(w->counters.op[0].calls, 1);
	assert_int_equal(w->counters.op[COUNTER_MOUNT3_FIRST].calls, 1);
	end(w);
}

static void test_dispatch_unknown_numbers_are_rpc_errors(void **state)
{
	struct world *w = begin(0);
	struct reply r;
	struct call c;

	(void)state;
	call_begin(w, &c, 100021, 0);
	want_stat(w, &c, RPC_PROG_UNAVAIL);
	call_nfs3(w, &c, NFS3_PROCS);
	want_stat(w, &c, RPC_PROC_UNAVAIL);
	call_nfs3(w, &c, UINT32_MAX);
	want_stat(w, &c, RPC_PROC_UNAVAIL);
	call_nfs3(w, &c, NFS3_GETATTR); /* without arguments */
	want_stat(w, &c, RPC_GARBAGE_ARGS);
	call_nfs3(w, &c, NFS3_NULL);
	wire_set_u32(c.data + 16, 4);
	want_reply(w, &c, &r);
	assert_int_equal(r.stat, RPC_PROG_MISMATCH);
	assert_int_equal(wire_get_u32(&r.in), 3);
	assert_int_equal(wire_get_u32(&r.in), 3);
	reply_free(&r);
	end(w);
}

static void test_dispatch_wrong_rpc_version_is_denied(void **state)
{
	struct world *w = begin(0);
	struct reply r;
	struct call c;

	(void)state;
	call_nfs3(w, &c, NFS3_NULL);
	wire_set_u32(c.data + 8, 3);
	want_reply(w, &c, &r);
	assert_true(r.denied);
	assert_int_equal(r.stat, 0); /* RPC_MISMATCH */
	assert_int_equal(wire_get_u32(&r.in), 2);
	assert_int_equal(wire_get_u32(&r.in), 2);
	assert_int_equal(wire_left(&r.in), 0);
	reply_free(&r);
	end(w);
}

static void test_dispatch_unknown_flavor_is_auth_error(void **state)
{
	struct world *w = begin(0);
	struct reply r;
	struct call c;

	(void)state;
	w->cred.flavor = 6;
	call_nfs3(w, &c, NFS3_NULL);
	want_reply(w, &c, &r);
	assert_true(r.denied);
	assert_int_equal(r.stat, 1); /* AUTH_ERROR */
	assert_int_equal(wire_get_u32(&r.in), RPC_AUTH_BADCRED);
	reply_free(&r);
	end(w);
}

static void test_dispatch_no_call_closes(void **state)
{
	struct world *w = begin(0);
	struct call c;

	(void)state;
	call_nfs3(w, &c, NFS3_NULL);
	wire_set_u32(c.data + 4, RPC_REPLY);
	assert_int_equal(call_send(w, &c), -EBADMSG);
	c.out.p = c.data + 12; /* cut short */
	wire_set_u32(c.data + 4, RPC_CALL);
	assert_int_equal(call_send(w, &c), -EBADMSG);
	assert_int_equal(w->peer.out.bytes, 0);
	end(w);
}

static void lookup_call(struct world *w, struct call *c, struct fsc_inode *dir, const char *name)
{
	call_nfs3(w, c, NFS3_LOOKUP);
	put_fh(&c->out, dir);
	wire_put_opaque(&c->out, name, (uint32_t)strlen(name));
}

static void test_dispatch_blocked_call_runs_on_worker(void **state)
{
	struct world *w = begin(2);
	struct op_counters *n = &w->counters.op[NFS3_LOOKUP];
	struct reply r;
	struct call c;

	(void)state;
	fake_make(fake_root(5), "file", S_IFREG | 0644);
	/* At the subvolume, at the handle, at the name. */
	for (int at = 0; at < 3; at++) {
		memset(&w->loop.thread.subvols, 0, sizeof(w->loop.thread.subvols));
		lookup_call(w, &c, fake_root(5), "file");
		atomic_store(&fake.block_skip, at);
		atomic_store(&fake.block, 1);
		assert_int_equal(call_send(w, &c), 0);
		assert_int_equal(w->peer.out.bytes, 0);
		reply_wait(w, &r);
		assert_int_equal(r.stat, RPC_SUCCESS);
		assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
		reply_free(&r);
	}
	assert_int_equal(n->calls, 3);
	assert_int_equal(n->done_worker, 3);
	assert_int_equal(n->done_inline, 0);
	assert_int_equal(n->blocked[FSC_BLOCKED_CACHE], 3);
	assert_int_equal(w->readies, 3);
	end(w);
}

static void read_call(
	struct world *w, struct call *c, struct fsc_inode *file, uint64_t off, uint32_t count)
{
	call_nfs3(w, c, NFS3_READ);
	put_fh(&c->out, file);
	wire_put_u64(&c->out, off);
	wire_put_u32(&c->out, count);
}

static const uint8_t content[10001] = {[0] = 1, [4095] = 2, [4096] = 3, [9999] = 4, [10000] = 5};

static struct fsc_inode *make_file(void)
{
	struct fsc_inode *f = fake_make(fake_root(5), "data", S_IFREG | 0644);

	fake_set_data(f, content, sizeof(content));
	return f;
}

/* Checks a READ reply against content, its length and its padding included. */
static void want_data(struct reply *r, uint64_t off, uint32_t count, bool eof)
{
	struct nfs3_post_attr attr;
	struct wire_blob data;

	assert_int_equal(r->stat, RPC_SUCCESS);
	assert_int_equal(wire_get_u32(&r->in), NFS3_OK);
	nfs3_get_post_attr(&r->in, &attr);
	assert_true(attr.present);
	assert_int_equal(attr.attr.size, sizeof(content));
	assert_int_equal(wire_get_u32(&r->in), count);
	assert_int_equal(wire_get_bool(&r->in), eof);
	wire_get_opaque(&r->in, UINT32_MAX, &data);
	assert_false(r->in.bad);
	assert_int_equal(wire_left(&r->in), 0);
	assert_int_equal(data.len, count);
	if (count)
		assert_memory_equal(data.data, content + off, count);
	for (size_t i = count; i < wire_padded(count); i++)
		assert_int_equal(data.data[i], 0);
	reply_free(r);
}

static void test_dispatch_read_sends_pieces_and_padding(void **state)
{
	static const struct {
		uint64_t off;
		uint32_t count, got;
		bool eof;
	} cases[] = {
		{0, 10, 10, false},
		{0, 4096, 4096, false},
		{1, 8191, 8191, false},
		{3, 9999, 9998, true},
		{0, 10001, 10001, true},
		{9999, 100, 2, true},
		{10001, 100, 0, true},
		{UINT64_MAX, 4096, 0, true},
		{0, 0, 0, false},
	};
	struct world *w = begin(0);
	struct fsc_inode *f = make_file();
	struct reply r;
	struct call c;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		read_call(w, &c, f, cases[i].off, cases[i].count);
		call_reply(w, &c, &r);
		want_data(&r, cases[i].off, cases[i].got, cases[i].eof);
	}
	end(w);
}

/* A READ that waits for its I/O. */
static void park_read(struct world *w, struct fsc_inode *file, uint64_t off, uint32_t count)
{
	struct call c;

	atomic_store(&fake.async_reads, true);
	read_call(w, &c, file, off, count);
	assert_int_equal(call_send(w, &c), 0);
}

static void test_dispatch_parked_read_completes(void **state)
{
	struct world *w = begin(0);
	struct fsc_inode *f = make_file();
	struct reply r;

	(void)state;
	park_read(w, f, 5, 9000);
	assert_false(reply_take(w, &r));
	assert_int_equal(w->peer.n_requests, 1);
	assert_true(w->peer.request_bytes >= 9000);
	assert_int_equal(fake_end_reads(w->fsc, 0), 1);
	assert_int_equal(w->readies, 1);
	assert_true(reply_take(w, &r));
	want_data(&r, 5, 9000, false);
	assert_int_equal(w->counters.op[NFS3_READ].done_async, 1);
	end(w);
}

static void test_dispatch_parked_read_fails(void **state)
{
	struct world *w = begin(0);
	struct fsc_inode *f = make_file();
	struct reply r;

	(void)state;
	park_read(w, f, 0, 4096);
	fake_end_reads(w->fsc, -EIO);
	assert_true(reply_take(w, &r));
	assert_int_equal(wire_get_u32(&r.in), NFS3ERR_IO);
	assert_int_equal(wire_left(&r.in), NFS3_POST_ATTR_BYTES);
	reply_free(&r);
	end(w);
}

static void test_dispatch_parked_read_goes_on_to_worker(void **state)
{
	struct world *w = begin(1);
	struct fsc_inode *f = make_file();
	struct reply r;

	(void)state;
	park_read(w, f, 1, 5000);
	fake_end_reads(w->fsc, -EAGAIN);
	reply_wait(w, &r);
	want_data(&r, 1, 5000, false);
	assert_int_equal(w->counters.op[NFS3_READ].done_worker, 1);
	end(w);
}

#define JUNK (1u << 20)

/* A GETATTR with junk behind its arguments, in memory that is taken over. */
static void send_with_junk(struct world *w)
{
	struct rpc_input in = {.len = JUNK, .owned_bytes = JUNK};
	struct call c;

	call_nfs3(w, &c, NFS3_GETATTR);
	put_fh(&c.out, fake_root(5));
	in.data = in.owned = calloc(1, JUNK);
	assert_non_null(in.owned);
	memcpy(in.owned, c.data, (size_t)(c.out.p - c.data));
	assert_int_equal(rpc_dispatch(&w->peer, &in), 0);
	assert_null(in.owned);
}

static void test_dispatch_held_records_are_charged_whole(void **state)
{
	struct world *w = begin(1);

	(void)state;
	hold_worker(w);
	atomic_store(&fake.block, 200);
	for (int i = 0; i < 200; i++)
		send_with_junk(w);
	assert_int_equal(w->peer.n_requests, 200);
	assert_true(w->peer.request_bytes >= 200 * (size_t)JUNK);
	assert_true(w->loop.request_bytes >= 200 * (size_t)JUNK);
	let_workers_go(w);
	wait_for_requests(w, &w->peer);
	assert_int_equal(w->peer.request_bytes, 0);
	end(w);
}

static void test_dispatch_peer_closed_while_parked_gives_back(void **state)
{
	struct world *w = begin(1);
	struct fsc_inode *f = make_file();
	struct call c;

	(void)state;
	park_read(w, f, 0, 4096);
	park_read(w, f, 0, 4096);
	atomic_store(&fake.block, 1);
	lookup_call(w, &c, fake_root(5), "data");
	assert_int_equal(call_send(w, &c), 0);
	rpc_peer_close(&w->peer);
	fake_end_reads(w->fsc, 0);
	while (w->peer.n_requests)
		fsc_thread_reap(w->fsc);
	assert_int_equal(w->peer.out.bytes, 0);
	assert_int_equal(w->readies, 3);
	end(w);
}

static void test_dispatch_peer_closed_with_unsent_data_gives_back(void **state)
{
	struct world *w = begin(0);
	struct fsc_inode *f = make_file();
	struct call c;

	(void)state;
	for (int i = 0; i < 200; i++) {
		read_call(w, &c, f, 0, 9001);
		assert_int_equal(call_send(w, &c), 0);
	}
	assert_int_equal(w->peer.n_requests, 200);
	assert_int_equal(atomic_load(&fake.reads), 200);
	rpc_peer_close(&w->peer);
	assert_int_equal(w->peer.n_requests, 0);
	end(w);
}

/* A failure must not carry what an earlier reply left in the memory it uses. */
static void test_dispatch_error_bodies_are_exact(void **state)
{
	static const struct {
		uint32_t proc, stat_bytes;
	} cases[] = {
		{NFS3_GETATTR, 4},
		{NFS3_READLINK, 8},
		{NFS3_FSSTAT, 8},
		{NFS3_FSINFO, 8},
		{NFS3_PATHCONF, 8},
	};
	static const uint8_t junk[7] = "junkfh";
	struct world *w = begin(0);
	struct reply r;
	struct call c;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		call_nfs3(w, &c, cases[i].proc);
		wire_put_opaque(&c.out, junk, sizeof(junk));
		call_reply(w, &c, &r);
		assert_int_equal(wire_left(&r.in), cases[i].stat_bytes);
		assert_int_equal(wire_get_u32(&r.in), NFS3ERR_BADHANDLE);
		while (wire_left(&r.in))
			assert_int_equal(wire_get_u32(&r.in), 0);
		reply_free(&r);
	}
	end(w);
}

static void test_dispatch_many_replies_in_one_queue(void **state)
{
	struct world *w = begin(0);
	struct fsc_inode *f = make_file();
	struct reply r;
	struct call c;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		if (i % 3)
			lookup_call(w, &c, fake_root(5), "data");
		else
			read_call(w, &c, f, 0, i % 2 ? 5000 : 50);
		assert_int_equal(call_send(w, &c), 0);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		assert_true(reply_take(w, &r));
		assert_int_equal(r.xid, i + 1);
		assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
		reply_free(&r);
	}
	assert_false(reply_take(w, &r));
	end(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dispatch_null_succeeds),
		cmocka_unit_test(test_dispatch_unknown_numbers_are_rpc_errors),
		cmocka_unit_test(test_dispatch_wrong_rpc_version_is_denied),
		cmocka_unit_test(test_dispatch_unknown_flavor_is_auth_error),
		cmocka_unit_test(test_dispatch_no_call_closes),
		cmocka_unit_test(test_dispatch_blocked_call_runs_on_worker),
		cmocka_unit_test(test_dispatch_read_sends_pieces_and_padding),
		cmocka_unit_test(test_dispatch_parked_read_completes),
		cmocka_unit_test(test_dispatch_parked_read_fails),
		cmocka_unit_test(test_dispatch_parked_read_goes_on_to_worker),
		cmocka_unit_test(test_dispatch_held_records_are_charged_whole),
		cmocka_unit_test(test_dispatch_peer_closed_while_parked_gives_back),
		cmocka_unit_test(test_dispatch_peer_closed_with_unsent_data_gives_back),
		cmocka_unit_test(test_dispatch_error_bodies_are_exact),
		cmocka_unit_test(test_dispatch_many_replies_in_one_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
