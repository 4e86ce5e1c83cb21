/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/io/page_pool.h"

#define PAGE_BYTES 4096u

struct fake_owner {
	struct page_owner owner;
	unsigned forgotten;
};

static struct page_pool pool;
static struct fake_owner cache;
static struct page *pages[4096];

static void forget(struct page_owner *owner, struct page *page)
{
	(void)page;
	container_of(owner, struct fake_owner, owner)->forgotten++;
}

static int setup(void **state)
{
	(void)state;
	memset(&cache, 0, sizeof(cache));
	short_lock_init(&cache.owner.lock, RANK_INODE_PAGES);
	cache.owner.forget = forget;
	return page_pool_init(&pool, 512 * PAGE_BYTES, PAGE_BYTES);
}

static int teardown(void **state)
{
	(void)state;
	page_pool_fini(&pool);
	short_lock_fini(&cache.owner.lock);
	return 0;
}

/* Makes all that was taken cached, and used by nobody else. */
static void cache_all(unsigned n)
{
	short_lock(&cache.owner.lock);
	for (unsigned i = 0; i < n; i++)
		pages[i]->state = PAGE_UPTODATE;
	page_pool_adopt(&pool, n, pages, &cache.owner, 0);
	short_unlock(&cache.owner.lock);
}

static void test_take_neighbours_are_adjacent_in_memory(void **state)
{
	(void)state;
	assert_int_equal(page_pool_take(&pool, 64, pages, false), 64);
	for (unsigned i = 1; i < 64; i++)
		assert_ptr_equal((char *)page_data(&pool, pages[i - 1]) + PAGE_BYTES,
			page_data(&pool, pages[i]));
	page_pool_put(&pool, 64, pages);
	assert_int_equal(pool.n_free, 512);
}

static void test_take_more_than_there_is_gets_what_there_is(void **state)
{
	(void)state;
	assert_int_equal(page_pool_take(&pool, 600, pages, true), 512);
	assert_int_equal(page_pool_take(&pool, 1, pages + 512, true), 0);
	page_pool_put(&pool, 512, pages);
}

static void test_take_evicts_cached_pages_that_nobody_uses(void **state)
{
	struct page *other[100];

	(void)state;
	assert_int_equal(page_pool_take(&pool, 512, pages, false), 512);
	cache_all(512);
	/* One is used, one was used since the hand passed: only the first stays. */
	atomic_fetch_add(&pages[0]->refs, 1);
	atomic_store(&pages[1]->referenced, true);
	assert_int_equal(page_pool_take(&pool, 100, other, false), 100);
	assert_int_equal(cache.forgotten, 100);
	for (unsigned i = 0; i < 100; i++) {
		assert_ptr_not_equal(other[i], pages[0]);
		assert_ptr_not_equal(other[i], pages[1]);
	}
	page_pool_put(&pool, 100, other);
	assert_int_equal(page_pool_take(&pool, 512, pages, true), 511);
}

static void test_take_does_not_wait_for_an_owner_that_is_locked(void **state)
{
	struct page *other[1];

	(void)state;
	assert_int_equal(page_pool_take(&pool, 512, pages, false), 512);
	cache_all(512);
	short_lock(&cache.owner.lock);
	assert_int_equal(page_pool_take(&pool, 1, other, true), 0);
	short_unlock(&cache.owner.lock);
	assert_int_equal(page_pool_take(&pool, 1, other, true), 1);
}

static bool woken;

static void on_wake(struct fsc_msg *msg)
{
	(void)msg;
	woken = true;
}

static void test_wait_is_woken_by_a_put(void **state)
{
	struct fsc_thread *t;
	struct page_waiter w = {.msg.fn = on_wake};

	(void)state;
	assert_int_equal(fsc_thread_create(&t), 0);
	w.thread = t;
	woken = false;
	assert_int_equal(page_pool_take(&pool, 512, pages, false), 512);
	page_pool_wait(&pool, &w);
	fsc_thread_reap(t);
	assert_false(woken);
	page_pool_put(&pool, 1, pages);
	fsc_thread_wait(t);
	assert_true(woken);
	/* There is one now: nobody has to put another. */
	woken = false;
	page_pool_wait(&pool, &w);
	fsc_thread_wait(t);
	assert_true(woken);
	assert_true(atomic_load(&pool.waits) == 2);
	fsc_thread_destroy(t);
}

static void test_wait_is_woken_when_a_cached_page_is_let_go(void **state)
{
	struct fsc_thread *t;
	struct page_waiter w = {.msg.fn = on_wake};

	(void)state;
	assert_int_equal(fsc_thread_create(&t), 0);
	w.thread = t;
	woken = false;
	assert_int_equal(page_pool_take(&pool, 512, pages, false), 512);
	for (unsigned i = 0; i < 512; i++)
		atomic_fetch_add(&pages[i]->refs, 1);
	cache_all(512);
	page_pool_wait(&pool, &w);
	fsc_thread_reap(t);
	assert_false(woken);
	page_pool_put(&pool, 1, pages);
	fsc_thread_wait(t);
	assert_true(woken);
	fsc_thread_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_take_neighbours_are_adjacent_in_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_take_more_than_there_is_gets_what_there_is, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_take_evicts_cached_pages_that_nobody_uses, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_take_does_not_wait_for_an_owner_that_is_locked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wait_is_woken_by_a_put, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_wait_is_woken_when_a_cached_page_is_let_go, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
