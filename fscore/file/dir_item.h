/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The entries of one DIR_ITEM, DIR_INDEX or XATTR_ITEM item: a btrfs_dir_item with
 * its name and data behind it, and then, when names have the same hash, another.
 */
#ifndef FSCORE_FILE_DIR_ITEM_H
#define FSCORE_FILE_DIR_ITEM_H

#include <stddef.h>
#include <string.h>

#include "fscore/format/disk.h"

static inline const char *dir_item_name(const struct btrfs_dir_item *di)
{
	return (const char *)(di + 1);
}

static inline const char *dir_item_data(const struct btrfs_dir_item *di)
{
	return dir_item_name(di) + GET(di, name_len);
}

/* The entry after di in an item of item_bytes at item; NULL: di is the last. */
static inline const struct btrfs_dir_item *dir_item_next(
	const void *item, uint32_t item_bytes, const struct btrfs_dir_item *di)
{
	const char *next = dir_item_data(di) + GET(di, data_len);

	if (next >= (const char *)item + item_bytes)
		return NULL;
	return (const struct btrfs_dir_item *)(const void *)next;
}

/* The entry with this name, or NULL. */
static inline const struct btrfs_dir_item *dir_item_find(
	const void *item, uint32_t item_bytes, const char *name, size_t name_len)
{
	const struct btrfs_dir_item *di = item;

	while (di && (GET(di, name_len) != name_len || memcmp(dir_item_name(di), name, name_len)))
		di = dir_item_next(item, item_bytes, di);
	return di;
}

#endif
