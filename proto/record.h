/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Record marking (RFC 5531 section 11): puts a record together from fragments
 * that arrive in pieces of any size. Owns the buffer of the record that is not
 * complete; between records it holds no memory.
 *
 * Memory follows what has arrived, not what a fragment header claims: the
 * buffer doubles as bytes come in. Only when RECORD_TRUST_BYTES have arrived is a
 * fragment's header believed, and room made for the whole of it at once: large
 * records are then received into their buffer, and never moved.
 */
#ifndef PROTO_RECORD_H
#define PROTO_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_LAST	   0x80000000u
#define RECORD_TRUST_BYTES 16384u

struct record {
	uint8_t *data; /* the record so far; NULL until its first byte */
	size_t len, capacity;
	uint32_t fragment_left; /* bytes of the current fragment still to come */
	bool last;		/* the current fragment is the last one */
	uint8_t mark[4];	/* a fragment header that has begun to arrive */
	uint8_t mark_len;	/* 4: it is complete, and fragment_left is valid */
};

enum record_state {
	RECORD_MORE,	/* all input was taken, the record is not complete */
	RECORD_DONE,	/* data and len are a whole record */
	RECORD_TOO_BIG, /* longer than max_bytes */
	RECORD_NO_MEMORY,
};

void record_init(struct record *r);

/* Frees the buffer and starts over at a record boundary. */
void record_reset(struct record *r);

/* True when a record has begun (a byte of its header counts). */
bool record_pending(const struct record *r);

/*
 * Takes bytes from *p up to end, not beyond the end of the record. After
 * RECORD_DONE the caller uses data and len, then calls record_reset().
 */
enum record_state record_feed(
	struct record *r, const uint8_t **p, const uint8_t *end, size_t max_bytes);

/*
 * Where the next bytes of a large record may be received: that many at *p, all of
 * the current fragment. 0: it is not large, use record_feed(); or out of memory.
 */
size_t record_room(struct record *r, size_t max_bytes, uint8_t **p);

/* Bytes that the next record_room() would have to allocate; 0: none. */
size_t record_wants(const struct record *r, size_t max_bytes);

/* n bytes were received there. RECORD_MORE or RECORD_DONE. */
enum record_state record_filled(struct record *r, size_t n);

/* Gives the buffer of a whole record away (to free()), and starts over. */
uint8_t *record_detach(struct record *r);

/*
 * The common case without copying: if the input holds a whole record of one
 * fragment, gives its place, moves *p behind it and returns true.
 */
bool record_whole(
	const uint8_t **p, const uint8_t *end, size_t max_bytes, const uint8_t **data, size_t *len);

#endif
