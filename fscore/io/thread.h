/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * struct fsc_thread (fscore.h), as the devices see it: the io_uring ring and the
 * inbox of one thread, and the eventfd that tells of both.
 *
 * The ring and all counters belong to the thread. Other threads touch only the
 * inbox (guarded by inbox_lock, RANK_IO_INBOX) and the eventfd.
 */
#ifndef FSCORE_IO_THREAD_H
#define FSCORE_IO_THREAD_H

#include <liburing.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "fscore/fscore.h"

struct fsc_thread {
	/* owned by the thread */
	struct io_uring ring;
	int event_fd; /* immutable; registered with the ring */
	unsigned queued;    /* prepared, not yet given to the kernel */
	unsigned in_flight; /* requests of any device that have not completed */

	/* guarded by inbox_lock */
	struct short_lock inbox_lock;
	struct fsc_msg *inbox_first;
	struct fsc_msg **inbox_last;
};

#endif
