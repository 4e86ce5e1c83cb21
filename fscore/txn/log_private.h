/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For log_*.c: the trees of a log. All of it is the committer's alone. */
#ifndef FSCORE_TXN_LOG_PRIVATE_H
#define FSCORE_TXN_LOG_PRIVATE_H

#include "fscore/txn/txn_private.h"

/* The log of one subvolume. */
struct log_tree {
	struct log_tree *next;
	uint64_t subvol;
	struct tree_root root;
	uint64_t named; /* where the root that the log root tree names is */
};

struct log_addresses {
	uint64_t *list;
	size_t n, max;
};

/* A set of addresses: open addressing, 0 is an empty place. */
struct log_set {
	uint64_t *places;
	size_t n, n_places; /* a power of two, or 0 */
};

struct log_trees {
	struct tree_writer w; /* first: the tree code's view */
	struct txns *txns;
	struct txn *txn;
	struct tree_root root; /* the log root tree */
	struct log_tree *trees;
	struct log_set live;	   /* blocks of these trees */
	struct log_addresses dead; /* on disk, and replaced since the last write */
	struct mblock **dirty;	   /* a reference to each; some may have been freed again */
	size_t n_dirty, max_dirty;
	uint64_t reserved_bytes; /* of metadata, not used yet */
	int error;		 /* the first */
};

/* An empty log. NULL: no memory or space. */
struct log_trees *log_trees_create(struct txns *txns, struct txn *txn);
/* All its space is free then. NULL is fine. */
void log_trees_destroy(struct log_trees *l);

/* The log of a subvolume, made if there is none. */
int log_tree_get(struct log_trees *l, uint64_t subvol, struct log_tree **out);

/* The log root tree names all trees as they are now. */
int log_trees_settle(struct log_trees *l);

/* The dirty blocks and the superblock go to the disk. */
int log_trees_write(struct log_trees *l, struct fsc_ctx *ctx);

bool log_is_forbidden(struct txns *txns, struct txn *txn);

/* One log write: 0, or an error, and then there is to be none until the commit. */
int log_write(struct txns *txns, struct txn *txn, struct log_note *notes, size_t notes_bytes);

/* Puts notes into the trees. */
int log_apply(struct log_trees *l, struct log_note *notes);

#endif
