/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changing the extent items of a file. On threads that may wait. */
#ifndef FSCORE_FILE_EXTENT_WRITE_H
#define FSCORE_FILE_EXTENT_WRITE_H

#include "fscore/file/inode.h"

/*
 * Takes [start, end) (whole sectors) out of the file's extent items: items are deleted, cut or
 * split, references dropped. *dropped_bytes: by how much the file's used bytes shrink. At most
 * max_items items go; *done says whether that was all. From the end backwards. An error aborts
 * the transaction.
 */
int extents_drop(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end,
	unsigned max_items, uint64_t *dropped_bytes, bool *done);

/* Puts a regular extent item in, and notes the reference of the new extent. */
int extent_insert_new(struct txn_handle *h, struct fsc_inode *inode, uint64_t file_off,
	uint64_t len_bytes, uint64_t logical);

/* An explicit hole, for volumes without no-holes. */
int extent_insert_hole(
	struct txn_handle *h, struct fsc_inode *inode, uint64_t file_off, uint64_t len_bytes);

/* The whole file as an inline item. */
int extent_insert_inline(
	struct txn_handle *h, struct fsc_inode *inode, const void *data, size_t len_bytes);

/*
 * Deletes all items of an inode, at most max_items; *done says whether that was all. Data
 * references are dropped.
 */
int inode_items_delete(
	struct txn_handle *h, struct fsc_inode *inode, unsigned max_items, bool *done);

#endif
