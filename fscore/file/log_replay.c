/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/log_replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/file/log_replay_private.h"
#include "fscore/tree/leaf.h"

/* What must be free in block groups that are loaded before an item is replayed. */
#define ROOM_BYTES (8u << 20)
/* What one item may make dirty, with all that follows. */
#define DIRTY_MARGIN 64u

/* ------------------------------------------------------------ what the logs take */

static int add_block(struct replay *r, uint64_t logical)
{
	if (r->n_blocks == r->max_blocks) {
		size_t max = MAX(256u, 2 * r->max_blocks);
		uint64_t *grown = reallocarray(r->blocks, max, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		r->blocks = grown;
		r->max_blocks = max;
	}
	r->blocks[r->n_blocks++] = logical;
	return 0;
}

static int add_extent(struct replay *r, uint64_t logical, uint64_t bytes)
{
	if (r->n_extents == r->max_extents) {
		size_t max = MAX(256u, 2 * r->max_extents);
		struct logged_extent *grown = reallocarray(r->extents, max, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		r->extents = grown;
		r->max_extents = max;
	}
	r->extents[r->n_extents++] = (struct logged_extent){.logical = logical, .bytes = bytes};
	return 0;
}

static int collect_leaf(struct replay *r, const void *leaf)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && i < block_nritems(leaf); i++) {
		const struct btrfs_file_extent_item *fi = leaf_data(leaf, i);

		if (leaf_key(leaf, i).type != BTRFS_EXTENT_DATA_KEY ||
			fi->type == BTRFS_FILE_EXTENT_INLINE || !GET(fi, disk_bytenr))
			continue;
		ret = add_extent(r, GET(fi, disk_bytenr), GET(fi, disk_num_bytes));
	}
	return ret;
}

static int collect_block(void *arg, const struct mblock *b)
{
	struct replay *r = arg;
	int ret = add_block(r, b->logical);

	return ret || b->level ? ret : collect_leaf(r, b->data);
}

static int by_logical(const void *a, const void *b)
{
	const struct logged_extent *x = a, *y = b;

	if (x->logical != y->logical)
		return x->logical < y->logical ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static bool is_data_item(const struct btrfs_extent_item *item)
{
	return GET(item, flags) & BTRFS_EXTENT_FLAG_DATA;
}

/* Each extent once, and only those that the extent tree does not know. */
static int sort_extents(struct replay *r)
{
	size_t n = 0;

	if (r->n_extents)
		qsort(r->extents, r->n_extents, sizeof(*r->extents), by_logical);
	for (size_t i = 0; i < r->n_extents; i++) {
		const struct logged_extent *e = &r->extents[i];
		struct btrfs_key key = key_make(e->logical, BTRFS_EXTENT_ITEM_KEY, e->bytes);
		struct tree_path path = PATH_INIT;
		int ret;

		if (i && !by_logical(e, &r->extents[i - 1]))
			continue;
		ret = tree_lookup(r->ctx, &r->vol->w->extent_tree, &key, &path);
		if (ret == 0 && !is_data_item(path_data(&path)))
			ret = -EUCLEAN;
		path_release(&path);
		if (ret < 0)
			return ret;
		if (ret == 1)
			r->extents[n++] = *e;
	}
	r->n_extents = n;
	return 0;
}

static int take(struct replay *r, uint64_t logical, uint64_t bytes, const char *what)
{
	int ret = space_take_at(r->ctx, &r->vol->w->space, logical, bytes);

	if (ret == -EUCLEAN)
		log_error("log tree: %s at %llu, %llu bytes, where not all is free", what,
			(unsigned long long)logical, (unsigned long long)bytes);
	return ret;
}

static int take_space(struct replay *r)
{
	int ret = 0;

	for (; !ret && r->n_taken_blocks < r->n_blocks; r->n_taken_blocks += !ret)
		ret = take(r, r->blocks[r->n_taken_blocks], r->vol->geo.node_bytes, "a block");
	for (; !ret && r->n_taken_extents < r->n_extents; r->n_taken_extents += !ret) {
		const struct logged_extent *e = &r->extents[r->n_taken_extents];

		ret = take(r, e->logical, e->bytes, "data");
	}
	return ret;
}

/* The last commit does not refer to any of it any more. */
static void give_back(struct replay *r)
{
	struct space *space = &r->vol->w->space;

	for (size_t i = 0; i < r->n_taken_blocks; i++)
		space_free_unused(space, r->blocks[i], r->vol->geo.node_bytes);
	for (size_t i = 0; i < r->n_taken_extents; i++)
		if (!r->extents[i].used)
			space_free_unused(space, r->extents[i].logical, r->extents[i].bytes);
}

static int collect(struct replay *r, struct subvol_logs *logs)
{
	int ret = log_walk(r->ctx, &logs->root, collect_block, r);

	for (struct subvol_log *log = logs->first; !ret && log; log = log->next)
		ret = log_walk(r->ctx, &log->root, collect_block, r);
	if (!ret)
		ret = sort_extents(r);
	return ret ? ret : take_space(r);
}

/* ---------------------------------------------------------------------- replaying */

/* How much data the subvolume's item has; 0: there is none. */
static int item_bytes(struct replay *r, const struct btrfs_key *key, uint32_t *bytes)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(r->ctx, &r->sv->root, key, &path);

	*bytes = ret == 0 ? path_data_bytes(&path) : 0;
	path_release(&path);
	return MIN(ret, 0);
}

int replay_put_item(struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	struct tree_path path = PATH_INIT;
	uint32_t old;
	void *to;
	int ret = item_bytes(r, key, &old);

	if (ret)
		return ret;
	/* Room for what comes, not for old and new together: that may be more than a leaf. */
	ret = tree_search_modify(
		&r->h.w, &r->sv->root, key, bytes > old ? (int)(bytes - old) : 0, &path);
	if (ret < 0)
		return ret;
	to = ret ? path_insert_item(&r->h.w, &path, key, bytes) : path_resize_item(&path, bytes);
	memcpy(to, data, bytes);
	path_release(&path);
	return 0;
}

/* All is one transaction: its blocks stay in memory, and no commit can make room on the disk. */
int replay_make_room(struct replay *r)
{
	struct fs_writing *w = r->vol->w;
	size_t dirty = r->h.txn->n_dirty;
	int ret;

	if (dirty + DIRTY_MARGIN > r->vol->meta.n_blocks - r->vol->meta.n_blocks / 8) {
		log_error("log tree: it changes more than the cache holds");
		return -ENOMEM;
	}
	ret = space_prepare_metadata(r->ctx, &w->space, ROOM_BYTES);
	if (ret == -ENOSPC)
		ret = space_alloc_chunk(&r->h.w, &w->space, SPACE_METADATA);
	/* What there is may do; if not, the change itself fails. */
	return ret == -ENOSPC ? 0 : ret;
}

/* One stage of the replay of a log: takes one of its items. */
typedef int (*item_fn)(
	struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes);

struct stage {
	struct replay *r;
	item_fn fn;
};

static int stage_block(void *arg, const struct mblock *b)
{
	struct stage *s = arg;
	int ret = 0;

	for (uint32_t i = 0; !ret && !b->level && i < block_nritems(b->data); i++) {
		struct btrfs_key key = leaf_key(b->data, i);

		ret = replay_make_room(s->r);
		if (!ret)
			ret = s->fn(s->r, &key, leaf_data(b->data, i), leaf_data_bytes(b->data, i));
	}
	return ret;
}

static int stage(struct replay *r, item_fn fn)
{
	struct stage s = {.r = r, .fn = fn};

	r->ignored = 0;
	return log_walk(r->ctx, r->log, stage_block, &s);
}

/* Whether an item belongs to a file of the subvolume that is to be replayed. */
static bool is_wanted(struct replay *r, const struct btrfs_key *key, const void *data)
{
	if (key->objectid < BTRFS_FIRST_FREE_OBJECTID || key->objectid > BTRFS_LAST_FREE_OBJECTID)
		return false;
	if (key->type == BTRFS_INODE_ITEM_KEY && !GET((const struct btrfs_inode_item *)data, nlink))
		r->ignored = key->objectid;
	return key->objectid != r->ignored;
}

static int stage_inodes(
	struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	(void)bytes;
	if (!is_wanted(r, key, data) || key->type != BTRFS_INODE_ITEM_KEY)
		return 0;
	return replay_inode(r, key->objectid, data);
}

static int stage_indexes(
	struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	if (!is_wanted(r, key, data) || key->type != BTRFS_DIR_INDEX_KEY)
		return 0;
	return replay_dir_index(r, key, data, bytes);
}

static int stage_rest(
	struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	int exists;

	if (!is_wanted(r, key, data))
		return 0;
	switch (key->type) {
	case BTRFS_XATTR_ITEM_KEY:
	case BTRFS_INODE_REF_KEY:
	case BTRFS_INODE_EXTREF_KEY:
	case BTRFS_EXTENT_DATA_KEY:
		break;
	default:
		return 0;
	}
	exists = replay_inode_exists(r, key->objectid);
	if (exists <= 0)
		return exists;
	if (key->type == BTRFS_XATTR_ITEM_KEY)
		return replay_put_item(r, key, data, bytes);
	if (key->type == BTRFS_EXTENT_DATA_KEY)
		return replay_extent(r, key, data, bytes);
	return replay_refs(r, key, data, bytes);
}

static int replay_subvol(struct replay *r, struct subvol_log *log)
{
	int ret;

	if (!log->sv)
		return 0;
	r->sv = log->sv;
	r->log = &log->root;
	r->touched.n = 0;
	ret = stage(r, stage_inodes);
	if (!ret)
		ret = stage(r, stage_indexes);
	if (!ret)
		ret = stage(r, stage_rest);
	if (!ret)
		ret = replay_flush_used(r);
	return ret ? ret : replay_fix_links(r);
}

/* Joins a transaction, so that none is committed before all is done. */
static int replay_logs(struct replay *r, struct subvol_logs *logs)
{
	int ret = collect(r, logs);

	if (!ret)
		ret = txn_join(r->ctx, &r->vol->w->txns, 8, TXN_USE_GLOBAL, &r->h);
	if (ret)
		return ret;
	for (struct subvol_log *log = logs->first; !ret && log; log = log->next)
		ret = replay_subvol(r, log);
	if (ret) {
		txn_abort(&r->h, ret);
		return ret;
	}
	txn_end(&r->h);
	return txn_commit(r->ctx, &r->vol->w->txns);
}

int log_replay(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	struct replay r = {.ctx = ctx, .vol = vol};
	struct subvol_logs logs;
	int ret = logs_open(ctx, vol, &logs);

	if (!ret)
		ret = replay_logs(&r, &logs);
	if (!ret)
		give_back(&r);
	logs_close(&logs);
	free(r.blocks);
	free(r.extents);
	free(r.touched.inos);
	return ret;
}
