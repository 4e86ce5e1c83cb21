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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_size_that_is_refused_has_not_changed),
		cmocka_unit_test(test_accepted_data_needs_no_more_metadata),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
