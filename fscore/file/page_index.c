/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/page_index.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define SHIFT 6u
#define SLOTS (1u << SHIFT)

struct node {
	unsigned n_used;
	void *slot[SLOTS];
};

/* Eleven levels cover all 64 bits. */
static bool covers(unsigned height, uint64_t at)
{
	return height * SHIFT >= 64 || at >> (height * SHIFT) == 0;
}

static unsigned slot_of(uint64_t at, unsigned height)
{
	return (at >> ((height - 1) * SHIFT)) & (SLOTS - 1);
}

/* The node of the lowest level that holds `at`, or NULL. height is at least 1. */
static struct node *leaf_node(const struct page_index *index, uint64_t at)
{
	struct node *node = index->root;

	if (!covers(index->height, at))
		return NULL;
	for (unsigned h = index->height; node && h > 1; h--)
		node = node->slot[slot_of(at, h)];
	return node;
}

struct page *page_index_lookup(const struct page_index *index, uint64_t at)
{
	struct page *page;

	page_index_lookup_range(index, at, 1, &page);
	return page;
}

void page_index_lookup_range(
	const struct page_index *index, uint64_t first, unsigned n, struct page **out)
{
	unsigned done = 0;

	if (index->height == 0) {
		memset(out, 0, n * sizeof(*out));
		if (first == 0 && n)
			out[0] = index->root;
		return;
	}
	while (done < n) {
		const struct node *node = leaf_node(index, first + done);
		unsigned slot = (first + done) & (SLOTS - 1);
		unsigned some = MIN(SLOTS - slot, n - done);

		if (node)
			memcpy(&out[done], &node->slot[slot], some * sizeof(*out));
		else
			memset(&out[done], 0, some * sizeof(*out));
		done += some;
	}
}

/* Puts a node above the root, so that one more level is covered. */
static int grow(struct page_index *index)
{
	if (index->root) {
		struct node *node = calloc(1, sizeof(*node));

		if (!node)
			return -ENOMEM;
		node->slot[0] = index->root;
		node->n_used = 1;
		index->root = node;
	}
	index->height++;
	return 0;
}

/* Frees the nodes on the way to `at` that hold nothing. */
static void prune(struct page_index *index, uint64_t at)
{
	struct node *way[12];
	unsigned h;

	way[index->height] = index->root;
	for (h = index->height; h > 1 && way[h]; h--)
		way[h - 1] = way[h]->slot[slot_of(at, h)];
	for (h = way[h] ? h : h + 1; h <= index->height; h++) {
		if (way[h]->n_used)
			return;
		free(way[h]);
		if (h == index->height) {
			index->root = NULL;
			index->height = 0;
			return;
		}
		way[h + 1]->slot[slot_of(at, h + 1)] = NULL;
		way[h + 1]->n_used--;
	}
}

int page_index_insert(struct page_index *index, uint64_t at, struct page *page)
{
	struct node *node;

	while (!covers(index->height, at))
		if (grow(index))
			return -ENOMEM;
	if (index->height == 0) {
		index->root = page;
		return 0;
	}
	if (!index->root) {
		index->root = calloc(1, sizeof(*node));
		if (!index->root) {
			index->height = 0;
			return -ENOMEM;
		}
	}
	node = index->root;
	for (unsigned h = index->height; h > 1; h--) {
		void **slot = &node->slot[slot_of(at, h)];

		if (!*slot) {
			*slot = calloc(1, sizeof(*node));
			if (!*slot) {
				prune(index, at);
				return -ENOMEM;
			}
			node->n_used++;
		}
		node = *slot;
	}
	node->slot[slot_of(at, 1)] = page;
	node->n_used++;
	return 0;
}

void page_index_set(struct page_index *index, uint64_t at, struct page *page)
{
	if (index->height == 0)
		index->root = page;
	else
		leaf_node(index, at)->slot[slot_of(at, 1)] = page;
}

void page_index_remove(struct page_index *index, uint64_t at)
{
	struct node *node;

	if (index->height == 0) {
		index->root = NULL;
		return;
	}
	node = leaf_node(index, at);
	node->slot[slot_of(at, 1)] = NULL;
	if (--node->n_used == 0)
		prune(index, at);
}

/* The first page at `from` or after it, below a node that covers base and what follows. */
static struct page *next_below(
	const struct node *node, unsigned height, uint64_t base, uint64_t from, uint64_t *at)
{
	unsigned shift = (height - 1) * SHIFT;
	unsigned slot = from > base ? (unsigned)((from - base) >> shift) : 0;

	for (; slot < SLOTS; slot++) {
		uint64_t start = base + ((uint64_t)slot << shift);
		struct page *page;

		if (!node->slot[slot])
			continue;
		if (height == 1) {
			*at = start;
			return node->slot[slot];
		}
		page = next_below(node->slot[slot], height - 1, start, from, at);
		if (page)
			return page;
	}
	return NULL;
}

struct page *page_index_next(const struct page_index *index, uint64_t from, uint64_t *at)
{
	if (!index->root || !covers(index->height, from))
		return NULL;
	if (index->height == 0) {
		*at = 0;
		return from == 0 ? index->root : NULL;
	}
	return next_below(index->root, index->height, 0, from, at);
}

struct page *page_index_any(const struct page_index *index, uint64_t *at)
{
	void *p = index->root;

	*at = 0;
	for (unsigned h = index->height; p && h > 0; h--) {
		const struct node *node = p;
		unsigned slot = 0;

		while (!node->slot[slot])
			slot++;
		*at |= (uint64_t)slot << ((h - 1) * SHIFT);
		p = node->slot[slot];
	}
	return p;
}
