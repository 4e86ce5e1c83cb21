/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fscore/io/chunk_map.h"

static struct chunk chunk_at(uint64_t logical, uint64_t length, uint64_t physical)
{
	return (struct chunk){.logical = logical,
		.length_bytes = length,
		.type = 1,
		.n_mirrors = 1,
		.physical = {physical}};
}

static void test_map_lookup_finds_the_chunk_and_what_is_left(void **state)
{
	struct chunk_map map;
	struct chunk_place place;

	(void)state;
	chunk_map_init(&map);
	for (uint64_t i = 100; i > 0; i--) {
		struct chunk c = chunk_at(i << 30, 1 << 20, i << 20);

		assert_int_equal(chunk_map_add(&map, &c), 0);
	}
	for (uint64_t i = 1; i <= 100; i++) {
		assert_int_equal(chunk_map_lookup(&map, (i << 30) + 4096, &place), 0);
		assert_true(place.physical[0] == (i << 20) + 4096);
		assert_true(place.length_bytes == (1 << 20) - 4096);
	}
	assert_int_equal(chunk_map_lookup(&map, (1 << 30) - 1, &place), -ENOENT);
	assert_int_equal(chunk_map_lookup(&map, (1 << 30) + (1 << 20), &place), -ENOENT);
	assert_int_equal(chunk_map_lookup(&map, UINT64_MAX, &place), -ENOENT);
	chunk_map_fini(&map);
}

static void test_map_add_overlap_is_refused_but_the_same_again_is_not(void **state)
{
	struct chunk_map map;
	struct chunk a = chunk_at(1000, 100, 0), before = chunk_at(950, 51, 0),
		     after = chunk_at(1099, 10, 0), around = chunk_at(900, 1000, 0),
		     beside = chunk_at(1100, 10, 0), other = chunk_at(1000, 100, 50);

	(void)state;
	chunk_map_init(&map);
	assert_int_equal(chunk_map_add(&map, &a), 0);
	assert_int_equal(chunk_map_add(&map, &a), 0);
	assert_int_equal(chunk_map_add(&map, &before), -EEXIST);
	assert_int_equal(chunk_map_add(&map, &after), -EEXIST);
	assert_int_equal(chunk_map_add(&map, &around), -EEXIST);
	assert_int_equal(chunk_map_add(&map, &other), -EEXIST);
	assert_int_equal(chunk_map_add(&map, &beside), 0);
	assert_int_equal(map.n_chunks, 2);
	chunk_map_fini(&map);
}

static void test_map_next_visits_every_chunk_in_order(void **state)
{
	struct chunk_map map;
	struct chunk chunk;
	uint64_t at = 0;

	(void)state;
	chunk_map_init(&map);
	assert_false(chunk_map_next(&map, 0, &chunk));
	for (uint64_t i = 5; i-- > 0;) {
		struct chunk c = chunk_at(i * 1000, 100, i * 2000);

		assert_int_equal(chunk_map_add(&map, &c), 0);
	}
	for (uint64_t i = 0; i < 5; i++, at = chunk.logical + chunk.length_bytes) {
		assert_true(chunk_map_next(&map, at, &chunk));
		assert_int_equal(chunk.logical, i * 1000);
	}
	assert_false(chunk_map_next(&map, at, &chunk));
	assert_true(chunk_map_next(&map, 1000, &chunk));
	assert_int_equal(chunk.logical, 1000);
	assert_true(chunk_map_next(&map, 1001, &chunk));
	assert_int_equal(chunk.logical, 2000);
	chunk_map_fini(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map_lookup_finds_the_chunk_and_what_is_left),
		cmocka_unit_test(test_map_add_overlap_is_refused_but_the_same_again_is_not),
		cmocka_unit_test(test_map_next_visits_every_chunk_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
