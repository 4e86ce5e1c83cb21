/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compression of btrfs extents, by zlib, lzo and zstd: the inverse of decompress_extent(). A
 * compressor belongs to one thread, and keeps what is too large to make each time.
 */
#ifndef FSCORE_FILE_COMPRESSOR_H
#define FSCORE_FILE_COMPRESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct compressor;

/* NULL: no memory. */
struct compressor *compressor_create(void);
/* NULL is allowed. */
void compressor_destroy(struct compressor *c);

/*
 * Compresses one extent (type: enum btrfs_compression), at most 128 KiB, into at most out_max
 * bytes; *out_bytes is how many. sector_bytes: that of the volume, to which lzo's segments are
 * fitted. -E2BIG: it does not get that small; -ENOMEM; -EINVAL: an unknown type.
 */
int compress_extent(struct compressor *c, unsigned type, const void *in, size_t in_bytes, void *out,
	size_t out_max, uint32_t sector_bytes, size_t *out_bytes);

/*
 * Whether a sample looks like random bytes, as what is compressed or encrypted already does: then
 * the attempt is not worth its time. Never for a few KiB, of which no sample says much.
 */
bool compress_looks_random(const void *data, size_t bytes);

#endif
