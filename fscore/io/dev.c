/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/io/dev.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "fscore/io/thread.h"

static void count(struct io_req *req)
{
	struct dev_stats *s = &req->dev->stats;
	bool failed = req->status != 0;

	switch (req->op) {
	case IO_READ:
		atomic_fetch_add(&s->reads, 1);
		atomic_fetch_add(
			failed ? &s->read_errors : &s->read_bytes, failed ? 1 : req->len_bytes);
		break;
	case IO_WRITE:
		atomic_fetch_add(&s->writes, 1);
		atomic_fetch_add(
			failed ? &s->write_errors : &s->write_bytes, failed ? 1 : req->len_bytes);
		break;
	case IO_FLUSH:
		atomic_fetch_add(&s->flushes, 1);
		if (failed)
			atomic_fetch_add(&s->write_errors, 1);
		break;
	case IO_DISCARD:
		atomic_fetch_add(&s->discards, !failed);
		atomic_fetch_add(&s->discard_bytes, failed ? 0 : req->len_bytes);
		break;
	}
}

void dev_complete(struct io_req *req, int status)
{
	free(req->rest_iov);
	req->rest_iov = NULL;
	req->status = status;
	req->thread->in_flight--;
	count(req);
	req->done(req);
}

static void run_complete(struct fsc_msg *msg)
{
	struct io_req *req = container_of(msg, struct io_req, msg);

	dev_complete(req, req->status);
}

void dev_complete_later(struct io_req *req, int status)
{
	req->status = status;
	req->msg.fn = run_complete;
	fsc_thread_post(req->thread, &req->msg);
}

static int check(const struct dev *dev, const struct io_req *req)
{
	if (req->op != IO_READ && dev->read_only)
		return -EROFS;
	if (req->op == IO_FLUSH)
		return 0;
	/* Addresses come from the volume: a damaged one must not get further. */
	if (req->physical > dev->size_bytes || req->len_bytes > dev->size_bytes - req->physical)
		return -EIO;
	if (!req->len_bytes || req->n_iov > IO_MAX_IOV)
		return -EINVAL;
	return 0;
}

void dev_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req)
{
	int ret = check(dev, req);

	req->dev = dev;
	req->thread = t;
	req->done_bytes = 0;
	req->rest_iov = NULL;
	req->retries = 0;
	t->in_flight++;
	if (ret)
		dev_complete_later(req, ret);
	else
		dev->ops->submit(dev, t, req);
}

struct sync_req {
	struct io_req req;
	bool done;
};

static void sync_done(struct io_req *req)
{
	container_of(req, struct sync_req, req)->done = true;
}

int dev_rw_sync(struct dev *dev, struct fsc_thread *t, enum io_op op, uint64_t physical, void *buf,
	size_t len_bytes)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len_bytes};
	struct sync_req s = {
		.req =
			{
				.op = op,
				.physical = physical,
				.iov = &iov,
				.n_iov = 1,
				.len_bytes = len_bytes,
				.done = sync_done,
			},
	};

	dev_submit(dev, t, &s.req);
	while (!s.done)
		fsc_thread_wait(t);
	return s.req.status;
}

void dev_destroy(struct dev *dev)
{
	if (dev)
		dev->ops->destroy(dev);
}
