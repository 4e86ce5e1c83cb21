/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What everything that serves files shares: the open volume (struct fsc_volume of
 * fscore.h) and its subvolumes. volume/ fills it in; nothing else lives here.
 */
#ifndef FSCORE_FILE_FS_H
#define FSCORE_FILE_FS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/lock.h"
#include "fscore/file/epoch.h"
#include "fscore/format/disk.h"
#include "fscore/io/chunk_map.h"
#include "fscore/io/dev.h"
#include "fscore/io/page_pool.h"
#include "fscore/space/space.h"
#include "fscore/tree/meta_cache.h"
#include "fscore/tree/search.h"
#include "fscore/txn/txn.h"

#define SUBVOL_BUCKETS 1024u
#define INODE_SHARDS   64u

/*
 * One subvolume in memory; made when it is first used, and kept until the volume
 * is closed. Immutable but for the root, which has a lock of its own, and what is atomic.
 */
struct subvol {
	struct subvol *next;	 /* hash chain; guarded by fsc_volume.subvol_lock */
	struct subvol *next_new; /* guarded by fs_writing.lock */
	struct fsc_volume *vol;
	uint64_t id;
	struct tree_root root;
	uint64_t root_dirid;
	uint64_t flags; /* BTRFS_ROOT_* */
	uint64_t generation;
	uint8_t uuid[FSC_UUID_BYTES];
	struct fsc_time otime;
	struct long_lock rename_lock; /* RANK_RENAME: held while a directory is moved */
	_Atomic uint64_t next_ino;    /* 0: not known yet; the numbers below are taken */
	_Atomic uint8_t
		compress; /* enum btrfs_compression: what new data gets, if nothing else says */
	/* Where its name is: 0 for the top, and for one whose name is not there. */
	uint64_t parent_id;
	uint64_t parent_dirid;
};

/* The inodes of one hash shard. Locking: lock (RANK_INODE_TABLE). */
struct inode_shard {
	struct short_lock lock;
	struct fsc_inode **buckets;
	struct fsc_inode *newest, *oldest; /* in order of their coming */
	size_t n_inodes;
	uint64_t hits, misses, evictions;
};

struct fs_stats {
	_Atomic uint64_t page_hits, page_misses;
	_Atomic uint64_t csum_errors, mirror_repairs, repaired, readahead_bytes;
};

TAILQ_HEAD(inode_list, fsc_inode);

/* What only a volume that is opened for writing has. */
struct fs_writing {
	/* immutable after open */
	struct tree_root extent_tree, block_group_tree, free_space_tree, dev_tree;
	bool has_block_group_tree, has_free_space_tree, has_space, has_txns;
	const char *failing; /* while the volume is opened: what can't be done, if it fails now */
	struct btrfs_super_block super; /* as it will be written: see space_config, txn_config */
	struct space space;
	struct txns txns;
	_Atomic bool failed;   /* a transaction was aborted */
	_Atomic int lost_data; /* why; not told yet to fsc_sync_all() */

	/* guarded by lock (RANK_DIRTY_FILES) */
	struct short_lock lock;
	struct inode_list dirty_inodes; /* whose items are to be written; each is referenced */
	struct inode_list dirty_files;	/* that have pages to be written; each is referenced */
	uint64_t dirty_bytes;		/* of all files, under writeback or not */
	uint64_t dirty_limit_bytes;
	bool stopping;
	struct dirty_waiter *dirty_waiters;
	uint64_t gone_bytes; /* have been dirty, and are not any more */
	struct dirty_waiter
		*written_waiters;      /* wait until the flusher has written so much, or all */
	struct subvol *new_subvols;    /* whose orphans have not been looked at */
	struct inode_list dead_inodes; /* whose items are to be deleted; each is referenced */
	size_t n_dead;

	/* the flusher */
	pthread_t flusher;
	bool has_flusher;
	sem_t started;
	int start_error;
	struct fsc_thread *flusher_thread;
};

struct fsc_volume {
	/* immutable after open */
	struct dev *dev;
	struct btrfs_super_block super;
	struct volume_geometry geo;
	bool read_only;
	bool discard;
	void (*data_lost)(void *arg);
	void *data_lost_arg;
	uint64_t default_subvol;
	struct chunk_map chunks;
	struct meta_cache meta;
	struct page_pool pages;
	struct tree_root chunk_tree;
	struct tree_root root_tree;
	struct tree_root csum_tree;
	struct fs_writing *w;			/* NULL: read only */
	bool has_csum_tree;			/* false: its root could not be found */
	size_t inodes_per_shard, inode_buckets; /* both powers of two */

	/* guarded by subvol_lock (RANK_SUBVOL_TABLE) */
	struct short_lock subvol_lock;
	struct subvol *subvols[SUBVOL_BUCKETS];

	struct inode_shard inodes[INODE_SHARDS];
	struct read_epochs epochs;
	struct fs_stats stats;
};

/* Whether changes are possible now. */
static inline bool fs_writable(const struct fsc_volume *vol)
{
	return vol->w && !atomic_load_explicit(&vol->w->failed, memory_order_relaxed);
}

/* Counts up a statistic. */
static inline void stat_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
