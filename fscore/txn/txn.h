/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Transactions: everything that changes trees joins the running one; the committer's
 * thread writes it to the disk as a whole.
 *
 *   RUNNING --interval, request, too much dirty--> CLOSING --last handle ends--> SETTLING
 *      --trees frozen, the next one RUNNING--> WRITING --superblock on disk--> DONE
 *   any --error--> ABORTED, and the volume is read-only from then on
 *
 *   RUNNING   txn_join() gives handles
 *   CLOSING   no new handles: those who want one wait for the next transaction
 *   SETTLING  the committer alone: inodes, delayed references, root items, block groups,
 *             until nothing more changes
 *   WRITING   its blocks do not change any more (the next transaction copies them); they are
 *             written, then a flush, the superblocks, durably
 *
 * Invariants:
 *  1. At most one transaction is RUNNING or CLOSING, and one SETTLING or WRITING.
 *  2. A block is written before the superblock that leads to it, with a flush between.
 *  3. What a transaction has freed is allocated again only after it is DONE, and when nobody can
 *     be reading it any more. No commit waits for readers: what they hold stays pinned longer.
 *
 * Locks: txns.lock (short, RANK_TXN) guards states, handles, lists.
 */
#ifndef FSCORE_TXN_TXN_H
#define FSCORE_TXN_TXN_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "fscore/extent/extent_tree.h"
#include "fscore/io/dev.h"
#include "fscore/space/space.h"
#include "fscore/txn/log.h"

enum txn_state {
	TXN_RUNNING,
	TXN_CLOSING,
	TXN_SETTLING,
	TXN_WRITING,
	TXN_DONE,
	TXN_ABORTED,
};

/* Something that waits for a transaction to be on disk; embed it. */
struct txn_waiter {
	struct txn_waiter *next;
	struct fsc_thread *thread;
	struct fsc_msg msg; /* posted to thread when status is final */
	int status;
	bool urgent; /* the commit is not to wait for others who might want it, too */
};

/* Waits until what a transaction, and those before it, have freed can be allocated. */
struct space_waiter {
	struct space_waiter *next;
	struct txn_waiter *waiter;
	uint64_t id;
};

struct txn {
	uint64_t id; /* generation of what it writes */
	/* guarded by txns.lock */
	enum txn_state state;
	unsigned n_handles;
	unsigned refs; /* those who look at it besides */
	bool wanted;   /* somebody waits for it to be on disk */
	bool urgent;   /* and now: for space, for memory, for the next one to run */
	bool changed;
	uint64_t first_change_ns, first_wanted_ns;
	struct mblock **dirty; /* a reference to each; some may have been freed again */
	size_t n_dirty, max_dirty;
	struct tree_root *dirty_roots;
	struct txn_waiter *waiters;
	unsigned n_waiters;
	struct txn_log log;
	/* delayed references have their own lock */
	struct delayed_refs refs_owed;
	struct extents extents;
};

/* What transactions need of the volume. Immutable. */
struct txn_config {
	const struct volume_geometry *geo;
	struct dev *dev;
	struct chunk_map *chunks;
	struct meta_cache *meta;
	struct space *space;
	struct tree_root *root_tree;
	struct tree_root *chunk_tree;
	struct tree_root *extent_tree;
	struct tree_root *csum_tree;
	struct tree_root *dev_tree;
	struct tree_root *top_tree; /* of the top subvolume: for the backup roots */
	/* As it is on disk; what space/ has changed in it goes to the disk with a commit. */
	struct btrfs_super_block *super;
	bool discard;	      /* tells the device of what has been freed */
	uint64_t interval_ns; /* between commits when nobody asks for one */
	bool has_log;	      /* false: durable is only what is committed */
	/*
	 * The committer is SETTLING: writes what is kept in memory of files. An error aborts the
	 * transaction.
	 */
	int (*write_files)(void *arg, struct tree_writer *w);
	/*
	 * On the committer's thread t; durable_id is on disk. Returns the newest transaction of which
	 * nobody uses any more what it and those before have freed; as long as that is an older one, t
	 * is woken when this should be asked again. NULL: there is nobody.
	 */
	uint64_t (*unread_id)(void *arg, struct fsc_thread *t, uint64_t durable_id);
	/*
	 * Has data that is waiting to be written put in the trees, `bytes` of it if there is so much:
	 * it may take less space than it was promised. On a thread that may wait, which may hold locks
	 * of files. NULL: there is none.
	 */
	void (*flush_data)(void *arg, struct fsc_ctx *ctx, uint64_t bytes);
	/* The volume has become read-only. Any thread, with no lock held. */
	void (*aborted)(void *arg, int error);
	void *arg;
};

struct txn_stats {
	uint64_t commits;
	uint64_t log_writes;
	uint64_t log_blocks_written;
	uint64_t log_waiters; /* whom log writes have served */
	uint64_t log_ns_sum;
	uint64_t blocks_written;
	uint64_t closed_ns_max; /* the longest that joins were closed */
	uint64_t commit_ns_max;
	uint64_t closed_ns_sum, commit_ns_sum;
	uint64_t refs_max; /* references that a commit has found, at most */
	uint64_t waiters;  /* for whom a commit made something durable */
};

struct txns {
	struct txn_config config; /* immutable */
	struct short_lock lock;
	/* guarded by lock */
	struct txn *running;	/* RUNNING or CLOSING */
	struct txn *committing; /* SETTLING or WRITING, or NULL */
	uint64_t durable_id;	/* the last that is on disk */
	int error;		/* of an abort */
	uint64_t log_round;	/* of notes: moves with each cut */
	/* Grouping of log writes, as of commits, see below. */
	unsigned log_expected_waiters;
	uint64_t usual_log_ns, last_log_ns;
	bool stopping;
	bool committer_idle; /* it must be woken for what changes whether it is time to commit */
	/*
	 * Grouping: as many as have lately waited for commits are likely to come again, and one
	 * commit for all of them costs less than several.
	 */
	unsigned expected_waiters;
	uint64_t usual_commit_ns, last_commit_ns; /* how long they take; when the last was done */
	struct txn_stats stats;
	/*
	 * What is kept in memory of files and will take blocks when the transaction is settled: at
	 * most so many. Any thread.
	 */
	_Atomic size_t owed_blocks;
	/* The committer is to write references; who has made too many waits for that. */
	_Atomic bool writing_refs;
	struct txn_waiter *refs_waiters;
	bool commit_begun;	    /* of the running transaction, which can still be joined */
	struct txn_waiter *joiners; /* wait for the next transaction to run */
	struct txn_waiter *idle;    /* wait for the last handle to end */
	uint64_t released_id;	    /* what it and those before have freed can be allocated */
	struct space_waiter *space_waiters;
	/* the committer */
	struct btrfs_super_block last_super; /* of the last commit, as it is on disk */
	pthread_t committer;
	bool has_committer;
	sem_t started; /* thread is set, or start_error */
	int start_error;
	struct fsc_thread *thread; /* the committer's; others post and wake */
	struct discards *discards; /* the committer's; NULL: none are made */
};

/* What a change is made with. Lives on the caller's stack. */
struct txn_handle {
	struct tree_writer w; /* first: the tree code's view */
	struct txns *txns;
	struct txn *txn;
	uint64_t reserved_bytes; /* of metadata, not used yet */
	struct log_notes notes;
};

/* Starts the committer. -ENOMEM and the errors of fsc_thread_create(). */
int txns_start(struct txns *txns, const struct txn_config *config);

/* Commits what there is, and ends the committer. Returns the error of an abort. */
int txns_stop(struct fsc_thread *t, struct txns *txns);

#define TXN_USE_GLOBAL 1u /* for what frees space: may use the global reserve */

/*
 * Joins the running transaction, with a reservation for changing n_items items of trees. With
 * FSC_NOWAIT -EAGAIN (TXN, SPACE). Else it may wait for the next transaction, make a chunk,
 * commit to get space. -ENOSPC, -EROFS (aborted).
 */
int txn_join(struct fsc_ctx *ctx, struct txns *txns, unsigned n_items, unsigned flags,
	struct txn_handle *h);

/*
 * Promises space of a type, as space_reserve(). When there is no room, and the thread may wait,
 * makes some before it says -ENOSPC: a new chunk; data that is waiting is written; what the last
 * transactions have freed is committed. With FSC_NOWAIT -EAGAIN (SPACE). No handle is held.
 */
int txn_reserve_space(struct fsc_ctx *ctx, struct txns *txns, enum space_type type, uint64_t bytes,
	unsigned flags);

/*
 * The two halves of txn_join(), for what must not fail for lack of space once it has begun: bytes
 * are promised by txn_reserve() (errors as txn_join()), and go to the handle, also when
 * txn_join_reserved() fails, or back with txn_unreserve().
 */
int txn_reserve(
	struct fsc_ctx *ctx, struct txns *txns, unsigned n_items, unsigned flags, uint64_t *bytes);
void txn_unreserve(struct txns *txns, uint64_t bytes);
int txn_join_reserved(struct fsc_ctx *ctx, struct txns *txns, uint64_t bytes, struct txn_handle *h);

/* As txn_end(), but what the handle has not used stays promised: to the caller. */
uint64_t txn_end_keeping(struct txn_handle *h);

/* Ends the use of a handle; what it has not used is unreserved. Returns the transaction's id. */
uint64_t txn_end(struct txn_handle *h);

/* A change went wrong half-way: the transaction will never be committed. Ends the handle. */
void txn_abort(struct txn_handle *h, int error);

/*
 * Has w->msg posted when transaction id (and with it all before) is on disk or has failed
 * (w->status). Never waits. Returns false, and posts nothing, when it is on disk already.
 */
bool txn_wait_durable(struct txns *txns, uint64_t id, struct txn_waiter *w);

/* Commits all that has ended so far, and waits. Might wait. */
int txn_commit(struct fsc_ctx *ctx, struct txns *txns);

/* As txn_commit(), and waits until what has been freed so far can be allocated. */
int txn_commit_for_space(struct fsc_ctx *ctx, struct txns *txns);

/*
 * For who drops or adds references by the thousand, between two of its transactions: has them
 * written before the commit. True: too many are owed now; w->msg is posted when the caller may go
 * on. No handle is held. Never waits.
 */
bool txn_throttle(struct txns *txns, struct txn_waiter *w);
/* The same, and waits. Might wait. */
void txn_throttle_wait(struct fsc_ctx *ctx, struct txns *txns);

/* Makes a chunk of this type in a transaction of its own. Might wait. -ENOSPC. */
int txn_make_chunk(struct fsc_ctx *ctx, struct txns *txns, enum space_type type);

/* The id of the transaction that holds all changes made so far; 0: nothing has changed. */
uint64_t txn_last_changed(struct txns *txns);

/* The id of the running transaction. */
uint64_t txn_running_id(struct txns *txns);

void txn_stats_get(struct txns *txns, struct txn_stats *out);

#endif
