/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <lzo/lzo1x.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/util.h"
#include "fscore/file/compress.h"
#include "fscore/format/disk.h"

#define SECTOR	  4096u
#define MAX_BYTES BTRFS_MAX_UNCOMPRESSED_BYTES

static uint8_t plain[MAX_BYTES];
static uint8_t packed[2 * MAX_BYTES];

/* Of the given entropy, from a few bits a byte to nearly 8. */
static void fill(size_t bytes, unsigned letters)
{
	for (size_t i = 0; i < bytes; i++)
		plain[i] = (uint8_t)((unsigned)rand() % letters);
}

static void put_le32(size_t at, size_t value)
{
	uint32_t v = htole32((uint32_t)value);

	memcpy(packed + at, &v, sizeof(v));
}

/* As btrfs frames it. */
static size_t pack_lzo(size_t bytes)
{
	static uint8_t work[LZO1X_1_MEM_COMPRESS];
	size_t at = 4;

	for (size_t from = 0; from < bytes; from += SECTOR) {
		uint8_t segment[2 * SECTOR];
		lzo_uint len;

		lzo1x_1_compress(plain + from, MIN(bytes - from, SECTOR), segment, &len, work);
		if (SECTOR - at % SECTOR < 4) {
			memset(packed + at, 0, SECTOR - at % SECTOR);
			at += SECTOR - at % SECTOR;
		}
		put_le32(at, len);
		memcpy(packed + at + 4, segment, len);
		at += 4 + len;
	}
	put_le32(0, at);
	return at;
}

static size_t pack(unsigned type, size_t bytes)
{
	uLongf zlib_len = sizeof(packed);

	switch (type) {
	case BTRFS_COMPRESS_ZLIB:
		compress2(packed, &zlib_len, plain, bytes, 3);
		return zlib_len;
	case BTRFS_COMPRESS_LZO:
		return pack_lzo(bytes);
	}
	return ZSTD_compress(packed, sizeof(packed), plain, bytes, 3);
}

/* With both in memory of exactly their size, so that sanitizers see each step outside. */
static int unpack(unsigned type, size_t in_bytes, size_t out_bytes, uint8_t **out)
{
	uint8_t *in = malloc(MAX(in_bytes, 1));
	int ret;

	memcpy(in, packed, in_bytes);
	*out = malloc(MAX(out_bytes, 1));
	memset(*out, 0xee, out_bytes);
	ret = decompress_extent(type, in, in_bytes, *out, out_bytes, SECTOR);
	free(in);
	return ret;
}

static const size_t sizes[] = {
	1, 2, 100, 4095, 4096, 4097, 8192, 65536, 100000, MAX_BYTES - 1, MAX_BYTES};
static const unsigned entropies[] = {1, 2, 30, 255};

/* out_bytes: more, less or the same; what is missing is zero. */
static void check_size(unsigned type, size_t bytes, size_t in_bytes, size_t out_bytes)
{
	size_t same = MIN(bytes, out_bytes);
	uint8_t *out;

	assert_int_equal(unpack(type, in_bytes, out_bytes, &out), 0);
	assert_memory_equal(out, plain, same);
	for (size_t i = same; i < out_bytes; i++)
		assert_int_equal(out[i], 0);
	free(out);
}

static void test_decompress_gives_what_was_compressed(void **state)
{
	(void)state;
	for (unsigned type = 1; type <= 3; type++)
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
			for (size_t e = 0; e < ARRAY_SIZE(entropies); e++) {
				size_t n = sizes[s], len;

				fill(n, entropies[e]);
				len = pack(type, n);
				memset(packed + len, 0, SECTOR);
				check_size(type, n, len, n);
				/* Padded to a sector, as on disk. */
				check_size(type, n, align_up(len, SECTOR), n);
				check_size(type, n, len, n / 2 + 1);
				check_size(type, n, len, n + 5000);
			}
}

static void test_decompress_cut_stream_is_eio(void **state)
{
	uint8_t *out;

	(void)state;
	fill(MAX_BYTES, 30);
	for (unsigned type = 1; type <= 3; type++) {
		size_t len = pack(type, MAX_BYTES);

		for (size_t cut = 0; cut < len - 8; cut += 1 + len / 50) {
			assert_int_equal(unpack(type, cut, MAX_BYTES, &out), -EIO);
			free(out);
		}
	}
}

static void test_decompress_flipped_bits_stay_inside(void **state)
{
	uint8_t *out;

	(void)state;
	for (unsigned type = 1; type <= 3; type++)
		for (unsigned i = 0; i < 1000; i++) {
			size_t n = (unsigned)rand() % 20000 + 1, len;

			fill(n, i % 200 + 1);
			len = pack(type, n);
			for (unsigned flip = 0; flip < 4; flip++)
				packed[(unsigned)rand() % len] ^= (uint8_t)(1u << rand() % 8);
			unpack(type, len, n, &out);
			free(out);
		}
}

static void test_decompress_unknown_type_is_eio(void **state)
{
	uint8_t *out;

	(void)state;
	assert_int_equal(unpack(BTRFS_COMPRESS_NONE, 10, 10, &out), -EIO);
	free(out);
	assert_int_equal(unpack(4, 10, 10, &out), -EIO);
	free(out);
}

static void test_decompress_lzo_bad_lengths_are_eio(void **state)
{
	uint8_t *out;
	size_t len;

	(void)state;
	fill(10000, 30);
	len = pack_lzo(10000);
	for (unsigned i = 0; i < 3; i++) {
		const size_t totals[] = {0, 3, len + 1};

		put_le32(0, totals[i]);
		assert_int_equal(unpack(BTRFS_COMPRESS_LZO, len, 10000, &out), -EIO);
		free(out);
	}
	put_le32(0, len);
	for (unsigned i = 0; i < 3; i++) {
		const size_t segments[] = {0, len, 0xffffffff};

		put_le32(4, segments[i]);
		assert_int_equal(unpack(BTRFS_COMPRESS_LZO, len, 10000, &out), -EIO);
		free(out);
	}
}

/* It would have the decompressor allocate what the frame asks for. */
static void test_decompress_zstd_large_window_is_eio(void **state)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_inBuffer in = {plain, 1000, 0};
	ZSTD_outBuffer out = {packed, sizeof(packed), 0};
	uint8_t *got;

	(void)state;
	fill(1000, 30);
	ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, 27);
	ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
	while (in.pos < in.size)
		ZSTD_compressStream2(c, &out, &in, ZSTD_e_continue);
	while (ZSTD_compressStream2(c, &out, &in, ZSTD_e_end))
		;
	ZSTD_freeCCtx(c);
	assert_int_equal(unpack(BTRFS_COMPRESS_ZSTD, out.pos, 1000, &got), -EIO);
	free(got);
}

static int setup(void **state)
{
	(void)state;
	srand(1);
	return lzo_init();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decompress_gives_what_was_compressed),
		cmocka_unit_test(test_decompress_cut_stream_is_eio),
		cmocka_unit_test(test_decompress_flipped_bits_stay_inside),
		cmocka_unit_test(test_decompress_unknown_type_is_eio),
		cmocka_unit_test(test_decompress_lzo_bad_lengths_are_eio),
		cmocka_unit_test(test_decompress_zstd_large_window_is_eio),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
