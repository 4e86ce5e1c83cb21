/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "fscore/format/csum.h"
#include "fscore/format/super.h"

#define DEVICE_BYTES (256ull << 20)

static struct btrfs_super_block sb;
static char why[200];

static int setup(void **state)
{
	(void)state;
	memset(&sb, 0, sizeof(sb));
	memset(sb.fsid, 0xf5, sizeof(sb.fsid));
	memset(sb.dev_item.fsid, 0xf5, sizeof(sb.fsid));
	sb.bytenr = htole64(65536);
	sb.magic = htole64(BTRFS_MAGIC);
	sb.generation = htole64(9);
	sb.root = htole64(30 << 20);
	sb.chunk_root = htole64(22 << 20);
	sb.total_bytes = htole64(DEVICE_BYTES);
	sb.bytes_used = htole64(1 << 20);
	sb.num_devices = htole64(1);
	sb.sectorsize = htole32(4096);
	sb.nodesize = htole32(16384);
	sb.unused_leafsize = htole32(16384);
	sb.stripesize = htole32(4096);
	sb.sys_chunk_array_size = htole32(97);
	sb.incompat_flags =
		htole64(BTRFS_FEATURE_INCOMPAT_MIXED_BACKREF | BTRFS_FEATURE_INCOMPAT_BIG_METADATA);
	sb.dev_item.total_bytes = htole64(DEVICE_BYTES);
	return 0;
}

/* With the right checksum. */
static int check(void)
{
	memset(sb.csum, 0, sizeof(sb.csum));
	csum_compute(le16toh(sb.csum_type), sb.fsid, sizeof(sb) - sizeof(sb.csum), sb.csum);
	why[0] = '\0';
	return super_check(&sb, 65536, DEVICE_BYTES, why, sizeof(why));
}

static void test_check_good_is_0(void **state)
{
	(void)state;
	assert_int_equal(check(), 0);
	for (uint16_t type = 1; type < 4; type++) {
		sb.csum_type = htole16(type);
		assert_int_equal(check(), 0);
	}
	/* The size of the device is not known. */
	sb.dev_item.total_bytes = htole64(2 * DEVICE_BYTES);
	check();
	assert_int_equal(super_check(&sb, 65536, 0, why, sizeof(why)), 0);
}

static void test_check_no_magic_is_einval(void **state)
{
	(void)state;
	memset(&sb, 0, sizeof(sb));
	assert_int_equal(check(), -EINVAL);
	assert_string_equal(why, "no btrfs superblock");
}

static void test_check_wrong_checksum_is_euclean(void **state)
{
	(void)state;
	check();
	sb.label[3] ^= 1;
	assert_int_equal(super_check(&sb, 65536, 0, why, sizeof(why)), -EUCLEAN);
	assert_string_equal(why, "superblock: wrong checksum (crc32c)");
}

static void test_check_short_message_is_terminated(void **state)
{
	char small[8];

	(void)state;
	check();
	sb.label[3] ^= 1;
	memset(small, 'x', sizeof(small));
	assert_int_equal(super_check(&sb, 65536, 0, small, 5), -EUCLEAN);
	assert_string_equal(small, "supe");
	assert_int_equal(small[5], 'x');
}

/* Sets one field to a wrong value, checks, and puts it back. */
#define ASSERT_BAD(field, value, words)                \
	do {                                           \
		__typeof__(sb.field) good_ = sb.field; \
		sb.field = (value);                    \
		assert_int_equal(check(), -EUCLEAN);   \
		assert_non_null(strstr(why, words));   \
		sb.field = good_;                      \
		assert_int_equal(check(), 0);          \
	} while (0)

static void test_check_each_wrong_field_is_euclean(void **state)
{
	(void)state;
	ASSERT_BAD(csum_type, htole16(4), "checksum type 4");
	ASSERT_BAD(bytenr, htole64(64 << 20), "says it is at");
	ASSERT_BAD(flags, htole64(BTRFS_SUPER_FLAG_CHANGING_FSID_V2), "change of fsid");
	ASSERT_BAD(sectorsize, htole32(0), "sector size");
	ASSERT_BAD(sectorsize, htole32(2048), "sector size");
	ASSERT_BAD(sectorsize, htole32(4097), "sector size");
	ASSERT_BAD(sectorsize, htole32(131072), "sector size");
	ASSERT_BAD(sectorsize, htole32(32768), "node size");
	ASSERT_BAD(nodesize, htole32(0), "node size");
	ASSERT_BAD(nodesize, htole32(131072), "node size");
	ASSERT_BAD(nodesize, htole32(12288), "node size");
	ASSERT_BAD(nodesize, htole32(0xffffffff), "node size");
	ASSERT_BAD(unused_leafsize, htole32(4096), "leaf size");
	ASSERT_BAD(stripesize, htole32(0), "stripe size");
	ASSERT_BAD(sys_chunk_array_size, htole32(2049), "system chunks");
	ASSERT_BAD(sys_chunk_array_size, htole32(96), "system chunks");
	ASSERT_BAD(sys_chunk_array_size, htole32(0xffffffff), "system chunks");
	ASSERT_BAD(root_level, 8, "root tree");
	ASSERT_BAD(chunk_root_level, 255, "chunk tree");
	ASSERT_BAD(log_root_level, 8, "log tree");
	ASSERT_BAD(root, htole64(4097), "root tree");
	ASSERT_BAD(chunk_root, htole64(1), "chunk tree");
	ASSERT_BAD(log_root, htole64(512), "log tree");
	ASSERT_BAD(num_devices, htole64(0), "no devices");
	ASSERT_BAD(dev_item.fsid[0], 1, "another fsid");
	ASSERT_BAD(bytes_used, htole64(16384), "bytes in use");
	ASSERT_BAD(dev_item.total_bytes, htole64(DEVICE_BYTES + 4096), "the volume's has");
	ASSERT_BAD(incompat_flags, htole64(BTRFS_FEATURE_INCOMPAT_MIXED_GROUPS), "mixed");
}

static void test_metadata_fsid_follows_feature(void **state)
{
	(void)state;
	assert_ptr_equal(super_metadata_fsid(&sb), sb.fsid);
	sb.incompat_flags |= htole64(BTRFS_FEATURE_INCOMPAT_METADATA_UUID);
	assert_ptr_equal(super_metadata_fsid(&sb), sb.metadata_uuid);
	/* The device carries the same as the blocks. */
	assert_int_equal(check(), -EUCLEAN);
	memset(sb.metadata_uuid, 0xf5, sizeof(sb.metadata_uuid));
	memset(sb.fsid, 1, sizeof(sb.fsid));
	assert_int_equal(check(), 0);
}

static void test_unknown_features_are_named(void **state)
{
	char names[64];

	(void)state;
	sb.incompat_flags = htole64(0x17f | BTRFS_FEATURE_INCOMPAT_SIMPLE_QUOTA);
	assert_int_equal(super_unknown_incompat(&sb, names, sizeof(names)), 0);
	assert_string_equal(names, "");
	sb.incompat_flags = htole64(1ull << 7 | 1ull << 11 | 1ull << 12 | 1ull << 15 | 1ull << 63);
	assert_int_equal(super_unknown_incompat(&sb, names, sizeof(names)), 5);
	assert_string_equal(names, "raid56, raid1c34, zoned, bit 15, bit 63");
	sb.compat_ro_flags = htole64(15);
	assert_int_equal(super_unknown_compat_ro(&sb, names, sizeof(names)), 0);
	sb.compat_ro_flags = htole64(16);
	assert_int_equal(super_unknown_compat_ro(&sb, names, sizeof(names)), 1);
	assert_string_equal(names, "bit 4");
}

static void test_unknown_features_fit_any_buffer(void **state)
{
	char names[64];

	(void)state;
	sb.incompat_flags = htole64(UINT64_MAX);
	for (size_t bytes = 0; bytes < sizeof(names); bytes++) {
		memset(names, 'x', sizeof(names));
		assert_int_equal(super_unknown_incompat(&sb, names, bytes), 64 - 11);
		assert_int_equal(names[bytes], 'x');
	}
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_check_good_is_0),
		CASE(test_check_no_magic_is_einval),
		CASE(test_check_wrong_checksum_is_euclean),
		CASE(test_check_short_message_is_terminated),
		CASE(test_check_each_wrong_field_is_euclean),
		CASE(test_metadata_fsid_follows_feature),
		CASE(test_unknown_features_are_named),
		CASE(test_unknown_features_fit_any_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
