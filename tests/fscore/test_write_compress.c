/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compression on write: what is stored, what is read back, what `btrfs check` says. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/file/compress.h"
#include "fscore/file/compressor.h"
#include "tests/fscore/writing.h"

#define PROP "btrfs.compression"

static const char *const types[] = {[BTRFS_COMPRESS_ZLIB] = "zlib",
	[BTRFS_COMPRESS_LZO] = "lzo",
	[BTRFS_COMPRESS_ZSTD] = "zstd"};

static void set_prop(struct fsc_inode *inode, const char *value)
{
	assert_int_equal(fsc_setxattr(&w.ctx, inode, PROP, value, strlen(value), 0), 0);
}

static uint64_t flags_of(struct fsc_inode *inode)
{
	return inode->flags;
}

/* ------------------------------------------------------------------- the formats */

static void test_compress_extent_is_undone_by_decompression(void **state)
{
	struct compressor *c = compressor_create();
	uint8_t *in = malloc(131072), *out = malloc(131072), *back = malloc(131072);

	(void)state;
	for (unsigned type = 1; type <= 3; type++)
		for (size_t len = 1; len <= 131072; len = len * 3 + 5) {
			size_t n;

			for (size_t i = 0; i < len; i++)
				in[i] = (uint8_t)(i % 7 ? 'x' : hash_mix64(i));
			if (compress_extent(c, type, in, len, out, 131072, 4096, &n))
				fail_msg("type %u, %zu bytes", type, len);
			assert_int_equal(decompress_extent(type, out, n, back, len, 4096), 0);
			assert_memory_equal(in, back, len);
			assert_int_equal(
				compress_extent(c, type, in, len, out, n - 1, 4096, &n), -E2BIG);
		}
	compressor_destroy(c);
	free(in);
	free(out);
	free(back);
}

static void test_looks_random_tells_random_from_text(void **state)
{
	uint8_t *data = malloc(131072);

	(void)state;
	for (size_t i = 0; i < 131072; i++)
		data[i] = (uint8_t)hash_mix64(i);
	assert_true(compress_looks_random(data, 131072));
	assert_true(compress_looks_random(data, 16384));
	assert_false(compress_looks_random(data, 4096));
	for (size_t i = 0; i < 131072; i++)
		data[i] = (uint8_t)(' ' + hash_mix64(i) % 64);
	assert_false(compress_looks_random(data, 131072));
	memset(data, 0, 131072);
	assert_false(compress_looks_random(data, 131072));
	free(data);
}

/* --------------------------------------------------------------------- all types */

/* Random writes and truncates of three files with several kinds of content. */
static void change_at_random(struct model *m, unsigned n, unsigned seed)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t r = hash_mix64(seed * 1000 + i);
		size_t len = r % 5 ? r % 9000 + 1 : r % 400000 + 1;
		uint64_t off = (r >> 20) % (m->max - len);

		if (r % 3 == 0)
			off = align_down(off, 4096);
		if (i % 10 == 9)
			model_truncate(m, (r >> 24) % m->max);
		else
			model_write(m, off, len, (enum bytes_kind)((r >> 8) % 3), seed + i);
		if (i % 7 == 6)
			model_sync(m);
	}
}

static void run_type(const char *options, uint8_t type)
{
	struct extents_seen seen;
	struct model a, b, small;

	writing_make(options);
	set_prop(w.root, types[type]);
	model_create(&a, w.root, "a", 3000000);
	model_create(&b, w.root, "b", 3000000);
	model_create(&small, w.root, "small", 4000);
	model_write(&small, 0, 1500, BYTES_TEXT, 1);
	model_write(&a, 0, 2500000, BYTES_TEXT, 2);
	model_sync(&a);
	model_sync(&small);
	extents_see(a.inode, &seen);
	assert_int_equal(seen.n_of_type[type], 20);
	assert_int_equal(seen.n_of_type[type], seen.n_regular);
	assert_true(seen.disk_bytes < 1500000);
	extents_see(small.inode, &seen);
	assert_int_equal(seen.n_inline, 1);
	assert_int_equal(seen.n_of_type[type], 1);
	change_at_random(&a, 60, type * 10);
	change_at_random(&b, 60, type * 10 + 1);
	model_compare(&a);
	model_close(&a);
	model_close(&b);
	model_close(&small);
	writing_reopen();
	model_open(&a);
	model_open(&b);
	model_open(&small);
	model_compare(&a);
	model_compare(&b);
	model_compare(&small);
	/* What is there goes on changing. */
	model_write(&small, 1400, 2500, BYTES_TEXT, 3);
	change_at_random(&a, 30, type * 10 + 2);
	model_free(&b);
	model_close(&a);
	model_close(&small);
	assert_int_equal(fsc_unlink(&w.ctx, w.root, "b", 1), 0);
	writing_reopen();
	model_open(&a);
	model_open(&small);
	model_compare(&a);
	model_compare(&small);
	model_free(&a);
	model_free(&small);
	writing_end();
}

static void test_all_types_on_all_formats_keep_the_content(void **state)
{
	const char *const formats[] = {
		"-n 4096", "", "-n 65536 --csum xxhash", "-O ^no-holes", "-M -n 4096", "-d dup"};

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(formats); f++)
		for (uint8_t type = 1; type <= 3; type++)
			run_type(formats[f], type);
}

/* ----------------------------------------------------------------------- one by one */

static void test_overwrite_part_of_a_compressed_extent_keeps_the_rest(void **state)
{
	struct extents_seen seen;
	struct model m;

	(void)state;
	writing_make("");
	set_prop(w.root, "zstd");
	model_create(&m, w.root, "f", 1 << 20);
	model_write(&m, 0, 131072, BYTES_TEXT, 1);
	model_sync(&m);
	model_write(&m, 50000, 20000, BYTES_TEXT, 2);
	model_sync(&m);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_regular, 3);
	model_truncate(&m, 100001);
	model_truncate(&m, 200000);
	model_close(&m);
	writing_reopen();
	model_open(&m);
	model_compare(&m);
	model_free(&m);
	writing_end();
}

/* As they come by a network: pages in order, backwards, scattered; or each few made durable at once. */
static void test_small_writes_in_any_order_are_compressed(void **state)
{
	const unsigned strides[] = {1, 255, 77}, n = 256, each = 4096;
	struct extents_seen seen;
	struct model m;
	char name[16];

	(void)state;
	writing_make("");
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zstd"), 0);
	for (unsigned s = 0; s < ARRAY_SIZE(strides); s++) {
		snprintf(name, sizeof(name), "stride%u", strides[s]);
		model_create(&m, w.root, name, n * each);
		for (unsigned i = 0; i < n; i++)
			model_write(&m, (uint64_t)(i * strides[s] % n) * each, each, BYTES_TEXT, i);
		model_sync(&m);
		extents_see(m.inode, &seen);
		assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_NONE], 0);
		assert_true(seen.n_of_type[BTRFS_COMPRESS_ZSTD] >= n * each / 131072);
		assert_true(seen.disk_bytes < n * each / 2);
		model_compare(&m);
		model_free(&m);
	}
	model_create(&m, w.root, "synced", n * each);
	for (unsigned i = 0; i < n / 8; i++) {
		model_write(&m, (uint64_t)i * 8 * each, 8 * each, BYTES_TEXT, i);
		model_sync(&m);
	}
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_ZSTD], n / 8);
	assert_int_equal(seen.n_regular, n / 8);
	model_compare(&m);
	model_free(&m);
	writing_end();
}

static void test_incompressible_is_given_up_and_stored_as_it_is(void **state)
{
	struct extents_seen seen;
	struct model m;

	(void)state;
	writing_make("");
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zstd"), 0);
	model_create(&m, w.root, "f", 1 << 20);
	model_write(&m, 0, 1 << 20, BYTES_RANDOM, 1);
	model_sync(&m);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_NONE], seen.n_regular);
	assert_int_equal(seen.disk_bytes, 1 << 20);
	/* The sample has told: nobody has tried, so other content may do better. */
	assert_int_equal(flags_of(m.inode) & BTRFS_INODE_NOCOMPRESS, 0);
	model_write(&m, 0, 131072, BYTES_TEXT, 1);
	model_sync(&m);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_ZSTD], 1);
	model_close(&m);
	writing_reopen();
	model_open(&m);
	model_compare(&m);
	model_free(&m);
	writing_end();
}

/* Random bytes that have no 0..15: no sample shows them to be random, but little is saved. */
static void test_failed_attempt_marks_the_inode_but_not_against_a_property(void **state)
{
	uint8_t *data = malloc(131072);
	struct iovec iov = {data, 131072};
	struct model m;

	(void)state;
	for (size_t i = 0; i < 131072; i++)
		data[i] = (uint8_t)(hash_mix64(i) % 212);
	writing_make("");
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "lzo"), 0);
	model_create(&m, w.root, "f", 131072);
	assert_int_equal(fsc_write(&w.ctx, m.inode, 0, &iov, 1), 0);
	model_sync(&m);
	assert_int_equal(flags_of(m.inode) & BTRFS_INODE_NOCOMPRESS, BTRFS_INODE_NOCOMPRESS);
	set_prop(m.inode, "lzo");
	assert_int_equal(flags_of(m.inode) & BTRFS_INODE_NOCOMPRESS, 0);
	assert_int_equal(fsc_write(&w.ctx, m.inode, 0, &iov, 1), 0);
	model_sync(&m);
	assert_int_equal(flags_of(m.inode) & BTRFS_INODE_NOCOMPRESS, 0);
	model_free(&m);
	free(data);
	writing_end();
}

static void test_nodatasum_and_nodatacow_are_never_compressed(void **state)
{
	const uint64_t flags[] = {
		BTRFS_INODE_NODATASUM, BTRFS_INODE_NODATASUM | BTRFS_INODE_NODATACOW};

	(void)state;
	writing_make("");
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zlib"), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct extents_seen seen;
		struct model m;

		model_create(&m, w.root, i ? "f1" : "f0", 300000);
		m.inode->flags |= flags[i];
		assert_int_equal(fsc_setxattr(&w.ctx, m.inode, PROP, "zlib", 4, 0), -EINVAL);
		model_write(&m, 0, 300000, BYTES_TEXT, 1);
		model_sync(&m);
		extents_see(m.inode, &seen);
		assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_ZLIB], 0);
		assert_true(seen.n_regular > 0);
		model_free(&m);
	}
	writing_end();
}

/* ---------------------------------------------------------------------- the property */

static void expect_prop(struct fsc_inode *inode, const char *value)
{
	char got[16];
	size_t len;
	int ret = fsc_getxattr(&w.ctx, inode, PROP, got, sizeof(got), &len);

	if (!value) {
		assert_int_equal(ret, -ENODATA);
		return;
	}
	assert_int_equal(ret, 0);
	assert_int_equal(len, strlen(value));
	assert_memory_equal(got, value, len);
}

static struct fsc_inode *make(struct fsc_inode *dir, const char *name, uint32_t mode)
{
	struct fsc_new n = {.mode = mode, .target = S_ISLNK(mode) ? "x" : NULL};
	struct fsc_inode *inode;

	assert_int_equal(fsc_create(&w.ctx, dir, name, strlen(name), &n, &inode), 0);
	return inode;
}

static void test_property_is_inherited_checked_and_taken_away(void **state)
{
	struct fsc_inode *dir, *sub, *file, *link;

	(void)state;
	writing_make("");
	dir = make(w.root, "d", S_IFDIR | 0755);
	assert_int_equal(fsc_setxattr(&w.ctx, dir, PROP, "gzip", 4, 0), -EINVAL);
	set_prop(dir, "zstd");
	sub = make(dir, "sub", S_IFDIR | 0755);
	file = make(sub, "f", S_IFREG | 0644);
	link = make(sub, "l", S_IFLNK | 0777);
	expect_prop(sub, "zstd");
	expect_prop(file, "zstd");
	expect_prop(link, NULL);
	assert_true(flags_of(file) & BTRFS_INODE_COMPRESS);
	set_prop(file, "none");
	assert_true(flags_of(file) & BTRFS_INODE_NOCOMPRESS);
	assert_false(flags_of(file) & BTRFS_INODE_COMPRESS);
	assert_int_equal(fsc_setxattr(&w.ctx, file, PROP, "", 0, 0), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, file, PROP, "", 0, 0), 0);
	assert_false(flags_of(file) & (BTRFS_INODE_NOCOMPRESS | BTRFS_INODE_COMPRESS));
	expect_prop(file, NULL);
	fsc_inode_put(link);
	fsc_inode_put(file);
	fsc_inode_put(sub);
	fsc_inode_put(dir);
	writing_end();
}

/* A file that was read from the disk finds its property when it is written. */
static void test_property_counts_after_reopening(void **state)
{
	struct extents_seen seen;
	struct model m;

	(void)state;
	writing_make("");
	model_create(&m, w.root, "f", 300000);
	set_prop(m.inode, "lzo");
	model_close(&m);
	writing_reopen();
	model_open(&m);
	model_write(&m, 0, 300000, BYTES_TEXT, 1);
	model_sync(&m);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_LZO], 3);
	model_free(&m);
	writing_end();
}

static uint64_t incompat_flags(void)
{
	struct btrfs_super_block sb;
	int fd = open(w.path, O_RDONLY);

	assert_int_equal(pread(fd, &sb, sizeof(sb), 65536), sizeof(sb));
	close(fd);
	return GET(&sb, incompat_flags);
}

static void test_superblock_names_the_types_that_are_used(void **state)
{
	const uint64_t lzo = BTRFS_FEATURE_INCOMPAT_COMPRESS_LZO;
	const uint64_t zstd = BTRFS_FEATURE_INCOMPAT_COMPRESS_ZSTD;
	struct model m;

	(void)state;
	writing_make("");
	model_create(&m, w.root, "f", 300000);
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zlib"), 0);
	model_write(&m, 0, 300000, BYTES_TEXT, 1);
	model_sync(&m);
	assert_int_equal(incompat_flags() & (lzo | zstd), 0);
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zstd:9"), 0);
	model_write(&m, 0, 300000, BYTES_TEXT, 2);
	model_sync(&m);
	assert_int_equal(incompat_flags() & (lzo | zstd), zstd);
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "lzo"), 0);
	model_truncate(&m, 1000);
	model_write(&m, 0, 1000, BYTES_TEXT, 2);
	model_sync(&m);
	assert_int_equal(incompat_flags() & (lzo | zstd), lzo | zstd);
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "rle"), -EINVAL);
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, 12345, "lzo"), -ENOENT);
	model_free(&m);
	writing_end();
}

static void test_saved_space_is_given_back(void **state)
{
	struct space_info before, after;
	struct extents_seen seen;
	struct model m;

	(void)state;
	writing_make("");
	set_prop(w.root, "zstd");
	space_info_get(&w.vol->w->space, SPACE_DATA, &before);
	model_create(&m, w.root, "f", 4 << 20);
	model_write(&m, 0, 4 << 20, BYTES_TEXT, 1);
	model_sync(&m);
	extents_see(m.inode, &seen);
	space_info_get(&w.vol->w->space, SPACE_DATA, &after);
	assert_int_equal(after.reserved_bytes, 0);
	assert_int_equal(after.used_bytes - before.used_bytes, seen.disk_bytes);
	assert_true(seen.disk_bytes < 2 << 20);
	model_free(&m);
	writing_end();
}

/* ----------------------------------------------------------- inline stands alone */

static void expect_no_inline_beside_others(struct model *m)
{
	struct extents_seen seen;

	model_sync(m);
	extents_see(m->inode, &seen);
	if (seen.n_inline)
		assert_int_equal(seen.n_inline + seen.n_regular + seen.n_prealloc, 1);
	model_compare(m);
}

/* A small file becomes a large one without its first page being written to. */
static void test_inline_is_rewritten_when_the_file_gets_more(void **state)
{
	static const char *const formats[] = {"", "-O ^no-holes"};

	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		bool compress = i & 1, synced = i & 2, cold = i & 4;
		struct model m;

		writing_make(formats[i % ARRAY_SIZE(formats)]);
		if (compress)
			assert_int_equal(
				fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zlib"), 0);
		model_create(&m, w.root, "f", 1u << 20);
		model_write(&m, 0, compress ? 3000 : 300, BYTES_TEXT, 1);
		if (synced || cold)
			model_sync(&m);
		if (cold) {
			model_close(&m);
			writing_reopen();
			model_open(&m);
		}
		/* The next page, one far behind, or both. */
		if (i < 4)
			model_write(&m, 4096, 5000, BYTES_TEXT, 2);
		model_write(&m, 500000, 5000, BYTES_TEXT, 3);
		expect_no_inline_beside_others(&m);
		model_close(&m);
		writing_reopen();
		model_open(&m);
		model_compare(&m);
		model_free(&m);
		writing_end();
	}
}

/* On a loop thread, too: at once if the old content is at hand, else not at all. */
static void test_inline_is_rewritten_without_waiting(void **state)
{
	struct fsc_ctx nowait = {.flags = FSC_NOWAIT};
	struct iovec iov;
	struct model m;

	(void)state;
	writing_make("");
	nowait.thread = w.thread;
	model_create(&m, w.root, "f", 1u << 20);
	model_write(&m, 0, 300, BYTES_TEXT, 1);
	model_sync(&m);
	memset(m.bytes + 8192, 'n', 5000);
	iov = (struct iovec){m.bytes + 8192, 5000};
	assert_int_equal(fsc_write(&nowait, m.inode, 8192, &iov, 1), 0);
	m.size = 8192 + 5000;
	expect_no_inline_beside_others(&m);
	model_truncate(&m, 0);
	model_write(&m, 0, 300, BYTES_TEXT, 1);
	model_close(&m);
	writing_reopen();
	model_open(&m);
	assert_int_equal(fsc_write(&nowait, m.inode, 8192, &iov, 1), -EAGAIN);
	model_compare(&m);
	model_write(&m, 8192, 5000, BYTES_TEXT, 2);
	expect_no_inline_beside_others(&m);
	model_free(&m);
	writing_end();
}

/* A large file gets small: the first page is written before what is behind it is dropped. */
static void test_truncated_file_has_no_inline_beside_others(void **state)
{
	struct extents_seen seen;
	struct model m;

	(void)state;
	writing_make("");
	model_create(&m, w.root, "f", 1u << 20);
	for (unsigned i = 0; i < 3; i++) {
		model_write(&m, 0, 1u << 20, BYTES_RANDOM, 1 + i);
		model_sync(&m);
		model_truncate(&m, 100 + i);
		extents_see(m.inode, &seen);
		assert_int_equal(seen.n_inline, 0);
		expect_no_inline_beside_others(&m);
	}
	/* Written anew, it may. */
	model_write(&m, 0, 300, BYTES_TEXT, 9);
	model_sync(&m);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_inline, 1);
	expect_no_inline_beside_others(&m);
	model_free(&m);
	writing_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compress_extent_is_undone_by_decompression),
		cmocka_unit_test(test_looks_random_tells_random_from_text),
		cmocka_unit_test(test_overwrite_part_of_a_compressed_extent_keeps_the_rest),
		cmocka_unit_test(test_small_writes_in_any_order_are_compressed),
		cmocka_unit_test(test_incompressible_is_given_up_and_stored_as_it_is),
		cmocka_unit_test(test_failed_attempt_marks_the_inode_but_not_against_a_property),
		cmocka_unit_test(test_nodatasum_and_nodatacow_are_never_compressed),
		cmocka_unit_test(test_property_is_inherited_checked_and_taken_away),
		cmocka_unit_test(test_property_counts_after_reopening),
		cmocka_unit_test(test_superblock_names_the_types_that_are_used),
		cmocka_unit_test(test_saved_space_is_given_back),
		cmocka_unit_test(test_all_types_on_all_formats_keep_the_content),
		cmocka_unit_test(test_inline_is_rewritten_when_the_file_gets_more),
		cmocka_unit_test(test_inline_is_rewritten_without_waiting),
		cmocka_unit_test(test_truncated_file_has_no_inline_beside_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
