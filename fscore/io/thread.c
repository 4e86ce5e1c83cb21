/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/io/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/io/dev.h"

#define SQ_ENTRIES 256u
/* More than this in flight still works, but then the kernel has to allocate. */
#define CQ_ENTRIES 2048u

static int ring_init(struct io_uring *ring, unsigned flags)
{
	struct io_uring_params params = {
		.flags = flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE,
		.cq_entries = CQ_ENTRIES,
	};

	return io_uring_queue_init_params(SQ_ENTRIES, ring, &params);
}

/*
 * SINGLE_ISSUER has the kernel refuse submissions of a thread other than the one
 * that made the ring: the rule of fscore.h, checked. With COOP_TASKRUN it does
 * not interrupt a running thread for each completion: those are seen at the
 * thread's next system call, which reaping makes anyhow.
 */
static int ring_open(struct io_uring *ring)
{
	int ret = ring_init(ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN);

	/* kernels before 6.0 */
	return ret == -EINVAL ? ring_init(ring, 0) : ret;
}

int fsc_thread_create(struct fsc_thread **out)
{
	struct fsc_thread *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return -ENOMEM;
	t->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->event_fd < 0) {
		ret = -errno;
		goto free_thread;
	}
	ret = ring_open(&t->ring);
	if (ret)
		goto close_event;
	ret = io_uring_register_eventfd(&t->ring, t->event_fd);
	if (ret)
		goto close_ring;
	short_lock_init(&t->inbox_lock, RANK_IO_INBOX);
	t->inbox_last = &t->inbox_first;
	t->taken_last = &t->taken_first;
	*out = t;
	return 0;

close_ring:
	io_uring_queue_exit(&t->ring);
close_event:
	close(t->event_fd);
free_thread:
	free(t);
	return ret;
}

void fsc_thread_destroy(struct fsc_thread *t)
{
	if (!t)
		return;
	while (t->in_flight)
		fsc_thread_wait(t);
	fsc_thread_reap(t);
	/* A poster may have its message run before it lets go of the lock. */
	short_lock(&t->inbox_lock);
	short_unlock(&t->inbox_lock);
	short_lock_fini(&t->inbox_lock);
	io_uring_queue_exit(&t->ring);
	close(t->event_fd);
	free(t);
}

int fsc_thread_fd(const struct fsc_thread *t)
{
	return t->event_fd;
}

/* Fails only when the counter is at its maximum, and then fd is readable already. */
static void event_signal(struct fsc_thread *t)
{
	int saved = errno;

	eventfd_write(t->event_fd, 1);
	errno = saved;
}

static void event_clear(struct fsc_thread *t)
{
	eventfd_t value;

	eventfd_read(t->event_fd, &value);
}

/* Hands the prepared entries over, as far as the kernel has memory for them. */
static void ring_submit(struct fsc_thread *t)
{
	while (io_uring_sq_ready(&t->ring)) {
		int ret = io_uring_submit(&t->ring);

		if (ret > 0 || ret == -EINTR)
			continue;
		if (ret == 0 || ret == -EAGAIN || ret == -EBUSY || ret == -ENOMEM)
			return;
		log_error("io_uring_submit: %s%s", strerror(-ret),
			ret == -EEXIST ? " (used by two threads)" : "");
		log_stop(); /* so that the line is written */
		abort();
	}
}

static bool queue_once(struct fsc_thread *t, struct io_req *req)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&t->ring);

	if (!sqe) {
		ring_submit(t);
		sqe = io_uring_get_sqe(&t->ring);
	}
	if (!sqe)
		return false;
	dev_uring_prepare(req, sqe);
	io_uring_sqe_set_data(sqe, req);
	return true;
}

void thread_queue(struct fsc_thread *t, struct io_req *req)
{
	if (queue_once(t, req))
		return;
	req->msg.next = t->backlog;
	t->backlog = &req->msg;
}

void fsc_thread_flush(struct fsc_thread *t)
{
	while (t->backlog) {
		struct io_req *req = container_of(t->backlog, struct io_req, msg);
		struct fsc_msg *next = t->backlog->next;

		if (!queue_once(t, req))
			break;
		t->backlog = next;
	}
	ring_submit(t);
	/* Short of memory: come back instead of sleeping on what is not under way. */
	if (t->backlog || io_uring_sq_ready(&t->ring))
		event_signal(t);
}

/*
 * An entry is given back before its callback runs, which may wait (and so reap)
 * itself. io_uring_peek_cqe() fetches what the kernel kept for want of room, too.
 */
static unsigned reap_ring(struct fsc_thread *t)
{
	struct io_uring_cqe *cqe;
	unsigned ran = 0;

	while (io_uring_peek_cqe(&t->ring, &cqe) == 0) {
		struct io_req *req = io_uring_cqe_get_data(cqe);
		int res = cqe->res;

		io_uring_cqe_seen(&t->ring, cqe);
		if (dev_uring_result(req, res))
			ran++;
	}
	return ran;
}

/* The inbox goes to the end of what a callback that waits has left to run. */
static void take_inbox(struct fsc_thread *t)
{
	short_lock(&t->inbox_lock);
	if (t->inbox_first) {
		*t->taken_last = t->inbox_first;
		t->taken_last = t->inbox_last;
		t->inbox_first = NULL;
		t->inbox_last = &t->inbox_first;
	}
	short_unlock(&t->inbox_lock);
}

/*
 * Runs what is in the inbox now; what these messages post runs the next time, so
 * this ends.
 */
static unsigned reap_inbox(struct fsc_thread *t)
{
	unsigned ran = 0;

	take_inbox(t);
	while (t->taken_first) {
		struct fsc_msg *msg = t->taken_first;

		t->taken_first = msg->next;
		if (!t->taken_first)
			t->taken_last = &t->taken_first;
		msg->fn(msg);
		ran++;
	}
	return ran;
}

unsigned fsc_thread_reap(struct fsc_thread *t)
{
	unsigned ran;

	event_clear(t);
	ran = reap_ring(t);
	ran += reap_inbox(t);
	return ran;
}

/* Whether the eventfd tells of all there is to do: not of what was reaped, but not run. */
static bool may_sleep(struct fsc_thread *t)
{
	return !t->taken_first && !atomic_load(&t->woken);
}

/* One round: until there is something to do, or the time is over (NULL: no limit). */
static bool wait_once(struct fsc_thread *t, const struct timespec *limit)
{
	struct pollfd pfd = {.fd = t->event_fd, .events = POLLIN};
	bool woken;
	unsigned ran;

	fsc_thread_flush(t);
	if (may_sleep(t))
		ppoll(&pfd, 1, limit, NULL);
	ran = fsc_thread_reap(t);
	woken = atomic_exchange(&t->woken, false);
	return ran || woken;
}

void fsc_thread_wait(struct fsc_thread *t)
{
	might_wait("fsc_thread_wait");
	while (!wait_once(t, NULL))
		;
}

void thread_wait_for(struct fsc_thread *t, uint64_t limit_ns)
{
	struct timespec limit = {
		.tv_sec = (time_t)(limit_ns / 1000000000u),
		.tv_nsec = (long)(limit_ns % 1000000000u),
	};

	might_wait("thread_wait_for");
	wait_once(t, &limit);
}

void fsc_thread_post(struct fsc_thread *t, struct fsc_msg *msg)
{
	msg->next = NULL;
	short_lock(&t->inbox_lock);
	/* Who finds others before it knows that their signal has not been answered. */
	bool was_empty = !t->inbox_first;
	*t->inbox_last = msg;
	t->inbox_last = &msg->next;
	/* Under the lock, or t might be destroyed before. Does not sleep. */
	if (was_empty)
		event_signal(t);
	short_unlock(&t->inbox_lock);
}

void fsc_thread_wake(struct fsc_thread *t)
{
	atomic_store(&t->woken, true);
	event_signal(t);
}
