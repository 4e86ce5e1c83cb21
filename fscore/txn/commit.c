/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The committer: when to commit, and settling a transaction. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "fscore/io/thread.h"
#include "fscore/tree/leaf.h"
#include "fscore/txn/txn_private.h"

/* Settling ends after a few rounds; more than this many is a bug. */
#define MAX_ROUNDS 1000u

/* How long a commit waits, at most, for others who are likely to want it, too. */
#define MAX_GATHER_NS 5000000u

/* ------------------------------------------------------------------ root items */

static int grow_root_item(struct tree_writer *w, struct tree_path *path)
{
	uint32_t old = path_data_bytes(path), full = (uint32_t)sizeof(struct btrfs_root_item);
	char *data;

	(void)w;
	if (old >= full)
		return 0;
	data = path_resize_item(path, full);
	memset(data + old, 0, full - old);
	return 0;
}

static int find_root_item(
	struct tree_writer *w, struct txns *txns, uint64_t id, struct tree_path *path)
{
	struct btrfs_key key = key_make(id, BTRFS_ROOT_ITEM_KEY, UINT64_MAX);
	int ret = tree_search_before(w->ctx, txns->config.root_tree, &key, path);

	if (ret < 0)
		return ret;
	if (!path_is_at(path, id, BTRFS_ROOT_ITEM_KEY)) {
		path_release(path);
		return -EUCLEAN;
	}
	key = path_key(path);
	path_release(path);
	ret = tree_search_modify(
		w, txns->config.root_tree, &key, (int)sizeof(struct btrfs_root_item), path);
	if (ret == 1) {
		path_release(path);
		ret = -EUCLEAN;
	}
	return ret;
}

int txn_update_root_item(struct tree_writer *w, struct txns *txns, struct tree_root *root)
{
	struct tree_path path = PATH_INIT;
	struct btrfs_root_item *item;
	int ret = find_root_item(w, txns, root->id, &path);

	if (ret)
		return ret;
	grow_root_item(w, &path);
	item = path_data_mut(&path);
	PUT(item, bytenr, root->bytenr);
	PUT(item, generation, root->generation);
	PUT(item, generation_v2, root->generation);
	item->level = root->level;
	if (root->shared_blocks)
		PUT(item, ctransid, w->generation);
	path_release(&path);
	return 0;
}

static struct tree_root *pop_dirty_root(struct txns *txns, struct txn *txn)
{
	struct tree_root *root;

	short_lock(&txns->lock);
	root = txn->dirty_roots;
	if (root) {
		txn->dirty_roots = root->next_dirty;
		root->next_dirty = NULL;
		root->dirty = false;
	}
	short_unlock(&txns->lock);
	return root;
}

/* -------------------------------------------------------------------- settling */

static int update_roots(struct tree_writer *w, struct txns *txns, struct txn *txn, bool *changed)
{
	struct tree_root *root;
	int ret = 0;

	while (!ret && (root = pop_dirty_root(txns, txn))) {
		*changed = true;
		ret = txn_update_root_item(w, txns, root);
	}
	return ret;
}

/* Until writing the references, roots and block groups changes none of them any more. */
static int settle(struct tree_writer *w, struct txns *txns, struct txn *txn)
{
	/*
	 * The root tree's root must be of this generation, as the superblock will be, also when
	 * nothing else has changed: this copies it.
	 */
	int ret = txn_update_root_item(w, txns, txns->config.extent_tree);
	bool changed = true;

	if (!ret && txns->config.write_files)
		ret = txns->config.write_files(txns->config.arg, w);
	for (unsigned round = 0; !ret && changed; round++) {
		bool more = false;

		if (round == MAX_ROUNDS)
			return -EUCLEAN;
		changed = delayed_refs_count(&txn->refs_owed) > 0;
		ret = extent_run_refs(w, &txn->extents, 0);
		if (!ret)
			ret = space_write_groups(w, txns->config.space, &more);
		changed |= more;
		if (!ret)
			ret = update_roots(w, txns, txn, &changed);
	}
	return ret;
}

static uint64_t root_of(const struct tree_root *root)
{
	return root ? root->bytenr : 0;
}

/* One of the four backup roots, in turns: for tools that repair. */
static void fill_backup(const struct txn_config *c, struct btrfs_super_block *sb)
{
	struct btrfs_root_backup *b =
		&sb->super_roots[GET(sb, generation) % BTRFS_NUM_BACKUP_ROOTS];

	memset(b, 0, sizeof(*b));
#define BACKUP(name, root)                                           \
	do {                                                         \
		PUT(b, name, root_of(root));                         \
		PUT(b, name##_gen, (root) ? (root)->generation : 0); \
		b->name##_level = (root) ? (root)->level : 0;        \
	} while (0)
	BACKUP(tree_root, c->root_tree);
	BACKUP(chunk_root, c->chunk_tree);
	BACKUP(extent_root, c->extent_tree);
	BACKUP(fs_root, c->top_tree);
	BACKUP(dev_root, c->dev_tree);
	BACKUP(csum_root, c->csum_tree);
#undef BACKUP
	PUT(b, total_bytes, GET(sb, total_bytes));
	PUT(b, bytes_used, GET(sb, bytes_used));
	PUT(b, num_devices, GET(sb, num_devices));
}

/* The superblock that makes the settled trees the volume's. */
static void make_super(struct txns *txns, struct txn *txn, struct btrfs_super_block *sb)
{
	const struct txn_config *c = &txns->config;

	/* The uuid tree was true for the last generation: it has not been changed since. */
	if (GET(c->super, uuid_tree_generation) == GET(c->super, generation))
		PUT(c->super, uuid_tree_generation, txn->id);
	PUT(c->super, generation, txn->id);
	PUT(c->super, root, c->root_tree->bytenr);
	c->super->root_level = c->root_tree->level;
	PUT(c->super, chunk_root, c->chunk_tree->bytenr);
	PUT(c->super, chunk_root_generation, c->chunk_tree->generation);
	c->super->chunk_root_level = c->chunk_tree->level;
	PUT(c->super, bytes_used, space_used_on_disk(c->space));
	/* The v1 cache is not kept up: it is void from the first commit on. */
	PUT(c->super, cache_generation, 0);
	PUT(c->super, log_root, 0);
	c->super->log_root_level = 0;
	fill_backup(c, c->super);
	*sb = *c->super;
}

/* ------------------------------------------------------------------ the commit */

struct idle_wait {
	struct txn_waiter waiter;
	bool done;
};

static void on_idle(struct fsc_msg *msg)
{
	container_of(msg, struct idle_wait, waiter.msg)->done = true;
}

/* Takes no more handles, and waits for those that there are. */
static void close_joins(struct txns *txns, struct txn *txn)
{
	struct idle_wait wait = {.waiter = {.thread = txns->thread, .msg.fn = on_idle}};
	bool busy;

	short_lock(&txns->lock);
	txn->state = TXN_CLOSING;
	busy = txn->n_handles > 0;
	if (busy) {
		wait.waiter.next = txns->idle;
		txns->idle = &wait.waiter;
	}
	short_unlock(&txns->lock);
	while (busy && !wait.done)
		fsc_thread_wait(txns->thread);
	short_lock(&txns->lock);
	txn->state = TXN_SETTLING;
	short_unlock(&txns->lock);
}

/* The trees are frozen: the next transaction runs from now on. */
static void open_next(struct txns *txns, struct txn *txn, struct txn *next)
{
	struct txn_waiter *joiners, *throttled;

	short_lock(&txns->lock);
	txn->state = TXN_WRITING;
	txns->commit_begun = false;
	txns->committing = txn;
	txns->running = next;
	txns->log_round++;
	joiners = txns->joiners;
	txns->joiners = NULL;
	throttled = txn_take_throttled_locked(txns);
	short_unlock(&txns->lock);
	txn_post_waiters(joiners, 0);
	txn_post_waiters(throttled, 0);
}

static void note_commit(struct txns *txns, uint64_t closed_ns, uint64_t commit_ns, uint64_t n_refs)
{
	short_lock(&txns->lock);
	txns->usual_commit_ns =
		txns->usual_commit_ns ? (7 * txns->usual_commit_ns + commit_ns) / 8 : commit_ns;
	txns->stats.commits++;
	txns->stats.refs_max = MAX(txns->stats.refs_max, n_refs);
	txns->stats.closed_ns_sum += closed_ns;
	txns->stats.commit_ns_sum += commit_ns;
	txns->stats.closed_ns_max = MAX(txns->stats.closed_ns_max, closed_ns);
	txns->stats.commit_ns_max = MAX(txns->stats.commit_ns_max, commit_ns);
	short_unlock(&txns->lock);
}

/* It is on disk, or never will be: tells who waits, and frees it. */
static void finish(struct txns *txns, struct txn *txn, int error)
{
	struct txn_waiter *waiters, *logged, *joiners;

	short_lock(&txns->lock);
	txn->state = error ? TXN_ABORTED : TXN_DONE;
	if (!error)
		txns->durable_id = txn->id;
	txns->committing = NULL;
	/* Those who wait already for the next one are not among those who come again. */
	txns->expected_waiters =
		MAX(txn->n_waiters + txns->running->n_waiters, txns->expected_waiters * 7 / 8);
	txns->last_commit_ns = clock_now_ns();
	txns->stats.waiters += txn->n_waiters;
	waiters = txn->waiters;
	logged = txn->log.waiters;
	/* Those who waited for memory, too. */
	joiners = txns->joiners;
	txns->joiners = NULL;
	short_unlock(&txns->lock);
	txn_post_waiters(waiters, error ? -EIO : 0);
	txn_post_waiters(logged, error ? -EIO : 0);
	txn_post_waiters(joiners, 0);
}

/* Those who wait for the space of transactions up to this one. */
static struct txn_waiter *take_space_waiters_locked(struct txns *txns, uint64_t id)
{
	struct space_waiter **at = &txns->space_waiters;
	struct txn_waiter *taken = NULL;

	while (*at) {
		struct space_waiter *sw = *at;

		if (sw->id > id) {
			at = &sw->next;
			continue;
		}
		*at = sw->next;
		sw->waiter->next = taken;
		taken = sw->waiter;
	}
	return taken;
}

/* Gives back what was freed by transactions that are on disk, as far as nobody is reading it. */
static bool release_some(struct txns *txns)
{
	/* These two are changed by this thread alone. */
	uint64_t id = txns->durable_id;
	struct txn_waiter *waiters;

	if (id == txns->released_id)
		return false;
	if (txns->config.unread_id)
		id = txns->config.unread_id(txns->config.arg, txns->thread, id);
	if (id > txns->released_id)
		id = txn_discard(txns, id);
	if (id <= txns->released_id)
		return false;
	space_unpin(txns->config.space, id);
	short_lock(&txns->lock);
	txns->released_id = id;
	waiters = take_space_waiters_locked(txns, id);
	short_unlock(&txns->lock);
	txn_post_waiters(waiters, 0);
	return true;
}

static bool has_failed(struct txns *txns)
{
	bool failed;

	short_lock(&txns->lock);
	failed = txns->error;
	short_unlock(&txns->lock);
	return failed;
}

/* Commits the running transaction. An error has been noted when it returns. */
static void commit(struct txns *txns)
{
	struct fsc_ctx ctx = {.thread = txns->thread};
	struct txn *txn = txns->running, *next = txn_create(txns, txn->id + 1);
	struct btrfs_super_block *super = malloc(sizeof(*super));
	uint64_t start_ns = clock_now_ns(), closed_ns, open_ns, n_refs;
	struct txn_handle h;
	int ret = next && super ? 0 : -ENOMEM;

	txn_handle_init(&h, &ctx, txns, txn);
	n_refs = delayed_refs_count(&txn->refs_owed);
	short_lock(&txns->lock);
	txns->commit_begun = true;
	short_unlock(&txns->lock);
	if (!ret)
		ret = txn_settle_prepare(&h);
	if (!ret)
		ret = txn_write_refs_early(&h);
	closed_ns = clock_now_ns();
	if (!ret) {
		close_joins(txns, txn);
		ret = has_failed(txns) ? -EROFS : txn_settle_prepare(&h);
	}
	if (!ret)
		ret = settle(&h.w, txns, txn);
	if (!ret) {
		make_super(txns, txn, super);
		open_next(txns, txn, next);
		next = NULL;
		open_ns = clock_now_ns();
		ret = txn_write_out(&ctx, txns, txn, super);
		if (!ret)
			txns->last_super = *super;
		if (!ret)
			note_commit(txns, open_ns - closed_ns, clock_now_ns() - start_ns, n_refs);
	}
	free(super);
	txn_free(next);
	if (ret)
		txn_set_error(txns, ret);
	if (txns->running != txn) {
		finish(txns, txn, ret);
		txn_free(txn);
	}
}

/* After an abort: nobody may go on waiting. */
static void fail_all(struct txns *txns)
{
	struct txn_waiter *waiters, *logged, *joiners, *for_space, *throttled;

	short_lock(&txns->lock);
	throttled = txn_take_throttled_locked(txns);
	waiters = txns->running->waiters;
	txns->running->waiters = NULL;
	logged = txns->running->log.waiters;
	txns->running->log.waiters = NULL;
	for_space = take_space_waiters_locked(txns, UINT64_MAX);
	joiners = txns->joiners;
	txns->joiners = NULL;
	short_unlock(&txns->lock);
	txn_post_waiters(waiters, -EIO);
	txn_post_waiters(logged, -EIO);
	txn_post_waiters(for_space, -EIO);
	txn_post_waiters(throttled, -EIO);
	txn_post_waiters(joiners, -EROFS);
}

/* When the running transaction, which has changed something, should be committed. */
static uint64_t due_ns(const struct txns *txns)
{
	const struct txn *txn = txns->running;

	if (!txn->wanted)
		return txn->first_change_ns + txns->config.interval_ns;
	if (txn->urgent || txn->n_waiters >= txns->expected_waiters)
		return 0;
	/* Whom the last commit has served comes again a little later. */
	return MAX(txn->first_wanted_ns, txns->last_commit_ns) +
		MIN(txns->usual_commit_ns / 4, MAX_GATHER_NS);
}

/* Whether to commit now; *wait_ns: if not, how long until it may be time (0: no limit). */
static bool is_time(struct txns *txns, uint64_t *wait_ns)
{
	uint64_t now = clock_now_ns(), due = UINT64_MAX;

	short_lock(&txns->lock);
	/* Somebody may want what has not changed: it is on disk as it is. */
	if (txns->running->changed)
		due = due_ns(txns);
	*wait_ns = due > now && due < UINT64_MAX ? due - now : 0;
	txns->committer_idle = due > now;
	short_unlock(&txns->lock);
	return due <= now;
}

void *txn_committer_main(void *arg)
{
	struct txns *txns = arg;
	struct fsc_ctx ctx = {0};
	bool stopping = false;

	pthread_setname_np(pthread_self(), "committer");
	/* A ring belongs to the thread that makes it. */
	txns->start_error = fsc_thread_create(&txns->thread);
	sem_post(&txns->started);
	if (txns->start_error)
		return NULL;
	ctx.thread = txns->thread;
	txn_discard_start(txns);
	while (!stopping) {
		uint64_t wait_ns;

		while (release_some(txns))
			;
		if (!has_failed(txns))
			txn_repair_blocks(txns);
		if (has_failed(txns)) {
			fail_all(txns);
			wait_ns = 0;
		} else if (is_time(txns, &wait_ns)) {
			commit(txns);
			continue;
		} else if (log_work(txns, &wait_ns)) {
			continue;
		} else if (txn_write_refs(&ctx, txns)) {
			continue;
		}
		if (wait_ns)
			thread_wait_for(txns->thread, wait_ns);
		else
			fsc_thread_wait(txns->thread);
		short_lock(&txns->lock);
		stopping = txns->stopping;
		short_unlock(&txns->lock);
	}
	txn_discard_stop(txns);
	fsc_thread_destroy(txns->thread);
	return NULL;
}
