/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "proto/wire.h"

#define FIRST_BYTES 512u
/* What is left of a fragment is worth a receive call of its own. */
#define DIRECT_BYTES 4096u

void record_init(struct record *r)
{
	memset(r, 0, sizeof(*r));
}

void record_reset(struct record *r)
{
	free(r->data);
	record_init(r);
}

bool record_pending(const struct record *r)
{
	return r->mark_len || r->len;
}

static void take_mark(struct record *r, const uint8_t **p, const uint8_t *end)
{
	uint32_t mark;

	while (r->mark_len < 4 && *p < end)
		r->mark[r->mark_len++] = *(*p)++;
	if (r->mark_len < 4)
		return;
	mark = wire_load_u32(r->mark);
	r->last = mark & RECORD_LAST;
	r->fragment_left = mark & ~RECORD_LAST;
}

static bool make_room(struct record *r, size_t more)
{
	size_t want = r->len + more, size = MAX(r->capacity, FIRST_BYTES);
	uint8_t *data;

	if (want <= r->capacity)
		return true;
	while (size < want)
		size *= 2;
	data = realloc(r->data, size);
	if (!data)
		return false;
	r->data = data;
	r->capacity = size;
	return true;
}

static bool take_body(struct record *r, const uint8_t **p, const uint8_t *end)
{
	size_t n = MIN((size_t)r->fragment_left, (size_t)(end - *p));

	if (!n)
		return true;
	if (!make_room(r, n))
		return false;
	memcpy(r->data + r->len, *p, n);
	r->len += n;
	r->fragment_left -= (uint32_t)n;
	*p += n;
	return true;
}

enum record_state record_feed(
	struct record *r, const uint8_t **p, const uint8_t *end, size_t max_bytes)
{
	for (;;) {
		if (r->mark_len < 4) {
			take_mark(r, p, end);
			if (r->mark_len < 4)
				return RECORD_MORE;
		}
		if (r->fragment_left > max_bytes - r->len)
			return RECORD_TOO_BIG;
		if (!take_body(r, p, end))
			return RECORD_NO_MEMORY;
		if (r->fragment_left)
			return RECORD_MORE;
		if (r->last)
			return RECORD_DONE;
		r->mark_len = 0;
	}
}

size_t record_wants(const struct record *r, size_t max_bytes)
{
	size_t want = r->len + r->fragment_left;

	if (r->mark_len < 4 || r->len < RECORD_TRUST_BYTES || r->fragment_left < DIRECT_BYTES ||
		want <= r->capacity || want > max_bytes)
		return 0;
	/* More fragments may come: not to grow, and move, again for each. */
	return (r->last ? want : max_bytes) - r->capacity;
}

size_t record_room(struct record *r, size_t max_bytes, uint8_t **p)
{
	size_t more = record_wants(r, max_bytes);
	uint8_t *data;

	if (r->mark_len < 4 || r->fragment_left < DIRECT_BYTES)
		return 0;
	if (more) {
		data = realloc(r->data, r->capacity + more);
		if (!data)
			return 0;
		r->data = data;
		r->capacity += more;
	}
	if (r->len + r->fragment_left > r->capacity)
		return 0;
	*p = r->data + r->len;
	return r->fragment_left;
}

enum record_state record_filled(struct record *r, size_t n)
{
	r->len += n;
	r->fragment_left -= (uint32_t)n;
	if (r->fragment_left)
		return RECORD_MORE;
	if (r->last)
		return RECORD_DONE;
	r->mark_len = 0;
	return RECORD_MORE;
}

uint8_t *record_detach(struct record *r)
{
	uint8_t *data = r->data;

	record_init(r);
	return data;
}

bool record_whole(
	const uint8_t **p, const uint8_t *end, size_t max_bytes, const uint8_t **data, size_t *len)
{
	uint32_t mark, n;

	if (end - *p < 4)
		return false;
	mark = wire_load_u32(*p);
	n = mark & ~RECORD_LAST;
	if (!(mark & RECORD_LAST) || n > max_bytes || n > (size_t)(end - *p) - 4)
		return false;
	*data = *p + 4;
	*len = n;
	*p += 4 + n;
	return true;
}
