/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is to be logged: from the handles of changes to the committer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "fscore/io/thread.h"
#include "fscore/txn/log_private.h"

/* As for commits: what is waited for others is little, and less than a write takes. */
#define MAX_GATHER_NS 2000000u

void log_forbid(struct txn_handle *h)
{
	short_lock(&h->txns->lock);
	h->txn->log.forbidden = true;
	short_unlock(&h->txns->lock);
}

bool log_is_forbidden(struct txns *txns, struct txn *txn)
{
	bool forbidden;

	short_lock(&txns->lock);
	forbidden = txn->log.forbidden;
	short_unlock(&txns->lock);
	return forbidden;
}

struct log_note *log_note_create(struct txn_handle *h, enum log_kind kind, struct tree_root *root,
	uint64_t ino, uint32_t bytes)
{
	struct log_note *note;

	/* Only a hint: it is looked at again when the notes are published. */
	if (!h->txns->config.has_log ||
		atomic_load_explicit(&h->txn->log.forbidden, memory_order_relaxed))
		return NULL;
	note = malloc(sizeof(*note) + bytes);
	if (!note) {
		log_forbid(h);
		return NULL;
	}
	memset(note, 0, sizeof(*note));
	note->kind = kind;
	note->root = root;
	note->ino = ino;
	note->bytes = bytes;
	return note;
}

void log_note_add(struct txn_handle *h, struct log_note *note)
{
	if (!h->notes.first)
		h->notes.end = &h->notes.first;
	note->next = NULL;
	*h->notes.end = note;
	h->notes.end = &note->next;
}

void log_notes_free(struct log_note *notes)
{
	while (notes) {
		struct log_note *note = notes;

		notes = note->next;
		free(note);
	}
}

/*
 * Whether the note is to be kept, as one of this round. If not, a later one of the inode has been
 * published, or it has become the content of an earlier one of this round.
 */
static bool merge_locked(struct txns *txns, struct log_note *note)
{
	struct log_slot *slot = note->slot;
	struct log_note *pending;

	if (!slot)
		return true;
	note->slot = NULL;
	if (note->version < slot->published)
		return false;
	slot->published = note->version;
	pending = slot->round == txns->log_round ? slot->pending : NULL;
	if (pending) {
		pending->kind = note->kind;
		pending->flags |= note->flags;
		pending->item = note->item;
		return false;
	}
	slot->round = txns->log_round;
	slot->pending = note;
	return true;
}

static void publish_locked(
	struct txns *txns, struct txn_log *log, struct log_note *notes, struct log_note **garbage)
{
	while (notes) {
		struct log_note *note = notes;

		notes = note->next;
		if (log->forbidden || !merge_locked(txns, note)) {
			note->next = *garbage;
			*garbage = note;
			continue;
		}
		note->next = NULL;
		*(log->notes ? log->notes_end : &log->notes) = note;
		log->notes_end = &note->next;
		log->notes_bytes += sizeof(*note) + note->bytes;
	}
}

void log_publish(struct txn_handle *h)
{
	struct log_note *garbage = NULL;
	struct txn_log *log = &h->txn->log;

	short_lock(&h->txns->lock);
	publish_locked(h->txns, log, h->notes.first, &garbage);
	if (log->notes_bytes > LOG_NOTES_MAX_BYTES)
		log->forbidden = true;
	short_unlock(&h->txns->lock);
	h->notes = (struct log_notes){.first = NULL};
	log_notes_free(garbage);
}

/* Those who wait for the log wait for the commit from now on. */
static void to_commit_locked(struct txn *txn, struct txn_waiter *waiters)
{
	txn->log.forbidden = true;
	while (waiters) {
		struct txn_waiter *w = waiters;

		waiters = w->next;
		txn_add_waiter_locked(txn, w);
	}
}

/* Whether the committer must hear of one more who waits: not of each, it waits for a group. */
static bool must_wake(const struct txns *txns, const struct txn_log *log)
{
	return txns->committer_idle &&
		(log->n_waiters == 1 || log->n_waiters >= txns->log_expected_waiters);
}

bool txn_wait_logged(struct txns *txns, uint64_t id, struct txn_waiter *w)
{
	bool logged, wake = false;
	struct txn_log *log;

	short_lock(&txns->lock);
	log = &txns->running->log;
	logged = txns->config.has_log && !txns->error && id == txns->running->id && !log->forbidden;
	if (logged) {
		w->next = log->waiters;
		log->waiters = w;
		if (!log->n_waiters++)
			log->first_waiter_ns = clock_now_ns();
		wake = must_wake(txns, log);
	}
	short_unlock(&txns->lock);
	if (!logged)
		return txn_wait_durable(txns, id, w);
	if (wake)
		fsc_thread_wake(txns->thread);
	return true;
}

/* ---------------------------------------------------------------------- the committer */

struct cut {
	struct log_note *notes;
	struct txn_waiter *waiters;
	unsigned n_waiters;
	size_t notes_bytes;
};

/*
 * When the log should be written for those who wait: as many as have lately waited are likely to come
 * again.
 */
static uint64_t due_ns(const struct txns *txns, const struct txn_log *log)
{
	if (log->forbidden || log->n_waiters >= txns->log_expected_waiters)
		return 0;
	return MAX(log->first_waiter_ns, txns->last_log_ns) +
		MIN(txns->usual_log_ns / 4, MAX_GATHER_NS);
}

static void take_locked(struct txns *txns, struct txn_log *log, struct cut *cut)
{
	*cut = (struct cut){log->notes, log->waiters, log->n_waiters, log->notes_bytes};
	log->notes = NULL;
	log->notes_bytes = 0;
	log->waiters = NULL;
	log->n_waiters = 0;
	txns->log_round++;
	/* Who comes meanwhile is seen afterwards. */
	txns->committer_idle = false;
}

enum todo {
	TODO_NOTHING,
	TODO_WRITE,
	TODO_COMMIT, /* those who waited for the log wait for the commit now */
};

static enum todo take_cut(struct txns *txns, struct txn *txn, struct cut *cut, uint64_t *wait_ns)
{
	struct txn_log *log = &txn->log;
	enum todo todo = TODO_NOTHING;

	short_lock(&txns->lock);
	if (log->waiters && !txns->error) {
		uint64_t now = clock_now_ns(), due = due_ns(txns, log);

		if (due > now) {
			*wait_ns = *wait_ns ? MIN(*wait_ns, due - now) : due - now;
		} else {
			todo = log->forbidden ? TODO_COMMIT : TODO_WRITE;
			take_locked(txns, log, cut);
		}
	}
	if (todo == TODO_COMMIT) {
		to_commit_locked(txn, cut->waiters);
		log_notes_free(cut->notes);
	}
	short_unlock(&txns->lock);
	return todo;
}

static void note_round(struct txns *txns, const struct txn *txn, const struct cut *cut, uint64_t ns)
{
	short_lock(&txns->lock);
	txns->usual_log_ns = txns->usual_log_ns ? (7 * txns->usual_log_ns + ns) / 8 : ns;
	txns->log_expected_waiters =
		MAX(cut->n_waiters + txn->log.n_waiters, txns->log_expected_waiters * 7 / 8);
	txns->last_log_ns = clock_now_ns();
	txns->stats.log_waiters += cut->n_waiters;
	txns->stats.log_ns_sum += ns;
	short_unlock(&txns->lock);
}

bool log_work(struct txns *txns, uint64_t *wait_ns)
{
	struct txn *txn = txns->running;
	uint64_t start_ns = clock_now_ns();
	enum todo todo;
	struct cut cut;
	int ret;

	todo = take_cut(txns, txn, &cut, wait_ns);
	if (todo != TODO_WRITE)
		return todo == TODO_COMMIT;
	ret = cut.notes ? log_write(txns, txn, cut.notes, cut.notes_bytes) : 0;
	log_notes_free(cut.notes);
	if (ret) {
		short_lock(&txns->lock);
		to_commit_locked(txn, cut.waiters);
		short_unlock(&txns->lock);
		return true;
	}
	note_round(txns, txn, &cut, clock_now_ns() - start_ns);
	txn_post_waiters(cut.waiters, 0);
	return true;
}

void log_end(struct txn *txn)
{
	log_notes_free(txn->log.notes);
	txn->log.notes = NULL;
	log_trees_destroy(txn->log.trees);
	txn->log.trees = NULL;
}
