/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What changes of files note for the log (txn/log.h). Each is called with the handle that the change is
 * made with, after it has been made and before the handle ends; where there is no log they do
 * nothing. None waits.
 */
#ifndef FSCORE_FILE_LOG_NOTE_H
#define FSCORE_FILE_LOG_NOTE_H

#include "fscore/file/name_items.h"

/* The inode is as it is now. flags: LOG_NEW or 0. attr_lock is not held. */
void log_inode(struct txn_handle *h, struct fsc_inode *inode, unsigned flags);

/* Some of its xattrs have changed. */
void log_xattrs(struct txn_handle *h, struct fsc_inode *inode);

/* It has lost its last name: unlinked is set. */
void log_gone(struct txn_handle *h, struct fsc_inode *inode);

/* A name has come (LOG_NAME_ADDED) or gone. Its inode has no other. */
void log_name(
	struct txn_handle *h, enum log_kind kind, struct subvol *sv, const struct name_ref *n);

/* The file has a new extent item at start, with these bytes and then more of them. */
void log_extent(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end,
	const void *item, uint32_t item_bytes, const void *more, uint32_t more_bytes);

/* These are the checksums of n sectors of data. */
void log_csums(struct txn_handle *h, struct fsc_inode *inode, uint64_t logical, const void *csums,
	unsigned n);

#endif
