/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where each logical address lies on the device: the chunks, in order. Filled
 * when the volume is opened, looked up at every read. Any thread.
 */
#ifndef FSCORE_IO_CHUNK_MAP_H
#define FSCORE_IO_CHUNK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

#define CHUNK_MAX_MIRRORS 2u

struct chunk {
	uint64_t logical;
	uint64_t length_bytes;
	uint64_t type; /* BTRFS_BLOCK_GROUP_* */
	unsigned n_mirrors;
	uint64_t physical[CHUNK_MAX_MIRRORS];
};

/* Locking: lock (short, RANK_CHUNK_MAP) guards everything. */
struct chunk_map {
	struct short_lock lock;
	struct chunk *chunks; /* ascending, not overlapping */
	size_t n_chunks;
	size_t capacity;
};

/* A place on the device, and how far it goes on in one piece. */
struct chunk_place {
	uint64_t physical[CHUNK_MAX_MIRRORS];
	unsigned n_mirrors;
	uint64_t type;
	uint64_t length_bytes; /* to the end of the chunk */
};

void chunk_map_init(struct chunk_map *map);
void chunk_map_fini(struct chunk_map *map);

/*
 * Adds a chunk. 0 also when the same chunk is there already (system chunks stand
 * in the superblock and in the chunk tree); -EEXIST: it overlaps another one;
 * -ENOMEM.
 */
int chunk_map_add(struct chunk_map *map, const struct chunk *chunk);

/* -ENOENT: no chunk holds this address. */
int chunk_map_lookup(struct chunk_map *map, uint64_t logical, struct chunk_place *out);

/* The first chunk that begins at logical or behind it; false: there is none. */
bool chunk_map_next(struct chunk_map *map, uint64_t logical, struct chunk *out);

#endif
