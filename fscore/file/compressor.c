/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/compressor.h"

#include <endian.h>
#include <errno.h>
#include <lzo/lzo1x.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/util.h"
#include "fscore/format/disk.h"

#define ZLIB_LEVEL 3
#define ZSTD_LEVEL 3
/* The kernel's decompressor has memory for a window of 128 KiB, and no more. */
#define ZSTD_WINDOW_LOG 17

struct compressor {
	z_stream zlib;
	bool have_zlib;
	ZSTD_CCtx *zstd;
	void *lzo_work;
	uint8_t *lzo_segment; /* one, at its worst */
	size_t lzo_segment_bytes;
};

struct compressor *compressor_create(void)
{
	return calloc(1, sizeof(struct compressor));
}

void compressor_destroy(struct compressor *c)
{
	if (!c)
		return;
	if (c->have_zlib)
		deflateEnd(&c->zlib);
	ZSTD_freeCCtx(c->zstd);
	free(c->lzo_work);
	free(c->lzo_segment);
	free(c);
}

/* ------------------------------------------------------------------- the formats */

static int zlib_compress(struct compressor *c, const void *in, size_t in_bytes, void *out,
	size_t out_max, size_t *out_bytes)
{
	int ret = c->have_zlib ? deflateReset(&c->zlib) : deflateInit(&c->zlib, ZLIB_LEVEL);

	if (ret != Z_OK)
		return -ENOMEM;
	c->have_zlib = true;
	/* Lacks a const: it reads only. */
	c->zlib.next_in = (Bytef *)(uintptr_t)in;
	c->zlib.avail_in = (uInt)in_bytes;
	c->zlib.next_out = out;
	c->zlib.avail_out = (uInt)out_max;
	ret = deflate(&c->zlib, Z_FINISH);
	*out_bytes = out_max - c->zlib.avail_out;
	return ret == Z_STREAM_END ? 0 : -E2BIG;
}

static int zstd_compress(struct compressor *c, const void *in, size_t in_bytes, void *out,
	size_t out_max, size_t *out_bytes)
{
	size_t n;

	if (!c->zstd) {
		c->zstd = ZSTD_createCCtx();
		if (!c->zstd)
			return -ENOMEM;
		ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_windowLog, ZSTD_WINDOW_LOG);
	}
	n = ZSTD_compress2(c->zstd, out, out_max, in, in_bytes);
	if (ZSTD_isError(n))
		return ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation ? -ENOMEM : -E2BIG;
	*out_bytes = n;
	return 0;
}

static int lzo_prepare(struct compressor *c, uint32_t sector_bytes)
{
	/* What lzo makes of random bytes. */
	size_t worst = sector_bytes + sector_bytes / 16 + 64 + 3;

	if (!c->lzo_work)
		c->lzo_work = malloc(LZO1X_1_MEM_COMPRESS);
	if (c->lzo_segment_bytes < worst) {
		free(c->lzo_segment);
		c->lzo_segment = malloc(worst);
		c->lzo_segment_bytes = c->lzo_segment ? worst : 0;
	}
	return c->lzo_work && c->lzo_segment ? 0 : -ENOMEM;
}

static void put_le32(uint8_t *at, size_t v)
{
	uint32_t le = htole32((uint32_t)v);

	memcpy(at, &le, sizeof(le));
}

/*
 * The length of all, then for each sector its length and its bytes. A length never crosses a
 * sector of the result.
 */
static int lzo_compress(struct compressor *c, const uint8_t *in, size_t in_bytes, uint8_t *out,
	size_t out_max, uint32_t sector_bytes, size_t *out_bytes)
{
	size_t pos = sizeof(uint32_t);

	if (lzo_prepare(c, sector_bytes))
		return -ENOMEM;
	for (size_t done = 0; done < in_bytes;) {
		size_t n = MIN(in_bytes - done, sector_bytes),
		       room = sector_bytes - pos % sector_bytes;
		size_t pad = room < sizeof(uint32_t) ? room : 0;
		lzo_uint len;

		lzo1x_1_compress(in + done, n, c->lzo_segment, &len, c->lzo_work);
		if (pos + pad + sizeof(uint32_t) + len > out_max)
			return -E2BIG;
		memset(out + pos, 0, pad);
		put_le32(out + pos + pad, len);
		memcpy(out + pos + pad + sizeof(uint32_t), c->lzo_segment, len);
		pos += pad + sizeof(uint32_t) + len;
		done += n;
	}
	put_le32(out, pos);
	*out_bytes = pos;
	return 0;
}

int compress_extent(struct compressor *c, unsigned type, const void *in, size_t in_bytes, void *out,
	size_t out_max, uint32_t sector_bytes, size_t *out_bytes)
{
	if (out_max < sizeof(uint32_t))
		return -E2BIG;
	switch (type) {
	case BTRFS_COMPRESS_ZLIB:
		return zlib_compress(c, in, in_bytes, out, out_max, out_bytes);
	case BTRFS_COMPRESS_LZO:
		return lzo_compress(c, in, in_bytes, out, out_max, sector_bytes, out_bytes);
	case BTRFS_COMPRESS_ZSTD:
		return zstd_compress(c, in, in_bytes, out, out_max, out_bytes);
	default:
		return -EINVAL;
	}
}

/* --------------------------------------------------------------------- the sample */

#define SAMPLE_BYTES	16u
#define SAMPLE_STEP	256u
#define SAMPLE_LEAST_IN 16384u

bool compress_looks_random(const void *data, size_t bytes)
{
	const uint8_t *p = data;
	uint32_t count[256] = {0};
	uint64_t n = 0, squares = 0, random;

	if (bytes < SAMPLE_LEAST_IN)
		return false;
	for (size_t at = 0; at + SAMPLE_BYTES <= bytes; at += SAMPLE_STEP)
		for (unsigned i = 0; i < SAMPLE_BYTES; i++, n++)
			count[p[at + i]]++;
	for (unsigned i = 0; i < ARRAY_SIZE(count); i++)
		squares += (uint64_t)count[i] * count[i];
	/* n of 256 values at random: this much, of which n come from chance. */
	random = n * n / 256 + n;
	return squares < random + n * n / 256 / 8;
}
