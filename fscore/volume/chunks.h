/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fills the chunk map when a volume is opened. */
#ifndef FSCORE_VOLUME_CHUNKS_H
#define FSCORE_VOLUME_CHUNKS_H

#include "fscore/file/fs.h"

/*
 * The system chunks, from the superblock's own array: enough to read the chunk
 * tree. Problems are logged. -EUCLEAN, -EOPNOTSUPP, -ENOMEM.
 */
int chunks_read_system(struct fsc_volume *vol);

/* All chunks, from the chunk tree. */
int chunks_read_tree(struct fsc_ctx *ctx, struct fsc_volume *vol);

#endif
