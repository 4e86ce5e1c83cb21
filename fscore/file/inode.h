/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inodes in memory: a table by (subvolume, number), in shards, of bounded size.
 *
 * Life: read in by inode_get() with one reference -> shared by references -> with
 * none it stays in the table, with its pages, until the shard is full and it is the
 * oldest that was not used again -> its pages are dropped, it is freed.
 *
 * Invariants:
 *  1. refs go up from zero only under the shard's lock, so an inode without
 *     references is taken out under that lock alone.
 *  2. A page that is being read holds a reference to its inode.
 *
 * Locks: shard->lock; inode->owner.lock guards the page index and read-ahead state.
 */
#ifndef FSCORE_FILE_INODE_H
#define FSCORE_FILE_INODE_H

#include "fscore/file/fs.h"
#include "fscore/file/page_index.h"
#include "fscore/io/page_pool.h"

/* Where sequential reading has come to; guarded by owner.lock. */
struct readahead {
	uint64_t next_off;  /* the end of the last read */
	uint64_t ahead_off; /* what is before it has been asked for */
	unsigned streak;    /* reads in sequence */
};

struct fsc_inode {
	/* immutable */
	struct subvol *subvol;
	uint64_t ino;
	/* immutable while the volume is read only */
	struct fsc_attr attr;
	uint64_t flags; /* BTRFS_INODE_* */
	/* guarded by the shard's lock (refs: invariant 1) */
	_Atomic uint32_t refs;
	_Atomic bool referenced;
	struct fsc_inode *next; /* hash chain */
	struct fsc_inode *newer, *older;
	/* owner.lock guards what follows */
	struct page_owner owner;
	struct page_index index;
	struct readahead ra;
};

/* As fsc_inode_get(), by subvolume, without generation. -ENOENT. */
int inode_get(struct fsc_ctx *ctx, struct subvol *sv, uint64_t ino, struct fsc_inode **out);

/* Fills attr from an inode item. has_acl is left true. */
void inode_item_attr(const struct subvol *sv, uint64_t ino, const struct btrfs_inode_item *item,
	struct fsc_attr *attr);

/* The stand-in for a subvolume that is not in this snapshot. */
void inode_stub_attr(const struct subvol *sv, struct fsc_attr *attr);

int inode_table_init(struct fsc_volume *vol, size_t bytes);
/* No inode is referenced. */
void inode_table_free(struct fsc_volume *vol);

#endif
