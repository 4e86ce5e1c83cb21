/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/io/chunk_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

void chunk_map_init(struct chunk_map *map)
{
	memset(map, 0, sizeof(*map));
	short_lock_init(&map->lock, RANK_CHUNK_MAP);
}

void chunk_map_fini(struct chunk_map *map)
{
	free(map->chunks);
	short_lock_fini(&map->lock);
}

/* The number of chunks that begin at or before logical. */
static size_t chunks_up_to(const struct chunk_map *map, uint64_t logical)
{
	size_t lo = 0, hi = map->n_chunks;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (map->chunks[mid].logical <= logical)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool same_chunk(const struct chunk *a, const struct chunk *b)
{
	return a->logical == b->logical && a->length_bytes == b->length_bytes &&
		a->type == b->type && a->n_mirrors == b->n_mirrors &&
		!memcmp(a->physical, b->physical, a->n_mirrors * sizeof(a->physical[0]));
}

static int add_locked(struct chunk_map *map, const struct chunk *chunk)
{
	size_t at = chunks_up_to(map, chunk->logical);
	const struct chunk *before = at ? &map->chunks[at - 1] : NULL;
	const struct chunk *after = at < map->n_chunks ? &map->chunks[at] : NULL;

	if (before && same_chunk(before, chunk))
		return 0;
	if (before && chunk->logical - before->logical < before->length_bytes)
		return -EEXIST;
	if (after && after->logical - chunk->logical < chunk->length_bytes)
		return -EEXIST;
	if (map->n_chunks == map->capacity) {
		size_t capacity = MAX(16u, map->capacity * 2);
		struct chunk *grown = reallocarray(map->chunks, capacity, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		map->chunks = grown;
		map->capacity = capacity;
	}
	memmove(&map->chunks[at + 1], &map->chunks[at],
		(map->n_chunks - at) * sizeof(map->chunks[0]));
	map->chunks[at] = *chunk;
	map->n_chunks++;
	return 0;
}

int chunk_map_add(struct chunk_map *map, const struct chunk *chunk)
{
	int ret;

	short_lock(&map->lock);
	ret = add_locked(map, chunk);
	short_unlock(&map->lock);
	return ret;
}

int chunk_map_lookup(struct chunk_map *map, uint64_t logical, struct chunk_place *out)
{
	int ret = -ENOENT;
	size_t n;

	short_lock(&map->lock);
	n = chunks_up_to(map, logical);
	if (n && logical - map->chunks[n - 1].logical < map->chunks[n - 1].length_bytes) {
		const struct chunk *c = &map->chunks[n - 1];
		uint64_t within = logical - c->logical;

		for (unsigned i = 0; i < c->n_mirrors; i++)
			out->physical[i] = c->physical[i] + within;
		out->n_mirrors = c->n_mirrors;
		out->type = c->type;
		out->length_bytes = c->length_bytes - within;
		ret = 0;
	}
	short_unlock(&map->lock);
	return ret;
}

bool chunk_map_next(struct chunk_map *map, uint64_t logical, struct chunk *out)
{
	bool found;
	size_t i;

	short_lock(&map->lock);
	i = logical ? chunks_up_to(map, logical - 1) : 0;
	found = i < map->n_chunks;
	if (found)
		*out = map->chunks[i];
	short_unlock(&map->lock);
	return found;
}
