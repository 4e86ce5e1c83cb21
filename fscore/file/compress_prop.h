/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * By what new data of a file is compressed: by its property (the extended attribute
 * btrfs.compression), its flags, or what its subvolume has for all. As in the kernel, the
 * property goes along with BTRFS_INODE_COMPRESS, "none" with BTRFS_INODE_NOCOMPRESS, and a new
 * inode gets the property of its directory. Types are of enum btrfs_compression.
 */
#ifndef FSCORE_FILE_COMPRESS_PROP_H
#define FSCORE_FILE_COMPRESS_PROP_H

#include "fscore/file/inode.h"

#define COMPRESS_PROP "btrfs.compression"

/* "zlib", "lzo", "zstd"; a level may follow after a colon. False: something else. */
bool compress_type_parse(const char *name, size_t len, uint8_t *type);
/* NULL for BTRFS_COMPRESS_NONE. */
const char *compress_type_name(uint8_t type);

/* What new data of the file is to be compressed by. Might wait, for the property. */
uint8_t compress_type_of(struct fsc_ctx *ctx, struct fsc_inode *inode);

/* Compression of new data does not help: it is not tried again, but for a property. */
void compress_gave_up(struct fsc_inode *inode);

/* Whether the property may get this value (NULL: be removed): 0 or -EINVAL. */
int compress_prop_check(struct fsc_inode *inode, const char *value, size_t len);

/* The property has got this value (NULL: is gone), in h's transaction. */
void compress_prop_changed(
	struct txn_handle *h, struct fsc_inode *inode, const char *value, size_t len);

/*
 * What a new inode in the directory, which is locked, gets as its property. -EAGAIN with
 * FSC_NOWAIT.
 */
int compress_prop_inherited(
	struct fsc_ctx *ctx, struct fsc_inode *dir, const struct fsc_inode *inode, uint8_t *type);

/*
 * The superblock says from this transaction on that there are extents of this type.
 * fs_writing.super.incompat_flags is changed here alone, by those who hold a transaction handle,
 * with fs_writing.lock; the commit copies the superblock when there is no handle.
 */
void compress_note_used(struct txn_handle *h, struct fsc_volume *vol, uint8_t type);

#endif
