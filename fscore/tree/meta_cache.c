/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/tree/meta_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/util.h"

/* A search holds a block for each level, and a few searches run at once. */
#define MIN_BLOCKS 256u

/* One block on its way from the disk; freed when the block is VALID or FAILED. */
struct meta_read {
	struct io_req req;
	struct iovec iov;
	struct meta_cache *mc;
	struct mblock *block; /* holds a reference */
	struct block_expect expect;
	struct chunk_place place;
	unsigned mirror;
};

/* A thread that waits for a block; lives on its stack. */
struct meta_waiter {
	struct meta_waiter *next;
	struct fsc_thread *thread;
	struct fsc_msg msg;
	bool done; /* set on the waiting thread */
};

int meta_cache_init(struct meta_cache *mc, const struct volume_geometry *geo, struct dev *dev,
	struct chunk_map *chunks, size_t bytes)
{
	size_t per_shard = 1;
	void *arena;

	memset(mc, 0, sizeof(*mc));
	mc->geo = *geo;
	mc->dev = dev;
	mc->chunks = chunks;
	mc->n_blocks = MAX(bytes / geo->node_bytes, MIN_BLOCKS);
	while (per_shard * META_SHARDS < mc->n_blocks)
		per_shard *= 2;
	mc->buckets_per_shard = per_shard;
	mc->blocks = calloc(mc->n_blocks, sizeof(*mc->blocks));
	arena = mmap(NULL, mc->n_blocks * geo->node_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	mc->arena = arena == MAP_FAILED ? NULL : arena;
	short_lock_init(&mc->alloc_lock, RANK_META_ALLOC);
	for (unsigned i = 0; i < META_SHARDS; i++) {
		short_lock_init(&mc->shards[i].lock, RANK_META_CACHE);
		mc->shards[i].buckets = calloc(per_shard, sizeof(struct mblock *));
		if (!mc->shards[i].buckets)
			goto no_memory;
	}
	if (!mc->blocks || !mc->arena)
		goto no_memory;
	for (size_t i = mc->n_blocks; i-- > 0;) {
		mc->blocks[i].mc = mc;
		mc->blocks[i].data = mc->arena + i * geo->node_bytes;
		mc->blocks[i].next = mc->free;
		mc->free = &mc->blocks[i];
	}
	return 0;

no_memory:
	meta_cache_fini(mc);
	return -ENOMEM;
}

void meta_cache_fini(struct meta_cache *mc)
{
	if (!mc->n_blocks)
		return;
	for (unsigned i = 0; i < META_SHARDS; i++)
		free(mc->shards[i].buckets);
	if (mc->arena)
		munmap(mc->arena, mc->n_blocks * mc->geo.node_bytes);
	free(mc->blocks);
	memset(mc, 0, sizeof(*mc));
}

static struct meta_shard *shard_of(struct meta_cache *mc, uint64_t logical)
{
	return &mc->shards[hash_mix64(logical) % META_SHARDS];
}

static struct mblock **bucket_of(struct meta_cache *mc, struct meta_shard *shard, uint64_t logical)
{
	return &shard->buckets[(hash_mix64(logical) / META_SHARDS) & (mc->buckets_per_shard - 1)];
}

static struct mblock *find_locked(struct meta_cache *mc, struct meta_shard *shard, uint64_t logical)
{
	struct mblock *b = *bucket_of(mc, shard, logical);

	while (b && b->logical != logical)
		b = b->next;
	return b;
}

static void unhash_locked(struct meta_cache *mc, struct meta_shard *shard, struct mblock *b)
{
	struct mblock **at = bucket_of(mc, shard, b->logical);

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	b->next = NULL;
}

static bool is_usable(const struct mblock *b)
{
	return b->state == MBLOCK_VALID || b->state == MBLOCK_DIRTY;
}

/* Two pointers to one address must agree about what is there. */
static bool is_expected(const struct mblock *b, const struct block_expect *expect)
{
	return b->generation == expect->generation && b->level == expect->level;
}

struct mblock *meta_lookup(struct meta_cache *mc, const struct block_expect *expect, int *error)
{
	struct meta_shard *shard = shard_of(mc, expect->logical);
	struct mblock *b;

	*error = 0;
	short_lock(&shard->lock);
	b = find_locked(mc, shard, expect->logical);
	if (b && is_usable(b)) {
		shard->hits++;
		if (is_expected(b, expect)) {
			atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
			if (!atomic_load_explicit(&b->referenced, memory_order_relaxed))
				atomic_store_explicit(&b->referenced, true, memory_order_relaxed);
		} else {
			b = NULL;
			*error = -EUCLEAN;
		}
	} else {
		b = NULL;
	}
	short_unlock(&shard->lock);
	return b;
}

static bool try_evict(struct meta_cache *mc, struct mblock *b)
{
	/* Only a hint, without the lock: it finds the shard whose lock to try. */
	uint64_t logical = atomic_load_explicit(&b->logical, memory_order_relaxed);
	struct meta_shard *shard = shard_of(mc, logical);
	bool evicted = false;

	if (atomic_load_explicit(&b->refs, memory_order_relaxed))
		return false;
	if (atomic_load_explicit(&b->referenced, memory_order_relaxed)) {
		atomic_store_explicit(&b->referenced, false, memory_order_relaxed);
		return false;
	}
	if (!short_trylock(&shard->lock))
		return false;
	if (b->logical == logical && b->state == MBLOCK_VALID &&
		!atomic_load_explicit(&b->refs, memory_order_acquire)) {
		unhash_locked(mc, shard, b);
		b->state = MBLOCK_FREE;
		evicted = true;
	}
	short_unlock(&shard->lock);
	return evicted;
}

/* A free block, or NULL when all are in use. */
static struct mblock *alloc_block(struct meta_cache *mc)
{
	struct mblock *b;

	short_lock(&mc->alloc_lock);
	b = mc->free;
	if (b) {
		mc->free = b->next;
		mc->n_used++;
	}
	for (size_t i = 0; !b && i < 2 * mc->n_blocks; i++) {
		struct mblock *candidate = &mc->blocks[mc->hand];

		mc->hand = mc->hand + 1 < mc->n_blocks ? mc->hand + 1 : 0;
		if (try_evict(mc, candidate)) {
			mc->evictions++;
			b = candidate;
		}
	}
	short_unlock(&mc->alloc_lock);
	return b;
}

static void free_block(struct meta_cache *mc, struct mblock *b)
{
	short_lock(&mc->alloc_lock);
	b->state = MBLOCK_FREE;
	atomic_store_explicit(&b->doomed, false, memory_order_relaxed);
	atomic_store_explicit(&b->refs, 0, memory_order_relaxed);
	b->next = mc->free;
	mc->free = b;
	mc->n_used--;
	short_unlock(&mc->alloc_lock);
}

/* In refs: the block is on its way to the free list. */
#define REFS_FREEING 0x80000000u

void meta_put(struct mblock *b)
{
	uint32_t none = 0;

	if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
		return;
	/*
	 * Without a reference, a block in the table may be evicted and used again at any
	 * time. A doomed one is not in the table, and whoever moves its count from none
	 * frees it: once, even if this thread has come late and sees another life.
	 */
	if (atomic_load_explicit(&b->doomed, memory_order_acquire) &&
		atomic_compare_exchange_strong(&b->refs, &none, REFS_FREEING))
		free_block(b->mc, b);
}

/* Takes a block out of the table for good. The shard's lock is held. */
static void doom_locked(
	struct meta_cache *mc, struct meta_shard *shard, struct mblock *b, int error)
{
	unhash_locked(mc, shard, b);
	b->state = MBLOCK_FAILED;
	b->error = error;
	atomic_store_explicit(&b->doomed, true, memory_order_release);
}

/* The read has ended, well or not: tells all who wait. */
static void finish_read(struct meta_read *mr, int error)
{
	struct meta_cache *mc = mr->mc;
	struct mblock *b = mr->block;
	struct meta_shard *shard = shard_of(mc, b->logical);
	struct meta_waiter *waiters;

	short_lock(&shard->lock);
	waiters = b->waiters;
	b->waiters = NULL;
	/* Its place may have been taken by a new block meanwhile (meta_create()). */
	if (b->state != MBLOCK_FAILED && error)
		doom_locked(mc, shard, b, error);
	else if (b->state != MBLOCK_FAILED)
		b->state = MBLOCK_VALID;
	/* A waiter's reference; the shard's lock is what keeps the count honest. */
	for (struct meta_waiter *w = waiters; w; w = w->next)
		atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	short_unlock(&shard->lock);
	while (waiters) {
		struct meta_waiter *w = waiters;

		waiters = w->next;
		fsc_thread_post(w->thread, &w->msg);
	}
	meta_put(b);
	free(mr);
}

static void note_repair(struct meta_read *mr)
{
	struct meta_cache *mc = mr->mc;

	short_lock(&mc->alloc_lock);
	if (mc->n_repairs < META_REPAIRS)
		mc->repairs[mc->n_repairs++].expect = mr->expect;
	short_unlock(&mc->alloc_lock);
	if (mc->want_repair)
		mc->want_repair(mc->want_repair_arg);
}

bool meta_take_repair(struct meta_cache *mc, struct meta_repair *out)
{
	bool any;

	short_lock(&mc->alloc_lock);
	any = mc->n_repairs;
	if (any)
		*out = mc->repairs[--mc->n_repairs];
	short_unlock(&mc->alloc_lock);
	return any;
}

static void submit_mirror(struct meta_read *mr, struct fsc_thread *t)
{
	mr->req.physical = mr->place.physical[mr->mirror];
	dev_submit(mr->mc->dev, t, &mr->req);
}

static void copy_read(struct io_req *req)
{
	struct meta_read *mr = container_of(req, struct meta_read, req);
	struct meta_cache *mc = mr->mc;
	char why[160] = "device error";
	int error = req->status;

	if (!error)
		error = block_check(&mc->geo, &mr->expect, mr->block->data, why, sizeof(why));
	if (!error) {
		if (mr->mirror) {
			atomic_fetch_add_explicit(&mc->mirror_repairs, 1, memory_order_relaxed);
			note_repair(mr);
		}
		finish_read(mr, 0);
		return;
	}
	atomic_fetch_add_explicit(&mc->bad_copies, 1, memory_order_relaxed);
	log_limited(LOG_LVL_ERROR, "tree block %llu (tree %lld, level %u), copy %u of %u: %s",
		(unsigned long long)mr->expect.logical, (long long)mr->expect.tree,
		mr->expect.level, mr->mirror + 1, mr->place.n_mirrors, why);
	if (++mr->mirror < mr->place.n_mirrors)
		submit_mirror(mr, req->thread);
	else
		finish_read(mr, error);
}

/* The address, which comes from the volume, leads to one whole block. */
static int place_block(struct meta_cache *mc, uint64_t logical, struct chunk_place *place)
{
	int ret = chunk_map_lookup(mc->chunks, logical, place);

	if (ret || place->length_bytes < mc->geo.node_bytes || logical % mc->geo.sector_bytes) {
		log_limited(LOG_LVL_ERROR, "tree block %llu: no chunk holds it",
			(unsigned long long)logical);
		return -EUCLEAN;
	}
	return 0;
}

/*
 * Starts to read a block, unless another thread was faster. w, if given, is told
 * when it has been read. *already: it is VALID now, with a reference for the caller.
 */
static int start_read(struct fsc_thread *t, struct meta_cache *mc,
	const struct block_expect *expect, struct meta_waiter *w, struct mblock **block,
	bool *already)
{
	struct meta_shard *shard = shard_of(mc, expect->logical);
	struct meta_read *mr = calloc(1, sizeof(*mr));
	struct mblock *fresh, *b;
	int ret;

	if (!mr)
		return -ENOMEM;
	ret = place_block(mc, expect->logical, &mr->place);
	fresh = ret ? NULL : alloc_block(mc);
	if (!fresh) {
		free(mr);
		return ret ? ret : -ENOMEM;
	}
	short_lock(&shard->lock);
	b = find_locked(mc, shard, expect->logical);
	*already = b && is_usable(b);
	if (!b) {
		b = fresh;
		b->logical = expect->logical;
		b->generation = expect->generation;
		b->level = expect->level;
		b->state = MBLOCK_READING;
		b->error = 0;
		b->waiters = NULL;
		b->next = *bucket_of(mc, shard, b->logical);
		*bucket_of(mc, shard, b->logical) = b;
		atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
		atomic_store_explicit(&b->referenced, true, memory_order_relaxed);
		shard->misses++;
		fresh = NULL;
	}
	if (*already) {
		atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	} else if (w) {
		w->next = b->waiters;
		b->waiters = w;
	}
	short_unlock(&shard->lock);
	*block = b;
	if (fresh) {
		free_block(mc, fresh);
		free(mr);
		return 0;
	}
	mr->mc = mc;
	mr->block = b;
	mr->expect = *expect;
	mr->iov = (struct iovec){.iov_base = b->data, .iov_len = mc->geo.node_bytes};
	mr->req.op = IO_READ;
	mr->req.iov = &mr->iov;
	mr->req.n_iov = 1;
	mr->req.len_bytes = mc->geo.node_bytes;
	mr->req.done = copy_read;
	submit_mirror(mr, t);
	return 0;
}

static void waiter_done(struct fsc_msg *msg)
{
	container_of(msg, struct meta_waiter, msg)->done = true;
}

int meta_read(struct fsc_ctx *ctx, struct meta_cache *mc, const struct block_expect *expect,
	struct mblock **out)
{
	bool nowait = ctx->flags & FSC_NOWAIT;
	struct meta_waiter w = {.thread = ctx->thread, .msg.fn = waiter_done};
	struct mblock *b = NULL;
	bool already = false;
	int ret;

	ret = start_read(ctx->thread, mc, expect, nowait ? NULL : &w, &b, &already);
	if (ret)
		return ret;
	if (nowait) {
		if (already)
			meta_put(b);
		ctx->blocked = FSC_BLOCKED_CACHE;
		return -EAGAIN;
	}
	while (!already && !w.done)
		fsc_thread_wait(ctx->thread);
	/* The reference is ours and holds the block as it is now. */
	if (b->state == MBLOCK_FAILED) {
		ret = b->error;
		meta_put(b);
		return ret;
	}
	if (!is_expected(b, expect)) {
		meta_put(b);
		return -EUCLEAN;
	}
	*out = b;
	return 0;
}

/* ------------------------------------------------------------------- dirty */

struct mblock *meta_create(
	struct meta_cache *mc, uint64_t logical, uint64_t generation, uint8_t level)
{
	struct meta_shard *shard = shard_of(mc, logical);
	struct mblock *fresh = alloc_block(mc), *old;
	bool is_dirty, is_unused = false;

	if (!fresh)
		return NULL;
	short_lock(&shard->lock);
	/*
	 * What was at this address before it was freed. Who still reads or holds it began with what
	 * is not in the tree any more, and searches again.
	 */
	old = find_locked(mc, shard, logical);
	is_dirty = old && old->state == MBLOCK_DIRTY;
	if (old && !is_dirty) {
		is_unused = !atomic_load_explicit(&old->refs, memory_order_acquire);
		doom_locked(mc, shard, old, -ESTALE);
	}
	if (!is_dirty) {
		fresh->logical = logical;
		fresh->generation = generation;
		fresh->level = level;
		fresh->state = MBLOCK_DIRTY;
		fresh->error = 0;
		fresh->waiters = NULL;
		atomic_store_explicit(&fresh->refs, 1, memory_order_relaxed);
		atomic_store_explicit(&fresh->referenced, true, memory_order_relaxed);
		fresh->next = *bucket_of(mc, shard, logical);
		*bucket_of(mc, shard, logical) = fresh;
	}
	short_unlock(&shard->lock);
	if (is_unused)
		free_block(mc, old);
	if (is_dirty) {
		free_block(mc, fresh);
		return NULL;
	}
	return fresh;
}

void meta_clean(struct meta_cache *mc, struct mblock *b)
{
	struct meta_shard *shard = shard_of(mc, b->logical);

	short_lock(&shard->lock);
	if (b->state == MBLOCK_DIRTY)
		b->state = MBLOCK_VALID;
	short_unlock(&shard->lock);
}

void meta_discard(struct meta_cache *mc, struct mblock *b)
{
	struct meta_shard *shard = shard_of(mc, b->logical);

	short_lock(&shard->lock);
	if (b->state == MBLOCK_DIRTY || b->state == MBLOCK_VALID) {
		doom_locked(mc, shard, b, -ESTALE);
	}
	short_unlock(&shard->lock);
}

size_t meta_dirty_limit(const struct meta_cache *mc)
{
	return mc->n_blocks / 2;
}
