/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each test makes a block of a few items, and looks which of them pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/format/item_check.h"

#define NODE_BYTES 16384u
#define LOGICAL	   (30ull << 20)

static struct volume_geometry geo;
static struct block_expect expect;
static uint8_t block[NODE_BYTES];
static char why[256];

static struct btrfs_header *header(void)
{
	return (void *)block;
}

static int setup(void **state)
{
	(void)state;
	geo = (struct volume_geometry){
		.sector_bytes = 4096,
		.node_bytes = NODE_BYTES,
		.csum_type = BTRFS_CSUM_TYPE_CRC32,
		.csum_bytes = 4,
		.fsid = {1, 2, 3},
		.generation = 100,
	};
	expect = (struct block_expect){.logical = LOGICAL, .generation = 90};
	memset(block, 0, sizeof(block));
	memcpy(header()->fsid, geo.fsid, sizeof(geo.fsid));
	header()->bytenr = htole64(LOGICAL);
	header()->generation = htole64(90);
	header()->owner = htole64(5);
	return 0;
}

static struct btrfs_disk_key disk_key(uint64_t objectid, uint8_t type, uint64_t offset)
{
	return (struct btrfs_disk_key){
		.objectid = htole64(objectid), .type = type, .offset = htole64(offset)};
}

static struct btrfs_item *item(uint32_t slot)
{
	return (struct btrfs_item *)(void *)(block + sizeof(struct btrfs_header)) + slot;
}

static void add_item(struct btrfs_disk_key key, const void *data, size_t bytes)
{
	uint32_t n = le32toh(header()->nritems);
	uint32_t end = n ? le32toh(item(n - 1)->offset)
			 : NODE_BYTES - (uint32_t)sizeof(struct btrfs_header);

	item(n)->key = key;
	item(n)->offset = htole32(end - (uint32_t)bytes);
	item(n)->size = htole32((uint32_t)bytes);
	if (bytes)
		memcpy(block + sizeof(struct btrfs_header) + end - bytes, data, bytes);
	header()->nritems = htole32(n + 1);
}

static struct btrfs_key_ptr *ptr(uint32_t slot)
{
	return (struct btrfs_key_ptr *)(void *)(block + sizeof(struct btrfs_header)) + slot;
}

static void add_ptr(struct btrfs_disk_key key, uint64_t child, uint64_t generation)
{
	uint32_t n = le32toh(header()->nritems);

	*ptr(n) = (struct btrfs_key_ptr){
		.key = key, .blockptr = htole64(child), .generation = htole64(generation)};
	header()->nritems = htole32(n + 1);
}

static void seal(void)
{
	csum_compute(
		geo.csum_type, block + BTRFS_CSUM_SIZE, sizeof(block) - BTRFS_CSUM_SIZE, block);
}

static int check(void)
{
	seal();
	why[0] = '\0';
	return block_check(&geo, &expect, block, why, sizeof(why));
}

static void assert_good(void)
{
	int ret = check();

	if (ret)
		print_error("%s\n", why);
	assert_int_equal(ret, 0);
}

/* words: that the reason contains. */
static void assert_bad(const char *words)
{
	assert_int_equal(check(), -EUCLEAN);
	if (!strstr(why, words))
		print_error("expected \"%s\", not: %s\n", words, why);
	assert_non_null(strstr(why, words));
	assert_null(strchr(why, '\n'));
}

/* A leaf with one item. */
static void one_item(
	uint64_t objectid, uint8_t type, uint64_t offset, const void *data, size_t bytes)
{
	header()->nritems = 0;
	add_item(disk_key(objectid, type, offset), data, bytes);
}

static void item_good(
	uint64_t objectid, uint8_t type, uint64_t offset, const void *data, size_t bytes)
{
	one_item(objectid, type, offset, data, bytes);
	assert_good();
}

static void item_is_bad(uint64_t objectid, uint8_t type, uint64_t offset, const void *data,
	size_t bytes, const char *words)
{
	one_item(objectid, type, offset, data, bytes);
	assert_bad(words);
}

/* Changes one field of a structure for the statement that follows. */
#define WITH(object, field, value, ...)                            \
	do {                                                       \
		__typeof__((object).field) good_ = (object).field; \
		(object).field = (value);                          \
		__VA_ARGS__;                                       \
		(object).field = good_;                            \
	} while (0)

/* ------------------------------------------------------------- header */

static void test_header_good_is_0(void **state)
{
	(void)state;
	assert_good();
	expect.owner = 5;
	assert_good();
}

static void test_header_each_wrong_field_is_bad(void **state)
{
	(void)state;
	WITH(*header(), bytenr, htole64(LOGICAL + 4096), assert_bad("says it is block"));
	WITH(*header(), fsid[5], 1, assert_bad("fsid"));
	WITH(*header(), level, 1, assert_bad("level 1, expected 0"));
	WITH(*header(), generation, htole64(91), assert_bad("generation 91, expected 90"));
	WITH(expect, owner, 7, assert_bad("of tree 5, expected 7"));
	WITH(expect, have_first_key, true, assert_bad("empty"));
	assert_good();
}

static void test_header_wrong_checksum_is_bad(void **state)
{
	(void)state;
	seal();
	block[5000] ^= 1;
	assert_int_equal(block_check(&geo, &expect, block, why, sizeof(why)), -EUCLEAN);
	assert_non_null(strstr(why, "wrong checksum (crc32c)"));
}

/* A log tree is one ahead. */
static void test_header_newer_than_super_is_bad(void **state)
{
	(void)state;
	expect.generation = 101;
	WITH(*header(), generation, htole64(101), assert_good());
	expect.generation = 102;
	WITH(*header(), generation, htole64(102), assert_bad("superblock: 100"));
}

static void test_header_level_8_is_bad(void **state)
{
	(void)state;
	expect.level = 8;
	WITH(*header(), level, 8, assert_bad("level 8"));
}

/* ------------------------------------------------------------- nodes */

static void make_node(unsigned n)
{
	header()->level = 1;
	expect.level = 1;
	header()->nritems = 0;
	for (unsigned i = 0; i < n; i++)
		add_ptr(disk_key(256 + i, BTRFS_INODE_ITEM_KEY, 0), (i + 1) * 16384ull, 80);
}

static void test_node_good_is_0(void **state)
{
	(void)state;
	make_node((NODE_BYTES - sizeof(struct btrfs_header)) / sizeof(struct btrfs_key_ptr));
	assert_good();
	expect.have_first_key = true;
	expect.first_key = key_make(256, BTRFS_INODE_ITEM_KEY, 0);
	assert_good();
}

static void test_node_each_wrong_field_is_bad(void **state)
{
	(void)state;
	make_node(5);
	WITH(*header(), nritems, 0, assert_bad("0 pointers"));
	WITH(*header(), nritems, htole32(494), assert_bad("494 pointers, of 1 to 493"));
	WITH(*header(), nritems, htole32(0xffffffff), assert_bad("pointers"));
	WITH(*ptr(3), blockptr, 0, assert_bad("points to 0"));
	WITH(*ptr(3), blockptr, htole64(16385), assert_bad("points to 16385"));
	WITH(*ptr(3), generation, htole64(91), assert_bad("slot 3: points to generation 91"));
	WITH(*ptr(3), key, disk_key(258, BTRFS_INODE_ITEM_KEY, 0), assert_bad("is not above"));
	WITH(*ptr(3), key, disk_key(1, 255, 0), assert_bad("is not above"));
	expect.have_first_key = true;
	expect.first_key = key_make(256, BTRFS_INODE_ITEM_KEY, 1);
	assert_bad("first key (256 1 0), its parent says (256 1 1)");
}

/* ------------------------------------------------------------- leaves */

static void make_leaf(void)
{
	header()->nritems = 0;
	add_item(disk_key(256, 48, 1), NULL, 0);
	add_item(disk_key(256, 48, 2), "abc", 3);
	add_item(disk_key(256, 48, 3), "defg", 4);
}

static void test_leaf_good_is_0(void **state)
{
	(void)state;
	make_leaf();
	assert_good();
	expect.have_first_key = true;
	expect.first_key = key_make(256, 48, 1);
	assert_good();
}

static void test_leaf_full_is_good_and_one_more_is_bad(void **state)
{
	uint32_t most = (NODE_BYTES - sizeof(struct btrfs_header)) / sizeof(struct btrfs_item);

	(void)state;
	for (uint32_t i = 0; i < most; i++)
		add_item(disk_key(i, 48, 0), NULL, 0);
	assert_good();
	WITH(*header(), nritems, htole32(most + 1), assert_bad("items"));
	WITH(*header(), nritems, htole32(0xffffffff), assert_bad("items"));
	/* It is where the headers are. */
	item(0)->size = htole32(20);
	item(0)->offset = htole32(NODE_BYTES - sizeof(struct btrfs_header) - 20);
	for (uint32_t i = 1; i < most; i++)
		item(i)->offset = item(0)->offset;
	assert_bad("within the item headers");
}

static void test_leaf_each_wrong_place_is_bad(void **state)
{
	(void)state;
	make_leaf();
	WITH(*item(1), size, htole32(4), assert_bad("should end"));
	WITH(*item(1), size, htole32(2), assert_bad("should end"));
	WITH(*item(1), size, htole32(0xffffffff), assert_bad("should end"));
	WITH(*item(1), offset, htole32(0xfffffffd), assert_bad("should end"));
	WITH(*item(0), offset, htole32(100), assert_bad("should end"));
	WITH(*item(2), offset, htole32(0), assert_bad("should end"));
	WITH(*item(2), key, disk_key(256, 48, 2), assert_bad("is not above"));
	WITH(*item(2), key, disk_key(255, 48, 9), assert_bad("is not above"));
	assert_good();
}

static void test_leaf_opaque_items_are_good(void **state)
{
	(void)state;
	item_good(0, 0, 0, NULL, 0);
	item_good(1, 255, 2, "anything", 8);
	item_good(BTRFS_TREE_LOG_OBJECTID, BTRFS_ORPHAN_ITEM_KEY, 300, NULL, 0);
	item_good(256, BTRFS_VERITY_MERKLE_ITEM_KEY, 0, "x", 1);
	item_good(0, BTRFS_PERSISTENT_ITEM_KEY, 1, "12345678", 8);
}

/* ------------------------------------------------------------- inodes */

static struct btrfs_inode_item good_inode(uint32_t mode)
{
	return (struct btrfs_inode_item){
		.generation = htole64(50),
		.transid = htole64(60),
		.nlink = htole32(1),
		.mode = htole32(mode),
	};
}

static void test_inode_good_is_0(void **state)
{
	const uint32_t types[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK};
	struct btrfs_inode_item ii;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		ii = good_inode(types[i] | 07777);
		item_good(257, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii));
	}
	ii = good_inode(S_IFDIR);
	ii.nlink = 0;
	item_good(BTRFS_ROOT_TREE_DIR_OBJECTID, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii));
	item_good(BTRFS_FREE_INO_OBJECTID, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii));
	item_good(BTRFS_LAST_FREE_OBJECTID, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii));
	ii.size = htole64(UINT64_MAX); /* old kernels' directories */
	item_good(257, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii));
	ii = good_inode(S_IFREG);
	ii.nlink = htole32(70000);
	ii.size = htole64(INT64_MAX);
	item_good(257, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii));
}

static void test_inode_each_wrong_field_is_bad(void **state)
{
	struct btrfs_inode_item ii = good_inode(S_IFREG | 0644);
	const uint8_t type = BTRFS_INODE_ITEM_KEY;

	(void)state;
	item_is_bad(255, type, 0, &ii, sizeof(ii), "no inode number");
	item_is_bad(257, type, 1, &ii, sizeof(ii), "no inode number");
	item_is_bad(257, type, 0, &ii, sizeof(ii) - 1, "159 bytes, expected 160");
	WITH(ii, mode, 0, item_is_bad(257, type, 0, &ii, sizeof(ii), "mode 00"));
	WITH(ii, mode, htole32(0170000), item_is_bad(257, type, 0, &ii, sizeof(ii), "mode"));
	WITH(ii, mode, htole32(0300644), item_is_bad(257, type, 0, &ii, sizeof(ii), "mode"));
	WITH(ii, generation, htole64(102),
		item_is_bad(257, type, 0, &ii, sizeof(ii), "generation"));
	WITH(ii, size, htole64(1ull << 63), item_is_bad(257, type, 0, &ii, sizeof(ii), "size"));
	ii = good_inode(S_IFDIR);
	WITH(ii, nlink, htole32(2), item_is_bad(257, type, 0, &ii, sizeof(ii), "2 links"));
}

/* Old kernels wrote such inodes for the v1 space cache. */
static void test_inode_of_root_tree_without_mode_is_good(void **state)
{
	struct btrfs_inode_item ii = good_inode(0);

	(void)state;
	header()->owner = htole64(BTRFS_ROOT_TREE_OBJECTID);
	item_good(256, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii));
	item_is_bad(256, BTRFS_INODE_ITEM_KEY, 0, &ii, sizeof(ii) - 1, "159 bytes");
}

/* A reference: its fixed part, then the name. */
static size_t put_ref(uint8_t *at, uint16_t name_len, size_t name_bytes)
{
	struct btrfs_inode_ref ref = {.index = htole64(2), .name_len = htole16(name_len)};

	memcpy(at, &ref, sizeof(ref));
	memset(at + sizeof(ref), 'n', name_bytes);
	return sizeof(ref) + name_bytes;
}

static size_t put_extref(uint8_t *at, uint16_t name_len, size_t name_bytes)
{
	struct btrfs_inode_extref ref = {.index = htole64(2), .name_len = htole16(name_len)};

	memcpy(at, &ref, sizeof(ref));
	memset(at + sizeof(ref), 'n', name_bytes);
	return sizeof(ref) + name_bytes;
}

static void test_inode_refs_inside_are_good(void **state)
{
	uint8_t data[1024];
	size_t n = put_ref(data, 1, 1);

	(void)state;
	n += put_ref(data + n, 255, 255);
	item_good(257, BTRFS_INODE_REF_KEY, 256, data, n);
	n = put_extref(data, 1, 1);
	n += put_extref(data + n, 255, 255);
	item_good(257, BTRFS_INODE_EXTREF_KEY, 12345, data, n);
}

static void test_inode_refs_outside_are_bad(void **state)
{
	uint8_t data[1024];
	size_t n = put_ref(data, 3, 3);

	(void)state;
	item_is_bad(257, BTRFS_INODE_REF_KEY, 256, data, 0, "0 bytes");
	item_is_bad(257, BTRFS_INODE_REF_KEY, 256, data, n - 1, "a name goes beyond");
	item_is_bad(257, BTRFS_INODE_REF_KEY, 256, data, 9, "a reference goes beyond");
	item_is_bad(257, BTRFS_INODE_REF_KEY, 256, data, n + 5, "a reference goes beyond");
	put_ref(data, 0, 3);
	item_is_bad(257, BTRFS_INODE_REF_KEY, 256, data, n, "a name of 0 bytes");
	put_ref(data, 256, 300);
	item_is_bad(257, BTRFS_INODE_REF_KEY, 256, data, 310, "a name of 256 bytes");
	n = put_extref(data, 3, 3);
	item_is_bad(257, BTRFS_INODE_EXTREF_KEY, 1, data, n - 1, "a name goes beyond");
	item_is_bad(257, BTRFS_INODE_EXTREF_KEY, 1, data, 17, "a reference goes beyond");
	put_extref(data, 0, 3);
	item_is_bad(257, BTRFS_INODE_EXTREF_KEY, 1, data, n, "a name of 0 bytes");
}

/* ------------------------------------------------------------- directories */

struct entry {
	struct btrfs_dir_item di;
	char name[1000];
};

/* The entry in memory; its whole length is *bytes. */
static struct entry make_entry(const char *name, uint8_t type, size_t *bytes)
{
	struct entry e = {
		.di = {.location = disk_key(257, BTRFS_INODE_ITEM_KEY, 0),
			.name_len = htole16((uint16_t)strlen(name)),
			.type = type},
	};

	strcpy(e.name, name);
	*bytes = sizeof(e.di) + strlen(name);
	return e;
}

static void entry_bad(const struct entry *e, size_t bytes, const char *words)
{
	item_is_bad(256, BTRFS_DIR_INDEX_KEY, 2, e, bytes, words);
}

static void test_dir_items_good_are_0(void **state)
{
	size_t bytes;
	struct entry e = make_entry("default", BTRFS_FT_DIR, &bytes);

	(void)state;
	item_good(256, BTRFS_DIR_ITEM_KEY, name_hash("default", 7), &e, bytes);
	item_good(256, BTRFS_DIR_INDEX_KEY, (1ull << 62) - 1, &e, bytes);
	e.di.location = disk_key(260, BTRFS_ROOT_ITEM_KEY, UINT64_MAX);
	item_good(256, BTRFS_DIR_INDEX_KEY, 2, &e, bytes);
	e.di.type = BTRFS_FT_UNKNOWN;
	item_good(256, BTRFS_DIR_INDEX_KEY, 2, &e, bytes);
	e = make_entry("a/b", BTRFS_FT_ENCRYPTED | BTRFS_FT_REG_FILE, &bytes);
	item_good(256, BTRFS_DIR_INDEX_KEY, 2, &e, bytes);
	e = make_entry("...", BTRFS_FT_REG_FILE, &bytes);
	item_good(256, BTRFS_DIR_INDEX_KEY, 2, &e, bytes);
}

/* Names with the same hash share an item; here both are the same. */
static void test_dir_item_of_two_names_is_good(void **state)
{
	uint8_t data[200];
	size_t bytes;
	struct entry e = make_entry("default0", BTRFS_FT_REG_FILE, &bytes);
	uint64_t hash = name_hash("default0", 8);

	(void)state;
	memcpy(data, &e, bytes);
	memcpy(data + bytes, &e, bytes);
	item_good(256, BTRFS_DIR_ITEM_KEY, hash, data, 2 * bytes);
	/* Each of them counts. */
	data[bytes + sizeof(e.di)] ^= 1;
	item_is_bad(256, BTRFS_DIR_ITEM_KEY, hash, data, 2 * bytes, "hash");
}

static void test_dir_item_each_wrong_field_is_bad(void **state)
{
	size_t bytes;
	struct entry e = make_entry("name", BTRFS_FT_REG_FILE, &bytes);

	(void)state;
	entry_bad(&e, 0, "0 bytes");
	entry_bad(&e, bytes - 1, "goes beyond");
	entry_bad(&e, sizeof(e.di) - 1, "an entry goes beyond");
	entry_bad(&e, bytes + 1, "an entry goes beyond");
	item_is_bad(256, BTRFS_DIR_INDEX_KEY, 1ull << 62, &e, bytes, "index");
	item_is_bad(256, BTRFS_DIR_ITEM_KEY, 1, &e, bytes, "hash");
	WITH(e, di.name_len, 0, entry_bad(&e, bytes, "a name of 0 bytes"));
	WITH(e, di.name_len, htole16(256), entry_bad(&e, sizeof(e), "a name of 256 bytes"));
	WITH(e, di.data_len, htole16(1), entry_bad(&e, bytes + 1, "1 bytes of data"));
	WITH(e, di.data_len, htole16(0xffff), entry_bad(&e, bytes, "goes beyond"));
	WITH(e, di.type, BTRFS_FT_XATTR, entry_bad(&e, bytes, "entry type 8"));
	WITH(e, di.type, 9, entry_bad(&e, bytes, "entry type 9"));
	WITH(e, di.location.type, 0, entry_bad(&e, bytes, "key type 0"));
	WITH(e, name[1], '/', entry_bad(&e, bytes, "not a file name"));
	WITH(e, name[3], '\0', entry_bad(&e, bytes, "not a file name"));
	e = make_entry("..", BTRFS_FT_DIR, &bytes);
	entry_bad(&e, bytes, "not a file name");
	e = make_entry(".", BTRFS_FT_DIR, &bytes);
	entry_bad(&e, bytes, "not a file name");
}

static void test_xattr_items_are_checked(void **state)
{
	size_t bytes;
	struct entry e = make_entry("user.a/b", BTRFS_FT_XATTR, &bytes);
	uint64_t hash = name_hash("user.a/b", 8);
	const uint8_t type = BTRFS_XATTR_ITEM_KEY;

	(void)state;
	e.di.location = disk_key(0, 0, 0);
	item_good(257, type, hash, &e, bytes);
	e.di.data_len = htole16(500);
	item_good(257, type, hash, &e, bytes + 500);
	item_is_bad(257, type, hash, &e, bytes + 499, "goes beyond");
	item_is_bad(257, type, hash + 1, &e, bytes + 500, "hash");
	WITH(e, di.type, BTRFS_FT_DIR, item_is_bad(257, type, hash, &e, bytes + 500, "entry type"));
}

/* ------------------------------------------------------------- file extents */

static struct btrfs_file_extent_item good_extent(void)
{
	return (struct btrfs_file_extent_item){
		.generation = htole64(10),
		.ram_bytes = htole64(65536),
		.type = BTRFS_FILE_EXTENT_REG,
		.disk_bytenr = htole64(20 << 20),
		.disk_num_bytes = htole64(65536),
		.offset = htole64(4096),
		.num_bytes = htole64(8192),
	};
}

static void extent_good(const struct btrfs_file_extent_item *fe)
{
	item_good(257, BTRFS_EXTENT_DATA_KEY, 4096, fe, sizeof(*fe));
}

static void extent_bad(const struct btrfs_file_extent_item *fe, const char *words)
{
	item_is_bad(257, BTRFS_EXTENT_DATA_KEY, 4096, fe, sizeof(*fe), words);
}

static void test_file_extents_good_are_0(void **state)
{
	struct btrfs_file_extent_item fe = good_extent();

	(void)state;
	extent_good(&fe);
	WITH(fe, type, BTRFS_FILE_EXTENT_PREALLOC, extent_good(&fe));
	WITH(fe, compression, BTRFS_COMPRESS_ZSTD, extent_good(&fe));
	/* A hole. */
	fe.disk_bytenr = fe.disk_num_bytes = fe.offset = 0;
	fe.num_bytes = fe.ram_bytes = htole64(1ull << 40);
	extent_good(&fe);
	/* Up to the largest offset. */
	fe.num_bytes = htole64((1ull << 63) - 4096);
	extent_good(&fe);
}

static void test_file_extent_each_wrong_field_is_bad(void **state)
{
	struct btrfs_file_extent_item fe = good_extent();
	const struct btrfs_file_extent_item two[2] = {fe};
	const uint8_t key_type = BTRFS_EXTENT_DATA_KEY;

	(void)state;
	item_is_bad(257, key_type, 4096, &fe, sizeof(fe) - 1, "52 bytes, expected 53");
	item_is_bad(257, key_type, 4096, two, sizeof(fe) + 1, "54 bytes, expected 53");
	item_is_bad(257, key_type, 4096, &fe, 20, "20 bytes, expected 21");
	item_is_bad(257, key_type, 100, &fe, sizeof(fe), "file offset");
	item_is_bad(257, key_type, 0 - 4096ull, &fe, sizeof(fe), "largest file");
	item_is_bad(257, key_type, (1ull << 63) - 4096, &fe, sizeof(fe), "largest file");
	WITH(fe, type, 3, extent_bad(&fe, "extent type 3"));
	WITH(fe, compression, 4, extent_bad(&fe, "compression type 4"));
	WITH(fe, encryption, 1, extent_bad(&fe, "encryption 1"));
	WITH(fe, other_encoding, htole16(1), extent_bad(&fe, "encoding 1"));
	WITH(fe, ram_bytes, htole64(100), extent_bad(&fe, "aligned"));
	WITH(fe, disk_bytenr, htole64(100), extent_bad(&fe, "aligned"));
	WITH(fe, disk_num_bytes, htole64(100), extent_bad(&fe, "aligned"));
	WITH(fe, offset, htole64(100), extent_bad(&fe, "aligned"));
	WITH(fe, num_bytes, htole64(100), extent_bad(&fe, "aligned"));
	WITH(fe, num_bytes, 0, extent_bad(&fe, "no bytes"));
	WITH(fe, num_bytes, htole64(0 - 4096ull), extent_bad(&fe, "largest file"));
	WITH(fe, offset, htole64(0 - 4096ull), extent_bad(&fe, "overflows"));
	WITH(fe, disk_bytenr, htole64(0 - 4096ull), extent_bad(&fe, "overflows"));
	WITH(fe, disk_num_bytes, htole64(0 - 4096ull), extent_bad(&fe, "overflows"));
}

/* They are taken into memory as a whole. */
static void test_file_extent_compressed_too_long_is_bad(void **state)
{
	struct btrfs_file_extent_item fe = good_extent();

	(void)state;
	fe.compression = BTRFS_COMPRESS_LZO;
	WITH(fe, ram_bytes, htole64(132 << 10), extent_bad(&fe, "compressed"));
	WITH(fe, disk_num_bytes, htole64(132 << 10), extent_bad(&fe, "compressed"));
	WITH(fe, ram_bytes, htole64(8192), extent_bad(&fe, "compressed"));
	extent_good(&fe);
}

static void test_file_extent_inline_is_checked(void **state)
{
	struct btrfs_file_extent_item fe = {
		.ram_bytes = htole64(10), .type = BTRFS_FILE_EXTENT_INLINE};
	const uint8_t type = BTRFS_EXTENT_DATA_KEY;
	const size_t head = FILE_EXTENT_INLINE_OFFSET;

	(void)state;
	item_good(257, type, 0, &fe, head + 10);
	item_is_bad(257, type, 0, &fe, head + 9, "10 bytes in 30");
	item_is_bad(257, type, 4096, &fe, head + 10, "not at the front");
	WITH(fe, ram_bytes, 0, item_good(257, type, 0, &fe, head));
	fe.compression = BTRFS_COMPRESS_ZLIB;
	item_good(257, type, 0, &fe, head + 9);
	fe.ram_bytes = htole64(BTRFS_MAX_UNCOMPRESSED_BYTES + 1);
	item_is_bad(257, type, 0, &fe, head + 9, "compressed inline");
}

static void test_csum_items_are_checked(void **state)
{
	uint8_t sums[400] = {0};
	const uint8_t type = BTRFS_EXTENT_CSUM_KEY;

	(void)state;
	item_good(BTRFS_EXTENT_CSUM_OBJECTID, type, 40960, sums, 400);
	item_is_bad(BTRFS_EXTENT_CSUM_OBJECTID, type, 40961, sums, 400, "aligned");
	item_is_bad(BTRFS_EXTENT_CSUM_OBJECTID, type, 40960, sums, 399, "399 bytes");
	item_is_bad(BTRFS_EXTENT_CSUM_OBJECTID, type, 0 - 40960ull, sums, 400, "overflows");
	item_is_bad(1, type, 40960, sums, 400, "object 1");
	geo.csum_bytes = 32;
	item_is_bad(BTRFS_EXTENT_CSUM_OBJECTID, type, 40960, sums, 400, "of 32 bytes");
}

/* ------------------------------------------------------------- the volume's items */

static void test_root_items_are_checked(void **state)
{
	struct btrfs_root_item ri = {.bytenr = htole64(16384), .level = 7, .drop_level = 7};
	const uint8_t type = BTRFS_ROOT_ITEM_KEY;

	(void)state;
	item_good(256, type, 0, &ri, sizeof(ri));
	item_good(256, type, 0, &ri, btrfs_legacy_root_item_size());
	item_is_bad(256, type, 0, &ri, sizeof(ri) - 1, "438 bytes");
	item_is_bad(256, type, 0, &ri, 0, "0 bytes");
	WITH(ri, bytenr, htole64(100), item_is_bad(256, type, 0, &ri, sizeof(ri), "root at 100"));
	WITH(ri, level, 8, item_is_bad(256, type, 0, &ri, sizeof(ri), "level 8"));
	WITH(ri, drop_level, 8, item_is_bad(256, type, 0, &ri, sizeof(ri), "drop level 8"));
}

static void test_root_refs_are_checked(void **state)
{
	struct {
		struct btrfs_root_ref ref;
		char name[300];
	} __attribute__((packed)) r = {.ref.name_len = htole16(5), .name = "snap1"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t type = i ? BTRFS_ROOT_REF_KEY : BTRFS_ROOT_BACKREF_KEY;

		item_good(5, type, 256, &r, sizeof(r.ref) + 5);
		item_is_bad(5, type, 256, &r, sizeof(r.ref) + 4, "goes beyond");
		item_is_bad(5, type, 256, &r, sizeof(r.ref) - 1, "17 bytes");
		WITH(r, ref.name_len, 0, item_is_bad(5, type, 256, &r, 23, "a name of 0"));
		WITH(r, ref.name_len, htole16(256),
			item_is_bad(5, type, 256, &r, sizeof(r), "a name of 256"));
	}
}

static const uint8_t inline_types[][2] = {/* type, size */
	{BTRFS_TREE_BLOCK_REF_KEY, 9}, {BTRFS_SHARED_BLOCK_REF_KEY, 9},
	{BTRFS_EXTENT_DATA_REF_KEY, 29}, {BTRFS_SHARED_DATA_REF_KEY, 13},
	{BTRFS_EXTENT_OWNER_REF_KEY, 9}};

static void test_extent_items_good_are_0(void **state)
{
	uint8_t data[400] = {0};
	struct btrfs_extent_item ei = {.flags = htole64(BTRFS_EXTENT_FLAG_DATA)};
	size_t n = sizeof(ei);

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(inline_types); i++) {
		data[n] = inline_types[i][0];
		n += inline_types[i][1];
	}
	memcpy(data, &ei, sizeof(ei));
	item_good(1 << 20, BTRFS_EXTENT_ITEM_KEY, 8192, data, n);
	item_good(1 << 20, BTRFS_EXTENT_ITEM_KEY, 8192, data, sizeof(ei));
	ei.flags = htole64(BTRFS_EXTENT_FLAG_TREE_BLOCK | BTRFS_BLOCK_FLAG_FULL_BACKREF);
	memcpy(data, &ei, sizeof(ei));
	item_good(1 << 20, BTRFS_METADATA_ITEM_KEY, 7, data, n);
	memset(data + sizeof(ei), 0, 18);
	data[sizeof(ei) + 18] = BTRFS_TREE_BLOCK_REF_KEY;
	item_good(1 << 20, BTRFS_EXTENT_ITEM_KEY, NODE_BYTES, data, sizeof(ei) + 18 + 9);
}

static void test_extent_items_wrong_are_bad(void **state)
{
	uint8_t data[400] = {0};
	struct btrfs_extent_item *ei = (void *)data;
	const uint8_t type = BTRFS_EXTENT_ITEM_KEY, skinny = BTRFS_METADATA_ITEM_KEY;
	const size_t head = sizeof(*ei);

	(void)state;
	ei->flags = htole64(BTRFS_EXTENT_FLAG_DATA);
	item_is_bad(1, type, 4096, data, head, "aligned");
	item_is_bad(4096, type, 0, data, head, "length");
	item_is_bad(4096, type, 100, data, head, "length");
	item_is_bad(4096, type, 0 - 4096ull, data, head, "length");
	item_is_bad(4096, type, 4096, data, head - 1, "23 bytes");
	item_is_bad(4096, skinny, 0, data, head, "flags");
	WITH(*ei, flags, 0, item_is_bad(4096, type, 4096, data, head, "flags"));
	WITH(*ei, flags, htole64(3), item_is_bad(4096, type, 4096, data, head, "flags"));
	for (unsigned i = 0; i < ARRAY_SIZE(inline_types); i++) {
		data[head] = inline_types[i][0];
		item_is_bad(4096, type, 4096, data, head + inline_types[i][1] - 1,
			"reference goes beyond");
	}
	data[head] = 0;
	item_is_bad(4096, type, 4096, data, head + 9, "type 0");
	ei->flags = htole64(BTRFS_EXTENT_FLAG_TREE_BLOCK);
	item_is_bad(4096, skinny, 8, data, head, "level 8");
	item_is_bad(4096, type, NODE_BYTES, data, head + 17, "no block information");
	data[head + 17] = 8;
	item_is_bad(4096, type, NODE_BYTES, data, head + 18, "level 8");
}

static void test_keyed_refs_are_checked(void **state)
{
	uint8_t data[64] = {0};

	(void)state;
	item_good(4096, BTRFS_TREE_BLOCK_REF_KEY, 5, NULL, 0);
	item_good(4096, BTRFS_SHARED_BLOCK_REF_KEY, 4096, NULL, 0);
	item_good(4096, BTRFS_EXTENT_DATA_REF_KEY, 1, data, 56);
	item_good(4096, BTRFS_SHARED_DATA_REF_KEY, 4096, data, 4);
	item_is_bad(4096, BTRFS_TREE_BLOCK_REF_KEY, 5, data, 1, "1 bytes");
	item_is_bad(4096, BTRFS_SHARED_BLOCK_REF_KEY, 5, data, 1, "1 bytes");
	item_is_bad(4096, BTRFS_EXTENT_DATA_REF_KEY, 1, data, 57, "57 bytes");
	item_is_bad(4096, BTRFS_EXTENT_DATA_REF_KEY, 1, data, 0, "0 bytes");
	item_is_bad(4096, BTRFS_SHARED_DATA_REF_KEY, 1, data, 5, "5 bytes");
}

static void test_free_space_items_are_checked(void **state)
{
	uint8_t data[256] = {0};

	(void)state;
	item_good(1 << 20, BTRFS_FREE_SPACE_INFO_KEY, 1 << 20, data, 8);
	item_good(1 << 20, BTRFS_FREE_SPACE_EXTENT_KEY, 1 << 20, NULL, 0);
	item_good(1 << 20, BTRFS_FREE_SPACE_BITMAP_KEY, 256 * 8 * 4096, data, 256);
	item_good(1 << 20, BTRFS_FREE_SPACE_BITMAP_KEY, 9 * 4096, data, 2);
	item_is_bad(1 << 20, BTRFS_FREE_SPACE_INFO_KEY, 1 << 20, data, 7, "7 bytes");
	item_is_bad(1 << 20, BTRFS_FREE_SPACE_EXTENT_KEY, 1 << 20, data, 1, "1 bytes");
	item_is_bad(1 << 20, BTRFS_FREE_SPACE_BITMAP_KEY, 9 * 4096, data, 1, "expected 2");
	item_is_bad(1 << 20, BTRFS_FREE_SPACE_BITMAP_KEY, UINT64_MAX, data, 256, "bitmap");
}

static void test_small_items_too_short_are_bad(void **state)
{
	static const struct {
		uint8_t type;
		uint8_t bytes;
	} types[] = {{BTRFS_DEV_EXTENT_KEY, 48}, {BTRFS_QGROUP_STATUS_KEY, 32},
		{BTRFS_QGROUP_INFO_KEY, 40}, {BTRFS_QGROUP_LIMIT_KEY, 40},
		{BTRFS_DIR_LOG_INDEX_KEY, 8}, {BTRFS_UUID_KEY_SUBVOL, 8},
		{BTRFS_UUID_KEY_RECEIVED_SUBVOL, 16}};
	uint8_t data[64] = {0};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		item_good(256, types[i].type, 1, data, types[i].bytes);
		item_is_bad(256, types[i].type, 1, data, types[i].bytes - 1u, "bytes");
	}
	item_good(0, BTRFS_QGROUP_STATUS_KEY, 0, data, 40); /* with simple quotas */
}

/* ------------------------------------------------------------- chunks */

struct two_stripes {
	struct btrfs_chunk chunk;
	struct btrfs_stripe second;
} __attribute__((packed));

static struct two_stripes good_chunk(void)
{
	return (struct two_stripes){
		.chunk = {.length = htole64(8 << 20),
			.stripe_len = htole64(BTRFS_STRIPE_LEN_BYTES),
			.type = htole64(BTRFS_BLOCK_GROUP_METADATA),
			.num_stripes = htole16(1),
			.stripe = {.devid = htole64(1), .offset = htole64(22 << 20)}},
		.second = {.devid = htole64(1), .offset = htole64(30 << 20)},
	};
}

static void chunk_is(const struct two_stripes *c, size_t bytes, const char *words)
{
	struct btrfs_key key =
		key_make(BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, 16 << 20);
	int ret = chunk_item_check(&geo, &key, &c->chunk, bytes, why, sizeof(why));

	assert_int_equal(ret, words ? -EUCLEAN : 0);
	if (words)
		assert_non_null(strstr(why, words));
	/* The same as an item. */
	one_item(key.objectid, key.type, key.offset, c, bytes);
	if (words)
		assert_bad(bytes < sizeof(c->chunk) ? "bytes" : words);
	else
		assert_good();
}

static void test_chunks_single_and_dup_are_good(void **state)
{
	struct two_stripes c = good_chunk();

	(void)state;
	chunk_is(&c, sizeof(c.chunk), NULL);
	WITH(c, chunk.type, htole64(BTRFS_BLOCK_GROUP_SYSTEM), chunk_is(&c, sizeof(c.chunk), NULL));
	c.chunk.num_stripes = htole16(2);
	c.chunk.type = htole64(BTRFS_BLOCK_GROUP_DATA | BTRFS_BLOCK_GROUP_DUP);
	chunk_is(&c, sizeof(c), NULL);
	geo.incompat_flags = BTRFS_FEATURE_INCOMPAT_MIXED_GROUPS;
	c.chunk.type |= htole64(BTRFS_BLOCK_GROUP_METADATA);
	chunk_is(&c, sizeof(c), NULL);
}

static void test_chunk_each_wrong_field_is_bad(void **state)
{
	struct two_stripes c = good_chunk();
	const size_t one = sizeof(c.chunk);

	(void)state;
	chunk_is(&c, one - 1, "79 bytes");
	chunk_is(&c, one + 1, "81 bytes");
	WITH(c, chunk.length, 0, chunk_is(&c, one, "length 0"));
	WITH(c, chunk.length, htole64(100), chunk_is(&c, one, "length 100"));
	WITH(c, chunk.length, htole64(0 - 4096ull), chunk_is(&c, one, "length"));
	WITH(c, chunk.stripe_len, htole64(4096), chunk_is(&c, one, "stripe length"));
	WITH(c, chunk.num_stripes, 0, chunk_is(&c, one, "0 stripes"));
	WITH(c, chunk.num_stripes, htole16(2), chunk_is(&c, sizeof(c), "2 stripes"));
	WITH(c, chunk.type, 0, chunk_is(&c, one, "type 0x0"));
	WITH(c, chunk.type, htole64(5), chunk_is(&c, one, "without the feature"));
	WITH(c, chunk.type, htole64(6), chunk_is(&c, one, "type 0x6"));
	WITH(c, chunk.type, htole64(4 | 1ull << 50), chunk_is(&c, one, "type 0x"));
	WITH(c, chunk.type, htole64(4 | BTRFS_BLOCK_GROUP_DUP), chunk_is(&c, one, "1 stripes"));
	WITH(c, chunk.type, htole64(4 | BTRFS_BLOCK_GROUP_RAID1), chunk_is(&c, one, "RAID1 "));
	WITH(c, chunk.type, htole64(1 | BTRFS_BLOCK_GROUP_RAID1C4), chunk_is(&c, one, "RAID1C4"));
	WITH(c, chunk.stripe.offset, htole64(1), chunk_is(&c, one, "stripe 0 at 1"));
	WITH(c, chunk.stripe.offset, htole64(0 - 4096ull), chunk_is(&c, one, "stripe 0"));
	c.chunk.type |= htole64(BTRFS_BLOCK_GROUP_DUP);
	c.chunk.num_stripes = htole16(2);
	WITH(c, second.devid, htole64(2), chunk_is(&c, sizeof(c), "devices 1 and 2"));
	WITH(c, second.offset, htole64(100), chunk_is(&c, sizeof(c), "stripe 1 at 100"));
}

static void test_chunk_under_another_key_is_bad(void **state)
{
	struct two_stripes c = good_chunk();

	(void)state;
	item_is_bad(1, BTRFS_CHUNK_ITEM_KEY, 16 << 20, &c, sizeof(c.chunk), "key");
	item_is_bad(256, BTRFS_CHUNK_ITEM_KEY, 100, &c, sizeof(c.chunk), "aligned");
}

static void test_dev_items_are_checked(void **state)
{
	struct btrfs_dev_item di = {.devid = htole64(1),
		.total_bytes = htole64(1 << 30),
		.bytes_used = htole64(1 << 30)};
	const uint8_t type = BTRFS_DEV_ITEM_KEY;

	(void)state;
	item_good(1, type, 1, &di, sizeof(di));
	item_is_bad(1, type, 2, &di, sizeof(di), "another key");
	item_is_bad(2, type, 1, &di, sizeof(di), "another key");
	item_is_bad(1, type, 1, &di, sizeof(di) - 1, "97 bytes");
	WITH(di, total_bytes, 0, item_is_bad(1, type, 1, &di, sizeof(di), "bytes used"));
}

static void test_block_group_items_are_checked(void **state)
{
	struct btrfs_block_group_item bg = {.used = htole64(8192)};
	const uint8_t type = BTRFS_BLOCK_GROUP_ITEM_KEY;

	(void)state;
	item_good(1 << 20, type, 8192, &bg, sizeof(bg));
	item_is_bad(1 << 20, type, 4096, &bg, sizeof(bg), "8192 of 4096 bytes used");
	item_is_bad(1 << 20, type, 0, &bg, sizeof(bg), "length");
	item_is_bad(1 << 20, type, UINT64_MAX, &bg, sizeof(bg), "length");
	item_is_bad(1 << 20, type, 8192, &bg, sizeof(bg) - 1, "23 bytes");
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_header_good_is_0),
		CASE(test_header_each_wrong_field_is_bad),
		CASE(test_header_wrong_checksum_is_bad),
		CASE(test_header_newer_than_super_is_bad),
		CASE(test_header_level_8_is_bad),
		CASE(test_node_good_is_0),
		CASE(test_node_each_wrong_field_is_bad),
		CASE(test_leaf_good_is_0),
		CASE(test_leaf_full_is_good_and_one_more_is_bad),
		CASE(test_leaf_each_wrong_place_is_bad),
		CASE(test_leaf_opaque_items_are_good),
		CASE(test_inode_good_is_0),
		CASE(test_inode_each_wrong_field_is_bad),
		CASE(test_inode_of_root_tree_without_mode_is_good),
		CASE(test_inode_refs_inside_are_good),
		CASE(test_inode_refs_outside_are_bad),
		CASE(test_dir_items_good_are_0),
		CASE(test_dir_item_of_two_names_is_good),
		CASE(test_dir_item_each_wrong_field_is_bad),
		CASE(test_xattr_items_are_checked),
		CASE(test_file_extents_good_are_0),
		CASE(test_file_extent_each_wrong_field_is_bad),
		CASE(test_file_extent_compressed_too_long_is_bad),
		CASE(test_file_extent_inline_is_checked),
		CASE(test_csum_items_are_checked),
		CASE(test_root_items_are_checked),
		CASE(test_root_refs_are_checked),
		CASE(test_extent_items_good_are_0),
		CASE(test_extent_items_wrong_are_bad),
		CASE(test_keyed_refs_are_checked),
		CASE(test_free_space_items_are_checked),
		CASE(test_small_items_too_short_are_bad),
		CASE(test_chunks_single_and_dup_are_good),
		CASE(test_chunk_each_wrong_field_is_bad),
		CASE(test_chunk_under_another_key_is_bad),
		CASE(test_dev_items_are_checked),
		CASE(test_block_group_items_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
