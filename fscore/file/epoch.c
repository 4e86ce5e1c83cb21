/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/epoch.h"

#include "fscore/file/fs.h"

unsigned epoch_enter(struct fsc_volume *vol)
{
	struct read_epochs *e = &vol->epochs;
	unsigned epoch = atomic_load(&e->current);

	/*
	 * If the turn comes between these two, this read counts in the old epoch and begins after
	 * the turn: it holds up nobody for longer than itself, and sees nothing old.
	 */
	atomic_fetch_add(&e->n_reads[epoch], 1);
	return epoch;
}

void epoch_ref(struct fsc_volume *vol, unsigned epoch)
{
	atomic_fetch_add(&vol->epochs.n_reads[epoch], 1);
}

void epoch_exit(struct fsc_volume *vol, unsigned epoch)
{
	struct read_epochs *e = &vol->epochs;
	struct fsc_thread *waiter;

	if (atomic_fetch_sub(&e->n_reads[epoch], 1) != 1)
		return;
	waiter = atomic_load(&e->waiter);
	if (waiter)
		fsc_thread_wake(waiter);
}

void epoch_wait(struct fsc_volume *vol, struct fsc_thread *t)
{
	struct read_epochs *e = &vol->epochs;
	unsigned old = atomic_load(&e->current);

	atomic_store(&e->waiter, t);
	atomic_store(&e->current, 1 - old);
	while (atomic_load(&e->n_reads[old]))
		fsc_thread_wait(t);
	atomic_store(&e->waiter, NULL);
}
