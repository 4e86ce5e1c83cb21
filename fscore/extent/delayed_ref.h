/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delayed references: changes of the extent tree that a transaction owes. A change of a
 * file or tree only notes here which references come and go; they are written to the
 * extent tree in batches, each extent at once, opposites having cancelled out.
 *
 * A head stands for one extent. Its references that come are in one list, those that go
 * in another, so that the next one to run (those that come first, or an extent could be
 * freed in between) is found at once however many there are.
 *
 * Invariants:
 *  1. A head in the table has something to do: references, a new item, or flags.
 *  2. A reference is in the list that its sign says, and its count is not zero.
 *  3. At most one thread runs heads; the head that it works on is `running`.
 *
 * Locks: lock (short, RANK_DELAYED_REFS) guards everything.
 */
#ifndef FSCORE_EXTENT_DELAYED_REF_H
#define FSCORE_EXTENT_DELAYED_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/lock.h"
#include "fscore/format/disk.h"
#include "fscore/fscore.h"

/* Who refers to an extent. */
struct ref_key {
	uint64_t parent; /* full back reference: the block that refers to it; else 0 */
	uint64_t root;	 /* else the tree */
	/* data only */
	uint64_t objectid;
	uint64_t offset; /* of the file extent, less the offset within the extent */
};

struct delayed_ref {
	TAILQ_ENTRY(delayed_ref) list; /* of its head */
	struct delayed_ref *next;      /* hash chain */
	struct delayed_head *head;
	struct ref_key key;
	int64_t count; /* > 0 comes, < 0 goes */
};

TAILQ_HEAD(delayed_ref_list, delayed_ref);

struct delayed_head {
	TAILQ_ENTRY(delayed_head) list; /* in order of coming */
	struct delayed_head *next;	/* hash chain */
	uint64_t logical;
	uint64_t bytes;
	bool is_data;
	uint8_t level; /* of a tree block */
	bool is_new;   /* the extent has no item yet */
	bool running;
	uint64_t new_flags;		 /* BTRFS_BLOCK_FLAG_FULL_BACKREF to be set */
	struct btrfs_disk_key first_key; /* of a tree block, for items that are not skinny */
	struct delayed_ref_list adds, drops;
	int64_t net; /* the sum of all counts */
	size_t n_refs;
};

TAILQ_HEAD(delayed_head_list, delayed_head);

/* Waits for the head that is running now; embed it. */
struct delayed_waiter {
	struct delayed_waiter *next;
	struct fsc_thread *thread;
	struct fsc_msg msg;
};

struct delayed_refs {
	struct short_lock lock;
	struct delayed_head **heads; /* by address */
	struct delayed_ref **refs;   /* by address and key */
	size_t n_buckets;	     /* of each, a power of two */
	struct delayed_head_list order;
	size_t n_heads, n_refs;
	bool running; /* a head is */
	struct delayed_waiter *waiters;
};

/* What a change says of an extent. */
struct ref_change {
	uint64_t logical;
	uint64_t bytes;
	bool is_data;
	uint8_t level;
	bool is_new; /* the extent was just allocated: count is 1 and makes its item */
	struct btrfs_key first_key;
	struct ref_key key;
	int64_t count;
};

int delayed_refs_init(struct delayed_refs *dr);
/* Also throws away what is left, after an abort. */
void delayed_refs_fini(struct delayed_refs *dr);

/*
 * Notes a change. *cancelled: the tree block was new in this transaction and has lost its
 * last reference before any was written: nothing is owed any more, and the caller gives the
 * space back. -ENOMEM.
 */
int delayed_ref_add(struct delayed_refs *dr, const struct ref_change *change, bool *cancelled);

/* Notes that a tree block's item gets these flags. -ENOMEM. */
int delayed_flags_add(
	struct delayed_refs *dr, uint64_t logical, uint64_t bytes, uint8_t level, uint64_t flags);

/* What is owed to an extent; false: nothing. *running: it is being written right now. */
bool delayed_head_peek(struct delayed_refs *dr, uint64_t logical, bool *is_new, int64_t *net,
	uint64_t *new_flags, bool *running);

/*
 * Whether the extent is owed nothing but references with this key, if anything. *is_new: it has
 * no item yet. *running: it is being written right now.
 */
bool delayed_refs_only(struct delayed_refs *dr, uint64_t logical, const struct ref_key *key,
	bool *is_new, bool *running);

/* Takes the first head that is owed, and marks it running; NULL: there is none. */
struct delayed_head *delayed_head_start(struct delayed_refs *dr);

/*
 * Takes the next reference of a running head: those that come, then those that go. False:
 * there is none. first: only a reference that comes.
 */
bool delayed_ref_take(
	struct delayed_refs *dr, struct delayed_head *head, struct ref_key *key, int64_t *count);

/* Takes the head's other debts: a new item, flags. */
void delayed_head_take(
	struct delayed_refs *dr, struct delayed_head *head, bool *is_new, uint64_t *new_flags);

/*
 * Ends the run of a head: it is freed when nothing is owed any more (more may have come
 * meanwhile), else it goes to the end of the order.
 */
void delayed_head_stop(struct delayed_refs *dr, struct delayed_head *head);

/* Has w->msg posted when the head that is running is not any more. False: none is. */
bool delayed_refs_wait(struct delayed_refs *dr, struct delayed_waiter *w);

size_t delayed_refs_count(struct delayed_refs *dr);

#endif
