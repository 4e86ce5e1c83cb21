/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changing trees, copy on write.
 *
 * A change is made in a transaction, by a struct tree_writer (part of a transaction
 * handle). The blocks on the way to what is changed are first copied to new
 * addresses, once in each transaction (a block of this generation is changed in
 * place). All of it happens under the root's lock, held for writing, with blocks in
 * memory only; when one is missing, everything is let go, the block read, and the
 * search made again, as in search.h. Copying blocks changes nothing that a reader can
 * see, so a try that ends for a missing block has changed nothing.
 *
 * One change:
 *   ret = tree_search_modify(w, root, &key, ins_bytes, &path);
 *   (0 found exactly, 1 not: path is where it belongs; <0: path is released)
 *   data = path_insert_item(w, &path, &key, bytes), or path_data_mut(), path_resize_item(),
 *   path_delete_items()
 *   path_release(&path);
 *
 * Several changes of one tree that others must see together, or not at all:
 *   tree_prepare(w, root, places, n) locks the root, and copies all the ways
 *   tree_search_prepared(...) ...    can't lack a block any more
 *   tree_unlock_write(root)
 *
 * Invariants:
 *  1. A block with the writer's generation is DIRTY and belongs to one root alone.
 *  2. A leaf is never empty, but for the root of an empty tree; no node is.
 *  3. Blocks are freed and allocated through the writer's ops, which record the
 *     references (extent/); this folder knows nothing of them.
 */
#ifndef FSCORE_TREE_MODIFY_H
#define FSCORE_TREE_MODIFY_H

#include "fscore/tree/search.h"

struct set_aside;
struct tree_writer;

/* Who else refers to a block. */
struct block_share {
	uint64_t refs;
	uint64_t flags; /* BTRFS_BLOCK_FLAG_FULL_BACKREF */
};

/* What a transaction provides. None of it may wait or do I/O. */
struct tree_writer_ops {
	/*
	 * An address for a new block of root, reserved before: it fails only when the
	 * reservation was too small (-ENOSPC), which aborts the transaction.
	 */
	int (*alloc_block)(struct tree_writer *w, struct tree_root *root, uint8_t level,
		const struct btrfs_key *first_key, uint64_t *logical);
	/*
	 * How old, which root is about to replace by a copy, is referenced. -EAGAIN:
	 * w->need says which block (of another tree) must be in memory first.
	 */
	int (*share_info)(struct tree_writer *w, struct tree_root *root, struct mblock *old,
		struct block_share *share);
	/*
	 * copy has just been made of old; its header is complete. Adjusts the references
	 * of what they point to, and drops root's reference to old. An error aborts the
	 * transaction.
	 */
	int (*block_copied)(struct tree_writer *w, struct tree_root *root, struct mblock *old,
		struct mblock *copy, const struct block_share *share);
	/* root does not use this block of its own any more. */
	void (*free_block)(struct tree_writer *w, struct tree_root *root, struct mblock *block);
	/* The block is dirty; called once for each block and transaction. Keeps a reference. */
	void (*block_dirtied)(struct tree_writer *w, struct mblock *block);
	/*
	 * share_info has said -EAGAIN with need.logical 0: waits, without any lock, until
	 * another try makes sense. Not called with FSC_NOWAIT. 0 or an error.
	 */
	int (*wait)(struct tree_writer *w);
	/* A block was left half made: what the writer has changed must never come to the disk. */
	void (*broken)(struct tree_writer *w, int error);
	/* root's address, level or generation has changed. */
	void (*root_changed)(struct tree_writer *w, struct tree_root *root);
};

struct tree_writer {
	struct fsc_ctx *ctx;
	const struct tree_writer_ops *ops;
	uint64_t generation; /* of the transaction */
	bool copies_written; /* a log's: blocks of this generation, too, once they are on disk */
	struct block_expect need; /* set by share_info */
	/* Addresses that alloc_block takes before others (space.h); NULL: there are none. */
	struct set_aside *set_aside;
};

/* For ins_bytes: what is there is changed or deleted, and does not grow. */
#define TREE_IN_PLACE (-1)

/*
 * As tree_search(), with the way to the leaf copied and the root locked for writing. With
 * ins_bytes >= 0 the leaf has room for a new item with that much data (some items have
 * none), or for an existing one to grow by it. Might wait unless ctx says NOWAIT (-EAGAIN).
 */
int tree_search_modify(struct tree_writer *w, struct tree_root *root, const struct btrfs_key *key,
	int ins_bytes, struct tree_path *path);

/*
 * Locks root for writing and makes sure that the ways to all n places are in memory
 * and copied. Returns 0 with the lock held, or an error without.
 */
int tree_prepare(
	struct tree_writer *w, struct tree_root *root, const struct btrfs_key *places, unsigned n);

/* As tree_search_modify(), for a place that was prepared; the root stays locked. */
int tree_search_prepared(struct tree_writer *w, struct tree_root *root, const struct btrfs_key *key,
	int ins_bytes, struct tree_path *path);

void tree_unlock_write(struct tree_root *root);

/* Makes room for an item at the path's slot; the item is then there, its data not set. */
void *path_insert_item(
	struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key, uint32_t bytes);

/* The data of the item at the path, to be changed in place. */
void *path_data_mut(struct tree_path *path);

/* Changes the size of the item at the path; what is added at the end is not set. Returns the data. */
void *path_resize_item(struct tree_path *path, uint32_t bytes);

/* Changes the key of the item at the path; the order stays as it is. */
void path_set_key(struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key);

/*
 * Deletes n items from the path's slot on (of this leaf). The path is then at the item
 * after them, or at the end of the leaf. The leaf may be merged with another or freed:
 * the path must not be used any further but for path_release(). May return an error of
 * the ops' alloc_block (then the transaction must be aborted).
 */
int path_delete_items(struct tree_writer *w, struct tree_path *path, uint32_t n);

/* How much data the largest item can have. */
uint32_t tree_max_item_bytes(const struct tree_root *root);

/* The largest leaf's free bytes, beside n items' headers: for callers that fill leaves. */
uint32_t path_free_bytes(const struct tree_path *path);

/* A new root of an empty tree; *root is not initialised before. */
int tree_create(struct tree_writer *w, struct meta_cache *mc, uint64_t id, struct tree_root *root);

#endif
