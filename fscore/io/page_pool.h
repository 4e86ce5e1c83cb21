/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pages that hold file data: one pool of fixed size for a volume, taken in
 * bulk, given back one reference at a time. A page is as large as a sector of
 * the volume.
 *
 * A page is free, or held by whoever took it, or *cached*: it belongs to an
 * owner (an inode) that finds it by its index. The cache holds one reference.
 * When the pool runs out, a clock hand takes cached pages away from their owners:
 * clean ones that nobody else holds and that were not used since the hand passed.
 *
 * Invariants:
 *  1. owner and index change only with both the owner's lock and the pool's lock
 *     held, so either is enough to read them.
 *  2. A reference to a cached page is taken only with the owner's lock held. So a
 *     page with refs == 1 under that lock is used by nobody.
 *  3. An owner is not freed while it has pages (page_pool_drop()).
 *
 * Locks: owner->lock (RANK_INODE_PAGES) before pool->lock (RANK_PAGE_POOL); the
 * clock hand goes the other way and only tries.
 */
#ifndef FSCORE_IO_PAGE_POOL_H
#define FSCORE_IO_PAGE_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "fscore/fscore.h"

struct page_owner;

enum page_state {
	PAGE_NEW,      /* no content yet */
	PAGE_READING,  /* io is filling it */
	PAGE_UPTODATE, /* content is that of the file */
	PAGE_FAILED,   /* not in the index any more */
};

struct page {
	_Atomic uint32_t refs;
	_Atomic bool referenced; /* used since the clock hand passed */
	/* guarded by the owner's lock */
	uint8_t state; /* enum page_state */
	bool in_place; /* dirty, and goes where the file has its extent, or inline: no data space
			* is reserved */
	void *io;      /* with PAGE_READING: what fills it */
	/* see invariant 1 */
	struct page_owner *owner;
	uint64_t index;		/* file offset in pages */
	struct page *next_free; /* guarded by pool->lock */
};

/* What has cached pages; embedded in an inode. */
struct page_owner {
	struct short_lock lock; /* RANK_INODE_PAGES */
	/* Takes a page out of the index. Called with both locks held. */
	void (*forget)(struct page_owner *owner, struct page *page);
};

/* Waits for free pages; embed it. msg.fn is set by the caller. */
struct page_waiter {
	struct page_waiter *next;
	struct fsc_thread *thread;
	struct fsc_msg msg;
};

struct page_pool {
	/* immutable */
	char *arena;
	struct page *pages;
	size_t n_pages;
	uint32_t page_bytes;
	unsigned page_shift;
	/* guarded by lock */
	struct short_lock lock;
	struct page *free;
	size_t n_free;
	size_t hand;
	struct page_waiter *waiters;
	uint64_t evictions;
	_Atomic bool has_waiters; /* changed with the lock held, read without */
	_Atomic uint64_t waits;
};

/* bytes is rounded up to a few pages at least. -ENOMEM. */
int page_pool_init(struct page_pool *pool, size_t bytes, uint32_t page_bytes);
void page_pool_fini(struct page_pool *pool);

static inline void *page_data(const struct page_pool *pool, const struct page *page)
{
	return pool->arena + ((size_t)(page - pool->pages) << pool->page_shift);
}

/*
 * Takes up to n pages with one reference each; how many it got. Never waits.
 * thorough: look at every page for one that can be evicted, which takes time
 * linear in the size of the pool; else at a number that is linear in n.
 */
unsigned page_pool_take(struct page_pool *pool, unsigned n, struct page **pages, bool thorough);

/* Gives back one reference to each of n pages. NULL entries are allowed. */
void page_pool_put(struct page_pool *pool, unsigned n, struct page *const *pages);

/*
 * Has w->msg posted to w->thread when a page can be had (then others may be
 * faster); at once if that is so now.
 */
void page_pool_wait(struct page_pool *pool, struct page_waiter *w);

/* Waits until a page can be had (others may be faster). Might wait. */
void page_pool_wait_sync(struct fsc_ctx *ctx, struct page_pool *pool);

/*
 * Makes n pages the owner's, at ascending indexes from first (before they are put
 * in its index). The owner's lock is held.
 */
void page_pool_adopt(struct page_pool *pool, unsigned n, struct page *const *pages,
	struct page_owner *owner, uint64_t first);

/*
 * Takes the page from its owner, after it was taken out of the index, and gives
 * back the cache's reference. The owner's lock is held.
 */
void page_pool_drop(struct page_pool *pool, struct page *page);

#endif
