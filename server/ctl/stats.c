/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `byrectl stats` prints. Counters are read while they change: each is
 * exact at some recent moment, sums of several need not be.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/util.h"
#include "server/ctl/ctl.h"
#include "server/daemon.h"
#include "server/jobs.h"
#include "server/loop.h"
#include "server/rpc/replay.h"

static void set_u64(json_t *o, const char *name, uint64_t v)
{
	json_object_set_new(o, name, json_integer((json_int_t)v));
}

static double us(uint64_t ns)
{
	return (double)ns / 1000.0;
}

static void set_us(json_t *o, const char *name, double ns)
{
	json_object_set_new(o, name, json_real(ns / 1000.0));
}

/* {count, mean, quantiles in microseconds, buckets [[upper bound, count]...]} */
static json_t *hist_json(const struct hist *h)
{
	uint64_t n = hist_count(h), sum = counter_get(&h->sum_ns);
	json_t *o = json_object(), *buckets = json_array();

	set_u64(o, "count", n);
	json_object_set_new(o, "mean_us", json_real(n ? us(sum) / (double)n : 0));
	json_object_set_new(o, "p50_us", json_real(us(hist_quantile_ns(h, 0.5))));
	json_object_set_new(o, "p99_us", json_real(us(hist_quantile_ns(h, 0.99))));
	json_object_set_new(o, "p999_us", json_real(us(hist_quantile_ns(h, 0.999))));
	json_object_set_new(o, "max_us", json_real(us(counter_get(&h->max_ns))));
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		uint64_t c = counter_get(&h->bucket[i]);

		if (c)
			json_array_append_new(
				buckets, json_pack("[f,I]", us(hist_bucket_ns(i)), (json_int_t)c));
	}
	json_object_set_new(o, "buckets_us", buckets);
	return o;
}

static void op_add(struct op_counters *sum, const struct op_counters *c)
{
	counter_add(&sum->calls, counter_get(&c->calls));
	counter_add(&sum->errors, counter_get(&c->errors));
	counter_add(&sum->done_inline, counter_get(&c->done_inline));
	counter_add(&sum->done_async, counter_get(&c->done_async));
	counter_add(&sum->done_worker, counter_get(&c->done_worker));
	counter_add(&sum->parked_sync, counter_get(&c->parked_sync));
	for (unsigned i = 0; i < FSC_BLOCKED_REASONS; i++)
		counter_add(&sum->blocked[i], counter_get(&c->blocked[i]));
	hist_merge(&sum->latency, &c->latency);
}

static json_t *op_json(const struct op_counters *c)
{
	json_t *o = json_object(), *why = json_object();

	set_u64(o, "calls", counter_get(&c->calls));
	set_u64(o, "errors", counter_get(&c->errors));
	set_u64(o, "inline", counter_get(&c->done_inline));
	set_u64(o, "async", counter_get(&c->done_async));
	set_u64(o, "fell_back", counter_get(&c->done_worker));
	set_u64(o, "parked_sync", counter_get(&c->parked_sync));
	for (unsigned i = 0; i < FSC_BLOCKED_REASONS; i++)
		if (counter_get(&c->blocked[i]))
			set_u64(why, fsc_blocked_name((enum fsc_blocked)i),
				counter_get(&c->blocked[i]));
	json_object_set_new(o, "fell_back_why", why);
	json_object_set_new(o, "latency", hist_json(&c->latency));
	return o;
}

/* All operations that have been called, by program. sum is scratch. */
static json_t *ops_json(const struct daemon *d, struct op_counters *sum)
{
	json_t *all = json_object();

	for (unsigned p = 0; programs[p]; p++) {
		json_t *one = json_object();

		for (uint32_t i = 0; i < programs[p]->n_ops; i++) {
			unsigned n = programs[p]->first_counter + i;

			memset(sum, 0, sizeof(*sum));
			for (unsigned l = 0; l < d->n_loops; l++)
				op_add(sum, &d->loops[l]->counters.op[n]);
			if (counter_get(&sum->calls))
				json_object_set_new(one, programs[p]->ops[i].name, op_json(sum));
		}
		json_object_set_new(all, programs[p]->name, one);
	}
	return all;
}

/* Counters of loop_counters that are sums over the loops. */
static const struct {
	const char *name;
	size_t offset;
} loop_sums[] = {
	{"rpc_errors", offsetof(struct loop_counters, rpc_errors)},
	{"accepted", offsetof(struct loop_counters, accepted)},
	{"closed", offsetof(struct loop_counters, closed)},
	{"refused", offsetof(struct loop_counters, refused)},
	{"open", offsetof(struct loop_counters, connections)},
	{"received_bytes", offsetof(struct loop_counters, received_bytes)},
	{"sent_bytes", offsetof(struct loop_counters, sent_bytes)},
	{"paused", offsetof(struct loop_counters, paused)},
	{"requests_in_flight", offsetof(struct loop_counters, requests)},
	{"bytes_in_flight", offsetof(struct loop_counters, request_bytes)},
};

static json_t *connections_json(const struct daemon *d)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(loop_sums); i++) {
		uint64_t sum = 0;

		for (unsigned l = 0; l < d->n_loops; l++) {
			const char *base = (const char *)&d->loops[l]->counters;

			sum += counter_get((const _Atomic uint64_t *)(const void *)(base +
				loop_sums[i].offset));
		}
		set_u64(o, loop_sums[i].name, sum);
	}
	return o;
}

static json_t *loops_json(const struct daemon *d, struct hist *sum)
{
	json_t *o = json_object();

	memset(sum, 0, sizeof(*sum));
	for (unsigned l = 0; l < d->n_loops; l++)
		hist_merge(sum, &d->loops[l]->counters.iteration);
	set_u64(o, "count", d->n_loops);
	set_u64(o, "might_wait", might_wait_count());
	json_object_set_new(o, "iteration", hist_json(sum));
	return o;
}

static json_t *workers_json(struct daemon *d)
{
	struct jobs_stats st;
	json_t *o = json_object();

	jobs_stats(d->srv.jobs, &st);
	set_u64(o, "count", st.workers);
	set_u64(o, "queued", st.queued);
	set_u64(o, "running", st.running);
	set_u64(o, "done", st.done);
	return o;
}

static json_t *writing_json(const struct daemon *d)
{
	struct replay_stats st;
	json_t *o = json_object();

	replay_cache_stats(d->srv.replays, &st);
	set_u64(o, "replies_kept", st.entries);
	set_u64(o, "replayed", st.hits);
	set_u64(o, "replays_waited", st.waits);
	set_u64(o, "replies_not_kept", st.no_room);
	set_u64(o, "verifier_changes", atomic_load(&d->srv.write_verf.renewals));
	return o;
}

static json_t *cache_json(const struct fsc_cache_stats *c)
{
	json_t *o = json_object();
	uint64_t n = c->hits + c->misses;

	set_u64(o, "capacity_bytes", c->capacity_bytes);
	set_u64(o, "used_bytes", c->used_bytes);
	set_u64(o, "hits", c->hits);
	set_u64(o, "misses", c->misses);
	set_u64(o, "evictions", c->evictions);
	json_object_set_new(o, "hit_rate", json_real(n ? (double)c->hits / (double)n : 0));
	return o;
}

static const struct {
	const char *name;
	size_t offset;
} device_fields[] = {
	{"reads", offsetof(struct fsc_stats, dev_reads)},
	{"read_bytes", offsetof(struct fsc_stats, dev_read_bytes)},
	{"read_errors", offsetof(struct fsc_stats, dev_read_errors)},
	{"writes", offsetof(struct fsc_stats, dev_writes)},
	{"write_bytes", offsetof(struct fsc_stats, dev_write_bytes)},
	{"write_errors", offsetof(struct fsc_stats, dev_write_errors)},
	{"flushes", offsetof(struct fsc_stats, dev_flushes)},
	{"discards", offsetof(struct fsc_stats, dev_discards)},
	{"discard_bytes", offsetof(struct fsc_stats, dev_discard_bytes)},
	{"csum_errors", offsetof(struct fsc_stats, csum_errors)},
	{"meta_errors", offsetof(struct fsc_stats, meta_errors)},
	{"mirror_repairs", offsetof(struct fsc_stats, mirror_repairs)},
	{"repaired", offsetof(struct fsc_stats, repaired)},
	{"readahead_bytes", offsetof(struct fsc_stats, readahead_bytes)},
	{"page_alloc_waits", offsetof(struct fsc_stats, page_alloc_waits)},
};

static json_t *commits_json(const struct fsc_stats *st)
{
	json_t *o = json_object();
	double n = st->commits ? (double)st->commits : 1;

	set_u64(o, "count", st->commits);
	set_u64(o, "syncs", st->commit_syncs);
	set_u64(o, "blocks", st->commit_blocks);
	set_u64(o, "refs_max", st->commit_refs_max);
	set_us(o, "mean_us", (double)st->commit_ns_sum / n);
	set_us(o, "max_us", (double)st->commit_ns_max);
	set_us(o, "closed_mean_us", (double)st->commit_closed_ns_sum / n);
	set_us(o, "closed_max_us", (double)st->commit_closed_ns_max);
	return o;
}

static json_t *log_json(const struct fsc_stats *st)
{
	json_t *o = json_object();
	double n = st->log_writes ? (double)st->log_writes : 1;

	set_u64(o, "count", st->log_writes);
	set_u64(o, "syncs", st->log_syncs);
	set_u64(o, "blocks", st->log_blocks);
	set_us(o, "mean_us", (double)st->log_ns_sum / n);
	return o;
}

static void add_fscore(json_t *top, const struct daemon *d)
{
	json_t *caches = json_object(), *device = json_object();
	struct fsc_stats st;

	fsc_stats(d->srv.vol, &st);
	json_object_set_new(caches, "metadata", cache_json(&st.metadata));
	json_object_set_new(caches, "pages", cache_json(&st.pages));
	json_object_set_new(caches, "inodes", cache_json(&st.inodes));
	for (size_t i = 0; i < ARRAY_SIZE(device_fields); i++) {
		uint64_t v;

		memcpy(&v, (const char *)&st + device_fields[i].offset, sizeof(v));
		set_u64(device, device_fields[i].name, v);
	}
	json_object_set_new(top, "caches", caches);
	json_object_set_new(top, "device", device);
	json_object_set_new(top, "commits", commits_json(&st));
	json_object_set_new(top, "log_writes", log_json(&st));
}

char *ctl_stats(struct daemon *d)
{
	struct op_counters *sum = calloc(1, sizeof(*sum));
	json_t *top = json_object();
	char *text = NULL;

	if (sum && top) {
		json_object_set_new(top, "operations", ops_json(d, sum));
		json_object_set_new(top, "connections", connections_json(d));
		json_object_set_new(top, "loops", loops_json(d, &sum->latency));
		json_object_set_new(top, "workers", workers_json(d));
		json_object_set_new(top, "writing", writing_json(d));
		add_fscore(top, d);
		text = json_dumps(top, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	}
	json_decref(top);
	free(sum);
	return text;
}
