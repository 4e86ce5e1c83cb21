/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/wire.h"

static void test_wire_reads_stop_at_the_end(void **state)
{
	static const uint8_t data[] = {0, 0, 0, 1, 0, 0, 0, 2, 0xff};
	struct wire_in in;

	(void)state;
	wire_in_init(&in, data, sizeof(data));
	assert_int_equal(wire_get_u64(&in), 0x100000002);
	assert_false(in.bad);
	assert_int_equal(wire_get_u32(&in), 0);
	assert_true(in.bad);
	assert_int_equal(wire_left(&in), 0);
	assert_null(wire_take(&in, 0));
}

static void test_wire_opaque_lengths_are_checked_first(void **state)
{
	static const struct {
		uint8_t data[12];
		size_t size;
		uint32_t max, len;
		bool ok;
	} cases[] = {
		{{0, 0, 0, 0}, 4, 0, 0, true},
		{{0, 0, 0, 5, 1, 2, 3, 4, 5, 9, 9, 9}, 12, 5, 5, true},
		{{0, 0, 0, 5, 1, 2, 3, 4, 5, 9, 9}, 11, 5, 0, false}, /* padding missing */
		{{0, 0, 0, 5, 1, 2, 3, 4, 5, 9, 9, 9}, 12, 4, 0, false},
		{{0xff, 0xff, 0xff, 0xff, 1}, 5, UINT32_MAX, 0, false},
		{{0xff, 0xff, 0xff, 0xfd, 1}, 5, UINT32_MAX, 0, false},
		{{0x7f, 0xff, 0xff, 0xff, 1}, 5, UINT32_MAX, 0, false},
		{{0, 0, 0}, 3, 9, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wire_blob b;
		struct wire_in in;

		wire_in_init(&in, cases[i].data, cases[i].size);
		wire_get_opaque(&in, cases[i].max, &b);
		assert_int_equal(!in.bad, cases[i].ok);
		assert_int_equal(b.len, cases[i].len);
	}
}

static void test_wire_bool_and_enum_are_strict(void **state)
{
	static const uint8_t data[] = {0, 0, 0, 2, 0, 0, 0, 3};
	struct wire_in in;

	(void)state;
	wire_in_init(&in, data, sizeof(data));
	assert_false(wire_get_bool(&in));
	assert_true(in.bad);
	wire_in_init(&in, data, sizeof(data));
	assert_int_equal(wire_get_enum(&in, 2), 2);
	assert_int_equal(wire_get_enum(&in, 2), 0);
	assert_true(in.bad);
}

static void test_wire_output_is_bounded_and_padded(void **state)
{
	uint8_t buf[16];
	struct wire_out out;

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	wire_out_init(&out, buf, 12);
	wire_put_opaque(&out, "abcde", 5);
	assert_false(out.bad);
	assert_memory_equal(buf, "\0\0\0\5abcde\0\0\0", 12);
	wire_put_u32(&out, 1);
	assert_true(out.bad);
	wire_put_opaque(&out, "", 0);
	assert_int_equal(buf[12], 0xee);
	/* What does not fit is dropped whole, and so is what comes after it. */
	wire_out_init(&out, buf, 12);
	wire_put_u64(&out, 1);
	wire_put_u64(&out, 2);
	wire_put_u32(&out, 3);
	assert_true(out.bad);
	assert_ptr_equal(out.p, buf + 8);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire_reads_stop_at_the_end),
		cmocka_unit_test(test_wire_opaque_lengths_are_checked_first),
		cmocka_unit_test(test_wire_bool_and_enum_are_strict),
		cmocka_unit_test(test_wire_output_is_bounded_and_padded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
