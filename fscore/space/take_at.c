/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Taking a range that something outside of the trees has in use: a log tree. */
#include <errno.h>

#include "fscore/space/space_private.h"

/* The range is whole sectors of one loaded block group, and all of it is free. */
static int take_locked(struct space *space, uint64_t logical, uint64_t bytes)
{
	struct block_group *bg = group_at_locked(space, logical);
	uint32_t sector_bytes = space->config.geo->sector_bytes;
	uint64_t within, from, to;
	enum space_type counted;

	if (!bg || !bg->loaded || bg->read_only)
		return -EUCLEAN;
	within = logical - bg->logical;
	if (!bytes || bytes > bg->length_bytes - within || (within | bytes) % sector_bytes)
		return -EUCLEAN;
	from = sectors_of(space, within);
	to = from + sectors_of(space, bytes);
	if (!bits_all_set(bg->free.words, from, to) || !bits_all_set(bg->unused, from, to))
		return -EUCLEAN;
	run_map_take(&bg->free, from, to);
	counted = group_info_type(space, bg);
	space->info[counted].used_bytes += bytes;
	space->impl->loaded_free[counted] -= bytes;
	return 0;
}

int space_take_at(struct fsc_ctx *ctx, struct space *space, uint64_t logical, uint64_t bytes)
{
	int ret = space_load_group(ctx, space, logical);

	if (ret)
		return ret;
	short_lock(&space->lock);
	ret = take_locked(space, logical, bytes);
	short_unlock(&space->lock);
	return ret;
}
