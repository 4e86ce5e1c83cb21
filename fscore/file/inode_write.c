/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/inode_write.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "fscore/file/log_note.h"
#include "fscore/tree/leaf.h"

int inode_check_writable(const struct fsc_inode *inode)
{
	if (!fs_writable(inode->subvol->vol) || inode->ino == FSC_INO_STUB)
		return -EROFS;
	return inode->subvol->flags & BTRFS_ROOT_SUBVOL_RDONLY ? -EROFS : 0;
}

int inode_lock(struct fsc_ctx *ctx, struct fsc_inode *inode)
{
	if (!(ctx->flags & FSC_NOWAIT)) {
		long_lock_write(&inode->op_lock);
		return 0;
	}
	if (long_trylock_write(&inode->op_lock))
		return 0;
	ctx->blocked = FSC_BLOCKED_LOCK;
	return -EAGAIN;
}

void inode_unlock(struct fsc_inode *inode)
{
	long_unlock(&inode->op_lock);
}

bool inode_is_unlinked(struct fsc_inode *inode)
{
	bool unlinked;

	short_lock(&inode->attr_lock);
	unlinked = inode->unlinked;
	short_unlock(&inode->attr_lock);
	return unlinked;
}

struct fsc_time time_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (struct fsc_time){ts.tv_sec, (uint32_t)ts.tv_nsec};
}

static bool is_later(const struct fsc_time *a, const struct fsc_time *b)
{
	return a->sec > b->sec || (a->sec == b->sec && a->nsec > b->nsec);
}

void inode_changed_locked(struct fsc_inode *inode, struct fsc_time now)
{
	struct fsc_time *ctime = &inode->attr.ctime;

	inode->attr.change++;
	if (is_later(&now, ctime)) {
		*ctime = now;
		return;
	}
	/* Two changes in one tick of the clock, or a clock that was set back. */
	if (++ctime->nsec == 1000000000u) {
		ctime->nsec = 0;
		ctime->sec++;
	}
}

void inode_mark_dirty(struct txn_handle *h, struct fsc_inode *inode)
{
	struct fs_writing *w = inode->subvol->vol->w;

	short_lock(&inode->attr_lock);
	inode->last_txn = h->txn->id;
	short_unlock(&inode->attr_lock);
	short_lock(&w->lock);
	if (!inode->is_dirty) {
		inode->is_dirty = true;
		fsc_inode_ref(inode);
		TAILQ_INSERT_TAIL(&w->dirty_inodes, inode, dirty_link);
		atomic_fetch_add_explicit(&w->txns.owed_blocks, 1, memory_order_relaxed);
	}
	short_unlock(&w->lock);
	log_inode(h, inode, 0);
}

static struct fsc_inode *pop_dirty(struct fs_writing *w)
{
	struct fsc_inode *inode;

	short_lock(&w->lock);
	inode = TAILQ_FIRST(&w->dirty_inodes);
	if (inode) {
		TAILQ_REMOVE(&w->dirty_inodes, inode, dirty_link);
		atomic_fetch_sub_explicit(&w->txns.owed_blocks, 1, memory_order_relaxed);
		inode->is_dirty = false;
	}
	short_unlock(&w->lock);
	return inode;
}

/* An inode that is gone has no item any more. */
static int write_item(struct tree_writer *w, struct fsc_inode *inode)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_INODE_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(w, &inode->subvol->root, &key, TREE_IN_PLACE, &path);

	if (ret == 0) {
		struct btrfs_inode_item *item = path_data_mut(&path);

		short_lock(&inode->attr_lock);
		inode_to_item(inode, w->generation, item);
		short_unlock(&inode->attr_lock);
	}
	path_release(&path);
	return MIN(ret, 0);
}

int inode_write_dirty(void *arg, struct tree_writer *w)
{
	struct fsc_volume *vol = arg;
	struct fsc_inode *inode;
	int ret = 0;

	while (!ret && (inode = pop_dirty(vol->w))) {
		ret = write_item(w, inode);
		fsc_inode_put(inode);
	}
	return ret;
}

int inode_new_number(struct fsc_ctx *ctx, struct subvol *sv, uint64_t *ino)
{
	struct btrfs_key key = key_make(BTRFS_LAST_FREE_OBJECTID, UINT8_MAX, UINT64_MAX);
	struct tree_path path = PATH_INIT;
	uint64_t next = atomic_load(&sv->next_ino), none = 0;

	if (!next) {
		int ret = tree_search_before(ctx, &sv->root, &key, &path);

		if (ret < 0)
			return ret == -ENOENT ? -EUCLEAN : ret;
		next = MAX(path_key(&path).objectid, BTRFS_FIRST_FREE_OBJECTID) + 1;
		path_release(&path);
		atomic_compare_exchange_strong(&sv->next_ino, &none, next);
	}
	*ino = atomic_fetch_add(&sv->next_ino, 1);
	return *ino > BTRFS_LAST_FREE_OBJECTID ? -ENOSPC : 0;
}
