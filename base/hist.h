/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A histogram of durations with four buckets for each power of two: cheap
 * enough for every request. One thread writes (relaxed stores), any thread may
 * read at any time and sees each bucket at some recent value.
 */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define HIST_BUCKETS 160u

struct hist {
	_Atomic uint64_t bucket[HIST_BUCKETS];
	_Atomic uint64_t sum_ns;
	_Atomic uint64_t max_ns;
};

/* Only the thread that owns h. */
void hist_add(struct hist *h, uint64_t ns);

/* Adds from's buckets to sum, which no other thread uses. */
void hist_merge(struct hist *sum, const struct hist *from);

uint64_t hist_count(const struct hist *h);

/*
 * The upper bound of the bucket in which the given fraction (0..1) of all
 * durations has been reached; 0 when the histogram is empty.
 */
uint64_t hist_quantile_ns(const struct hist *h, double fraction);

/* The upper bound of a bucket (exclusive). */
uint64_t hist_bucket_ns(unsigned bucket);

#endif
