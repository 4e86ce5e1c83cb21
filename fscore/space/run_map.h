/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bitmaps of sectors, and the map of free runs that an allocation searches: a bitmap
 * with, for each span of it, an upper bound of the longest run that begins there. A
 * search passes over the spans that can't have what it wants, and corrects the bound of
 * each that it looks through in vain; so a fragmented block group is looked through once,
 * not at each allocation.
 *
 * Bit i is bit i % 64 of word i / 64. Bits from the end to the last word's end are 0.
 * No locks: the caller's.
 *
 * Invariant of struct run_map: for each run [a, b) of set bits that begins in span s,
 * span_max[s] >= MIN(b - a, RUN_MAX_BITS), and max is no less than any span_max.
 */
#ifndef FSCORE_SPACE_RUN_MAP_H
#define FSCORE_SPACE_RUN_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------- plain bitmaps */

/* Zeros. NULL: no memory. */
uint64_t *bits_alloc(uint64_t n_bits);
size_t bits_bytes(uint64_t n_bits);
void bits_set(uint64_t *words, uint64_t from, uint64_t to);
void bits_clear(uint64_t *words, uint64_t from, uint64_t to);
/* The first set (or clear) bit in [from, end); end when there is none. */
uint64_t bits_next_set(const uint64_t *words, uint64_t from, uint64_t end);
uint64_t bits_next_clear(const uint64_t *words, uint64_t from, uint64_t end);
/* Where the run of set bits that ends at `at` begins, but no less than floor. */
uint64_t bits_run_start(const uint64_t *words, uint64_t at, uint64_t floor);
uint64_t bits_count(const uint64_t *words, uint64_t n_bits);
uint64_t bits_count_runs(const uint64_t *words, uint64_t n_bits);

static inline bool bits_all_set(const uint64_t *words, uint64_t from, uint64_t to)
{
	return bits_next_clear(words, from, to) == to;
}

static inline bool bits_all_clear(const uint64_t *words, uint64_t from, uint64_t to)
{
	return bits_next_set(words, from, to) == to;
}

/* ------------------------------------------------------------- maps of runs */

/* Longer runs count as this long; nobody may want more. */
#define RUN_MAX_BITS 32768u

struct run_map {
	uint64_t n_bits;
	uint64_t n_set;
	uint64_t *words;
	uint32_t *span_max;
	uint32_t max;
};

struct run_want {
	uint64_t least_bits, most_bits; /* at most RUN_MAX_BITS */
	uint64_t origin;		/* what bit 0 counts as, for align and fence */
	uint64_t align;			/* power of two */
	uint64_t fence;			/* power of two: no multiple of it inside; 0: none */
};

/* Takes over words (of bits_alloc()). -ENOMEM, and words stay the caller's. */
int run_map_init(struct run_map *m, uint64_t *words, uint64_t n_bits);
void run_map_fini(struct run_map *m);

/*
 * The first run from `from` on, and then from the beginning, that has what is wanted, and
 * how much of it. Corrects bounds; takes nothing.
 */
bool run_map_find(struct run_map *m, const struct run_want *want, uint64_t from, uint64_t *at,
	uint64_t *n_bits);

/* Clears bits that are set. */
void run_map_take(struct run_map *m, uint64_t from, uint64_t to);
/* Sets bits that are clear. */
void run_map_give(struct run_map *m, uint64_t from, uint64_t to);

#endif
