/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For log_replay*.c. */
#ifndef FSCORE_FILE_LOG_REPLAY_PRIVATE_H
#define FSCORE_FILE_LOG_REPLAY_PRIVATE_H

#include "fscore/file/inode.h"
#include "fscore/file/log_read.h"
#include "fscore/file/name_items.h"

/* Data that the logs refer to and the extent tree does not know. Ascending by address. */
struct logged_extent {
	uint64_t logical, bytes;
	bool used; /* an extent item is owed for it */
};

struct inode_numbers {
	uint64_t *inos;
	size_t n, max;
};

struct replay {
	struct fsc_ctx *ctx;
	struct fsc_volume *vol;
	struct txn_handle h;
	/* what the logs take */
	uint64_t *blocks;
	size_t n_blocks, max_blocks, n_taken_blocks;
	struct logged_extent *extents;
	size_t n_extents, max_extents, n_taken_extents;
	/* the subvolume at hand */
	struct subvol *sv;
	struct tree_root *log;
	struct inode_numbers touched; /* whose links are to be counted */
	uint64_t ignored;	      /* this inode is not replayed */
	uint64_t grown_ino;	      /* whose used bytes change by grown_bytes */
	int64_t grown_bytes;
};

/* Called before each small change: room for it in memory and on the disk. */
int replay_make_room(struct replay *r);

/* Notes that the inode's links are to be counted. -ENOMEM. */
int replay_touch(struct replay *r, uint64_t ino);

/* Puts an item in the subvolume's tree, in place of the one there. */
int replay_put_item(
	struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes);

/* -- inodes -- */

/* The inode item in the subvolume. -ENOENT. */
int replay_read_inode(struct replay *r, uint64_t ino, struct btrfs_inode_item *out);
/* Writes it back. */
int replay_write_inode(struct replay *r, uint64_t ino, const struct btrfs_inode_item *item);
/* 1: it exists, 0: not; or an error. */
int replay_inode_exists(struct replay *r, uint64_t ino);
/* The same, and it is a directory. */
int replay_dir_exists(struct replay *r, uint64_t ino);
/* An inode item of the log, with all that must happen before names and extents come. */
int replay_inode(struct replay *r, uint64_t ino, const struct btrfs_inode_item *item);
/* Counts the links of all inodes that were touched; those without become orphans. */
int replay_fix_links(struct replay *r);

/* -- names -- */

/* Drops the entries of a directory that the log's ranges cover and the log lacks; or all. */
int replay_dir_deletes(struct replay *r, uint64_t dir, bool all);
/* A DIR_INDEX item. */
int replay_dir_index(
	struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes);
/* An INODE_REF or INODE_EXTREF item. */
int replay_refs(struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes);

/* One back reference in an INODE_REF or INODE_EXTREF item. */
struct ref_entry {
	uint64_t dir, index;
	const char *name;
	size_t len;
};

/* The entry at *pos of such an item; *pos goes on behind it. False: there is no more. */
bool ref_entry_next(const struct btrfs_key *key, const void *data, uint32_t bytes, uint32_t *pos,
	struct ref_entry *out);

/* -- data -- */

/* An EXTENT_DATA item. */
int replay_extent(struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes);
/* Drops all extents of a file from `from` (a whole sector) on; *dropped: its used bytes. */
int replay_drop_extents(
	struct replay *r, uint64_t ino, uint64_t from, uint64_t end, uint64_t *dropped);
/* Without no-holes: explicit holes where the file has no items up to its end. */
int replay_fill_holes(struct replay *r, uint64_t ino, uint64_t size);
/* Writes the change of used bytes that replay_extent() has collected. */
int replay_flush_used(struct replay *r);

#endif
