/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delayed allocation: what is written goes into new pages, which replace those in the cache and
 * are noted as dirty; the flusher turns them into extents.
 *
 *   clean --fsc_write()--> dirty --taken by the flusher--> writing --on disk and in the trees--> clean
 *
 * A page never changes once it is in the cache: a write makes a new one. So what is being read by
 * a client, or being written to the disk, is what it was.
 *
 * Invariants:
 *  1. A dirty page is in inode->dirty and inode->index, with a reference for each: it is not evicted.
 *  2. A piece that is being written holds a reference to each of its pages, and to the inode.
 *     They are in inode->writing, and a page that was written anew meanwhile stays dirty until
 *     they are in the trees: so the older content never comes after the newer.
 *  3. fs_writing.dirty_bytes counts the dirty pages and those of all pieces.
 *  4. For each of them a page of data space is reserved, until it becomes an extent's, unless it is
 *     `in_place`; and as much metadata, until it is in the trees.
 *
 * Locks: inode->owner.lock guards the pages; fs_writing.lock guards the lists of files.
 */
#ifndef FSCORE_FILE_WRITEBACK_H
#define FSCORE_FILE_WRITEBACK_H

#include "fscore/file/inode.h"

/* Waits until less is dirty, or nothing; embed it. */
struct dirty_waiter {
	struct dirty_waiter *next;
	struct fsc_thread *thread;
	struct fsc_msg msg;
	uint64_t
		until_bytes; /* of fs_writing.gone_bytes; UINT64_MAX: until nothing is to be written */
};

/* Waits until no piece of an inode is being written; embed it. */
struct inode_waiter {
	struct inode_waiter *next;
	struct fsc_thread *thread;
	struct fsc_msg msg;
};

/* The flusher's thread: started when a volume is opened for writing. */
int flusher_start(struct fsc_volume *vol);
/* Writes everything out, and ends it. */
void flusher_stop(struct fsc_volume *vol);

/* The inode has dirty pages, or somebody waits for it: the flusher is to look at it. */
void flusher_note(struct fsc_inode *inode, bool urgent);

/* Has everything that is dirty written, and waits until it is in the trees. Might wait. */
void flusher_write_all(struct fsc_ctx *ctx, struct fsc_volume *vol);

/* An inode without names: its items are deleted in the background. Takes over a reference. */
void flusher_delete(struct fsc_inode *inode);
/* Whether so many are waiting for that, that those who can should delete themselves. */
bool flusher_is_behind(struct fsc_volume *vol);

/* A subvolume has been read in: the flusher looks for orphans in it. */
void flusher_new_subvol(struct subvol *sv);

/*
 * As far as there is so much, has that many bytes of what is dirty written, and waits until they
 * are in the trees. On the flusher's thread nothing. Might wait.
 */
void flusher_write_some(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t bytes);

/*
 * Reserves space for pages to become dirty, and waits while too much is. As fsc_write(). flags:
 * TXN_USE_GLOBAL for metadata.
 */
int dirty_reserve(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t bytes, unsigned flags);
/*
 * The same for pages that go where the file has its extents, or inline; dirty_done() gives it back.
 */
int dirty_reserve_in_place(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t bytes);
void dirty_unreserve(struct fsc_volume *vol, uint64_t bytes);

/* Bytes less are dirty or being written; their data space, if any, is not reserved any more. */
void dirty_done(struct fsc_volume *vol, uint64_t bytes);

/*
 * Throws the dirty pages from index `from` on away. owner.lock is not held, op_lock is. Returns how
 * many there were; their data space is given back.
 */
uint64_t dirty_discard(struct fsc_inode *inode, uint64_t from);

/*
 * Drops the cached pages from index `from` on; a read that is under way will not cache what it
 * finds (map_seq). Before and after what is there is taken out of the trees.
 */
void pages_drop(struct fsc_inode *inode, uint64_t from);

/* Data that was written is lost: says so to fsc_sync_all(), and to whom fsc_open_options names. */
void data_lost(struct fsc_volume *vol, int error);

/* Waits until no piece of the inode is being written. With FSC_NOWAIT -EAGAIN if one is. */
int writing_wait(struct fsc_ctx *ctx, struct fsc_inode *inode);

/*
 * Puts new pages with the content in the cache in place of what is there, and marks them dirty.
 * Takes over a reference to each. op_lock is held. -ENOMEM: nothing has changed.
 * in_place: they were reserved by dirty_reserve_in_place().
 */
int pages_replace(struct fsc_inode *inode, uint64_t first, unsigned n, struct page *const *pages,
	bool in_place);

/*
 * Has the inode's dirty pages written and waits until they are in the trees, or have failed (which
 * the next sync hears of). op_lock is held, so that no more come. Might wait.
 */
void flush_to_trees(struct fsc_ctx *ctx, struct fsc_inode *inode);

/* Called by the flusher when an inode has nothing to be written any more. */
void syncs_continue(struct fsc_inode *inode, struct inode_sync *syncs, int error);

#endif
