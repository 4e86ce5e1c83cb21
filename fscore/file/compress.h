/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Decompression of btrfs extents, by zlib, lzo and zstd. Any thread. */
#ifndef FSCORE_FILE_COMPRESS_H
#define FSCORE_FILE_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decompresses one extent (type: enum btrfs_compression; regular or inline)
 * into exactly out_bytes bytes, its ram_bytes: what the stream lacks is zero, as
 * in btrfs. sector_bytes: lzo segments do not cross it. Trailing padding after the
 * stream is normal. Never reads or writes outside the buffers, whatever the bytes.
 * Returns 0; -EIO: the stream is damaged or of an unknown type; -ENOMEM.
 */
int decompress_extent(unsigned type, const void *in, size_t in_bytes, void *out, size_t out_bytes,
	uint32_t sector_bytes);

#endif
