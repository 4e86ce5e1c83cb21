/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From notes to items of log trees (log.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/tree/leaf.h"
#include "fscore/txn/log_private.h"

/* One note, and the log that it goes to. */
struct apply {
	struct log_trees *l;
	struct tree_writer *w;
	struct log_tree *tree;
};

/* ------------------------------------------------------------------------------- items */

/* How much data the item has; 0: there is none. */
static int item_bytes(struct apply *a, const struct btrfs_key *key, uint32_t *bytes)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(a->w->ctx, &a->tree->root, key, &path);

	*bytes = ret == 0 ? path_data_bytes(&path) : 0;
	path_release(&path);
	return MIN(ret, 0);
}

/* Small items are not looked for first: there is room for old and new together. */
#define SMALL_BYTES 1024u

/* 1: it was not there before. */
static int put_item(struct apply *a, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	struct tree_path path = PATH_INIT;
	uint32_t old = 0;
	void *to;
	int ret = bytes > SMALL_BYTES ? item_bytes(a, key, &old) : 0;

	if (!ret)
		ret = tree_search_modify(
			a->w, &a->tree->root, key, bytes > old ? (int)(bytes - old) : 0, &path);
	if (ret < 0)
		return ret;
	if (ret)
		to = path_insert_item(a->w, &path, key, bytes);
	else if (path_data_bytes(&path) == bytes)
		to = path_data_mut(&path);
	else
		to = path_resize_item(&path, bytes);
	memcpy(to, data, bytes);
	path_release(&path);
	return ret;
}

/* None is fine. */
static int delete_item(struct apply *a, const struct btrfs_key *key)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(a->w->ctx, &a->tree->root, key, &path);

	path_release(&path);
	if (ret)
		return MIN(ret, 0);
	ret = tree_search_modify(a->w, &a->tree->root, key, TREE_IN_PLACE, &path);
	if (ret == 0)
		ret = path_delete_items(a->w, &path, 1);
	path_release(&path);
	return MIN(ret, 0);
}

/* Deletes the items of an inode with types from `type` to last_type. */
static int delete_items(struct apply *a, uint64_t ino, uint8_t type, uint8_t last_type)
{
	for (;;) {
		struct btrfs_key key = key_make(ino, type, 0);
		struct tree_path path = PATH_INIT;
		int ret = tree_search(a->w->ctx, &a->tree->root, &key, &path);
		bool at;

		if (ret < 0)
			return ret;
		at = path_valid(&path);
		if (at)
			key = path_key(&path);
		path_release(&path);
		if (!at || key.objectid != ino || key.type > last_type)
			return 0;
		ret = delete_item(a, &key);
		if (ret)
			return ret;
	}
}

/* Whether the log has the inode. 1: yes, 0: no. */
static int has_inode(struct apply *a, uint64_t ino)
{
	struct btrfs_key key = key_make(ino, BTRFS_INODE_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(a->w->ctx, &a->tree->root, &key, &path);

	path_release(&path);
	return ret < 0 ? ret : !ret;
}

/* ------------------------------------------------------------------------------ inodes */

/* The next xattr item of the subvolume's inode, from key on, copied. 1: there is no more. */
static int next_xattr(struct apply *a, const struct log_note *note, struct btrfs_key *key,
	void **copy, uint32_t *bytes)
{
	struct tree_path path =
		PATH_INIT_LIMIT(key_make(note->ino, BTRFS_XATTR_ITEM_KEY, UINT64_MAX));
	int ret = tree_search(a->w->ctx, note->root, key, &path);

	if (ret < 0)
		return ret;
	ret = 1;
	if (path_is_at(&path, note->ino, BTRFS_XATTR_ITEM_KEY)) {
		*key = path_key(&path);
		*bytes = path_data_bytes(&path);
		*copy = malloc(*bytes);
		if (*copy)
			memcpy(*copy, path_data(&path), *bytes);
		ret = *copy ? 0 : -ENOMEM;
	}
	path_release(&path);
	return ret;
}

/*
 * All xattrs that the inode has now, which may be more than when the note was taken: a change that
 * nobody has been told of may be durable.
 */
static int copy_xattrs(struct apply *a, const struct log_note *note)
{
	struct btrfs_key key = key_make(note->ino, BTRFS_XATTR_ITEM_KEY, 0);
	int ret = delete_items(a, note->ino, BTRFS_XATTR_ITEM_KEY, BTRFS_XATTR_ITEM_KEY);

	while (!ret) {
		uint32_t bytes;
		void *copy;

		ret = next_xattr(a, note, &key, &copy, &bytes);
		if (ret)
			break;
		ret = MIN(put_item(a, &key, copy, bytes), 0);
		free(copy);
		if (key.offset++ == UINT64_MAX)
			break;
	}
	return MIN(ret, 0);
}

static int apply_inode(struct apply *a, const struct log_note *note)
{
	struct btrfs_key key = key_make(note->ino, BTRFS_INODE_ITEM_KEY, 0);
	int ret = put_item(a, &key, &note->item, (uint32_t)sizeof(note->item));

	return ret == 1 && !(note->flags & LOG_NEW) ? copy_xattrs(a, note) : MIN(ret, 0);
}

/* ------------------------------------------------------------------------------- names */

static struct btrfs_key index_key(const struct log_note *note)
{
	return key_make(note->name.dir, BTRFS_DIR_INDEX_KEY, note->name.index);
}

static struct btrfs_key ref_key(const struct log_note *note)
{
	return key_make(note->ino, BTRFS_INODE_REF_KEY, note->name.dir);
}

static int add_index(struct apply *a, const struct log_note *note)
{
	struct btrfs_key key = index_key(note), to = key_make(note->ino, BTRFS_INODE_ITEM_KEY, 0);
	char buf[sizeof(struct btrfs_dir_item) + BTRFS_NAME_LEN];
	struct btrfs_dir_item *di = (void *)buf;

	memset(di, 0, sizeof(*di));
	key_to_disk(&to, &di->location);
	PUT(di, transid, a->w->generation);
	PUT(di, name_len, note->bytes);
	di->type = note->name.type;
	memcpy(di + 1, note->data, note->bytes);
	return MIN(put_item(a, &key, buf, (uint32_t)sizeof(*di) + note->bytes), 0);
}

static int add_ref(struct apply *a, const struct log_note *note)
{
	struct btrfs_key key = ref_key(note);
	char buf[sizeof(struct btrfs_inode_ref) + BTRFS_NAME_LEN];
	struct btrfs_inode_ref *ref = (void *)buf;

	PUT(ref, index, note->name.index);
	PUT(ref, name_len, note->bytes);
	memcpy(ref + 1, note->data, note->bytes);
	return MIN(put_item(a, &key, buf, (uint32_t)sizeof(*ref) + note->bytes), 0);
}

/* The range of the directory that ends before index, to which it may be added. 1: there is none. */
static int range_before(
	struct apply *a, uint64_t dir, uint64_t index, struct btrfs_key *key, uint64_t *end)
{
	struct tree_path path = PATH_INIT;
	int ret;

	*key = key_make(dir, BTRFS_DIR_LOG_INDEX_KEY, index);
	ret = tree_search_before(a->w->ctx, &a->tree->root, key, &path);
	if (ret < 0)
		return ret == -ENOENT ? 1 : ret;
	ret = 1;
	if (path_is_at(&path, dir, BTRFS_DIR_LOG_INDEX_KEY)) {
		*key = path_key(&path);
		*end = GET((const struct btrfs_dir_log_item *)path_data(&path), end);
		ret = *end + 1 >= index ? 0 : 1;
	}
	path_release(&path);
	return ret;
}

/* The log is to be believed about this index: what it does not have there is gone. */
static int cover_index(struct apply *a, uint64_t dir, uint64_t index)
{
	struct btrfs_dir_log_item item;
	struct btrfs_key key;
	uint64_t end = 0;
	int ret = range_before(a, dir, index, &key, &end);

	if (ret < 0 || (ret == 0 && end >= index))
		return MIN(ret, 0);
	if (ret == 1)
		key = key_make(dir, BTRFS_DIR_LOG_INDEX_KEY, index);
	PUT(&item, end, index);
	return MIN(put_item(a, &key, &item, (uint32_t)sizeof(item)), 0);
}

static int apply_name(struct apply *a, const struct log_note *note)
{
	struct btrfs_key index = index_key(note), ref = ref_key(note);
	int ret;

	if (note->kind == LOG_NAME_ADDED) {
		ret = add_index(a, note);
		return ret ? ret : add_ref(a, note);
	}
	ret = delete_item(a, &index);
	if (!ret)
		ret = delete_item(a, &ref);
	return ret ? ret : cover_index(a, note->name.dir, note->name.index);
}

/* ----------------------------------------------------------------------------- extents */

/* An extent item of the log, copied out. */
struct logged {
	struct btrfs_key key;
	struct btrfs_file_extent_item fi; /* but for what is inline */
	uint64_t end;
};

/* The last one that overlaps [start, end) of a file. 1: there is none. */
static int last_overlap(
	struct apply *a, uint64_t ino, uint64_t start, uint64_t end, struct logged *it)
{
	struct btrfs_key key = key_make(ino, BTRFS_EXTENT_DATA_KEY, end - 1);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_before(a->w->ctx, &a->tree->root, &key, &path);

	if (ret < 0)
		return ret == -ENOENT ? 1 : ret;
	ret = 1;
	if (path_is_at(&path, ino, BTRFS_EXTENT_DATA_KEY)) {
		const struct btrfs_file_extent_item *fi = path_data(&path);
		uint32_t sector = a->l->txns->config.geo->sector_bytes;

		*it = (struct logged){.key = path_key(&path)};
		memcpy(&it->fi, fi, MIN(path_data_bytes(&path), sizeof(it->fi)));
		it->end = it->key.offset +
			(fi->type == BTRFS_FILE_EXTENT_INLINE
					? align_up(MAX(GET(fi, ram_bytes), 1u), sector)
					: GET(fi, num_bytes));
		ret = it->end > start ? 0 : 1;
	}
	path_release(&path);
	return ret;
}

/* What an item has of [from, to) becomes an item of its own. */
static int put_part(struct apply *a, const struct logged *it, uint64_t from, uint64_t to)
{
	struct btrfs_key key = it->key;
	struct btrfs_file_extent_item fi = it->fi;

	key.offset = from;
	PUT(&fi, num_bytes, to - from);
	if (GET(&fi, disk_bytenr))
		PUT(&fi, offset, GET(&fi, offset) + (from - it->key.offset));
	else
		PUT(&fi, ram_bytes, to - from);
	return MIN(put_item(a, &key, &fi, (uint32_t)sizeof(fi)), 0);
}

/* Takes [start, end) out of what the log has of a file. */
static int drop_range(struct apply *a, uint64_t ino, uint64_t start, uint64_t end)
{
	for (;;) {
		struct logged it;
		int ret = last_overlap(a, ino, start, end, &it);

		if (ret)
			return MIN(ret, 0);
		ret = delete_item(a, &it.key);
		/* What is inline is the whole file: it is written anew when a part of it changes. */
		if (it.fi.type == BTRFS_FILE_EXTENT_INLINE) {
			if (ret)
				return ret;
			continue;
		}
		if (!ret && it.key.offset < start)
			ret = put_part(a, &it, it.key.offset, start);
		if (!ret && it.end > end)
			ret = put_part(a, &it, end, it.end);
		if (ret)
			return ret;
	}
}

static int apply_extent(struct apply *a, const struct log_note *note)
{
	struct btrfs_key key = key_make(note->ino, BTRFS_EXTENT_DATA_KEY, note->range.start);
	int ret = drop_range(a, note->ino, note->range.start, note->range.end);

	return ret ? ret : MIN(put_item(a, &key, note->data, note->bytes), 0);
}

/* -------------------------------------------------------------------------------- all */

enum pass {
	PASS_INODES,
	PASS_CHANGES,
	PASS_GONE,
};

static int apply_csums(struct apply *a, const struct log_note *note)
{
	return csum_insert(a->w, &a->tree->root, a->l->txns->config.geo, note->csums.logical,
		(const uint8_t *)note->data, note->csums.n);
}

static int apply_change(struct apply *a, const struct log_note *note)
{
	int ret;

	if (note->kind == LOG_NAME_ADDED || note->kind == LOG_NAME_REMOVED)
		return apply_name(a, note);
	if (note->kind == LOG_CSUMS)
		return apply_csums(a, note);
	/* It may have lost its last name before these notes came. */
	ret = has_inode(a, note->ino);
	if (ret <= 0)
		return ret;
	if (note->kind == LOG_XATTRS)
		return copy_xattrs(a, note);
	return apply_extent(a, note);
}

static int apply_one(struct apply *a, const struct log_note *note, enum pass pass)
{
	switch (note->kind) {
	case LOG_INODE:
		return pass == PASS_INODES ? apply_inode(a, note) : 0;
	case LOG_GONE:
		return pass == PASS_GONE ? delete_items(a, note->ino, 0, UINT8_MAX) : 0;
	case LOG_NAME_ADDED:
	case LOG_NAME_REMOVED:
	case LOG_XATTRS:
	case LOG_EXTENT:
	case LOG_CSUMS:
		break;
	}
	return pass == PASS_CHANGES ? apply_change(a, note) : 0;
}

/*
 * Inode items first, since they are what they were last. Then what has come and gone, in order. What
 * is gone altogether last: nothing of it stays.
 */
int log_apply(struct log_trees *l, struct log_note *notes)
{
	struct apply a = {.l = l, .w = &l->w};
	int ret = 0;

	for (enum pass pass = PASS_INODES; !ret && pass <= PASS_GONE; pass++)
		for (struct log_note *note = notes; !ret && note; note = note->next) {
			if (!a.tree || a.tree->subvol != note->root->id)
				ret = log_tree_get(l, note->root->id, &a.tree);
			if (!ret)
				ret = apply_one(&a, note, pass);
		}
	return ret ? ret : l->error;
}
