/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much metadata settling a transaction will take. What has been promised to handles does not
 * cover that: a handle ends, and what it owes to other trees is written at the commit. So a
 * transaction takes no more handles when what it owes might not find room any more; and half of
 * the global reserve is kept for this by space_reserve().
 *
 * An upper bound, but not the one of all worst cases: each reference in a leaf of its own, as far
 * as there can be so many leaves.
 */
#include <errno.h>

#include "base/util.h"
#include "fscore/txn/txn_private.h"

/* Leaves are half full at least on average; an extent's item with its reference is about as long. */
#define EXTENT_ITEM_BYTES 80u

/* The root tree, and what is copied once. */
#define BASE_NODES 32u

static uint64_t leaves_for(uint64_t n_items, uint64_t item_bytes, uint64_t node_bytes)
{
	uint64_t leaves = n_items * item_bytes / (node_bytes / 2) + 1;

	/* Nodes above them. */
	return leaves + leaves / 16 + 1;
}

struct debts {
	uint64_t heads, inodes;
	uint64_t way; /* nodes on the way to an item, and a split now and then */
};

static struct debts debts_of(struct txns *txns, struct txn *txn)
{
	return (struct debts){
		.heads = delayed_refs_count(&txn->refs_owed),
		.inodes = atomic_load_explicit(&txns->owed_blocks, memory_order_relaxed),
		.way = space_levels(txns->config.space),
	};
}

/* As if there were leaves without end. */
static uint64_t most_bytes(const struct txns *txns, const struct debts *d)
{
	uint64_t n = d->heads * 2 * d->way + d->heads / 8 + d->inodes * d->way + BASE_NODES;

	return n * txns->config.geo->node_bytes;
}

static uint64_t likely_bytes(struct txns *txns, const struct debts *d)
{
	const struct volume_geometry *geo = txns->config.geo;
	uint64_t node = geo->node_bytes, sectors, nodes, n;
	struct space_info info;

	space_info_get(txns->config.space, SPACE_DATA, &info);
	sectors = info.used_bytes / geo->sector_bytes;
	space_info_get(txns->config.space, SPACE_METADATA, &info);
	nodes = info.used_bytes / node;
	n = MIN(d->heads * d->way, leaves_for(sectors + nodes + d->heads, EXTENT_ITEM_BYTES, node));
	/* Checksums that go with their extents. */
	n += MIN(d->heads * d->way, leaves_for(sectors, geo->csum_bytes, node));
	/* Free space: each reference begins or ends a piece of it, of which many share a leaf. */
	n += d->heads / 8;
	n += MIN(d->inodes * d->way, nodes);
	return (n + BASE_NODES) * node;
}

bool txn_settle_has_room(struct txns *txns, struct txn *txn)
{
	struct debts d = debts_of(txns, txn);
	uint64_t room;

	if (!d.heads && !d.inodes)
		return true;
	room = space_settle_room(txns->config.space);
	return most_bytes(txns, &d) <= room || likely_bytes(txns, &d) <= room;
}

int txn_settle_prepare(struct txn_handle *h)
{
	struct space *space = h->txns->config.space;
	struct debts d = debts_of(h->txns, h->txn);
	uint64_t bytes = likely_bytes(h->txns, &d);
	int ret = space_prepare_metadata(h->w.ctx, space, bytes);

	if (ret == -ENOSPC) {
		/* The log goes on after this, unless it is a commit that prepares. */
		log_forbid(h);
		ret = space_alloc_chunk(&h->w, space, SPACE_METADATA);
	}
	/* What there is must do: that is why has_room() was asked. */
	return ret == -ENOSPC ? 0 : ret;
}
