/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Replaying a log: entries of directories, and the references of inodes to them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/dir_item.h"
#include "fscore/file/log_replay_private.h"
#include "fscore/format/csum.h"
#include "fscore/tree/leaf.h"

/* A name in a directory of the subvolume, copied out of the tree. */
struct entry {
	char name[BTRFS_NAME_LEN];
	size_t len;
	uint64_t index;
	struct btrfs_key location;
};

bool ref_entry_next(const struct btrfs_key *key, const void *data, uint32_t bytes, uint32_t *pos,
	struct ref_entry *out)
{
	const char *at = (const char *)data + *pos;

	if (*pos >= bytes)
		return false;
	if (key->type == BTRFS_INODE_REF_KEY) {
		const struct btrfs_inode_ref *ref = (const void *)at;

		*out = (struct ref_entry){.dir = key->offset,
			.index = GET(ref, index),
			.name = (const char *)(ref + 1),
			.len = GET(ref, name_len)};
		*pos += (uint32_t)(sizeof(*ref) + out->len);
	} else {
		const struct btrfs_inode_extref *ref = (const void *)at;

		*out = (struct ref_entry){.dir = GET(ref, parent_objectid),
			.index = GET(ref, index),
			.name = (const char *)ref->name,
			.len = GET(ref, name_len)};
		*pos += (uint32_t)(sizeof(*ref) + out->len);
	}
	return true;
}

static bool is_name(const char *name, size_t len)
{
	return len && len <= BTRFS_NAME_LEN && !memchr(name, '/', len) &&
		!memchr(name, '\0', len) &&
		!(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

/* --------------------------------------------------------------------- the subvolume */

static uint8_t type_of_mode(uint32_t mode)
{
	static const uint8_t types[16] = {
		[S_IFREG >> 12] = BTRFS_FT_REG_FILE,
		[S_IFDIR >> 12] = BTRFS_FT_DIR,
		[S_IFLNK >> 12] = BTRFS_FT_SYMLINK,
		[S_IFCHR >> 12] = BTRFS_FT_CHRDEV,
		[S_IFBLK >> 12] = BTRFS_FT_BLKDEV,
		[S_IFIFO >> 12] = BTRFS_FT_FIFO,
		[S_IFSOCK >> 12] = BTRFS_FT_SOCK,
	};

	return types[(mode & S_IFMT) >> 12];
}

/* The first entry of a directory at an index or behind it. 1: there is none. */
static int next_entry(struct replay *r, uint64_t dir, uint64_t index, struct entry *out)
{
	struct btrfs_key key = key_make(dir, BTRFS_DIR_INDEX_KEY, index);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(r->ctx, &r->sv->root, &key, &path);

	if (ret < 0)
		return ret;
	ret = 1;
	if (path_is_at(&path, dir, BTRFS_DIR_INDEX_KEY)) {
		const struct btrfs_dir_item *di = path_data(&path);

		out->len = GET(di, name_len);
		memcpy(out->name, dir_item_name(di), out->len);
		out->index = path_key(&path).offset;
		out->location = key_from_disk(&di->location);
		ret = 0;
	}
	path_release(&path);
	return ret;
}

/* What a name in a directory leads to. 1: there is no such name. */
static int find_name(
	struct replay *r, uint64_t dir, const char *name, size_t len, struct entry *out)
{
	struct btrfs_key key = key_make(dir, BTRFS_DIR_ITEM_KEY, name_hash(name, len));
	const struct btrfs_dir_item *di = NULL;
	struct name_ref ref = {.dir = dir, .name = name, .len = len};
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(r->ctx, &r->sv->root, &key, &path);

	if (ret == 0)
		di = dir_item_find(path_data(&path), path_data_bytes(&path), name, len);
	if (di)
		out->location = key_from_disk(&di->location);
	path_release(&path);
	if (ret < 0 || !di)
		return ret < 0 ? ret : 1;
	memcpy(out->name, name, len);
	out->len = len;
	out->index = 0;
	if (out->location.type != BTRFS_INODE_ITEM_KEY)
		return 0;
	ref.ino = out->location.objectid;
	ret = name_find_index(r->ctx, r->sv, &ref, &out->index);
	return ret == -ENOENT ? -EUCLEAN : ret;
}

/* A directory's size is twice the sum of its names' lengths. */
static int change_dir_size(struct replay *r, uint64_t dir, int64_t by)
{
	struct btrfs_inode_item item;
	int ret = replay_read_inode(r, dir, &item);

	if (ret)
		return ret == -ENOENT ? -EUCLEAN : ret;
	PUT(&item, size, (uint64_t)((int64_t)GET(&item, size) + by));
	return replay_write_inode(r, dir, &item);
}

static int change_name(struct replay *r, const struct name_ref *n, bool add)
{
	struct btrfs_key places[NAME_PLACES];
	struct tree_root *root = &r->sv->root;
	int ret;

	name_places(n, places);
	ret = replay_make_room(r);
	if (!ret)
		ret = tree_prepare(&r->h.w, root, places, NAME_PLACES);
	if (ret)
		return ret;
	ret = add ? name_check_room(&r->h.w, r->sv, n) : 0;
	if (!ret)
		ret = add ? name_add(&r->h.w, r->sv, n) : name_remove(&r->h.w, r->sv, n);
	tree_unlock_write(root);
	if (!ret)
		ret = change_dir_size(r, n->dir, (add ? 2 : -2) * (int64_t)n->len);
	return ret ? ret : replay_touch(r, n->ino);
}

/* Names of subvolumes stay: what changes them is never in a log. */
static int drop_entry(struct replay *r, uint64_t dir, const struct entry *e)
{
	struct name_ref n = {.dir = dir,
		.name = e->name,
		.len = e->len,
		.ino = e->location.objectid,
		.index = e->index};

	return e->location.type == BTRFS_INODE_ITEM_KEY ? change_name(r, &n, false) : 0;
}

/* The name is free, or it can't be there for a subvolume that is: then nothing happens. */
static int add_entry(struct replay *r, uint64_t dir, const struct entry *e)
{
	struct name_ref n = {.dir = dir,
		.name = e->name,
		.len = e->len,
		.ino = e->location.objectid,
		.index = e->index};
	struct btrfs_inode_item item;
	int ret = replay_read_inode(r, n.ino, &item);

	if (ret)
		return ret == -ENOENT ? 0 : ret;
	n.type = type_of_mode(GET(&item, mode));
	return change_name(r, &n, true);
}

/* Whether the directory has exactly this entry. 1: yes, 0: no. */
static int has_entry(struct replay *r, uint64_t dir, const struct entry *e)
{
	struct entry there;
	int ret = find_name(r, dir, e->name, e->len, &there);

	if (ret)
		return MIN(ret, 0);
	return !key_cmp(&there.location, &e->location) && there.index == e->index;
}

/* Drops what has the entry's name, or its index. */
static int drop_conflicts(struct replay *r, uint64_t dir, const struct entry *e)
{
	struct entry there;
	int ret = find_name(r, dir, e->name, e->len, &there);

	if (!ret && there.location.type != BTRFS_INODE_ITEM_KEY)
		return -EUCLEAN;
	if (!ret)
		ret = drop_entry(r, dir, &there);
	if (ret < 0)
		return ret;
	ret = next_entry(r, dir, e->index, &there);
	if (ret || there.index != e->index)
		return MIN(ret, 0);
	return there.location.type == BTRFS_INODE_ITEM_KEY ? drop_entry(r, dir, &there) : -EUCLEAN;
}

/* ------------------------------------------------------------------- what the log has */

/* Whether the log's directory has this entry. 1: yes, 0: no. */
static int in_log(struct replay *r, uint64_t dir, const struct entry *e)
{
	struct btrfs_key key = key_make(dir, BTRFS_DIR_INDEX_KEY, e->index);
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(r->ctx, r->log, &key, &path);

	if (ret == 0)
		ret = dir_item_find(path_data(&path), path_data_bytes(&path), e->name, e->len) !=
			NULL;
	else if (ret == 1)
		ret = 0;
	path_release(&path);
	return ret;
}

static int has_ref(
	struct replay *r, const struct btrfs_key *key, uint64_t dir, const char *name, size_t len)
{
	struct tree_path path = PATH_INIT;
	struct ref_entry e;
	uint32_t pos = 0;
	bool found = false;
	int ret = tree_lookup(r->ctx, r->log, key, &path);

	while (ret == 0 && !found &&
		ref_entry_next(key, path_data(&path), path_data_bytes(&path), &pos, &e))
		found = e.dir == dir && e.len == len && !memcmp(e.name, name, len);
	path_release(&path);
	return ret < 0 ? ret : found;
}

/* Whether the log has this reference of the inode. 1: yes, 0: no. */
static int ref_in_log(struct replay *r, uint64_t ino, uint64_t dir, const char *name, size_t len)
{
	struct btrfs_key key = key_make(ino, BTRFS_INODE_REF_KEY, dir);
	int ret = has_ref(r, &key, dir, name, len);

	if (ret)
		return ret;
	key = key_make(ino, BTRFS_INODE_EXTREF_KEY, extref_hash(dir, name, len));
	return has_ref(r, &key, dir, name, len);
}

/* ------------------------------------------------------------------------ directories */

/* Drops what the log lacks of the entries from one index to another. */
static int delete_range(struct replay *r, uint64_t dir, uint64_t first, uint64_t last, bool all)
{
	struct entry e;
	int ret;

	while (first <= last && !(ret = next_entry(r, dir, first, &e))) {
		int keep = 0;

		if (e.index > last)
			return 0;
		if (!all)
			keep = in_log(r, dir, &e);
		if (keep < 0)
			return keep;
		ret = keep ? 0 : drop_entry(r, dir, &e);
		if (ret)
			return ret;
		/* Indexes are below 2^62. */
		first = e.index + 1;
	}
	return first > last ? 0 : MIN(ret, 0);
}

/* The next range of a directory in the log. 1: there is none. */
static int next_range(struct replay *r, struct btrfs_key *key, uint64_t *end)
{
	struct tree_path path = PATH_INIT;
	uint64_t dir = key->objectid;
	int ret = tree_search(r->ctx, r->log, key, &path);

	if (ret < 0)
		return ret;
	ret = 1;
	if (path_is_at(&path, dir, BTRFS_DIR_LOG_INDEX_KEY)) {
		*key = path_key(&path);
		*end = GET((const struct btrfs_dir_log_item *)path_data(&path), end);
		ret = 0;
	}
	path_release(&path);
	return ret;
}

int replay_dir_deletes(struct replay *r, uint64_t dir, bool all)
{
	struct btrfs_key key = key_make(dir, BTRFS_DIR_LOG_INDEX_KEY, 0);
	uint64_t end;
	int ret;

	if (all)
		return delete_range(r, dir, 0, UINT64_MAX - 1, true);
	while (!(ret = next_range(r, &key, &end))) {
		ret = delete_range(r, dir, key.offset, MIN(end, UINT64_MAX - 1), false);
		if (ret)
			return ret;
		if (key.offset++ == UINT64_MAX)
			return 0;
	}
	return MIN(ret, 0);
}

static int replay_entry(struct replay *r, uint64_t dir, const struct entry *e)
{
	/* An inode that is not there yet never comes: an entry for it is of no use. */
	int ret = replay_inode_exists(r, e->location.objectid);

	if (ret <= 0)
		return ret;
	ret = has_entry(r, dir, e);
	if (ret)
		return MIN(ret, 0);
	ret = drop_conflicts(r, dir, e);
	if (ret)
		return ret;
	/* With its reference, it comes when that is replayed. */
	ret = ref_in_log(r, e->location.objectid, dir, e->name, e->len);
	if (ret)
		return MIN(ret, 0);
	return add_entry(r, dir, e);
}

int replay_dir_index(
	struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	const struct btrfs_dir_item *di = data;
	struct entry e = {.index = key->offset};
	int ret = replay_dir_exists(r, key->objectid);

	if (ret <= 0)
		return ret;
	for (; di; di = dir_item_next(data, bytes, di)) {
		e.location = key_from_disk(&di->location);
		e.len = GET(di, name_len);
		memcpy(e.name, dir_item_name(di), e.len);
		if (e.location.type != BTRFS_INODE_ITEM_KEY)
			continue;
		ret = replay_entry(r, key->objectid, &e);
		if (ret)
			return ret;
	}
	return 0;
}

/* -------------------------------------------------------------------------- references */

/* Drops the names that the subvolume's item of this key has and the log lacks. */
static int drop_old_refs(struct replay *r, const struct btrfs_key *key)
{
	struct tree_path path = PATH_INIT;
	struct ref_entry e;
	uint32_t pos = 0, bytes;
	void *copy;
	int ret = tree_lookup(r->ctx, &r->sv->root, key, &path);

	bytes = ret == 0 ? path_data_bytes(&path) : 0;
	copy = malloc(bytes ? bytes : 1);
	if (bytes && copy)
		memcpy(copy, path_data(&path), bytes);
	path_release(&path);
	if (!copy)
		return -ENOMEM;
	ret = MIN(ret, 0);
	while (!ret && ref_entry_next(key, copy, bytes, &pos, &e)) {
		struct entry old = {.len = e.len,
			.index = e.index,
			.location = key_make(key->objectid, BTRFS_INODE_ITEM_KEY, 0)};

		ret = ref_in_log(r, key->objectid, e.dir, e.name, e.len);
		memcpy(old.name, e.name, e.len);
		if (ret == 0)
			ret = drop_entry(r, e.dir, &old);
		else
			ret = MIN(ret, 0);
	}
	free(copy);
	return ret;
}

static int replay_ref(struct replay *r, uint64_t ino, const struct ref_entry *ref)
{
	struct entry e = {.len = ref->len,
		.index = ref->index,
		.location = key_make(ino, BTRFS_INODE_ITEM_KEY, 0)};
	int ret;

	if (!is_name(ref->name, ref->len))
		return -EUCLEAN;
	memcpy(e.name, ref->name, ref->len);
	/* Its directory may have gone. */
	ret = replay_dir_exists(r, ref->dir);
	if (ret <= 0)
		return ret;
	ret = has_entry(r, ref->dir, &e);
	if (ret)
		return MIN(ret, 0);
	ret = drop_conflicts(r, ref->dir, &e);
	return ret ? ret : add_entry(r, ref->dir, &e);
}

int replay_refs(struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	struct ref_entry e;
	uint32_t pos = 0;
	/* The root's own reference, to itself, is no name. */
	int ret = key->objectid == r->sv->root_dirid ? 1 : drop_old_refs(r, key);

	if (ret)
		return MIN(ret, 0);
	while (!ret && ref_entry_next(key, data, bytes, &pos, &e))
		ret = replay_ref(r, key->objectid, &e);
	return ret ? ret : replay_touch(r, key->objectid);
}
