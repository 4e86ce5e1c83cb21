/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changes of the checksum tree: items of consecutive checksums, as large as a leaf allows.
 */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/extent/extent_tree.h"
#include "fscore/tree/leaf.h"

static struct btrfs_key csum_key(uint64_t logical)
{
	return key_make(BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY, logical);
}

/* How many checksums one item holds at most: a leaf takes two of them. */
static uint32_t max_csums(const struct volume_geometry *geo)
{
	uint32_t bytes =
		leaf_capacity_bytes(geo->node_bytes) - 2 * (uint32_t)sizeof(struct btrfs_item);

	return MIN(bytes / 2, 4096u) / geo->csum_bytes;
}

/* ---------------------------------------------------------------------- insert */

/*
 * Appends to the item that ends where the checksums begin. *done: how many (none: there is
 * no such item, or it is full).
 */
static int append(struct tree_writer *w, struct tree_root *root, const struct volume_geometry *geo,
	uint64_t logical, const uint8_t *csums, unsigned n, unsigned *done)
{
	struct btrfs_key key = csum_key(logical);
	struct tree_path path = PATH_INIT;
	uint32_t have, more;
	int ret = tree_search_before(w->ctx, root, &key, &path);

	*done = 0;
	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return ret;
	key = path_key(&path);
	have = path_data_bytes(&path) / geo->csum_bytes;
	path_release(&path);
	if (key.type != BTRFS_EXTENT_CSUM_KEY || have >= max_csums(geo) ||
		key.offset + (uint64_t)have * geo->sector_bytes != logical)
		return 0;
	more = MIN(n, max_csums(geo) - have);
	ret = tree_search_modify(w, root, &key, (int)(more * geo->csum_bytes), &path);
	if (ret < 0)
		return ret;
	/* Only the transaction's own threads change this tree, but it may have been one. */
	if (ret == 0 && path_data_bytes(&path) == have * geo->csum_bytes) {
		char *data = path_resize_item(&path, (have + more) * geo->csum_bytes);

		memcpy(data + (size_t)have * geo->csum_bytes, csums,
			(size_t)more * geo->csum_bytes);
		*done = more;
	}
	path_release(&path);
	return 0;
}

/* Makes one new item of the first checksums. */
static int insert_item(struct tree_writer *w, struct tree_root *root,
	const struct volume_geometry *geo, uint64_t logical, const uint8_t *csums, unsigned n,
	unsigned *done)
{
	struct btrfs_key key = csum_key(logical);
	struct tree_path path = PATH_INIT;
	uint32_t bytes;
	int ret;

	*done = MIN(n, max_csums(geo));
	bytes = *done * geo->csum_bytes;
	ret = tree_search_modify(w, root, &key, (int)bytes, &path);
	if (ret == 1) {
		memcpy(path_insert_item(w, &path, &key, bytes), csums, bytes);
		ret = 0;
	} else if (ret == 0) {
		ret = -EEXIST;
	}
	path_release(&path);
	return ret;
}

int csum_insert(struct tree_writer *w, struct tree_root *csum_tree,
	const struct volume_geometry *geo, uint64_t logical, const uint8_t *csums, unsigned n)
{
	while (n) {
		unsigned done;
		int ret = append(w, csum_tree, geo, logical, csums, n, &done);

		if (!ret && !done)
			ret = insert_item(w, csum_tree, geo, logical, csums, n, &done);
		if (ret)
			return ret;
		logical += (uint64_t)done * geo->sector_bytes;
		csums += (size_t)done * geo->csum_bytes;
		n -= done;
	}
	return 0;
}

/* ---------------------------------------------------------------------- delete */

/* Where the checksums of an item end. */
static uint64_t item_end(const struct tree_path *path, const struct volume_geometry *geo)
{
	return path_key(path).offset +
		(uint64_t)(path_data_bytes(path) / geo->csum_bytes) * geo->sector_bytes;
}

/*
 * Takes [logical, end) out of the item at the path, which holds a part of it. When that is
 * in the middle, what is behind it becomes an item of its own; *rest is the copy of it.
 */
static int cut_item(struct tree_writer *w, struct tree_path *path,
	const struct volume_geometry *geo, uint64_t logical, uint64_t end, uint8_t *rest,
	unsigned *n_rest)
{
	uint64_t from = path_key(path).offset, to = item_end(path, geo);
	uint32_t keep = from < logical ? (uint32_t)((logical - from) / geo->sector_bytes) : 0;
	char *data = path_data_mut(path);

	*n_rest = to > end ? (unsigned)((to - end) / geo->sector_bytes) : 0;
	if (!keep && !*n_rest)
		return path_delete_items(w, path, 1);
	if (!keep) {
		/* The front goes: the rest moves there, under its own key. */
		uint32_t bytes = *n_rest * geo->csum_bytes;
		struct btrfs_key key = csum_key(end);

		memmove(data, data + path_data_bytes(path) - bytes, bytes);
		path_resize_item(path, bytes);
		path_set_key(w, path, &key);
		*n_rest = 0;
		return 0;
	}
	memcpy(rest, data + path_data_bytes(path) - *n_rest * geo->csum_bytes,
		(size_t)*n_rest * geo->csum_bytes);
	path_resize_item(path, keep * geo->csum_bytes);
	return 0;
}

/* The last item that holds a part of [logical, end). 1: there is none. */
static int find_last(struct tree_writer *w, struct tree_root *root,
	const struct volume_geometry *geo, uint64_t logical, uint64_t end, struct btrfs_key *key)
{
	struct tree_path path = PATH_INIT;
	int ret;

	*key = csum_key(end - 1);
	ret = tree_search_before(w->ctx, root, key, &path);
	if (ret < 0)
		return ret == -ENOENT ? 1 : ret;
	*key = path_key(&path);
	ret = key->type == BTRFS_EXTENT_CSUM_KEY && item_end(&path, geo) > logical ? 0 : 1;
	path_release(&path);
	return ret;
}

int csum_delete(struct tree_writer *w, struct tree_root *csum_tree,
	const struct volume_geometry *geo, uint64_t logical, uint64_t bytes)
{
	uint64_t end = logical + bytes;
	uint8_t rest[BTRFS_MAX_METADATA_BLOCKSIZE];

	for (;;) {
		struct tree_path path = PATH_INIT;
		struct btrfs_key key;
		unsigned n_rest;
		int ret = find_last(w, csum_tree, geo, logical, end, &key);

		if (ret)
			return ret < 0 ? ret : 0;
		ret = tree_search_modify(w, csum_tree, &key, TREE_IN_PLACE, &path);
		if (ret < 0)
			return ret;
		if (ret == 1) {
			/* Another extent's change has moved it meanwhile. */
			path_release(&path);
			continue;
		}
		ret = cut_item(w, &path, geo, logical, end, rest, &n_rest);
		path_release(&path);
		if (!ret && n_rest)
			ret = csum_insert(w, csum_tree, geo, end, rest, n_rest);
		if (ret)
			return ret;
	}
}
