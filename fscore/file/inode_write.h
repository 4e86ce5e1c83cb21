/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changing inodes: in memory at once, in the trees when the transaction is committed.
 * A change is made with a transaction handle held, so that the item is written in the
 * same transaction as what goes with it.
 */
#ifndef FSCORE_FILE_INODE_WRITE_H
#define FSCORE_FILE_INODE_WRITE_H

#include "fscore/file/inode.h"

/* Whether this subvolume can be changed: 0 or -EROFS. */
int inode_check_writable(const struct fsc_inode *inode);

/* Takes op_lock for writing; with FSC_NOWAIT -EAGAIN. */
int inode_lock(struct fsc_ctx *ctx, struct fsc_inode *inode);
void inode_unlock(struct fsc_inode *inode);

/* Whether it has lost its last name; to be asked with op_lock held. */
bool inode_is_unlinked(struct fsc_inode *inode);

/* The time now, in the resolution of the disk. */
struct fsc_time time_now(void);

/* Moves change time and change counter; the change time never stays. attr_lock is held. */
void inode_changed_locked(struct fsc_inode *inode, struct fsc_time now);

/* The inode's item is to be written in the transaction of h. */
void inode_mark_dirty(struct txn_handle *h, struct fsc_inode *inode);

/* txn_config.write_files: writes the items of all dirty inodes. */
int inode_write_dirty(void *vol, struct tree_writer *w);

/* A number for a new inode. */
int inode_new_number(struct fsc_ctx *ctx, struct subvol *sv, uint64_t *ino);

/*
 * Has the items of an inode without names deleted: now if that is little, else in the
 * background, from an orphan item on. Called in the transaction that has taken the last name.
 */
int inode_delete(struct txn_handle *h, struct fsc_inode *inode);

#endif
