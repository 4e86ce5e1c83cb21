/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/txn/txn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "fscore/txn/txn_private.h"

struct txn *txn_create(struct txns *txns, uint64_t id)
{
	const struct txn_config *c = &txns->config;
	struct txn *txn = calloc(1, sizeof(*txn));

	if (!txn)
		return NULL;
	if (delayed_refs_init(&txn->refs_owed)) {
		free(txn);
		return NULL;
	}
	txn->id = id;
	txn->state = TXN_RUNNING;
	txn->extents = (struct extents){
		.geo = c->geo,
		.extent_tree = c->extent_tree,
		.csum_tree = c->csum_tree,
		.space = c->space,
		.refs = &txn->refs_owed,
	};
	return txn;
}

void txn_free(struct txn *txn)
{
	if (!txn)
		return;
	for (size_t i = 0; i < txn->n_dirty; i++)
		meta_put(txn->dirty[i]);
	free(txn->dirty);
	log_end(txn);
	delayed_refs_fini(&txn->refs_owed);
	free(txn);
}

void txn_handle_init(struct txn_handle *h, struct fsc_ctx *ctx, struct txns *txns, struct txn *txn)
{
	*h = (struct txn_handle){
		.w = {.ctx = ctx, .ops = &txn_tree_ops, .generation = txn->id},
		.txns = txns,
		.txn = txn,
	};
}

void txn_post_waiters(struct txn_waiter *list, int status)
{
	while (list) {
		struct txn_waiter *w = list;

		list = w->next;
		w->status = status;
		fsc_thread_post(w->thread, &w->msg);
	}
}

void txn_set_error(struct txns *txns, int error)
{
	bool first;

	short_lock(&txns->lock);
	first = !txns->error;
	if (first)
		txns->error = error;
	short_unlock(&txns->lock);
	if (!first)
		return;
	log_error("transaction aborted: %s; the volume is read-only now", strerror(-error));
	fsc_thread_wake(txns->thread);
	if (txns->config.aborted)
		txns->config.aborted(txns->config.arg, error);
}

/* ---------------------------------------------------------------- start, stop */

static void wake_committer(void *arg)
{
	fsc_thread_wake(((struct txns *)arg)->thread);
}

static void free_txns(struct txns *txns)
{
	txns->config.meta->want_repair = NULL;
	txn_free(txns->running);
	sem_destroy(&txns->started);
	short_lock_fini(&txns->lock);
}

int txns_start(struct txns *txns, const struct txn_config *config)
{
	int ret;

	memset(txns, 0, sizeof(*txns));
	txns->config = *config;
	txns->durable_id = txns->released_id = GET(config->super, generation);
	txns->last_super = *config->super;
	txns->log_round = 1;
	short_lock_init(&txns->lock, RANK_TXN);
	txns->running = txn_create(txns, txns->durable_id + 1);
	if (!txns->running)
		return -ENOMEM;
	sem_init(&txns->started, 0, 0);
	config->meta->want_repair_arg = txns;
	config->meta->want_repair = wake_committer;
	ret = -pthread_create(&txns->committer, NULL, txn_committer_main, txns);
	if (!ret) {
		while (sem_wait(&txns->started))
			;
		ret = txns->start_error;
		txns->has_committer = !ret;
		if (ret)
			pthread_join(txns->committer, NULL);
	}
	if (ret)
		free_txns(txns);
	return ret;
}

int txns_stop(struct fsc_thread *t, struct txns *txns)
{
	struct fsc_ctx ctx = {.thread = t};
	int ret;

	if (!txns->has_committer)
		return 0;
	ret = txn_commit(&ctx, txns);
	short_lock(&txns->lock);
	txns->stopping = true;
	/* Under the lock: when it has seen that, its thread is no more. */
	fsc_thread_wake(txns->thread);
	short_unlock(&txns->lock);
	pthread_join(txns->committer, NULL);
	txns->has_committer = false;
	free_txns(txns);
	return ret;
}

/* -------------------------------------------------------------------- waiting */

/* A thread that waits for a message; lives on its stack. */
struct sync_wait {
	struct txn_waiter waiter;
	bool done;
};

static void sync_done(struct fsc_msg *msg)
{
	container_of(msg, struct sync_wait, waiter.msg)->done = true;
}

static void sync_wait_init(struct sync_wait *sw, struct fsc_thread *t)
{
	*sw = (struct sync_wait){.waiter = {.thread = t, .msg.fn = sync_done}};
}

static int sync_wait_for(struct sync_wait *sw)
{
	while (!sw->done)
		fsc_thread_wait(sw->waiter.thread);
	return sw->waiter.status;
}

void txn_add_waiter_locked(struct txn *txn, struct txn_waiter *w)
{
	w->next = txn->waiters;
	txn->waiters = w;
	txn->n_waiters++;
	txn->urgent |= w->urgent;
	if (!txn->wanted)
		txn->first_wanted_ns = clock_now_ns();
	txn->wanted = true;
}

/* Whether the committer must hear of one more waiter. Not of each: it waits for a group. */
static bool must_wake(const struct txns *txns)
{
	const struct txn *txn = txns->running;

	return txns->committer_idle &&
		(txn->urgent || txn->n_waiters == 1 || txn->n_waiters >= txns->expected_waiters);
}

bool txn_wait_durable(struct txns *txns, uint64_t id, struct txn_waiter *w)
{
	struct txn *txn;
	bool waits = true, wake = false;
	int error;

	short_lock(&txns->lock);
	error = txns->error;
	txn = txns->committing && id <= txns->committing->id ? txns->committing : txns->running;
	if (id <= txns->durable_id) {
		waits = false;
	} else if (!error) {
		txn_add_waiter_locked(txn, w);
		wake = must_wake(txns);
	}
	short_unlock(&txns->lock);
	if (!waits)
		return false;
	if (error) {
		w->next = NULL;
		txn_post_waiters(w, -EIO);
	} else if (wake) {
		fsc_thread_wake(txns->thread);
	}
	return true;
}

static bool has_error(struct txns *txns)
{
	bool error;

	short_lock(&txns->lock);
	error = txns->error;
	short_unlock(&txns->lock);
	return error;
}

int txn_commit(struct fsc_ctx *ctx, struct txns *txns)
{
	uint64_t id = txn_last_changed(txns);
	struct sync_wait sw;

	if (has_error(txns))
		return -EIO;
	sync_wait_init(&sw, ctx->thread);
	sw.waiter.urgent = true;
	if (!id || !txn_wait_durable(txns, id, &sw.waiter))
		return 0;
	return sync_wait_for(&sw);
}

/* False: it need not wait. */
static bool wait_for_space(struct txns *txns, struct space_waiter *w)
{
	bool waits;

	short_lock(&txns->lock);
	/* After an abort nothing is given back any more, and nobody is woken. */
	waits = !txns->error && w->id > txns->released_id;
	if (waits) {
		w->next = txns->space_waiters;
		txns->space_waiters = w;
	}
	short_unlock(&txns->lock);
	return waits;
}

int txn_commit_for_space(struct fsc_ctx *ctx, struct txns *txns)
{
	struct sync_wait sw;
	struct space_waiter w = {.waiter = &sw.waiter};
	int ret = txn_commit(ctx, txns);

	if (ret)
		return ret;
	short_lock(&txns->lock);
	w.id = txns->durable_id;
	short_unlock(&txns->lock);
	sync_wait_init(&sw, ctx->thread);
	return wait_for_space(txns, &w) ? sync_wait_for(&sw) : 0;
}

uint64_t txn_last_changed(struct txns *txns)
{
	uint64_t id = 0;

	short_lock(&txns->lock);
	if (txns->running->changed)
		id = txns->running->id;
	else if (txns->committing)
		id = txns->committing->id;
	short_unlock(&txns->lock);
	return id;
}

uint64_t txn_running_id(struct txns *txns)
{
	uint64_t id;

	short_lock(&txns->lock);
	id = txns->running->id;
	short_unlock(&txns->lock);
	return id;
}

void txn_stats_get(struct txns *txns, struct txn_stats *out)
{
	short_lock(&txns->lock);
	*out = txns->stats;
	short_unlock(&txns->lock);
}

/* ----------------------------------------------------------------------- join */

/* Whether so much is dirty that others should wait for the commit. */
static bool is_full(const struct txns *txns)
{
	size_t dirty = txns->running->n_dirty;

	if (txns->committing)
		dirty += txns->committing->n_dirty;
	dirty += atomic_load_explicit(&txns->owed_blocks, memory_order_relaxed);
	return dirty > meta_dirty_limit(txns->config.meta);
}

/* Whether what it owes may soon find no room: then it must be committed first. */
static bool owes_too_much(struct txns *txns)
{
	return txns->running->changed && !txn_settle_has_room(txns, txns->running);
}

/*
 * Counts a handle in the running transaction. -EAGAIN: it takes none now; sw, if given, is
 * told when to try again.
 */
static int try_join(struct txns *txns, struct txn **out, struct sync_wait *sw)
{
	bool wake = false;
	int ret = 0;

	short_lock(&txns->lock);
	if (txns->error) {
		ret = -EROFS;
	} else if (txns->running->state == TXN_RUNNING && !is_full(txns) && !owes_too_much(txns)) {
		*out = txns->running;
		(*out)->n_handles++;
		if (!(*out)->changed) {
			(*out)->changed = true;
			(*out)->first_change_ns = clock_now_ns();
			wake = txns->committer_idle;
		}
	} else {
		ret = -EAGAIN;
		txns->running->wanted = true;
		txns->running->urgent = true;
		wake = txns->committer_idle;
		if (sw) {
			sw->waiter.next = txns->joiners;
			txns->joiners = &sw->waiter;
		}
	}
	short_unlock(&txns->lock);
	if (wake)
		fsc_thread_wake(txns->thread);
	return ret;
}

static int join_running(struct fsc_ctx *ctx, struct txns *txns, struct txn **out)
{
	bool nowait = ctx->flags & FSC_NOWAIT;

	for (;;) {
		struct sync_wait sw;
		int ret;

		sync_wait_init(&sw, ctx->thread);
		ret = try_join(txns, out, nowait ? NULL : &sw);
		if (ret != -EAGAIN)
			return ret;
		if (nowait) {
			ctx->blocked = FSC_BLOCKED_TXN;
			return ret;
		}
		sync_wait_for(&sw);
	}
}

static void leave(struct txns *txns, struct txn *txn)
{
	struct txn_waiter *idle = NULL;

	short_lock(&txns->lock);
	if (--txn->n_handles == 0) {
		idle = txns->idle;
		txns->idle = NULL;
	}
	short_unlock(&txns->lock);
	txn_post_waiters(idle, 0);
}

/*
 * A new chunk, when one is wanted. The chunk code lets one call in at a time; a second
 * one finds that none is wanted any more.
 */
static int make_chunks(struct txn_handle *h)
{
	struct space *space = h->txns->config.space;
	static const enum space_type types[] = {SPACE_SYSTEM, SPACE_METADATA};
	int ret = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(types) && !ret; i++)
		if (space_wants_chunk(space, types[i])) {
			/* What is in it could not be found from the last commit's chunk tree. */
			log_forbid(h);
			ret = space_alloc_chunk(&h->w, space, types[i]);
		}
	return ret == -ENOSPC ? 0 : ret;
}

/* Makes a chunk whether or not one is wanted yet, without a reservation. No handle is held. */
static int force_chunk(struct fsc_ctx *ctx, struct txns *txns, enum space_type type)
{
	struct txn_handle h;
	struct txn *txn;
	/* The chunk tree's blocks: what is not in memory would be missed half-way. */
	int ret = space_prepare_system(ctx, txns->config.space);

	if (!ret)
		ret = join_running(ctx, txns, &txn);
	if (ret)
		return ret;
	txn_handle_init(&h, ctx, txns, txn);
	log_forbid(&h);
	ret = space_alloc_chunk(&h.w, txns->config.space, type);
	if (ret && ret != -ENOSPC)
		txn_abort(&h, ret);
	else
		txn_end(&h);
	return ret;
}

/* Less is waiting to be written after each round; what it did not need may be enough. */
#define FLUSH_ROUNDS 3u

static int reserve_flushing(struct fsc_ctx *ctx, struct txns *txns, enum space_type type,
	uint64_t bytes, unsigned flags)
{
	int ret = -ENOSPC;

	for (unsigned i = 0; ret == -ENOSPC && txns->config.flush_data && i < FLUSH_ROUNDS; i++) {
		txns->config.flush_data(txns->config.arg, ctx, bytes << i);
		ret = space_reserve(txns->config.space, type, bytes, flags & TXN_USE_GLOBAL);
	}
	return ret;
}

int txn_reserve_space(struct fsc_ctx *ctx, struct txns *txns, enum space_type type, uint64_t bytes,
	unsigned flags)
{
	struct space *space = txns->config.space;
	bool use_global = flags & TXN_USE_GLOBAL;
	int ret = space_reserve(space, type, bytes, use_global);

	if (ret != -ENOSPC)
		return ret;
	if (ctx->flags & FSC_NOWAIT) {
		ctx->blocked = FSC_BLOCKED_SPACE;
		return -EAGAIN;
	}
	ret = force_chunk(ctx, txns, type);
	if (ret && ret != -ENOSPC)
		return ret;
	ret = space_reserve(space, type, bytes, use_global);
	if (ret == -ENOSPC)
		ret = reserve_flushing(ctx, txns, type, bytes, flags);
	if (ret == -ENOSPC) {
		ret = txn_commit_for_space(ctx, txns);
		if (!ret)
			ret = space_reserve(space, type, bytes, use_global);
	}
	return ret;
}

/* What others may take at the same time, and the commit. */
#define PREPARE_MARGIN_BYTES (8u << 20)

/* Block groups with room are in memory, so that blocks can be had inside a tree change. */
static int prepare_space(struct fsc_ctx *ctx, struct txns *txns, uint64_t bytes)
{
	struct space *space = txns->config.space;
	int ret = space_prepare_metadata(ctx, space, bytes + PREPARE_MARGIN_BYTES);

	/* Not so much is there: what was promised must be. */
	if (ret == -ENOSPC)
		ret = space_prepare_metadata(ctx, space, bytes);
	if (ret == -ENOSPC && (ctx->flags & FSC_NOWAIT)) {
		ctx->blocked = FSC_BLOCKED_SPACE;
		ret = -EAGAIN;
	}
	return ret;
}

/* What was promised against unallocated space becomes a chunk when it is asked for. */
static int prepare_hard(struct fsc_ctx *ctx, struct txns *txns, uint64_t bytes)
{
	int ret = prepare_space(ctx, txns, bytes);

	if (ret == -ENOSPC && !force_chunk(ctx, txns, SPACE_METADATA))
		ret = prepare_space(ctx, txns, bytes);
	return ret;
}

int txn_reserve(
	struct fsc_ctx *ctx, struct txns *txns, unsigned n_items, unsigned flags, uint64_t *bytes)
{
	uint64_t want = space_items_bytes(txns->config.space, n_items);
	int ret = txn_reserve_space(ctx, txns, SPACE_METADATA, want, flags);

	*bytes = ret ? 0 : want;
	return ret;
}

void txn_unreserve(struct txns *txns, uint64_t bytes)
{
	if (bytes)
		space_unreserve(txns->config.space, SPACE_METADATA, bytes);
}

int txn_join_reserved(struct fsc_ctx *ctx, struct txns *txns, uint64_t bytes, struct txn_handle *h)
{
	struct txn *txn;
	int ret = prepare_hard(ctx, txns, bytes);

	if (!ret)
		ret = join_running(ctx, txns, &txn);
	if (ret) {
		txn_unreserve(txns, bytes);
		return ret;
	}
	txn_handle_init(h, ctx, txns, txn);
	h->reserved_bytes = bytes;
	if (!(ctx->flags & FSC_NOWAIT)) {
		ret = make_chunks(h);
		if (ret)
			txn_abort(h, ret);
	}
	return ret;
}

int txn_join(struct fsc_ctx *ctx, struct txns *txns, unsigned n_items, unsigned flags,
	struct txn_handle *h)
{
	uint64_t bytes;
	int ret = txn_reserve(ctx, txns, n_items, flags, &bytes);

	return ret ? ret : txn_join_reserved(ctx, txns, bytes, h);
}

uint64_t txn_end_keeping(struct txn_handle *h)
{
	uint64_t bytes = h->reserved_bytes;

	h->reserved_bytes = 0;
	txn_end(h);
	return bytes;
}

uint64_t txn_end(struct txn_handle *h)
{
	uint64_t id = h->txn->id;

	txn_unreserve(h->txns, h->reserved_bytes);
	if (h->notes.first)
		log_publish(h);
	leave(h->txns, h->txn);
	h->txn = NULL;
	return id;
}

void txn_abort(struct txn_handle *h, int error)
{
	txn_set_error(h->txns, error);
	log_notes_free(h->notes.first);
	h->notes.first = NULL;
	txn_end(h);
}

int txn_make_chunk(struct fsc_ctx *ctx, struct txns *txns, enum space_type type)
{
	return force_chunk(ctx, txns, type);
}
