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

static int write_group(struct tree_writer *w, struct space *space, const struct snapshot *s)
{
	int ret = write_item(w, space, s);

	if (!ret && s->before && space->config.free_space_tree)
		ret = fst_write(w, space, s->bg, s->before, s->after);
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

/* Later changes find the block group clean, and keep what is about to be written. */
static void take_snapshot(struct space *space, struct block_group *bg, struct snapshot *s)
{
	size_t bytes = bits_bytes(group_sectors(space, bg));

	short_lock(&space->lock);
	s->bg = bg;
	s->used_bytes = bg->used_bytes;
	s->before = bg->written;
	if (s->before)
		memcpy(s->after, bg->unused, bytes);
	bg->written = NULL;
	bg->dirty = false;
	short_unlock(&space->lock);
}

int space_write_groups(struct tree_writer *w, struct space *space, bool *more)
{
	struct block_group *bg;
	size_t index = 0;
	int ret = 0;

	*more = false;
	while (!ret && (bg = next_dirty(space, &index))) {
		struct snapshot s = {.after = bits_alloc(group_sectors(space, bg))};

		if (!s.after)
			return -ENOMEM;
		take_snapshot(space, bg, &s);
		ret = write_group(w, space, &s);
		free(s.before);
		free(s.after);
		*more = true;
	}
	return ret;
}
