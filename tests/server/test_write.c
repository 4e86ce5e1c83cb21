/* SPDX-License-Identifier: GPL-2.0-or-later */
/* server/nfs3/write.c and the parking of rpc/dispatch.c on the fake core: data, durability, verifier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/util.h"
#include "tests/server/nfs3_client.h"

static const char *const exports[] = {"/e=/,rw,no_root_squash", NULL};

static struct fsc_inode *make_file(uint32_t mode, uint32_t uid)
{
	struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | mode);

	fake_attr(f)->uid = uid;
	return f;
}

static void want_data(struct fsc_inode *f, const char *text, size_t want_len)
{
	const uint8_t *data;
	size_t len;

	data = fake_data(f, &len);
	assert_int_equal(len, want_len);
	assert_memory_equal(data, text, want_len);
}

static void test_write_unstable(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0666, 1);
	int syncs = atomic_load(&fake.syncs_inode);
	struct nfs3_seen seen;

	(void)state;
	assert_int_equal(do_write(w, f, 2, NFS3_UNSTABLE, "abc", 3, &seen), NFS3_OK);
	want_data(f, "\0\0abc", 5);
	assert_int_equal(seen.count, 3);
	assert_int_equal(seen.committed, NFS3_UNSTABLE);
	assert_true(seen.wcc[0].has_before && seen.wcc[0].size == 0);
	assert_int_equal(seen.wcc[0].after.attr.size, 5);
	assert_int_equal(atomic_load(&fake.syncs_inode), syncs);
	assert_int_equal(do_write(w, f, 1, NFS3_UNSTABLE, "", 0, &seen), NFS3_OK);
	assert_int_equal(seen.count, 0);
	assert_int_equal(do_write(w, f, INT64_MAX, NFS3_UNSTABLE, "a", 1, NULL), NFS3ERR_FBIG);
	assert_int_equal(do_write(w, f, UINT64_MAX, NFS3_UNSTABLE, "a", 1, NULL), NFS3ERR_FBIG);
	world_end(w);
}

static void test_write_permissions_and_kinds(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0, 1000);

	(void)state;
	assert_int_equal(do_write(w, f, 0, NFS3_UNSTABLE, "a", 1, NULL), NFS3_OK);
	w->cred.uid = 1001;
	assert_int_equal(do_write(w, f, 0, NFS3_UNSTABLE, "a", 1, NULL), NFS3ERR_ACCES);
	w->cred.uid = 0;
	assert_int_equal(do_write(w, f, 0, NFS3_UNSTABLE, "a", 1, NULL), NFS3_OK);
	assert_int_equal(do_write(w, fake_root(5), 0, NFS3_UNSTABLE, "a", 1, NULL), NFS3ERR_INVAL);
	assert_int_equal(do_commit(w, fake_root(5), NULL), NFS3ERR_INVAL);
	world_end(w);
}

static void test_write_count_and_data_may_differ(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0666, 0);
	struct reply r;
	struct call c;

	(void)state;
	call_nfs3(w, &c, NFS3_WRITE);
	put_fh(&c.out, f);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, 2);
	wire_put_u32(&c.out, NFS3_UNSTABLE);
	wire_put_opaque(&c.out, "abcd", 4);
	call_reply(w, &c, &r);
	assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
	reply_free(&r);
	want_data(f, "ab", 2);
	call_nfs3(w, &c, NFS3_WRITE);
	put_fh(&c.out, f);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, 5);
	wire_put_u32(&c.out, NFS3_UNSTABLE);
	wire_put_opaque(&c.out, "abcd", 4);
	assert_int_equal(call_send(w, &c), 0);
	assert_true(reply_take(w, &r));
	assert_int_equal(r.stat, RPC_GARBAGE_ARGS);
	reply_free(&r);
	world_end(w);
}

static void send_write(struct world *w, struct fsc_inode *f, enum nfs3_stable stable)
{
	struct call c;

	call_nfs3(w, &c, NFS3_WRITE);
	put_write(&c.out, f, 0, stable, "data", 4);
	assert_int_equal(call_send(w, &c), 0);
}

static void test_write_stable_waits_without_a_thread(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0666, 0);
	struct nfs3_seen seen;
	struct reply r;

	(void)state;
	might_wait_set_loop(true);
	atomic_store(&fake.async_syncs, true);
	send_write(w, f, NFS3_FILE_SYNC);
	send_write(w, f, NFS3_DATA_SYNC);
	assert_false(reply_take(w, &r));
	assert_int_equal(w->peer.n_requests, 2);
	assert_int_equal(fake_end_syncs(0), 2);
	assert_int_equal(w->readies, 2);
	for (int i = 0; i < 2; i++) {
		assert_true(reply_take(w, &r));
		see_reply(&r, NFS3_WRITE, &seen);
		assert_int_equal(seen.stat, NFS3_OK);
		assert_int_equal(seen.committed, r.xid == w->xid ? NFS3_DATA_SYNC : NFS3_FILE_SYNC);
		reply_free(&r);
	}
	assert_int_equal(w->counters.op[NFS3_WRITE].parked_sync, 2);
	atomic_store(&fake.async_syncs, false);
	might_wait_set_loop(false);
	world_end(w);
}

/* From the worker, too, it goes back to the loop before it waits. */
static void test_write_blocked_and_stable(void **state)
{
	struct world *w = world_begin(exports, 1);
	struct fsc_inode *f = make_file(0666, 0);
	struct nfs3_seen seen;
	struct reply r;

	(void)state;
	for (int own = 0; own < 2; own++) {
		w->own_records = own;
		atomic_store(&fake.async_syncs, true);
		atomic_store(&fake.block, 1);
		send_write(w, f, NFS3_FILE_SYNC);
		while (!fake_end_syncs(0)) {
			assert_false(reply_take(w, &r));
			fsc_thread_reap(w->fsc);
		}
		assert_true(reply_take(w, &r));
		see_reply(&r, NFS3_WRITE, &seen);
		reply_free(&r);
		assert_int_equal(seen.stat, NFS3_OK);
		want_data(f, "data", 4);
	}
	assert_int_equal(w->counters.op[NFS3_WRITE].done_worker, 2);
	atomic_store(&fake.async_syncs, false);
	world_end(w);
}

static void test_sync_errors(void **state)
{
	static const struct {
		int status;
		uint32_t stat;
	} cases[] = {
		{-EIO, NFS3ERR_IO},
		{-EROFS, NFS3ERR_IO},
		{-ENOSPC, NFS3ERR_NOSPC},
		{-EDQUOT, NFS3ERR_DQUOT},
	};
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0666, 1000);
	struct nfs3_sattr s = {.set_mode = true, .mode = 0600};
	struct nfs3_seen seen;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		atomic_store(&fake.sync_status, cases[i].status);
		assert_int_equal(do_write(w, f, 0, NFS3_FILE_SYNC, "a", 1, &seen), cases[i].stat);
		assert_true(seen.wcc[0].after.present);
		atomic_store(&fake.sync_status, cases[i].status);
		assert_int_equal(do_commit(w, f, &seen), cases[i].stat);
		assert_true(seen.wcc[0].after.present);
		atomic_store(&fake.sync_status, cases[i].status);
		assert_int_equal(do_setattr(w, f, &s, NULL, &seen), cases[i].stat);
		assert_true(seen.wcc[0].after.present);
	}
	world_end(w);
}

static void test_verifier_changes_when_data_was_lost(void **state)
{
	struct world *w = world_begin(exports, 0), *other;
	struct fsc_inode *f = make_file(0666, 1000);
	struct nfs3_seen a, b;

	(void)state;
	assert_int_equal(do_write(w, f, 0, NFS3_UNSTABLE, "a", 1, &a), NFS3_OK);
	assert_int_equal(do_write(w, f, 0, NFS3_FILE_SYNC, "a", 1, &b), NFS3_OK);
	assert_true(a.verf == b.verf);
	assert_int_equal(do_commit(w, f, &b), NFS3_OK);
	assert_true(a.verf == b.verf);
	/* That it can't be made durable now does not mean that it is lost. */
	atomic_store(&fake.sync_status, -ENOMEM);
	assert_int_equal(do_commit(w, f, &b), NFS3ERR_IO);
	assert_int_equal(do_commit(w, f, &b), NFS3_OK);
	assert_true(a.verf == b.verf);
	/* As the core says it. */
	write_verf_renew(&w->srv.write_verf);
	assert_int_equal(do_commit(w, f, &b), NFS3_OK);
	assert_true(a.verf != b.verf);
	assert_int_equal(do_write(w, f, 0, NFS3_UNSTABLE, "a", 1, &a), NFS3_OK);
	assert_true(a.verf == b.verf);
	world_end(w);
	/* Another start, another verifier. */
	other = world_begin(exports, 0);
	f = make_file(0666, 1000);
	assert_int_equal(do_commit(other, f, &b), NFS3_OK);
	assert_true(a.verf != b.verf);
	world_end(other);
}

/* A loss between the write and its COMMIT shows, even when the COMMIT has begun before it. */
static void test_verifier_of_commit_is_of_its_end(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0666, 1000);
	struct nfs3_seen a, b;
	struct reply r;
	struct call c;

	(void)state;
	assert_int_equal(do_write(w, f, 0, NFS3_UNSTABLE, "a", 1, &a), NFS3_OK);
	atomic_store(&fake.async_syncs, true);
	call_nfs3(w, &c, NFS3_COMMIT);
	put_fh(&c.out, f);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, 0);
	assert_int_equal(call_send(w, &c), 0);
	write_verf_renew(&w->srv.write_verf);
	fake_end_syncs(0);
	assert_true(reply_take(w, &r));
	see_reply(&r, NFS3_COMMIT, &b);
	reply_free(&r);
	assert_int_equal(b.stat, NFS3_OK);
	assert_true(a.verf != b.verf);
	atomic_store(&fake.async_syncs, false);
	world_end(w);
}

static void test_write_on_async_export_is_stable_when_asked(void **state)
{
	static const char *const async[] = {"/e=/,rw,async,no_root_squash", NULL};
	struct world *w = world_begin(async, 0);
	struct fsc_inode *f = make_file(0666, 0);
	int syncs = atomic_load(&fake.syncs_inode);

	(void)state;
	assert_int_equal(do_write(w, f, 0, NFS3_FILE_SYNC, "a", 1, NULL), NFS3_OK);
	assert_int_equal(do_commit(w, f, NULL), NFS3_OK);
	assert_int_equal(atomic_load(&fake.syncs_inode), syncs + 2);
	world_end(w);
}

static void test_peer_closed_while_parked_on_a_sync(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0666, 0);

	(void)state;
	atomic_store(&fake.async_syncs, true);
	send_write(w, f, NFS3_FILE_SYNC);
	rpc_peer_close(&w->peer);
	assert_int_equal(w->peer.n_requests, 1);
	fake_end_syncs(0);
	assert_int_equal(w->peer.n_requests, 0);
	assert_int_equal(w->readies, 1);
	atomic_store(&fake.async_syncs, false);
	world_end(w);
}

static void ready(struct rpc_peer *peer)
{
	(void)peer;
}

static void write_call(struct world *w, struct call *c, struct fsc_inode *f, const char *text)
{
	call_nfs3(w, c, NFS3_WRITE);
	put_write(&c->out, f, 0, NFS3_UNSTABLE, text, (uint32_t)strlen(text));
}

/*
 * The first run waits for a worker, its connection is lost, and the client sends it again: it is
 * answered after the first run only, so that what the client writes next stays.
 */
static void test_write_again_waits_for_the_first_run(void **state)
{
	struct world *w = world_begin(exports, 1);
	struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | 0666);
	struct rpc_peer second;
	struct call old, new;
	const uint8_t *data;
	size_t len;

	(void)state;
	hold_worker(w);
	write_call(w, &old, f, "old!");
	atomic_store(&fake.block, 1);
	assert_int_equal(call_send(w, &old), 0);
	rpc_peer_close(&w->peer);
	rpc_peer_init(&second, &w->loop, &w->peer.addr, ready);
	assert_int_equal(call_send_by(w, &second, &old), 0);
	assert_int_equal(second.n_requests, 1);
	assert_int_equal(second.out.bytes, 0);
	let_workers_go(w);
	wait_for_requests(w, &second);
	assert_true(second.out.bytes > 0);
	assert_int_equal(w->peer.n_requests, 0);
	write_call(w, &new, f, "new!");
	assert_int_equal(call_send_by(w, &second, &new), 0);
	/* Once more the first: a copy of it was on its way all the time. */
	assert_int_equal(call_send_by(w, &second, &old), 0);
	assert_int_equal(second.n_requests, 0);
	data = fake_data(f, &len);
	assert_int_equal(len, 4);
	assert_memory_equal(data, "new!", 4);
	assert_int_equal(w->counters.op[NFS3_WRITE].calls, 2);
	rpc_peer_close(&second);
	world_end(w);
}

/* The same xid for other data is another call: at the beginning, at the end, of another length. */
static void test_write_of_other_data_is_not_the_same_call(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | 0666);
	static char text[4][4001];
	struct reply r;
	struct call c;

	(void)state;
	for (int i = 0; i < 4; i++)
		memset(text[i], 'a', 4000);
	text[1][0] = 'b';
	text[2][3999] = 'b';
	text[3][3999] = '\0';
	for (unsigned i = 0; i < 4; i++) {
		for (int again = 0; again < 2; again++) {
			w->xid = 1000;
			write_call(w, &c, f, text[i]);
			call_reply(w, &c, &r);
			reply_free(&r);
		}
		assert_int_equal(w->counters.op[NFS3_WRITE].calls, i + 1);
	}
	world_end(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_unstable),
		cmocka_unit_test(test_write_permissions_and_kinds),
		cmocka_unit_test(test_write_count_and_data_may_differ),
		cmocka_unit_test(test_write_stable_waits_without_a_thread),
		cmocka_unit_test(test_write_blocked_and_stable),
		cmocka_unit_test(test_sync_errors),
		cmocka_unit_test(test_verifier_changes_when_data_was_lost),
		cmocka_unit_test(test_verifier_of_commit_is_of_its_end),
		cmocka_unit_test(test_write_on_async_export_is_stable_when_asked),
		cmocka_unit_test(test_peer_closed_while_parked_on_a_sync),
		cmocka_unit_test(test_write_again_waits_for_the_first_run),
		cmocka_unit_test(test_write_of_other_data_is_not_the_same_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
