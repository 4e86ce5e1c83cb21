/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A volume in memory whose space is tested, with a small stand-in for extent/ and txn/:
 * one transaction at a time, in which blocks are copied, extents come and go, and which is
 * written to the volume, so that btrfs check can look at it.
 *
 * Each change is also made to a model: the state of each sector.
 */
#ifndef TESTS_FSCORE_SPACE_VOLUME_H
#define TESTS_FSCORE_SPACE_VOLUME_H

#include "fscore/space/space.h"
#include "fscore/volume/open.h"

enum sector_state {
	SECTOR_FREE,
	SECTOR_ALLOCATED, /* in memory only */
	SECTOR_IN_TREE,
	SECTOR_PINNED,
};

/* A change of the extent tree that is owed. */
struct owed {
	uint64_t logical, bytes;
	uint64_t root; /* of a block; 0: data */
	uint8_t level;
	bool is_add;
};

#define SV_MAX_SECTORS (1u << 20)

struct space_volume {
	struct fsc_thread *thread;
	struct dev *mem;
	struct fsc_volume *vol;
	struct fsc_ctx ctx;
	struct tree_root extent_tree, dev_tree, free_space_tree, block_group_tree;
	bool has_free_space_tree, has_block_group_tree;
	struct btrfs_super_block super;
	struct space space;
	struct tree_writer w;
	char file[256];	       /* the volume, as a sparse file */
	struct mblock **dirty; /* of this transaction */
	size_t n_dirty, max_dirty;
	struct owed *owed;
	size_t n_owed, max_owed;
	uint8_t state[SV_MAX_SECTORS]; /* enum sector_state, by logical address */
	unsigned new_chunks;
	bool settled;
};

/*
 * mkfs.btrfs with these options on size_bytes. Ends the test when that fails. With "+bgt" for
 * the first option block groups are given a tree of their own, which older versions of
 * mkfs.btrfs can't make.
 */
struct space_volume *sv_create(const char *mkfs_options, uint64_t size_bytes);
void sv_destroy(struct space_volume *sv);

struct space_config sv_config(struct space_volume *sv);

/* Marks a range in the model; all of it must have been in state from. */
void sv_mark(struct space_volume *sv, uint64_t logical, uint64_t bytes, enum sector_state from,
	enum sector_state to);

/* Data extents, through space.h and the model. */
int sv_alloc_data(struct space_volume *sv, uint64_t min_bytes, uint64_t want_bytes,
	uint64_t *logical, uint64_t *bytes);
void sv_free_unused(struct space_volume *sv, uint64_t logical, uint64_t bytes);
void sv_owe_data(struct space_volume *sv, uint64_t logical, uint64_t bytes, bool is_add);
/* A new chunk; 0 or -ENOSPC. */
int sv_alloc_chunk(struct space_volume *sv, enum space_type type);

/* Writes what is owed to the extent tree, and the block groups, until nothing is left. */
void sv_settle(struct space_volume *sv);
/* Ends the transaction: settles, writes the blocks and the superblock, unpins. */
void sv_commit(struct space_volume *sv);
/* While other threads change the space; what is written may be behind that. */
void sv_commit_meanwhile(struct space_volume *sv);

/*
 * What is in memory is what the model says, and what a second struct space loads from the
 * trees. settled: nothing is owed.
 */
void sv_check_memory(struct space_volume *sv);
void sv_check_trees(struct space_volume *sv);
/* The superblock's array has all system chunks, as the chunk tree has them. */
void sv_check_array(struct space_volume *sv);
/* btrfs check has nothing to say about the volume; committed, and without data extents. */
void sv_btrfs_check(struct space_volume *sv);

#endif
