/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For the files of txn/. */
#ifndef FSCORE_TXN_TXN_PRIVATE_H
#define FSCORE_TXN_TXN_PRIVATE_H

#include "fscore/txn/txn.h"

extern const struct tree_writer_ops txn_tree_ops;

/* The committer's thread. */
void *txn_committer_main(void *txns);

/* A transaction that is RUNNING, in nobody's hands yet. NULL: no memory. */
struct txn *txn_create(struct txns *txns, uint64_t id);
void txn_free(struct txn *txn);

/* Sets up a handle for the committer, with no reservation. */
void txn_handle_init(struct txn_handle *h, struct fsc_ctx *ctx, struct txns *txns, struct txn *txn);

/* The committer: writes some references in the background. False: that is not needed now. */
bool txn_write_refs(struct fsc_ctx *ctx, struct txns *txns);

/* The committer, when a commit has begun: all there are, so that few are left for later. */
int txn_write_refs_early(struct txn_handle *h);

/* Those whom txn_throttle() makes wait. */
struct txn_waiter *txn_take_throttled_locked(struct txns *txns);

/* The first error ends all: the volume is read-only from now on. */
void txn_set_error(struct txns *txns, int error);

/*
 * Writes blocks, a flush, the superblocks, the first of them durably. Those of the blocks that have been freed again are
 * let go of; the others are then at the front, *n of them. 0 or an error.
 */
int txn_write_blocks(struct fsc_ctx *ctx, struct txns *txns, struct mblock **blocks, size_t *n,
	const struct btrfs_super_block *super);

/* Writes the blocks of a frozen transaction and the superblocks. 0 or an error. */
int txn_write_out(struct fsc_ctx *ctx, struct txns *txns, struct txn *txn,
	const struct btrfs_super_block *super);

/*
 * The committer's: tells the device of what transactions up to id have freed, without waiting, and
 * returns up to which it has been told. More is done when the committer's thread has waited.
 */
uint64_t txn_discard(struct txns *txns, uint64_t id);
void txn_discard_start(struct txns *txns);
/* Waits for what is on its way. */
void txn_discard_stop(struct txns *txns);

/* The committer, between commits: writes bad copies of tree blocks anew. */
void txn_repair_blocks(struct txns *txns);

/* Posts every waiter in the list, with this status. No lock is held. */
void txn_post_waiters(struct txn_waiter *list, int status);

/* -- the log -- */

/* The notes of a handle that ends become the transaction's. */
void log_publish(struct txn_handle *h);
void log_notes_free(struct log_note *notes);

/*
 * The committer: writes the log, if it is time for that, or has those who wait for it wait for the
 * commit. False: there was nothing to do; *wait_ns, how long to wait (0: no limit), may become less.
 */
bool log_work(struct txns *txns, uint64_t *wait_ns);

/* The transaction is on disk (or was aborted): its log takes no space any more. */
void log_end(struct txn *txn);

/* It waits for the transaction to be committed. txns.lock is held. */
void txn_add_waiter_locked(struct txn *txn, struct txn_waiter *w);

/* Puts root's present address in its root item. */
int txn_update_root_item(struct tree_writer *w, struct txns *txns, struct tree_root *root);

/*
 * Whether there is room for what settling the transaction as it is now will take, beside what others
 * have been promised. txns.lock may be held.
 */
bool txn_settle_has_room(struct txns *txns, struct txn *txn);

/* The committer's, before it settles: has that much in memory, makes a chunk if need be. */
int txn_settle_prepare(struct txn_handle *h);

#endif
