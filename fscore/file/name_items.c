/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/name_items.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/dir_item.h"
#include "fscore/format/csum.h"
#include "fscore/tree/leaf.h"

static struct btrfs_key dir_item_key(const struct name_ref *n)
{
	return key_make(n->dir, BTRFS_DIR_ITEM_KEY, name_hash(n->name, n->len));
}

static struct btrfs_key dir_index_key(const struct name_ref *n)
{
	return key_make(n->dir, BTRFS_DIR_INDEX_KEY, n->index);
}

static struct btrfs_key ref_key(const struct name_ref *n)
{
	return key_make(n->ino, BTRFS_INODE_REF_KEY, n->dir);
}

static struct btrfs_key extref_key(const struct name_ref *n)
{
	return key_make(n->ino, BTRFS_INODE_EXTREF_KEY, extref_hash(n->dir, n->name, n->len));
}

void name_places(const struct name_ref *n, struct btrfs_key places[NAME_PLACES])
{
	places[0] = dir_item_key(n);
	places[1] = dir_index_key(n);
	places[2] = ref_key(n);
	places[3] = extref_key(n);
}

/* ------------------------------------------------------------- directory entries */

static void fill_dir_item(struct btrfs_dir_item *di, const struct name_ref *n, uint64_t transid)
{
	struct btrfs_key location = key_make(n->ino, BTRFS_INODE_ITEM_KEY, 0);

	key_to_disk(&location, &di->location);
	PUT(di, transid, transid);
	PUT(di, data_len, 0);
	PUT(di, name_len, n->len);
	di->type = n->type;
	memcpy(di + 1, n->name, n->len);
}

/* Adds an entry, maybe behind others of the same hash. */
static int add_entry(struct tree_writer *w, struct subvol *sv, const struct btrfs_key *key,
	const struct name_ref *n)
{
	uint32_t bytes = (uint32_t)(sizeof(struct btrfs_dir_item) + n->len);
	struct tree_path path = PATH_INIT;
	char *data;
	int ret = tree_search_prepared(w, &sv->root, key, (int)bytes, &path);

	if (ret < 0)
		return ret;
	if (ret == 1) {
		data = path_insert_item(w, &path, key, bytes);
	} else {
		uint32_t old = path_data_bytes(&path);

		data = (char *)path_resize_item(&path, old + bytes) + old;
	}
	fill_dir_item((struct btrfs_dir_item *)(void *)data, n, w->generation);
	path_release(&path);
	return 0;
}

/* Takes [at, at + n) out of the item at the path; the whole item when that is all. */
static int cut(struct tree_writer *w, struct tree_path *path, uint32_t at, uint32_t n)
{
	uint32_t bytes = path_data_bytes(path);
	char *data;

	if (n == bytes)
		return path_delete_items(w, path, 1);
	data = path_data_mut(path);
	memmove(data + at, data + at + n, bytes - at - n);
	path_resize_item(path, bytes - n);
	return 0;
}

static int remove_entry(struct tree_writer *w, struct subvol *sv, const struct btrfs_key *key,
	const struct name_ref *n)
{
	const struct btrfs_dir_item *di = NULL;
	struct tree_path path = PATH_INIT;
	int ret = tree_search_prepared(w, &sv->root, key, TREE_IN_PLACE, &path);

	if (ret < 0)
		return ret;
	if (ret == 0)
		di = dir_item_find(path_data(&path), path_data_bytes(&path), n->name, n->len);
	if (di)
		ret = cut(w, &path, (uint32_t)((const char *)di - (const char *)path_data(&path)),
			(uint32_t)(sizeof(*di) + n->len));
	else
		ret = -EUCLEAN;
	path_release(&path);
	return ret;
}

/* -------------------------------------------------------------- back references */

/* The reference with this name in an INODE_REF item, or NULL. */
static const struct btrfs_inode_ref *find_ref(
	const struct tree_path *path, const char *name, size_t len)
{
	const char *at = path_data(path), *end = at + path_data_bytes(path);

	while (at + sizeof(struct btrfs_inode_ref) <= end) {
		const struct btrfs_inode_ref *ref = (const void *)at;
		size_t n = GET(ref, name_len);

		if (n == len && !memcmp(ref + 1, name, len))
			return ref;
		at += sizeof(*ref) + n;
	}
	return NULL;
}

static const struct btrfs_inode_extref *find_extref(
	const struct tree_path *path, uint64_t dir, const char *name, size_t len)
{
	const char *at = path_data(path), *end = at + path_data_bytes(path);

	while (at + sizeof(struct btrfs_inode_extref) <= end) {
		const struct btrfs_inode_extref *ref = (const void *)at;
		size_t n = GET(ref, name_len);

		if (GET(ref, parent_objectid) == dir && n == len && !memcmp(ref->name, name, len))
			return ref;
		at += sizeof(*ref) + n;
	}
	return NULL;
}

static bool has_extref(const struct subvol *sv)
{
	return sv->vol->geo.incompat_flags & BTRFS_FEATURE_INCOMPAT_EXTENDED_IREF;
}

/* Whether an item that has `old` bytes can get `more`. */
static bool item_has_room(const struct subvol *sv, uint32_t old, size_t more)
{
	return old + more <= tree_max_item_bytes(&sv->root);
}

/* The size of the item at a prepared place; 0: there is none. */
static int item_bytes(
	struct tree_writer *w, struct subvol *sv, const struct btrfs_key *key, uint32_t *bytes)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_search_prepared(w, &sv->root, key, TREE_IN_PLACE, &path);

	*bytes = ret == 0 ? path_data_bytes(&path) : 0;
	path_release(&path);
	return MIN(ret, 0);
}

int name_check_room(struct tree_writer *w, struct subvol *sv, const struct name_ref *n)
{
	struct btrfs_key key = dir_item_key(n);
	uint32_t bytes;
	int ret = item_bytes(w, sv, &key, &bytes);

	if (ret)
		return ret;
	if (!item_has_room(sv, bytes, sizeof(struct btrfs_dir_item) + n->len))
		return -EOVERFLOW;
	key = ref_key(n);
	ret = item_bytes(w, sv, &key, &bytes);
	if (ret || item_has_room(sv, bytes, sizeof(struct btrfs_inode_ref) + n->len))
		return ret;
	if (!has_extref(sv))
		return -EMLINK;
	key = extref_key(n);
	ret = item_bytes(w, sv, &key, &bytes);
	if (!ret && !item_has_room(sv, bytes, sizeof(struct btrfs_inode_extref) + n->len))
		ret = -EOVERFLOW;
	return ret;
}

/* Room for more bytes at the end of the item at key, or a new item. */
static int append_item(struct tree_writer *w, struct subvol *sv, const struct btrfs_key *key,
	uint32_t more, struct tree_path *path, void **out)
{
	int ret = tree_search_prepared(w, &sv->root, key, (int)more, path);

	if (ret < 0)
		return ret;
	if (ret == 1) {
		*out = path_insert_item(w, path, key, more);
	} else {
		uint32_t old = path_data_bytes(path);

		*out = (char *)path_resize_item(path, old + more) + old;
	}
	return 0;
}

static int add_extref(struct tree_writer *w, struct subvol *sv, const struct name_ref *n)
{
	struct btrfs_key key = extref_key(n);
	struct tree_path path = PATH_INIT;
	struct btrfs_inode_extref *ref;
	void *data;
	int ret = append_item(w, sv, &key, (uint32_t)(sizeof(*ref) + n->len), &path, &data);

	if (ret)
		return ret;
	ref = data;
	PUT(ref, parent_objectid, n->dir);
	PUT(ref, index, n->index);
	PUT(ref, name_len, n->len);
	memcpy(ref->name, n->name, n->len);
	path_release(&path);
	return 0;
}

static int add_ref(struct tree_writer *w, struct subvol *sv, const struct name_ref *n)
{
	struct btrfs_key key = ref_key(n);
	struct tree_path path = PATH_INIT;
	struct btrfs_inode_ref *ref;
	uint32_t bytes;
	void *data;
	int ret = item_bytes(w, sv, &key, &bytes);

	if (ret)
		return ret;
	if (!item_has_room(sv, bytes, sizeof(*ref) + n->len))
		return add_extref(w, sv, n);
	ret = append_item(w, sv, &key, (uint32_t)(sizeof(*ref) + n->len), &path, &data);
	if (ret)
		return ret;
	ref = data;
	PUT(ref, index, n->index);
	PUT(ref, name_len, n->len);
	memcpy(ref + 1, n->name, n->len);
	path_release(&path);
	return 0;
}

static int remove_extref(struct tree_writer *w, struct subvol *sv, const struct name_ref *n)
{
	struct btrfs_key key = extref_key(n);
	const struct btrfs_inode_extref *ref = NULL;
	struct tree_path path = PATH_INIT;
	int ret = tree_search_prepared(w, &sv->root, &key, TREE_IN_PLACE, &path);

	if (ret == 0)
		ref = find_extref(&path, n->dir, n->name, n->len);
	if (ref)
		ret = cut(w, &path, (uint32_t)((const char *)ref - (const char *)path_data(&path)),
			(uint32_t)(sizeof(*ref) + n->len));
	else if (ret >= 0)
		ret = -EUCLEAN;
	path_release(&path);
	return ret;
}

static int remove_ref(struct tree_writer *w, struct subvol *sv, const struct name_ref *n)
{
	struct btrfs_key key = ref_key(n);
	const struct btrfs_inode_ref *ref = NULL;
	struct tree_path path = PATH_INIT;
	int ret = tree_search_prepared(w, &sv->root, &key, TREE_IN_PLACE, &path);

	if (ret == 0)
		ref = find_ref(&path, n->name, n->len);
	if (ref)
		ret = cut(w, &path, (uint32_t)((const char *)ref - (const char *)path_data(&path)),
			(uint32_t)(sizeof(*ref) + n->len));
	path_release(&path);
	if (ret < 0 || ref)
		return ret;
	return remove_extref(w, sv, n);
}

/* ------------------------------------------------------------------- both sides */

int name_add(struct tree_writer *w, struct subvol *sv, const struct name_ref *n)
{
	struct btrfs_key item = dir_item_key(n), index = dir_index_key(n);
	int ret = add_ref(w, sv, n);

	if (!ret)
		ret = add_entry(w, sv, &item, n);
	return ret ? ret : add_entry(w, sv, &index, n);
}

int name_remove(struct tree_writer *w, struct subvol *sv, const struct name_ref *n)
{
	struct btrfs_key item = dir_item_key(n), index = dir_index_key(n);
	int ret = remove_ref(w, sv, n);

	if (!ret)
		ret = remove_entry(w, sv, &item, n);
	return ret ? ret : remove_entry(w, sv, &index, n);
}

int name_find_index(
	struct fsc_ctx *ctx, struct subvol *sv, const struct name_ref *n, uint64_t *index)
{
	struct btrfs_key key = ref_key(n);
	struct tree_path path = PATH_INIT;
	bool found = false;
	int ret = tree_lookup(ctx, &sv->root, &key, &path);

	if (ret == 0) {
		const struct btrfs_inode_ref *ref = find_ref(&path, n->name, n->len);

		found = ref;
		if (ref)
			*index = GET(ref, index);
	}
	path_release(&path);
	if (ret < 0 || found)
		return MIN(ret, 0);
	key = extref_key(n);
	ret = tree_lookup(ctx, &sv->root, &key, &path);
	if (ret == 0) {
		const struct btrfs_inode_extref *ref = find_extref(&path, n->dir, n->name, n->len);

		found = ref;
		if (ref)
			*index = GET(ref, index);
	}
	path_release(&path);
	return ret < 0 ? ret : found ? 0 : -ENOENT;
}

int name_lookup(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t len,
	struct btrfs_key *location, uint8_t *type)
{
	struct btrfs_key key = key_make(dir->ino, BTRFS_DIR_ITEM_KEY, name_hash(name, len));
	const struct btrfs_dir_item *di = NULL;
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(ctx, &dir->subvol->root, &key, &path);

	if (ret < 0)
		return ret;
	if (ret == 0)
		di = dir_item_find(path_data(&path), path_data_bytes(&path), name, len);
	if (di) {
		*location = key_from_disk(&di->location);
		*type = di->type;
	}
	path_release(&path);
	return di ? 0 : -ENOENT;
}
