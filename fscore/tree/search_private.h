/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The steps of a search, for search.c and modify.c. The root is locked. */
#ifndef FSCORE_TREE_SEARCH_PRIVATE_H
#define FSCORE_TREE_SEARCH_PRIVATE_H

#include "fscore/tree/search.h"

/* A step came to a block that is not in memory; path->need describes it. */
#define SEARCH_MISSING 2

void search_expect_root(const struct tree_root *root, struct block_expect *expect);
void search_expect_child(
	const struct tree_root *root, const void *node, uint32_t slot, struct block_expect *expect);

/* Takes the block that path->need describes into the path. 0, SEARCH_MISSING, or an error. */
int search_step_into(struct tree_path *path);

/* The number of keys in the block that are less than key, or with *exact, one more. */
uint32_t search_keys_up_to(const void *block, const struct btrfs_key *key, bool *exact);

/* Lets go of everything and has path->need read. */
int search_read_missing(struct fsc_ctx *ctx, struct tree_path *path);

#endif
