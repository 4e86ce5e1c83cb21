/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Record marking: a stream that arrives in pieces gives the same records as one that arrives at
 * once, by both ways of the server (whole records in place, others put together).
 */
#include <stdlib.h>
#include <string.h>

#include "proto/record.h"
#include "tests/fuzz/fuzz.h"
#include "tests/server/check.h"

#define MAX_BYTES 3000u

/* What came out of a stream: sums over the records, and how it ended. */
struct outcome {
	uint64_t n, bytes, hash;
	enum record_state end;
};

static void take(struct outcome *o, const uint8_t *data, size_t len)
{
	o->n++;
	o->bytes += len;
	for (size_t i = 0; i < len; i++)
		o->hash = o->hash * 1099511628211u + data[i] + 1;
	o->hash = o->hash * 31 + len;
}

/* Feeds a piece as the server does. False: the stream has ended in an error. */
static bool feed(struct record *r, struct outcome *o, const uint8_t *p, const uint8_t *end)
{
	const uint8_t *data;
	size_t len;

	while (p < end) {
		if (!record_pending(r) && record_whole(&p, end, MAX_BYTES, &data, &len)) {
			take(o, data, len);
			continue;
		}
		o->end = record_feed(r, &p, end, MAX_BYTES);
		CHECK(r->len <= MAX_BYTES && r->capacity <= 2 * MAX_BYTES + 512);
		if (o->end == RECORD_DONE) {
			take(o, r->data, r->len);
			record_reset(r);
			o->end = RECORD_MORE;
		} else if (o->end != RECORD_MORE) {
			return false;
		}
	}
	return true;
}

/* seed: of the lengths of the pieces; 0: one piece. */
static struct outcome run(const uint8_t *input, size_t len, uint32_t seed)
{
	struct outcome o = {.end = RECORD_MORE};
	struct record r;
	size_t at = 0;

	record_init(&r);
	while (at < len) {
		size_t n = len - at;
		uint8_t *piece;
		bool more;

		if (seed) {
			seed = seed * 1664525u + 1013904223u;
			n = (seed >> 24) % 37 + 1 < n ? (seed >> 24) % 37 + 1 : n;
		}
		/* In memory of its own, so that reading beyond it is found. */
		piece = malloc(n);
		CHECK(piece);
		memcpy(piece, input + at, n);
		more = feed(&r, &o, piece, piece + n);
		free(piece);
		if (!more)
			break;
		at += n;
	}
	record_reset(&r);
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
	struct outcome a = run(input, len, 0);

	for (uint32_t seed = 1; seed < 4; seed++) {
		struct outcome b = run(input, len, seed);

		CHECK(a.n == b.n && a.bytes == b.bytes && a.hash == b.hash && a.end == b.end);
	}
	return 0;
}
