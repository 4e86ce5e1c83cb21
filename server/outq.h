/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a connection still has to send: bytes in blocks, and between them
 * memory of others (pages, directory listings) that is sent without a copy and
 * given back when it has been sent. Used by the loop thread alone.
 *
 * An empty queue holds no memory. Blocks come from a pool per loop.
 */
#ifndef SERVER_OUTQ_H
#define SERVER_OUTQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define OUTQ_BLOCK_BYTES 16384u
#define OUTQ_SEGMENTS	 128u

struct outq_segment {
	const uint8_t *base;
	size_t len;
	void *owner; /* given back when the segment has been sent; or NULL */
};

struct outq_block {
	struct outq_block *next;
	unsigned first, n; /* segments: sent, filled */
	uint32_t used;	   /* of data */
	struct outq_segment segment[OUTQ_SEGMENTS];
	uint8_t data[OUTQ_BLOCK_BYTES];
};

struct outq_pool {
	struct outq_block *free;
	unsigned n_free, n_used;
	void (*give_back)(void *owner);
};

struct outq {
	struct outq_block *head, *tail;
	size_t bytes; /* to be sent, those of others included */
};

void outq_pool_init(struct outq_pool *pool, void (*give_back)(void *owner));
void outq_pool_fini(struct outq_pool *pool);

void outq_init(struct outq *q);

/* Gives everything back unsent. */
void outq_clear(struct outq *q, struct outq_pool *pool);

/*
 * Room for at most len <= OUTQ_BLOCK_BYTES bytes; NULL: out of memory. What is
 * written there is queued by outq_commit(), before anything else is done with q.
 */
uint8_t *outq_reserve(struct outq *q, struct outq_pool *pool, size_t len);
void outq_commit(struct outq *q, size_t len);

/* Queues len bytes (in the pieces of iov), and owner for giving back after them. */
bool outq_add_pieces(struct outq *q, struct outq_pool *pool, const struct iovec *iov,
	unsigned n_iov, size_t len, void *owner);

/* The front of the queue, at most max pieces. Returns their number. */
unsigned outq_front(const struct outq *q, struct iovec *iov, unsigned max);

/* len bytes of the front have been sent. */
void outq_sent(struct outq *q, struct outq_pool *pool, size_t len);

#endif
