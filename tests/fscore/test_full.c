/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Volumes without room for data or metadata: what is refused has changed nothing, what was accepted
 * gets to the disk, and what frees space always works.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/file/writeback.h"
#include "tests/fscore/writing.h"

#define KIB 1024u
#define MIB (1024u * KIB)

/* --------------------------------------------------------------------- no metadata */

static struct space *space(void)
{
	return &w.vol->w->space;
}

static uint64_t hogged;

/* All of the device becomes metadata's. */
static void make_metadata_chunks(void)
{
	while (!txn_make_chunk(&w.ctx, &w.vol->w->txns, SPACE_METADATA))
		;
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
}

/* All of metadata is promised to the test, but for `left` bytes. */
static void hog_metadata(uint64_t left)
{
	const uint64_t step = 64 * KIB;

	while (!space_reserve(space(), SPACE_METADATA, step, true))
		hogged += step;
	left = MIN(align_up(left, step), hogged);
	space_unreserve(space(), SPACE_METADATA, left);
	hogged -= left;
}

static void let_go(void)
{
	space_unreserve(space(), SPACE_METADATA, hogged);
	hogged = 0;
}

/* A change of size is made as a whole or not at all, however little metadata is left. */
static void test_a_size_that_is_refused_has_not_changed(void **state)
{
	static const uint64_t sizes[] = {100, 300000, 900000};
	unsigned refused = 0;

	(void)state;
	writing_make("-m single");
	make_metadata_chunks();
	for (uint64_t left = 0; left <= 5 * MIB; left += 256 * KIB) {
		for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct fsc_setattr set = {.mask = FSC_SET_SIZE | FSC_SET_MODE,
				.mode = 0600,
				.size_bytes = sizes[i]};
			struct model m;
			int ret;

			model_create(&m, w.root, "f", MIB);
			model_write(&m, 0, 500000, BYTES_RANDOM, 1);
			model_sync(&m);
			hog_metadata(left);
			ret = fsc_setattr(&w.ctx, m.inode, &set);
			if (ret) {
				assert_int_equal(ret, -ENOSPC);
				refused++;
			} else if (sizes[i] < m.size) {
				memset(m.bytes + sizes[i], 0, m.size - sizes[i]);
			}
			m.size = ret ? m.size : sizes[i];
			let_go();
			model_compare(&m);
			model_sync(&m);
			model_free(&m);
			assert_int_equal(fsc_unlink(&w.ctx, w.root, "f", 1), 0);
		}
	}
	assert_true(refused);
	writing_end();
}

/* What was accepted when there was metadata is written when there is none. */
static void test_accepted_data_needs_no_more_metadata(void **state)
{
	struct model m;

	(void)state;
	writing_make("-m single");
	make_metadata_chunks();
	model_create(&m, w.root, "f", 4 * MIB);
	for (unsigned i = 0; i < 64; i++)
		model_write(&m, i * 64 * KIB, 32 * KIB, BYTES_RANDOM, i + 1);
	hog_metadata(0);
	model_sync(&m);
	let_go();
	model_compare(&m);
	model_free(&m);
	writing_end();
}

/* ---------------------------------------------------------- all metadata is in use */

/* Small files until there is no room for another; how many there are. */
static unsigned fill_with_files(size_t bytes)
{
	struct fsc_new n = {.mode = S_IFREG | 0644};
	char *content = calloc(1, bytes);
	struct iovec iov = {content, bytes};
	struct fsc_inode *inode;
	char name[32];
	unsigned i = 0;
	int ret = 0;

	assert_non_null(content);
	memset(content, 'x', bytes);
	for (; !ret; i++) {
		snprintf(name, sizeof(name), "fill-%u", i);
		ret = fsc_create(&w.ctx, w.root, name, strlen(name), &n, &inode);
		if (ret)
			break;
		ret = fsc_write(&w.ctx, inode, 0, &iov, 1);
		fsc_inode_put(inode);
	}
	assert_int_equal(ret, -ENOSPC);
	free(content);
	return i;
}

static struct fsc_inode *find_file(unsigned i)
{
	struct fsc_inode *inode;
	char name[32];

	snprintf(name, sizeof(name), "fill-%u", i);
	assert_int_equal(fsc_lookup(&w.ctx, w.root, name, strlen(name), &inode), 0);
	return inode;
}

static void remove_file(unsigned i)
{
	char name[32];

	snprintf(name, sizeof(name), "fill-%u", i);
	assert_int_equal(fsc_unlink(&w.ctx, w.root, name, strlen(name)), 0);
}

/* Truncated and removed in an order in which each takes another leaf, on a volume full of metadata. */
static void test_what_frees_space_always_commits(void **state)
{
	static const char *const options[] = {"-m single", "-m single -n 4096"};

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(options); k++) {
		struct fsc_setattr set = {.mask = FSC_SET_SIZE};
		unsigned n, step = 97;

		writing_make(options[k]);
		while (!txn_make_chunk(&w.ctx, &w.vol->w->txns, SPACE_DATA))
			;
		n = fill_with_files(k ? 1000 : 2000);
		assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
		printf("# %u files\n", n);
		for (unsigned from = 0; from < step; from++)
			for (unsigned i = from; i < n; i += step) {
				struct fsc_inode *inode = find_file(i);

				if (i % 2) {
					assert_int_equal(fsc_setattr(&w.ctx, inode, &set), 0);
					fsc_inode_put(inode);
				} else {
					fsc_inode_put(inode);
					remove_file(i);
				}
			}
		assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
		assert_true(fs_writable(w.vol));
		writing_reopen();
		for (unsigned i = 1; i < n; i += 2)
			remove_file(i);
		writing_end();
	}
}

/* ------------------------------------------------------------------------ no data space */

/* All data space but `left` bytes is promised to the test, and the device has no room for more. */
static uint64_t hog_data(uint64_t left)
{
	uint64_t taken = 0;

	while (!space_reserve(space(), SPACE_DATA, 4 * KIB, false))
		taken += 4 * KIB;
	assert_true(taken >= left);
	space_unreserve(space(), SPACE_DATA, left);
	return taken - left;
}

/* What is promised for it uncompressed is more than there is; what it takes is not. */
static void test_compressible_data_fits_when_it_is_written(void **state)
{
	struct model m;
	uint64_t taken;

	(void)state;
	writing_make("-m single");
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zstd"), 0);
	make_metadata_chunks();
	taken = hog_data(2 * MIB);
	model_create(&m, w.root, "f", 6 * MIB);
	for (unsigned i = 0; i < 12; i++)
		model_write(&m, i * (MIB / 2), MIB / 2, BYTES_TEXT, 1);
	model_sync(&m);
	space_unreserve(space(), SPACE_DATA, taken);
	model_compare(&m);
	model_free(&m);
	writing_end();
}

/* A file that goes inline takes metadata alone: there need not be any room for data. */
static void test_small_files_need_no_data_space(void **state)
{
	const uint64_t step = 64 * KIB;
	static char page[4096] = "data";
	struct iovec iov = {page, sizeof(page)};
	struct fsc_ctx try = {.flags = FSC_NOWAIT};
	uint64_t taken = 0;
	struct model m;

	(void)state;
	writing_make("-m single");
	make_metadata_chunks();
	while (!space_reserve(space(), SPACE_DATA, step, false))
		taken += step;
	while (!space_reserve(space(), SPACE_DATA, sizeof(page), false))
		taken += sizeof(page);
	model_create(&m, w.root, "f", 3 * sizeof(page));
	model_write(&m, 0, 1000, BYTES_RANDOM, 1);
	model_write(&m, 500, 1500, BYTES_RANDOM, 2);
	model_sync(&m);
	model_write(&m, 100, 1, BYTES_RANDOM, 3);
	/* What grows out of it does, with its first page: dirty or written, small or not. */
	try.thread = w.thread;
	assert_int_equal(fsc_write(&try, m.inode, 0, &iov, 1), -EAGAIN);
	assert_int_equal(try.blocked, FSC_BLOCKED_SPACE);
	assert_int_equal(fsc_write(&w.ctx, m.inode, 2 * sizeof(page), &iov, 1), -ENOSPC);
	space_unreserve(space(), SPACE_DATA, sizeof(page));
	assert_int_equal(fsc_write(&w.ctx, m.inode, 2 * sizeof(page), &iov, 1), -ENOSPC);
	space_unreserve(space(), SPACE_DATA, taken - sizeof(page));
	model_write(&m, 2 * sizeof(page), sizeof(page), BYTES_RANDOM, 4);
	model_sync(&m);
	model_compare(&m);
	model_close(&m);
	writing_reopen();
	model_open(&m);
	model_compare(&m);
	model_free(&m);
	writing_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_size_that_is_refused_has_not_changed),
		cmocka_unit_test(test_accepted_data_needs_no_more_metadata),
		cmocka_unit_test(test_what_frees_space_always_commits),
		cmocka_unit_test(test_compressible_data_fits_when_it_is_written),
		cmocka_unit_test(test_small_files_need_no_data_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
