/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bitmaps and maps of runs, against one byte for each bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/space/run_map.h"

#define MAX_BITS 20000u

static struct {
	uint8_t bit[MAX_BITS];
	uint64_t n;
	struct run_map map;
} t;

static void start(uint64_t n, unsigned share)
{
	uint64_t *words = bits_alloc(n);

	assert_non_null(words);
	t.n = n;
	for (uint64_t i = 0; i < n; i++) {
		t.bit[i] = (unsigned)random() % 100 < share;
		if (t.bit[i])
			bits_set(words, i, i + 1);
	}
	assert_int_equal(run_map_init(&t.map, words, n), 0);
}

static uint64_t naive_next(uint64_t from, uint64_t end, uint8_t value)
{
	while (from < end && t.bit[from] != value)
		from++;
	return from;
}

static void check_equal(void)
{
	uint64_t set = 0, runs = 0;

	for (uint64_t i = 0; i < t.n; i++) {
		assert_int_equal(bits_all_set(t.map.words, i, i + 1), t.bit[i]);
		set += t.bit[i];
		runs += t.bit[i] && (!i || !t.bit[i - 1]);
	}
	assert_int_equal(bits_count(t.map.words, t.n), set);
	assert_int_equal(t.map.n_set, set);
	assert_int_equal(bits_count_runs(t.map.words, t.n), runs);
}

/* No run that begins in a span is longer than its bound. */
static void check_bounds(void)
{
	for (uint64_t i = 0; i < t.n; i++) {
		uint64_t end;

		if (!t.bit[i] || (i && t.bit[i - 1]))
			continue;
		end = naive_next(i, t.n, 0);
		assert_true(t.map.span_max[i / 4096] >= MIN(end - i, RUN_MAX_BITS));
		assert_true(t.map.max >= t.map.span_max[i / 4096]);
		i = end;
	}
}

static bool naive_fits(const struct run_want *want, uint64_t at)
{
	uint64_t first = want->origin + at, last = first + want->least_bits - 1;

	if (at + want->least_bits > t.n || first % want->align)
		return false;
	if (want->fence && first / want->fence != last / want->fence)
		return false;
	for (uint64_t i = at; i < at + want->least_bits; i++)
		if (!t.bit[i])
			return false;
	return true;
}

static bool naive_any(const struct run_want *want)
{
	for (uint64_t at = 0; at < t.n; at++)
		if (naive_fits(want, at))
			return true;
	return false;
}

static struct run_want random_want(void)
{
	struct run_want want = {.least_bits = 1 + (uint64_t)random() % 40, .align = 1};

	want.most_bits = want.least_bits + (uint64_t)random() % 50;
	want.origin = (uint64_t)random() % 1000;
	if (random() % 3 == 0) {
		want.align = 1u << random() % 5;
		want.least_bits = want.most_bits = want.align;
	} else if (random() % 3 == 0) {
		want.fence = 64;
		want.most_bits = want.least_bits;
	}
	return want;
}

static void find_and_take(void)
{
	struct run_want want = random_want();
	uint64_t at, n;

	if (!run_map_find(&t.map, &want, (uint64_t)random() % t.n, &at, &n)) {
		assert_false(naive_any(&want));
		return;
	}
	assert_true(n >= want.least_bits && n <= want.most_bits);
	assert_true(naive_fits(&want, at));
	assert_int_equal(naive_next(at, at + n, 0), at + n);
	run_map_take(&t.map, at, at + n);
	memset(t.bit + at, 0, n);
}

static void give_some(void)
{
	uint64_t from = naive_next((uint64_t)random() % t.n, t.n, 0), to;
	uint64_t most = 1 + (uint64_t)random() % 60;

	if (from >= t.n)
		return;
	to = naive_next(from, MIN(t.n, from + most), 1);
	run_map_give(&t.map, from, to);
	memset(t.bit + from, 1, to - from);
}

static void test_run_map_random_changes_equal_a_model(void **state)
{
	const uint64_t sizes[] = {1, 63, 64, 65, 2048, 4096, 4097, 12345, MAX_BITS};

	(void)state;
	srandom(3);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		start(sizes[i], i % 2 ? 50 : 90);
		for (unsigned k = 0; k < 1500; k++) {
			if (random() % 2)
				find_and_take();
			else
				give_some();
		}
		check_equal();
		check_bounds();
		run_map_fini(&t.map);
	}
}

static void test_run_map_runs_across_spans_are_found(void **state)
{
	struct run_want want = {.least_bits = 9000, .most_bits = 9000, .align = 1};
	uint64_t at, n;

	(void)state;
	start(MAX_BITS, 100);
	run_map_take(&t.map, 0, 3000);
	run_map_take(&t.map, 12000, MAX_BITS);
	assert_true(run_map_find(&t.map, &want, 15000, &at, &n));
	assert_int_equal(at, 3000);
	/* The rest of a run begins in another span than the whole did. */
	run_map_take(&t.map, 3000, 11000);
	want.least_bits = want.most_bits = 1000;
	assert_true(run_map_find(&t.map, &want, 0, &at, &n));
	assert_int_equal(at, 11000);
	/* And grows together with what comes before it. */
	run_map_give(&t.map, 3000, 11000);
	want.least_bits = want.most_bits = 9000;
	assert_true(run_map_find(&t.map, &want, 11500, &at, &n));
	assert_int_equal(at, 3000);
	run_map_fini(&t.map);
}

static void test_bits_run_start_is_bounded(void **state)
{
	(void)state;
	start(1000, 0);
	run_map_give(&t.map, 100, 900);
	assert_int_equal(bits_run_start(t.map.words, 900, 0), 100);
	assert_int_equal(bits_run_start(t.map.words, 500, 200), 200);
	assert_int_equal(bits_run_start(t.map.words, 100, 0), 100);
	assert_int_equal(bits_run_start(t.map.words, 0, 0), 0);
	run_map_fini(&t.map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_map_random_changes_equal_a_model),
		cmocka_unit_test(test_run_map_runs_across_spans_are_found),
		cmocka_unit_test(test_bits_run_start_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
