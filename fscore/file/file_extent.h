/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a file's extent items and the checksum tree say about a range of it. Any thread. */
#ifndef FSCORE_FILE_FILE_EXTENT_H
#define FSCORE_FILE_FILE_EXTENT_H

#include "fscore/file/inode.h"

enum seg_kind {
	SEG_HOLE,	/* a hole, or preallocated and not written: zeros */
	SEG_DISK,	/* as it is at logical */
	SEG_COMPRESSED, /* part of a compressed extent */
	SEG_INLINE,	/* in the item itself; a copy is in inline_data */
};

/* A compressed extent, and the part of it that one file extent item shows. */
struct compressed_extent {
	uint8_t type; /* enum btrfs_compression */
	uint64_t logical;
	uint64_t disk_bytes;
	uint64_t ram_bytes;
	uint64_t ram_off;  /* where the item's part begins, in the decompressed extent */
	uint64_t file_off; /* where it is shown in the file */
	uint64_t len_bytes;
};

/* A part of a file in one piece. Offsets and lengths are whole sectors. */
struct file_seg {
	enum seg_kind kind;
	uint64_t file_off;
	uint64_t len_bytes;
	uint64_t logical;		 /* SEG_DISK */
	struct compressed_extent extent; /* SEG_COMPRESSED; type and ram_bytes for SEG_INLINE */
	void *inline_data;		 /* SEG_INLINE: the caller frees it */
	size_t inline_bytes;
};

/*
 * Maps a file's range [start, end), whole sectors, to at most max segments; *n says
 * how many. They follow each other from start; when the last one ends before end
 * there are more.
 */
int file_map(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t start, uint64_t end,
	struct file_seg *segs, unsigned max, unsigned *n);

/*
 * Looks up the checksums of n sectors from logical on: csum_bytes each to csums, and
 * have[i] says whether there is one.
 */
int csum_lookup(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t logical, unsigned n,
	uint8_t *csums, bool *have);

#endif
