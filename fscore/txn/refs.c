/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * References are written by the commit; but who drops or adds very many of them must not make
 * a commit long, for which others wait. So the committer, while it has nothing else to do, writes
 * them in the background, and who makes them waits for it: however many references a file
 * has, the transaction never owes more than a commit has written in a moment.
 */
#include "base/util.h"
#include "fscore/txn/txn_private.h"

#define BATCH_REFS 256u /* at once; then the committer looks what else there is */
#define START_REFS 1024u
#define MOST_REFS  4096u
#define FEW_REFS   64u /* what a commit leaves for when nobody may join */

bool txn_throttle(struct txns *txns, struct txn_waiter *w)
{
	bool wake = false, waits = false;
	size_t owed;

	short_lock(&txns->lock);
	owed = delayed_refs_count(&txns->running->refs_owed);
	if (txns->error) {
		waits = false;
	} else if (txns->commit_begun) {
		waits = owed >= FEW_REFS;
	} else if (owed >= START_REFS) {
		wake = !txns->writing_refs;
		txns->writing_refs = true;
		waits = owed >= MOST_REFS;
	}
	if (waits) {
		w->next = txns->refs_waiters;
		txns->refs_waiters = w;
	}
	short_unlock(&txns->lock);
	if (wake)
		fsc_thread_wake(txns->thread);
	return waits;
}

struct throttled {
	struct txn_waiter waiter;
	bool done;
};

static void go_on(struct fsc_msg *msg)
{
	container_of(msg, struct throttled, waiter.msg)->done = true;
}

void txn_throttle_wait(struct fsc_ctx *ctx, struct txns *txns)
{
	struct throttled t = {.waiter = {.thread = ctx->thread, .msg.fn = go_on}};

	if (txn_throttle(txns, &t.waiter))
		while (!t.done)
			fsc_thread_wait(ctx->thread);
}

struct txn_waiter *txn_take_throttled_locked(struct txns *txns)
{
	struct txn_waiter *waiters = txns->refs_waiters;

	txns->refs_waiters = NULL;
	return waiters;
}

int txn_write_refs_early(struct txn_handle *h)
{
	struct txn *txn = h->txn;
	size_t owed = delayed_refs_count(&txn->refs_owed);
	int ret = 0;

	/* Others join all the time: a second round for what they have added, and no more. */
	for (unsigned round = 0; !ret && owed >= FEW_REFS && round < 2; round++) {
		ret = extent_run_refs(&h->w, &txn->extents, owed);
		owed = delayed_refs_count(&txn->refs_owed);
	}
	return ret;
}

bool txn_write_refs(struct fsc_ctx *ctx, struct txns *txns)
{
	struct txn_waiter *waiters = NULL;
	struct txn *txn = txns->running; /* only the committer, whose thread this is, changes it */
	struct txn_handle h;
	bool more;
	int ret;

	if (!txns->writing_refs)
		return false;
	txn_handle_init(&h, ctx, txns, txn);
	ret = txn_settle_prepare(&h);
	if (!ret)
		ret = extent_run_refs(&h.w, &txn->extents, BATCH_REFS);
	if (ret)
		txn_set_error(txns, ret);
	short_lock(&txns->lock);
	more = !ret && delayed_refs_count(&txn->refs_owed) >= START_REFS;
	txns->writing_refs = more;
	if (!more)
		waiters = txn_take_throttled_locked(txns);
	short_unlock(&txns->lock);
	txn_post_waiters(waiters, ret);
	return true;
}
