/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/compress.h"

#include <endian.h>
#include <errno.h>
#include <lzo/lzo1x.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/util.h"
#include "fscore/format/disk.h"

/* -- each thread keeps its decompressors, which are too large to make each time -- */

struct decompressors {
	z_stream zlib;
	bool have_zlib;
	ZSTD_DCtx *zstd;
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;

static void free_decompressors(void *arg)
{
	struct decompressors *d = arg;

	if (d->have_zlib)
		inflateEnd(&d->zlib);
	ZSTD_freeDCtx(d->zstd);
	free(d);
}

static void make_key(void)
{
	key_error = pthread_key_create(&key, free_decompressors);
}

static struct decompressors *thread_decompressors(void)
{
	struct decompressors *d;

	pthread_once(&key_once, make_key);
	if (key_error)
		return NULL;
	d = pthread_getspecific(key);
	if (d)
		return d;
	d = calloc(1, sizeof(*d));
	if (d && pthread_setspecific(key, d)) {
		free(d);
		return NULL;
	}
	return d;
}

/* -- the three formats: 0 and how many bytes came out, or an error -- */

static int zlib_decompress(
	const void *in, size_t in_bytes, void *out, size_t out_bytes, size_t *got)
{
	struct decompressors *d = thread_decompressors();
	int ret;

	if (!d)
		return -ENOMEM;
	ret = d->have_zlib ? inflateReset(&d->zlib) : inflateInit(&d->zlib);
	if (ret != Z_OK)
		return -ENOMEM;
	d->have_zlib = true;
	/* Lacks a const: it reads only. */
	d->zlib.next_in = (Bytef *)(uintptr_t)in;
	d->zlib.avail_in = (uInt)in_bytes;
	d->zlib.next_out = out;
	d->zlib.avail_out = (uInt)out_bytes;
	ret = inflate(&d->zlib, Z_FINISH);
	*got = out_bytes - d->zlib.avail_out;
	if (ret == Z_MEM_ERROR)
		return -ENOMEM;
	/* Z_BUF_ERROR: out is full, and the stream has more or its trailer is left. */
	if (ret == Z_STREAM_END || (ret == Z_BUF_ERROR && *got == out_bytes))
		return 0;
	return -EIO;
}

static int zstd_decompress(
	const void *in, size_t in_bytes, void *out, size_t out_bytes, size_t *got)
{
	struct decompressors *d = thread_decompressors();
	ZSTD_inBuffer ib = {.src = in, .size = in_bytes};
	ZSTD_outBuffer ob = {.dst = out, .size = out_bytes};
	size_t left;

	if (!d)
		return -ENOMEM;
	if (!d->zstd) {
		d->zstd = ZSTD_createDCtx();
		if (!d->zstd)
			return -ENOMEM;
		/* btrfs has none larger: a hostile frame does not get more memory. */
		ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, 17);
	}
	ZSTD_DCtx_reset(d->zstd, ZSTD_reset_session_only);
	do {
		size_t in_before = ib.pos, out_before = ob.pos;

		left = ZSTD_decompressStream(d->zstd, &ob, &ib);
		if (ZSTD_isError(left))
			return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? -ENOMEM
										       : -EIO;
		if (ib.pos == in_before && ob.pos == out_before)
			break;
	} while (left && ob.pos < ob.size);
	*got = ob.pos;
	return left && ob.pos < ob.size ? -EIO : 0;
}

/* A reader of the framing that btrfs puts around lzo. */
struct lzo_in {
	const uint8_t *data;
	size_t pos, end;
	uint32_t sector_bytes;
};

static uint32_t lzo_le32(const struct lzo_in *in)
{
	uint32_t v;

	memcpy(&v, in->data + in->pos, sizeof(v));
	return le32toh(v);
}

/* The next segment's length; 0: there are no more. A header never crosses a sector. */
static int lzo_next(struct lzo_in *in, size_t *seg_bytes)
{
	size_t room = in->sector_bytes - in->pos % in->sector_bytes;

	*seg_bytes = 0;
	if (room < sizeof(uint32_t))
		in->pos += room;
	if (in->pos >= in->end)
		return 0;
	if (in->end - in->pos < sizeof(uint32_t))
		return -EIO;
	*seg_bytes = lzo_le32(in);
	in->pos += sizeof(uint32_t);
	/* None is longer than the worst that lzo makes of a sector. */
	if (!*seg_bytes || *seg_bytes > in->end - in->pos ||
		*seg_bytes > (size_t)in->sector_bytes + in->sector_bytes / 16 + 64 + 3 + 2)
		return -EIO;
	return 0;
}

/* One segment; *part: room for it, then its length. */
static int lzo_segment(
	const uint8_t *in, size_t in_bytes, uint8_t *out, lzo_uint *part, uint32_t sector_bytes)
{
	lzo_uint room = *part, len = sector_bytes;
	uint8_t *whole;
	int ret = lzo1x_decompress_safe(in, in_bytes, out, part, NULL);

	if (ret == LZO_E_OK)
		return 0;
	if (ret != LZO_E_OUTPUT_OVERRUN || room == sector_bytes)
		return -EIO;
	/* The last of an extent whose ram_bytes ends within it. */
	whole = malloc(sector_bytes);
	if (!whole)
		return -ENOMEM;
	ret = lzo1x_decompress_safe(in, in_bytes, whole, &len, NULL) == LZO_E_OK ? 0 : -EIO;
	*part = MIN(len, room);
	if (!ret)
		memcpy(out, whole, *part);
	free(whole);
	return ret;
}

static int lzo_decompress(const void *data, size_t in_bytes, void *out, size_t out_bytes,
	uint32_t sector_bytes, size_t *got)
{
	struct lzo_in in = {.data = data, .end = in_bytes, .sector_bytes = sector_bytes};
	size_t total, seg_bytes;
	int ret;

	if (in_bytes < sizeof(uint32_t))
		return -EIO;
	/* The length of all, its own four bytes included. */
	total = lzo_le32(&in);
	if (total < sizeof(uint32_t) || total > in_bytes)
		return -EIO;
	in.end = total;
	in.pos = sizeof(uint32_t);
	while (*got < out_bytes) {
		lzo_uint part = MIN(out_bytes - *got, sector_bytes);

		ret = lzo_next(&in, &seg_bytes);
		if (ret || !seg_bytes)
			return ret;
		ret = lzo_segment(
			in.data + in.pos, seg_bytes, (uint8_t *)out + *got, &part, sector_bytes);
		if (ret)
			return ret;
		in.pos += seg_bytes;
		*got += part;
	}
	return 0;
}

int decompress_extent(unsigned type, const void *in, size_t in_bytes, void *out, size_t out_bytes,
	uint32_t sector_bytes)
{
	size_t got = 0;
	int ret;

	/* zlib counts in 32 bits; no extent comes near. */
	if (in_bytes > INT32_MAX || out_bytes > INT32_MAX)
		return -EIO;
	switch (type) {
	case BTRFS_COMPRESS_ZLIB:
		ret = zlib_decompress(in, in_bytes, out, out_bytes, &got);
		break;
	case BTRFS_COMPRESS_LZO:
		ret = lzo_decompress(in, in_bytes, out, out_bytes, sector_bytes, &got);
		break;
	case BTRFS_COMPRESS_ZSTD:
		ret = zstd_decompress(in, in_bytes, out, out_bytes, &got);
		break;
	default:
		return -EIO;
	}
	if (!ret)
		memset((uint8_t *)out + got, 0, out_bytes - got);
	return ret;
}
