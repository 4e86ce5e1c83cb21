/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether data may be written in place: extent_is_sole() of extent_tree.h. */
#include <errno.h>

#include "fscore/extent/extent_tree.h"
#include "fscore/tree/leaf.h"

/* What is asked about. */
struct sole_query {
	uint64_t logical, bytes;
	const struct ref_key *key;
	uint64_t last_snapshot;
};

/* Whether the extent's item has all its references inline as this one, and is young enough. */
static bool item_is_sole(const struct tree_path *path, const struct sole_query *q)
{
	const struct btrfs_extent_item *item = path_data(path);
	uint32_t bytes = path_data_bytes(path);
	uint8_t type = ref_type(true, q->key);
	struct ref_place place;

	if (bytes != sizeof(*item) + ref_inline_bytes(type) ||
		GET(item, generation) <= q->last_snapshot)
		return false;
	if (ref_find_inline(item, bytes, false, type, q->key, &place) || !place.found)
		return false;
	return place.count == (int64_t)GET(item, refs);
}

/* From memory only, with the tree locked. -EAGAIN: path->need is missing. */
static int look_at_item(
	struct extents *e, const struct sole_query *q, struct tree_path *path, bool *sole)
{
	struct btrfs_key key = key_make(q->logical, BTRFS_EXTENT_ITEM_KEY, q->bytes);
	int ret = tree_peek(e->extent_tree, &key, path);

	/* Without an item it is damaged, or another extent: nobody writes into that. */
	*sole = ret == 0 && item_is_sole(path, q);
	path_release(path);
	return ret == 1 ? 0 : ret;
}

static int look(struct extents *e, const struct sole_query *q, struct tree_path *path,
	bool *running, bool *sole)
{
	bool is_new = false;
	int ret = 0;

	long_lock_read(&e->extent_tree->lock);
	*sole = delayed_refs_only(e->refs, q->logical, q->key, &is_new, running);
	if (*sole && !*running && !is_new)
		ret = look_at_item(e, q, path, sole);
	long_unlock(&e->extent_tree->lock);
	return ret;
}

int extent_is_sole(struct fsc_ctx *ctx, struct extents *e, uint64_t logical, uint64_t bytes,
	const struct ref_key *key, uint64_t last_snapshot, bool *sole)
{
	const struct sole_query q = {logical, bytes, key, last_snapshot};

	struct tree_path path = PATH_INIT;

	for (;;) {
		bool running = false;
		int ret = look(e, &q, &path, &running, sole);

		if (ret == -EAGAIN)
			ret = tree_read_needed(ctx, &path);
		else if (!ret && running)
			ret = extent_wait_running(ctx, e);
		else
			return ret;
		if (ret)
			return ret;
	}
}
