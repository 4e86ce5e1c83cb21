/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/tree/search.h"

#include <errno.h>
#include <string.h>

#include "fscore/tree/search_private.h"

void tree_root_init(struct tree_root *root, struct meta_cache *mc, uint64_t id, uint64_t bytenr,
	uint64_t generation, uint8_t level)
{
	root->mc = mc;
	root->id = id;
	root->shared_blocks = id == BTRFS_FS_TREE_OBJECTID ||
		(id >= BTRFS_FIRST_FREE_OBJECTID && id <= BTRFS_LAST_FREE_OBJECTID);
	/* The extent tree is asked about shared blocks while another tree is locked. */
	long_lock_init(
		&root->lock, id == BTRFS_EXTENT_TREE_OBJECTID ? RANK_EXTENT_ROOT : RANK_TREE_ROOT);
	root->bytenr = bytenr;
	root->generation = generation;
	root->level = level;
	root->last_snapshot = 0;
	root->next_dirty = NULL;
	root->dirty = false;
}

void tree_root_fini(struct tree_root *root)
{
	long_lock_fini(&root->lock);
}

static void put_blocks(struct tree_path *path)
{
	for (unsigned i = 0; i < BTRFS_MAX_LEVEL; i++) {
		meta_put(path->block[i]);
		path->block[i] = NULL;
	}
}

static void unlock_root(struct tree_path *path)
{
	if (path->locked)
		long_unlock(&path->root->lock);
	path->locked = false;
}

void path_release(struct tree_path *path)
{
	put_blocks(path);
	meta_put(path->pinned);
	path->pinned = NULL;
	unlock_root(path);
}

static int lock_root(struct fsc_ctx *ctx, struct tree_path *path)
{
	if (ctx->flags & FSC_NOWAIT) {
		if (!long_trylock_read(&path->root->lock)) {
			ctx->blocked = FSC_BLOCKED_LOCK;
			return -EAGAIN;
		}
	} else {
		long_lock_read(&path->root->lock);
	}
	path->locked = true;
	return 0;
}

void search_expect_root(const struct tree_root *root, struct block_expect *expect)
{
	*expect = (struct block_expect){
		.logical = root->bytenr,
		.generation = root->generation,
		.level = root->level,
		.owner = root->shared_blocks ? 0 : root->id,
		.tree = root->id,
	};
}

void search_expect_child(
	const struct tree_root *root, const void *node, uint32_t slot, struct block_expect *expect)
{
	const struct btrfs_key_ptr *ptr = node_ptr(node, slot);

	*expect = (struct block_expect){
		.logical = GET(ptr, blockptr),
		.generation = GET(ptr, generation),
		.level = (uint8_t)(block_level(node) - 1),
		.have_first_key = true,
		.first_key = key_from_disk(&ptr->key),
		.owner = root->shared_blocks ? 0 : root->id,
		.tree = root->id,
	};
}

/* Takes the block that path->need describes into the path, if it is in memory. */
int search_step_into(struct tree_path *path)
{
	int error;
	struct mblock *b = meta_lookup(path->root->mc, &path->need, &error);

	if (!b)
		return error ? error : SEARCH_MISSING;
	path->block[path->need.level] = b;
	return 0;
}

/* The number of keys in the block that are <= key (or < key, for a leaf without a match). */
uint32_t search_keys_up_to(const void *block, const struct btrfs_key *key, bool *exact)
{
	uint32_t lo = 0, hi = block_nritems(block);
	bool is_leaf = block_level(block) == 0;

	*exact = false;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		struct btrfs_key at = is_leaf ? leaf_key(block, mid) : node_key(block, mid);
		int cmp = key_cmp(&at, key);

		if (cmp == 0) {
			*exact = true;
			return mid + 1;
		}
		if (cmp < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/*
 * From the root to the leaf where key belongs; the slot there is that of key, or of
 * the first greater one (maybe past the last). 0 exact, 1 not, SEARCH_MISSING, or an error.
 */
static int descend(struct tree_path *path, const struct btrfs_key *key)
{
	search_expect_root(path->root, &path->need);
	for (;;) {
		int ret = search_step_into(path);
		uint8_t level = path->need.level;
		const void *block;
		uint32_t n;
		bool exact;

		if (ret)
			return ret;
		block = path->block[level]->data;
		n = search_keys_up_to(block, key, &exact);
		if (level == 0) {
			path->slot[0] = exact ? n - 1 : n;
			return exact ? 0 : 1;
		}
		path->slot[level] = n ? n - 1 : 0;
		search_expect_child(path->root, block, path->slot[level], &path->need);
	}
}

/*
 * From a leaf to the leaf beside it (dir 1: next; -1: previous), at its first or
 * last item. 0; 1: there is none, the path is as it was; SEARCH_MISSING; or an error.
 */
static int step_leaf(struct tree_path *path, int dir)
{
	uint8_t level = 1;

	for (;; level++) {
		if (level >= BTRFS_MAX_LEVEL || !path->block[level])
			return 1;
		if (dir > 0 ? path->slot[level] + 1 < block_nritems(path->block[level]->data)
			    : path->slot[level] > 0)
			break;
	}
	path->slot[level] += (uint32_t)dir;
	for (; level > 0; level--) {
		int ret;

		search_expect_child(
			path->root, path->block[level]->data, path->slot[level], &path->need);
		meta_put(path->block[level - 1]);
		path->block[level - 1] = NULL;
		ret = search_step_into(path);
		if (ret)
			return ret;
		path->slot[level - 1] =
			dir > 0 ? 0 : block_nritems(path->block[level - 1]->data) - 1;
	}
	return 0;
}

/* Lets go of everything and reads what was missing, to search again. */
int search_read_missing(struct fsc_ctx *ctx, struct tree_path *path)
{
	struct mblock *b;
	int ret;

	path_release(path);
	ret = meta_read(ctx, path->root->mc, &path->need, &b);
	if (!ret)
		path->pinned = b;
	/* Replaced meanwhile: the next search won't want it. */
	return ret == -ESTALE ? 0 : ret;
}

static int fail(struct tree_path *path, int error)
{
	path_release(path);
	return error;
}

/* Whether what comes after the path's leaf is beyond the limit of what is wanted. */
static bool next_is_beyond(const struct tree_path *path)
{
	uint8_t level = 1;
	struct btrfs_key key;

	if (!path->has_limit)
		return false;
	while (level < BTRFS_MAX_LEVEL && path->block[level] &&
		path->slot[level] + 1 >= block_nritems(path->block[level]->data))
		level++;
	if (level == BTRFS_MAX_LEVEL || !path->block[level])
		return true;
	key = node_key(path->block[level]->data, path->slot[level] + 1);
	return key_cmp(&key, &path->limit) > 0;
}

/* dir: where to go when the key is not there and belongs at the edge of a leaf. */
static int search(struct fsc_ctx *ctx, struct tree_root *root, const struct btrfs_key *key,
	struct tree_path *path, int dir)
{
	struct block_expect failed = {0};
	int error = 0;

	path->root = root;
	for (;;) {
		int ret = lock_root(ctx, path);

		if (ret)
			return fail(path, ret);
		ret = descend(path, key);
		if (ret == 1 && dir > 0 && !path_valid(path) && !next_is_beyond(path)) {
			ret = step_leaf(path, 1);
			/* Past the end of the tree: block[0] is still the last leaf. */
			ret = ret == 0 ? 1 : ret;
		} else if (ret == 1 && dir < 0) {
			if (path->slot[0] > 0) {
				path->slot[0]--;
			} else {
				ret = step_leaf(path, -1);
				ret = ret == 1 ? -ENOENT : ret == 0 ? 1 : ret;
			}
		}
		if (ret == 0 || ret == 1)
			return ret;
		if (ret != SEARCH_MISSING)
			return fail(path, ret);
		/* A block that could not be read may have been replaced meanwhile, and written over. */
		if (error && path->need.logical == failed.logical &&
			path->need.generation == failed.generation)
			return fail(path, error);
		failed = path->need;
		error = search_read_missing(ctx, path);
		if (error == -EAGAIN || error == -ENOMEM)
			return fail(path, error);
	}
}

int tree_search(struct fsc_ctx *ctx, struct tree_root *root, const struct btrfs_key *key,
	struct tree_path *path)
{
	return search(ctx, root, key, path, 1);
}

int tree_lookup(struct fsc_ctx *ctx, struct tree_root *root, const struct btrfs_key *key,
	struct tree_path *path)
{
	return search(ctx, root, key, path, 0);
}

int tree_search_before(struct fsc_ctx *ctx, struct tree_root *root, const struct btrfs_key *key,
	struct tree_path *path)
{
	return search(ctx, root, key, path, -1);
}

/* The smallest key greater than key; false: there is none. */
static bool key_successor(struct btrfs_key *key)
{
	if (++key->offset)
		return true;
	if (++key->type)
		return true;
	return ++key->objectid != 0;
}

int tree_next(struct fsc_ctx *ctx, struct tree_path *path)
{
	struct btrfs_key key;
	int ret;

	if (++path->slot[0] < block_nritems(path->block[0]->data))
		return 0;
	if (next_is_beyond(path))
		return 0;
	key = leaf_key(path->block[0]->data, path->slot[0] - 1);
	ret = step_leaf(path, 1);
	if (ret == 0 || ret == 1)
		return 0;
	if (ret != SEARCH_MISSING)
		return fail(path, ret);
	/* What else can't be read may have been replaced meanwhile: the search will tell. */
	ret = search_read_missing(ctx, path);
	if (ret == -EAGAIN || ret == -ENOMEM)
		return fail(path, ret);
	if (!key_successor(&key))
		return fail(path, -EUCLEAN);
	ret = search(ctx, path->root, &key, path, 1);
	return ret < 0 ? ret : 0;
}

/* Whether the leaf that the path holds is where key belongs. */
static bool leaf_covers(const struct tree_path *path, const struct btrfs_key *key)
{
	struct btrfs_key first, last;
	uint32_t n;

	if (!path->block[0])
		return false;
	n = block_nritems(path->block[0]->data);
	if (!n)
		return false;
	first = leaf_key(path->block[0]->data, 0);
	last = leaf_key(path->block[0]->data, n - 1);
	return key_cmp(&first, key) <= 0 && key_cmp(key, &last) <= 0;
}

int tree_peek(struct tree_root *root, const struct btrfs_key *key, struct tree_path *path)
{
	int ret;

	path->root = root;
	if (leaf_covers(path, key)) {
		bool exact;
		uint32_t n = search_keys_up_to(path->block[0]->data, key, &exact);

		path->slot[0] = exact ? n - 1 : n;
		return exact ? 0 : 1;
	}
	put_blocks(path);
	ret = descend(path, key);
	return ret == SEARCH_MISSING ? -EAGAIN : ret;
}

int tree_read_needed(struct fsc_ctx *ctx, struct tree_path *path)
{
	return search_read_missing(ctx, path);
}
