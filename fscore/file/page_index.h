/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cached pages of one file by their index: a radix tree of 64 slots a node,
 * as high as the highest index needs; a file of one page has no node at all.
 * Locking: the caller's (the page owner's lock).
 */
#ifndef FSCORE_FILE_PAGE_INDEX_H
#define FSCORE_FILE_PAGE_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct page;

struct page_index {
	void *root; /* height 0: the page at index 0; else a node */
	unsigned height;
};

/* NULL: there is none. */
struct page *page_index_lookup(const struct page_index *index, uint64_t at);

/* Looks up n consecutive indexes; absent ones become NULL. */
void page_index_lookup_range(
	const struct page_index *index, uint64_t first, unsigned n, struct page **out);

/* The place at `at` is empty. -ENOMEM. */
int page_index_insert(struct page_index *index, uint64_t at, struct page *page);

/* Puts page in place of the one that is at `at`. */
void page_index_set(struct page_index *index, uint64_t at, struct page *page);

/* There is a page at `at`. */
void page_index_remove(struct page_index *index, uint64_t at);

/* The first page at `from` or after it; *at is its index. NULL: there is none. */
struct page *page_index_next(const struct page_index *index, uint64_t from, uint64_t *at);

/* Any page (for emptying it), or NULL when it is empty; *at is its index. */
struct page *page_index_any(const struct page_index *index, uint64_t *at);

#endif
