/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The space of a volume: block groups, what is free in them, reservations, new chunks.
 *
 * In memory, each block group has two bitmaps: the sectors that can be allocated now, and
 * those that no extent of the running transaction's trees has. They are loaded from the
 * free-space tree (or, on a volume without one, made from the extent tree) when the block
 * group is first used. When the references to an extent are written (extent/), only the
 * bitmaps change; the free-space tree and the block group items follow before the commit, all
 * changes of a block group at once (space_write_groups()).
 *
 * Life of a range:
 *
 *   free --space_alloc()--> allocated --space_tree_add()--> in use, on disk
 *     ^                        |                               |
 *     |      space_free_unused(),                      space_tree_remove()
 *     |      or space_pin_unused() and pinned                  v
 *     +------------------------+<--space_unpin()------------ pinned
 *
 * What was freed in a transaction is pinned until that transaction is on disk: until then
 * the last committed trees refer to it.
 *
 * Invariants:
 *  1. A sector's bit is set exactly when it is free in the running transaction's trees, not
 *     allocated in memory, not pinned, and not under a copy of the superblock (which the
 *     free-space tree calls free).
 *  2. used + reserved + pinned + readonly <= total, for each space_info, but for what
 *     metadata is over-committed against unallocated device space.
 *
 * A new chunk can be allocated from at once, so nothing may allocate for a transaction that
 * is older than the one that made the chunk: a transaction allocates nothing once the next
 * one has begun.
 *
 * Locks: space.lock (short, RANK_SPACE) guards everything in memory. Loading a block group
 * searches trees and is done without it. space.chunk_lock (short, the same rank, and taken
 * first) is held while the place of a new chunk is chosen and taken.
 */
#ifndef FSCORE_SPACE_SPACE_H
#define FSCORE_SPACE_SPACE_H

#include "base/lock.h"
#include "fscore/io/chunk_map.h"
#include "fscore/tree/modify.h"

enum space_type {
	SPACE_DATA,
	SPACE_METADATA,
	SPACE_SYSTEM,
	SPACE_TYPES
};

/* One kind of space. On volumes with mixed block groups data and metadata share one. */
struct space_info {
	uint64_t total_bytes;
	uint64_t used_bytes;	 /* in use on disk, or allocated in memory */
	uint64_t reserved_bytes; /* promised */
	uint64_t pinned_bytes;	 /* freed, usable after the commit */
	/* Free, but not for use: under superblocks, or in block groups that are damaged. */
	uint64_t readonly_bytes;
};

struct block_group;

/* What space/ needs of the volume. Immutable after space_open(), but for what it points to. */
struct space_config {
	const struct volume_geometry *geo;
	struct chunk_map *chunks;
	struct tree_root *extent_tree;
	struct tree_root *block_group_tree; /* extent_tree again on volumes without one */
	struct tree_root *free_space_tree;  /* NULL: the volume has none, or it is not valid */
	struct tree_root *chunk_tree;
	struct tree_root *dev_tree;
	/*
	 * The superblock as it will be written; space/ changes what new chunks change: the
	 * device item and the system chunk array. Guarded by the chunk tree's lock (write).
	 */
	struct btrfs_super_block *super;
	uint64_t device_bytes;
};

struct space {
	struct space_config config; /* immutable */
	/* One chooses the place of a chunk at a time. Before lock: that is their order. */
	struct short_lock chunk_lock;
	/* guarded by lock */
	struct short_lock lock;
	struct space_info info[SPACE_TYPES];
	enum space_type shared_with[SPACE_TYPES]; /* which info a type really uses */
	struct block_group **groups;		  /* ascending by address */
	size_t n_groups, max_groups;
	uint64_t unallocated_bytes; /* of the device, in no chunk */
	uint64_t global_reserve_bytes;
	_Atomic unsigned levels; /* the most that a tree has; not guarded */
	struct space_impl *impl;
};

/*
 * Reads all block group items. Might wait. -EUCLEAN when they do not fit the chunks. For a
 * volume that is opened for writing only.
 */
int space_open(struct fsc_ctx *ctx, struct space *space, const struct space_config *config);
void space_close(struct space *space);

/* -------------------------------------------------------------- reservations */

/*
 * Promises bytes of a type, so that later allocations of as much can't fail. -ENOSPC: not
 * there (a caller that may wait can then add a chunk, or commit to unpin, and try again).
 * use_global: may dip into the global reserve, for what frees space in the end. Half of it is
 * left alone: that is for settling transactions (txn/), which has no other promise.
 */
int space_reserve(struct space *space, enum space_type type, uint64_t bytes, bool use_global);
void space_unreserve(struct space *space, enum space_type type, uint64_t bytes);

/* What a change of n items in one tree can need at most, in bytes of metadata. */
uint64_t space_items_bytes(const struct space *space, unsigned n_items);

/* A tree has its root on this level. Any thread. */
void space_note_level(struct space *space, unsigned level);

/* The most levels that a tree has, and one: it may grow. */
unsigned space_levels(const struct space *space);

/*
 * How much metadata there is, or could be made, beside what is in use and promised: for the
 * commit of what is owed.
 */
uint64_t space_settle_room(struct space *space);

/* ---------------------------------------------------------------- allocation */

/*
 * Takes a range of at least min_bytes, at most want_bytes (multiples of the sector; for
 * metadata both are the node size, and the range does not cross a 64 KiB boundary that
 * the node size allows it to keep). near: where to look first (0: where the last one
 * ended). A reservation of as much turns into use (as far as there is one). When no free
 * piece has want_bytes, the result has at least half of what the largest one has.
 * -ENOSPC: no such piece; -EAGAIN with FSC_NOWAIT: a block group would have to be loaded
 * (ctx->blocked is FSC_BLOCKED_CACHE); without it, might wait.
 */
int space_alloc(struct fsc_ctx *ctx, struct space *space, enum space_type type, uint64_t min_bytes,
	uint64_t want_bytes, uint64_t near, uint64_t *logical, uint64_t *bytes);

/*
 * One node from what w has set aside, or from block groups that are loaded, never waiting, for
 * metadata inside a tree change. Reservations stay as they are: the caller knows whose this comes from (a commit
 * has none), and gives up as much of it with space_unreserve(). At least one block group of each metadata type with room is kept loaded by
 * space_prepare_metadata(). -ENOSPC.
 */
int space_alloc_metadata(
	struct tree_writer *w, struct space *space, enum space_type type, uint64_t *logical);

/*
 * Makes sure that space_alloc_metadata() finds that many bytes of metadata, and 16 nodes (or
 * bytes, if less) of system space. Might wait. -ENOSPC: add a chunk, or commit.
 */
int space_prepare_metadata(struct fsc_ctx *ctx, struct space *space, uint64_t bytes);

/* The same for 16 nodes of system space alone: before space_alloc_chunk(). */
int space_prepare_system(struct fsc_ctx *ctx, struct space *space);

/*
 * Takes the range at an address, as if it had been allocated: a log tree says that it is in use.
 * Might wait, to load the block group. -EUCLEAN: not all of it is free.
 */
int space_take_at(struct fsc_ctx *ctx, struct space *space, uint64_t logical, uint64_t bytes);

/* Gives back at once what was allocated and is in no tree. */
void space_free_unused(struct space *space, uint64_t logical, uint64_t bytes);

/*
 * As space_free_unused(), but pins it for that transaction: for data that was in the trees for a
 * while, which somebody may still be reading. -ENOMEM: nothing has changed.
 */
int space_pin_unused(struct space *space, uint64_t generation, uint64_t logical, uint64_t bytes);

/* Whether nothing is to be written to the block group at an address: it is damaged, or not there. */
bool space_is_read_only(struct space *space, uint64_t logical);

/* The type of space at an address. */
enum space_type space_type_of(struct space *space, uint64_t logical);

/* ------------------------------------------------ in the trees, by extent/ */

/*
 * Loads the block group at an address, if it is not. On a volume without a free-space tree
 * this must be called before the item of an extent that goes is taken out of the extent
 * tree (elsewhere it does no harm): the extent tree is all that tells what is in use.
 */
int space_load_group(struct fsc_ctx *ctx, struct space *space, uint64_t logical);

/*
 * The extent at logical is being put in the extent tree, or taken out of it, in w's
 * transaction: notes what has become of its space, for space_write_groups(). Changes no
 * tree. space_tree_remove() pins the range for transaction w->generation. Any thread. Might
 * wait, to load the block group (-EAGAIN with FSC_NOWAIT, before anything has changed);
 * another error aborts the transaction.
 */
int space_tree_add(struct tree_writer *w, struct space *space, uint64_t logical, uint64_t bytes);
int space_tree_remove(struct tree_writer *w, struct space *space, uint64_t logical, uint64_t bytes);

/*
 * Writes the items of the block groups that have changed since the last call, and what is
 * free in them in the free-space tree, in w's transaction. One thread at a time; might wait.
 * *more: something was written, and so trees have changed; when the references that this
 * owes have been run, it must be called again, until it finds nothing to write. May be
 * called at any time, to have less to do in the commit. An error aborts the transaction.
 */
int space_write_groups(struct tree_writer *w, struct space *space, bool *more);

/*
 * Building the free-space tree anew, in a volume that was opened as if it had none. First the old
 * one is emptied, a leaf at a time (in w's transaction; *done: it is empty). Then, in a handle, the
 * tree is set; and each commit puts at most n_groups in it that space_rebuild_some() allows, beside
 * those that change. False: all are there. While nothing else is done with the volume.
 */
int space_clear_free_space(struct tree_writer *w, struct tree_root *tree, bool *done);
void space_rebuild_free_space(struct space *space, struct tree_root *tree);
bool space_rebuild_some(struct space *space, unsigned n_groups);

/*
 * The sum of what the block groups' items say is used, when space_write_groups() has found
 * nothing more: the superblock's bytes_used.
 */
uint64_t space_used_on_disk(struct space *space);

struct space_range {
	uint64_t logical, bytes;
};

/*
 * What transactions up to this one, which are on disk, have pinned: for telling the device, before
 * space_unpin(). The caller frees *out. By the thread that unpins. -ENOMEM.
 */
int space_list_pinned(
	struct space *space, uint64_t generation, struct space_range **out, size_t *n);

/* The transaction is on disk: what it pinned can be allocated. */
void space_unpin(struct space *space, uint64_t generation);

/* --------------------------------------------------------------------- chunks */

/*
 * Whether a new chunk of this type should be made now, before somebody needs it. Not, once
 * space_alloc_chunk() has found no room on the device for one.
 */
bool space_wants_chunk(struct space *space, enum space_type type);

/*
 * Makes a new chunk with the volume's profile for this type, and its block group, in w's
 * transaction: chunk item, device extents, device item, superblock; the block group item
 * and the free-space tree follow in space_write_groups(). Can be allocated from on return.
 * Sizes as the kernel chooses them (data 1 GiB, metadata 256 MiB or 1 GiB on large devices,
 * system 32 MiB; never more than a tenth of the device, no less than 1 MiB). Any thread; the
 * ctx may wait. When another thread makes a chunk of this type just now, that is enough, and
 * nothing is done. The nodes that this takes are set aside before anything changes; if there
 * are none, another chunk for them is made first. -ENOSPC: the device has no room (or, for data,
 * what is left is promised to metadata), or there is none for the nodes; no chunk has been
 * made that is not complete. Another error aborts the transaction.
 */
int space_alloc_chunk(struct tree_writer *w, struct space *space, enum space_type type);

/* A snapshot of the counters. Never waits. */
void space_info_get(struct space *space, enum space_type type, struct space_info *out);

#endif
