/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * struct fsc_thread (fscore.h), as the devices see it: the io_uring ring and the
 * inbox of one thread, and the eventfd that tells of both.
 *
 * The ring and all counters belong to the thread. Other threads touch only the
 * inbox (guarded by inbox_lock, RANK_IO_INBOX), woken and the eventfd.
 *
 * No wakeup is lost: whoever adds something adds it first and writes the eventfd
 * then, and reaping clears the eventfd first and looks for things then.
 */
#ifndef FSCORE_IO_THREAD_H
#define FSCORE_IO_THREAD_H

#include <liburing.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/lock.h"
#include "fscore/fscore.h"

struct io_req;

struct fsc_thread {
	/* immutable */
	int event_fd; /* registered with the ring */

	/* owned by the thread */
	struct io_uring ring;	     /* the user data of each entry is a struct io_req */
	unsigned in_flight;	     /* requests of any device that have not completed */
	struct fsc_msg *taken_first; /* out of the inbox, not run yet */
	struct fsc_msg **taken_last;
	struct fsc_msg *backlog; /* the msg of io_reqs that found no entry free */

	/* any thread */
	_Atomic bool woken;

	/* guarded by inbox_lock */
	struct short_lock inbox_lock;
	struct fsc_msg *inbox_first;
	struct fsc_msg **inbox_last;
};

/*
 * For dev_uring.c: queues a request (again). Never waits; what the kernel does
 * not take now, fsc_thread_flush() offers again.
 */
void thread_queue(struct fsc_thread *t, struct io_req *req);

/*
 * Implemented by dev_uring.c. Fills in the ring entry of a request; and takes
 * the result of one: true when req->done was called, false when it goes on.
 */
void dev_uring_prepare(struct io_req *req, struct io_uring_sqe *sqe);
bool dev_uring_result(struct io_req *req, int res);

/* As fsc_thread_wait(), but also returns when limit_ns are over. Might wait. */
void thread_wait_for(struct fsc_thread *t, uint64_t limit_ns);

#endif
