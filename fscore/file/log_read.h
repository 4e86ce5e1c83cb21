/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading log trees.
 *
 * The superblock points to the log root tree, of the transaction that follows the superblock's. It
 * has a root item for each subvolume with a log: (BTRFS_TREE_LOG_OBJECTID, BTRFS_ROOT_ITEM_KEY,
 * subvolume). All blocks of all these trees name BTRFS_TREE_LOG_OBJECTID as their owner; the extent
 * tree does not know them. On threads that may wait.
 */
#ifndef FSCORE_FILE_LOG_READ_H
#define FSCORE_FILE_LOG_READ_H

#include "fscore/file/subvol.h"

/* The log of one subvolume. */
struct subvol_log {
	struct subvol_log *next;
	struct subvol *sv;     /* NULL: there is no such subvolume any more */
	struct tree_root root; /* for searches */
};

struct subvol_logs {
	struct subvol_log *first;
	struct tree_root root; /* the log root tree */
	bool has_root;
};

/* Finds the logs that the superblock names. -EUCLEAN: one is damaged. logs_close() in any case. */
int logs_open(struct fsc_ctx *ctx, struct fsc_volume *vol, struct subvol_logs *logs);
void logs_close(struct subvol_logs *logs);

/* Takes one block, which is referenced meanwhile. No lock is held. */
typedef int (*log_block_fn)(void *arg, const struct mblock *block);

/*
 * Calls fn for each block of the tree, leaves in the order of their keys, until it returns an
 * error, which is then returned.
 */
int log_walk(struct fsc_ctx *ctx, const struct tree_root *root, log_block_fn fn, void *arg);

#endif
