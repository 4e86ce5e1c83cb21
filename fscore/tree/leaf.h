/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moving items about inside blocks, and between two blocks: bytes only, no references,
 * no locks. Keys in parents are the caller's.
 */
#ifndef FSCORE_TREE_LEAF_H
#define FSCORE_TREE_LEAF_H

#include <stdbool.h>
#include <stdint.h>

#include "fscore/format/disk.h"

/* Sets an on-disk integer field. */
#define PUT(p, field, value)                                        \
	((p)->field = _Generic((p)->field, uint8_t                  \
			       : (uint8_t)(value), __le16           \
			       : htole16((uint16_t)(value)), __le32 \
			       : htole32((uint32_t)(value)), __le64 \
			       : htole64((uint64_t)(value))))

void key_to_disk(const struct btrfs_key *key, struct btrfs_disk_key *out);

static inline struct btrfs_header *block_header_mut(void *block)
{
	return block;
}

struct btrfs_item *leaf_item_mut(void *leaf, uint32_t slot);
struct btrfs_key_ptr *node_ptr_mut(void *node, uint32_t slot);

/* Bytes for items and their data, together. */
uint32_t leaf_capacity_bytes(uint32_t node_bytes);
uint32_t leaf_free_bytes(const void *leaf, uint32_t node_bytes);
uint32_t node_max_ptrs(uint32_t node_bytes);

/* The room that items [from, to) take, headers included. */
uint32_t leaf_items_bytes(const void *leaf, uint32_t from, uint32_t to);

/* There is room. The data of the new item is not set. */
void leaf_insert(void *leaf, uint32_t node_bytes, uint32_t slot, const struct btrfs_key *key,
	uint32_t bytes);
void leaf_delete(void *leaf, uint32_t node_bytes, uint32_t slot, uint32_t n);
/* The beginning of the data stays; there is room. */
void leaf_resize(void *leaf, uint32_t node_bytes, uint32_t slot, uint32_t bytes);

/* Moves the last n items of from to the front of to, or the first n to the end. There is room. */
void leaf_move_right(void *from, void *to, uint32_t node_bytes, uint32_t n);
void leaf_move_left(void *from, void *to, uint32_t node_bytes, uint32_t n);

void node_insert(void *node, uint32_t slot, const struct btrfs_key *key, uint64_t logical,
	uint64_t generation);
void node_delete(void *node, uint32_t slot);
void node_move_right(void *from, void *to, uint32_t n);
void node_move_left(void *from, void *to, uint32_t n);

#endif
