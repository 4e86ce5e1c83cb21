/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "server/errors.h"
#include "server/fh.h"
#include "server/subvols.h"

static const uint8_t volume[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const struct fh_id id = {0x0102030405060708, UINT64_MAX, 7};

static void test_fh_round_trip(void **state)
{
	uint8_t fh[FH_BYTES];
	struct fh_id got;

	(void)state;
	assert_true(FH_BYTES <= 64 && FH_BYTES % 4 == 0);
	fh_encode(volume, &id, fh);
	assert_int_equal(fh_decode(volume, fh, sizeof(fh), &got), 0);
	assert_memory_equal(&got, &id, sizeof(id));
}

/* Handles are kept by clients over upgrades: this is the format for good. */
static void test_fh_format_is_fixed(void **state)
{
	static const uint8_t want[FH_BYTES] = {1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
		13, 14, 15, 16, 1, 2, 3, 4, 5, 6, 7, 8, 255, 255, 255, 255, 255, 255, 255, 255, 0,
		0, 0, 0, 0, 0, 0, 7};
	uint8_t fh[FH_BYTES];

	(void)state;
	fh_encode(volume, &id, fh);
	assert_memory_equal(fh, want, sizeof(want));
}

static void test_fh_foreign_ones_are_refused(void **state)
{
	uint8_t fh[FH_BYTES + 1], other[FH_BYTES];
	struct fh_id got;

	(void)state;
	fh_encode(volume, &id, fh);
	for (size_t len = 0; len <= FH_BYTES + 1; len++)
		if (len != FH_BYTES)
			assert_int_equal(fh_decode(volume, fh, len, &got), -SRV_EBADHANDLE);
	for (size_t i = 0; i < 20; i++) {
		memcpy(other, fh, sizeof(other));
		other[i] ^= 0x10;
		assert_int_equal(fh_decode(volume, other, sizeof(other), &got),
			i < 4 ? -SRV_EBADHANDLE : -ESTALE);
	}
}

static void test_fsid_depends_on_each_bit(void **state)
{
	uint64_t fsid = subvol_fsid(volume);

	(void)state;
	for (int bit = 0; bit < 128; bit++) {
		uint8_t uuid[16];

		memcpy(uuid, volume, sizeof(uuid));
		uuid[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(subvol_fsid(uuid), fsid);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fh_round_trip),
		cmocka_unit_test(test_fh_format_is_fixed),
		cmocka_unit_test(test_fh_foreign_ones_are_refused),
		cmocka_unit_test(test_fsid_depends_on_each_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
