/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pages are dirty, how much of it there is, and who waits for that (writeback.h). */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/util.h"
#include "fscore/file/writeback.h"

/* ------------------------------------------------------------------ how much */

struct sync_dirty_wait {
	struct dirty_waiter waiter;
	bool done;
};

static void dirty_wait_done(struct fsc_msg *msg)
{
	container_of(msg, struct sync_dirty_wait, waiter.msg)->done = true;
}

/* Counts the bytes. False: it is too much already; w, if given, is told when it is less. */
static bool try_count(struct fs_writing *fw, uint64_t bytes, struct dirty_waiter *w)
{
	bool ok;

	short_lock(&fw->lock);
	ok = fw->dirty_bytes < fw->dirty_limit_bytes;
	if (ok) {
		fw->dirty_bytes += bytes;
	} else if (w) {
		w->next = fw->dirty_waiters;
		fw->dirty_waiters = w;
	}
	short_unlock(&fw->lock);
	return ok;
}

static int count_dirty(struct fsc_ctx *ctx, struct fs_writing *fw, uint64_t bytes)
{
	bool nowait = ctx->flags & FSC_NOWAIT;

	for (;;) {
		struct sync_dirty_wait w = {
			.waiter = {.thread = ctx->thread, .msg.fn = dirty_wait_done},
		};

		if (try_count(fw, bytes, nowait ? NULL : &w.waiter))
			return 0;
		fsc_thread_wake(fw->flusher_thread);
		if (nowait) {
			ctx->blocked = FSC_BLOCKED_PAGE;
			return -EAGAIN;
		}
		while (!w.done)
			fsc_thread_wait(ctx->thread);
	}
}

/* Those who wait until that much has been written. fw->lock is held. */
static struct dirty_waiter *take_written_waiters_locked(struct fs_writing *fw)
{
	struct dirty_waiter **at = &fw->written_waiters, *taken = NULL;

	while (*at) {
		struct dirty_waiter *w = *at;

		if (w->until_bytes > fw->gone_bytes) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = taken;
		taken = w;
	}
	return taken;
}

static void post_waiters(struct dirty_waiter *waiters)
{
	while (waiters) {
		struct dirty_waiter *w = waiters;

		waiters = w->next;
		fsc_thread_post(w->thread, &w->msg);
	}
}

void dirty_done(struct fsc_volume *vol, uint64_t bytes)
{
	struct fs_writing *fw = vol->w;
	struct dirty_waiter *waiters = NULL, *written;

	space_unreserve(&fw->space, SPACE_METADATA, bytes);
	short_lock(&fw->lock);
	fw->dirty_bytes -= bytes;
	fw->gone_bytes += bytes;
	if (fw->dirty_bytes < fw->dirty_limit_bytes) {
		waiters = fw->dirty_waiters;
		fw->dirty_waiters = NULL;
	}
	written = take_written_waiters_locked(fw);
	short_unlock(&fw->lock);
	post_waiters(waiters);
	post_waiters(written);
}

/*
 * Space before the count: what is counted is on its way to becoming dirty, and waits for nothing
 * but locks and pages.
 *
 * A byte of metadata for each byte of data: what a small file takes inline, and more than the items
 * of a large one. What is copied of the trees meanwhile is the flusher's to see to.
 */
static int reserve(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t bytes, unsigned flags, bool in_place)
{
	struct fs_writing *fw = vol->w;
	int ret = txn_reserve_space(ctx, &fw->txns, SPACE_METADATA, bytes, flags);

	if (ret)
		return ret;
	if (!in_place)
		ret = txn_reserve_space(ctx, &fw->txns, SPACE_DATA, bytes, 0);
	if (!ret) {
		ret = count_dirty(ctx, fw, bytes);
		if (ret && !in_place)
			space_unreserve(&fw->space, SPACE_DATA, bytes);
	}
	if (ret)
		space_unreserve(&fw->space, SPACE_METADATA, bytes);
	return ret;
}

int dirty_reserve(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t bytes, unsigned flags)
{
	return reserve(ctx, vol, bytes, flags, false);
}

int dirty_reserve_in_place(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t bytes)
{
	return reserve(ctx, vol, bytes, 0, true);
}

void dirty_unreserve(struct fsc_volume *vol, uint64_t bytes)
{
	space_unreserve(&vol->w->space, SPACE_DATA, bytes);
	dirty_done(vol, bytes);
}

/* ---------------------------------------------------------------- which pages */

/*
 * Makes sure that the index takes a page at `at`: a removal and a new insertion at the same place
 * can't fail then.
 */
static int make_place(struct page_index *index, uint64_t at, struct page *page)
{
	if (page_index_lookup(index, at))
		return 0;
	return page_index_insert(index, at, page);
}

static int make_places(struct fsc_inode *inode, uint64_t first, unsigned n,
	struct page *const *pages, unsigned *made)
{
	for (*made = 0; *made < n; ++*made) {
		bool in_index = page_index_lookup(&inode->index, first + *made);
		int ret = make_place(&inode->index, first + *made, pages[*made]);

		if (!ret && make_place(&inode->dirty, first + *made, pages[*made])) {
			if (!in_index)
				page_index_remove(&inode->index, first + *made);
			ret = -ENOMEM;
		}
		if (ret)
			return ret;
	}
	return 0;
}

/* Puts the page in place of what an index has at `at`. NULL if it was empty (or is made so). */
static struct page *exchange(struct page_index *index, uint64_t at, struct page *page)
{
	struct page *old = page_index_lookup(index, at);

	if (old == page)
		return NULL;
	page_index_set(index, at, page);
	return old;
}

/*
 * Whether the page, which takes the place of a dirty one, has more space reserved than it needs:
 * one of two pages' is enough, and is used if there is one.
 */
static bool inherits_space(struct page *page, const struct page *old)
{
	bool surplus = !old->in_place && !page->in_place;

	page->in_place &= old->in_place;
	return surplus;
}

int pages_replace(struct fsc_inode *inode, uint64_t first, unsigned n, struct page *const *pages,
	bool in_place)
{
	struct fsc_volume *vol = inode->subvol->vol;
	struct page_pool *pool = &vol->pages;
	uint64_t again = 0; /* pages that were dirty already */
	uint64_t surplus = 0;
	unsigned made;
	int ret;

	short_lock(&inode->owner.lock);
	ret = make_places(inode, first, n, pages, &made);
	if (ret) {
		for (unsigned i = 0; i < made; i++) {
			if (page_index_lookup(&inode->index, first + i) == pages[i])
				page_index_remove(&inode->index, first + i);
			if (page_index_lookup(&inode->dirty, first + i) == pages[i])
				page_index_remove(&inode->dirty, first + i);
		}
		short_unlock(&inode->owner.lock);
		return ret;
	}
	for (unsigned i = 0; i < n; i++) {
		struct page *old = exchange(&inode->index, first + i, pages[i]);

		if (old)
			page_pool_drop(pool, old);
		old = exchange(&inode->dirty, first + i, pages[i]);
		pages[i]->in_place = in_place;
		if (old) {
			surplus += inherits_space(pages[i], old);
			page_pool_put(pool, 1, &old);
			again++;
		}
		pages[i]->state = PAGE_UPTODATE;
		/* One reference for the cache, one for being dirty. */
		atomic_fetch_add_explicit(&pages[i]->refs, 1, memory_order_relaxed);
	}
	page_pool_adopt(pool, n, pages, &inode->owner, first);
	if (!inode->n_dirty)
		inode->first_dirty_ns = clock_now_ns();
	inode->n_dirty += n - again;
	short_unlock(&inode->owner.lock);
	if (surplus)
		space_unreserve(&vol->w->space, SPACE_DATA, surplus << pool->page_shift);
	if (again)
		dirty_done(vol, again << pool->page_shift);
	return 0;
}

uint64_t dirty_discard(struct fsc_inode *inode, uint64_t from)
{
	struct fsc_volume *vol = inode->subvol->vol;
	uint64_t n = 0, with_space = 0, at;
	struct page *page;

	short_lock(&inode->owner.lock);
	while ((page = page_index_next(&inode->dirty, from, &at))) {
		page_index_remove(&inode->dirty, at);
		n++;
		with_space += !page->in_place;
		page_pool_put(&vol->pages, 1, &page);
	}
	inode->n_dirty -= n;
	short_unlock(&inode->owner.lock);
	if (with_space)
		space_unreserve(&vol->w->space, SPACE_DATA, with_space << vol->pages.page_shift);
	if (n)
		dirty_done(vol, n << vol->pages.page_shift);
	return n;
}

void pages_drop(struct fsc_inode *inode, uint64_t from)
{
	struct page *page;
	uint64_t at;

	short_lock(&inode->owner.lock);
	inode->map_seq++;
	while ((page = page_index_next(&inode->index, from, &at))) {
		page_index_remove(&inode->index, at);
		page_pool_drop(&inode->subvol->vol->pages, page);
	}
	short_unlock(&inode->owner.lock);
}

/* --------------------------------------------------------------------- waiting */

struct sync_inode_wait {
	struct inode_waiter waiter;
	bool done;
};

static void inode_wait_done(struct fsc_msg *msg)
{
	container_of(msg, struct sync_inode_wait, waiter.msg)->done = true;
}

/* It is told when a round has ended. owner.lock is held. */
static void add_waiter(struct fsc_inode *inode, struct inode_waiter *w)
{
	w->next = inode->write_waiters;
	inode->write_waiters = w;
}

int writing_wait(struct fsc_ctx *ctx, struct fsc_inode *inode)
{
	struct sync_inode_wait w = {
		.waiter = {.thread = ctx->thread, .msg.fn = inode_wait_done},
	};
	bool busy;

	short_lock(&inode->owner.lock);
	busy = inode->n_writing > 0;
	if (busy && !(ctx->flags & FSC_NOWAIT))
		add_waiter(inode, &w.waiter);
	short_unlock(&inode->owner.lock);
	if (!busy)
		return 0;
	if (ctx->flags & FSC_NOWAIT) {
		ctx->blocked = FSC_BLOCKED_LOCK;
		return -EAGAIN;
	}
	while (!w.done)
		fsc_thread_wait(ctx->thread);
	return 0;
}

/* Whether something is dirty or on its way; then w is told when a round has ended. */
static bool is_busy(struct fsc_inode *inode, struct inode_waiter *w)
{
	bool busy;

	short_lock(&inode->owner.lock);
	busy = inode->n_dirty || inode->n_writing;
	if (busy)
		add_waiter(inode, w);
	short_unlock(&inode->owner.lock);
	return busy;
}

void flush_to_trees(struct fsc_ctx *ctx, struct fsc_inode *inode)
{
	for (;;) {
		struct sync_inode_wait w = {
			.waiter = {.thread = ctx->thread, .msg.fn = inode_wait_done},
		};

		if (!is_busy(inode, &w.waiter))
			return;
		flusher_note(inode, true);
		while (!w.done)
			fsc_thread_wait(ctx->thread);
	}
}
