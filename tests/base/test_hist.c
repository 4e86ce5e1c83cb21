/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_quantile_of_nothing_is_zero(void **state)
{
	struct hist h = {0};

	(void)state;
	assert_int_equal(hist_count(&h), 0);
	assert_int_equal(hist_quantile_ns(&h, 0.5), 0);
}

/* Four buckets for each power of two: a bound is at most a quarter too high. */
static void test_bucket_bounds_are_above_and_near_the_value(void **state)
{
	(void)state;
	for (uint64_t base = 1; base < 1ull << 38; base *= 2)
		for (uint64_t v = base - 1; v <= base + 1; v++) {
			struct hist h = {0};
			uint64_t bound;

			hist_add(&h, v);
			bound = hist_quantile_ns(&h, 1);
			assert_true(bound > v);
			assert_true(bound <= v + v / 4 + 1);
		}
}

static void test_bucket_bounds_ascend(void **state)
{
	(void)state;
	for (unsigned i = 1; i < HIST_BUCKETS; i++)
		assert_true(hist_bucket_ns(i) > hist_bucket_ns(i - 1));
}

static void test_huge_value_goes_to_the_last_bucket(void **state)
{
	struct hist h = {0};

	(void)state;
	hist_add(&h, UINT64_MAX);
	assert_int_equal(hist_count(&h), 1);
	assert_int_equal(h.bucket[HIST_BUCKETS - 1], 1);
	assert_true(h.max_ns == UINT64_MAX);
}

static void test_quantiles_of_many(void **state)
{
	struct hist h = {0};

	(void)state;
	for (int i = 0; i < 990; i++)
		hist_add(&h, 1000);
	for (int i = 0; i < 10; i++)
		hist_add(&h, 1000000);
	assert_in_range(hist_quantile_ns(&h, 0.5), 1001, 1250);
	assert_in_range(hist_quantile_ns(&h, 0.99), 1001, 1250);
	assert_in_range(hist_quantile_ns(&h, 0.999), 1000001, 1250000);
}

static void test_merge_adds_counts_and_keeps_the_maximum(void **state)
{
	struct hist sum = {0}, a = {0}, b = {0};

	(void)state;
	hist_add(&a, 10);
	hist_add(&a, 20);
	hist_add(&b, 5000);
	hist_merge(&sum, &b);
	hist_merge(&sum, &a);
	assert_int_equal(hist_count(&sum), 3);
	assert_int_equal(sum.sum_ns, 5030);
	assert_int_equal(sum.max_ns, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantile_of_nothing_is_zero),
		cmocka_unit_test(test_bucket_bounds_are_above_and_near_the_value),
		cmocka_unit_test(test_bucket_bounds_ascend),
		cmocka_unit_test(test_huge_value_goes_to_the_last_bucket),
		cmocka_unit_test(test_quantiles_of_many),
		cmocka_unit_test(test_merge_adds_counts_and_keeps_the_maximum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
