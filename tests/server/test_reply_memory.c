/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rpc/dispatch.c when there is no memory for a reply: the connection is closed, since a client
 * that has lost one reply would wait for it for ever. outq_reserve() is wrapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "tests/server/nfs3_client.h"

static bool no_memory;

uint8_t *__real_outq_reserve(struct outq *q, struct outq_pool *pool, size_t len);
uint8_t *__wrap_outq_reserve(struct outq *q, struct outq_pool *pool, size_t len);

uint8_t *__wrap_outq_reserve(struct outq *q, struct outq_pool *pool, size_t len)
{
	return no_memory ? NULL : __real_outq_reserve(q, pool, len);
}

static const char *const exports[] = {"/e=/,rw,no_root_squash", NULL};

static struct world *begin(void)
{
	struct world *w = world_begin(exports, 0);

	w->cred.uid = 0;
	fake_make(fake_root(5), "f", S_IFREG | 0644);
	no_memory = false;
	return w;
}

static void remove_call(struct world *w, struct call *c)
{
	call_nfs3(w, c, NFS3_REMOVE);
	put_dirop(&c->out, fake_root(5), "f");
}

/* The call again, on a new connection: it has been done, once. */
static void want_replayed(struct world *w, const struct call *c)
{
	struct nfs3_seen seen;
	struct reply r;

	world_reconnect(w, false);
	call_reply(w, c, &r);
	see_reply(&r, NFS3_REMOVE, &seen);
	reply_free(&r);
	assert_int_equal(seen.stat, NFS3_OK);
	assert_int_equal(w->counters.op[NFS3_REMOVE].calls, 1);
}

static void test_reply_without_memory_closes(void **state)
{
	struct world *w = begin();
	struct call c;

	(void)state;
	call_nfs3(w, &c, NFS3_GETATTR);
	put_fh(&c.out, fake_root(5));
	no_memory = true;
	assert_int_equal(call_send(w, &c), -ENOMEM);
	assert_true(w->peer.closed);
	no_memory = false;
	world_end(w);
}

static void test_reply_of_a_parked_call_without_memory_closes_and_is_kept(void **state)
{
	struct world *w = begin();
	struct call c;

	(void)state;
	atomic_store(&fake.async_syncs, true);
	remove_call(w, &c);
	assert_int_equal(call_send(w, &c), 0);
	no_memory = true;
	fake_end_syncs(0);
	assert_true(w->peer.closed);
	assert_int_equal(w->readies, 1);
	no_memory = false;
	atomic_store(&fake.async_syncs, false);
	want_replayed(w, &c);
	world_end(w);
}

static void test_reply_replayed_without_memory_closes(void **state)
{
	struct world *w = begin();
	struct reply r;
	struct call c;

	(void)state;
	remove_call(w, &c);
	call_reply(w, &c, &r);
	reply_free(&r);
	no_memory = true;
	assert_int_equal(call_send(w, &c), -ENOMEM);
	assert_true(w->peer.closed);
	no_memory = false;
	want_replayed(w, &c);
	world_end(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reply_without_memory_closes),
		cmocka_unit_test(test_reply_of_a_parked_call_without_memory_closes_and_is_kept),
		cmocka_unit_test(test_reply_replayed_without_memory_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
