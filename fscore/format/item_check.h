/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks the structure of a metadata block after it was read, so that the rest
 * of the core can trust every offset and length in it, whoever made the image.
 * What is checked is what one block can tell: references between blocks are not.
 * No state; any thread; no allocation.
 */
#ifndef FSCORE_FORMAT_ITEM_CHECK_H
#define FSCORE_FORMAT_ITEM_CHECK_H

#include <stddef.h>

#include "fscore/format/disk.h"

/* What is known about the volume. Immutable after open. */
struct volume_geometry {
	uint32_t sector_bytes; /* power of two, 4096..65536 */
	uint32_t node_bytes;   /* power of two, 4096..65536, >= sector_bytes */
	uint16_t csum_type;
	uint16_t csum_bytes;
	uint8_t fsid[BTRFS_FSID_SIZE]; /* that metadata blocks carry */
	uint8_t chunk_tree_uuid[BTRFS_UUID_SIZE];
	uint64_t generation;	 /* of the superblock: no block is newer */
	uint64_t incompat_flags; /* of the superblock */
};

/* What the pointer to a block says about it. */
struct block_expect {
	uint64_t logical;
	uint64_t generation; /* exactly */
	uint8_t level;
	bool have_first_key; /* in the parent; not for a root */
	struct btrfs_key first_key;
	uint64_t owner; /* the root's id; 0: not checked (blocks shared by snapshots) */
	uint64_t tree;	/* the root's id, for messages */
};

/*
 * Returns 0, or -EUCLEAN with why filled in (one line: what failed, slot, key; no
 * newline). The checksum has not been verified yet: this does that first.
 */
int block_check(const struct volume_geometry *geo, const struct block_expect *expect,
	const void *block, char *why, size_t why_bytes);

/*
 * One chunk item, from the chunk tree or from the superblock's array. item_bytes
 * is its size. Returns 0 or -EUCLEAN as above.
 */
int chunk_item_check(const struct volume_geometry *geo, const struct btrfs_key *key,
	const struct btrfs_chunk *chunk, size_t item_bytes, char *why, size_t why_bytes);

#endif
