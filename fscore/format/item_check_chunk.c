/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chunks, block groups and devices: how logical addresses become physical ones. */
#include <string.h>

#include "base/util.h"
#include "fscore/format/item_check_private.h"

typedef unsigned long long ull;

static const struct {
	uint64_t flag;
	const char *name;
} raid_profiles[] = {
	{BTRFS_BLOCK_GROUP_RAID0, "RAID0"},
	{BTRFS_BLOCK_GROUP_RAID1, "RAID1"},
	{BTRFS_BLOCK_GROUP_RAID10, "RAID10"},
	{BTRFS_BLOCK_GROUP_RAID5, "RAID5"},
	{BTRFS_BLOCK_GROUP_RAID6, "RAID6"},
	{BTRFS_BLOCK_GROUP_RAID1C3, "RAID1C3"},
	{BTRFS_BLOCK_GROUP_RAID1C4, "RAID1C4"},
};

/* ------------------------------------------------------------- chunks */

static int check_type(const struct volume_geometry *geo, uint64_t type, const struct report *r)
{
	uint64_t kind = type & BTRFS_BLOCK_GROUP_TYPE_MASK;
	const uint64_t mixed = BTRFS_BLOCK_GROUP_DATA | BTRFS_BLOCK_GROUP_METADATA;

	for (size_t i = 0; i < ARRAY_SIZE(raid_profiles); i++)
		if (type & raid_profiles[i].flag)
			return bad(r, "profile %s is not supported", raid_profiles[i].name);
	if (type & ~(uint64_t)(BTRFS_BLOCK_GROUP_TYPE_MASK | BTRFS_BLOCK_GROUP_DUP))
		return bad(r, "type 0x%llx", (ull)type);
	if (kind == mixed) {
		if (geo->incompat_flags & BTRFS_FEATURE_INCOMPAT_MIXED_GROUPS)
			return 0;
		return bad(r, "data and metadata, without the feature for that");
	}
	if (!kind || (kind & (kind - 1)))
		return bad(r, "type 0x%llx", (ull)type);
	return 0;
}

static int check_place(const struct volume_geometry *geo, const struct btrfs_key *key,
	uint64_t length, const struct report *r)
{
	uint64_t end;

	if (key->objectid != BTRFS_FIRST_CHUNK_TREE_OBJECTID || key->type != BTRFS_CHUNK_ITEM_KEY)
		return bad(r, "the key of something else");
	if (!is_aligned(geo, key->offset))
		return bad(r, "not aligned to sectors");
	if (!length || !is_aligned(geo, length) ||
		__builtin_add_overflow(key->offset, length, &end))
		return bad(r, "length %llu", (ull)length);
	return 0;
}

static int check_stripes(
	const struct volume_geometry *geo, const struct btrfs_chunk *chunk, const struct report *r)
{
	const struct btrfs_stripe *stripe = &chunk->stripe;
	unsigned n = GET(chunk, num_stripes);
	uint64_t length = GET(chunk, length), end;

	for (unsigned i = 0; i < n; i++) {
		uint64_t physical = GET(stripe + i, offset);

		if (!is_aligned(geo, physical) || __builtin_add_overflow(physical, length, &end))
			return bad(r, "stripe %u at %llu", i, (ull)physical);
		if (GET(stripe + i, devid) != GET(stripe, devid))
			return bad(r, "stripes on devices %llu and %llu", (ull)GET(stripe, devid),
				(ull)GET(stripe + i, devid));
	}
	return 0;
}

static int check_chunk_item(const struct volume_geometry *geo, const struct btrfs_key *key,
	const struct btrfs_chunk *chunk, size_t item_bytes, const struct report *r)
{
	unsigned stripes;
	uint64_t type;
	int ret;

	if (item_bytes < sizeof(*chunk))
		return bad(r, "%zu bytes", item_bytes);
	type = GET(chunk, type);
	stripes = GET(chunk, num_stripes);
	ret = check_place(geo, key, GET(chunk, length), r);
	if (!ret)
		ret = check_type(geo, type, r);
	if (ret)
		return ret;
	if (stripes != (type & BTRFS_BLOCK_GROUP_DUP ? 2 : 1))
		return bad(r, "%u stripes with type 0x%llx", stripes, (ull)type);
	if (item_bytes != sizeof(*chunk) + (stripes - 1) * sizeof(struct btrfs_stripe))
		return bad(r, "%zu bytes with %u stripes", item_bytes, stripes);
	if (GET(chunk, stripe_len) != BTRFS_STRIPE_LEN_BYTES)
		return bad(r, "stripe length %llu", (ull)GET(chunk, stripe_len));
	return check_stripes(geo, chunk, r);
}

int chunk_item_check(const struct volume_geometry *geo, const struct btrfs_key *key,
	const struct btrfs_chunk *chunk, size_t item_bytes, char *why, size_t why_bytes)
{
	char what[128];
	const struct report r = {.why = what, .bytes = sizeof(what)};
	const struct report out = {.why = why, .bytes = why_bytes};

	if (check_chunk_item(geo, key, chunk, item_bytes, &r) == 0)
		return 0;
	return bad(&out, "chunk %llu: %s", key->offset, what);
}

int check_chunk(const struct checked_item *it)
{
	char what[128];
	const struct report r = {.why = what, .bytes = sizeof(what)};

	if (check_chunk_item(it->geo, &it->key, (const void *)it->data, it->bytes, &r) == 0)
		return 0;
	return item_bad(it, "chunk: %s", what);
}

/* ------------------------------------------------------------- devices, block groups */

int check_dev_item(const struct checked_item *it)
{
	const struct btrfs_dev_item *dev = (const void *)it->data;

	if (it->key.objectid != BTRFS_DEV_ITEMS_OBJECTID || GET(dev, devid) != it->key.offset)
		return item_bad(it, "device %llu under another key", (ull)GET(dev, devid));
	if (GET(dev, bytes_used) > GET(dev, total_bytes))
		return item_bad(it, "%llu of %llu bytes used", (ull)GET(dev, bytes_used),
			(ull)GET(dev, total_bytes));
	return 0;
}

int check_block_group(const struct checked_item *it)
{
	const struct btrfs_block_group_item *bg = (const void *)it->data;
	uint64_t end;

	if (!it->key.offset || __builtin_add_overflow(it->key.objectid, it->key.offset, &end))
		return item_bad(it, "a length of %llu", it->key.offset);
	if (GET(bg, used) > it->key.offset)
		return item_bad(it, "%llu of %llu bytes used", (ull)GET(bg, used), it->key.offset);
	return 0;
}
