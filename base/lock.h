/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks with ranks, and might_wait().
 *
 * Two kinds:
 *   short_lock  a mutex held for a bounded number of instructions: never over
 *               I/O, a sleep, a wait, or another kind of lock. Any thread takes
 *               it, loop threads too.
 *   long_lock   a reader-writer lock that may be held for longer (while a tree
 *               is searched or changed). A loop thread only tries it; taking it
 *               for certain is a place that might wait.
 *
 * Order: a thread takes locks in ascending rank, and those of one rank in ascending
 * address; a try may break the order. A debug build checks it (BYRE_DEBUG).
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Ascending: what is taken first stands first. */
enum lock_rank {
	RANK_SERVER = 10,	/* exports, job queues */
	RANK_SUBVOL_TABLE = 20, /* volume: subvolumes by id */
	RANK_RENAME = 24,	/* file: moving directories of a subvolume */
	RANK_INODE_OP = 25,	/* file: one for each inode, held over a change */
	RANK_TREE_ROOT = 30,	/* tree: one for each tree root */
	RANK_EXTENT_ROOT = 31,	/* tree: that of the extent tree */
	RANK_INODE_TABLE = 40,	/* file: inodes by number */
	RANK_INODE_ATTR = 45,	/* file: attributes of an inode */
	RANK_INODE_PAGES = 50,	/* file: page index of an inode */
	RANK_DIRTY_FILES = 52,	/* file: what is to be written */
	RANK_TXN = 55,		/* txn: the transactions of a volume */
	RANK_META_CACHE = 60,	/* tree: shard of the metadata cache */
	RANK_META_ALLOC = 65,	/* tree: free blocks of the metadata cache */
	RANK_DELAYED_REFS = 66, /* extent: references that are owed */
	RANK_SPACE = 67,	/* space: block groups, reservations */
	RANK_PAGE_POOL = 70,	/* io: the page pool */
	RANK_CHUNK_MAP = 80,	/* io: chunk map */
	RANK_IO_INBOX = 90,	/* io: messages to a thread */
	RANK_DEVICE = 95,	/* io: memory, fault, recording devices */
};

struct short_lock {
	pthread_mutex_t mutex;
	enum lock_rank rank;
};

struct long_lock {
	pthread_rwlock_t rwlock;
	enum lock_rank rank;
};

void short_lock_init(struct short_lock *l, enum lock_rank rank);
void short_lock_fini(struct short_lock *l);
void short_lock(struct short_lock *l);
bool short_trylock(struct short_lock *l);
void short_unlock(struct short_lock *l);

void long_lock_init(struct long_lock *l, enum lock_rank rank);
void long_lock_fini(struct long_lock *l);
void long_lock_read(struct long_lock *l);
bool long_trylock_read(struct long_lock *l);
void long_lock_write(struct long_lock *l);
bool long_trylock_write(struct long_lock *l);
void long_unlock(struct long_lock *l);

/*
 * Every primitive that can sleep calls this first, naming what it is about to
 * do. On a thread that has declared itself a loop thread it is a bug: a debug
 * build aborts, another counts and logs.
 */
void might_wait(const char *what);

/* Declares the calling thread to be one that must never wait (or not any more). */
void might_wait_set_loop(bool is_loop);
bool might_wait_is_loop(void);

/* How often a loop thread might have waited, since the start. */
uint64_t might_wait_count(void);

#endif
