/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a metadata block, with what a checksum or the parent's pointer would
 * catch set right. What passes is read as the rest of the core does, which trusts
 * the check.
 *
 * Input: one byte that chooses the sizes and features, then the block.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/format/item_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* So that the reads below are not left out. */
static volatile uint8_t sink;

static void touch(const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		sink ^= ((const uint8_t *)data)[i];
}

static void need(bool holds)
{
	if (!holds)
		abort();
}

static void use_dir_item(const uint8_t *data, uint32_t bytes)
{
	for (uint32_t at = 0; at < bytes;) {
		const struct btrfs_dir_item *di = (const void *)(data + at);
		uint32_t len = GET(di, name_len);

		need(len >= 1 && len <= BTRFS_NAME_LEN);
		touch(di + 1, len + GET(di, data_len));
		at += (uint32_t)sizeof(*di) + len + GET(di, data_len);
	}
}

static void use_inode_ref(const uint8_t *data, uint32_t bytes)
{
	for (uint32_t at = 0; at < bytes;) {
		const struct btrfs_inode_ref *ref = (const void *)(data + at);

		need(GET(ref, name_len) >= 1 && GET(ref, name_len) <= BTRFS_NAME_LEN);
		touch(ref + 1, GET(ref, name_len));
		at += (uint32_t)sizeof(*ref) + GET(ref, name_len);
	}
}

static void use_extref(const uint8_t *data, uint32_t bytes)
{
	for (uint32_t at = 0; at < bytes;) {
		const struct btrfs_inode_extref *ref = (const void *)(data + at);

		need(GET(ref, name_len) >= 1 && GET(ref, name_len) <= BTRFS_NAME_LEN);
		touch(ref + 1, GET(ref, name_len));
		at += (uint32_t)sizeof(*ref) + GET(ref, name_len);
	}
}

static void use_file_extent(const uint8_t *data, uint32_t bytes, uint64_t file_off)
{
	const struct btrfs_file_extent_item *fe = (const void *)data;

	if (fe->type == BTRFS_FILE_EXTENT_INLINE) {
		touch(data + FILE_EXTENT_INLINE_OFFSET, bytes - FILE_EXTENT_INLINE_OFFSET);
		return;
	}
	touch(fe, sizeof(*fe));
	need(GET(fe, num_bytes) > 0);
	need(file_off + GET(fe, num_bytes) > file_off);
	if (fe->compression && GET(fe, disk_bytenr))
		need(GET(fe, ram_bytes) <= BTRFS_MAX_UNCOMPRESSED_BYTES &&
			GET(fe, offset) + GET(fe, num_bytes) <= GET(fe, ram_bytes));
}

static void use_chunk(const uint8_t *data)
{
	const struct btrfs_chunk *chunk = (const void *)data;

	need(GET(chunk, num_stripes) == 1 || GET(chunk, num_stripes) == 2);
	touch(&chunk->stripe, GET(chunk, num_stripes) * sizeof(chunk->stripe));
}

static void use_item(const void *leaf, uint32_t slot)
{
	const uint8_t *data = leaf_data(leaf, slot);
	uint32_t bytes = leaf_data_bytes(leaf, slot);
	struct btrfs_key key = leaf_key(leaf, slot);

	touch(data, bytes);
	switch (key.type) {
	case BTRFS_INODE_ITEM_KEY:
		touch(data, sizeof(struct btrfs_inode_item));
		break;
	case BTRFS_INODE_REF_KEY:
		use_inode_ref(data, bytes);
		break;
	case BTRFS_INODE_EXTREF_KEY:
		use_extref(data, bytes);
		break;
	case BTRFS_DIR_ITEM_KEY:
	case BTRFS_DIR_INDEX_KEY:
	case BTRFS_XATTR_ITEM_KEY:
		use_dir_item(data, bytes);
		break;
	case BTRFS_EXTENT_DATA_KEY:
		use_file_extent(data, bytes, key.offset);
		break;
	case BTRFS_ROOT_ITEM_KEY:
		touch(data, btrfs_legacy_root_item_size());
		break;
	case BTRFS_ROOT_REF_KEY:
	case BTRFS_ROOT_BACKREF_KEY:
		touch(data,
			sizeof(struct btrfs_root_ref) +
				GET((const struct btrfs_root_ref *)(const void *)data, name_len));
		break;
	case BTRFS_CHUNK_ITEM_KEY:
		use_chunk(data);
		break;
	case BTRFS_DEV_ITEM_KEY:
		touch(data, sizeof(struct btrfs_dev_item));
		break;
	}
}

static void use_block(const void *block)
{
	for (uint32_t i = 0; i < block_nritems(block); i++)
		if (block_level(block))
			touch(node_ptr(block, i), sizeof(struct btrfs_key_ptr));
		else
			use_item(block, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct volume_geometry geo = {
		.sector_bytes = 4096,
		.csum_type = BTRFS_CSUM_TYPE_CRC32,
		.csum_bytes = 4,
		.generation = UINT64_MAX - 1,
	};
	struct block_expect expect = {0};
	struct btrfs_header *header;
	char why[200];
	int ret;

	if (!size)
		return 0;
	geo.node_bytes = 4096u << data[0] % 3;
	geo.incompat_flags = data[0] & 0x80 ? BTRFS_FEATURE_INCOMPAT_MIXED_GROUPS : 0;
	if (data[0] & 0x40)
		geo.csum_bytes = 32; /* of data */
	header = calloc(1, geo.node_bytes);
	need(header);
	memcpy(header, data + 1, MIN(size - 1, geo.node_bytes));
	memcpy(geo.fsid, header->fsid, sizeof(geo.fsid));
	expect.logical = GET(header, bytenr);
	expect.generation = GET(header, generation);
	expect.level = header->level;
	csum_compute(geo.csum_type, header->fsid, geo.node_bytes - BTRFS_CSUM_SIZE, header->csum);
	ret = block_check(&geo, &expect, header, why, sizeof(why));
	need(ret == 0 || (ret == -EUCLEAN && strlen(why) > 0));
	if (ret == 0)
		use_block(header);
	free(header);
	return 0;
}
