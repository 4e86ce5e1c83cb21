/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Replaying a log: inode items, xattrs, the number of links, orphans. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/log_replay_private.h"
#include "fscore/file/orphan.h"
#include "fscore/tree/leaf.h"

static struct btrfs_key inode_key(uint64_t ino)
{
	return key_make(ino, BTRFS_INODE_ITEM_KEY, 0);
}

int replay_read_inode(struct replay *r, uint64_t ino, struct btrfs_inode_item *out)
{
	struct btrfs_key key = inode_key(ino);
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(r->ctx, &r->sv->root, &key, &path);

	if (ret == 0)
		memcpy(out, path_data(&path), sizeof(*out));
	path_release(&path);
	return ret == 1 ? -ENOENT : ret;
}

int replay_write_inode(struct replay *r, uint64_t ino, const struct btrfs_inode_item *item)
{
	struct btrfs_key key = inode_key(ino);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&r->h.w, &r->sv->root, &key, TREE_IN_PLACE, &path);

	if (ret == 0)
		memcpy(path_data_mut(&path), item, sizeof(*item));
	path_release(&path);
	return ret == 1 ? -EUCLEAN : ret;
}

int replay_inode_exists(struct replay *r, uint64_t ino)
{
	struct btrfs_inode_item item;
	int ret = replay_read_inode(r, ino, &item);

	return ret == -ENOENT ? 0 : ret ? ret : 1;
}

int replay_dir_exists(struct replay *r, uint64_t ino)
{
	struct btrfs_inode_item item;
	int ret = replay_read_inode(r, ino, &item);

	return ret == -ENOENT ? 0 : ret ? ret : S_ISDIR(GET(&item, mode));
}

int replay_touch(struct replay *r, uint64_t ino)
{
	struct inode_numbers *t = &r->touched;

	if (t->n && t->inos[t->n - 1] == ino)
		return 0;
	if (t->n == t->max) {
		size_t max = MAX(256u, 2 * t->max);
		uint64_t *grown = reallocarray(t->inos, max, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		t->inos = grown;
		t->max = max;
	}
	t->inos[t->n++] = ino;
	return 0;
}

/* ------------------------------------------------------------------------ inode items */

/* Whether the log has an item of this key. 1: yes, 0: no. */
static int in_log(struct replay *r, const struct btrfs_key *key)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(r->ctx, r->log, key, &path);

	path_release(&path);
	return ret < 0 ? ret : !ret;
}

/* The log has all xattrs of an inode whose item it has. */
static int drop_xattrs(struct replay *r, uint64_t ino)
{
	struct btrfs_key key = key_make(ino, BTRFS_XATTR_ITEM_KEY, 0);
	int ret;

	for (;;) {
		struct tree_path path = PATH_INIT;

		ret = tree_search(r->ctx, &r->sv->root, &key, &path);
		if (ret < 0)
			return ret;
		ret = path_is_at(&path, ino, BTRFS_XATTR_ITEM_KEY) ? 0 : 1;
		if (!ret)
			key = path_key(&path);
		path_release(&path);
		if (ret)
			return 0;
		ret = in_log(r, &key);
		if (ret < 0)
			return ret;
		if (!ret) {
			ret = tree_search_modify(&r->h.w, &r->sv->root, &key, TREE_IN_PLACE, &path);
			if (ret == 0)
				ret = path_delete_items(&r->h.w, &path, 1);
			path_release(&path);
			if (ret)
				return MIN(ret, 0) ? ret : -EUCLEAN;
		}
		if (key.offset++ == UINT64_MAX)
			return 0;
	}
}

static int insert_inode(struct replay *r, uint64_t ino, const struct btrfs_inode_item *logged)
{
	struct btrfs_inode_item item = *logged;
	struct btrfs_key key = inode_key(ino);

	/* Extents and names bring what they take. */
	PUT(&item, nbytes, 0);
	if (S_ISDIR(GET(&item, mode)))
		PUT(&item, size, 0);
	if (!GET(&item, generation))
		PUT(&item, generation, r->h.txn->id);
	return replay_put_item(r, &key, &item, (uint32_t)sizeof(item));
}

static int change_inode(struct replay *r, uint64_t ino, const struct btrfs_inode_item *logged,
	const struct btrfs_inode_item *old)
{
	struct btrfs_inode_item item = *logged;
	uint32_t mode = GET(logged, mode);

	if ((mode & S_IFMT) != (GET(old, mode) & S_IFMT))
		return -EUCLEAN;
	if (!GET(logged, generation)) {
		/* It exists; of a file, the size may be known. */
		if (!S_ISREG(mode) || !GET(logged, size))
			return 0;
		item = *old;
		PUT(&item, size, GET(logged, size));
		return replay_write_inode(r, ino, &item);
	}
	PUT(&item, nbytes, GET(old, nbytes));
	if (S_ISDIR(mode))
		PUT(&item, size, GET(old, size));
	return replay_write_inode(r, ino, &item);
}

/* What lies behind the end goes, before extents of the log come: those there are wanted. */
static int cut_tail(struct replay *r, uint64_t ino)
{
	uint32_t sector_bytes = r->vol->geo.sector_bytes;
	struct btrfs_inode_item item;
	uint64_t dropped = 0;
	int ret = replay_read_inode(r, ino, &item);

	if (!ret)
		ret = replay_drop_extents(r, ino, align_up(GET(&item, size), sector_bytes),
			UINT64_MAX - sector_bytes + 1, &dropped);
	if (ret || !dropped)
		return ret;
	PUT(&item, nbytes, GET(&item, nbytes) - MIN(dropped, GET(&item, nbytes)));
	return replay_write_inode(r, ino, &item);
}

int replay_inode(struct replay *r, uint64_t ino, const struct btrfs_inode_item *logged)
{
	struct btrfs_inode_item old;
	uint32_t mode = GET(logged, mode);
	int ret = drop_xattrs(r, ino);

	if (!ret && S_ISDIR(mode))
		ret = replay_dir_deletes(r, ino, false);
	if (ret)
		return ret;
	ret = replay_read_inode(r, ino, &old);
	if (ret == -ENOENT)
		ret = insert_inode(r, ino, logged);
	else if (!ret)
		ret = change_inode(r, ino, logged, &old);
	if (!ret && S_ISREG(mode))
		ret = cut_tail(r, ino);
	return ret ? ret : replay_touch(r, ino);
}

/* ------------------------------------------------------------------------------- links */

/* How many names the subvolume has for an inode. */
static int count_refs(struct replay *r, uint64_t ino, uint64_t *n)
{
	struct btrfs_key key = key_make(ino, BTRFS_INODE_REF_KEY, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(r->ctx, &r->sv->root, &key, &path);

	*n = 0;
	while (ret >= 0 &&
		(path_is_at(&path, ino, BTRFS_INODE_REF_KEY) ||
			path_is_at(&path, ino, BTRFS_INODE_EXTREF_KEY))) {
		struct btrfs_key at = path_key(&path);
		struct ref_entry e;
		uint32_t pos = 0;

		while (ref_entry_next(&at, path_data(&path), path_data_bytes(&path), &pos, &e))
			++*n;
		ret = tree_next(r->ctx, &path);
	}
	path_release(&path);
	return MIN(ret, 0);
}

static int fix_link(struct replay *r, uint64_t ino)
{
	struct btrfs_inode_item item;
	uint64_t n;
	int ret = replay_make_room(r);

	if (!ret)
		ret = replay_read_inode(r, ino, &item);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	ret = count_refs(r, ino, &n);
	if (ret)
		return ret;
	if (S_ISDIR(GET(&item, mode)) && n > 1)
		return -EUCLEAN;
	if (S_ISREG(GET(&item, mode)))
		ret = replay_fill_holes(r, ino, GET(&item, size));
	if (!ret && GET(&item, nlink) != n) {
		PUT(&item, nlink, (uint32_t)n);
		ret = replay_write_inode(r, ino, &item);
	}
	if (ret || n)
		return ret ? ret : orphan_remove(&r->h, r->sv, ino);
	if (S_ISDIR(GET(&item, mode)))
		ret = replay_dir_deletes(r, ino, true);
	return ret ? ret : orphan_add(&r->h, r->sv, ino);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* A directory without a name loses its entries, whose inodes are then to be looked at. */
int replay_fix_links(struct replay *r)
{
	int ret = 0;

	while (!ret && r->touched.n) {
		struct inode_numbers now = r->touched;

		r->touched = (struct inode_numbers){.inos = NULL};
		qsort(now.inos, now.n, sizeof(*now.inos), by_number);
		for (size_t i = 0; !ret && i < now.n; i++)
			if (!i || now.inos[i] != now.inos[i - 1])
				ret = fix_link(r, now.inos[i]);
		free(now.inos);
	}
	return ret;
}
