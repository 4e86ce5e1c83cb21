/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Orphan items: inodes without names whose items have not all been deleted yet. */
#ifndef FSCORE_FILE_ORPHAN_H
#define FSCORE_FILE_ORPHAN_H

#include "fscore/file/inode.h"

/* In the transaction of h. Errors abort it. */
int orphan_add(struct txn_handle *h, struct subvol *sv, uint64_t ino);
/* The place of its orphan item, for tree_prepare(); and that item put there. */
struct btrfs_key orphan_key(uint64_t ino);
int orphan_add_prepared(struct txn_handle *h, struct subvol *sv, uint64_t ino);
/* None is fine. */
int orphan_remove(struct txn_handle *h, struct subvol *sv, uint64_t ino);

/* The inode has lost its last name and has its orphan item: the flusher deletes it. */
void inode_leave_to_flusher(struct txn_handle *h, struct fsc_inode *inode);

/*
 * Hands the orphans that an earlier life of the volume has left in a subvolume to the flusher. Might
 * wait.
 */
int orphans_resume(struct fsc_ctx *ctx, struct subvol *sv);

#endif
