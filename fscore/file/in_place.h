/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where dirty pages may be written without a new extent: over what a nodatacow file has there, or
 * into what was preallocated. Only where nobody else can see it: an extent with this file's
 * references alone, which no snapshot has, without checksums, in a block group that is sound.
 *
 * What is found stays good until the pages are in the trees, since a piece that is being written
 * keeps others from changing its range of the file (writing_wait(), inode->writing). Whoever
 * shares extents (snapshots, clones) must have the file written before.
 */
#ifndef FSCORE_FILE_IN_PLACE_H
#define FSCORE_FILE_IN_PLACE_H

#include "fscore/file/inode.h"

enum in_place {
	IN_PLACE_NOT, /* a new extent is needed */
	IN_PLACE_OVER,
	IN_PLACE_PREALLOC, /* and the item is then to be changed: extents_mark_written() */
};

/*
 * Looks at the file's range [start, end), whole sectors. *len_bytes: how far, from start, the
 * answer goes (with IN_PLACE_NOT: until another extent begins); *logical: where start lies. The
 * ctx may wait.
 */
int in_place_find(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t start, uint64_t end,
	enum in_place *how, uint64_t *logical, uint64_t *len_bytes);

#endif
