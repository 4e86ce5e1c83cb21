/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rpc/replay.c, alone and behind the dispatcher: who gets which answer, and what is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <string.h>
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

/* The host had the answer, the client may have given up just before it took it. */
static void test_replay_after_an_orderly_end_from_the_same_port(void **state)
{
	struct world *w = begin();
	struct call c;

	(void)state;
	remove_call(w, &c, "f");
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
	w->peer.addr.port--;
	world_reconnect(w, true);
	assert_int_equal(send_again(w, &c, w->xid), NFS3_OK);
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
	world_reconnect(w, false);
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

#define MEMORY (1u << 20)
/* More answers of a kind than fit. */
#define MANY 13000u

/* A connection of a client to the cache. */
struct asker {
	struct replay_cache *cache;
	struct replay_origin *origin;
	enum replay_kind kind;
};

static struct asker asker(struct replay_cache *cache, uint8_t host, enum replay_kind kind)
{
	const uint8_t ip[16] = {host};
	struct asker a = {cache, replay_origin_create(cache, ip, 1), kind};

	assert_non_null(a.origin);
	return a;
}

static enum replay_found ask(
	const struct asker *a, uint32_t xid, uint64_t now_ns, struct replay_entry **out)
{
	static const uint8_t args[] = "arguments";
	struct replay_waiter waiter = {NULL, NULL};
	struct rpc_call call = {.xid = xid};
	struct replay_call c = {.origin = a->origin,
		.kind = a->kind,
		.call = &call,
		.args = args,
		.args_len = sizeof(args),
		.now_ns = now_ns};

	return replay_begin(a->cache, &c, &waiter, out);
}

/* So many new calls, each with its xid as the answer. */
static void answer(const struct asker *a, uint32_t first_xid, uint32_t n, uint64_t now_ns)
{
	uint8_t reply[REPLAY_REPLY_BYTES] = {0};
	struct replay_entry *e;

	for (uint32_t i = first_xid; i < first_xid + n; i++) {
		assert_int_equal(ask(a, i, now_ns, &e), REPLAY_NEW);
		wire_set_u32(reply, i);
		replay_end(e, reply, REPLAY_DATA_REPLY_BYTES, true, now_ns);
	}
}

/* How many of these calls have their answer. Those that have none get one now. */
static uint32_t answered(const struct asker *a, uint32_t first_xid, uint32_t n, uint64_t now_ns)
{
	uint32_t found = 0, xid;
	struct replay_entry *e;
	size_t len;

	for (uint32_t i = first_xid; i < first_xid + n; i++) {
		if (ask(a, i, now_ns, &e) != REPLAY_DONE) {
			replay_end(e, (const uint8_t *)"", 1, false, now_ns);
			continue;
		}
		memcpy(&xid, replay_reply(e, &len), 4);
		assert_int_equal(be32toh(xid), i);
		replay_put(e);
		found++;
	}
	return found;
}

static void test_replay_cache_is_bounded_and_the_oldest_goes(void **state)
{
	struct replay_entry *held;
	struct replay_cache *cache;
	struct replay_stats st;
	struct asker a;
	uint32_t xid;
	size_t len;

	(void)state;
	assert_int_equal(replay_cache_create(MEMORY, &cache), 0);
	for (unsigned kind = 0; kind < REPLAY_KINDS; kind++) {
		size_t bound = kind == REPLAY_DATA ? MEMORY / 4 : MEMORY - MEMORY / 4;

		a = asker(cache, (uint8_t)kind, kind);
		answer(&a, 0, 1, 1);
		assert_int_equal(ask(&a, 0, 1, &held), REPLAY_DONE);
		answer(&a, 1, MANY, 1);
		replay_cache_stats(cache, &st);
		assert_true(st.bytes[kind] <= bound);
		/* A client alone has a shard's share of it. */
		assert_true(st.bytes[kind] > bound / 8 - REPLAY_ENTRY_BYTES);
		assert_int_equal(answered(&a, MANY - 50, 51, 1), 51);
		assert_int_equal(answered(&a, 0, 2, 1), 0);
		/* What is being sent stays as it is. */
		memcpy(&xid, replay_reply(held, &len), 4);
		assert_int_equal(xid, 0);
		assert_int_equal(len, REPLAY_DATA_REPLY_BYTES);
		replay_put(held);
		replay_origin_close(a.origin, false);
	}
	replay_cache_destroy(cache);
}

/* All clients fit in the memory; so do all shards together. */
static void test_replay_cache_is_bounded_for_many_clients(void **state)
{
	struct replay_cache *cache;
	struct replay_stats st;

	(void)state;
	assert_int_equal(replay_cache_create(MEMORY, &cache), 0);
	for (unsigned host = 0; host < 200; host++) {
		struct asker a = asker(cache, (uint8_t)host, REPLAY_NAMES);

		answer(&a, 0, 100, 1);
		replay_origin_close(a.origin, host % 2);
	}
	replay_cache_stats(cache, &st);
	assert_true(st.bytes[REPLAY_NAMES] <= MEMORY - MEMORY / 4);
	assert_true(st.bytes[REPLAY_NAMES] > MEMORY / 2);
	replay_cache_destroy(cache);
}

static void test_replay_cache_busy_client_takes_nothing_from_others(void **state)
{
	struct replay_cache *cache;

	(void)state;
	assert_int_equal(replay_cache_create(4 * MEMORY, &cache), 0);
	/* Whatever shards they fall into. */
	for (uint8_t host = 1; host < 40; host++) {
		struct asker quiet = asker(cache, 100, REPLAY_NAMES);
		struct asker busy = asker(cache, host, REPLAY_NAMES);

		answer(&quiet, host * 100u, 20, 1);
		answer(&busy, 0, MANY / 8, 1);
		assert_int_equal(answered(&quiet, host * 100u, 20, 1), 20);
		replay_origin_close(busy.origin, true);
		replay_origin_close(quiet.origin, true);
	}
	replay_cache_destroy(cache);
}

/* A client with many connections lost one; the others go on. */
static void test_replay_cache_busy_connection_takes_nothing_from_the_lost_one(void **state)
{
	struct asker lost, busy[20], again;
	struct replay_cache *cache;

	(void)state;
	assert_int_equal(replay_cache_create(MEMORY, &cache), 0);
	lost = asker(cache, 1, REPLAY_NAMES);
	for (unsigned i = 0; i < ARRAY_SIZE(busy); i++)
		busy[i] = asker(cache, 1, REPLAY_NAMES);
	answer(&lost, 1, 4, 1);
	replay_origin_close(lost.origin, false);
	for (uint32_t i = 0; i < MANY; i++)
		answer(&busy[i % ARRAY_SIZE(busy)], 100 + i, 1, 1);
	again = asker(cache, 1, REPLAY_NAMES);
	assert_int_equal(answered(&again, 1, 4, 1), 4);
	replay_origin_close(again.origin, false);
	for (unsigned i = 0; i < ARRAY_SIZE(busy); i++)
		replay_origin_close(busy[i].origin, i % 2);
	replay_cache_destroy(cache);
}

static void test_replay_cache_data_take_nothing_from_names(void **state)
{
	struct replay_cache *cache;
	struct asker names, data;

	(void)state;
	assert_int_equal(replay_cache_create(MEMORY, &cache), 0);
	names = asker(cache, 1, REPLAY_NAMES);
	data = names;
	data.kind = REPLAY_DATA;
	answer(&names, 0, 100, 1);
	answer(&data, 100, MANY, 1);
	assert_int_equal(answered(&names, 0, 100, 1), 100);
	replay_origin_close(names.origin, false);
	replay_cache_destroy(cache);
}

static void test_replay_cache_answers_age(void **state)
{
	const uint64_t life = REPLAY_SECONDS * 1000000000ull;
	struct replay_cache *cache;
	struct replay_entry *e;
	struct replay_stats st;
	struct asker a;

	(void)state;
	assert_int_equal(replay_cache_create(MEMORY, &cache), 0);
	a = asker(cache, 1, REPLAY_NAMES);
	assert_int_equal(ask(&a, 1, 1, &e), REPLAY_NEW);
	/* The first run took long, which may be why the client asks again. */
	replay_end(e, (const uint8_t *)"answer", 6, true, 2 * life);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask(&a, 1, (2 + (uint64_t)i) * life, &e), REPLAY_DONE);
		replay_put(e);
	}
	assert_int_equal(ask(&a, 1, 3 * life + 1, &e), REPLAY_NEW);
	replay_end(e, (const uint8_t *)"answer", 6, true, 3 * life);
	/* What is too old is given up by and by, without being asked for. */
	answer(&a, 100, 10, 4 * life);
	answer(&a, 200, 10, 6 * life);
	replay_cache_stats(cache, &st);
	assert_int_equal(st.entries, 10);
	replay_origin_close(a.origin, false);
	replay_cache_destroy(cache);
}

/* What runs is never given up, and has its entry however many there are. */
static void test_replay_cache_running_calls_are_all_known(void **state)
{
	static struct replay_entry *running[MANY];
	struct replay_entry *e;
	struct replay_cache *cache;
	struct replay_stats st;
	struct asker a;

	(void)state;
	assert_int_equal(replay_cache_create(MEMORY, &cache), 0);
	a = asker(cache, 1, REPLAY_NAMES);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(ask(&a, i, 1, &running[i]), REPLAY_NEW);
	replay_cache_stats(cache, &st);
	assert_int_equal(st.entries, MANY);
	assert_int_equal(st.bytes[REPLAY_NAMES], 0);
	for (uint32_t i = 0; i < MANY; i++)
		replay_end(running[i], (const uint8_t *)"x", 1, i % 2, 1);
	assert_int_equal(ask(&a, MANY - 1, 1, &e), REPLAY_DONE);
	replay_put(e);
	assert_int_equal(ask(&a, MANY - 2, 1, &e), REPLAY_NEW);
	replay_end(e, (const uint8_t *)"x", 1, true, 1);
	replay_cache_stats(cache, &st);
	assert_int_equal(st.no_room, 0);
	assert_true(st.entries < MANY / 2);
	replay_origin_close(a.origin, false);
	replay_cache_destroy(cache);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay_gives_the_first_answer),
		cmocka_unit_test(test_replay_not_after_an_orderly_end),
		cmocka_unit_test(test_replay_after_an_orderly_end_from_the_same_port),
		cmocka_unit_test(test_replay_never_for_others),
		cmocka_unit_test(test_replay_while_the_first_still_runs),
		cmocka_unit_test(test_replay_after_the_connection_was_lost),
		cmocka_unit_test(test_replay_not_of_what_was_not_done),
		cmocka_unit_test(test_replay_cache_is_bounded_and_the_oldest_goes),
		cmocka_unit_test(test_replay_cache_is_bounded_for_many_clients),
		cmocka_unit_test(test_replay_cache_busy_client_takes_nothing_from_others),
		cmocka_unit_test(test_replay_cache_busy_connection_takes_nothing_from_the_lost_one),
		cmocka_unit_test(test_replay_cache_data_take_nothing_from_names),
		cmocka_unit_test(test_replay_cache_answers_age),
		cmocka_unit_test(test_replay_cache_running_calls_are_all_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
