/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/orphan.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/extent_write.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/writeback.h"

/* What goes at once with the last name; more is left to the flusher. */
#define DELETE_NOW_ITEMS 100u
#define DELETE_NOW_BYTES (4u << 20)

struct btrfs_key orphan_key(uint64_t ino)
{
	return key_make(BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM_KEY, ino);
}

int orphan_add(struct txn_handle *h, struct subvol *sv, uint64_t ino)
{
	struct btrfs_key key = orphan_key(ino);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&h->w, &sv->root, &key, 0, &path);

	if (ret == 1)
		path_insert_item(&h->w, &path, &key, 0);
	path_release(&path);
	return MIN(ret, 0);
}

int orphan_add_prepared(struct txn_handle *h, struct subvol *sv, uint64_t ino)
{
	struct btrfs_key key = orphan_key(ino);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_prepared(&h->w, &sv->root, &key, 0, &path);

	if (ret == 1)
		path_insert_item(&h->w, &path, &key, 0);
	path_release(&path);
	return MIN(ret, 0);
}

int orphan_remove(struct txn_handle *h, struct subvol *sv, uint64_t ino)
{
	struct btrfs_key key = orphan_key(ino);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&h->w, &sv->root, &key, TREE_IN_PLACE, &path);

	if (ret == 0)
		ret = path_delete_items(&h->w, &path, 1);
	path_release(&path);
	return MIN(ret, 0);
}

/* Whether all of the inode can go in the transaction that has taken its last name. */
static bool can_go_now(struct fsc_inode *inode)
{
	bool idle, small;

	short_lock(&inode->attr_lock);
	small = inode->used_bytes < DELETE_NOW_BYTES;
	short_unlock(&inode->attr_lock);
	short_lock(&inode->owner.lock);
	idle = !inode->n_writing && small;
	/* Nothing may come on its way between here and the deletion. */
	inode->is_dead |= idle;
	short_unlock(&inode->owner.lock);
	return idle;
}

int inode_delete(struct txn_handle *h, struct fsc_inode *inode)
{
	bool done = false;
	int ret = 0;

	if (can_go_now(inode)) {
		dirty_discard(inode, 0);
		ret = inode_items_delete(h, inode, DELETE_NOW_ITEMS, &done);
	}
	if (ret || done)
		return ret;
	ret = orphan_add(h, inode->subvol, inode->ino);
	if (!ret)
		inode_leave_to_flusher(h, inode);
	return ret;
}

void inode_leave_to_flusher(struct txn_handle *h, struct fsc_inode *inode)
{
	/* The item, as far as it is still there, says that there are no links. */
	inode_mark_dirty(h, inode);
	fsc_inode_ref(inode);
	flusher_delete(inode);
}

/* The next orphan after ino. 1: there is none. */
static int next_orphan(struct fsc_ctx *ctx, struct subvol *sv, uint64_t *ino)
{
	struct btrfs_key key = orphan_key(*ino + 1);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(ctx, &sv->root, &key, &path);

	if (ret < 0)
		return ret;
	ret = 1;
	if (path_is_at(&path, BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM_KEY)) {
		*ino = path_key(&path).offset;
		ret = 0;
	}
	path_release(&path);
	return ret;
}

/*
 * Reads what there is of an orphan; *dead: it has really lost its names. Old kernels used orphan
 * items for truncation, too.
 */
static int read_orphan(struct fsc_ctx *ctx, struct fsc_inode *inode, bool *dead)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_INODE_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(ctx, &inode->subvol->root, &key, &path);

	*dead = true;
	if (ret == 0) {
		const struct btrfs_inode_item *item = path_data(&path);

		inode_item_attr(inode->subvol, inode->ino, item, &inode->attr);
		inode->type = inode->attr.mode & S_IFMT;
		inode->flags = GET(item, flags);
		inode->disk_size = inode->attr.size_bytes;
		inode->used_bytes = GET(item, nbytes);
		*dead = inode->attr.nlink == 0;
	}
	path_release(&path);
	return MIN(ret, 0);
}

int orphans_resume(struct fsc_ctx *ctx, struct subvol *sv)
{
	uint64_t ino = 0;
	int ret;

	while (!(ret = next_orphan(ctx, sv, &ino))) {
		struct fsc_inode *inode = inode_alloc(sv, ino);
		bool dead = false;

		if (!inode)
			return -ENOMEM;
		ret = read_orphan(ctx, inode, &dead);
		if (ret || !dead) {
			inode_free_new(inode);
			if (ret)
				return ret;
			continue;
		}
		inode->unlinked = true;
		inode->attr.nlink = 0;
		flusher_delete(inode);
	}
	return MIN(ret, 0);
}
