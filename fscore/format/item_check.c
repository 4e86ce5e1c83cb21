/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks and their layout. What is inside the items: item_check_file.c, _volume.c
 * and _chunk.c.
 *
 * A block that a kernel has written must pass, old kernels and log trees
 * included. So a check is here because the rest of the core relies on it, or
 * because the kernel refuses the same.
 */
#include "fscore/format/item_check.h"

#include <string.h>

#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/format/item_check_private.h"

typedef unsigned long long ull;

int item_bad(const struct checked_item *it, const char *fmt, ...)
{
	const struct btrfs_header *h = block_header(it->leaf);
	const struct report *r = it->report;
	va_list ap;
	int len;

	len = snprintf(r->why, r->bytes,
		"block %llu, tree %llu, slot %u, key (%llu %u %llu): ", (ull)GET(h, bytenr),
		(ull)GET(h, owner), it->slot, it->key.objectid, it->key.type, it->key.offset);
	if (len < 0 || (size_t)len >= r->bytes)
		return -EUCLEAN;
	va_start(ap, fmt);
	vsnprintf(r->why + len, r->bytes - (size_t)len, fmt, ap);
	va_end(ap);
	return -EUCLEAN;
}

/* ------------------------------------------------------------- header */

static int check_first_key(
	const struct block_expect *expect, const void *block, const struct report *r)
{
	struct btrfs_key key;

	if (!expect->have_first_key)
		return 0;
	if (!block_nritems(block))
		return bad(r, "block %llu: empty", (ull)expect->logical);
	/* The key is first in both an item and a key pointer. */
	key = block_level(block) ? node_key(block, 0) : leaf_key(block, 0);
	if (key_cmp(&key, &expect->first_key) == 0)
		return 0;
	return bad(r, "block %llu: first key (%llu %u %llu), its parent says (%llu %u %llu)",
		(ull)expect->logical, key.objectid, key.type, key.offset,
		expect->first_key.objectid, expect->first_key.type, expect->first_key.offset);
}

static int check_header(const struct volume_geometry *geo, const struct block_expect *expect,
	const void *block, const struct report *r)
{
	const struct btrfs_header *h = block_header(block);
	ull logical = expect->logical;
	uint64_t generation = GET(h, generation);

	if (!csum_block_ok(geo->csum_type, block, geo->node_bytes))
		return bad(
			r, "block %llu: wrong checksum (%s)", logical, csum_name(geo->csum_type));
	if (GET(h, bytenr) != expect->logical)
		return bad(r, "block %llu says it is block %llu", logical, (ull)GET(h, bytenr));
	if (memcmp(h->fsid, geo->fsid, BTRFS_FSID_SIZE) != 0)
		return bad(r, "block %llu: wrong fsid", logical);
	if (h->level >= BTRFS_MAX_LEVEL || h->level != expect->level)
		return bad(
			r, "block %llu: level %u, expected %u", logical, h->level, expect->level);
	/* A log tree belongs to the transaction after that of the superblock. */
	if (generation != expect->generation || generation > geo->generation + 1)
		return bad(r, "block %llu: generation %llu, expected %llu (superblock: %llu)",
			logical, (ull)generation, (ull)expect->generation, (ull)geo->generation);
	if (expect->owner && GET(h, owner) != expect->owner)
		return bad(r, "block %llu: of tree %llu, expected %llu", logical,
			(ull)GET(h, owner), (ull)expect->owner);
	return 0;
}

/* ------------------------------------------------------------- nodes */

static int check_ascending(const void *block, uint32_t slot, const struct btrfs_key *before,
	const struct btrfs_key *key, const struct report *r)
{
	if (slot == 0 || key_cmp(before, key) < 0)
		return 0;
	return bad(r,
		"block %llu, tree %llu, slot %u: key (%llu %u %llu) is not above (%llu %u %llu)",
		(ull)GET(block_header(block), bytenr), (ull)GET(block_header(block), owner), slot,
		key->objectid, key->type, key->offset, before->objectid, before->type,
		before->offset);
}

static int check_node(const struct volume_geometry *geo, const void *block, const struct report *r)
{
	const struct btrfs_header *h = block_header(block);
	uint32_t n = block_nritems(block);
	uint32_t most =
		(geo->node_bytes - (uint32_t)sizeof(*h)) / (uint32_t)sizeof(struct btrfs_key_ptr);
	struct btrfs_key before = {0};
	int ret;

	if (n == 0 || n > most)
		return bad(r, "block %llu, tree %llu: %u pointers, of 1 to %u", (ull)GET(h, bytenr),
			(ull)GET(h, owner), n, most);
	for (uint32_t i = 0; i < n; i++) {
		const struct btrfs_key_ptr *ptr = node_ptr(block, i);
		struct btrfs_key key = node_key(block, i);
		uint64_t child = GET(ptr, blockptr);

		ret = check_ascending(block, i, &before, &key, r);
		if (ret)
			return ret;
		if (!child || !is_aligned(geo, child))
			return bad(r, "block %llu, tree %llu, slot %u: points to %llu",
				(ull)GET(h, bytenr), (ull)GET(h, owner), i, (ull)child);
		if (GET(ptr, generation) > GET(h, generation))
			return bad(r, "block %llu, tree %llu, slot %u: points to generation %llu",
				(ull)GET(h, bytenr), (ull)GET(h, owner), i,
				(ull)GET(ptr, generation));
		before = key;
	}
	return 0;
}

/* ------------------------------------------------------------- leaves */

/*
 * What is known about the items of each type. Those that are not listed are
 * opaque: nothing in the core looks inside, or whoever does checks.
 */
static const struct item_type {
	/* Sizes below it are refused; above it, but for exact: a later kernel's additions. */
	uint32_t min_bytes;
	bool exact;
	int (*check)(const struct checked_item *it);
} item_types[256] = {
	[BTRFS_INODE_ITEM_KEY] = {sizeof(struct btrfs_inode_item), false, check_inode_item},
	[BTRFS_INODE_REF_KEY] = {1, false, check_inode_ref},
	[BTRFS_INODE_EXTREF_KEY] = {1, false, check_inode_extref},
	[BTRFS_XATTR_ITEM_KEY] = {1, false, check_dir_item},
	[BTRFS_DIR_LOG_ITEM_KEY] = {sizeof(struct btrfs_dir_log_item), false, NULL},
	[BTRFS_DIR_LOG_INDEX_KEY] = {sizeof(struct btrfs_dir_log_item), false, NULL},
	[BTRFS_DIR_ITEM_KEY] = {1, false, check_dir_item},
	[BTRFS_DIR_INDEX_KEY] = {1, false, check_dir_item},
	[BTRFS_EXTENT_DATA_KEY] = {FILE_EXTENT_INLINE_OFFSET, false, check_file_extent},
	[BTRFS_EXTENT_CSUM_KEY] = {0, false, check_extent_csum},
	[BTRFS_ROOT_ITEM_KEY] = {1, false, check_root_item},
	[BTRFS_ROOT_BACKREF_KEY] = {sizeof(struct btrfs_root_ref), false, check_root_ref},
	[BTRFS_ROOT_REF_KEY] = {sizeof(struct btrfs_root_ref), false, check_root_ref},
	[BTRFS_EXTENT_ITEM_KEY] = {sizeof(struct btrfs_extent_item), false, check_extent_item},
	[BTRFS_METADATA_ITEM_KEY] = {sizeof(struct btrfs_extent_item), false, check_extent_item},
	[BTRFS_TREE_BLOCK_REF_KEY] = {0, true, NULL},
	[BTRFS_EXTENT_DATA_REF_KEY] = {sizeof(struct btrfs_extent_data_ref), false,
		check_extent_data_ref},
	[BTRFS_SHARED_BLOCK_REF_KEY] = {0, true, NULL},
	[BTRFS_SHARED_DATA_REF_KEY] = {sizeof(struct btrfs_shared_data_ref), true, NULL},
	[BTRFS_BLOCK_GROUP_ITEM_KEY] = {sizeof(struct btrfs_block_group_item), false,
		check_block_group},
	[BTRFS_FREE_SPACE_INFO_KEY] = {sizeof(struct btrfs_free_space_info), false, NULL},
	[BTRFS_FREE_SPACE_EXTENT_KEY] = {0, true, NULL},
	[BTRFS_FREE_SPACE_BITMAP_KEY] = {0, false, check_free_space_bitmap},
	[BTRFS_DEV_EXTENT_KEY] = {sizeof(struct btrfs_dev_extent), false, NULL},
	[BTRFS_DEV_ITEM_KEY] = {sizeof(struct btrfs_dev_item), false, check_dev_item},
	[BTRFS_CHUNK_ITEM_KEY] = {sizeof(struct btrfs_chunk), false, check_chunk},
	[BTRFS_QGROUP_STATUS_KEY] = {sizeof(struct btrfs_qgroup_status_item), false, NULL},
	[BTRFS_QGROUP_INFO_KEY] = {sizeof(struct btrfs_qgroup_info_item), false, NULL},
	[BTRFS_QGROUP_LIMIT_KEY] = {sizeof(struct btrfs_qgroup_limit_item), false, NULL},
	[BTRFS_UUID_KEY_SUBVOL] = {8, false, check_uuid_item},
	[BTRFS_UUID_KEY_RECEIVED_SUBVOL] = {8, false, check_uuid_item},
};

static int check_item(const struct checked_item *it)
{
	const struct item_type *type = &item_types[it->key.type];

	if (it->bytes < type->min_bytes || (type->exact && it->bytes != type->min_bytes))
		return item_bad(it, "%u bytes, expected %u", it->bytes, type->min_bytes);
	return type->check ? type->check(it) : 0;
}

/* Item headers grow up, their data grow down, without gaps; they must not meet. */
static int check_place(const struct checked_item *it, uint32_t data_end)
{
	uint64_t headers_end = (it->slot + 1ull) * sizeof(struct btrfs_item);
	uint64_t begin = GET(leaf_item(it->leaf, it->slot), offset);

	if (begin + it->bytes != data_end)
		return item_bad(it, "data at %llu, %u bytes, should end at %u", (ull)begin,
			it->bytes, data_end);
	if (begin < headers_end)
		return item_bad(it, "data at %llu, within the item headers", (ull)begin);
	return 0;
}

static int check_leaf(const struct volume_geometry *geo, const void *block, const struct report *r)
{
	uint32_t data_end = geo->node_bytes - (uint32_t)sizeof(struct btrfs_header);
	uint32_t n = block_nritems(block);
	struct checked_item it = {.geo = geo, .report = r, .leaf = block};
	struct btrfs_key before;
	int ret;

	if (n > data_end / sizeof(struct btrfs_item))
		return bad(r, "block %llu, tree %llu: %u items",
			(ull)GET(block_header(block), bytenr), (ull)GET(block_header(block), owner),
			n);
	for (it.slot = 0; it.slot < n; it.slot++) {
		before = it.key;
		it.key = leaf_key(block, it.slot);
		it.bytes = leaf_data_bytes(block, it.slot);
		ret = check_ascending(block, it.slot, &before, &it.key, r);
		if (!ret)
			ret = check_place(&it, data_end);
		if (ret)
			return ret;
		it.data = leaf_data(block, it.slot);
		ret = check_item(&it);
		if (ret)
			return ret;
		data_end = GET(leaf_item(block, it.slot), offset);
	}
	return 0;
}

int block_check(const struct volume_geometry *geo, const struct block_expect *expect,
	const void *block, char *why, size_t why_bytes)
{
	const struct report r = {.why = why, .bytes = why_bytes};
	int ret = check_header(geo, expect, block, &r);

	if (!ret)
		ret = block_level(block) ? check_node(geo, block, &r) : check_leaf(geo, block, &r);
	if (!ret)
		ret = check_first_key(expect, block, &r);
	return ret;
}
