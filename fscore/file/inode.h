/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inodes in memory: a table by (subvolume, number), in shards, of bounded size.
 *
 * Life: read in by inode_get() with one reference -> shared by references -> with
 * none it stays in the table, with its pages, until the shard is full and it is the
 * oldest that was not used again -> its pages are dropped, it is freed. Those whose data was lost,
 * which nobody has been told yet, stay longer: as many as a quarter of the others.
 *
 * Invariants:
 *  1. refs go up from zero only under the shard's lock, so an inode without
 *     references is taken out under that lock alone.
 *  2. A page that is being read holds a reference to its inode.
 *
 * Locks, in order: op_lock, shard->lock, attr_lock, owner.lock (pages, read-ahead, what is to
 * be written).
 */
#ifndef FSCORE_FILE_INODE_H
#define FSCORE_FILE_INODE_H

#include "fscore/file/fs.h"
#include "fscore/file/page_index.h"
#include "fscore/io/page_pool.h"

/* Where sequential reading has come to; guarded by owner.lock. */
struct readahead {
	uint64_t next_off;  /* the end of the last read */
	uint64_t ahead_off; /* what is before it has been asked for */
	unsigned streak;    /* reads in sequence */
};

struct fsc_inode {
	/* immutable */
	struct subvol *subvol;
	uint64_t ino;
	uint32_t type; /* S_IFMT bits */
	/*
	 * RANK_INODE_OP, for writing: held over a change of names in this directory, or of this
	 * file's size, content or attributes.
	 */
	struct long_lock op_lock;
	/* guarded by the shard's lock (refs: invariant 1) */
	_Atomic uint32_t refs;
	_Atomic bool referenced;
	bool is_new;		/* not in the table yet */
	struct fsc_inode *next; /* hash chain */
	struct fsc_inode *newer, *older;
	/* guarded by attr_lock (short, RANK_INODE_ATTR) */
	struct short_lock attr_lock;
	struct fsc_attr attr;
	uint64_t flags;	     /* BTRFS_INODE_* */
	uint64_t disk_size;  /* what the item will say: not beyond what is on disk */
	uint64_t used_bytes; /* what the item says: nbytes */
	uint64_t cut_seq;    /* changes when the size becomes smaller */
	uint64_t last_txn;   /* the last transaction with a change */
	uint64_t next_index; /* of a directory; 0: not known yet */
	bool compress_known;
	uint8_t compress_prop; /* enum btrfs_compression: the property's, once it is known */
	bool unlinked;	       /* has no name any more: handles are stale */
	struct log_slot log;   /* log.version; the rest is the transactions' */
	/* guarded by fs_writing.lock */
	bool is_dirty;
	TAILQ_ENTRY(fsc_inode) dirty_link;
	bool in_dirty_files;
	bool is_urgent; /* somebody waits for it to be written */
	TAILQ_ENTRY(fsc_inode) dirty_files_link;
	TAILQ_ENTRY(fsc_inode) dead_link;
	/* owner.lock guards what follows */
	struct page_owner owner;
	struct page_index index;
	/*
	 * Changes before and after extents do. A page that is written is in the index meanwhile: a
	 * read that found none, and then the same number, has looked up the extent that counts.
	 */
	uint64_t map_seq;
	struct readahead ra;
	struct page_index dirty;   /* the pages to be written */
	struct page_index writing; /* those that are on their way */
	uint64_t n_dirty;
	unsigned n_writing; /* pieces on their way to the disk and into the trees */
	bool grows;	    /* a small file is getting large: it must not go inline any more */
	bool is_dead;	    /* its items are being deleted: nothing is to be written any more */
	int write_error;    /* not told yet to a sync */
	struct inode_sync *syncs;	    /* wait until nothing is to be written */
	struct inode_waiter *write_waiters; /* wait until n_writing is 0 */
	uint64_t first_dirty_ns;
};

static inline uint64_t inode_size(struct fsc_inode *inode)
{
	uint64_t size;

	short_lock(&inode->attr_lock);
	size = inode->attr.size_bytes;
	short_unlock(&inode->attr_lock);
	return size;
}

/* The attributes of an inode that is in memory: the item may be older. False: it is not. */
bool inode_peek_attr(struct subvol *sv, uint64_t ino, struct fsc_attr *attr);

/* As fsc_inode_get(), by subvolume, without generation. -ENOENT. */
int inode_get(struct fsc_ctx *ctx, struct subvol *sv, uint64_t ino, struct fsc_inode **out);

/* Fills attr from an inode item. has_acl is left true. */
void inode_item_attr(const struct subvol *sv, uint64_t ino, const struct btrfs_inode_item *item,
	struct fsc_attr *attr);

/* The stand-in for a subvolume that is not in this snapshot. */
void inode_stub_attr(const struct subvol *sv, struct fsc_attr *attr);

/*
 * A new inode in memory with one reference, not in the table: to be filled in, and then
 * added (inode_add_new()) or freed (inode_free_new()). NULL: no memory.
 */
struct fsc_inode *inode_alloc(struct subvol *sv, uint64_t ino);
void inode_free_new(struct fsc_inode *inode);
void inode_add_new(struct fsc_inode *inode);

/* Takes an inode out of the table again: it was not created after all. References stay good. */
void inode_forget(struct fsc_inode *inode);

/* Fills a disk item from the inode. attr_lock is held. */
void inode_to_item(const struct fsc_inode *inode, uint64_t transid, struct btrfs_inode_item *item);

int inode_table_init(struct fsc_volume *vol, size_t bytes);
/* No inode is referenced. */
void inode_table_free(struct fsc_volume *vol);

#endif
