/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/hist.h"

#include "base/util.h"

static unsigned bucket_of(uint64_t ns)
{
	unsigned log2;

	if (ns < 4)
		return (unsigned)ns;
	log2 = 63u - (unsigned)__builtin_clzll(ns);
	return MIN((log2 - 1) * 4 + (unsigned)((ns >> (log2 - 2)) & 3), HIST_BUCKETS - 1);
}

uint64_t hist_bucket_ns(unsigned bucket)
{
	if (bucket < 4)
		return bucket + 1;
	return (uint64_t)(4 + bucket % 4 + 1) << (bucket / 4 - 1);
}

static void add_relaxed(_Atomic uint64_t *v, uint64_t n)
{
	atomic_store_explicit(
		v, atomic_load_explicit(v, memory_order_relaxed) + n, memory_order_relaxed);
}

void hist_add(struct hist *h, uint64_t ns)
{
	add_relaxed(&h->bucket[bucket_of(ns)], 1);
	add_relaxed(&h->sum_ns, ns);
	if (ns > atomic_load_explicit(&h->max_ns, memory_order_relaxed))
		atomic_store_explicit(&h->max_ns, ns, memory_order_relaxed);
}

void hist_merge(struct hist *sum, const struct hist *from)
{
	uint64_t max = atomic_load_explicit(&from->max_ns, memory_order_relaxed);

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		add_relaxed(&sum->bucket[i],
			atomic_load_explicit(&from->bucket[i], memory_order_relaxed));
	add_relaxed(&sum->sum_ns, atomic_load_explicit(&from->sum_ns, memory_order_relaxed));
	if (max > sum->max_ns)
		sum->max_ns = max;
}

uint64_t hist_count(const struct hist *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		n += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
	return n;
}

uint64_t hist_quantile_ns(const struct hist *h, double fraction)
{
	double want = fraction * (double)hist_count(h);
	uint64_t seen = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
		if (seen && (double)seen >= want)
			return hist_bucket_ns(i);
	}
	return 0;
}
