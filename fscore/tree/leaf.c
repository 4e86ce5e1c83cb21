/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/tree/leaf.h"

#include <string.h>

void key_to_disk(const struct btrfs_key *key, struct btrfs_disk_key *out)
{
	PUT(out, objectid, key->objectid);
	out->type = key->type;
	PUT(out, offset, key->offset);
}

struct btrfs_item *leaf_item_mut(void *leaf, uint32_t slot)
{
	char *first = (char *)leaf + sizeof(struct btrfs_header);

	return (struct btrfs_item *)(void *)(first + slot * sizeof(struct btrfs_item));
}

struct btrfs_key_ptr *node_ptr_mut(void *node, uint32_t slot)
{
	char *first = (char *)node + sizeof(struct btrfs_header);

	return (struct btrfs_key_ptr *)(void *)(first + slot * sizeof(struct btrfs_key_ptr));
}

uint32_t leaf_capacity_bytes(uint32_t node_bytes)
{
	return node_bytes - (uint32_t)sizeof(struct btrfs_header);
}

uint32_t node_max_ptrs(uint32_t node_bytes)
{
	return leaf_capacity_bytes(node_bytes) / (uint32_t)sizeof(struct btrfs_key_ptr);
}

/* Where the data of the first n items begins; they end at the capacity. */
static uint32_t data_start(const void *leaf, uint32_t node_bytes, uint32_t n)
{
	return n ? GET(leaf_item(leaf, n - 1), offset) : leaf_capacity_bytes(node_bytes);
}

uint32_t leaf_free_bytes(const void *leaf, uint32_t node_bytes)
{
	uint32_t n = block_nritems(leaf);

	return data_start(leaf, node_bytes, n) - n * (uint32_t)sizeof(struct btrfs_item);
}

uint32_t leaf_items_bytes(const void *leaf, uint32_t from, uint32_t to)
{
	uint32_t bytes = (to - from) * (uint32_t)sizeof(struct btrfs_item);

	if (from < to)
		bytes += GET(leaf_item(leaf, from), offset) + GET(leaf_item(leaf, from), size) -
			GET(leaf_item(leaf, to - 1), offset);
	return bytes;
}

static char *data_area(void *leaf)
{
	return (char *)leaf + sizeof(struct btrfs_header);
}

static void set_nritems(void *block, uint32_t n)
{
	PUT(block_header_mut(block), nritems, n);
}

/* Moves the data of items [slot, n) by delta bytes (towards the end: positive). */
static void shift_data(void *leaf, uint32_t node_bytes, uint32_t slot, int32_t delta)
{
	uint32_t n = block_nritems(leaf);
	uint32_t start = data_start(leaf, node_bytes, n), end = data_start(leaf, node_bytes, slot);

	memmove(data_area(leaf) + (int32_t)start + delta, data_area(leaf) + start, end - start);
	for (uint32_t i = slot; i < n; i++) {
		struct btrfs_item *item = leaf_item_mut(leaf, i);

		PUT(item, offset, (int32_t)GET(item, offset) + delta);
	}
}

void leaf_insert(
	void *leaf, uint32_t node_bytes, uint32_t slot, const struct btrfs_key *key, uint32_t bytes)
{
	uint32_t n = block_nritems(leaf);
	uint32_t end = data_start(leaf, node_bytes, slot);
	struct btrfs_item *item;

	shift_data(leaf, node_bytes, slot, -(int32_t)bytes);
	memmove(leaf_item_mut(leaf, slot + 1), leaf_item_mut(leaf, slot),
		(n - slot) * sizeof(struct btrfs_item));
	item = leaf_item_mut(leaf, slot);
	key_to_disk(key, &item->key);
	PUT(item, offset, end - bytes);
	PUT(item, size, bytes);
	set_nritems(leaf, n + 1);
}

void leaf_delete(void *leaf, uint32_t node_bytes, uint32_t slot, uint32_t n)
{
	uint32_t all = block_nritems(leaf);
	uint32_t data =
		leaf_items_bytes(leaf, slot, slot + n) - n * (uint32_t)sizeof(struct btrfs_item);

	shift_data(leaf, node_bytes, slot + n, (int32_t)data);
	memmove(leaf_item_mut(leaf, slot), leaf_item_mut(leaf, slot + n),
		(all - slot - n) * sizeof(struct btrfs_item));
	set_nritems(leaf, all - n);
}

void leaf_resize(void *leaf, uint32_t node_bytes, uint32_t slot, uint32_t bytes)
{
	struct btrfs_item *item = leaf_item_mut(leaf, slot);
	uint32_t old = GET(item, size), old_offset = GET(item, offset);
	int32_t delta = (int32_t)old - (int32_t)bytes;
	uint32_t keep = old < bytes ? old : bytes;

	if (delta > 0) {
		/* Shrinks: the data moves towards the end first, over what it loses. */
		memmove(data_area(leaf) + old_offset + (uint32_t)delta,
			data_area(leaf) + old_offset, keep);
		shift_data(leaf, node_bytes, slot + 1, delta);
	} else {
		shift_data(leaf, node_bytes, slot + 1, delta);
		memmove(data_area(leaf) + (int32_t)old_offset + delta, data_area(leaf) + old_offset,
			keep);
	}
	PUT(item, offset, (int32_t)old_offset + delta);
	PUT(item, size, bytes);
}

/* Copies items [from_slot, from_slot + n) of one leaf to to_slot of another. */
static void copy_items(const void *from, uint32_t from_slot, void *to, uint32_t to_slot,
	uint32_t node_bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct btrfs_key key = leaf_key(from, from_slot + i);
		uint32_t bytes = leaf_data_bytes(from, from_slot + i);

		leaf_insert(to, node_bytes, to_slot + i, &key, bytes);
		memcpy(data_area(to) + GET(leaf_item(to, to_slot + i), offset),
			leaf_data(from, from_slot + i), bytes);
	}
}

void leaf_move_right(void *from, void *to, uint32_t node_bytes, uint32_t n)
{
	uint32_t first = block_nritems(from) - n;

	copy_items(from, first, to, 0, node_bytes, n);
	leaf_delete(from, node_bytes, first, n);
}

void leaf_move_left(void *from, void *to, uint32_t node_bytes, uint32_t n)
{
	copy_items(from, 0, to, block_nritems(to), node_bytes, n);
	leaf_delete(from, node_bytes, 0, n);
}

void node_insert(void *node, uint32_t slot, const struct btrfs_key *key, uint64_t logical,
	uint64_t generation)
{
	uint32_t n = block_nritems(node);
	struct btrfs_key_ptr *ptr = node_ptr_mut(node, slot);

	memmove(node_ptr_mut(node, slot + 1), ptr, (n - slot) * sizeof(*ptr));
	key_to_disk(key, &ptr->key);
	PUT(ptr, blockptr, logical);
	PUT(ptr, generation, generation);
	set_nritems(node, n + 1);
}

void node_delete(void *node, uint32_t slot)
{
	uint32_t n = block_nritems(node);

	memmove(node_ptr_mut(node, slot), node_ptr_mut(node, slot + 1),
		(n - slot - 1) * sizeof(struct btrfs_key_ptr));
	set_nritems(node, n - 1);
}

void node_move_right(void *from, void *to, uint32_t n)
{
	uint32_t n_from = block_nritems(from), n_to = block_nritems(to);

	memmove(node_ptr_mut(to, n), node_ptr_mut(to, 0), n_to * sizeof(struct btrfs_key_ptr));
	memcpy(node_ptr_mut(to, 0), node_ptr_mut(from, n_from - n),
		n * sizeof(struct btrfs_key_ptr));
	set_nritems(from, n_from - n);
	set_nritems(to, n_to + n);
}

void node_move_left(void *from, void *to, uint32_t n)
{
	uint32_t n_from = block_nritems(from), n_to = block_nritems(to);

	memcpy(node_ptr_mut(to, n_to), node_ptr_mut(from, 0), n * sizeof(struct btrfs_key_ptr));
	memmove(node_ptr_mut(from, 0), node_ptr_mut(from, n),
		(n_from - n) * sizeof(struct btrfs_key_ptr));
	set_nritems(from, n_from - n);
	set_nritems(to, n_to + n);
}
