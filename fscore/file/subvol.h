/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of subvolumes in memory. Any thread. */
#ifndef FSCORE_FILE_SUBVOL_H
#define FSCORE_FILE_SUBVOL_H

#include "fscore/file/fs.h"

/* Looks a subvolume up, and reads it in when it is not there. -ENOENT: there is none. */
int subvol_get(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, struct subvol **out);

/*
 * Whether the entry in directory dirid of parent really is where subvolume child
 * has its name (and not what a snapshot of the parent has kept of it). 0 or -ENOENT.
 */
int subvol_check_ref(struct fsc_ctx *ctx, const struct subvol *parent, uint64_t dirid,
	const char *name, size_t name_len, uint64_t child);

/* Reads a root item from the root tree: the newest of that objectid. -ENOENT. */
int root_item_read(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t objectid,
	struct btrfs_root_item *out);

void subvol_table_free(struct fsc_volume *vol);

#endif
