/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/io/page_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

#define MIN_PAGES 512u

int page_pool_init(struct page_pool *pool, size_t bytes, uint32_t page_bytes)
{
	void *arena;

	memset(pool, 0, sizeof(*pool));
	pool->page_bytes = page_bytes;
	pool->page_shift = (unsigned)__builtin_ctz(page_bytes);
	pool->n_pages = MAX(bytes >> pool->page_shift, MIN_PAGES);
	pool->pages = calloc(pool->n_pages, sizeof(*pool->pages));
	if (!pool->pages)
		return -ENOMEM;
	/* Memory that was never used costs nothing: the kernel gives it page by page. */
	arena = mmap(NULL, pool->n_pages << pool->page_shift, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED) {
		free(pool->pages);
		return -ENOMEM;
	}
	pool->arena = arena;
	short_lock_init(&pool->lock, RANK_PAGE_POOL);
	/* Lowest first, so that neighbours in memory are taken together. */
	for (size_t i = pool->n_pages; i-- > 0;) {
		pool->pages[i].next_free = pool->free;
		pool->free = &pool->pages[i];
	}
	pool->n_free = pool->n_pages;
	return 0;
}

void page_pool_fini(struct page_pool *pool)
{
	if (!pool->pages)
		return;
	munmap(pool->arena, pool->n_pages << pool->page_shift);
	free(pool->pages);
	short_lock_fini(&pool->lock);
	pool->pages = NULL;
}

static void hold_new(struct page *page)
{
	page->next_free = NULL;
	page->state = PAGE_NEW;
	page->io = NULL;
	atomic_store_explicit(&page->referenced, false, memory_order_relaxed);
	atomic_store_explicit(&page->refs, 1, memory_order_relaxed);
}

/* The clock hand is at this page: can it be had? */
static bool try_evict_locked(struct page *page)
{
	struct page_owner *owner = page->owner;
	bool evicted = false;

	if (!owner)
		return false;
	if (atomic_load_explicit(&page->referenced, memory_order_relaxed)) {
		atomic_store_explicit(&page->referenced, false, memory_order_relaxed);
		return false;
	}
	if (atomic_load_explicit(&page->refs, memory_order_relaxed) != 1)
		return false;
	if (!short_trylock(&owner->lock))
		return false;
	if (page->state == PAGE_UPTODATE &&
		atomic_load_explicit(&page->refs, memory_order_acquire) == 1) {
		owner->forget(owner, page);
		page->owner = NULL;
		evicted = true;
	}
	short_unlock(&owner->lock);
	return evicted;
}

/* Moves the hand over at most budget pages, and returns the first that it evicts. */
static struct page *evict_locked(struct page_pool *pool, size_t *budget)
{
	while (*budget > 0) {
		struct page *page = &pool->pages[pool->hand];

		--*budget;
		pool->hand = pool->hand + 1 < pool->n_pages ? pool->hand + 1 : 0;
		if (try_evict_locked(page)) {
			pool->evictions++;
			return page;
		}
	}
	return NULL;
}

unsigned page_pool_take(struct page_pool *pool, unsigned n, struct page **pages, bool thorough)
{
	size_t budget = thorough ? 2 * pool->n_pages : 16u * (size_t)n + 256;
	unsigned got = 0;

	short_lock(&pool->lock);
	while (got < n) {
		struct page *page = pool->free;

		if (page) {
			pool->free = page->next_free;
			pool->n_free--;
		} else {
			page = evict_locked(pool, &budget);
			if (!page)
				break;
		}
		hold_new(page);
		pages[got++] = page;
	}
	short_unlock(&pool->lock);
	return got;
}

static void wake_waiters_locked(struct page_pool *pool)
{
	while (pool->waiters) {
		struct page_waiter *w = pool->waiters;

		pool->waiters = w->next;
		fsc_thread_post(w->thread, &w->msg);
	}
	atomic_store(&pool->has_waiters, false);
}

static void free_page_locked(struct page_pool *pool, struct page *page)
{
	page->next_free = pool->free;
	pool->free = page;
	pool->n_free++;
	wake_waiters_locked(pool);
}

void page_pool_put(struct page_pool *pool, unsigned n, struct page *const *pages)
{
	bool locked = false;

	for (unsigned i = 0; i < n; i++) {
		uint32_t left;

		if (!pages[i])
			continue;
		left = atomic_fetch_sub(&pages[i]->refs, 1) - 1;
		/* A waiter can make use of a page that only the cache holds now. */
		if (left > 1 || (left == 1 && !atomic_load(&pool->has_waiters)))
			continue;
		if (!locked)
			short_lock(&pool->lock);
		locked = true;
		if (left == 0)
			free_page_locked(pool, pages[i]);
		else
			wake_waiters_locked(pool);
	}
	if (locked)
		short_unlock(&pool->lock);
}

void page_pool_wait(struct page_pool *pool, struct page_waiter *w)
{
	size_t budget = 2 * pool->n_pages;
	struct page *page;

	atomic_fetch_add_explicit(&pool->waits, 1, memory_order_relaxed);
	short_lock(&pool->lock);
	w->next = pool->waiters;
	pool->waiters = w;
	/*
	 * From here on page_pool_put() sees the waiter, or we see what it gave
	 * back: neither order of the two loses the wake-up.
	 */
	atomic_store(&pool->has_waiters, true);
	page = pool->free ? NULL : evict_locked(pool, &budget);
	if (page)
		free_page_locked(pool, page);
	else if (pool->free)
		wake_waiters_locked(pool);
	short_unlock(&pool->lock);
}

struct sync_page_wait {
	struct page_waiter waiter;
	bool done;
};

static void page_wait_done(struct fsc_msg *msg)
{
	container_of(msg, struct sync_page_wait, waiter.msg)->done = true;
}

void page_pool_wait_sync(struct fsc_ctx *ctx, struct page_pool *pool)
{
	struct sync_page_wait w = {
		.waiter = {.thread = ctx->thread, .msg.fn = page_wait_done},
	};

	page_pool_wait(pool, &w.waiter);
	while (!w.done)
		fsc_thread_wait(ctx->thread);
}

void page_pool_adopt(struct page_pool *pool, unsigned n, struct page *const *pages,
	struct page_owner *owner, uint64_t first)
{
	short_lock(&pool->lock);
	for (unsigned i = 0; i < n; i++) {
		pages[i]->owner = owner;
		pages[i]->index = first + i;
	}
	short_unlock(&pool->lock);
}

void page_pool_drop(struct page_pool *pool, struct page *page)
{
	short_lock(&pool->lock);
	page->owner = NULL;
	if (atomic_fetch_sub(&page->refs, 1) == 1)
		free_page_locked(pool, page);
	short_unlock(&pool->lock);
}
