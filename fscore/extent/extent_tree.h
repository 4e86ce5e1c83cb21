/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The extent tree: an item for each extent in use, with its references inline or in items
 * of their own, and the checksums of data, which go with their extent.
 *
 * Only one thread at a time runs delayed references (extent_run_refs()); everything else
 * here may be called by any thread.
 */
#ifndef FSCORE_EXTENT_EXTENT_TREE_H
#define FSCORE_EXTENT_EXTENT_TREE_H

#include "fscore/extent/delayed_ref.h"
#include "fscore/extent/extent_item.h"
#include "fscore/space/space.h"
#include "fscore/tree/modify.h"

/* What extent/ needs of the volume. Immutable. */
struct extents {
	const struct volume_geometry *geo;
	struct tree_root *extent_tree;
	struct tree_root *csum_tree;
	struct space *space;
	struct delayed_refs *refs;
};

/*
 * Writes delayed references to the extent tree, at most `budget` of them (0: all that are
 * there when it comes to an end). Might wait. An error aborts the transaction.
 */
int extent_run_refs(struct tree_writer *w, struct extents *e, size_t budget);

/*
 * How a tree block is referenced, with what is owed. For tree_writer_ops.share_info: from
 * memory only; -EAGAIN: w->need is missing, or (w->need.logical is 0) the block's references
 * are being written right now, or the extent tree is locked (only with FSC_NOWAIT).
 */
int extent_share_info(struct tree_writer *w, struct extents *e, uint64_t logical, uint8_t level,
	struct block_share *share);

/* Waits until the extent whose references are being written is done with. Might wait. */
int extent_wait_running(struct fsc_ctx *ctx, struct extents *e);

/*
 * Adds (sign 1) or drops (-1) a reference to each extent and block that a tree block points
 * to, in the name of its header's owner, or with full, of the block itself.
 */
int extent_ref_children(
	struct tree_writer *w, struct extents *e, const void *block, bool full, int sign);

/*
 * Whether all references to the data extent are this one, with what is owed in e's transaction,
 * which the caller has a handle of; and no snapshot can share the leaf that has it (the extent
 * is younger than the last one). When in doubt it is not. Might wait.
 */
int extent_is_sole(struct fsc_ctx *ctx, struct extents *e, uint64_t logical, uint64_t bytes,
	const struct ref_key *key, uint64_t last_snapshot, bool *sole);

/* Notes a change; what was new and is cancelled goes back to the free space. */
int extent_ref_change(struct extents *e, const struct ref_change *change);

/*
 * Puts the checksums of n sectors from logical on in the checksum tree. Might wait. They are
 * not there yet.
 */
int csum_insert(struct tree_writer *w, struct tree_root *csum_tree,
	const struct volume_geometry *geo, uint64_t logical, const uint8_t *csums, unsigned n);

/* Takes the checksums of a range out. Might wait. */
int csum_delete(struct tree_writer *w, struct tree_root *csum_tree,
	const struct volume_geometry *geo, uint64_t logical, uint64_t bytes);

#endif
