/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Searching the trees.
 *
 * A search holds the root's lock for reading and uses blocks in memory only. When
 * a block is missing it lets go of the lock, has the block read (FSC_NOWAIT: starts
 * that and returns -EAGAIN), and searches again. So no lock is held over I/O. What
 * a search has found is valid until path_release(), which must follow soon: what
 * is needed is copied out of the leaf.
 *
 *   struct tree_path path = PATH_INIT;
 *   ret = tree_search(ctx, root, &key, &path);
 *   while (ret >= 0 && path_valid(&path) && wanted(path_key(&path))) {
 *           copy(path_data(&path));
 *           ret = tree_next(ctx, &path);
 *   }
 *   path_release(&path);
 */
#ifndef FSCORE_TREE_SEARCH_H
#define FSCORE_TREE_SEARCH_H

#include "base/lock.h"
#include "fscore/format/disk.h"
#include "fscore/tree/meta_cache.h"

/* The root of one tree. bytenr, generation and level are guarded by lock. */
/* Tells the types apart that are many in one tree. */
#define TREE_KIND(type) ((type) >> 2 & 15)

struct tree_root {
	struct meta_cache *mc; /* immutable */
	uint64_t id;	       /* immutable: objectid of the tree */
	bool shared_blocks;    /* immutable: a subvolume's, whose blocks snapshots may share */
	struct long_lock lock; /* RANK_TREE_ROOT */
	uint64_t bytenr;
	uint64_t generation;
	uint8_t level;
	/*
	 * Of a subvolume: the last transaction that has made a snapshot of it. Blocks that
	 * are younger can't be shared.
	 */
	uint64_t last_snapshot;
	/*
	 * Where the last item of each kind was inserted, by TREE_KIND() of its key's type: to know
	 * items that come in ascending order. Guarded by lock; a hint.
	 */
	struct btrfs_key last_insert[16];
	/* For the transaction that has changed it; guarded by that one's lock. */
	struct tree_root *next_dirty;
	bool dirty;
};

void tree_root_init(struct tree_root *root, struct meta_cache *mc, uint64_t id, uint64_t bytenr,
	uint64_t generation, uint8_t level);
void tree_root_fini(struct tree_root *root);

/* A way from the root to an item: a reference to each block, and the slot in it. */
struct tree_path {
	struct tree_root *root;
	bool locked; /* holds root->lock for reading */
	struct mblock *block[BTRFS_MAX_LEVEL];
	uint32_t slot[BTRFS_MAX_LEVEL];
	struct mblock *pinned; /* just read: must not be evicted before it is used */
	struct block_expect need;
	/*
	 * Set before a search: what lies behind this key is not wanted, so no block is read for it
	 * (which might be damaged). The path is then past its end.
	 */
	bool has_limit;
	struct btrfs_key limit;
};

#define PATH_INIT	     ((struct tree_path){.root = NULL})
#define PATH_INIT_LIMIT(key) ((struct tree_path){.has_limit = true, .limit = (key)})

/*
 * Finds key, or the first item after it. Returns 0: found exactly; 1: not, the
 * path is at the next greater item, or past the end of the tree (path_valid() is
 * false). On an error the path is released. path is fresh or released.
 */
int tree_search(struct fsc_ctx *ctx, struct tree_root *root, const struct btrfs_key *key,
	struct tree_path *path);

/* Finds exactly key: 0; 1: it is not there, and no other block is read to see what is. */
int tree_lookup(struct fsc_ctx *ctx, struct tree_root *root, const struct btrfs_key *key,
	struct tree_path *path);

/* Finds key, or the last item before it. 0 exact; 1 before it; -ENOENT: there is none. */
int tree_search_before(struct fsc_ctx *ctx, struct tree_root *root, const struct btrfs_key *key,
	struct tree_path *path);

/*
 * Moves to the next item; path_valid() tells whether there was one. It may let go
 * of the lock and take it again. 0, or an error, and then the path is released.
 */
int tree_next(struct fsc_ctx *ctx, struct tree_path *path);

/*
 * As tree_search() for an exact key, with the root locked by the caller through
 * another path, and blocks in memory only. 0: found; 1: there is no such item;
 * -EAGAIN: path->need says which block is missing. path->block[0] of an earlier call
 * serves as a hint. Ends with path_release() in any case.
 */
int tree_peek(struct tree_root *root, const struct btrfs_key *key, struct tree_path *path);

/* Reads the block that tree_peek() lacked. The caller holds no lock. 0 or an error (-EAGAIN). */
int tree_read_needed(struct fsc_ctx *ctx, struct tree_path *path);

void path_release(struct tree_path *path);

static inline bool path_valid(const struct tree_path *path)
{
	return path->block[0] && path->slot[0] < block_nritems(path->block[0]->data);
}

static inline struct btrfs_key path_key(const struct tree_path *path)
{
	return leaf_key(path->block[0]->data, path->slot[0]);
}

static inline const void *path_data(const struct tree_path *path)
{
	return leaf_data(path->block[0]->data, path->slot[0]);
}

static inline uint32_t path_data_bytes(const struct tree_path *path)
{
	return leaf_data_bytes(path->block[0]->data, path->slot[0]);
}

/* Whether the path is at an item of this object and type. */
static inline bool path_is_at(const struct tree_path *path, uint64_t objectid, uint8_t type)
{
	struct btrfs_key key;

	if (!path_valid(path))
		return false;
	key = path_key(path);
	return key.objectid == objectid && key.type == type;
}

#endif
