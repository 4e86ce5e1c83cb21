/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocating, giving back, pinning; and what the trees' changes do to the bitmaps. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"

typedef unsigned long long ull;

/* Pinned ranges are given back in pieces, so that the lock is not held for long. */
#define UNPIN_BATCH 64u

/*
 * A block group that is not in memory is read only if it has that much free, or if there is
 * no piece of this size in those that are: else a full, fragmented volume would be read
 * as a whole for one large write.
 */
#define MUCH_FREE_BYTES	 (256u << 20)
#define FAIR_PIECE_BYTES (1u << 20)

/* Nodes of the chunk tree: few. */
#define SYSTEM_LEAST_NODES 16u

/* A part of one block group, in sectors. */
struct range {
	struct block_group *bg;
	uint64_t from, to;
};

static uint64_t sector_bytes(const struct space *space)
{
	return space->config.geo->sector_bytes;
}

/* ---------------------------------------------------------------- allocating */

struct alloc {
	enum space_type type;
	uint64_t near;
	struct run_want want;
};

static bool is_metadata(enum space_type type)
{
	return type != SPACE_DATA;
}

/* One node, aligned to its size, so that it never lies across a stripe's end. */
static void want_node(const struct space *space, struct run_want *want)
{
	uint64_t n = sectors_of(space, space->config.geo->node_bytes);

	want->least_bits = want->most_bits = want->align = n;
	want->fence = 0;
}

/* The last resort: what old tools left over, not aligned to nodes. */
static void want_node_anywhere(const struct space *space, struct run_want *want)
{
	want->align = 1;
	want->fence = sectors_of(space, BTRFS_STRIPE_LEN_BYTES);
}

static bool find_in_group(
	const struct space *space, const struct alloc *a, struct block_group *bg, struct range *out)
{
	struct run_want want = a->want;
	uint64_t from = 0, n;

	if (!bg->loaded || bg->read_only || !(bg->flags & type_flag(a->type)))
		return false;
	want.origin = sectors_of(space, bg->logical);
	if (a->near - bg->logical < bg->length_bytes)
		from = sectors_of(space, a->near - bg->logical);
	if (!run_map_find(&bg->free, &want, from, &out->from, &n))
		return false;
	out->bg = bg;
	out->to = out->from + n;
	return true;
}

/* Looks in the block group at near, those behind it, and then those before it. */
static bool find_locked(const struct space *space, const struct alloc *a, struct range *out)
{
	size_t first = group_index_locked(space, a->near);

	for (size_t i = 0; i < space->n_groups; i++)
		if (find_in_group(space, a, space->groups[(first + i) % space->n_groups], out))
			return true;
	return false;
}

static uint64_t take_locked(struct space *space, enum space_type type, const struct range *r)
{
	enum space_type counted = space->shared_with[type];
	struct space_info *info = &space->info[counted];
	uint64_t bytes = (r->to - r->from) * sector_bytes(space);
	uint64_t logical = r->bg->logical + r->from * sector_bytes(space);

	run_map_take(&r->bg->free, r->from, r->to);
	info->used_bytes += bytes;
	space->impl->loaded_free[counted] -= bytes;
	space->impl->cursor[type] = logical + bytes;
	return logical;
}

/* A block group of the type that is not loaded, and may have that much free. */
static struct block_group *unloaded_locked(
	const struct space *space, enum space_type type, uint64_t near, uint64_t bytes)
{
	size_t first = group_index_locked(space, near);

	for (size_t i = 0; i < space->n_groups; i++) {
		struct block_group *bg = space->groups[(first + i) % space->n_groups];
		uint64_t taken = bg->used_bytes + bg->super_bytes;

		if (!bg->loaded && !bg->read_only && (bg->flags & type_flag(type)) &&
			taken <= bg->length_bytes && bytes <= bg->length_bytes - taken)
			return bg;
	}
	return NULL;
}

static bool find_node_locked(const struct space *space, struct alloc *a, struct range *out)
{
	want_node(space, &a->want);
	if (find_locked(space, a, out))
		return true;
	want_node_anywhere(space, &a->want);
	return find_locked(space, a, out);
}

/* Half as much at a time: what is found is no less than half of the largest there is. */
static bool find_smaller_locked(
	const struct space *space, struct alloc *a, uint64_t least, struct range *out)
{
	while (a->want.least_bits > least) {
		a->want.least_bits = MAX(a->want.least_bits / 2, least);
		if (find_locked(space, a, out))
			return true;
	}
	return false;
}

static int try_node_locked(
	struct space *space, struct alloc *a, struct range *out, struct block_group **load)
{
	if (find_node_locked(space, a, out))
		return 0;
	*load = unloaded_locked(space, a->type, a->near, space->config.geo->node_bytes);
	return *load ? -EAGAIN : -ENOSPC;
}

/*
 * What one try prefers, in this order: all in one piece; a block group that is not loaded
 * and has a lot free; a piece of a fair size; another block group; any piece.
 */
static int try_data_locked(struct space *space, struct alloc *a, uint64_t least, uint64_t most,
	struct range *out, struct block_group **load)
{
	uint64_t sector = sector_bytes(space);

	a->want = (struct run_want){.least_bits = most, .most_bits = most, .align = 1};
	if (find_locked(space, a, out))
		return 0;
	*load = unloaded_locked(space, a->type, a->near, MAX(most * sector, MUCH_FREE_BYTES));
	if (*load)
		return -EAGAIN;
	if (find_smaller_locked(space, a, MAX(least, FAIR_PIECE_BYTES / sector), out))
		return 0;
	*load = unloaded_locked(space, a->type, a->near, least * sector);
	if (*load)
		return -EAGAIN;
	return find_smaller_locked(space, a, least, out) ? 0 : -ENOSPC;
}

/* One try. -EAGAIN: *load has to be loaded first. */
static int try_alloc_locked(struct space *space, struct alloc *a, uint64_t least, uint64_t most,
	struct range *out, struct block_group **load)
{
	if (!a->near)
		a->near = space->impl->cursor[a->type];
	if (is_metadata(a->type))
		return try_node_locked(space, a, out, load);
	return try_data_locked(space, a, least, most, out, load);
}

static int try_alloc(struct space *space, struct alloc *a, uint64_t least, uint64_t most,
	uint64_t *logical, uint64_t *bytes, struct block_group **load)
{
	struct range r;
	int ret;

	short_lock(&space->lock);
	ret = try_alloc_locked(space, a, least, most, &r, load);
	if (!ret) {
		struct space_info *info = &space->info[space->shared_with[a->type]];

		*logical = take_locked(space, a->type, &r);
		*bytes = (r.to - r.from) * sector_bytes(space);
		info->reserved_bytes -= MIN(*bytes, info->reserved_bytes);
	}
	short_unlock(&space->lock);
	return ret;
}

int space_alloc(struct fsc_ctx *ctx, struct space *space, enum space_type type, uint64_t min_bytes,
	uint64_t want_bytes, uint64_t near, uint64_t *logical, uint64_t *bytes)
{
	struct alloc a = {.type = type, .near = near};
	uint64_t most = MIN(sectors_of(space, want_bytes), RUN_MAX_BITS);
	uint64_t least = MIN(sectors_of(space, min_bytes), most);
	struct block_group *bg = NULL;
	int ret;

	assert(least);
	while ((ret = try_alloc(space, &a, least, most, logical, bytes, &bg)) == -EAGAIN) {
		ret = group_load(ctx, space, bg);
		/* A damaged one is read-only now: the next try passes over it. */
		if (ret && ret != -EUCLEAN)
			return ret;
	}
	return ret;
}

int space_alloc_metadata(
	struct tree_writer *w, struct space *space, enum space_type type, uint64_t *logical)
{
	struct alloc a = {.type = type};
	struct range r;
	int ret = -ENOSPC;

	if (w->set_aside && w->set_aside->n[type]) {
		*logical = w->set_aside->logical[type][--w->set_aside->n[type]];
		return 0;
	}
	short_lock(&space->lock);
	a.near = space->impl->cursor[type];
	if (find_node_locked(space, &a, &r)) {
		*logical = take_locked(space, type, &r);
		ret = 0;
	}
	short_unlock(&space->lock);
	return ret;
}

static bool set_aside_one_locked(struct space *space, enum space_type type,
	struct block_group *fresh, uint64_t *logical, uint64_t *fresh_bytes)
{
	struct alloc a = {.type = type, .near = space->impl->cursor[type]};
	struct range r;

	if (find_node_locked(space, &a, &r)) {
		*logical = take_locked(space, type, &r);
		return true;
	}
	want_node(space, &a.want);
	if (!find_in_group(space, &a, fresh, &r))
		return false;
	run_map_take(&fresh->free, r.from, r.to);
	*fresh_bytes += space->config.geo->node_bytes;
	*logical = fresh->logical + r.from * sector_bytes(space);
	return true;
}

int set_aside_nodes(struct space *space, enum space_type type, unsigned n,
	struct block_group *fresh, struct set_aside *set, uint64_t *fresh_bytes)
{
	bool found = true;

	assert(n <= SET_ASIDE_MAX);
	short_lock(&space->lock);
	while (found && set->n[type] < n) {
		found = set_aside_one_locked(
			space, type, fresh, &set->logical[type][set->n[type]], fresh_bytes);
		set->n[type] += found;
	}
	short_unlock(&space->lock);
	return found ? 0 : -ENOSPC;
}

void set_aside_give_back(
	struct space *space, struct set_aside *set, const struct block_group *fresh)
{
	for (unsigned type = 0; type < SPACE_TYPES; type++)
		while (set->n[type]) {
			uint64_t logical = set->logical[type][--set->n[type]];

			if (!fresh || logical - fresh->logical >= fresh->length_bytes)
				space_free_unused(space, logical, space->config.geo->node_bytes);
		}
}

/* Loads block groups until that much is free in those that are loaded. */
static int prepare_type(
	struct fsc_ctx *ctx, struct space *space, enum space_type type, uint64_t bytes)
{
	for (;;) {
		struct block_group *bg = NULL;
		bool enough;
		int ret;

		short_lock(&space->lock);
		enough = space->impl->loaded_free[space->shared_with[type]] >= bytes;
		if (!enough)
			bg = unloaded_locked(space, type, space->impl->cursor[type],
				space->config.geo->node_bytes);
		short_unlock(&space->lock);
		if (enough)
			return 0;
		if (!bg)
			return -ENOSPC;
		ret = group_load(ctx, space, bg);
		if (ret && ret != -EUCLEAN)
			return ret;
	}
}

static uint64_t system_least_bytes(const struct space *space)
{
	return (uint64_t)SYSTEM_LEAST_NODES * space->config.geo->node_bytes;
}

int space_prepare_metadata(struct fsc_ctx *ctx, struct space *space, uint64_t bytes)
{
	int ret = prepare_type(ctx, space, SPACE_METADATA, bytes);

	return ret ? ret
		   : prepare_type(ctx, space, SPACE_SYSTEM, MIN(bytes, system_least_bytes(space)));
}

int space_prepare_system(struct fsc_ctx *ctx, struct space *space)
{
	return prepare_type(ctx, space, SPACE_SYSTEM, system_least_bytes(space));
}

/* ------------------------------------------------------------ giving back */

/* The range of a block group at an address. The lock is held. */
static int range_locked(
	const struct space *space, uint64_t logical, uint64_t bytes, struct range *r)
{
	uint64_t within;

	r->bg = group_at_locked(space, logical);
	if (!r->bg)
		return -EUCLEAN;
	within = logical - r->bg->logical;
	if (!bytes || bytes > r->bg->length_bytes - within ||
		(within | bytes) % sector_bytes(space))
		return -EUCLEAN;
	r->from = sectors_of(space, within);
	r->to = r->from + sectors_of(space, bytes);
	return 0;
}

static void give_locked(struct space *space, const struct range *r)
{
	run_map_give(&r->bg->free, r->from, r->to);
	if (!r->bg->read_only)
		space->impl->loaded_free[group_info_type(space, r->bg)] +=
			(r->to - r->from) * sector_bytes(space);
}

/* A range that was allocated in memory and has come to no tree. */
static int unused_range_locked(
	const struct space *space, uint64_t logical, uint64_t bytes, struct range *r)
{
	int ret = range_locked(space, logical, bytes, r);

	assert(!ret && r->bg->loaded);
	assert(bits_all_clear(r->bg->free.words, r->from, r->to));
	assert(bits_all_set(r->bg->unused, r->from, r->to));
	return ret;
}

void space_free_unused(struct space *space, uint64_t logical, uint64_t bytes)
{
	struct range r;
	int ret;

	short_lock(&space->lock);
	ret = unused_range_locked(space, logical, bytes, &r);
	give_locked(space, &r);
	space->info[group_info_type(space, r.bg)].used_bytes -= bytes;
	short_unlock(&space->lock);
	(void)ret;
}

/* ------------------------------------------------------------------ pinning */

static struct pin_set *pin_set_locked(struct space_impl *impl, uint64_t generation)
{
	struct pin_set *set = impl->pin_sets;

	while (set && set->generation != generation)
		set = set->next;
	if (set)
		return set;
	set = calloc(1, sizeof(*set));
	if (set) {
		set->generation = generation;
		set->next = impl->pin_sets;
		impl->pin_sets = set;
	}
	return set;
}

static int pin_locked(struct space *space, uint64_t generation, uint64_t logical, uint64_t bytes)
{
	struct pin_set *set = pin_set_locked(space->impl, generation);
	struct pin *last = set && set->n_pins ? &set->pins[set->n_pins - 1] : NULL;

	if (!set)
		return -ENOMEM;
	/* Neighbours become one, within a block group. */
	if (last && last->logical + last->bytes == logical &&
		group_at_locked(space, last->logical) == group_at_locked(space, logical)) {
		last->bytes += bytes;
		return 0;
	}
	if (set->n_pins == set->max_pins) {
		size_t more = MAX(64u, set->max_pins * 2);
		struct pin *grown = reallocarray(set->pins, more, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		set->pins = grown;
		set->max_pins = more;
	}
	set->pins[set->n_pins++] = (struct pin){.logical = logical, .bytes = bytes};
	return 0;
}

int space_pin_unused(struct space *space, uint64_t generation, uint64_t logical, uint64_t bytes)
{
	struct space_info *info;
	struct range r;
	int ret;

	short_lock(&space->lock);
	ret = unused_range_locked(space, logical, bytes, &r);
	if (!ret)
		ret = pin_locked(space, generation, logical, bytes);
	if (!ret) {
		info = &space->info[group_info_type(space, r.bg)];
		info->used_bytes -= bytes;
		info->pinned_bytes += bytes;
	}
	short_unlock(&space->lock);
	return ret;
}

/* A set of a transaction that is not newer, out of the list. */
static struct pin_set *take_pin_set(struct space *space, uint64_t generation)
{
	struct pin_set **at = &space->impl->pin_sets, *set;

	short_lock(&space->lock);
	while (*at && (*at)->generation > generation)
		at = &(*at)->next;
	set = *at;
	if (set)
		*at = set->next;
	short_unlock(&space->lock);
	return set;
}

static void unpin_batch(struct space *space, const struct pin *pins, size_t n)
{
	short_lock(&space->lock);
	for (size_t i = 0; i < n; i++) {
		struct range r;
		int ret = range_locked(space, pins[i].logical, pins[i].bytes, &r);
		struct space_info *info;

		assert(!ret && r.bg->loaded);
		assert(bits_all_clear(r.bg->free.words, r.from, r.to));
		(void)ret;
		info = &space->info[group_info_type(space, r.bg)];
		info->pinned_bytes -= pins[i].bytes;
		give_locked(space, &r);
	}
	short_unlock(&space->lock);
}

int space_list_pinned(struct space *space, uint64_t generation, struct space_range **out, size_t *n)
{
	struct pin_set *sets;
	size_t max = 0;

	*n = 0;
	/* Others put new sets before these, which do not change any more. */
	short_lock(&space->lock);
	sets = space->impl->pin_sets;
	short_unlock(&space->lock);
	for (struct pin_set *set = sets; set; set = set->next)
		max += set->generation <= generation ? set->n_pins : 0;
	*out = calloc(MAX(max, 1u), sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (struct pin_set *set = sets; set; set = set->next)
		for (size_t i = 0; set->generation <= generation && i < set->n_pins; i++)
			(*out)[(*n)++] = (struct space_range){
				.logical = set->pins[i].logical, .bytes = set->pins[i].bytes};
	return 0;
}

void space_unpin(struct space *space, uint64_t generation)
{
	struct pin_set *set;

	while ((set = take_pin_set(space, generation))) {
		for (size_t i = 0; i < set->n_pins; i += UNPIN_BATCH)
			unpin_batch(space, &set->pins[i], MIN(UNPIN_BATCH, set->n_pins - i));
		free(set->pins);
		free(set);
	}
}

/* -------------------------------------------------------------- in the trees */

/*
 * Keeps what the free-space tree says, before the first change since it was written. False:
 * that needs memory, and there is none in *spare. The lock is held.
 */
static bool keep_written_locked(const struct space *space, struct block_group *bg, uint64_t **spare)
{
	if (!bg->written && bg->in_fst) {
		if (!*spare)
			return false;
		memcpy(*spare, bg->unused, bits_bytes(group_sectors(space, bg)));
		bg->written = *spare;
		*spare = NULL;
	}
	bg->dirty = true;
	return true;
}

static int add_locked(const struct range *r, uint64_t bytes)
{
	/* Allocated, and in no tree yet. */
	if (!bits_all_set(r->bg->unused, r->from, r->to) ||
		!bits_all_clear(r->bg->free.words, r->from, r->to))
		return -EUCLEAN;
	bits_clear(r->bg->unused, r->from, r->to);
	r->bg->used_bytes += bytes;
	return 0;
}

static int remove_locked(
	struct space *space, const struct range *r, uint64_t bytes, uint64_t generation)
{
	struct space_info *info = &space->info[group_info_type(space, r->bg)];
	int ret;

	if (!bits_all_clear(r->bg->unused, r->from, r->to))
		return -EUCLEAN;
	ret = pin_locked(space, generation, r->bg->logical + r->from * sector_bytes(space), bytes);
	if (ret)
		return ret;
	bits_set(r->bg->unused, r->from, r->to);
	r->bg->used_bytes -= bytes;
	info->used_bytes -= bytes;
	info->pinned_bytes += bytes;
	return 0;
}

/* The block group at an address, loaded. */
static int range_loaded(
	struct fsc_ctx *ctx, struct space *space, uint64_t logical, uint64_t bytes, struct range *r)
{
	int ret;

	short_lock(&space->lock);
	ret = range_locked(space, logical, bytes, r);
	short_unlock(&space->lock);
	return ret ? ret : group_load(ctx, space, r->bg);
}

int space_load_group(struct fsc_ctx *ctx, struct space *space, uint64_t logical)
{
	struct block_group *bg;

	short_lock(&space->lock);
	bg = group_at_locked(space, logical);
	short_unlock(&space->lock);
	return bg ? group_load(ctx, space, bg) : -EUCLEAN;
}

/* One try. -EAGAIN: needs memory in *spare. */
static int try_change(struct tree_writer *w, struct space *space, const struct range *r,
	uint64_t bytes, bool is_add, uint64_t **spare)
{
	int ret = -EAGAIN;

	short_lock(&space->lock);
	if (keep_written_locked(space, r->bg, spare))
		ret = is_add ? add_locked(r, bytes) : remove_locked(space, r, bytes, w->generation);
	short_unlock(&space->lock);
	return ret;
}

static int change(
	struct tree_writer *w, struct space *space, uint64_t logical, uint64_t bytes, bool is_add)
{
	uint64_t *spare = NULL;
	struct range r;
	int ret = range_loaded(w->ctx, space, logical, bytes, &r);

	if (ret == -EAGAIN)
		return ret;
	if (!ret)
		ret = try_change(w, space, &r, bytes, is_add, &spare);
	if (ret == -EAGAIN) {
		spare = bits_alloc(group_sectors(space, r.bg));
		ret = spare ? try_change(w, space, &r, bytes, is_add, &spare) : -ENOMEM;
	}
	free(spare);
	if (ret == -EUCLEAN)
		log_error("extent %llu+%llu: %s", (ull)logical, (ull)bytes,
			is_add ? "its space was not allocated" : "its space was not in use");
	return ret;
}

int space_tree_add(struct tree_writer *w, struct space *space, uint64_t logical, uint64_t bytes)
{
	return change(w, space, logical, bytes, true);
}

int space_tree_remove(struct tree_writer *w, struct space *space, uint64_t logical, uint64_t bytes)
{
	return change(w, space, logical, bytes, false);
}
