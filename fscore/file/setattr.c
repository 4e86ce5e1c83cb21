/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fsc_setattr() of fscore.h, and with it both directions of truncation. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/extent_write.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/log_note.h"
#include "fscore/file/writeback.h"
#include "fscore/file/xattr.h"

#define FILE_SIZE_MAX  ((uint64_t)INT64_MAX)
#define TRUNCATE_ITEMS 500u /* in one transaction */
#define DROP_ITEMS     8u   /* what the changes of one such batch may need */
#define GROW_ITEMS     4u

/*
 * Metadata that is promised before anything changes: so that a change of size is not refused when
 * it has been made.
 */
struct promises {
	uint64_t size_bytes, attrs_bytes;
};

/* ------------------------------------------------------------------- truncation */

/*
 * Makes the page in which the file ends (or will end) a new, dirty one, with zeros behind `size`:
 * so that what was there does not come back when the file grows, and an inline extent is written
 * anew.
 */
static int rewrite_edge(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t size)
{
	struct page_pool *pool = &inode->subvol->vol->pages;
	uint64_t at = size >> pool->page_shift;
	size_t keep = size & (pool->page_bytes - 1);
	struct fsc_read rd = {.file_off = at << pool->page_shift, .len_bytes = keep};
	struct page *page;
	size_t done = 0;
	char *data;
	int ret = dirty_reserve(ctx, inode->subvol->vol, pool->page_bytes, TXN_USE_GLOBAL);

	if (ret)
		return ret;
	while (!page_pool_take(pool, 1, &page, true))
		page_pool_wait_sync(ctx, pool);
	data = page_data(pool, page);
	memset(data, 0, pool->page_bytes);
	ret = fsc_read(ctx, inode, &rd);
	for (unsigned k = 0; !ret && k < rd.n_iov; k++) {
		memcpy(data + done, rd.iov[k].iov_base, rd.iov[k].iov_len);
		done += rd.iov[k].iov_len;
	}
	fsc_read_release(&rd);
	if (!ret)
		ret = pages_replace(inode, at, 1, &page, false);
	if (ret) {
		page_pool_put(pool, 1, &page);
		dirty_unreserve(inode->subvol->vol, pool->page_bytes);
		return ret;
	}
	flusher_note(inode, false);
	return 0;
}

static void set_size(struct fsc_inode *inode, uint64_t size)
{
	short_lock(&inode->attr_lock);
	if (size < inode->attr.size_bytes)
		inode->cut_seq++;
	inode->attr.size_bytes = size;
	short_unlock(&inode->attr_lock);
}

/* In h's transaction, the size on disk is this one. */
static void set_disk_size(
	struct txn_handle *h, struct fsc_inode *inode, uint64_t size, uint64_t dropped)
{
	short_lock(&inode->attr_lock);
	inode->disk_size = size;
	inode->used_bytes -= dropped;
	inode->attr.used_bytes = align_up(inode->used_bytes, inode->subvol->vol->geo.sector_bytes);
	short_unlock(&inode->attr_lock);
	inode_mark_dirty(h, inode);
}

/* Without no-holes, what lies between the old end on disk and a new one behind it is an item. */
static int insert_grown_hole(struct txn_handle *h, struct fsc_inode *inode, uint64_t size)
{
	const struct volume_geometry *geo = &inode->subvol->vol->geo;
	uint64_t from, to = align_up(size, geo->sector_bytes);

	if (geo->incompat_flags & BTRFS_FEATURE_INCOMPAT_NO_HOLES)
		return 0;
	short_lock(&inode->attr_lock);
	from = align_up(inode->disk_size, geo->sector_bytes);
	short_unlock(&inode->attr_lock);
	return extents_fill_holes(h, inode, from, to);
}

/* For the next batch: as much as for the first, or what is left of that; it needs far less. */
static void top_up(struct fsc_volume *vol, struct promises *p)
{
	uint64_t full = space_items_bytes(&vol->w->space, DROP_ITEMS);

	if (p->size_bytes < full &&
		!space_reserve(&vol->w->space, SPACE_METADATA, full - p->size_bytes, true))
		p->size_bytes = full;
}

/* Drops what lies behind the new end, in as many transactions as it takes. */
static int drop_behind(
	struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t size, struct promises *p)
{
	struct fsc_volume *vol = inode->subvol->vol;
	uint64_t start = align_up(size, vol->geo.sector_bytes);
	bool done = false;

	while (!done) {
		uint64_t dropped = 0, left_end;
		struct txn_handle h;
		int ret = txn_join_reserved(ctx, &vol->w->txns, p->size_bytes, &h);

		p->size_bytes = 0;
		if (ret)
			return ret;
		/* What is gone behind a place the log can't say: the file might grow again. */
		log_forbid(&h);
		ret = extents_drop(&h, inode, start, UINT64_MAX - vol->geo.sector_bytes + 1,
			TRUNCATE_ITEMS, &dropped, &left_end, &done);
		/* The new end may still lie behind all that has been written. */
		if (!ret && done)
			ret = insert_grown_hole(&h, inode, size);
		if (ret) {
			txn_abort(&h, ret);
			return -EIO;
		}
		/*
		 * After each batch the end on disk is where what is still there ends: without
		 * no-holes, a file has items for all that is before it.
		 */
		set_disk_size(&h, inode, done ? size : MIN(inode->disk_size, left_end), dropped);
		p->size_bytes = txn_end_keeping(&h);
		txn_throttle_wait(ctx, &vol->w->txns);
		top_up(vol, p);
	}
	return 0;
}

/*
 * What the trees still have behind the new end stays the file's. What was not there yet has been
 * discarded: that is lost, and said.
 */
static void shrink_failed(struct fsc_inode *inode, bool lost, int error)
{
	short_lock(&inode->attr_lock);
	inode->attr.size_bytes = MAX(inode->attr.size_bytes, inode->disk_size);
	short_unlock(&inode->attr_lock);
	if (!lost)
		return;
	short_lock(&inode->owner.lock);
	if (!inode->write_error)
		inode->write_error = error;
	short_unlock(&inode->owner.lock);
	data_lost(inode->subvol->vol, error);
}

static int shrink(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t size, struct promises *p)
{
	struct page_pool *pool = &inode->subvol->vol->pages;
	uint64_t from = (size + pool->page_bytes - 1) >> pool->page_shift;
	bool discarded;
	int ret = 0;

	if (size & (pool->page_bytes - 1))
		ret = rewrite_edge(ctx, inode, size);
	if (ret)
		return ret;
	set_size(inode, size);
	discarded = dirty_discard(inode, from);
	/*
	 * The zeros behind the new end, too, are in the trees before it moves there: else, after a
	 * crash, the file could grow again over what was there before.
	 */
	flush_to_trees(ctx, inode);
	pages_drop(inode, from);
	ret = drop_behind(ctx, inode, size, p);
	/* What a read that began with the old size has put there meanwhile. */
	pages_drop(inode, from);
	if (ret)
		shrink_failed(inode, discarded, ret);
	return ret;
}

static int grow(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t old, uint64_t size,
	struct promises *p)
{
	struct fsc_volume *vol = inode->subvol->vol;
	struct txn_handle h;
	int ret = 0;

	/* An inline extent is the whole file: it becomes another one, or a regular one. */
	if (old && old < vol->geo.sector_bytes)
		ret = rewrite_edge(ctx, inode, old);
	/* What is dirty ends before the old end: it must be in the trees before the new one is. */
	if (!ret)
		flush_to_trees(ctx, inode);
	if (ret)
		return ret;
	ret = txn_join_reserved(ctx, &vol->w->txns, p->size_bytes, &h);
	p->size_bytes = 0;
	if (ret)
		return ret;
	ret = insert_grown_hole(&h, inode, size);
	if (ret) {
		txn_abort(&h, ret);
		return -EIO;
	}
	set_size(inode, size);
	set_disk_size(&h, inode, size, 0);
	txn_end(&h);
	return 0;
}

static int change_size(
	struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t size, struct promises *p)
{
	struct txns *txns = &inode->subvol->vol->w->txns;
	uint64_t old = inode_size(inode);
	int ret;

	if (size < old) {
		ret = txn_reserve(ctx, txns, DROP_ITEMS, TXN_USE_GLOBAL, &p->size_bytes);
		return ret ? ret : shrink(ctx, inode, size, p);
	}
	if (size > old) {
		ret = txn_reserve(ctx, txns, GROW_ITEMS, 0, &p->size_bytes);
		return ret ? ret : grow(ctx, inode, old, size, p);
	}
	/* The size that it has is the size that it keeps, also after a crash. */
	flush_to_trees(ctx, inode);
	return 0;
}

/* ------------------------------------------------------------------- attributes */

static void set_attrs_locked(
	struct fsc_inode *inode, const struct fsc_setattr *set, struct fsc_time now)
{
	struct fsc_attr *a = &inode->attr;

	inode_changed_locked(inode, now);
	if (set->mask & FSC_SET_MODE)
		a->mode = (a->mode & S_IFMT) | (set->mode & 07777);
	if (set->mask & FSC_SET_UID)
		a->uid = set->uid;
	if (set->mask & FSC_SET_GID)
		a->gid = set->gid;
	if (set->mask & FSC_SET_ATIME)
		a->atime = set->atime;
	if (set->mask & FSC_SET_MTIME)
		a->mtime = set->mtime;
	if (set->mask & FSC_SET_ATIME_NOW)
		a->atime = a->ctime;
	if (set->mask & (FSC_SET_MTIME_NOW | FSC_SET_SIZE) && !(set->mask & FSC_SET_MTIME))
		a->mtime = a->ctime;
}

static int check_setattr(struct fsc_inode *inode, const struct fsc_setattr *set)
{
	int ret = inode_check_writable(inode);

	if (ret || !(set->mask & FSC_SET_SIZE))
		return ret;
	if (S_ISDIR(inode->type))
		return -EISDIR;
	if (!S_ISREG(inode->type))
		return -EINVAL;
	return set->size_bytes > FILE_SIZE_MAX ? -EFBIG : 0;
}

/* -ESTALE, -EREMCHG: what was asked for does not fit what there is. */
static int check_state(struct fsc_inode *inode, const struct fsc_setattr *set)
{
	int ret = 0;

	short_lock(&inode->attr_lock);
	if (inode->unlinked)
		ret = -ESTALE;
	else if (set->has_guard &&
		(set->guard.sec != inode->attr.ctime.sec ||
			set->guard.nsec != inode->attr.ctime.nsec))
		ret = -EREMCHG;
	short_unlock(&inode->attr_lock);
	return ret;
}

static int setattr_locked(struct fsc_ctx *ctx, struct fsc_inode *inode,
	const struct fsc_setattr *set, struct promises *p)
{
	struct txns *txns = &inode->subvol->vol->w->txns;
	unsigned flags = set->mask & FSC_SET_SIZE ? TXN_USE_GLOBAL : 0;
	struct txn_handle h;
	bool has_verifier = false;
	int ret = check_state(inode, set);

	if (!ret && S_ISREG(inode->type))
		ret = verifier_exists(ctx, inode, &has_verifier);
	if (!ret && has_verifier && (ctx->flags & FSC_NOWAIT)) {
		ctx->blocked = FSC_BLOCKED_TXN;
		ret = -EAGAIN;
	}
	if (!ret)
		ret = txn_reserve(ctx, txns, 2, flags, &p->attrs_bytes);
	if (!ret && (set->mask & FSC_SET_SIZE))
		ret = change_size(ctx, inode, set->size_bytes, p);
	if (ret)
		return ret;
	ret = txn_join_reserved(ctx, txns, p->attrs_bytes, &h);
	p->attrs_bytes = 0;
	if (ret)
		return ret;
	if (has_verifier) {
		ret = verifier_drop(&h, inode);
		log_xattrs(&h, inode);
	}
	short_lock(&inode->attr_lock);
	set_attrs_locked(inode, set, time_now());
	short_unlock(&inode->attr_lock);
	inode_mark_dirty(&h, inode);
	if (ret)
		txn_abort(&h, ret);
	else
		txn_end(&h);
	return ret;
}

int fsc_setattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct fsc_setattr *set)
{
	struct promises p = {0};
	int ret = check_setattr(inode, set);

	if (!ret && (set->mask & FSC_SET_SIZE) && (ctx->flags & FSC_NOWAIT)) {
		ctx->blocked = FSC_BLOCKED_TXN;
		ret = -EAGAIN;
	}
	if (!ret)
		ret = inode_lock(ctx, inode);
	if (ret)
		return ret;
	ret = setattr_locked(ctx, inode, set, &p);
	inode_unlock(inode);
	if (p.size_bytes || p.attrs_bytes)
		txn_unreserve(&inode->subvol->vol->w->txns, p.size_bytes + p.attrs_bytes);
	return ret;
}
