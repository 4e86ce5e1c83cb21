/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening, block groups as a table, counters, reservations. */
#include "fscore/space/space.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"

typedef unsigned long long ull;

#define GLOBAL_RESERVE_LEAST (512u << 10)
#define GLOBAL_RESERVE_USUAL (16u << 20)
#define GLOBAL_RESERVE_MOST  (512u << 20)

/* Nothing is allocated on the device before this: boot loaders, the first superblock. */
#define DEVICE_RESERVED_BYTES (1u << 20)

/* ------------------------------------------------------------- block groups */

uint64_t type_flag(enum space_type type)
{
	switch (type) {
	case SPACE_DATA:
		return BTRFS_BLOCK_GROUP_DATA;
	case SPACE_METADATA:
		return BTRFS_BLOCK_GROUP_METADATA;
	default:
		return BTRFS_BLOCK_GROUP_SYSTEM;
	}
}

enum space_type group_info_type(const struct space *space, const struct block_group *bg)
{
	if (bg->flags & BTRFS_BLOCK_GROUP_SYSTEM)
		return SPACE_SYSTEM;
	return bg->flags & BTRFS_BLOCK_GROUP_METADATA ? SPACE_METADATA
						      : space->shared_with[SPACE_DATA];
}

size_t group_index_locked(const struct space *space, uint64_t logical)
{
	size_t lo = 0, hi = space->n_groups;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct block_group *bg = space->groups[mid];

		if (bg->logical + bg->length_bytes <= logical)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct block_group *group_at_locked(const struct space *space, uint64_t logical)
{
	size_t i = group_index_locked(space, logical);

	return i < space->n_groups && space->groups[i]->logical <= logical ? space->groups[i]
									   : NULL;
}

/*
 * A copy of the superblock takes a whole stripe of each mirror. The first stripe of the
 * address space is not used either: an address of 0 means a hole.
 */
bool group_super_range(const struct space *space, const struct block_group *bg, unsigned i,
	uint64_t *from, uint64_t *to)
{
	const uint64_t stripe = BTRFS_STRIPE_LEN_BYTES;
	unsigned mirror = i / BTRFS_SUPER_MIRRORS;
	uint64_t physical, begin;

	*from = *to = 0;
	if (mirror > bg->n_mirrors || (mirror == bg->n_mirrors && i % BTRFS_SUPER_MIRRORS))
		return false;
	if (mirror == bg->n_mirrors) {
		if (bg->logical < stripe)
			*to = sectors_of(space, MIN(stripe - bg->logical, bg->length_bytes));
		return true;
	}
	physical = super_mirror_physical(i % BTRFS_SUPER_MIRRORS);
	if (physical < bg->physical[mirror] || physical - bg->physical[mirror] >= bg->length_bytes)
		return true;
	begin = align_down(physical - bg->physical[mirror], stripe);
	*from = sectors_of(space, begin);
	*to = sectors_of(space, MIN(begin + stripe, bg->length_bytes));
	return true;
}

/* Two ranges may overlap, so they are marked before they are counted. */
static int count_super_bytes(const struct space *space, struct block_group *bg)
{
	uint64_t n = group_sectors(space, bg), from, to;
	uint64_t *words = bits_alloc(n);

	if (!words)
		return -ENOMEM;
	for (unsigned i = 0; group_super_range(space, bg, i, &from, &to); i++)
		bits_set(words, from, to);
	bg->super_bytes = bits_count(words, n) * space->config.geo->sector_bytes;
	free(words);
	return 0;
}

struct block_group *group_create(const struct space *space, const struct chunk *chunk)
{
	struct block_group *bg = calloc(1, sizeof(*bg));

	if (!bg)
		return NULL;
	bg->logical = chunk->logical;
	bg->length_bytes = chunk->length_bytes;
	bg->flags = chunk->type;
	bg->n_mirrors = chunk->n_mirrors;
	memcpy(bg->physical, chunk->physical, sizeof(bg->physical));
	if (count_super_bytes(space, bg)) {
		free(bg);
		return NULL;
	}
	return bg;
}

void group_destroy(struct block_group *bg)
{
	if (!bg)
		return;
	run_map_fini(&bg->free);
	free(bg->unused);
	free(bg->written);
	free(bg);
}

int group_make_room(struct space *space)
{
	int ret = 0;

	short_lock(&space->lock);
	if (space->n_groups == space->max_groups) {
		size_t more = MAX(16u, space->max_groups * 2);
		struct block_group **grown = reallocarray(space->groups, more, sizeof(*grown));

		ret = grown ? 0 : -ENOMEM;
		if (grown) {
			space->groups = grown;
			space->max_groups = more;
		}
	}
	short_unlock(&space->lock);
	return ret;
}

void group_insert(struct space *space, struct block_group *bg, uint64_t taken_bytes)
{
	enum space_type type = group_info_type(space, bg);
	struct space_info *info = &space->info[type];
	size_t at;

	short_lock(&space->lock);
	assert(space->n_groups < space->max_groups);
	at = group_index_locked(space, bg->logical);
	memmove(&space->groups[at + 1], &space->groups[at],
		(space->n_groups - at) * sizeof(space->groups[0]));
	space->groups[at] = bg;
	space->n_groups++;
	info->total_bytes += bg->length_bytes;
	info->used_bytes += bg->used_bytes + taken_bytes;
	info->readonly_bytes += bg->super_bytes;
	if (bg->loaded)
		space->impl->loaded_free[type] += bg->length_bytes - bg->super_bytes - taken_bytes;
	update_global_reserve_locked(space);
	short_unlock(&space->lock);
}

/* ------------------------------------------------------------------ opening */

/* The block group item of a chunk says how much of it is in use. */
static int read_group_item(struct fsc_ctx *ctx, struct space *space, struct block_group *bg)
{
	struct btrfs_key key = key_make(bg->logical, BTRFS_BLOCK_GROUP_ITEM_KEY, bg->length_bytes);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(ctx, space->config.block_group_tree, &key, &path);
	uint64_t flags = 0;

	if (ret == 0 && path_data_bytes(&path) >= sizeof(struct btrfs_block_group_item)) {
		const struct btrfs_block_group_item *item = path_data(&path);

		bg->used_bytes = bg->item_used_bytes = GET(item, used);
		flags = GET(item, flags);
	}
	path_release(&path);
	if (ret < 0)
		return ret;
	if (ret || flags != bg->flags || bg->used_bytes > bg->length_bytes) {
		log_error("block group %llu: %s", (ull)bg->logical,
			ret ? "is missing, though there is a chunk" : "does not fit its chunk");
		return -EUCLEAN;
	}
	return 0;
}

static int open_group(struct fsc_ctx *ctx, struct space *space, const struct chunk *chunk)
{
	struct block_group *bg = group_create(space, chunk);
	int ret;

	if (bg)
		bg->in_fst = bg->has_fst_items = space->config.free_space_tree;
	ret = bg ? read_group_item(ctx, space, bg) : -ENOMEM;

	if (!ret)
		ret = group_make_room(space);
	if (ret)
		group_destroy(bg);
	else
		group_insert(space, bg, 0);
	return ret;
}

static uint64_t allocatable_bytes(const struct space *space)
{
	uint64_t bytes = space->config.device_bytes;

	return bytes > DEVICE_RESERVED_BYTES ? bytes - DEVICE_RESERVED_BYTES : 0;
}

static int open_groups(struct fsc_ctx *ctx, struct space *space)
{
	struct chunk chunk;
	int ret = 0;

	space->unallocated_bytes = allocatable_bytes(space);
	for (uint64_t at = 0; !ret && chunk_map_next(space->config.chunks, at, &chunk);
		at = chunk.logical + chunk.length_bytes) {
		uint64_t taken = chunk.length_bytes * chunk.n_mirrors;

		ret = open_group(ctx, space, &chunk);
		space->unallocated_bytes -= MIN(taken, space->unallocated_bytes);
	}
	return ret;
}

int space_open(struct fsc_ctx *ctx, struct space *space, const struct space_config *config)
{
	int ret;

	memset(space, 0, sizeof(*space));
	space->config = *config;
	short_lock_init(&space->chunk_lock, RANK_SPACE);
	short_lock_init(&space->lock, RANK_SPACE);
	for (unsigned i = 0; i < SPACE_TYPES; i++)
		space->shared_with[i] = (enum space_type)i;
	if (is_mixed(space))
		space->shared_with[SPACE_DATA] = SPACE_METADATA;
	space_note_level(space, config->extent_tree->level);
	space_note_level(space, config->chunk_tree->level);
	space_note_level(space, config->dev_tree->level);
	if (config->free_space_tree)
		space_note_level(space, config->free_space_tree->level);
	space->impl = calloc(1, sizeof(*space->impl));
	ret = space->impl ? open_groups(ctx, space) : -ENOMEM;
	if (ret)
		space_close(space);
	return ret;
}

void space_close(struct space *space)
{
	struct space_impl *impl = space->impl;

	for (size_t i = 0; i < space->n_groups; i++)
		group_destroy(space->groups[i]);
	free(space->groups);
	while (impl && impl->pin_sets) {
		struct pin_set *set = impl->pin_sets;

		impl->pin_sets = set->next;
		free(set->pins);
		free(set);
	}
	free(impl);
	short_lock_fini(&space->lock);
	short_lock_fini(&space->chunk_lock);
}

/* ------------------------------------------------------------- reservations */

/*
 * The kernel adds up the extent, checksum, root and free-space trees. We go by what makes
 * them large: a checksum for each sector of data, and a sixteenth of the metadata for the
 * others. At least 16 MiB, at most 512 MiB, and never more than a quarter of the metadata
 * block groups, so that small volumes can be used at all.
 */
void update_global_reserve_locked(struct space *space)
{
	const struct volume_geometry *geo = space->config.geo;
	uint64_t data = is_mixed(space) ? 0 : space->info[SPACE_DATA].used_bytes;
	uint64_t want = data / geo->sector_bytes * geo->csum_bytes +
		space->info[SPACE_METADATA].used_bytes / 16;
	uint64_t most = MIN(space->info[SPACE_METADATA].total_bytes / 4, GLOBAL_RESERVE_MOST);

	want = MIN(MAX(want, GLOBAL_RESERVE_USUAL), most);
	space->global_reserve_bytes = MAX(want, GLOBAL_RESERVE_LEAST);
}

/*
 * Half of the unallocated space: reservations are for the worst case, most of them are
 * given back. space_alloc_chunk() keeps data from taking what is promised here.
 */
uint64_t overcommit_bytes_locked(const struct space *space)
{
	unsigned copies = mirrors_of_flags(chunk_flags_locked(space, SPACE_METADATA));
	uint64_t room = space->unallocated_bytes / copies;

	if (room < CHUNK_LEAST_BYTES || space->impl->no_room[SPACE_METADATA])
		return 0;
	return room / 2;
}

static int reserve_locked(
	struct space *space, enum space_type type, uint64_t bytes, bool use_global)
{
	struct space_info *info = &space->info[space->shared_with[type]];
	uint64_t limit = info->total_bytes, taken;

	if (info == &space->info[SPACE_METADATA]) {
		uint64_t keep = space->global_reserve_bytes / (use_global ? 2 : 1);

		/* In mixed block groups data shares the limit, but gets no credit. */
		if (type != SPACE_DATA)
			limit += overcommit_bytes_locked(space);
		limit -= MIN(keep, limit);
	}
	taken = info->used_bytes + info->reserved_bytes + info->pinned_bytes + info->readonly_bytes;
	if (taken > limit || bytes > limit - taken)
		return -ENOSPC;
	info->reserved_bytes += bytes;
	return 0;
}

int space_reserve(struct space *space, enum space_type type, uint64_t bytes, bool use_global)
{
	int ret;

	short_lock(&space->lock);
	ret = reserve_locked(space, type, bytes, use_global);
	short_unlock(&space->lock);
	return ret;
}

void space_unreserve(struct space *space, enum space_type type, uint64_t bytes)
{
	struct space_info *info = &space->info[space->shared_with[type]];

	short_lock(&space->lock);
	info->reserved_bytes -= MIN(bytes, info->reserved_bytes);
	short_unlock(&space->lock);
}

/* Each level is copied, and may be split. */
uint64_t space_items_bytes(const struct space *space, unsigned n_items)
{
	return (uint64_t)n_items * 2 * space_levels(space) * space->config.geo->node_bytes;
}

void space_note_level(struct space *space, unsigned level)
{
	unsigned seen = atomic_load_explicit(&space->levels, memory_order_relaxed);

	while (level + 1 > seen && !atomic_compare_exchange_weak(&space->levels, &seen, level + 1))
		;
}

unsigned space_levels(const struct space *space)
{
	unsigned levels = atomic_load_explicit(&space->levels, memory_order_relaxed);

	return MIN(levels + 1, BTRFS_MAX_LEVEL);
}

uint64_t space_settle_room(struct space *space)
{
	const struct space_info *info = &space->info[SPACE_METADATA];
	uint64_t room, taken;

	short_lock(&space->lock);
	room = info->total_bytes;
	if (!space->impl->no_room[SPACE_METADATA])
		room += space->unallocated_bytes / CHUNK_MAX_MIRRORS;
	taken = info->used_bytes + info->reserved_bytes + info->pinned_bytes + info->readonly_bytes;
	short_unlock(&space->lock);
	return room - MIN(taken, room);
}

/* ---------------------------------------------------------------- questions */

enum space_type space_type_of(struct space *space, uint64_t logical)
{
	enum space_type type = SPACE_DATA;
	const struct block_group *bg;

	short_lock(&space->lock);
	bg = group_at_locked(space, logical);
	if (bg)
		type = group_info_type(space, bg);
	short_unlock(&space->lock);
	return type;
}

bool space_is_read_only(struct space *space, uint64_t logical)
{
	const struct block_group *bg;
	bool read_only;

	short_lock(&space->lock);
	bg = group_at_locked(space, logical);
	read_only = !bg || bg->read_only;
	short_unlock(&space->lock);
	return read_only;
}

void space_info_get(struct space *space, enum space_type type, struct space_info *out)
{
	short_lock(&space->lock);
	*out = space->info[space->shared_with[type]];
	short_unlock(&space->lock);
}

uint64_t space_used_on_disk(struct space *space)
{
	uint64_t bytes = 0;

	short_lock(&space->lock);
	for (size_t i = 0; i < space->n_groups; i++)
		bytes += space->groups[i]->used_bytes;
	short_unlock(&space->lock);
	return bytes;
}
