/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A device that keeps what was written, so that tests can make the disk that a
 * crash would have left. Memory for a record is had before the request goes on:
 * what the inner device has done is never missing.
 */
#include "fscore/io/dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/util.h"

struct record {
	struct record_entry entry;
	uint8_t data[];
};

struct dev_record {
	struct dev dev;
	struct dev *inner;

	struct short_lock lock; /* RANK_DEVICE; guards the rest */
	struct record **records;
	size_t count, capacity;
	size_t promised; /* places for requests that are under way */
};

/* A request on its way through the inner device. */
struct inner_req {
	struct io_req req;
	struct io_req *outer;
	struct record *record; /* NULL for a read */
};

static struct dev_record *record_of(struct dev *dev)
{
	return container_of(dev, struct dev_record, dev);
}

/* ------------------------------------------------------------- records */

/* Makes sure of a place for one more record. *count: those there are now. */
static int promise_place(struct dev_record *d, size_t *count)
{
	int ret = 0;

	short_lock(&d->lock);
	if (d->count + d->promised == d->capacity) {
		size_t more = d->capacity ? 2 * d->capacity : 64;
		struct record **grown = realloc(d->records, more * sizeof(struct record *));

		if (grown) {
			d->records = grown;
			d->capacity = more;
		} else {
			ret = -ENOMEM;
		}
	}
	if (!ret)
		d->promised++;
	*count = d->count;
	short_unlock(&d->lock);
	return ret;
}

/* record NULL: the place is not needed. */
static void fill_place(struct dev_record *d, struct record *record)
{
	short_lock(&d->lock);
	d->promised--;
	if (record)
		d->records[d->count++] = record;
	short_unlock(&d->lock);
}

static struct record *make_record(struct dev_record *d, const struct io_req *req)
{
	size_t len_bytes = req->op == IO_FLUSH ? 0 : req->len_bytes, at = 0;
	struct record *record = malloc(sizeof(*record) + len_bytes);

	if (!record)
		return NULL;
	record->entry = (struct record_entry){
		/* What is discarded reads as zeros, say. */
		.op = req->op == IO_DISCARD ? IO_WRITE : req->op,
		.physical = req->physical,
		.len_bytes = len_bytes,
		.data = record->data,
		.fua = req->fua,
	};
	if (req->op == IO_DISCARD)
		memset(record->data, 0, len_bytes);
	for (unsigned i = 0; i < req->n_iov && at < len_bytes; i++) {
		memcpy(record->data + at, req->iov[i].iov_base, req->iov[i].iov_len);
		at += req->iov[i].iov_len;
	}
	if (promise_place(d, &record->entry.covers)) {
		free(record);
		return NULL;
	}
	return record;
}

/* ------------------------------------------------------------- requests */

static void inner_done(struct io_req *req)
{
	struct inner_req *ir = container_of(req, struct inner_req, req);
	struct io_req *outer = ir->outer;
	struct record *record = ir->record;
	int status = req->status;

	free(ir);
	if (record) {
		fill_place(record_of(outer->dev), status ? NULL : record);
		if (status)
			free(record);
	}
	dev_complete(outer, status);
}

static void record_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req)
{
	struct dev_record *d = record_of(dev);
	struct inner_req *ir = calloc(1, sizeof(*ir));

	if (ir && req->op != IO_READ)
		ir->record = make_record(d, req);
	if (!ir || (req->op != IO_READ && !ir->record)) {
		free(ir);
		dev_complete_later(req, -ENOMEM);
		return;
	}
	ir->outer = req;
	ir->req = (struct io_req){
		.op = req->op,
		.physical = req->physical,
		.iov = req->iov,
		.n_iov = req->n_iov,
		.len_bytes = req->len_bytes,
		.fua = req->fua,
		.done = inner_done,
	};
	dev_submit(d->inner, t, &ir->req);
}

/* ------------------------------------------------------------- access */

size_t dev_record_count(struct dev *dev)
{
	struct dev_record *d = record_of(dev);
	size_t count;

	short_lock(&d->lock);
	count = d->count;
	short_unlock(&d->lock);
	return count;
}

void dev_record_entry(struct dev *dev, size_t i, struct record_entry *out)
{
	struct dev_record *d = record_of(dev);

	short_lock(&d->lock);
	*out = d->records[i]->entry;
	short_unlock(&d->lock);
}

static void record_destroy(struct dev *dev)
{
	struct dev_record *d = record_of(dev);

	dev_destroy(d->inner);
	for (size_t i = 0; i < d->count; i++)
		free(d->records[i]);
	free(d->records);
	short_lock_fini(&d->lock);
	free(d);
}

static const struct dev_ops record_ops = {
	.submit = record_submit,
	.destroy = record_destroy,
};

int dev_record_create(struct dev *inner, struct dev **out)
{
	struct dev_record *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->dev.ops = &record_ops;
	d->dev.size_bytes = inner->size_bytes;
	d->dev.align_bytes = inner->align_bytes;
	d->dev.read_only = inner->read_only;
	d->inner = inner;
	short_lock_init(&d->lock, RANK_DEVICE);
	*out = &d->dev;
	return 0;
}
