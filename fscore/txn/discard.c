/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Telling the device what is not used any more: between the commit of the transaction that has
 * freed it and the moment when it can be allocated again, so that nothing new is thrown away.
 *
 *   idle --txn_discard()--> some requests on their way, the next when one ends --all have--> idle
 *
 * Commits do not wait for that; who needs that very space does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/io/thread.h"
#include "fscore/txn/txn_private.h"

/* Little pieces only make a file fragmented, and cost a request each. */
#define LEAST_BYTES   (64u << 10)
#define MAX_IN_FLIGHT 16u

struct discards {
	struct txns *txns;
	struct space_range *ranges; /* of the transactions up to now_id */
	size_t n, next;
	unsigned in_flight;
	uint64_t now_id, done_id;
	bool unsupported;
};

struct discard {
	struct io_req req;
	struct discards *d;
};

static void submit_more(struct discards *d);

static void on_done(struct io_req *req)
{
	struct discard *one = container_of(req, struct discard, req);
	struct discards *d = one->d;

	if (req->status == -EOPNOTSUPP && !d->unsupported) {
		d->unsupported = true;
		log_notice("the device takes no discards");
	} else if (req->status) {
		log_limited(LOG_LVL_WARNING, "a discard has failed: %s", strerror(-req->status));
	}
	free(one);
	d->in_flight--;
	submit_more(d);
}

static void submit(struct discards *d, uint64_t physical, uint64_t bytes)
{
	struct discard *one = calloc(1, sizeof(*one));

	/* It may be left out. */
	if (!one)
		return;
	one->d = d;
	one->req.op = IO_DISCARD;
	one->req.physical = physical;
	one->req.len_bytes = (size_t)bytes;
	one->req.done = on_done;
	d->in_flight++;
	dev_submit(d->txns->config.dev, d->txns->thread, &one->req);
}

static void submit_more(struct discards *d)
{
	while (d->next < d->n && d->in_flight < MAX_IN_FLIGHT && !d->unsupported) {
		struct space_range *r = &d->ranges[d->next];
		struct chunk_place place;
		uint64_t bytes;

		if (chunk_map_lookup(d->txns->config.chunks, r->logical, &place)) {
			d->next++;
			continue;
		}
		bytes = MIN(r->bytes, place.length_bytes);
		for (unsigned m = 0; m < place.n_mirrors; m++)
			submit(d, place.physical[m], bytes);
		r->logical += bytes;
		r->bytes -= bytes;
		d->next += !r->bytes;
	}
	if (d->unsupported)
		d->next = d->n;
}

static int by_logical(const void *a, const void *b)
{
	const struct space_range *p = a, *q = b;

	return p->logical < q->logical ? -1 : p->logical > q->logical;
}

/* Makes one of neighbours, and leaves out what is small. */
static size_t merge(struct space_range *ranges, size_t n)
{
	size_t out = 0, i = 0;

	qsort(ranges, n, sizeof(*ranges), by_logical);
	while (i < n) {
		struct space_range r = ranges[i++];

		while (i < n && ranges[i].logical == r.logical + r.bytes)
			r.bytes += ranges[i++].bytes;
		if (r.bytes >= LEAST_BYTES)
			ranges[out++] = r;
	}
	return out;
}

static bool is_busy(const struct discards *d)
{
	return d->in_flight || d->next < d->n;
}

uint64_t txn_discard(struct txns *txns, uint64_t id)
{
	struct discards *d = txns->discards;

	if (!d || (d->unsupported && !is_busy(d)))
		return id;
	if (!is_busy(d))
		d->done_id = d->now_id;
	/* What has been done is given back first. */
	if (is_busy(d) || d->done_id > txns->released_id)
		return d->done_id;
	free(d->ranges);
	d->next = d->n = 0;
	if (space_list_pinned(txns->config.space, id, &d->ranges, &d->n))
		return id;
	d->n = d->n ? merge(d->ranges, d->n) : 0;
	d->now_id = id;
	submit_more(d);
	return is_busy(d) ? d->done_id : id;
}

void txn_discard_start(struct txns *txns)
{
	if (!txns->config.discard)
		return;
	txns->discards = calloc(1, sizeof(*txns->discards));
	if (!txns->discards)
		return;
	txns->discards->txns = txns;
	txns->discards->now_id = txns->discards->done_id = txns->released_id;
}

void txn_discard_stop(struct txns *txns)
{
	struct discards *d = txns->discards;

	if (!d)
		return;
	d->next = d->n;
	while (d->in_flight)
		fsc_thread_wait(txns->thread);
	free(d->ranges);
	free(d);
	txns->discards = NULL;
}
