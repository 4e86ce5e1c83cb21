/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/space/run_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define WORD_BITS 64u
#define SPAN_BITS 4096u

/* ------------------------------------------------------------- plain bitmaps */

size_t bits_bytes(uint64_t n_bits)
{
	return (size_t)(align_up(n_bits, WORD_BITS) / 8);
}

uint64_t *bits_alloc(uint64_t n_bits)
{
	return calloc(1, MAX(bits_bytes(n_bits), sizeof(uint64_t)));
}

/* The bits of word number w that are in [from, to). */
static uint64_t mask_of(uint64_t w, uint64_t from, uint64_t to)
{
	uint64_t first = w * WORD_BITS, mask = ~0ull;

	if (from > first)
		mask &= ~0ull << (from - first);
	if (to - first < WORD_BITS)
		mask &= (1ull << (to - first)) - 1;
	return mask;
}

void bits_set(uint64_t *words, uint64_t from, uint64_t to)
{
	for (uint64_t w = from / WORD_BITS; w * WORD_BITS < to; w++)
		words[w] |= mask_of(w, from, to);
}

void bits_clear(uint64_t *words, uint64_t from, uint64_t to)
{
	for (uint64_t w = from / WORD_BITS; w * WORD_BITS < to; w++)
		words[w] &= ~mask_of(w, from, to);
}

/* flip: 0 looks for a set bit, all ones for a clear one. */
static uint64_t next_bit(const uint64_t *words, uint64_t from, uint64_t end, uint64_t flip)
{
	uint64_t w = from / WORD_BITS, bits;

	if (from >= end)
		return end;
	bits = (words[w] ^ flip) & (~0ull << (from % WORD_BITS));
	while (!bits) {
		if (++w * WORD_BITS >= end)
			return end;
		bits = words[w] ^ flip;
	}
	return MIN(w * WORD_BITS + (unsigned)__builtin_ctzll(bits), end);
}

uint64_t bits_next_set(const uint64_t *words, uint64_t from, uint64_t end)
{
	return next_bit(words, from, end, 0);
}

uint64_t bits_next_clear(const uint64_t *words, uint64_t from, uint64_t end)
{
	return next_bit(words, from, end, ~0ull);
}

uint64_t bits_run_start(const uint64_t *words, uint64_t at, uint64_t floor)
{
	while (at > floor) {
		uint64_t last = at - 1, w = last / WORD_BITS;
		uint64_t clear = ~words[w] & (~0ull >> (WORD_BITS - 1 - last % WORD_BITS));

		if (clear) {
			at = (w + 1) * WORD_BITS - (unsigned)__builtin_clzll(clear);
			break;
		}
		at = w * WORD_BITS;
	}
	return MAX(at, floor);
}

uint64_t bits_count(const uint64_t *words, uint64_t n_bits)
{
	uint64_t n = 0;

	for (uint64_t w = 0; w * WORD_BITS < n_bits; w++)
		n += (unsigned)__builtin_popcountll(words[w]);
	return n;
}

uint64_t bits_count_runs(const uint64_t *words, uint64_t n_bits)
{
	uint64_t n = 0, before = 0;

	for (uint64_t w = 0; w * WORD_BITS < n_bits; w++) {
		n += (unsigned)__builtin_popcountll(words[w] & ~(words[w] << 1 | before));
		before = words[w] >> (WORD_BITS - 1);
	}
	return n;
}

/* ------------------------------------------------------------- maps of runs */

static uint64_t n_spans(const struct run_map *m)
{
	return (m->n_bits + SPAN_BITS - 1) / SPAN_BITS;
}

/* The end of the run that begins at `at`, as far as it counts. */
static uint64_t run_end(const struct run_map *m, uint64_t at)
{
	return bits_next_clear(m->words, at, MIN(m->n_bits, at + RUN_MAX_BITS));
}

/* The longest run that begins in the span. */
static uint32_t longest_in(const struct run_map *m, uint64_t span)
{
	uint64_t pos = span * SPAN_BITS, end = MIN(m->n_bits, pos + SPAN_BITS), longest = 0;

	if (pos && bits_all_set(m->words, pos - 1, pos))
		pos = bits_next_clear(m->words, pos, end);
	for (;;) {
		uint64_t run = bits_next_set(m->words, pos, end);

		if (run >= end)
			return (uint32_t)longest;
		pos = run_end(m, run);
		longest = MAX(longest, pos - run);
	}
}

static void update_max(struct run_map *m)
{
	m->max = 0;
	for (uint64_t s = 0; s < n_spans(m); s++)
		m->max = MAX(m->max, m->span_max[s]);
}

int run_map_init(struct run_map *m, uint64_t *words, uint64_t n_bits)
{
	*m = (struct run_map){.n_bits = n_bits, .words = words};
	m->span_max = calloc(n_spans(m), sizeof(m->span_max[0]));
	if (!m->span_max) {
		m->words = NULL;
		return -ENOMEM;
	}
	m->n_set = bits_count(words, n_bits);
	for (uint64_t s = 0; s < n_spans(m); s++)
		m->span_max[s] = longest_in(m, s);
	update_max(m);
	return 0;
}

void run_map_fini(struct run_map *m)
{
	free(m->words);
	free(m->span_max);
	*m = (struct run_map){.words = NULL};
}

/* Whether [run, end) has what is wanted: where, and how much. */
static bool fits(const struct run_want *want, uint64_t run, uint64_t end, uint64_t *at, uint64_t *n)
{
	uint64_t first = align_up(want->origin + run, want->align);

	if (want->fence && first / want->fence != (first + want->least_bits - 1) / want->fence)
		first = align_up(first, want->fence);
	first -= want->origin;
	if (first + want->least_bits > end)
		return false;
	*at = first;
	*n = MIN(end - first, want->most_bits);
	return true;
}

/* Looks at the runs of the span from pos on. */
static bool find_in(const struct run_map *m, const struct run_want *want, uint64_t pos,
	uint64_t *at, uint64_t *n)
{
	uint64_t end = MIN(m->n_bits, align_down(pos, SPAN_BITS) + SPAN_BITS);

	while (pos < end) {
		uint64_t run = bits_next_set(m->words, pos, end);

		if (run >= end)
			return false;
		pos = run_end(m, run);
		if (fits(want, run, pos, at, n))
			return true;
	}
	return false;
}

bool run_map_find(struct run_map *m, const struct run_want *want, uint64_t from, uint64_t *at,
	uint64_t *n_bits)
{
	uint64_t first;

	if (m->max < want->least_bits)
		return false;
	if (from >= m->n_bits)
		from = 0;
	first = from / SPAN_BITS;
	if (find_in(m, want, from, at, n_bits))
		return true;
	for (uint64_t i = 1; i <= n_spans(m); i++) {
		uint64_t s = (first + i) % n_spans(m);

		if (m->span_max[s] < want->least_bits)
			continue;
		if (find_in(m, want, s * SPAN_BITS, at, n_bits))
			return true;
		m->span_max[s] = longest_in(m, s);
	}
	update_max(m);
	return false;
}

/* There is a run at `at` that long. */
static void raise_bound(struct run_map *m, uint64_t at, uint64_t n_bits)
{
	uint32_t n = (uint32_t)MIN(n_bits, RUN_MAX_BITS), *bound = &m->span_max[at / SPAN_BITS];

	*bound = MAX(*bound, n);
	m->max = MAX(m->max, n);
}

void run_map_take(struct run_map *m, uint64_t from, uint64_t to)
{
	bits_clear(m->words, from, to);
	m->n_set -= to - from;
	/* The rest of the run begins elsewhere now. */
	if (to < m->n_bits)
		raise_bound(m, to, run_end(m, to) - to);
}

void run_map_give(struct run_map *m, uint64_t from, uint64_t to)
{
	/* If the run begins further ahead, its bound is at its most already. */
	uint64_t floor = from > RUN_MAX_BITS ? from - RUN_MAX_BITS : 0;
	uint64_t start = bits_run_start(m->words, from, floor);

	bits_set(m->words, from, to);
	m->n_set += to - from;
	raise_bound(m, start, run_end(m, start) - start);
}
