/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "fscore/format/csum.h"

static void assert_csum(uint16_t type, const char *data, const char *hex)
{
	uint8_t sum[BTRFS_CSUM_SIZE];
	char text[2 * BTRFS_CSUM_SIZE + 1];

	csum_compute(type, data, strlen(data), sum);
	for (unsigned i = 0; i < csum_bytes(type); i++)
		snprintf(text + 2 * i, 3, "%02x", sum[i]);
	assert_string_equal(text, hex);
}

/* The published check values; the first two in the byte order of the disk. */
static void test_csum_compute_known_data(void **state)
{
	(void)state;
	assert_csum(BTRFS_CSUM_TYPE_CRC32, "123456789", "839206e3");
	assert_csum(BTRFS_CSUM_TYPE_XXHASH, "", "99e9d85137db46ef");
	assert_csum(BTRFS_CSUM_TYPE_SHA256, "abc",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_csum(BTRFS_CSUM_TYPE_BLAKE2, "abc",
		"bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

static void test_csum_names_and_sizes(void **state)
{
	(void)state;
	assert_int_equal(csum_bytes(BTRFS_CSUM_TYPE_CRC32), 4);
	assert_int_equal(csum_bytes(BTRFS_CSUM_TYPE_XXHASH), 8);
	assert_int_equal(csum_bytes(BTRFS_CSUM_TYPE_SHA256), 32);
	assert_int_equal(csum_bytes(BTRFS_CSUM_TYPE_BLAKE2), 32);
	assert_int_equal(csum_bytes(4), 0);
	assert_string_equal(csum_name(BTRFS_CSUM_TYPE_BLAKE2), "blake2b");
	assert_string_equal(csum_name(65535), "unknown");
}

static void test_csum_block_ok_notices_each_byte(void **state)
{
	uint8_t block[512];

	(void)state;
	for (uint16_t type = 0; type < 4; type++) {
		for (size_t i = 0; i < sizeof(block); i++)
			block[i] = (uint8_t)(i * 3);
		csum_compute(type, block + BTRFS_CSUM_SIZE, sizeof(block) - BTRFS_CSUM_SIZE, block);
		assert_true(csum_block_ok(type, block, sizeof(block)));
		for (size_t i = 0; i < sizeof(block); i++) {
			bool counts = i < csum_bytes(type) || i >= BTRFS_CSUM_SIZE;

			block[i] ^= 1;
			assert_int_equal(csum_block_ok(type, block, sizeof(block)), !counts);
			block[i] ^= 1;
		}
	}
	assert_false(csum_block_ok(4, block, sizeof(block)));
}

/* Bit by bit, as the polynomial says. */
static uint32_t slow_crc32c(uint32_t crc, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		crc ^= (uint8_t)data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

static void test_hashes_known_names(void **state)
{
	char name[255];

	(void)state;
	/* As each volume's root tree has it. */
	assert_int_equal(name_hash("default", 7), 0x8dbfc2d2);
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = (char)(i * 5 + 1);
	for (size_t len = 0; len <= sizeof(name); len++) {
		assert_int_equal(name_hash(name, len), slow_crc32c(0xfffffffe, name, len));
		assert_int_equal(extref_hash(0x123456789abcull, name, len),
			slow_crc32c(0x56789abc, name, len));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_csum_compute_known_data),
		cmocka_unit_test(test_csum_names_and_sizes),
		cmocka_unit_test(test_csum_block_ok_notices_each_byte),
		cmocka_unit_test(test_hashes_known_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
