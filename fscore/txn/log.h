/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log of a transaction: what makes changes durable before the transaction is committed.
 *
 *   a change notes what it has done in its handle (log_note_*())
 *   txn_end() publishes these notes, all at once
 *   who wants them on the disk waits (txn_wait_logged()), holding no thread
 *   the committer takes all notes and all who wait (the cut), applies the notes to log trees, and
 *     writes: blocks, flush, a durable superblock with log_root; and tells those who wait
 *   notes that come meanwhile are for the next round: so those who come together share one
 *
 * The superblock of a log write is that of the last commit, with log_root. The log's blocks have the
 * running transaction's generation, which is what replay expects (file/log_read.h). The committer
 * writes logs and commits, so neither happens during the other: a log of transaction N + 1 is
 * written when N is on disk. A commit's superblock has no log; who waits for the log then is told.
 *
 * What is logged: inode items (with all xattrs), the names that came and went, and extents that came, with
 * checksums. What this can't express (log_forbid()), such as a file that is cut, makes all who wait
 * until the transaction is committed wait for the commit; so does a failure to write the log. A
 * flush that fails ends all writing, as in a commit.
 *
 * Log trees have btrfs's format, one for each subvolume, and are changed copy on write: what has been
 * written is not written over, since the superblock on disk leads there. Their blocks are allocated
 * like those of trees, but no tree knows them; what a log write has replaced is free after it, the
 * rest when the transaction is on disk. Data that a log on disk refers to stays where it is until
 * then, since what a transaction frees is pinned.
 *
 * Bounded: the notes that nobody has wanted yet by LOG_NOTES_MAX_BYTES, after which there is no log until
 * the commit; the log by LOG_MAX_BLOCKS, after which there is a commit.
 *
 * Invariants:
 *  1. The notes of one handle are in one log write, or all after it.
 *  2. Of an inode's notes the latest counts, whoever publishes first (struct log_slot).
 *  3. An inode whose item is in the log has all its xattrs there, and there is no extent of an inode
 *     without its item.
 *  4. Inodes with several names are not logged when names change: an INODE_REF item of the log is
 *     one name.
 *
 * Locks: txns.lock guards the notes; the trees are the committer's alone.
 */
#ifndef FSCORE_TXN_LOG_H
#define FSCORE_TXN_LOG_H

#include <stdatomic.h>
#include <stddef.h>

#include "fscore/tree/modify.h"

#define LOG_NOTES_MAX_BYTES (8u << 20)
#define LOG_MAX_BLOCKS	    2048u

struct txn;
struct txn_handle;
struct txn_waiter;
struct txns;

enum log_kind {
	LOG_INODE, /* the inode item is this one now */
	LOG_GONE,  /* the inode has lost its last name */
	LOG_NAME_ADDED,
	LOG_NAME_REMOVED,
	LOG_XATTRS, /* some of the inode's have changed */
	LOG_EXTENT, /* a file has a new extent */
	LOG_CSUMS,  /* of data */
};

#define LOG_NEW 1u /* LOG_INODE: made in this transaction, without xattrs */

/* Of each inode: orders its notes. */
struct log_slot {
	uint64_t version; /* of the last note; guarded by what guards the inode's attributes */
	/* guarded by txns.lock */
	uint64_t published; /* the highest version */
	uint64_t round;	    /* pending is good only in this one */
	struct log_note *pending;
};

struct log_note {
	struct log_note *next;
	enum log_kind kind;
	unsigned flags;
	struct tree_root *root; /* of the subvolume */
	uint64_t ino;		/* a name's: what it leads to */
	struct log_slot *slot;	/* LOG_INODE, LOG_GONE: good until it is published */
	uint64_t version;
	union {
		struct btrfs_inode_item item;
		struct {
			uint64_t dir, index;
			uint8_t type;
		} name;
		struct {
			uint64_t start, end; /* in the file, whole sectors */
		} range;
		struct {
			uint64_t logical;
			uint32_t n;
		} csums;
	};
	uint32_t bytes; /* of data */
	char data[];	/* the name, the extent item, or the checksums */
};

/* In struct txn. */
struct txn_log {
	/* guarded by txns.lock; forbidden may be looked at without, for a hint */
	_Atomic bool forbidden; /* until the commit there are no (more) log writes */
	struct log_note *notes, **notes_end;
	size_t notes_bytes;
	struct txn_waiter *waiters;
	unsigned n_waiters;
	uint64_t first_waiter_ns;
	/* the committer's */
	struct log_trees *trees; /* NULL: nothing has been logged */
};

/* In struct txn_handle: what it has noted. */
struct log_notes {
	struct log_note *first, **end;
};

/*
 * A note for h, with room for data; NULL: nothing is to be noted, because there is no log (or no
 * memory: then there is none any more). It goes to the handle with log_note_add().
 */
struct log_note *log_note_create(struct txn_handle *h, enum log_kind kind, struct tree_root *root,
	uint64_t ino, uint32_t bytes);
void log_note_add(struct txn_handle *h, struct log_note *note);

/*
 * This change can't be logged: until the transaction is committed, who waits, waits for that. Called
 * before the change can be seen.
 */
void log_forbid(struct txn_handle *h);

/* As txn_wait_durable(); the log may be what makes it durable. */
bool txn_wait_logged(struct txns *txns, uint64_t id, struct txn_waiter *w);

#endif
