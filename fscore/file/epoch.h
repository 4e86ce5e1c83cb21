/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps what is being read from being overwritten: a read that has looked an extent up holds an
 * epoch until its data is there; space that a transaction has freed is allocated again only when
 * all reads have ended that could have looked it up.
 *
 * Two counters take turns: the committer turns to the other one, after its transaction is on disk,
 * and waits for the old one to come to zero. A read that begins after the turn sees the new trees.
 */
#ifndef FSCORE_FILE_EPOCH_H
#define FSCORE_FILE_EPOCH_H

#include <stdatomic.h>

struct fsc_volume;
struct fsc_thread;

struct read_epochs {
	_Atomic unsigned current; /* 0 or 1 */
	_Atomic unsigned n_reads[2];
	_Atomic(struct fsc_thread *) waiter; /* is woken when a counter comes to zero */
};

/* Begins a read; returns what epoch_exit() takes. Any thread, never waits. */
unsigned epoch_enter(struct fsc_volume *vol);

/* Another hold of an epoch that the caller holds. */
void epoch_ref(struct fsc_volume *vol, unsigned epoch);

void epoch_exit(struct fsc_volume *vol, unsigned epoch);

/* Waits until every read that has begun before has ended. The committer alone. Might wait. */
void epoch_wait(struct fsc_volume *vol, struct fsc_thread *t);

#endif
