/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/volume/writing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/log_replay.h"
#include "fscore/file/orphan.h"
#include "fscore/file/subvol.h"
#include "fscore/file/writeback.h"

#define COMMIT_INTERVAL_NS 30000000000u

static bool has_compat_ro(const struct fsc_volume *vol, uint64_t flag)
{
	return GET(&vol->super, compat_ro_flags) & flag;
}

/* It has a free-space tree, which some old kernel or tool has not kept up. */
static bool has_invalid_free_space(const struct fsc_volume *vol)
{
	return has_compat_ro(vol, BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE) &&
		!has_compat_ro(vol, BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE_VALID);
}

/* ------------------------------------------------------- what keeps us from writing */

/* Why a volume can't be written; NULL: it can. */
static int why_not(struct fsc_ctx *ctx, struct fsc_volume *vol, const char **why)
{
	struct btrfs_root_item item;
	int ret;

	*why = NULL;
	if (GET(&vol->super, incompat_flags) & BTRFS_FEATURE_INCOMPAT_SIMPLE_QUOTA)
		*why = "simple quotas are not kept up yet";
	else if (GET(&vol->super, flags) & BTRFS_SUPER_FLAG_ERROR)
		*why = "the superblock says that the volume has errors";
	else if (!vol->has_csum_tree)
		*why = "it has no checksum tree";
	if (*why)
		return 0;
	ret = root_item_read(ctx, vol, BTRFS_QUOTA_TREE_OBJECTID, &item);
	if (ret == 0)
		*why = "quota groups are not kept up yet";
	return ret == -ENOENT ? 0 : ret;
}

/* ------------------------------------------------------------------------ trees */

static int open_tree(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, struct tree_root *root)
{
	struct btrfs_root_item item;
	int ret = root_item_read(ctx, vol, id, &item);

	if (ret)
		return ret == -ENOENT ? -EUCLEAN : ret;
	tree_root_init(
		root, &vol->meta, id, GET(&item, bytenr), GET(&item, generation), item.level);
	return 0;
}

static int open_trees(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	struct fs_writing *w = vol->w;
	int ret = open_tree(ctx, vol, BTRFS_EXTENT_TREE_OBJECTID, &w->extent_tree);

	if (!ret)
		ret = open_tree(ctx, vol, BTRFS_DEV_TREE_OBJECTID, &w->dev_tree);
	if (!ret && has_compat_ro(vol, BTRFS_FEATURE_COMPAT_RO_BLOCK_GROUP_TREE)) {
		ret = open_tree(ctx, vol, BTRFS_BLOCK_GROUP_TREE_OBJECTID, &w->block_group_tree);
		w->has_block_group_tree = !ret;
	}
	if (!ret && has_compat_ro(vol, BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE)) {
		ret = open_tree(ctx, vol, BTRFS_FREE_SPACE_TREE_OBJECTID, &w->free_space_tree);
		w->has_free_space_tree = !ret;
	}
	return ret;
}

/* New blocks carry what the old ones do. */
static int read_chunk_tree_uuid(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	struct btrfs_key key = key_make(0, 0, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(ctx, &vol->chunk_tree, &key, &path);

	if (ret < 0)
		return ret;
	memcpy(vol->geo.chunk_tree_uuid, block_header(path.block[0]->data)->chunk_tree_uuid,
		sizeof(vol->geo.chunk_tree_uuid));
	path_release(&path);
	/* From now on blocks get younger than the superblock was. */
	vol->geo.generation = UINT64_MAX - 1;
	vol->meta.geo = vol->geo;
	return 0;
}

/* --------------------------------------------------------------- space, threads */

static int open_space(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	struct fs_writing *w = vol->w;
	struct space_config config = {
		.geo = &vol->geo,
		.chunks = &vol->chunks,
		.extent_tree = &w->extent_tree,
		.block_group_tree =
			w->has_block_group_tree ? &w->block_group_tree : &w->extent_tree,
		.free_space_tree = w->has_free_space_tree && !has_invalid_free_space(vol)
			? &w->free_space_tree
			: NULL,
		.chunk_tree = &vol->chunk_tree,
		.dev_tree = &w->dev_tree,
		.super = &w->super,
		.device_bytes = GET(&w->super.dev_item, total_bytes),
	};

	return space_open(ctx, &w->space, &config);
}

static void on_abort(void *arg, int error)
{
	struct fsc_volume *vol = arg;

	/* Nobody has written anything yet. */
	if (!vol->w->failing)
		data_lost(vol, error);
	atomic_store(&vol->w->failed, true);
}

static void flush_data(void *arg, struct fsc_ctx *ctx, uint64_t bytes)
{
	flusher_write_some(ctx, arg, bytes);
}

static uint64_t unread_id(void *arg, struct fsc_thread *t, uint64_t durable_id)
{
	return epoch_unread(arg, t, durable_id);
}

static int start_txns(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	struct fs_writing *w = vol->w;
	struct subvol *top;
	int ret = subvol_get(ctx, vol, FSC_SUBVOL_TOP, &top);
	struct txn_config config = {
		.geo = &vol->geo,
		.dev = vol->dev,
		.chunks = &vol->chunks,
		.meta = &vol->meta,
		.space = &w->space,
		.root_tree = &vol->root_tree,
		.chunk_tree = &vol->chunk_tree,
		.extent_tree = &w->extent_tree,
		.csum_tree = &vol->csum_tree,
		.dev_tree = &w->dev_tree,
		.super = &w->super,
		.discard = vol->discard,
		.interval_ns = COMMIT_INTERVAL_NS,
		/* Where holes are items, a log would have to say more of files that become shorter. */
		.has_log = vol->geo.incompat_flags & BTRFS_FEATURE_INCOMPAT_NO_HOLES,
		.write_files = inode_write_dirty,
		.flush_data = flush_data,
		.unread_id = unread_id,
		.aborted = on_abort,
		.arg = vol,
	};

	if (ret)
		return ret;
	config.top_tree = &top->root;
	return txns_start(&w->txns, &config);
}

static int start_writing(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *name)
{
	struct fs_writing *w = vol->w;
	int ret = open_trees(ctx, vol);

	if (!ret)
		ret = read_chunk_tree_uuid(ctx, vol);
	if (!ret)
		ret = open_space(ctx, vol);
	if (ret)
		return ret;
	w->has_space = true;
	space_note_level(&w->space, vol->root_tree.level);
	space_note_level(&w->space, vol->csum_tree.level);
	ret = start_txns(ctx, vol);
	w->has_txns = !ret;
	if (!ret && GET(&vol->super, log_root)) {
		w->failing = "its log tree can't be replayed";
		ret = log_replay(ctx, vol);
		if (!ret)
			w->failing = NULL;
		if (!ret)
			log_notice("%s: its log tree has been replayed", name);
	}
	if (!ret && has_invalid_free_space(vol)) {
		w->failing = "its free-space tree can't be built anew";
		ret = free_space_rebuild(ctx, vol, name);
		if (!ret)
			w->failing = NULL;
	}
	return ret ? ret : flusher_start(vol);
}

int writing_open(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *name)
{
	const char *why;
	int ret = why_not(ctx, vol, &why);

	if (ret)
		return ret;
	if (why) {
		log_notice("%s: opened read-only: %s", name, why);
		vol->read_only = true;
		return 0;
	}
	vol->w = calloc(1, sizeof(*vol->w));
	if (!vol->w)
		return -ENOMEM;
	vol->w->super = vol->super;
	short_lock_init(&vol->w->lock, RANK_DIRTY_FILES);
	TAILQ_INIT(&vol->w->dirty_inodes);
	TAILQ_INIT(&vol->w->dirty_files);
	TAILQ_INIT(&vol->w->dead_inodes);
	vol->w->dirty_limit_bytes = (uint64_t)(vol->pages.n_pages / 2) << vol->pages.page_shift;
	return start_writing(ctx, vol, name);
}

/* What an abort has left in the lists. */
static void drop_lists(struct fsc_volume *vol)
{
	struct fs_writing *w = vol->w;
	struct fsc_inode *inode;

	while ((inode = TAILQ_FIRST(&w->dirty_inodes))) {
		TAILQ_REMOVE(&w->dirty_inodes, inode, dirty_link);
		fsc_inode_put(inode);
	}
	while ((inode = TAILQ_FIRST(&w->dirty_files))) {
		TAILQ_REMOVE(&w->dirty_files, inode, dirty_files_link);
		fsc_inode_put(inode);
	}
}

void writing_close(struct fsc_thread *t, struct fsc_volume *vol)
{
	struct fs_writing *w = vol->w;

	if (!w)
		return;
	flusher_stop(vol);
	if (w->has_txns)
		txns_stop(t, &w->txns);
	epoch_stop(vol);
	if (w->has_space)
		space_close(&w->space);
	drop_lists(vol);
	short_lock_fini(&w->lock);
	free(w);
	vol->w = NULL;
}
