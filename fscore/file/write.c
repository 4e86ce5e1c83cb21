/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsc_write() of fscore.h: copies what is written into new pages and puts them in the cache.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/file_extent.h"
#include "fscore/file/in_place.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/piece.h"
#include "fscore/file/writeback.h"

#define FILE_SIZE_MAX ((uint64_t)INT64_MAX)

struct write_op {
	struct fsc_inode *inode;
	struct page_pool *pool;
	uint64_t file_off, end;
	uint64_t first; /* page */
	unsigned n_pages;
	struct page **pages; /* new; NULL once they have been given away */
	bool in_place;	     /* without data space */
};

/* ---------------------------------------------------------------- old content */

/*
 * Fills a new page with what the file has there now: for a write that does not cover it all.
 * Beyond the end of the file that is zeros.
 */
static int fill_old(struct fsc_ctx *ctx, struct write_op *op, unsigned i)
{
	char *data = page_data(op->pool, op->pages[i]);
	struct fsc_read rd = {.file_off = (op->first + i) << op->pool->page_shift,
		.len_bytes = op->pool->page_bytes};
	struct fsc_ctx blocking = {.thread = ctx->thread};
	size_t done = 0;
	int ret;

	if (rd.file_off >= inode_size(op->inode)) {
		memset(data, 0, op->pool->page_bytes);
		return 0;
	}
	ret = fsc_read(&blocking, op->inode, &rd);
	for (unsigned k = 0; !ret && k < rd.n_iov; k++) {
		memcpy(data + done, rd.iov[k].iov_base, rd.iov[k].iov_len);
		done += rd.iov[k].iov_len;
	}
	memset(data + done, 0, op->pool->page_bytes - done);
	fsc_read_release(&rd);
	return ret;
}

/* Whether the old content of a page is at hand, or there is none: for a try without waiting. */
static bool old_is_cached(struct write_op *op, unsigned i)
{
	struct page *page;
	bool cached;

	if ((op->first + i) << op->pool->page_shift >= inode_size(op->inode))
		return true;
	short_lock(&op->inode->owner.lock);
	page = page_index_lookup(&op->inode->index, op->first + i);
	cached = page && page->state == PAGE_UPTODATE;
	short_unlock(&op->inode->owner.lock);
	return cached;
}

static bool is_partial(const struct write_op *op, unsigned i)
{
	uint64_t start = (op->first + i) << op->pool->page_shift;

	return start < op->file_off || start + op->pool->page_bytes > op->end;
}

static int fill_partial(struct fsc_ctx *ctx, struct write_op *op, unsigned i)
{
	if (!is_partial(op, i))
		return 0;
	/* Nobody else writes to the file meanwhile; what is cached may be evicted, though. */
	if ((ctx->flags & FSC_NOWAIT) && !old_is_cached(op, i)) {
		ctx->blocked = FSC_BLOCKED_CACHE;
		return -EAGAIN;
	}
	return fill_old(ctx, op, i);
}

static int fill_edges(struct fsc_ctx *ctx, struct write_op *op)
{
	int ret = fill_partial(ctx, op, 0);

	if (!ret && op->n_pages > 1)
		ret = fill_partial(ctx, op, op->n_pages - 1);
	return ret;
}

/* --------------------------------------------------------------------- content */

static void copy_in(struct write_op *op, const struct iovec *iov, unsigned n_iov)
{
	uint64_t pos = op->file_off;

	for (unsigned k = 0; k < n_iov; k++) {
		const char *from = iov[k].iov_base;
		size_t left = iov[k].iov_len;

		while (left) {
			uint64_t at = (pos >> op->pool->page_shift) - op->first;
			size_t within = pos & (op->pool->page_bytes - 1);
			size_t n = MIN(left, op->pool->page_bytes - within);

			memcpy((char *)page_data(op->pool, op->pages[at]) + within, from, n);
			from += n;
			pos += n;
			left -= n;
		}
	}
}

static void attrs_written(struct write_op *op)
{
	struct fsc_inode *inode = op->inode;
	struct fsc_attr *a = &inode->attr;

	short_lock(&inode->attr_lock);
	if (op->end > a->size_bytes)
		a->size_bytes = op->end;
	inode_changed_locked(inode, time_now());
	a->mtime = a->ctime;
	a->mode &= ~(uint32_t)S_ISUID;
	if (a->mode & S_IXGRP)
		a->mode &= ~(uint32_t)S_ISGID;
	short_unlock(&inode->attr_lock);
}

static int take_new_pages(struct fsc_ctx *ctx, struct write_op *op)
{
	unsigned got;

	op->pages = calloc(op->n_pages, sizeof(*op->pages));
	if (!op->pages)
		return -ENOMEM;
	got = page_pool_take(op->pool, op->n_pages, op->pages, !(ctx->flags & FSC_NOWAIT));
	if (got == op->n_pages)
		return 0;
	page_pool_put(op->pool, got, op->pages);
	free(op->pages);
	op->pages = NULL;
	ctx->blocked = FSC_BLOCKED_PAGE;
	return -EAGAIN;
}

/* All pages, or none; a thread that may wait has the flusher make some clean. */
static int take_pages(struct fsc_ctx *ctx, struct write_op *op)
{
	int ret = take_new_pages(ctx, op);

	while (ret == -EAGAIN && !(ctx->flags & FSC_NOWAIT)) {
		page_pool_wait_sync(ctx, op->pool);
		ret = take_new_pages(ctx, op);
	}
	return ret;
}

static void give_back(struct write_op *op)
{
	if (!op->pages)
		return;
	page_pool_put(op->pool, op->n_pages, op->pages);
	free(op->pages);
	op->pages = NULL;
}

/* With op_lock held and the space reserved. */
static int write_pages(
	struct fsc_ctx *ctx, struct write_op *op, const struct iovec *iov, unsigned n_iov)
{
	int ret = take_pages(ctx, op);

	if (!ret)
		ret = fill_edges(ctx, op);
	if (!ret) {
		copy_in(op, iov, n_iov);
		ret = pages_replace(op->inode, op->first, op->n_pages, op->pages, op->in_place);
	}
	if (ret) {
		give_back(op);
		return ret;
	}
	free(op->pages);
	op->pages = NULL;
	attrs_written(op);
	flusher_note(op->inode, false);
	return 0;
}

/* ---------------------------------------------------------------- inline no more */

/*
 * An inline extent is the whole file: when a small one gets more behind its first page, that page
 * is written, too. op_lock is held in all of these.
 */
static bool passes_small_end(struct write_op *op)
{
	uint64_t size = inode_size(op->inode);

	return op->first && size && size < op->pool->page_bytes;
}

/*
 * Whether the first page is, or is about to be, inline; not any more when it is dirty and has data
 * space.
 */
static int is_inline(struct fsc_ctx *ctx, struct write_op *op, bool *is)
{
	struct fsc_inode *inode = op->inode;
	struct page *first;
	struct file_seg seg;
	unsigned n;
	bool is_dirty;
	int ret;

	short_lock(&inode->owner.lock);
	first = page_index_lookup(&inode->dirty, 0);
	is_dirty = first;
	*is = is_dirty ? first->in_place : page_index_lookup(&inode->writing, 0) != NULL;
	short_unlock(&inode->owner.lock);
	if (*is || is_dirty)
		return 0;
	ret = file_map(ctx, inode, 0, op->pool->page_bytes, &seg, 1, &n);
	if (ret || !n)
		return ret;
	*is = seg.kind == SEG_INLINE;
	free(seg.inline_data);
	return 0;
}

/* Makes the first page of the file a new, dirty one with the same content. */
static int rewrite_first_page(struct fsc_ctx *ctx, struct write_op *op)
{
	struct fsc_volume *vol = op->inode->subvol->vol;
	struct write_op first = {.inode = op->inode, .pool = op->pool, .n_pages = 1};
	int ret = dirty_reserve(ctx, vol, op->pool->page_bytes, 0);

	if (ret)
		return ret;
	ret = take_pages(ctx, &first);
	if (!ret)
		ret = fill_partial(ctx, &first, 0);
	if (!ret)
		ret = pages_replace(op->inode, 0, 1, first.pages, false);
	if (ret) {
		give_back(&first);
		dirty_unreserve(vol, op->pool->page_bytes);
	}
	free(first.pages);
	return ret;
}

static void set_grows(struct fsc_inode *inode, bool grows)
{
	short_lock(&inode->owner.lock);
	inode->grows = grows;
	short_unlock(&inode->owner.lock);
}

/* With op_lock held and the space reserved. */
static int write_locked(
	struct fsc_ctx *ctx, struct write_op *op, const struct iovec *iov, unsigned n_iov)
{
	bool inlined = false;
	int ret;

	if (!passes_small_end(op))
		return write_pages(ctx, op, iov, n_iov);
	/* Until the end has moved the flusher would take it for a small file. */
	set_grows(op->inode, true);
	ret = is_inline(ctx, op, &inlined);
	if (!ret && inlined)
		ret = rewrite_first_page(ctx, op);
	if (!ret)
		ret = write_pages(ctx, op, iov, n_iov);
	set_grows(op->inode, false);
	return ret;
}

static int check_write(struct fsc_inode *inode, uint64_t file_off, uint64_t len)
{
	if (S_ISDIR(inode->type))
		return -EISDIR;
	if (!S_ISREG(inode->type) || len > FSC_READ_MAX)
		return -EINVAL;
	if (file_off > FILE_SIZE_MAX || len > FILE_SIZE_MAX - file_off)
		return -EFBIG;
	return inode_check_writable(inode);
}

static bool is_stale(struct fsc_inode *inode)
{
	bool stale;

	short_lock(&inode->attr_lock);
	stale = inode->unlinked;
	short_unlock(&inode->attr_lock);
	return stale;
}

/* ------------------------------------------------------------------------ inline */

/* Whether the file will be an inline extent when it has been written: that needs no data space. */
static bool goes_inline(struct write_op *op)
{
	struct fsc_inode *inode = op->inode;
	bool is_small;

	if (op->first || op->n_pages != 1)
		return false;
	short_lock(&inode->attr_lock);
	is_small = MAX(op->end, inode->attr.size_bytes) <= piece_max_inline(inode) &&
		inode->disk_size <= op->pool->page_bytes &&
		!(inode->flags & (BTRFS_INODE_NODATACOW | BTRFS_INODE_PREALLOC));
	short_unlock(&inode->attr_lock);
	return is_small;
}

/* 1: it is not small, or not any more. */
static int write_small(
	struct fsc_ctx *ctx, struct write_op *op, const struct iovec *iov, unsigned n_iov)
{
	struct fsc_volume *vol = op->inode->subvol->vol;
	int ret = goes_inline(op) ? dirty_reserve_in_place(ctx, vol, op->pool->page_bytes) : 1;

	if (ret)
		return ret;
	ret = inode_lock(ctx, op->inode);
	if (!ret) {
		op->in_place = goes_inline(op);
		if (is_stale(op->inode))
			ret = -ESTALE;
		else
			ret = op->in_place ? write_locked(ctx, op, iov, n_iov) : 1;
		inode_unlock(op->inode);
	}
	op->in_place = false;
	if (ret)
		dirty_done(vol, op->pool->page_bytes);
	return ret;
}

/* -------------------------------------------------------------------- in place */

static bool may_go_in_place(struct fsc_inode *inode)
{
	bool may;

	short_lock(&inode->attr_lock);
	may = inode->flags & (BTRFS_INODE_NODATACOW | BTRFS_INODE_PREALLOC);
	short_unlock(&inode->attr_lock);
	return may;
}

/* What is on its way there may turn what is preallocated into what can't be written over. */
static bool some_is_on_its_way(struct write_op *op)
{
	uint64_t at;
	bool some;

	short_lock(&op->inode->owner.lock);
	some = page_index_next(&op->inode->writing, op->first, &at) && at < op->first + op->n_pages;
	short_unlock(&op->inode->owner.lock);
	return some;
}

/* There is no data space at hand: whether all of it can be written without. op_lock is held. */
static int can_go_in_place(struct fsc_ctx *ctx, struct write_op *op, bool *can)
{
	uint64_t at = op->first << op->pool->page_shift;
	uint64_t end = (op->first + op->n_pages) << op->pool->page_shift, logical, len;
	enum in_place how;

	*can = false;
	if (some_is_on_its_way(op))
		return 0;
	for (; at < end; at += len) {
		int ret = in_place_find(ctx, op->inode, at, end, &how, &logical, &len);

		if (ret || how == IN_PLACE_NOT)
			return ret;
	}
	*can = true;
	return 0;
}

/* 1: it needs space. */
static int write_in_place(
	struct fsc_ctx *ctx, struct write_op *op, const struct iovec *iov, unsigned n_iov)
{
	struct fsc_volume *vol = op->inode->subvol->vol;
	uint64_t bytes = (uint64_t)op->n_pages << op->pool->page_shift;
	bool can = false;
	int ret = inode_lock(ctx, op->inode);

	if (ret)
		return ret;
	ret = is_stale(op->inode) ? -ESTALE : can_go_in_place(ctx, op, &can);
	if (!ret && can)
		ret = dirty_reserve_in_place(ctx, vol, bytes);
	if (!ret && can) {
		op->in_place = true;
		ret = write_locked(ctx, op, iov, n_iov);
		if (ret)
			dirty_done(vol, bytes);
	}
	inode_unlock(op->inode);
	return ret || can ? ret : 1;
}

/*
 * Reserves space; where the file may be written in place, only as far as that needs no waiting: if
 * it does, the file is written, if it can be, without data space. *done: it has been.
 */
static int reserve_or_write(struct fsc_ctx *ctx, struct write_op *op, const struct iovec *iov,
	unsigned n_iov, bool *done)
{
	struct fsc_volume *vol = op->inode->subvol->vol;
	uint64_t bytes = (uint64_t)op->n_pages << op->pool->page_shift;
	struct fsc_ctx try = {.thread = ctx->thread, .flags = FSC_NOWAIT};
	int ret;

	*done = false;
	if (!may_go_in_place(op->inode))
		return dirty_reserve(ctx, vol, bytes, 0);
	ret = dirty_reserve(&try, vol, bytes, 0);
	if (ret != -EAGAIN)
		return ret;
	if (try.blocked == FSC_BLOCKED_SPACE) {
		ret = write_in_place(ctx, op, iov, n_iov);
		*done = ret <= 0;
		if (*done)
			return ret;
	}
	return dirty_reserve(ctx, vol, bytes, 0);
}

int fsc_write(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t file_off,
	const struct iovec *iov, unsigned n_iov)
{
	struct write_op op = {.inode = inode,
		.pool = &inode->subvol->vol->pages,
		.file_off = file_off,
		.end = file_off};
	uint64_t reserved;
	bool done;
	int ret;

	for (unsigned i = 0; i < n_iov; i++)
		op.end += iov[i].iov_len;
	ret = check_write(inode, file_off, op.end - file_off);
	if (ret || op.end == file_off)
		return ret;
	op.first = file_off >> op.pool->page_shift;
	op.n_pages = (unsigned)(((op.end - 1) >> op.pool->page_shift) - op.first) + 1;
	reserved = (uint64_t)op.n_pages << op.pool->page_shift;
	ret = write_small(ctx, &op, iov, n_iov);
	if (ret <= 0)
		return ret;
	/* Before the lock: what makes room may need this file. What was dirty already is given back. */
	ret = reserve_or_write(ctx, &op, iov, n_iov, &done);
	if (ret || done)
		return ret;
	ret = inode_lock(ctx, inode);
	if (!ret) {
		ret = is_stale(inode) ? -ESTALE : write_locked(ctx, &op, iov, n_iov);
		inode_unlock(inode);
	}
	if (ret)
		dirty_unreserve(inode->subvol->vol, reserved);
	return ret;
}
