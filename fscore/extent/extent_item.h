/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The inline references of one extent item: finding, reading, writing. Bytes only. */
#ifndef FSCORE_EXTENT_EXTENT_ITEM_H
#define FSCORE_EXTENT_EXTENT_ITEM_H

#include "fscore/extent/delayed_ref.h"

/* The type of the inline reference (and of the keyed item) for a reference. */
uint8_t ref_type(bool is_data, const struct ref_key *key);

/* The size of an inline reference of this type. */
uint32_t ref_inline_bytes(uint8_t type);

/* Where an inline reference is, or would have to be put, in an item. */
struct ref_place {
	bool found;
	uint32_t offset; /* in the item */
	int64_t count;	 /* when found */
};

/*
 * Looks for a reference in an extent item of item_bytes. skinny_block: the item is a
 * METADATA_ITEM, or of a data extent: no btrfs_tree_block_info follows the head. -EUCLEAN:
 * the item is damaged.
 */
int ref_find_inline(const void *item, uint32_t item_bytes, bool has_block_info, uint8_t type,
	const struct ref_key *key, struct ref_place *out);

/* Writes an inline reference at this place. */
void ref_write_inline(void *at, uint8_t type, const struct ref_key *key, int64_t count);

/* The hash that orders data references (EXTENT_DATA_REF key offset). */
uint64_t extent_data_ref_hash(uint64_t root, uint64_t objectid, uint64_t offset);

#endif
