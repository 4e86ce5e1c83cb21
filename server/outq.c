/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/outq.h"

#include <stdlib.h>

#include "base/util.h"

/* Blocks kept for the next burst: 1 MiB a loop. */
#define FREE_MAX 64u

void outq_pool_init(struct outq_pool *pool, void (*give_back)(void *owner))
{
	pool->free = NULL;
	pool->n_free = pool->n_used = 0;
	pool->give_back = give_back;
}

void outq_pool_fini(struct outq_pool *pool)
{
	while (pool->free) {
		struct outq_block *b = pool->free;

		pool->free = b->next;
		free(b);
	}
}

static struct outq_block *block_get(struct outq_pool *pool)
{
	struct outq_block *b = pool->free;

	if (b) {
		pool->free = b->next;
		pool->n_free--;
	} else {
		b = malloc(sizeof(*b));
		if (!b)
			return NULL;
	}
	pool->n_used++;
	b->next = NULL;
	b->first = b->n = 0;
	b->used = 0;
	return b;
}

static void block_put(struct outq_pool *pool, struct outq_block *b)
{
	pool->n_used--;
	if (pool->n_free >= FREE_MAX) {
		free(b);
		return;
	}
	b->next = pool->free;
	pool->free = b;
	pool->n_free++;
}

void outq_init(struct outq *q)
{
	q->head = q->tail = NULL;
	q->bytes = 0;
}

static struct outq_block *add_block(struct outq *q, struct outq_pool *pool)
{
	struct outq_block *b = block_get(pool);

	if (!b)
		return NULL;
	if (q->tail)
		q->tail->next = b;
	else
		q->head = b;
	q->tail = b;
	return b;
}

static void pop_block(struct outq *q, struct outq_pool *pool)
{
	struct outq_block *b = q->head;

	q->head = b->next;
	if (!q->head)
		q->tail = NULL;
	block_put(pool, b);
}

void outq_clear(struct outq *q, struct outq_pool *pool)
{
	while (q->head) {
		struct outq_block *b = q->head;

		for (unsigned i = b->first; i < b->n; i++)
			if (b->segment[i].owner)
				pool->give_back(b->segment[i].owner);
		pop_block(q, pool);
	}
	q->bytes = 0;
}

uint8_t *outq_reserve(struct outq *q, struct outq_pool *pool, size_t len)
{
	struct outq_block *b = q->tail;

	if (!b || b->n == OUTQ_SEGMENTS || OUTQ_BLOCK_BYTES - b->used < len)
		b = add_block(q, pool);
	return b ? b->data + b->used : NULL;
}

void outq_commit(struct outq *q, size_t len)
{
	struct outq_block *b = q->tail;
	struct outq_segment *last = b->n > b->first ? &b->segment[b->n - 1] : NULL;

	q->bytes += len;
	if (last && !last->owner && last->base + last->len == b->data + b->used) {
		last->len += len;
	} else {
		b->segment[b->n++] = (struct outq_segment){b->data + b->used, len, NULL};
	}
	b->used += (uint32_t)len;
}

static bool add_piece(
	struct outq *q, struct outq_pool *pool, const void *base, size_t len, void *owner)
{
	struct outq_block *b = q->tail;

	if (!b || b->n == OUTQ_SEGMENTS)
		b = add_block(q, pool);
	if (!b)
		return false;
	b->segment[b->n++] = (struct outq_segment){base, len, owner};
	q->bytes += len;
	return true;
}

bool outq_add_pieces(struct outq *q, struct outq_pool *pool, const struct iovec *iov,
	unsigned n_iov, size_t len, void *owner)
{
	for (unsigned i = 0; i < n_iov && len; i++) {
		size_t n = MIN(iov[i].iov_len, len);

		len -= n;
		if (!add_piece(q, pool, iov[i].iov_base, n, len ? NULL : owner))
			return false;
	}
	return true;
}

unsigned outq_front(const struct outq *q, struct iovec *iov, unsigned max)
{
	unsigned n = 0;

	for (const struct outq_block *b = q->head; b; b = b->next)
		for (unsigned i = b->first; i < b->n; i++) {
			if (n == max)
				return n;
			/* sendmsg() takes them as not const but only reads. */
			iov[n].iov_base = (void *)(uintptr_t)b->segment[i].base;
			iov[n++].iov_len = b->segment[i].len;
		}
	return n;
}

void outq_sent(struct outq *q, struct outq_pool *pool, size_t len)
{
	q->bytes -= len;
	while (q->head) {
		struct outq_block *b = q->head;

		for (; b->first < b->n; b->first++) {
			struct outq_segment *s = &b->segment[b->first];

			if (len < s->len) {
				s->base += len;
				s->len -= len;
				return;
			}
			len -= s->len;
			if (s->owner)
				pool->give_back(s->owner);
		}
		pop_block(q, pool);
	}
}
