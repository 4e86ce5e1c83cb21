/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loading block groups: what is free in them, from the free-space tree or the extent tree. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"

typedef unsigned long long ull;

/* What a load has found; it becomes the block group's own when it is complete. */
struct found {
	uint64_t used_bytes; /* as the block group item says */
	bool in_fst;
	uint64_t *unused;
	bool has_bitmaps;
	uint32_t extent_count;
	struct run_map free;
};

/* The sectors of an extent, in a bitmap where all before it were marked. */
static int clear_extent(const struct space *space, const struct block_group *bg, uint64_t logical,
	uint64_t bytes, uint64_t *unused)
{
	uint64_t within = logical - bg->logical, from, to;

	if (logical < bg->logical || within >= bg->length_bytes ||
		bytes > bg->length_bytes - within)
		return -EUCLEAN;
	from = sectors_of(space, within);
	to = from + sectors_of(space, bytes);
	if (!bits_all_set(unused, from, to))
		return -EUCLEAN;
	bits_clear(unused, from, to);
	return 0;
}

/* Without a free-space tree: what no extent takes is free. */
int group_scan_extents(
	struct fsc_ctx *ctx, struct space *space, const struct block_group *bg, uint64_t *unused)
{
	struct btrfs_key key = key_make(bg->logical, 0, 0);
	struct tree_path path = PATH_INIT;
	int ret;

	bits_set(unused, 0, group_sectors(space, bg));
	ret = tree_search(ctx, space->config.extent_tree, &key, &path);
	ret = MIN(ret, 0);
	while (!ret && path_valid(&path)) {
		key = path_key(&path);
		if (key.objectid - bg->logical >= bg->length_bytes)
			break;
		if (key.type == BTRFS_EXTENT_ITEM_KEY)
			ret = clear_extent(space, bg, key.objectid, key.offset, unused);
		else if (key.type == BTRFS_METADATA_ITEM_KEY)
			ret = clear_extent(
				space, bg, key.objectid, space->config.geo->node_bytes, unused);
		if (!ret)
			ret = tree_next(ctx, &path);
	}
	path_release(&path);
	return ret;
}

/* The map for allocations: what is unused, but for the copies of the superblock. */
static int make_free_map(
	const struct space *space, const struct block_group *bg, struct found *found)
{
	uint64_t n = group_sectors(space, bg), from, to;
	uint64_t *words = bits_alloc(n);
	int ret;

	if (!words)
		return -ENOMEM;
	memcpy(words, found->unused, bits_bytes(n));
	for (unsigned i = 0; group_super_range(space, bg, i, &from, &to); i++)
		bits_clear(words, from, to);
	ret = run_map_init(&found->free, words, n);
	if (ret)
		free(words);
	return ret;
}

static int find_free(
	struct fsc_ctx *ctx, struct space *space, const struct block_group *bg, struct found *found)
{
	uint64_t n = group_sectors(space, bg), bytes;
	int ret;

	found->unused = bits_alloc(n);
	if (!found->unused)
		return -ENOMEM;
	if (found->in_fst)
		ret = fst_read(
			ctx, space, bg, found->unused, &found->has_bitmaps, &found->extent_count);
	else
		ret = group_scan_extents(ctx, space, bg, found->unused);
	if (ret)
		return ret;
	bytes = bits_count(found->unused, n) * space->config.geo->sector_bytes;
	if (bytes != bg->length_bytes - found->used_bytes)
		return -EUCLEAN;
	return make_free_map(space, bg, found);
}

/* Takes over what was found, unless another thread was faster. */
static void install(struct space *space, struct block_group *bg, struct found *found)
{
	short_lock(&space->lock);
	if (!bg->loaded) {
		bg->unused = found->unused;
		bg->free = found->free;
		bg->has_bitmaps = found->has_bitmaps;
		bg->extent_count = found->extent_count;
		bg->loaded = true;
		space->impl->loaded_free[group_info_type(space, bg)] +=
			bg->free.n_set * space->config.geo->sector_bytes;
		*found = (struct found){.unused = NULL};
	}
	short_unlock(&space->lock);
}

/*
 * What is free in a damaged block group is not for use. 0: another thread has loaded it,
 * and changed it while we looked; it is not damaged.
 */
static int make_read_only(struct space *space, struct block_group *bg)
{
	struct space_info *info = &space->info[group_info_type(space, bg)];
	bool first = false, loaded;

	short_lock(&space->lock);
	loaded = bg->loaded;
	if (!bg->read_only && !loaded) {
		uint64_t taken = bg->used_bytes + bg->super_bytes;

		bg->read_only = first = true;
		info->readonly_bytes += bg->length_bytes - MIN(taken, bg->length_bytes);
	}
	short_unlock(&space->lock);
	if (first)
		log_error("block group %llu: what is free in it does not fit what is in use; "
			  "nothing is allocated from it",
			(ull)bg->logical);
	return loaded ? 0 : -EUCLEAN;
}

int group_load(struct fsc_ctx *ctx, struct space *space, struct block_group *bg)
{
	struct found found = {.unused = NULL};
	bool loaded, read_only;
	int ret;

	short_lock(&space->lock);
	loaded = bg->loaded;
	read_only = bg->read_only;
	/* Does not change as long as the block group is not loaded. */
	found.used_bytes = bg->used_bytes;
	found.in_fst = bg->has_fst_items;
	short_unlock(&space->lock);
	if (loaded)
		return 0;
	if (read_only)
		return -EUCLEAN;
	if (ctx->flags & FSC_NOWAIT) {
		ctx->blocked = FSC_BLOCKED_CACHE;
		return -EAGAIN;
	}
	ret = find_free(ctx, space, bg, &found);
	if (!ret)
		install(space, bg, &found);
	else if (ret == -EUCLEAN)
		ret = make_read_only(space, bg);
	free(found.unused);
	run_map_fini(&found.free);
	return ret;
}

int group_load_empty(const struct space *space, struct block_group *bg)
{
	uint64_t n = group_sectors(space, bg);
	struct found found = {.unused = bits_alloc(n)};

	bg->written = bits_alloc(n);
	if (found.unused)
		bits_set(found.unused, 0, n);
	if (!bg->written || !found.unused || make_free_map(space, bg, &found)) {
		free(found.unused);
		return -ENOMEM;
	}
	bg->unused = found.unused;
	bg->free = found.free;
	bg->loaded = bg->is_new = bg->dirty = true;
	return 0;
}
