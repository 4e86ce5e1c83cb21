/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bad copies of tree blocks, found by who read them, are written anew from a good one.
 *
 * By the committer, for nobody else writes tree blocks, or gives out again what was freed: what is
 * in the extent tree now is not somebody else's before this is done. A block that is not there any
 * more, or has been replaced, is left alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/tree/leaf.h"
#include "fscore/txn/txn_private.h"

typedef unsigned long long ull;

struct repair {
	struct fsc_ctx ctx;
	struct txns *txns;
	struct meta_repair what;
	struct chunk_place place;
	char *block;
};

static bool is_item(struct repair *r, const struct btrfs_key *key)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(&r->ctx, r->txns->config.extent_tree, key, &path);
	bool is = false;

	if (ret == 0) {
		const struct btrfs_extent_item *item = path_data(&path);

		is = GET(item, flags) & BTRFS_EXTENT_FLAG_TREE_BLOCK;
	}
	path_release(&path);
	return is;
}

static bool is_in_use(struct repair *r)
{
	const struct block_expect *e = &r->what.expect;
	struct btrfs_key skinny = key_make(e->logical, BTRFS_METADATA_ITEM_KEY, e->level);
	struct btrfs_key old =
		key_make(e->logical, BTRFS_EXTENT_ITEM_KEY, r->txns->config.geo->node_bytes);

	return is_item(r, &skinny) || is_item(r, &old);
}

static bool read_copy(struct repair *r, unsigned mirror)
{
	const struct txn_config *c = &r->txns->config;
	char why[160];

	return !dev_rw_sync(c->dev, r->ctx.thread, IO_READ, r->place.physical[mirror], r->block,
		       c->geo->node_bytes) &&
		!block_check(&c->meta->geo, &r->what.expect, r->block, why, sizeof(why));
}

static void write_copy(struct repair *r, unsigned mirror)
{
	const struct txn_config *c = &r->txns->config;
	int ret = dev_rw_sync(c->dev, r->ctx.thread, IO_WRITE, r->place.physical[mirror], r->block,
		c->geo->node_bytes);

	if (!ret)
		atomic_fetch_add_explicit(&c->meta->repaired, 1, memory_order_relaxed);
	log_limited(ret ? LOG_LVL_ERROR : LOG_LVL_NOTICE, "tree block %llu: copy %u %s%s",
		(ull)r->what.expect.logical, mirror + 1,
		ret ? "can't be repaired: " : "repaired from another one",
		ret ? strerror(-ret) : "");
}

/* From the first good copy to all that are bad. */
static void repair_block(struct repair *r)
{
	unsigned bad = 0, good = CHUNK_MAX_MIRRORS;

	for (unsigned m = r->place.n_mirrors; m-- > 0;) {
		if (read_copy(r, m))
			good = m;
		else
			bad |= 1u << m;
	}
	/* The copies are read backwards: the block is from the first, which may be a bad one. */
	if (good == CHUNK_MAX_MIRRORS || !bad || !read_copy(r, good))
		return;
	for (unsigned m = 0; m < r->place.n_mirrors; m++)
		if (bad & 1u << m)
			write_copy(r, m);
}

void txn_repair_blocks(struct txns *txns)
{
	const struct txn_config *c = &txns->config;
	struct repair r = {.ctx = {.thread = txns->thread}, .txns = txns};

	while (meta_take_repair(c->meta, &r.what)) {
		if (chunk_map_lookup(c->chunks, r.what.expect.logical, &r.place) || !is_in_use(&r))
			continue;
		r.block = aligned_alloc(4096, c->geo->node_bytes);
		if (r.block)
			repair_block(&r);
		free(r.block);
	}
}
