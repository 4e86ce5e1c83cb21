/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/parse.h"

static void test_parse_number_is_decimal_and_bounded(void **state)
{
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "0x1", "1k", "1001", "99999",
		"18446744073709551616", "100000000000000000000000000000000"};
	uint64_t v = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse_number(bad[i], 1000, &v));
	assert_int_equal(v, 7);
	assert_true(parse_number("0", 0, &v) && v == 0);
	assert_false(parse_number("1", 0, &v));
	assert_true(parse_number("0001000", 1000, &v) && v == 1000);
	assert_true(parse_number("18446744073709551615", UINT64_MAX, &v) && v == UINT64_MAX);
	assert_false(parse_number("18446744073709551616", UINT64_MAX, &v));
	assert_false(parse_number("28446744073709551615", UINT64_MAX, &v));
}

static void test_parse_digits_says_where_they_end(void **state)
{
	const char *end;
	uint64_t v;

	(void)state;
	assert_true(parse_digits("12k", 100, &end, &v));
	assert_int_equal(v, 12);
	assert_string_equal(end, "k");
	assert_false(parse_digits("k", 100, &end, &v));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_number_is_decimal_and_bounded),
		cmocka_unit_test(test_parse_digits_says_where_they_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
