/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rpc/replay.c, alone and behind the dispatcher: who gets which answer, and what is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/util.h"
#include "tests/server/nfs3_client.h"

static const char *const exports[] = {"/e=/,rw,no_root_squash", NULL};

static const struct nfs3_sattr nothing;

/* A call that must not run twice; the tests send it again with the same xid. */
static void remove_call(struct world *w, struct call *c, const char *name)
{
	call_nfs3(w, c, NFS3_REMOVE);
	put_dirop(&c->out, fake_root(5), name);
}

static uint32_t send_again(struct world *w, const struct call *c, uint32_t xid)
{
	struct nfs3_seen seen;
	struct reply r;

	assert_int_equal(call_send(w, c), 0);
	assert_true(reply_take(w, &r));
	assert_int_equal(r.xid, xid);
	see_reply(&r, NFS3_REMOVE, &seen);
	reply_free(&r);
	return seen.stat;
}

static struct world *begin(void)
{
	struct world *w = world_begin(exports, 0);

	w->cred.uid = 0;
	fake_make(fake_root(5), "f", S_IFREG | 0644);
	return w;
}

static void test_replay_gives_the_first_answer(void **state)
{
	struct world *w = begin();
	struct call c;
	int changes;

	(void)state;
	remove_call(w, &c, "f");
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
	changes = atomic_load(&fake.changes);
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
	/* Its connection was lost: it comes from another port. */
	world_reconnect(w, false);
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
	assert_int_equal(atomic_load(&fake.changes), changes);
	assert_int_equal(w->counters.op[NFS3_REMOVE].calls, 1);
	/* An error is an answer as well. */
	remove_call(w, &c, "none");
	assert_int_equal(send_again(w, &c, w->xid), NFS3ERR_NOENT);
	fake_make(fake_root(5), "none", S_IFREG | 0644);
	assert_int_equal(send_again(w, &c, w->xid), NFS3ERR_NOENT);
	world_end(w);
}

static void test_replay_not_after_an_orderly_end(void **state)
{
	struct world *w = begin();
	struct call c;

	(void)state;
	remove_call(w, &c, "f");
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
	world_reconnect(w, true);
	assert_int_equal(send_again(w, &c, w->xid), NFS3ERR_NOENT);
	world_end(w);
}

static void test_replay_never_for_others(void **state)
{
	struct world *w = begin();
	struct call c;
	uint32_t xid;

	(void)state;
	remove_call(w, &c, "f");
	xid = w->xid;
	assert_int_equal(send_again(w, &c, xid), NFS3_OK);
	/* Another user, another group, other arguments, another address. */
	w->cred.uid = 1000;
	w->xid = xid - 1;
	remove_call(w, &c, "f");
	assert_int_equal(send_again(w, &c, xid), NFS3ERR_ACCES);
	w->cred.uid = 0;
	w->cred.n_gids = 1;
	w->cred.gids[0] = 0;
	w->xid = xid - 1;
	remove_call(w, &c, "f");
	assert_int_equal(send_again(w, &c, xid), NFS3ERR_NOENT);
	w->cred.n_gids = 0;
	w->xid = xid - 1;
	remove_call(w, &c, "g");
	assert_int_equal(send_again(w, &c, xid), NFS3ERR_NOENT);
	w->xid = xid - 1;
	remove_call(w, &c, "f");
	w->peer.addr.ip[15] ^= 1;
	assert_int_equal(send_again(w, &c, xid), NFS3ERR_NOENT);
	world_end(w);
}

static void ready(struct rpc_peer *peer)
{
	assert_true(peer->out.bytes > 0);
}

static void test_replay_while_the_first_still_runs(void **state)
{
	struct world *w = begin();
	struct rpc_peer second;
	struct reply r;
	struct call c;

	(void)state;
	rpc_peer_init(&second, &w->loop, &w->peer.addr, ready);
	atomic_store(&fake.async_syncs, true);
	remove_call(w, &c, "f");
	assert_int_equal(call_send(w, &c), 0);
	/* On the connection that it came on, and on another. */
	assert_int_equal(call_send(w, &c), 0);
	assert_int_equal(call_send_by(w, &second, &c), 0);
	assert_int_equal(w->peer.n_requests, 2);
	assert_int_equal(second.n_requests, 1);
	/* Those that wait count, too. */
	assert_true(w->peer.request_bytes >= 2 * sizeof(struct request));
	assert_true(second.request_bytes >= sizeof(struct request));
	assert_int_equal(fake_end_syncs(0), 1);
	fsc_thread_reap(w->fsc);
	for (int i = 0; i < 2; i++) {
		assert_true(reply_take(w, &r));
		assert_int_equal(r.xid, w->xid);
		assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
		reply_free(&r);
	}
	assert_true(second.out.bytes > 0);
	assert_int_equal(second.n_requests, 0);
	rpc_peer_close(&second);
	assert_int_equal(w->counters.op[NFS3_REMOVE].calls, 1);
	atomic_store(&fake.async_syncs, false);
	world_end(w);
}

/* The answer is kept though nobody was there to get it. */
static void test_replay_after_the_connection_was_lost(void **state)
{
	struct world *w = begin();
	struct call c;

	(void)state;
	atomic_store(&fake.async_syncs, true);
	remove_call(w, &c, "f");
	assert_int_equal(call_send(w, &c), 0);
	rpc_peer_close(&w->peer);
	fake_end_syncs(0);
	atomic_store(&fake.async_syncs, false);
	world_reconnect(w, false);
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
	world_end(w);
}

static void test_replay_not_of_what_was_not_done(void **state)
{
	struct world *w = begin();
	struct call c;

	(void)state;
	assert_int_equal(do_mkdir(w, fake_root(5), "d", &nothing, NULL), NFS3_OK);
	remove_call(w, &c, "f");
	atomic_store(&fake.fail, -ENOMEM);
	assert_int_equal(send_again(w, &c, w->xid), NFS3ERR_JUKEBOX);
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
	world_end(w);
}

/* ------------------------------------------------------------- the cache alone */

static enum replay_found ask(
	struct replay_cache *cache, uint32_t xid, uint64_t now_ns, struct replay_entry **out)
{
	static const uint8_t ip[16] = {1}, args[] = "arguments";
	struct replay_waiter waiter = {NULL, NULL};
	struct rpc_call call = {.xid = xid};
	struct replay_call c = {
		.ip = ip, .call = &call, .args = args, .args_len = sizeof(args), .now_ns = now_ns};

	return replay_begin(cache, &c, &waiter, out);
}

static void test_replay_cache_is_bounded_and_the_oldest_goes(void **state)
{
	uint8_t reply[REPLAY_REPLY_BYTES] = {0};
	struct replay_entry *e, *held;
	struct replay_cache *cache;
	struct replay_stats st;
	size_t len;

	(void)state;
	assert_int_equal(replay_cache_create(&cache), 0);
	for (uint32_t i = 0; i < 4 * REPLAY_ENTRIES; i++) {
		assert_int_equal(ask(cache, i, 1, &e), REPLAY_NEW);
		wire_set_u32(reply, i);
		replay_end(e, reply, sizeof(reply), true, 1);
		if (!i)
			assert_int_equal(ask(cache, 0, 1, &held), REPLAY_DONE);
	}
	replay_cache_stats(cache, &st);
	assert_int_equal(st.entries, REPLAY_ENTRIES);
	assert_int_equal(ask(cache, 4 * REPLAY_ENTRIES - 1, 1, &e), REPLAY_DONE);
	assert_int_equal(replay_reply(e, &len)[3], 0xff);
	replay_put(e);
	assert_int_equal(ask(cache, 1, 1, &e), REPLAY_NEW);
	replay_end(e, reply, 4, true, 1);
	/* What is being sent stays as it is. */
	assert_int_equal(replay_reply(held, &len)[3], 0);
	assert_int_equal(len, sizeof(reply));
	replay_put(held);
	replay_cache_destroy(cache);
}

static void test_replay_cache_answers_age(void **state)
{
	const uint64_t life = REPLAY_SECONDS * 1000000000ull;
	struct replay_cache *cache;
	struct replay_entry *e;

	(void)state;
	assert_int_equal(replay_cache_create(&cache), 0);
	assert_int_equal(ask(cache, 1, 1, &e), REPLAY_NEW);
	/* The first run took long, which may be why the client asks again. */
	replay_end(e, (const uint8_t *)"answer", 6, true, 2 * life);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask(cache, 1, (2 + (uint64_t)i) * life, &e), REPLAY_DONE);
		replay_put(e);
	}
	assert_int_equal(ask(cache, 1, 3 * life + 1, &e), REPLAY_NEW);
	replay_end(e, (const uint8_t *)"answer", 6, true, 3 * life);
	replay_cache_destroy(cache);
}

/* What runs is never given up for others: these then have no entry. */
static void test_replay_cache_full_of_running(void **state)
{
	static struct replay_entry *running[2 * REPLAY_ENTRIES];
	struct replay_cache *cache;
	struct replay_stats st;
	unsigned none = 0;

	(void)state;
	assert_int_equal(replay_cache_create(&cache), 0);
	for (uint32_t i = 0; i < 2 * REPLAY_ENTRIES; i++)
		if (ask(cache, i, 1, &running[i]) == REPLAY_NO_ROOM) {
			running[i] = NULL;
			none++;
		}
	assert_int_equal(none, REPLAY_ENTRIES);
	replay_cache_stats(cache, &st);
	assert_int_equal(st.no_room, REPLAY_ENTRIES);
	for (uint32_t i = 0; i < 2 * REPLAY_ENTRIES; i++)
		if (running[i])
			replay_end(running[i], (const uint8_t *)"x", 1, true, 1);
	replay_cache_destroy(cache);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay_gives_the_first_answer),
		cmocka_unit_test(test_replay_not_after_an_orderly_end),
		cmocka_unit_test(test_replay_never_for_others),
		cmocka_unit_test(test_replay_while_the_first_still_runs),
		cmocka_unit_test(test_replay_after_the_connection_was_lost),
		cmocka_unit_test(test_replay_not_of_what_was_not_done),
		cmocka_unit_test(test_replay_cache_is_bounded_and_the_oldest_goes),
		cmocka_unit_test(test_replay_cache_answers_age),
		cmocka_unit_test(test_replay_cache_full_of_running),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
