/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The free-space tree. For each block group it has
 *
 *   (start, FREE_SPACE_INFO, length)    number of free extents, and which form follows:
 *   (start, FREE_SPACE_EXTENT, length)  one free extent, no data; or
 *   (start, FREE_SPACE_BITMAP, length)  2048 sectors (the last one: the rest) as bits
 *
 * A block group goes over to bitmaps when its extents would take more room than they, and
 * back when it has 100 extents less than that. A copy of the superblock counts as free.
 *
 * The tree is changed once in a transaction for each block group that has changed: both
 * states are known as bitmaps, and the items follow from comparing them.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"
#include "fscore/tree/leaf.h"

typedef unsigned long long ull;

#define WORDS_PER_BITMAP (FST_BITMAP_BITS / 64u)

/* Of how many extents bitmaps are the smaller form; and how far it must go back. */
#define FORM_MARGIN 100u

/* ------------------------------------------------------------------ reading */

static int damaged(const struct block_group *bg, const char *why)
{
	log_error("free-space tree: block group %llu: %s", (ull)bg->logical, why);
	return -EUCLEAN;
}

/* The sectors that an item of the block group is about. */
static int item_range(const struct space *space, const struct block_group *bg,
	const struct btrfs_key *key, uint64_t *from, uint64_t *to)
{
	uint64_t within = key->objectid - bg->logical, sector = space->config.geo->sector_bytes;

	if (key->objectid < bg->logical || within >= bg->length_bytes || !key->offset ||
		key->offset > bg->length_bytes - within || (within | key->offset) % sector)
		return damaged(bg, "an item reaches beyond it");
	*from = within / sector;
	*to = *from + key->offset / sector;
	return 0;
}

/* The item's size has been checked with the block. */
static void take_bitmap(const uint8_t *bytes, uint64_t from, uint64_t to, uint64_t *unused)
{
	for (uint64_t i = 0; i < to - from; i++)
		if (bytes[i / 8] >> (i % 8) & 1)
			unused[(from + i) / 64] |= 1ull << ((from + i) % 64);
}

static int take_item(const struct space *space, const struct block_group *bg,
	const struct tree_path *path, bool bitmaps, uint64_t *unused)
{
	struct btrfs_key key = path_key(path);
	uint64_t from = 0, to = 0;
	int ret;

	if (key.type != BTRFS_FREE_SPACE_EXTENT_KEY && key.type != BTRFS_FREE_SPACE_BITMAP_KEY)
		return 0;
	if (bitmaps != (key.type == BTRFS_FREE_SPACE_BITMAP_KEY))
		return damaged(bg, "an item of the form that it does not have");
	ret = item_range(space, bg, &key, &from, &to);
	if (ret)
		return ret;
	if (!bits_all_clear(unused, from, to))
		return damaged(bg, "items overlap");
	if (bitmaps)
		take_bitmap(path_data(path), from, to, unused);
	else
		bits_set(unused, from, to);
	return 0;
}

static struct btrfs_key info_key(const struct block_group *bg)
{
	return key_make(bg->logical, BTRFS_FREE_SPACE_INFO_KEY, bg->length_bytes);
}

/* The info item comes first of the block group's. */
static int take_info(const struct block_group *bg, const struct tree_path *path, bool *has_bitmaps,
	uint32_t *extent_count)
{
	const struct btrfs_free_space_info *info = path_data(path);

	if (GET(info, flags) & ~(uint32_t)BTRFS_FREE_SPACE_USING_BITMAPS)
		return damaged(bg, "unknown flags");
	*has_bitmaps = GET(info, flags) & BTRFS_FREE_SPACE_USING_BITMAPS;
	*extent_count = GET(info, extent_count);
	return 0;
}

int fst_read(struct fsc_ctx *ctx, struct space *space, const struct block_group *bg,
	uint64_t *unused, bool *has_bitmaps, uint32_t *extent_count)
{
	struct btrfs_key key = info_key(bg);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(ctx, space->config.free_space_tree, &key, &path);

	if (ret == 1)
		ret = damaged(bg, "is missing");
	if (!ret)
		ret = take_info(bg, &path, has_bitmaps, extent_count);
	if (!ret)
		ret = tree_next(ctx, &path);
	while (!ret && path_valid(&path)) {
		key = path_key(&path);
		if (key.objectid - bg->logical >= bg->length_bytes)
			break;
		ret = take_item(space, bg, &path, *has_bitmaps, unused);
		if (!ret)
			ret = tree_next(ctx, &path);
	}
	path_release(&path);
	if (!ret && bits_count_runs(unused, group_sectors(space, bg)) != *extent_count)
		ret = damaged(bg, "the number of extents is wrong");
	return ret;
}

/* ---------------------------------------------------------- changes of items */

/* What a write is about. */
struct fst_change {
	struct tree_writer *w;
	struct space *space;
	struct block_group *bg;
	const uint64_t *before, *after;
	uint64_t n; /* sectors */
};

static struct tree_root *tree_of(const struct fst_change *c)
{
	return c->space->config.free_space_tree;
}

static struct btrfs_key range_key(
	const struct fst_change *c, uint8_t type, uint64_t from, uint64_t to)
{
	uint64_t sector = c->space->config.geo->sector_bytes;

	return key_make(c->bg->logical + from * sector, type, (to - from) * sector);
}

/* Puts an item in; its data is all copied from data. */
static int put_item(
	struct fst_change *c, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(c->w, tree_of(c), key, (int)bytes, &path);
	void *at;

	if (ret < 0)
		return ret;
	if (ret == 1) {
		at = path_insert_item(c->w, &path, key, bytes);
		if (bytes)
			memcpy(at, data, bytes);
	}
	path_release(&path);
	return ret == 1 ? 0 : damaged(c->bg, "an item is there that should not be");
}

/* The item at key, to be changed in place. */
static int find_item(struct fst_change *c, const struct btrfs_key *key, struct tree_path *path)
{
	int ret = tree_search_modify(c->w, tree_of(c), key, TREE_IN_PLACE, path);

	if (ret == 1) {
		path_release(path);
		return damaged(c->bg, "an item is missing");
	}
	return ret;
}

static int put_extent(struct fst_change *c, uint64_t from, uint64_t to)
{
	struct btrfs_key key = range_key(c, BTRFS_FREE_SPACE_EXTENT_KEY, from, to);

	return put_item(c, &key, NULL, 0);
}

static int drop_extent(struct fst_change *c, uint64_t from, uint64_t to)
{
	struct btrfs_key key = range_key(c, BTRFS_FREE_SPACE_EXTENT_KEY, from, to);
	struct tree_path path = PATH_INIT;
	int ret = find_item(c, &key, &path);

	if (!ret)
		ret = path_delete_items(c->w, &path, 1);
	path_release(&path);
	return ret;
}

/* Gives the extent [from, to) another end; the order of items stays as it is. */
static int change_end(struct fst_change *c, uint64_t from, uint64_t to, uint64_t new_to)
{
	struct btrfs_key key = range_key(c, BTRFS_FREE_SPACE_EXTENT_KEY, from, to);
	struct tree_path path = PATH_INIT;
	int ret = find_item(c, &key, &path);

	if (ret)
		return ret;
	key = range_key(c, BTRFS_FREE_SPACE_EXTENT_KEY, from, new_to);
	path_set_key(c->w, &path, &key);
	path_release(&path);
	return 0;
}

/* ------------------------------------------------------------- form: extents */

/* A run of set bits; from == n: past the last one. */
struct run {
	uint64_t from, to;
};

static struct run next_run(const uint64_t *words, uint64_t pos, uint64_t n)
{
	struct run run = {.from = bits_next_set(words, pos, n)};

	run.to = bits_next_clear(words, run.from, n);
	return run;
}

static int write_extents(struct fst_change *c)
{
	struct run was = next_run(c->before, 0, c->n), is = next_run(c->after, 0, c->n);
	int ret = 0;

	while (!ret && (was.from < c->n || is.from < c->n)) {
		bool drop = was.from <= is.from, put = is.from <= was.from;

		if (drop && put)
			ret = was.to == is.to ? 0 : change_end(c, was.from, was.to, is.to);
		else if (drop)
			ret = drop_extent(c, was.from, was.to);
		else
			ret = put_extent(c, is.from, is.to);
		if (drop)
			was = next_run(c->before, was.to, c->n);
		if (put)
			is = next_run(c->after, is.to, c->n);
	}
	return ret;
}

/* ------------------------------------------------------------- form: bitmaps */

static struct btrfs_key bitmap_key(const struct fst_change *c, uint64_t from)
{
	return range_key(c, BTRFS_FREE_SPACE_BITMAP_KEY, from, MIN(from + FST_BITMAP_BITS, c->n));
}

/* The bits of one item, as they are on disk. Returns how many bytes. */
static uint32_t bitmap_bytes(const struct fst_change *c, const uint64_t *words, uint64_t from,
	uint64_t out[WORDS_PER_BITMAP])
{
	uint64_t n = MIN(FST_BITMAP_BITS, c->n - from);

	for (uint64_t i = 0; i * 64 < n; i++)
		out[i] = htole64(words[from / 64 + i]);
	return (uint32_t)((n + 7) / 8);
}

static int write_bitmap(struct fst_change *c, uint64_t from)
{
	uint64_t was[WORDS_PER_BITMAP], is[WORDS_PER_BITMAP];
	uint32_t bytes = bitmap_bytes(c, c->before, from, was);
	struct btrfs_key key = bitmap_key(c, from);
	struct tree_path path = PATH_INIT;
	int ret;

	bitmap_bytes(c, c->after, from, is);
	if (!memcmp(was, is, bytes))
		return 0;
	ret = find_item(c, &key, &path);
	if (ret)
		return ret;
	/* An item may be larger than it must; the rest of it is nothing to us. */
	memcpy(path_data_mut(&path), is, bytes);
	path_release(&path);
	return 0;
}

static int write_bitmaps(struct fst_change *c)
{
	int ret = 0;

	for (uint64_t at = 0; !ret && at < c->n; at += FST_BITMAP_BITS)
		ret = write_bitmap(c, at);
	return ret;
}

/* ------------------------------------------------------- from form to form */

static int to_bitmaps(struct fst_change *c)
{
	uint64_t bits[WORDS_PER_BITMAP];
	int ret = 0;

	for (struct run run = next_run(c->before, 0, c->n); !ret && run.from < c->n;
		run = next_run(c->before, run.to, c->n))
		ret = drop_extent(c, run.from, run.to);
	for (uint64_t at = 0; !ret && at < c->n; at += FST_BITMAP_BITS) {
		struct btrfs_key key = bitmap_key(c, at);

		ret = put_item(c, &key, bits, bitmap_bytes(c, c->after, at, bits));
	}
	return ret;
}

static int to_extents(struct fst_change *c)
{
	int ret = 0;

	for (uint64_t at = 0; !ret && at < c->n; at += FST_BITMAP_BITS) {
		struct btrfs_key key = bitmap_key(c, at);
		struct tree_path path = PATH_INIT;

		ret = find_item(c, &key, &path);
		if (!ret)
			ret = path_delete_items(c->w, &path, 1);
		path_release(&path);
	}
	for (struct run run = next_run(c->after, 0, c->n); !ret && run.from < c->n;
		run = next_run(c->after, run.to, c->n))
		ret = put_extent(c, run.from, run.to);
	return ret;
}

/* More extents than this take more room than the bitmaps. */
static uint64_t most_extents(const struct fst_change *c)
{
	uint64_t n_bitmaps = (c->n + FST_BITMAP_BITS - 1) / FST_BITMAP_BITS;

	return n_bitmaps * (sizeof(struct btrfs_item) + FST_BITMAP_BITS / 8) /
		sizeof(struct btrfs_item);
}

static bool wants_bitmaps(const struct fst_change *c, uint64_t extents)
{
	uint64_t most = most_extents(c);
	uint64_t back = most > FORM_MARGIN ? most - FORM_MARGIN : 0;

	return c->bg->has_bitmaps ? extents >= back : extents > most;
}

static int write_info(struct fst_change *c, bool bitmaps, uint32_t extents)
{
	struct btrfs_key key = info_key(c->bg);
	struct btrfs_free_space_info info;
	struct tree_path path = PATH_INIT;
	int ret;

	PUT(&info, extent_count, extents);
	PUT(&info, flags, bitmaps ? BTRFS_FREE_SPACE_USING_BITMAPS : 0);
	if (!c->bg->has_fst_items)
		return put_item(c, &key, &info, sizeof(info));
	if (bitmaps == c->bg->has_bitmaps && extents == c->bg->extent_count)
		return 0;
	ret = find_item(c, &key, &path);
	if (ret)
		return ret;
	memcpy(path_data_mut(&path), &info, sizeof(info));
	path_release(&path);
	return 0;
}

int space_clear_free_space(struct tree_writer *w, struct tree_root *tree, bool *done)
{
	struct btrfs_key key = key_make(0, 0, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(w->ctx, tree, &key, &path);

	*done = ret == 1 && !path_valid(&path);
	if (ret >= 0 && !*done)
		key = path_key(&path);
	path_release(&path);
	if (ret < 0 || *done)
		return MIN(ret, 0);
	ret = tree_search_modify(w, tree, &key, TREE_IN_PLACE, &path);
	if (!ret)
		ret = path_delete_items(w, &path, block_nritems(path.block[0]->data));
	path_release(&path);
	return ret == 1 ? -EUCLEAN : ret;
}

int fst_write(struct tree_writer *w, struct space *space, struct block_group *bg,
	const uint64_t *before, const uint64_t *after)
{
	struct fst_change c = {.w = w,
		.space = space,
		.bg = bg,
		.before = before,
		.after = after,
		.n = group_sectors(space, bg)};
	uint32_t extents = (uint32_t)bits_count_runs(after, c.n);
	bool bitmaps = wants_bitmaps(&c, extents);
	int ret = write_info(&c, bitmaps, extents);

	if (!ret && bitmaps == bg->has_bitmaps)
		ret = bitmaps ? write_bitmaps(&c) : write_extents(&c);
	else if (!ret)
		ret = bitmaps ? to_bitmaps(&c) : to_extents(&c);
	if (!ret) {
		bg->has_bitmaps = bitmaps;
		bg->extent_count = extents;
	}
	return ret;
}
