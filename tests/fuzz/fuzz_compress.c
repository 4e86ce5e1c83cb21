/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a compressed extent.
 *
 * Input: one byte for the type, two for the size of the extent, then the stream.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/compress.h"
#include "fscore/format/disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t in_bytes, out_bytes;
	uint8_t *in, *out;
	uint32_t sector_bytes;
	int ret;

	if (size < 3)
		return 0;
	in_bytes = MIN(size - 3, BTRFS_MAX_COMPRESSED_BYTES);
	/* A few bytes, or whole sectors. */
	out_bytes = data[2] ? data[2] * 512u : data[1];
	sector_bytes = data[0] & 0x80 ? 16384 : 4096;
	/* Copies of exactly these sizes, for AddressSanitizer to see each step outside. */
	in = malloc(MAX(in_bytes, 1));
	out = malloc(MAX(out_bytes, 1));
	if (!in || !out)
		abort();
	memcpy(in, data + 3, in_bytes);
	ret = decompress_extent(data[0] % 4, in, in_bytes, out, out_bytes, sector_bytes);
	if (ret != 0 && ret != -EIO)
		abort();
	/* All of it is defined, as MemorySanitizer sees. */
	for (size_t i = 0; ret == 0 && i < out_bytes; i++)
		if (out[i] == 1)
			ret = 1;
	free(in);
	free(out);
	return 0;
}
