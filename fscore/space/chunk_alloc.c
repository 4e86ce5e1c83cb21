/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * New chunks. In this order: a place is chosen, and nodes for the trees are set aside, which is all
 * that can fail for lack of room;
 * the chunk is put in the chunk map, and only then its block group in the table, so that
 * whoever sees a block group finds its chunk; then the chunk and device trees change, whose
 * new blocks may come from the new block group already. Its item and its free space are
 * written by space_write_groups(), in the same transaction. Up to the table chunk_lock is
 * held, so that two threads do not choose the same place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"
#include "fscore/tree/leaf.h"

#define DEVICE_FIRST_BYTE  (1ull << 20)
#define DATA_CHUNK_BYTES   (1ull << 30)
#define META_CHUNK_BYTES   (256ull << 20)
#define SYSTEM_CHUNK_BYTES (32ull << 20)
#define LARGE_DEVICE_BYTES (50ull << 30)
#define CHUNK_DEVICE_SHARE 10u
#define DATA_AHEAD_BYTES   (64ull << 20)
#define META_AHEAD_BYTES   (16ull << 20)
#define SYSTEM_AHEAD_NODES 32u
#define MAX_STRIPES	   CHUNK_MAX_MIRRORS

/* ------------------------------------------------------------------- what */

/* Of the newest block group of the type; without one DUP for metadata, single for data. */
uint64_t chunk_flags_locked(const struct space *space, enum space_type type)
{
	uint64_t flags = type_flag(type);

	if (type != SPACE_SYSTEM && is_mixed(space))
		flags = BTRFS_BLOCK_GROUP_DATA | BTRFS_BLOCK_GROUP_METADATA;
	for (size_t i = space->n_groups; i-- > 0;)
		if ((space->groups[i]->flags & BTRFS_BLOCK_GROUP_TYPE_MASK) == flags)
			return space->groups[i]->flags;
	return type == SPACE_DATA || is_mixed(space) ? flags : flags | BTRFS_BLOCK_GROUP_DUP;
}

static uint64_t usual_chunk_bytes(const struct space *space, enum space_type type)
{
	uint64_t device = space->config.device_bytes, bytes;

	if (type == SPACE_SYSTEM)
		bytes = SYSTEM_CHUNK_BYTES;
	else if (type == SPACE_DATA || device > LARGE_DEVICE_BYTES)
		bytes = DATA_CHUNK_BYTES;
	else
		bytes = META_CHUNK_BYTES;
	return MAX(MIN(bytes, device / CHUNK_DEVICE_SHARE), CHUNK_LEAST_BYTES);
}

bool space_wants_chunk(struct space *space, enum space_type type)
{
	uint64_t node = space->config.geo->node_bytes, taken, free_bytes, ahead;
	const struct space_info *info = &space->info[space->shared_with[type]];
	bool wants;

	short_lock(&space->lock);
	taken = info->used_bytes + info->pinned_bytes + info->readonly_bytes;
	/* What metadata is promised is for the worst case, what data is will be used. */
	if (type == SPACE_DATA || is_mixed(space))
		taken += info->reserved_bytes;
	free_bytes = info->total_bytes - MIN(taken, info->total_bytes);
	ahead = usual_chunk_bytes(space, type) / 4;
	if (type == SPACE_DATA)
		ahead = MIN(ahead, DATA_AHEAD_BYTES);
	else if (type == SPACE_METADATA)
		ahead = MIN(ahead, META_AHEAD_BYTES) + space->global_reserve_bytes;
	else
		ahead = SYSTEM_AHEAD_NODES * node;
	wants = free_bytes < ahead && !space->impl->no_room[type];
	short_unlock(&space->lock);
	return wants;
}

/* ------------------------------------------------------------------- where */

struct piece {
	uint64_t physical, bytes;
};

static int by_physical(const void *a, const void *b)
{
	const struct piece *p = a, *q = b;

	return p->physical < q->physical ? -1 : p->physical > q->physical;
}

/* The pieces of the device that chunks have, in order; to be freed. */
static int list_taken(struct space *space, struct piece **out, size_t *n)
{
	struct piece *pieces = NULL;
	struct chunk chunk;
	size_t max = 0;

	*n = 0;
	for (uint64_t at = 0; chunk_map_next(space->config.chunks, at, &chunk);
		at = chunk.logical + chunk.length_bytes) {
		if (*n + chunk.n_mirrors > max) {
			struct piece *grown;

			max = MAX(64u, max * 2);
			grown = reallocarray(pieces, max, sizeof(*grown));
			if (!grown) {
				free(pieces);
				return -ENOMEM;
			}
			pieces = grown;
		}
		for (unsigned i = 0; i < chunk.n_mirrors; i++)
			pieces[(*n)++] = (struct piece){chunk.physical[i], chunk.length_bytes};
	}
	if (*n)
		qsort(pieces, *n, sizeof(*pieces), by_physical);
	*out = pieces;
	return 0;
}

/* Keeps the two largest holes, the largest first. */
static void note_hole(struct piece best[2], uint64_t from, uint64_t to)
{
	struct piece hole;

	from = align_up(from, BTRFS_STRIPE_LEN_BYTES);
	if (from >= to)
		return;
	hole = (struct piece){from, to - from};
	if (hole.bytes > best[0].bytes) {
		best[1] = best[0];
		best[0] = hole;
	} else if (hole.bytes > best[1].bytes) {
		best[1] = hole;
	}
}

static int find_holes(struct space *space, struct piece best[2])
{
	uint64_t at = DEVICE_FIRST_BYTE;
	struct piece *taken;
	size_t n;
	int ret = list_taken(space, &taken, &n);

	if (ret)
		return ret;
	memset(best, 0, 2 * sizeof(best[0]));
	for (size_t i = 0; i < n; i++) {
		note_hole(best, at, taken[i].physical);
		at = MAX(at, taken[i].physical + taken[i].bytes);
	}
	note_hole(best, at, space->config.device_bytes);
	free(taken);
	return 0;
}

/* Both copies in the largest hole, or one in each of two, whatever gives more. */
static uint64_t place_stripes(const struct piece holes[2], struct chunk *chunk)
{
	uint64_t most = chunk->length_bytes, bytes = MIN(holes[0].bytes, most);

	chunk->physical[0] = holes[0].physical;
	if (chunk->n_mirrors == 2) {
		uint64_t apart = MIN(holes[1].bytes, most),
			 together = MIN(holes[0].bytes / 2, most);

		bytes = MAX(apart, together);
	}
	bytes = align_down(bytes, CHUNK_LEAST_BYTES);
	if (chunk->n_mirrors == 2)
		chunk->physical[1] =
			holes[0].bytes / 2 >= bytes ? holes[0].physical + bytes : holes[1].physical;
	return bytes;
}

/* What data must leave alone, so that the metadata that was promised finds room. */
static uint64_t kept_for_metadata_locked(const struct space *space)
{
	const struct space_info *info = &space->info[SPACE_METADATA];
	uint64_t taken =
		info->used_bytes + info->reserved_bytes + info->pinned_bytes + info->readonly_bytes;

	if (is_mixed(space) || taken <= info->total_bytes)
		return 0;
	/* Chunks are whole MiB. */
	return (taken - info->total_bytes + CHUNK_LEAST_BYTES) *
		mirrors_of_flags(chunk_flags_locked(space, SPACE_METADATA));
}

static int choose(struct space *space, enum space_type type, struct chunk *chunk)
{
	struct piece holes[2];
	uint64_t kept;
	size_t n;
	int ret = find_holes(space, holes);

	if (ret)
		return ret;
	short_lock(&space->lock);
	chunk->type = chunk_flags_locked(space, type);
	chunk->n_mirrors = mirrors_of_flags(chunk->type);
	kept = type == SPACE_DATA ? kept_for_metadata_locked(space) : 0;
	kept = MIN(kept, space->unallocated_bytes);
	chunk->length_bytes = MIN(usual_chunk_bytes(space, type),
		(space->unallocated_bytes - kept) / chunk->n_mirrors);
	n = space->n_groups;
	if (n)
		chunk->logical =
			align_up(space->groups[n - 1]->logical + space->groups[n - 1]->length_bytes,
				BTRFS_STRIPE_LEN_BYTES);
	chunk->length_bytes = place_stripes(holes, chunk);
	if (chunk->length_bytes < CHUNK_LEAST_BYTES) {
		/* Only what is reserved may become less. */
		if (!kept)
			space->impl->no_room[type] = true;
		ret = -ENOSPC;
	}
	short_unlock(&space->lock);
	return ret;
}

/* ----------------------------------------------------------------- the trees */

/* A chunk item with room for all its stripes. */
union chunk_item {
	struct btrfs_chunk chunk;
	char bytes[sizeof(struct btrfs_chunk) + (MAX_STRIPES - 1) * sizeof(struct btrfs_stripe)];
};

static uint32_t chunk_item_bytes(const struct chunk *chunk)
{
	return (uint32_t)(sizeof(struct btrfs_chunk) +
		(chunk->n_mirrors - 1) * sizeof(struct btrfs_stripe));
}

static void make_chunk_item(
	const struct space *space, const struct chunk *chunk, union chunk_item *out)
{
	const struct btrfs_dev_item *dev = &space->config.super->dev_item;
	struct btrfs_chunk *item = &out->chunk;
	struct btrfs_stripe *stripe = &item->stripe;

	memset(out, 0, sizeof(*out));
	PUT(item, length, chunk->length_bytes);
	PUT(item, owner, BTRFS_EXTENT_TREE_OBJECTID);
	PUT(item, stripe_len, BTRFS_STRIPE_LEN_BYTES);
	PUT(item, type, chunk->type);
	PUT(item, io_align, BTRFS_STRIPE_LEN_BYTES);
	PUT(item, io_width, BTRFS_STRIPE_LEN_BYTES);
	PUT(item, sector_size, space->config.geo->sector_bytes);
	PUT(item, num_stripes, chunk->n_mirrors);
	PUT(item, sub_stripes, 1);
	for (unsigned i = 0; i < chunk->n_mirrors; i++) {
		PUT(&stripe[i], devid, GET(dev, devid));
		PUT(&stripe[i], offset, chunk->physical[i]);
		memcpy(stripe[i].dev_uuid, dev->uuid, sizeof(stripe[i].dev_uuid));
	}
}

static struct btrfs_key chunk_key(const struct chunk *chunk)
{
	return key_make(BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, chunk->logical);
}

static bool array_has_room(const struct btrfs_super_block *super, const struct chunk *chunk)
{
	return GET(super, sys_chunk_array_size) + sizeof(struct btrfs_disk_key) +
		chunk_item_bytes(chunk) <=
		BTRFS_SYS_CHUNK_ARRAY_SIZE;
}

static void append_to_array(
	struct btrfs_super_block *super, const struct chunk *chunk, const union chunk_item *item)
{
	uint32_t used = GET(super, sys_chunk_array_size);
	struct btrfs_key key = chunk_key(chunk);
	struct btrfs_disk_key disk_key;

	key_to_disk(&key, &disk_key);
	memcpy(super->sys_chunk_array + used, &disk_key, sizeof(disk_key));
	used += (uint32_t)sizeof(disk_key);
	memcpy(super->sys_chunk_array + used, item, chunk_item_bytes(chunk));
	PUT(super, sys_chunk_array_size, used + chunk_item_bytes(chunk));
}

/* Device item and chunk item; the tree is locked and both ways are copied. */
static int change_chunk_tree_locked(struct tree_writer *w, struct space *space,
	const struct chunk *chunk, const struct btrfs_key *dev_key)
{
	struct btrfs_super_block *super = space->config.super;
	uint64_t used = GET(&super->dev_item, bytes_used) + chunk->length_bytes * chunk->n_mirrors;
	struct btrfs_key key = chunk_key(chunk);
	struct tree_path path = PATH_INIT;
	union chunk_item item;
	int ret;

	/* Another thread may have taken what room there was. */
	if ((chunk->type & BTRFS_BLOCK_GROUP_SYSTEM) && !array_has_room(super, chunk))
		return -EFBIG;
	make_chunk_item(space, chunk, &item);
	ret = tree_search_prepared(w, space->config.chunk_tree, dev_key, TREE_IN_PLACE, &path);
	if (!ret)
		PUT((struct btrfs_dev_item *)path_data_mut(&path), bytes_used, used);
	path_release(&path);
	if (ret)
		return ret < 0 ? ret : -EUCLEAN;
	ret = tree_search_prepared(
		w, space->config.chunk_tree, &key, (int)chunk_item_bytes(chunk), &path);
	if (ret == 1)
		memcpy(path_insert_item(w, &path, &key, chunk_item_bytes(chunk)), &item,
			chunk_item_bytes(chunk));
	path_release(&path);
	if (ret != 1)
		return ret < 0 ? ret : -EUCLEAN;
	PUT(&super->dev_item, bytes_used, used);
	if (chunk->type & BTRFS_BLOCK_GROUP_SYSTEM)
		append_to_array(super, chunk, &item);
	return 0;
}

/* The superblock goes with the tree: both change under the tree's lock. */
static int change_chunk_tree(struct tree_writer *w, struct space *space, const struct chunk *chunk)
{
	uint64_t devid = GET(&space->config.super->dev_item, devid);
	struct btrfs_key places[2] = {
		key_make(BTRFS_DEV_ITEMS_OBJECTID, BTRFS_DEV_ITEM_KEY, devid), chunk_key(chunk)};
	int ret = tree_prepare(w, space->config.chunk_tree, places, 2);

	if (ret)
		return ret;
	ret = change_chunk_tree_locked(w, space, chunk, &places[0]);
	tree_unlock_write(space->config.chunk_tree);
	return ret;
}

static int put_dev_extent(
	struct tree_writer *w, struct space *space, const struct chunk *chunk, unsigned i)
{
	uint64_t devid = GET(&space->config.super->dev_item, devid);
	struct btrfs_key key = key_make(devid, BTRFS_DEV_EXTENT_KEY, chunk->physical[i]);
	struct tree_path path = PATH_INIT;
	struct btrfs_dev_extent *item;
	int ret = tree_search_modify(w, space->config.dev_tree, &key, sizeof(*item), &path);

	if (ret == 1) {
		item = path_insert_item(w, &path, &key, sizeof(*item));
		PUT(item, chunk_tree, BTRFS_CHUNK_TREE_OBJECTID);
		PUT(item, chunk_objectid, BTRFS_FIRST_CHUNK_TREE_OBJECTID);
		PUT(item, chunk_offset, chunk->logical);
		PUT(item, length, chunk->length_bytes);
		memcpy(item->chunk_tree_uuid, space->config.geo->chunk_tree_uuid,
			sizeof(item->chunk_tree_uuid));
	}
	path_release(&path);
	if (ret == 0)
		log_error("device extent %llu is there already",
			(unsigned long long)chunk->physical[i]);
	return ret == 1 ? 0 : ret < 0 ? ret : -EUCLEAN;
}

/* ------------------------------------------------------------------- both */

/* A chunk that is being made. */
struct making {
	enum space_type type;
	struct chunk chunk;
	unsigned need[SPACE_TYPES]; /* nodes that the trees may take at most */
	struct set_aside set;
	enum space_type lacks; /* with -ENOSPC: what there is no node of; or SPACE_TYPES */
};

/* As many as n items inserted in the tree can take: ways copied, split, and a level more. */
static unsigned nodes_for(struct tree_root *root, unsigned n)
{
	unsigned levels;

	long_lock_read(&root->lock);
	levels = root->level + 1u;
	long_unlock(&root->lock);
	return MIN(n * (2 * levels + 1) + 1, SET_ASIDE_MAX);
}

/* From what is there, or from the new chunk itself. */
static int set_nodes_aside(
	struct space *space, struct making *m, struct block_group *bg, uint64_t *fresh_bytes)
{
	static const enum space_type types[] = {SPACE_SYSTEM, SPACE_METADATA};
	int ret = 0;

	for (unsigned i = 0; !ret && i < ARRAY_SIZE(types); i++) {
		ret = set_aside_nodes(space, types[i], m->need[types[i]], bg, &m->set, fresh_bytes);
		if (ret)
			m->lacks = types[i];
	}
	return ret;
}

/* In memory. After this a failure aborts the transaction, and nothing is taken back. */
static int publish(struct space *space, struct making *m)
{
	const struct chunk *chunk = &m->chunk;
	struct block_group *bg = group_create(space, chunk);
	uint64_t fresh_bytes = 0;
	int ret = bg ? group_load_empty(space, bg) : -ENOMEM;

	if (!ret)
		ret = group_make_room(space);
	if (!ret)
		ret = set_nodes_aside(space, m, bg, &fresh_bytes);
	if (!ret)
		ret = chunk_map_add(space->config.chunks, chunk);
	if (ret) {
		if (bg)
			set_aside_give_back(space, &m->set, bg);
		group_destroy(bg);
		return ret;
	}
	group_insert(space, bg, fresh_bytes);
	short_lock(&space->lock);
	space->unallocated_bytes -=
		MIN(chunk->length_bytes * chunk->n_mirrors, space->unallocated_bytes);
	space->impl->chunks_made[m->type]++;
	short_unlock(&space->lock);
	return 0;
}

/* Whether the superblock's array takes another chunk of two stripes. */
static bool array_has_room_for_any(struct space *space)
{
	const struct chunk chunk = {.n_mirrors = MAX_STRIPES};
	bool has_room;

	/* The array is the chunk tree's lock's. */
	long_lock_read(&space->config.chunk_tree->lock);
	has_room = array_has_room(space->config.super, &chunk);
	long_unlock(&space->config.chunk_tree->lock);
	return has_room;
}

static uint64_t chunks_made(struct space *space, enum space_type type)
{
	uint64_t n;

	short_lock(&space->lock);
	n = space->impl->chunks_made[type];
	short_unlock(&space->lock);
	return n;
}

/* Chooses a place and takes it. *done: another thread has done so since there were n_before. */
static int take_place(struct space *space, struct making *m, uint64_t n_before, bool *done)
{
	int ret = 0;

	short_lock(&space->chunk_lock);
	*done = chunks_made(space, m->type) != n_before;
	if (!*done) {
		ret = choose(space, m->type, &m->chunk);
		if (!ret)
			ret = publish(space, m);
	}
	short_unlock(&space->chunk_lock);
	return ret;
}

static int write_chunk(struct tree_writer *w, struct space *space, const struct chunk *chunk)
{
	int ret = change_chunk_tree(w, space, chunk);

	for (unsigned i = 0; !ret && i < chunk->n_mirrors; i++)
		ret = put_dev_extent(w, space, chunk, i);
	return ret;
}

static int make_chunk(struct tree_writer *w, struct space *space, struct making *m)
{
	uint64_t n_before = chunks_made(space, m->type);
	bool done;
	int ret;

	m->need[SPACE_SYSTEM] = nodes_for(space->config.chunk_tree, 2);
	m->need[SPACE_METADATA] = nodes_for(space->config.dev_tree, MAX_STRIPES);
	/* They must be in memory to be found. */
	ret = space_prepare_metadata(
		w->ctx, space, (uint64_t)m->need[SPACE_METADATA] * space->config.geo->node_bytes);
	if (ret && ret != -ENOSPC)
		return ret;
	ret = take_place(space, m, n_before, &done);
	if (ret || done)
		return ret;
	w->set_aside = &m->set;
	ret = write_chunk(w, space, &m->chunk);
	w->set_aside = NULL;
	set_aside_give_back(space, &m->set, NULL);
	if (ret == -ENOSPC) {
		log_error("there was less room for a new chunk's items than they take");
		return -EIO;
	}
	if (!ret)
		log_info("new chunk at %llu: %llu MiB, type 0x%llx",
			(unsigned long long)m->chunk.logical,
			(unsigned long long)(m->chunk.length_bytes >> 20),
			(unsigned long long)m->chunk.type);
	return ret;
}

int space_alloc_chunk(struct tree_writer *w, struct space *space, enum space_type type)
{
	struct making m = {.type = type, .lacks = SPACE_TYPES};
	int ret;

	if (type == SPACE_SYSTEM && !array_has_room_for_any(space)) {
		log_limited(LOG_LVL_ERROR,
			"no system chunk can be added: the superblock's array is full");
		return -ENOSPC;
	}
	ret = make_chunk(w, space, &m);
	/* First one for the trees: for data one of metadata, for these one of system space. */
	if (ret == -ENOSPC && m.lacks > type && m.lacks < SPACE_TYPES) {
		ret = space_alloc_chunk(w, space, m.lacks);
		m = (struct making){.type = type, .lacks = SPACE_TYPES};
		if (!ret)
			ret = make_chunk(w, space, &m);
	}
	return ret;
}
