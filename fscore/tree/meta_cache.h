/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The metadata cache: tree blocks by logical address, verified when they are
 * read, clean ones evicted by a clock hand when the cache is full.
 *
 * States of a block (struct mblock):
 *
 *   free -> READING -> VALID -> free
 *              \-> FAILED -> free
 *   free -> DIRTY -> VALID -> free
 *
 * DIRTY begins in meta_create() and ends in meta_clean(), when the block is on disk, or in
 * meta_discard(), when its transaction does not need it any more. READING begins in
 * meta_read() and ends in the completion of its I/O, on the thread that started it, or when
 * meta_create() takes the address.
 * FAILED blocks are not in the table: the next one to want that address reads it again.
 *
 * Invariants:
 *  1. A block is in the table exactly when it is READING, VALID or DIRTY.
 *  2. refs go up only with the shard's lock held, so a block with no references is
 *     evicted under that lock alone.
 *  3. The content of a VALID block does not change. That of a DIRTY block is guarded by the
 *     lock of the tree that it belongs to, and does not change once its transaction is
 *     being written.
 *
 * Locks: alloc_lock guards the free list and the clock hand; each shard's lock
 * guards its table, and state and waiters of the blocks in it. The clock hand
 * holds alloc_lock and only tries the shard's.
 */
#ifndef FSCORE_TREE_META_CACHE_H
#define FSCORE_TREE_META_CACHE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "fscore/format/item_check.h"
#include "fscore/io/chunk_map.h"
#include "fscore/io/dev.h"

enum mblock_state {
	MBLOCK_FREE,
	MBLOCK_READING,
	MBLOCK_VALID,
	MBLOCK_DIRTY, /* made or changed in a transaction, not yet on disk */
	MBLOCK_FAILED,
};

struct meta_waiter;

struct mblock {
	struct meta_cache *mc; /* immutable */
	char *data;	       /* immutable: its place in the arena */
	_Atomic uint32_t refs;
	_Atomic bool referenced; /* used since the clock hand passed */
	_Atomic bool doomed;	 /* out of the table: the last reference frees it */
	/* guarded by the shard's lock while in the table */
	enum mblock_state state;
	int error;		  /* with FAILED */
	_Atomic uint64_t logical; /* the clock hand peeks at it without the lock */
	uint64_t generation;
	uint8_t level;
	struct mblock *next; /* in the hash chain, or in the free list */
	struct meta_waiter *waiters;
};

#define META_SHARDS  64u
#define META_REPAIRS 64u

/* A block of which some copy was bad, and another one good. */
struct meta_repair {
	struct block_expect expect;
};

struct meta_shard {
	struct short_lock lock;
	struct mblock **buckets;
	uint64_t hits, misses;
};

struct meta_cache {
	/* immutable */
	struct volume_geometry geo;
	struct dev *dev;
	struct chunk_map *chunks;
	char *arena;
	struct mblock *blocks;
	size_t n_blocks;
	size_t buckets_per_shard; /* power of two */
	/* guarded by alloc_lock */
	struct short_lock alloc_lock;
	struct mblock *free;
	size_t hand;
	size_t n_used;
	uint64_t evictions;
	struct meta_repair repairs[META_REPAIRS]; /* what there is no place for is found again */
	unsigned n_repairs;
	/*
	 * There is something for meta_take_repair(). Any thread; must not wait. NULL: nobody takes it.
	 * Changed only while nobody else reads blocks.
	 */
	void (*want_repair)(void *arg);
	void *want_repair_arg;
	_Atomic uint64_t bad_copies, mirror_repairs, repaired;
	struct meta_shard shards[META_SHARDS];
};

/* dev and chunks stay the caller's. bytes: the size of the cache. -ENOMEM. */
int meta_cache_init(struct meta_cache *mc, const struct volume_geometry *geo, struct dev *dev,
	struct chunk_map *chunks, size_t bytes);

/* Nothing is being read, no reference is held. */
void meta_cache_fini(struct meta_cache *mc);

/*
 * The block that a pointer describes, with a reference, if it is in memory: never
 * waits. NULL: it is not. It is -EUCLEAN (in *error) when the block there is not
 * what the pointer says; else *error is 0.
 */
struct mblock *meta_lookup(struct meta_cache *mc, const struct block_expect *expect, int *error);

/*
 * Reads a block that meta_lookup() did not find; *out is the block with a
 * reference. With FSC_NOWAIT: starts the read on the ring of ctx->thread, unless it is
 * under way, and returns -EAGAIN; that thread must go on serving its ring, since others
 * may come to wait for the block. Errors: -EIO, -EUCLEAN (no copy is good), -ENOMEM.
 */
int meta_read(struct fsc_ctx *ctx, struct meta_cache *mc, const struct block_expect *expect,
	struct mblock **out);

/*
 * A DIRTY block at an address that was just allocated, with a reference; its data is not
 * set. What was there goes; a read of it that is under way will fail with -ESTALE. NULL: no
 * memory (the caller keeps the number of dirty blocks bounded, so that this does not happen).
 */
struct mblock *meta_create(
	struct meta_cache *mc, uint64_t logical, uint64_t generation, uint8_t level);

/* The DIRTY block is on disk. */
void meta_clean(struct meta_cache *mc, struct mblock *b);

/* Takes a block that was freed out of the table; the caller keeps its reference. */
void meta_discard(struct meta_cache *mc, struct mblock *b);

/* How many blocks the cache has, and how many of them can be DIRTY without harm. */
size_t meta_dirty_limit(const struct meta_cache *mc);

/* A block with a bad copy, noted once. False: there is none. */
bool meta_take_repair(struct meta_cache *mc, struct meta_repair *out);

/* Never waits. NULL is allowed. */
void meta_put(struct mblock *b);

#endif
