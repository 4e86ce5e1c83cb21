/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a transaction does with the blocks of trees (struct tree_writer_ops). */
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "fscore/txn/txn_private.h"

static struct txn_handle *handle_of(struct tree_writer *w)
{
	return container_of(w, struct txn_handle, w);
}

/* What a reservation was made for is used now. */
static void use_reservation(struct txn_handle *h, uint64_t bytes)
{
	uint64_t n = MIN(bytes, h->reserved_bytes);

	h->reserved_bytes -= n;
	if (n)
		space_unreserve(h->txns->config.space, SPACE_METADATA, n);
}

static int block_ref_change(struct txn_handle *h, const struct tree_root *root, uint64_t logical,
	uint8_t level, int sign)
{
	struct ref_change change = {
		.logical = logical,
		.bytes = h->txns->config.geo->node_bytes,
		.level = level,
		.key.root = root->id,
		.count = sign,
	};

	return extent_ref_change(&h->txn->extents, &change);
}

static int op_alloc_block(struct tree_writer *w, struct tree_root *root, uint8_t level,
	const struct btrfs_key *first_key, uint64_t *logical)
{
	struct txn_handle *h = handle_of(w);
	uint32_t node_bytes = h->txns->config.geo->node_bytes;
	bool is_system = root->id == BTRFS_CHUNK_TREE_OBJECTID;
	struct ref_change change = {
		.bytes = node_bytes,
		.level = level,
		.is_new = true,
		.first_key = *first_key,
		.key.root = root->id,
		.count = 1,
	};
	int ret = space_alloc_metadata(
		w, h->txns->config.space, is_system ? SPACE_SYSTEM : SPACE_METADATA, logical);

	if (ret)
		return ret;
	if (!is_system)
		use_reservation(h, node_bytes);
	change.logical = *logical;
	ret = extent_ref_change(&h->txn->extents, &change);
	if (ret)
		space_free_unused(h->txns->config.space, *logical, node_bytes);
	return ret;
}

static int op_share_info(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct block_share *share)
{
	struct txn_handle *h = handle_of(w);
	const struct btrfs_header *header = block_header(old->data);

	*share = (struct block_share){.refs = 1};
	/* A root is referred to once; a block younger than the last snapshot, too. */
	if (!root->shared_blocks || old->logical == root->bytenr)
		return 0;
	if (old->generation > root->last_snapshot &&
		!(GET(header, flags) & BTRFS_HEADER_FLAG_RELOC))
		return 0;
	return extent_share_info(w, &h->txn->extents, old->logical, old->level, share);
}

/* old stays in use by others: the references below it must be right for them and for us. */
static int copied_shared(struct txn_handle *h, const struct tree_root *root,
	const struct mblock *old, const struct mblock *copy, const struct block_share *share)
{
	struct extents *e = &h->txn->extents;
	bool full = share->flags & BTRFS_BLOCK_FLAG_FULL_BACKREF;
	int ret;

	if (GET(block_header(old->data), owner) != root->id || full)
		return extent_ref_children(&h->w, e, copy->data, false, 1);
	/*
	 * The references below were in this tree's name, which now goes elsewhere: the block
	 * itself becomes what refers.
	 */
	ret = extent_ref_children(&h->w, e, old->data, true, 1);
	return ret ? ret
		   : delayed_flags_add(e->refs, old->logical, e->geo->node_bytes, old->level,
			     BTRFS_BLOCK_FLAG_FULL_BACKREF);
}

static int op_block_copied(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct mblock *copy, const struct block_share *share)
{
	struct txn_handle *h = handle_of(w);
	int ret = 0;

	if (share->refs > 1) {
		ret = copied_shared(h, root, old, copy, share);
	} else if (share->flags & BTRFS_BLOCK_FLAG_FULL_BACKREF) {
		ret = extent_ref_children(w, &h->txn->extents, copy->data, false, 1);
		if (!ret)
			ret = extent_ref_children(w, &h->txn->extents, old->data, true, -1);
	}
	return ret ? ret : block_ref_change(h, root, old->logical, old->level, -1);
}

static void op_free_block(struct tree_writer *w, struct tree_root *root, struct mblock *block)
{
	struct txn_handle *h = handle_of(w);
	uint64_t logical = block->logical;
	uint8_t level = block->level;
	int ret;

	meta_discard(block->mc, block);
	ret = block_ref_change(h, root, logical, level, -1);
	if (ret)
		txn_set_error(h->txns, ret);
}

static void op_block_dirtied(struct tree_writer *w, struct mblock *block)
{
	struct txn_handle *h = handle_of(w);
	struct txn *txn = h->txn;
	bool ok = true;

	short_lock(&h->txns->lock);
	if (txn->n_dirty == txn->max_dirty) {
		size_t max = MAX(256u, 2 * txn->max_dirty);
		struct mblock **grown = reallocarray(txn->dirty, max, sizeof(*grown));

		ok = grown;
		if (ok) {
			txn->dirty = grown;
			txn->max_dirty = max;
		}
	}
	if (ok) {
		atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
		txn->dirty[txn->n_dirty++] = block;
	}
	short_unlock(&h->txns->lock);
	if (!ok)
		txn_set_error(h->txns, -ENOMEM);
}

static void op_broken(struct tree_writer *w, int error)
{
	txn_set_error(handle_of(w)->txns, error);
}

static int op_wait(struct tree_writer *w)
{
	struct txn_handle *h = handle_of(w);

	/*
	 * The references of a shared block are being written: the committer does that, in a
	 * short time, and reads blocks for it at most. What it has begun, it ends.
	 */
	return extent_wait_running(w->ctx, &h->txn->extents);
}

static void op_root_changed(struct tree_writer *w, struct tree_root *root)
{
	struct txn_handle *h = handle_of(w);

	space_note_level(h->txns->config.space, root->level);
	/* These two stand in the superblock. */
	if (root->id == BTRFS_ROOT_TREE_OBJECTID || root->id == BTRFS_CHUNK_TREE_OBJECTID)
		return;
	short_lock(&h->txns->lock);
	if (!root->dirty) {
		root->dirty = true;
		root->next_dirty = h->txn->dirty_roots;
		h->txn->dirty_roots = root;
	}
	short_unlock(&h->txns->lock);
}

const struct tree_writer_ops txn_tree_ops = {
	.alloc_block = op_alloc_block,
	.share_info = op_share_info,
	.block_copied = op_block_copied,
	.free_block = op_free_block,
	.block_dirtied = op_block_dirtied,
	.wait = op_wait,
	.broken = op_broken,
	.root_changed = op_root_changed,
};
