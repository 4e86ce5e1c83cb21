/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changing the extent items of a file. On threads that may wait. */
#ifndef FSCORE_FILE_EXTENT_WRITE_H
#define FSCORE_FILE_EXTENT_WRITE_H

#include "fscore/file/inode.h"

/*
 * Takes [start, end) (whole sectors) out of the file's extent items: items are deleted, cut or
 * split, references dropped. *dropped_bytes: by how much the file's used bytes shrink. At most
 * max_items items go; *done says whether that was all. From the end backwards: *dropped_from is
 * where what is left of the range ends. An error aborts the transaction.
 */
int extents_drop(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end,
	unsigned max_items, uint64_t *dropped_bytes, uint64_t *dropped_from, bool *done);

/* An extent, or what is stored inline, and what is in it. */
struct new_extent {
	uint64_t logical; /* not inline */
	uint64_t disk_bytes;
	uint64_t ram_bytes;
	uint8_t compression; /* enum btrfs_compression */
};

/* Puts a regular extent item in, and notes the reference of the new extent. */
int extent_insert_new(struct txn_handle *h, struct fsc_inode *inode, uint64_t file_off,
	const struct new_extent *extent);

/*
 * The preallocated [start, end), at logical on disk, has been written: its item becomes a regular
 * one, after what is before and behind it has been split off, and is joined with neighbours of
 * the same extent. -EUCLEAN: the file has something else there. An error aborts the transaction.
 */
int extents_mark_written(struct txn_handle *h, struct fsc_inode *inode, uint64_t start,
	uint64_t end, uint64_t logical);

/* Explicit holes, for volumes without no-holes, where the file has no items in [start, end). */
int extents_fill_holes(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end);

/* The whole file as an inline item. */
int extent_insert_inline(struct txn_handle *h, struct fsc_inode *inode, const void *data,
	const struct new_extent *extent);

/*
 * Deletes all items of an inode, at most max_items; *done says whether that was all. Data
 * references are dropped.
 */
int inode_items_delete(
	struct txn_handle *h, struct fsc_inode *inode, unsigned max_items, bool *done);

#endif
