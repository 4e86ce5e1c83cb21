/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of space/ share. */
#ifndef FSCORE_SPACE_SPACE_PRIVATE_H
#define FSCORE_SPACE_SPACE_PRIVATE_H

#include "fscore/space/run_map.h"
#include "fscore/space/space.h"

/* One bitmap item of the free-space tree covers that many sectors. */
#define FST_BITMAP_BITS (256u * 8u)

/* Chunks are no smaller. */
#define CHUNK_LEAST_BYTES (1u << 20)

/*
 * A block group. Once it is in space.groups it stays until space_close(), so a pointer to
 * it is good without the lock.
 *
 * loaded goes from false to true once. As long as it is false, nothing of the block group
 * changes, neither in memory nor in the trees: every change loads it first. So those who
 * load it need no lock, and when two do, the second one's work is thrown away.
 */
struct block_group {
	/* immutable */
	uint64_t logical;
	uint64_t length_bytes;
	uint64_t flags; /* BTRFS_BLOCK_GROUP_*, as of the chunk */
	unsigned n_mirrors;
	uint64_t physical[CHUNK_MAX_MIRRORS];
	uint64_t super_bytes; /* under copies of the superblock: never allocated */

	/* guarded by space.lock */
	uint64_t used_bytes; /* in the trees, as of the running transaction */
	bool loaded;
	bool read_only; /* damaged: nothing is allocated from it */
	bool dirty;	/* something is to be written by space_write_groups() */
	/*
	 * The free-space tree tells of it, or what it will tell has been taken: changes from then on
	 * are kept in `written`. And whether its items are really there, for who reads them.
	 */
	bool in_fst, has_fst_items;
	struct run_map free;
	/* The sectors that belong to no extent of the running transaction's trees. */
	uint64_t *unused;
	/* What unused was when it was last written; NULL: it has not changed. */
	uint64_t *written;

	/* of the one that calls space_write_groups(), once loaded */
	bool is_new; /* not in the trees yet */
	bool has_bitmaps;
	uint32_t extent_count;
	uint64_t item_used_bytes; /* as the block group item says */
};

/* Ranges that were freed in one transaction. */
struct pin_set {
	struct pin_set *next;
	uint64_t generation;
	struct pin {
		uint64_t logical, bytes;
	} * pins;
	size_t n_pins, max_pins;
};

/* Guarded by space.lock. */
struct space_impl {
	struct pin_set *pin_sets;
	uint64_t cursor[SPACE_TYPES];	   /* where the last allocation ended */
	uint64_t loaded_free[SPACE_TYPES]; /* of loaded block groups, by info */
	bool no_room[SPACE_TYPES];	   /* for a chunk of this type, on the device */
	uint64_t chunks_made[SPACE_TYPES];
	unsigned rebuild_groups; /* how many more may be put in the free-space tree now */
};

static inline uint64_t sectors_of(const struct space *space, uint64_t bytes)
{
	return bytes / space->config.geo->sector_bytes;
}

static inline uint64_t group_sectors(const struct space *space, const struct block_group *bg)
{
	return sectors_of(space, bg->length_bytes);
}

static inline bool is_mixed(const struct space *space)
{
	return space->config.geo->incompat_flags & BTRFS_FEATURE_INCOMPAT_MIXED_GROUPS;
}

/* BTRFS_BLOCK_GROUP_DATA and so on. */
uint64_t type_flag(enum space_type type);

/* The info that counts a block group, and its place in space.info. */
enum space_type group_info_type(const struct space *space, const struct block_group *bg);

/* The lock is held. NULL: no block group there. */
struct block_group *group_at_locked(const struct space *space, uint64_t logical);
/* The first one that ends behind logical; n_groups when there is none. */
size_t group_index_locked(const struct space *space, uint64_t logical);

/* A block group for a chunk; not in space.groups. NULL: no memory. */
struct block_group *group_create(const struct space *space, const struct chunk *chunk);
void group_destroy(struct block_group *bg);

/* Makes room in space.groups for another one. -ENOMEM. */
int group_make_room(struct space *space);

/* Puts it in space.groups, where there is room, and counts it; taken_bytes are allocated already. */
void group_insert(struct space *space, struct block_group *bg, uint64_t taken_bytes);

#define SET_ASIDE_MAX 64u

/* Nodes that are allocated before it is known where in the trees they will be. */
struct set_aside {
	unsigned n[SPACE_TYPES];
	uint64_t logical[SPACE_TYPES][SET_ASIDE_MAX];
};

/*
 * Sets n nodes aside; from fresh, which is not in space.groups, if there are not enough
 * elsewhere: *fresh_bytes is what that gives. -ENOSPC: some may have been taken.
 */
int set_aside_nodes(struct space *space, enum space_type type, unsigned n,
	struct block_group *fresh, struct set_aside *set, uint64_t *fresh_bytes);

/* Gives back what was not used, but for what is in fresh (NULL: nothing is). */
void set_aside_give_back(
	struct space *space, struct set_aside *set, const struct block_group *fresh);

/* Where the i'th piece under a superblock copy lies, in sectors from the start. False: no more. */
bool group_super_range(const struct space *space, const struct block_group *bg, unsigned i,
	uint64_t *from, uint64_t *to);

/*
 * Loads the bitmaps. Might wait. 0 also when another thread has been faster. -EAGAIN with
 * FSC_NOWAIT. -EUCLEAN: what the trees say can't be; the block group is read-only now.
 */
int group_load(struct fsc_ctx *ctx, struct space *space, struct block_group *bg);

/* What the extent tree leaves free of a block group, into zeros. Might wait. */
int group_scan_extents(
	struct fsc_ctx *ctx, struct space *space, const struct block_group *bg, uint64_t *unused);

/* Makes the bitmaps of a new block group, without a lock. -ENOMEM. */
int group_load_empty(const struct space *space, struct block_group *bg);

/* The sizes have changed: how much global reserve there should be now. The lock is held. */
void update_global_reserve_locked(struct space *space);

/* What metadata may be promised beyond what its block groups have. The lock is held. */
uint64_t overcommit_bytes_locked(const struct space *space);

/* The flags for a new chunk, and its number of copies. The lock is held. */
uint64_t chunk_flags_locked(const struct space *space, enum space_type type);

static inline unsigned mirrors_of_flags(uint64_t flags)
{
	return flags & BTRFS_BLOCK_GROUP_DUP ? 2 : 1;
}

/* ------------------------------------------------------ the free-space tree */

/*
 * Changes what the tree says about bg from `before` to `after`, and keeps the number of
 * extents and the form right. Without bg->has_fst_items before is all zeros, and nothing is
 * there.
 */
int fst_write(struct tree_writer *w, struct space *space, struct block_group *bg,
	const uint64_t *before, const uint64_t *after);

/* Reads what the tree says about bg, into zeros. Sets has_bitmaps and extent_count. */
int fst_read(struct fsc_ctx *ctx, struct space *space, const struct block_group *bg,
	uint64_t *unused, bool *has_bitmaps, uint32_t *extent_count);

#endif
