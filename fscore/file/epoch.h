/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps what is being read from being overwritten: a read that has looked an extent up holds an
 * epoch until its data is there; space that a transaction has freed is allocated again only when
 * all reads have ended that could have looked it up. Commits do not wait for that.
 *
 * Two counters take turns: when a transaction is on disk the committer turns to the other one, as
 * soon as that is at zero. A read that begins after the turn sees the new trees; when the old
 * counter comes to zero, nobody reads any more what transactions before the turn have freed.
 */
#ifndef FSCORE_FILE_EPOCH_H
#define FSCORE_FILE_EPOCH_H

#include <stdatomic.h>
#include <stdint.h>

struct fsc_volume;
struct fsc_thread;

struct read_epochs {
	_Atomic unsigned current; /* 0 or 1 */
	_Atomic unsigned n_reads[2];
	_Atomic(struct fsc_thread *) waiter; /* is woken when the old counter comes to zero */
	/* the committer's */
	uint64_t turn_id; /* the last transaction that was on disk at the last turn */
	uint64_t unread_id;
};

/* Begins a read; returns what epoch_exit() takes. Any thread, never waits. */
unsigned epoch_enter(struct fsc_volume *vol);

/* Another hold of an epoch that the caller holds. */
void epoch_ref(struct fsc_volume *vol, unsigned epoch);

void epoch_exit(struct fsc_volume *vol, unsigned epoch);

/*
 * The newest transaction of which it is sure that nobody reads what it, or one before it, has
 * freed; durable_id is the newest that is on disk. As long as the result is less, t, the
 * committer's thread, is woken when it may be more. Never waits.
 */
uint64_t epoch_unread(struct fsc_volume *vol, struct fsc_thread *t, uint64_t durable_id);

/* The committer's thread is gone; no other thread reads. */
void epoch_stop(struct fsc_volume *vol);

#endif
