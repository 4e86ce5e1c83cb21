/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/extent/extent_item.h"

#include <errno.h>
#include <isa-l.h>
#include <stddef.h>
#include <string.h>

#include "fscore/tree/leaf.h"

/* crc32c of 8 little-endian bytes, without the final inversion. */
static uint32_t crc_of_u64(uint32_t seed, uint64_t v)
{
	uint8_t bytes[8];

	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(v >> (8 * i));
	return crc32_iscsi(bytes, sizeof(bytes), seed);
}

uint64_t extent_data_ref_hash(uint64_t root, uint64_t objectid, uint64_t offset)
{
	uint32_t high = crc_of_u64(~0u, root);
	uint32_t low = crc_of_u64(crc_of_u64(~0u, objectid), offset);

	return ((uint64_t)high << 31) ^ low;
}

uint8_t ref_type(bool is_data, const struct ref_key *key)
{
	if (is_data)
		return key->parent ? BTRFS_SHARED_DATA_REF_KEY : BTRFS_EXTENT_DATA_REF_KEY;
	return key->parent ? BTRFS_SHARED_BLOCK_REF_KEY : BTRFS_TREE_BLOCK_REF_KEY;
}

uint32_t ref_inline_bytes(uint8_t type)
{
	switch (type) {
	case BTRFS_TREE_BLOCK_REF_KEY:
	case BTRFS_SHARED_BLOCK_REF_KEY:
	case BTRFS_EXTENT_OWNER_REF_KEY:
		return (uint32_t)sizeof(struct btrfs_extent_inline_ref);
	case BTRFS_SHARED_DATA_REF_KEY:
		return (uint32_t)(sizeof(struct btrfs_extent_inline_ref) +
			sizeof(struct btrfs_shared_data_ref));
	case BTRFS_EXTENT_DATA_REF_KEY:
		return (uint32_t)(offsetof(struct btrfs_extent_inline_ref, offset) +
			sizeof(struct btrfs_extent_data_ref));
	default:
		return 0;
	}
}

static const struct btrfs_extent_data_ref *data_ref_of(const struct btrfs_extent_inline_ref *ref)
{
	return (const void *)&ref->offset;
}

/* Within a type, references stand in descending order of this. */
static uint64_t sequence_of(const struct btrfs_extent_inline_ref *ref)
{
	if (ref->type == BTRFS_EXTENT_DATA_REF_KEY) {
		const struct btrfs_extent_data_ref *d = data_ref_of(ref);

		return extent_data_ref_hash(GET(d, root), GET(d, objectid), GET(d, offset));
	}
	return GET(ref, offset);
}

static uint64_t sequence_of_key(uint8_t type, const struct ref_key *key)
{
	if (type == BTRFS_EXTENT_DATA_REF_KEY)
		return extent_data_ref_hash(key->root, key->objectid, key->offset);
	return key->parent ? key->parent : key->root;
}

static bool is_the_ref(
	const struct btrfs_extent_inline_ref *ref, uint8_t type, const struct ref_key *key)
{
	const struct btrfs_extent_data_ref *d = data_ref_of(ref);

	if (ref->type != type)
		return false;
	if (type != BTRFS_EXTENT_DATA_REF_KEY)
		return GET(ref, offset) == (key->parent ? key->parent : key->root);
	return GET(d, root) == key->root && GET(d, objectid) == key->objectid &&
		GET(d, offset) == key->offset;
}

static int64_t count_of(const struct btrfs_extent_inline_ref *ref)
{
	if (ref->type == BTRFS_EXTENT_DATA_REF_KEY)
		return GET(data_ref_of(ref), count);
	if (ref->type == BTRFS_SHARED_DATA_REF_KEY) {
		const struct btrfs_shared_data_ref *s = (const void *)(ref + 1);

		return GET(s, count);
	}
	return 1;
}

int ref_find_inline(const void *item, uint32_t item_bytes, bool has_block_info, uint8_t type,
	const struct ref_key *key, struct ref_place *out)
{
	uint32_t at = (uint32_t)sizeof(struct btrfs_extent_item) +
		(has_block_info ? (uint32_t)sizeof(struct btrfs_tree_block_info) : 0);
	uint64_t want = sequence_of_key(type, key);
	bool placed = false;

	*out = (struct ref_place){.offset = item_bytes};
	while (at < item_bytes) {
		const struct btrfs_extent_inline_ref *ref = (const void *)((const char *)item + at);
		uint32_t n = ref_inline_bytes(ref->type);

		if (!n || n > item_bytes - at)
			return -EUCLEAN;
		if (is_the_ref(ref, type, key)) {
			*out = (struct ref_place){true, at, count_of(ref)};
			return 0;
		}
		if (!placed &&
			(ref->type > type || (ref->type == type && sequence_of(ref) < want))) {
			out->offset = at;
			placed = true;
		}
		at += n;
	}
	return 0;
}

void ref_write_inline(void *at, uint8_t type, const struct ref_key *key, int64_t count)
{
	struct btrfs_extent_inline_ref *ref = at;

	ref->type = type;
	if (type == BTRFS_EXTENT_DATA_REF_KEY) {
		struct btrfs_extent_data_ref *d = (void *)&ref->offset;

		PUT(d, root, key->root);
		PUT(d, objectid, key->objectid);
		PUT(d, offset, key->offset);
		PUT(d, count, count);
		return;
	}
	PUT(ref, offset, key->parent ? key->parent : key->root);
	if (type == BTRFS_SHARED_DATA_REF_KEY) {
		struct btrfs_shared_data_ref *s = (void *)(ref + 1);

		PUT(s, count, count);
	}
}
