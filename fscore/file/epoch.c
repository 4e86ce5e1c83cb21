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

	if (atomic_fetch_sub(&e->n_reads[epoch], 1) != 1 || atomic_load(&e->current) == epoch)
		return;
	waiter = atomic_load(&e->waiter);
	if (waiter)
		fsc_thread_wake(waiter);
}

uint64_t epoch_unread(struct fsc_volume *vol, struct fsc_thread *t, uint64_t durable_id)
{
	struct read_epochs *e = &vol->epochs;

	/* Before looking at the counter: whoever takes it to zero then sees it. */
	atomic_store(&e->waiter, t);
	for (;;) {
		unsigned old = 1 - atomic_load(&e->current);

		if (atomic_load(&e->n_reads[old]))
			return e->unread_id;
		e->unread_id = e->turn_id;
		if (e->unread_id >= durable_id)
			break;
		e->turn_id = durable_id;
		atomic_store(&e->current, old);
	}
	atomic_store(&e->waiter, NULL);
	return e->unread_id;
}

void epoch_stop(struct fsc_volume *vol)
{
	atomic_store(&vol->epochs.waiter, NULL);
}
