/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A device that holds a volume: one interface, several backends.
 *
 *   dev_uring_open()     a file or block device, through the thread's io_uring
 *   dev_mem_create()     memory, for tests
 *   dev_fault_create()   another device, with faults injected
 *   dev_record_create()  another device, recording what is written and flushed
 *
 * A request is submitted by a thread and completes on that thread, inside
 * fsc_thread_reap() or fsc_thread_wait(), never inside dev_submit().
 */
#ifndef FSCORE_IO_DEV_H
#define FSCORE_IO_DEV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fscore/fscore.h"

enum io_op {
	IO_READ,
	IO_WRITE,
	IO_FLUSH, /* what completed before it is durable when it completes */
	/* What is there is of no use any more; it reads as anything then. -EOPNOTSUPP. No iovec. */
	IO_DISCARD,
};

#define IO_OPS 4u

#define IO_MAX_IOV 256u

/*
 * One request; the caller owns it and keeps it, the iovec array and the buffers
 * until done is called. physical, len_bytes and the buffers are aligned to
 * dev->align_bytes. len_bytes is the sum of the iovec.
 */
struct io_req {
	enum io_op op;
	uint64_t physical;
	const struct iovec *iov;
	unsigned n_iov; /* at most IO_MAX_IOV */
	size_t len_bytes;
	bool fua; /* a write that is durable when it is done; others need not be */
	void (*done)(struct io_req *req);
	int status; /* when done: 0 or -errno; what is cut short is continued, or -EIO */

	/* the device's own */
	struct dev *dev;
	struct fsc_thread *thread;
	struct fsc_msg msg;
	size_t done_bytes;
	struct iovec *rest_iov; /* what is left after a short transfer */
	unsigned retries;
};

struct dev_stats {
	_Atomic uint64_t reads, read_bytes, read_errors;
	_Atomic uint64_t writes, write_bytes, write_errors;
	_Atomic uint64_t flushes;
	_Atomic uint64_t discards, discard_bytes; /* that have succeeded */
};

struct dev;

struct dev_ops {
	void (*submit)(struct dev *dev, struct fsc_thread *t, struct io_req *req);
	void (*destroy)(struct dev *dev);
};

/* Embedded first in each backend's own structure. Immutable but for stats. */
struct dev {
	const struct dev_ops *ops;
	uint64_t size_bytes;
	uint32_t align_bytes;
	bool read_only;
	struct dev_stats stats;
};

/*
 * Opens the file or block device at path. Without read_only also for writing
 * (read-only if the file's permissions allow no more: dev->read_only tells).
 * O_DIRECT where the file system below has it. Takes an exclusive lock unless
 * no_lock: -EBUSY, with a logged line that says why, when another process holds it,
 * when the kernel has mounted the block device, or when a loop device is attached
 * to the file. Might wait.
 */
int dev_uring_open(const char *path, bool read_only, bool no_lock, struct dev **out);

/* size_bytes of zeros, or of the size_bytes at image (copied) when it is not NULL. */
int dev_mem_create(const void *image, size_t size_bytes, struct dev **out);

/* The memory of a memory device, for tests to look at and to damage. */
void *dev_mem_data(struct dev *dev);

/* What happens to a request that a rule matches. */
enum fault_action {
	FAULT_ERROR, /* ends with rule.error, and does nothing */
	/* Only the first rule.bytes are transferred, aligned as inner needs it, then rule.error. */
	FAULT_TORN,
	FAULT_CORRUPT, /* a read: one byte of the result, at rule.bytes, is inverted */
	FAULT_HOLD,    /* is carried out when dev_fault_release() is called */
};

struct fault_rule {
	bool op[IO_OPS];     /* indexed by enum io_op: which requests count */
	uint64_t first, end; /* physical range that a request must touch; 0, 0: any */
	uint64_t skip;	     /* let that many matching requests pass first */
	uint64_t count;	     /* then hit that many; 0: all */
	enum fault_action action;
	int error; /* negative */
	size_t bytes;
};

/* Takes over inner. */
int dev_fault_create(struct dev *inner, struct dev **out);
/*
 * Adds a rule; any thread. Of those that match and have let enough requests pass, the
 * first one applies. -ENOMEM.
 */
int dev_fault_add(struct dev *dev, const struct fault_rule *rule);
/* Removes all rules; held requests are released. */
void dev_fault_clear(struct dev *dev);
void dev_fault_release(struct dev *dev);
/* How many requests of this kind have been seen: for "the nth of each" loops. */
uint64_t dev_fault_seen(struct dev *dev, enum io_op op);

/* One write or flush that succeeded, in the order in which they completed. */
struct record_entry {
	enum io_op op;
	uint64_t physical;
	size_t len_bytes;
	const void *data;
	/*
	 * Of a flush: how many entries there were when it was submitted. It is they
	 * that it makes durable; not those that completed while it ran.
	 */
	size_t covers;
	bool fua; /* a write that was durable when it completed */
};

/* Takes over inner. */
int dev_record_create(struct dev *inner, struct dev **out);
/* How many there are now. */
size_t dev_record_count(struct dev *dev);
/* Entry i < count; the data stays valid until the device is destroyed. */
void dev_record_entry(struct dev *dev, size_t i, struct record_entry *out);

/* -- for every device -- */

/* Queues a request; fsc_thread_flush() or _wait() hands it on. Never waits, never fails. */
void dev_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req);

/* Reads or writes and waits. Might wait. 0 or -errno. */
int dev_rw_sync(struct dev *dev, struct fsc_thread *t, enum io_op op, uint64_t physical, void *buf,
	size_t len_bytes);

/* NULL is allowed; no request is in flight. */
void dev_destroy(struct dev *dev);

/* -- for backends -- */

/*
 * Ends a request that was submitted to req->dev: counts it and calls done. Only
 * on req->thread and never from within submit(). req may be gone on return.
 */
void dev_complete(struct io_req *req, int status);

/* The same by way of a message to req->thread; any thread, anywhere. */
void dev_complete_later(struct io_req *req, int status);

#endif
