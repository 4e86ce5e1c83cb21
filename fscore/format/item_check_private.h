/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by item_check*.c: one item of a leaf whose layout has been checked. */
#ifndef FSCORE_FORMAT_ITEM_CHECK_PRIVATE_H
#define FSCORE_FORMAT_ITEM_CHECK_PRIVATE_H

#include "fscore/format/item_check.h"
#include "fscore/format/report.h"

struct checked_item {
	const struct volume_geometry *geo;
	const struct report *report;
	const void *leaf;
	uint32_t slot;
	struct btrfs_key key;
	const uint8_t *data; /* bytes of them are inside the leaf */
	uint32_t bytes;
};

/* Says where the item is, and then what is wrong. Returns -EUCLEAN. */
int item_bad(const struct checked_item *it, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Whether v is a multiple of the sector size. */
static inline bool is_aligned(const struct volume_geometry *geo, uint64_t v)
{
	return !(v & (geo->sector_bytes - 1));
}

/* One for each type; 0 or -EUCLEAN. */

/* item_check_file.c */
int check_inode_item(const struct checked_item *it);
int check_inode_ref(const struct checked_item *it);
int check_inode_extref(const struct checked_item *it);
int check_dir_item(const struct checked_item *it); /* and index, and xattr */
int check_file_extent(const struct checked_item *it);
int check_extent_csum(const struct checked_item *it);

/* item_check_volume.c */
int check_root_item(const struct checked_item *it);
int check_root_ref(const struct checked_item *it);
int check_extent_item(const struct checked_item *it); /* and metadata item */
int check_extent_data_ref(const struct checked_item *it);
int check_free_space_bitmap(const struct checked_item *it);
int check_uuid_item(const struct checked_item *it);

/* item_check_chunk.c */
int check_chunk(const struct checked_item *it);
int check_dev_item(const struct checked_item *it);
int check_block_group(const struct checked_item *it);

#endif
