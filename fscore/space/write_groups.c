/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes what has changed in block groups: their items, and the free-space tree. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"
#include "fscore/tree/leaf.h"

/* One block group as it was at one moment. */
struct snapshot {
	struct block_group *bg;
	uint64_t used_bytes;
	uint64_t *before, *after; /* NULL: the free-space tree stays as it is */
};

static struct btrfs_key item_key(const struct block_group *bg)
{
	return key_make(bg->logical, BTRFS_BLOCK_GROUP_ITEM_KEY, bg->length_bytes);
}

static int write_item(struct tree_writer *w, struct space *space, const struct snapshot *s)
{
	struct btrfs_key key = item_key(s->bg);
	struct tree_path path = PATH_INIT;
	struct btrfs_block_group_item *item;
	int ret;

	if (!s->bg->is_new && s->used_bytes == s->bg->item_used_bytes)
		return 0;
	ret = tree_search_modify(w, space->config.block_group_tree, &key,
		s->bg->is_new ? (int)sizeof(*item) : TREE_IN_PLACE, &path);
	if (ret < 0)
		return ret;
	if (s->bg->is_new != (ret == 1)) {
		path_release(&path);
		log_error("block group %llu: its item is not as it was left",
			(unsigned long long)s->bg->logical);
		return -EUCLEAN;
	}
	item = s->bg->is_new ? path_insert_item(w, &path, &key, sizeof(*item))
			     : path_data_mut(&path);
	PUT(item, used, s->used_bytes);
	PUT(item, chunk_objectid, BTRFS_FIRST_CHUNK_TREE_OBJECTID);
	PUT(item, flags, s->bg->flags);
	path_release(&path);
	s->bg->item_used_bytes = s->used_bytes;
	return 0;
}

static void set_in_fst(struct space *space, struct block_group *bg)
{
	short_lock(&space->lock);
	bg->in_fst = true;
	bg->has_fst_items = true;
	short_unlock(&space->lock);
}

static int write_group(struct tree_writer *w, struct space *space, const struct snapshot *s)
{
	int ret = write_item(w, space, s);

	if (!ret && s->before && space->config.free_space_tree) {
		ret = fst_write(w, space, s->bg, s->before, s->after);
		if (!ret)
			set_in_fst(space, s->bg);
	}
	if (!ret)
		s->bg->is_new = false;
	return ret;
}

/* The first dirty block group from *index on. */
static struct block_group *next_dirty(struct space *space, size_t *index)
{
	struct block_group *bg = NULL;

	short_lock(&space->lock);
	while (!bg && *index < space->n_groups) {
		if (space->groups[*index]->dirty)
			bg = space->groups[*index];
		++*index;
	}
	short_unlock(&space->lock);
	return bg;
}

/*
 * Later changes find the block group clean, and keep what is about to be written. zeros: taken
 * over, if the free-space tree does not tell of the block group yet.
 */
static void take_snapshot(
	struct space *space, struct block_group *bg, uint64_t **zeros, struct snapshot *s)
{
	size_t bytes = bits_bytes(group_sectors(space, bg));

	short_lock(&space->lock);
	s->bg = bg;
	s->used_bytes = bg->used_bytes;
	s->before = bg->written;
	if (!s->before && !bg->in_fst && space->config.free_space_tree) {
		s->before = *zeros;
		*zeros = NULL;
	}
	if (s->before) {
		memcpy(s->after, bg->unused, bytes);
		bg->in_fst = true;
	}
	bg->written = NULL;
	bg->dirty = false;
	short_unlock(&space->lock);
}

static int write_one(struct tree_writer *w, struct space *space, struct block_group *bg)
{
	struct snapshot s = {.after = bits_alloc(group_sectors(space, bg))};
	uint64_t *zeros = bits_alloc(group_sectors(space, bg));
	int ret = s.after && zeros ? 0 : -ENOMEM;

	if (!ret) {
		take_snapshot(space, bg, &zeros, &s);
		ret = write_group(w, space, &s);
		free(s.before);
	}
	free(s.after);
	free(zeros);
	return ret;
}

/* ------------------------------------------- a free-space tree that is built anew */

/* The next block group that the tree does not tell of. *loaded: it is written like others. */
static struct block_group *next_missing(struct space *space, size_t *index, bool *loaded)
{
	struct block_group *bg = NULL;

	short_lock(&space->lock);
	while (!bg && *index < space->n_groups && space->impl->rebuild_groups) {
		if (!space->groups[*index]->in_fst) {
			bg = space->groups[*index];
			space->impl->rebuild_groups--;
			*loaded = bg->loaded;
			bg->dirty |= bg->loaded;
		}
		++*index;
	}
	short_unlock(&space->lock);
	return bg;
}

/* Nothing of it has changed, or it would be loaded: it stays as it is, and is not kept in memory. */
static int write_unloaded(struct tree_writer *w, struct space *space, struct block_group *bg)
{
	uint64_t n = group_sectors(space, bg);
	struct snapshot s = {.bg = bg, .before = bits_alloc(n), .after = bits_alloc(n)};
	int ret = s.before && s.after ? 0 : -ENOMEM;

	if (!ret)
		ret = group_scan_extents(w->ctx, space, bg, s.after);
	if (!ret)
		ret = fst_write(w, space, bg, s.before, s.after);
	if (!ret)
		set_in_fst(space, bg);
	free(s.before);
	free(s.after);
	return ret;
}

static int write_missing(struct tree_writer *w, struct space *space, bool *more)
{
	struct block_group *bg;
	size_t index = 0;
	bool loaded;
	int ret = 0;

	while (!ret && (bg = next_missing(space, &index, &loaded))) {
		if (!loaded)
			ret = write_unloaded(w, space, bg);
		*more = true;
	}
	return ret;
}

void space_rebuild_free_space(struct space *space, struct tree_root *tree)
{
	short_lock(&space->lock);
	space->config.free_space_tree = tree;
	short_unlock(&space->lock);
}

bool space_rebuild_some(struct space *space, unsigned n_groups)
{
	bool any = false;

	short_lock(&space->lock);
	space->impl->rebuild_groups = n_groups;
	for (size_t i = 0; !any && i < space->n_groups; i++)
		any = !space->groups[i]->in_fst;
	short_unlock(&space->lock);
	return any;
}

int space_write_groups(struct tree_writer *w, struct space *space, bool *more)
{
	struct block_group *bg;
	size_t index = 0;
	int ret = 0;

	*more = false;
	while (!ret && (bg = next_dirty(space, &index))) {
		ret = write_one(w, space, bg);
		*more = true;
	}
	if (!ret && space->config.free_space_tree)
		ret = write_missing(w, space, more);
	return ret;
}
