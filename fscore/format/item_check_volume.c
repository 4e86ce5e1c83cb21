/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Items of the root tree, the extent tree, the free-space tree and the UUID tree. */
#include "base/util.h"
#include "fscore/format/item_check_private.h"

typedef unsigned long long ull;

/* ------------------------------------------------------------- roots */

int check_root_item(const struct checked_item *it)
{
	const struct btrfs_root_item *root = (const void *)it->data;

	/* The short form is that of kernels before 3.6. */
	if (it->bytes != sizeof(*root) && it->bytes != btrfs_legacy_root_item_size())
		return item_bad(it, "%u bytes, expected %zu", it->bytes, sizeof(*root));
	if (!is_aligned(it->geo, GET(root, bytenr)))
		return item_bad(it, "root at %llu", (ull)GET(root, bytenr));
	if (root->level >= BTRFS_MAX_LEVEL || root->drop_level >= BTRFS_MAX_LEVEL)
		return item_bad(it, "level %u, drop level %u", root->level, root->drop_level);
	return 0;
}

int check_root_ref(const struct checked_item *it)
{
	const struct btrfs_root_ref *ref = (const void *)it->data;
	uint32_t name_len = GET(ref, name_len);

	if (!name_len || name_len > BTRFS_NAME_LEN)
		return item_bad(it, "a name of %u bytes", name_len);
	if (name_len > it->bytes - sizeof(*ref))
		return item_bad(it, "a name goes beyond the item");
	return 0;
}

/* ------------------------------------------------------------- extents */

/* The whole of an inline reference of this type, 0 for an unknown one. */
static uint32_t inline_ref_bytes(uint8_t type)
{
	/* Its offset field is where the data reference of this kind begins. */
	uint32_t type_bytes = (uint32_t)offsetof(struct btrfs_extent_inline_ref, offset);

	switch (type) {
	case BTRFS_TREE_BLOCK_REF_KEY:
	case BTRFS_SHARED_BLOCK_REF_KEY:
	case BTRFS_EXTENT_OWNER_REF_KEY:
		return (uint32_t)sizeof(struct btrfs_extent_inline_ref);
	case BTRFS_EXTENT_DATA_REF_KEY:
		return type_bytes + (uint32_t)sizeof(struct btrfs_extent_data_ref);
	case BTRFS_SHARED_DATA_REF_KEY:
		return (uint32_t)(sizeof(struct btrfs_extent_inline_ref) +
			sizeof(struct btrfs_shared_data_ref));
	}
	return 0;
}

static int check_inline_refs(const struct checked_item *it, uint32_t pos)
{
	while (pos < it->bytes) {
		uint8_t type = it->data[pos];
		uint32_t bytes = inline_ref_bytes(type);

		if (!bytes)
			return item_bad(it, "a reference of type %u", type);
		if (bytes > it->bytes - pos)
			return item_bad(it, "a reference goes beyond the item");
		pos += bytes;
	}
	return 0;
}

static int check_extent_key(const struct checked_item *it)
{
	uint64_t end;

	if (!is_aligned(it->geo, it->key.objectid))
		return item_bad(it, "an address that is not aligned to sectors");
	if (it->key.type == BTRFS_METADATA_ITEM_KEY) {
		if (it->key.offset >= BTRFS_MAX_LEVEL)
			return item_bad(it, "a block of level %llu", it->key.offset);
		return 0;
	}
	if (!it->key.offset || !is_aligned(it->geo, it->key.offset) ||
		__builtin_add_overflow(it->key.objectid, it->key.offset, &end))
		return item_bad(it, "a length of %llu", it->key.offset);
	return 0;
}

int check_extent_item(const struct checked_item *it)
{
	const struct btrfs_extent_item *extent = (const void *)it->data;
	uint64_t flags = GET(extent, flags);
	bool data = flags & BTRFS_EXTENT_FLAG_DATA, block = flags & BTRFS_EXTENT_FLAG_TREE_BLOCK;
	uint32_t pos = (uint32_t)sizeof(*extent);
	int ret = check_extent_key(it);

	if (ret)
		return ret;
	if (data == block || (data && it->key.type == BTRFS_METADATA_ITEM_KEY))
		return item_bad(it, "flags 0x%llx", (ull)flags);
	if (block && it->key.type == BTRFS_EXTENT_ITEM_KEY) {
		const struct btrfs_tree_block_info *info = (const void *)(it->data + pos);

		if (it->bytes - pos < sizeof(*info))
			return item_bad(it, "%u bytes: no block information", it->bytes);
		if (info->level >= BTRFS_MAX_LEVEL)
			return item_bad(it, "a block of level %u", info->level);
		pos += (uint32_t)sizeof(*info);
	}
	return check_inline_refs(it, pos);
}

/* One item may hold many: those whose hashes, the key's offset, are the same. */
int check_extent_data_ref(const struct checked_item *it)
{
	if (it->bytes % sizeof(struct btrfs_extent_data_ref))
		return item_bad(it, "%u bytes of references of %zu", it->bytes,
			sizeof(struct btrfs_extent_data_ref));
	return 0;
}

/* ------------------------------------------------------------- others */

int check_free_space_bitmap(const struct checked_item *it)
{
	/* One bit for each sector. */
	uint64_t sectors = it->key.offset / it->geo->sector_bytes;
	uint64_t need = sectors / 8 + (sectors % 8 != 0);

	if (it->bytes < need)
		return item_bad(it, "%u bytes for a bitmap, expected %llu", it->bytes, (ull)need);
	return 0;
}

int check_uuid_item(const struct checked_item *it)
{
	if (it->bytes % sizeof(__le64))
		return item_bad(it, "%u bytes of subvolume numbers", it->bytes);
	return 0;
}
