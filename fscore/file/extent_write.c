/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/extent_write.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/log_note.h"
#include "fscore/tree/leaf.h"

/* What an extent item says, copied out of the leaf. */
struct item {
	struct btrfs_key key;
	uint64_t start, end; /* in the file */
	uint8_t type;
	uint64_t disk_logical, disk_bytes; /* 0: a hole, or inline */
	uint64_t offset;		   /* within the extent */
	uint64_t inline_bytes;
};

static struct item read_item(const struct tree_path *path, uint64_t sector_bytes)
{
	const struct btrfs_file_extent_item *fi = path_data(path);
	struct item it = {.key = path_key(path), .type = fi->type};

	it.start = it.key.offset;
	if (fi->type == BTRFS_FILE_EXTENT_INLINE) {
		it.inline_bytes = GET(fi, ram_bytes);
		it.end = it.start + align_up(MAX(it.inline_bytes, 1u), sector_bytes);
		return it;
	}
	it.end = it.start + GET(fi, num_bytes);
	it.disk_logical = GET(fi, disk_bytenr);
	it.disk_bytes = GET(fi, disk_num_bytes);
	it.offset = GET(fi, offset);
	return it;
}

static int change_ref(
	struct txn_handle *h, const struct fsc_inode *inode, const struct item *it, int count)
{
	struct ref_change change = {
		.logical = it->disk_logical,
		.bytes = it->disk_bytes,
		.is_data = true,
		.key = {.root = inode->subvol->id,
			.objectid = inode->ino,
			.offset = it->start - it->offset},
		.count = count,
	};

	return it->disk_logical ? extent_ref_change(&h->txn->extents, &change) : 0;
}

/* How much of what the file uses lies in [start, end) of the item. */
static uint64_t used_in(const struct item *it, uint64_t start, uint64_t end)
{
	if (it->type == BTRFS_FILE_EXTENT_INLINE)
		return it->inline_bytes;
	return it->disk_logical ? MIN(end, it->end) - MAX(start, it->start) : 0;
}

/* The last item that overlaps [start, end). 1: there is none. */
static int find_last(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end,
	struct btrfs_key *key)
{
	uint64_t sector_bytes = inode->subvol->vol->geo.sector_bytes;
	struct tree_path path = PATH_INIT;
	int ret;

	*key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, end - 1);
	ret = tree_search_before(h->w.ctx, &inode->subvol->root, key, &path);
	if (ret < 0)
		return ret == -ENOENT ? 1 : ret;
	ret = 1;
	if (path_is_at(&path, inode->ino, BTRFS_EXTENT_DATA_KEY)) {
		*key = path_key(&path);
		ret = read_item(&path, sector_bytes).end > start ? 0 : 1;
	}
	path_release(&path);
	return ret;
}

static int insert_item(struct txn_handle *h, struct fsc_inode *inode, uint64_t file_off,
	const void *item, uint32_t bytes)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, file_off);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&h->w, &inode->subvol->root, &key, (int)bytes, &path);

	if (ret == 1) {
		memcpy(path_insert_item(&h->w, &path, &key, bytes), item, bytes);
		ret = 0;
	} else if (ret == 0) {
		ret = -EEXIST;
	}
	path_release(&path);
	return ret;
}

/* An item covers that much from now on. A hole is no part of an extent, but the kernel leaves it an offset. */
static void set_length(struct btrfs_file_extent_item *fi, const struct item *it, uint64_t bytes)
{
	PUT(fi, num_bytes, bytes);
	if (it->disk_logical)
		return;
	PUT(fi, offset, 0);
	PUT(fi, ram_bytes, bytes);
}

/* What is left of an item behind end: in its own place, or as an item of its own. */
static void shift_start(struct btrfs_file_extent_item *fi, const struct item *it, uint64_t end)
{
	PUT(fi, offset, it->offset + (end - it->start));
	set_length(fi, it, it->end - end);
}

/* Cuts [start, end) out of the item at the path, of which something stays. Releases the path. */
static int cut_item(struct txn_handle *h, struct fsc_inode *inode, struct tree_path *path,
	const struct item *it, uint64_t start, uint64_t end)
{
	struct btrfs_file_extent_item *fi = path_data_mut(path), rest = *fi;
	bool keeps_left = it->start < start, keeps_right = end < it->end;
	int ret = 0;

	if (!keeps_left) {
		struct btrfs_key key = it->key;

		shift_start(fi, it, end);
		key.offset = end;
		path_set_key(&h->w, path, &key);
		path_release(path);
		return 0;
	}
	set_length(fi, it, start - it->start);
	path_release(path);
	if (keeps_right) {
		/* One item becomes two, which both refer to the extent. */
		shift_start(&rest, it, end);
		ret = insert_item(h, inode, end, &rest, (uint32_t)sizeof(rest));
		if (!ret)
			ret = change_ref(h, inode, it, 1);
	}
	return ret;
}

/* Drops what one item has of [start, end). */
static int drop_one(struct txn_handle *h, struct fsc_inode *inode, const struct btrfs_key *key,
	uint64_t start, uint64_t end, uint64_t *dropped_bytes)
{
	struct tree_path path = PATH_INIT;
	struct item it;
	int ret = tree_search_modify(&h->w, &inode->subvol->root, key, TREE_IN_PLACE, &path);

	if (ret < 0)
		return ret;
	if (ret == 1) {
		/* Another change of this file was faster: the caller looks again. */
		path_release(&path);
		return 0;
	}
	it = read_item(&path, inode->subvol->vol->geo.sector_bytes);
	if (it.end <= start || it.start >= end) {
		path_release(&path);
		return 0;
	}
	*dropped_bytes += used_in(&it, start, end);
	if (it.type != BTRFS_FILE_EXTENT_INLINE && (it.start < start || it.end > end))
		return cut_item(h, inode, &path, &it, start, end);
	ret = path_delete_items(&h->w, &path, 1);
	path_release(&path);
	return ret ? ret : change_ref(h, inode, &it, -1);
}

int extents_drop(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end,
	unsigned max_items, uint64_t *dropped_bytes, uint64_t *dropped_from, bool *done)
{
	*done = false;
	*dropped_from = end;
	for (unsigned i = 0; i < max_items; i++) {
		struct btrfs_key key;
		int ret = find_last(h, inode, start, end, &key);

		if (ret == 1) {
			*dropped_from = start;
			*done = true;
			return 0;
		}
		if (!ret)
			ret = drop_one(h, inode, &key, start, end, dropped_bytes);
		if (ret)
			return ret;
		*dropped_from = MAX(key.offset, start);
	}
	return 0;
}

int extent_insert_new(struct txn_handle *h, struct fsc_inode *inode, uint64_t file_off,
	const struct new_extent *extent)
{
	struct btrfs_file_extent_item fi = {
		.type = BTRFS_FILE_EXTENT_REG, .compression = extent->compression};
	struct ref_change change = {
		.logical = extent->logical,
		.bytes = extent->disk_bytes,
		.is_data = true,
		.is_new = true,
		.key = {.root = inode->subvol->id, .objectid = inode->ino, .offset = file_off},
		.count = 1,
	};
	int ret;

	PUT(&fi, generation, h->txn->id);
	PUT(&fi, ram_bytes, extent->ram_bytes);
	PUT(&fi, disk_bytenr, extent->logical);
	PUT(&fi, disk_num_bytes, extent->disk_bytes);
	PUT(&fi, num_bytes, extent->ram_bytes);
	ret = insert_item(h, inode, file_off, &fi, (uint32_t)sizeof(fi));
	if (ret)
		return ret;
	log_extent(h, inode, file_off, file_off + extent->ram_bytes, &fi, (uint32_t)sizeof(fi),
		NULL, 0);
	return extent_ref_change(&h->txn->extents, &change);
}

int extent_insert_inline(struct txn_handle *h, struct fsc_inode *inode, const void *data,
	const struct new_extent *extent)
{
	uint32_t bytes = (uint32_t)(FILE_EXTENT_INLINE_OFFSET + extent->disk_bytes);
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&h->w, &inode->subvol->root, &key, (int)bytes, &path);

	if (ret == 1) {
		struct btrfs_file_extent_item *fi = path_insert_item(&h->w, &path, &key, bytes);

		memset(fi, 0, FILE_EXTENT_INLINE_OFFSET);
		PUT(fi, generation, h->txn->id);
		PUT(fi, ram_bytes, extent->ram_bytes);
		fi->type = BTRFS_FILE_EXTENT_INLINE;
		fi->compression = extent->compression;
		memcpy((char *)fi + FILE_EXTENT_INLINE_OFFSET, data, extent->disk_bytes);
		log_extent(h, inode, 0, inode->subvol->vol->geo.sector_bytes, fi, bytes, NULL, 0);
		ret = 0;
	} else if (ret == 0) {
		ret = -EEXIST;
	}
	path_release(&path);
	return ret;
}

/* ------------------------------------------------------------------------- holes */

static int insert_hole(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end)
{
	struct btrfs_file_extent_item fi = {.type = BTRFS_FILE_EXTENT_REG};

	PUT(&fi, generation, h->txn->id);
	PUT(&fi, ram_bytes, end - start);
	PUT(&fi, num_bytes, end - start);
	return insert_item(h, inode, start, &fi, (uint32_t)sizeof(fi));
}

/* The first item that ends behind `at`. 1: there is none. */
static int find_first(struct txn_handle *h, struct fsc_inode *inode, uint64_t at, struct item *it)
{
	uint64_t sector_bytes = inode->subvol->vol->geo.sector_bytes;
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, at);
	struct tree_path path =
		PATH_INIT_LIMIT(key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, UINT64_MAX));
	int ret = tree_search_before(h->w.ctx, &inode->subvol->root, &key, &path);

	if (ret < 0)
		return ret == -ENOENT ? -EUCLEAN : ret;
	if (!path_is_at(&path, inode->ino, BTRFS_EXTENT_DATA_KEY) ||
		read_item(&path, sector_bytes).end <= at)
		ret = tree_next(h->w.ctx, &path);
	if (ret >= 0) {
		ret = path_is_at(&path, inode->ino, BTRFS_EXTENT_DATA_KEY) ? 0 : 1;
		if (ret == 0)
			*it = read_item(&path, sector_bytes);
	}
	path_release(&path);
	return ret;
}

int extents_fill_holes(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end)
{
	while (start < end) {
		struct item it;
		int ret = find_first(h, inode, start, &it);

		if (ret < 0)
			return ret;
		if (ret == 1)
			return insert_hole(h, inode, start, end);
		if (it.start > start)
			ret = insert_hole(h, inode, start, MIN(it.start, end));
		if (ret)
			return ret;
		start = it.end;
	}
	return 0;
}

/* ------------------------------------------------------------ preallocated, written */

/* Makes two items of the one that has `at` inside; fine if none has. */
static int split_at(struct txn_handle *h, struct fsc_inode *inode, uint64_t at)
{
	struct tree_path path = PATH_INIT;
	struct item it;
	int ret = find_first(h, inode, at, &it);

	if (ret || it.start >= at)
		return MIN(ret, 0);
	ret = tree_search_modify(&h->w, &inode->subvol->root, &it.key, TREE_IN_PLACE, &path);
	if (ret)
		return ret < 0 ? ret : -EUCLEAN;
	return cut_item(h, inode, &path, &it, at, at);
}

static int set_written(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end,
	uint64_t logical)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, start);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&h->w, &inode->subvol->root, &key, TREE_IN_PLACE, &path);
	struct item it = {0};

	if (ret < 0)
		return ret;
	if (ret == 0)
		it = read_item(&path, inode->subvol->vol->geo.sector_bytes);
	if (ret == 1 || it.type != BTRFS_FILE_EXTENT_PREALLOC || it.end != end ||
		it.disk_logical + it.offset != logical) {
		ret = -EUCLEAN;
	} else {
		struct btrfs_file_extent_item *fi = path_data_mut(&path);

		fi->type = BTRFS_FILE_EXTENT_REG;
		PUT(fi, generation, h->txn->id);
	}
	path_release(&path);
	return ret;
}

static bool can_join(const struct item *a, const struct item *b)
{
	return a->type == BTRFS_FILE_EXTENT_REG && b->type == a->type && a->disk_logical &&
		a->disk_logical == b->disk_logical && a->end == b->start &&
		a->start - a->offset == b->start - b->offset;
}

/* Makes one item of those that meet at `at`, if they are parts of one extent that follow. */
static int join_at(struct txn_handle *h, struct fsc_inode *inode, uint64_t at)
{
	struct tree_root *root = &inode->subvol->root;
	struct tree_path path = PATH_INIT;
	struct item a, b;
	int ret = at ? find_first(h, inode, at - 1, &a) : 1;

	if (!ret)
		ret = find_first(h, inode, at, &b);
	if (ret || !can_join(&a, &b))
		return MIN(ret, 0);
	/* First the longer one, so that nobody sees a gap. */
	ret = tree_search_modify(&h->w, root, &a.key, TREE_IN_PLACE, &path);
	if (ret)
		return ret < 0 ? ret : -EUCLEAN;
	PUT((struct btrfs_file_extent_item *)path_data_mut(&path), num_bytes, b.end - a.start);
	PUT((struct btrfs_file_extent_item *)path_data_mut(&path), generation, h->txn->id);
	path_release(&path);
	ret = tree_search_modify(&h->w, root, &b.key, TREE_IN_PLACE, &path);
	if (ret)
		return ret < 0 ? ret : -EUCLEAN;
	ret = path_delete_items(&h->w, &path, 1);
	path_release(&path);
	return ret ? ret : change_ref(h, inode, &b, -1);
}

int extents_mark_written(struct txn_handle *h, struct fsc_inode *inode, uint64_t start,
	uint64_t end, uint64_t logical)
{
	int ret = split_at(h, inode, start);

	if (!ret)
		ret = split_at(h, inode, end);
	if (!ret)
		ret = set_written(h, inode, start, end, logical);
	if (!ret)
		ret = join_at(h, inode, end);
	return ret ? ret : join_at(h, inode, start);
}

/* ------------------------------------------------------------------- whole inodes */

#define AT_ONCE 64u

/*
 * The run of the inode's items from the path on that go together: at most max, in one leaf.
 * Their data references are collected; *used is what the file's used bytes shrink by.
 */
static unsigned collect_run(const struct tree_path *path, struct fsc_inode *inode, unsigned max,
	struct item *data, unsigned *n_data, uint64_t *used)
{
	const void *leaf = path->block[0]->data;
	uint32_t n = block_nritems(leaf);
	struct tree_path at = *path;
	unsigned run = 0;

	*n_data = 0;
	*used = 0;
	for (; at.slot[0] < n && run < max; at.slot[0]++, run++) {
		struct btrfs_key key = path_key(&at);

		if (key.objectid != inode->ino)
			break;
		if (key.type != BTRFS_EXTENT_DATA_KEY)
			continue;
		data[*n_data] = read_item(&at, inode->subvol->vol->geo.sector_bytes);
		*used += used_in(&data[*n_data], 0, UINT64_MAX);
		*n_data += data[*n_data].disk_logical != 0;
	}
	return run;
}

/*
 * Where the last run of the inode's items in one leaf begins, at most AT_ONCE of them. 1: it has
 * no items.
 */
static int find_last_run(struct txn_handle *h, struct fsc_inode *inode, struct btrfs_key *first)
{
	struct btrfs_key key = key_make(inode->ino, UINT8_MAX, UINT64_MAX);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_before(h->w.ctx, &inode->subvol->root, &key, &path);

	if (ret < 0)
		return ret == -ENOENT ? 1 : ret;
	ret = 1;
	for (unsigned n = 0; n < AT_ONCE; n++) {
		key = path_key(&path);
		if (key.objectid != inode->ino)
			break;
		*first = key;
		ret = 0;
		if (path.slot[0] == 0)
			break;
		path.slot[0]--;
	}
	path_release(&path);
	return ret;
}

/* From the end backwards, so that the inode item, which comes first, goes last. */
int inode_items_delete(
	struct txn_handle *h, struct fsc_inode *inode, unsigned max_items, bool *done)
{
	unsigned gone = 0;

	*done = false;
	while (gone < max_items) {
		struct tree_path path = PATH_INIT;
		struct item data[AT_ONCE];
		struct btrfs_key key;
		unsigned run, n_data;
		uint64_t used;
		int ret = find_last_run(h, inode, &key);

		*done = ret == 1;
		if (ret)
			return MIN(ret, 0);
		ret = tree_search_modify(&h->w, &inode->subvol->root, &key, TREE_IN_PLACE, &path);
		if (ret < 0)
			return ret;
		if (ret == 1) {
			path_release(&path);
			continue;
		}
		run = collect_run(&path, inode, AT_ONCE, data, &n_data, &used);
		ret = path_delete_items(&h->w, &path, run);
		path_release(&path);
		for (unsigned i = 0; !ret && i < n_data; i++)
			ret = change_ref(h, inode, &data[i], -1);
		if (ret)
			return ret;
		gone += run;
		short_lock(&inode->attr_lock);
		inode->used_bytes -= MIN(used, inode->used_bytes);
		short_unlock(&inode->attr_lock);
		/* As long as there is an item, it says what is left. */
		inode_mark_dirty(h, inode);
	}
	return 0;
}
