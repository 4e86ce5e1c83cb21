/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/epoch.h"

#include "fscore/file/fs.h"

unsigned epoch_enter(struct fsc_volume *vol)
{
	struct read_epochs *e = &vol->epochs;
	unsigned epoch = atomic_load(&e->current);

	atomic_fetch_add(&e->n_reads[epoch], 1);
	/*
	 * If the turn has come between these two, the next turn would not wait for this read: it
	 * must count in the epoch that is current while it looks.
	 */
	while (atomic_load(&e->current) != epoch) {
		epoch_exit(vol, epoch);
		epoch = atomic_load(&e->current);
		atomic_fetch_add(&e->n_reads[epoch], 1);
	}
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
