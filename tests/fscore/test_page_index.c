/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/file/page_index.h"

#define PLACES 300u

/* Stand-ins: the index never looks into a page. */
static char pages[PLACES];

static struct page *fake_page(unsigned i)
{
	return (struct page *)(void *)&pages[i];
}

static void test_index_one_page_needs_no_node(void **state)
{
	struct page_index index = {0};
	uint64_t at;

	(void)state;
	assert_null(page_index_lookup(&index, 0));
	assert_int_equal(page_index_insert(&index, 0, fake_page(1)), 0);
	assert_int_equal(index.height, 0);
	assert_ptr_equal(page_index_lookup(&index, 0), fake_page(1));
	assert_null(page_index_lookup(&index, 1));
	assert_ptr_equal(page_index_any(&index, &at), fake_page(1));
	page_index_remove(&index, 0);
	assert_null(page_index_any(&index, &at));
}

static void test_index_highest_index_works(void **state)
{
	struct page_index index = {0};
	uint64_t at;

	(void)state;
	assert_int_equal(page_index_insert(&index, UINT64_MAX, fake_page(1)), 0);
	assert_int_equal(page_index_insert(&index, 0, fake_page(2)), 0);
	assert_ptr_equal(page_index_lookup(&index, UINT64_MAX), fake_page(1));
	assert_ptr_equal(page_index_lookup(&index, 0), fake_page(2));
	assert_null(page_index_lookup(&index, UINT64_MAX - 1));
	page_index_remove(&index, 0);
	assert_ptr_equal(page_index_any(&index, &at), fake_page(1));
	assert_true(at == UINT64_MAX);
	page_index_remove(&index, at);
	assert_null(index.root);
}

static void test_index_range_has_gaps_as_null(void **state)
{
	struct page_index index = {0};
	struct page *out[200];

	(void)state;
	for (unsigned i = 0; i < 200; i += 3)
		assert_int_equal(page_index_insert(&index, 50 + i, fake_page(i)), 0);
	page_index_lookup_range(&index, 50, 200, out);
	for (unsigned i = 0; i < 200; i++)
		assert_ptr_equal(out[i], i % 3 ? NULL : fake_page(i));
	for (unsigned i = 0; i < 200; i += 3)
		page_index_remove(&index, 50 + i);
	assert_null(index.root);
}

/* Random inserts and removals at scattered places, against a table. */
static void test_index_random_operations_equal_a_model(void **state)
{
	struct page_index index = {0};
	uint64_t place[PLACES];
	struct page *model[PLACES] = {NULL};

	(void)state;
	srandom(1);
	/* The low bits say which it is, so that no two are the same. */
	for (unsigned i = 0; i < PLACES; i++)
		place[i] = ((hash_mix64(i + 1) >> (i % 52)) & ~0xfffull) | i;
	for (unsigned round = 0; round < 100000; round++) {
		unsigned i = (unsigned)random() % PLACES;

		assert_ptr_equal(page_index_lookup(&index, place[i]), model[i]);
		if (model[i]) {
			page_index_remove(&index, place[i]);
			model[i] = NULL;
		} else {
			assert_int_equal(page_index_insert(&index, place[i], fake_page(i)), 0);
			model[i] = fake_page(i);
		}
	}
	/* Each page once, ascending, from any place on. */
	for (uint64_t at, from = 0, last = 0; page_index_next(&index, from, &at); from = at + 1) {
		unsigned i = (unsigned)(at & 0xfff);

		assert_true(i < PLACES && place[i] == at && at >= last);
		assert_ptr_equal(page_index_next(&index, at, &last), model[i]);
	}
	for (uint64_t at; page_index_any(&index, &at);)
		page_index_remove(&index, at);
	assert_null(index.root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_index_one_page_needs_no_node),
		cmocka_unit_test(test_index_highest_index_works),
		cmocka_unit_test(test_index_range_has_gaps_as_null),
		cmocka_unit_test(test_index_random_operations_equal_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
