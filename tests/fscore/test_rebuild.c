/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Free-space trees that are not valid are built anew when the volume is opened for writing. */
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
#include "fscore/format/csum.h"
#include "fscore/space/space_private.h"
#include "fscore/tree/leaf.h"
#include "tests/fscore/writing.h"

#define FILES 60u

static struct model models[FILES];

static void make_files(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "file-%u", i);
		model_create(&models[i], w.root, name, 100000);
		model_write(&models[i], 0, 30000 + i * 500, BYTES_RANDOM, i);
		model_sync(&models[i]);
	}
	/* Holes in the data block groups: so many that they are bitmaps. */
	for (unsigned i = 0; i < FILES; i++) {
		if (i % 2) {
			model_close(&models[i]);
			continue;
		}
		model_free(&models[i]);
		assert_int_equal(
			fsc_unlink(&w.ctx, w.root, models[i].name, strlen(models[i].name)), 0);
	}
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
}

static void compare_files(void)
{
	for (unsigned i = 1; i < FILES; i += 2) {
		model_open(&models[i]);
		model_compare(&models[i]);
		model_close(&models[i]);
	}
}

/* Says that the free-space tree is not valid, as an old kernel does that has written. */
static void invalidate(void)
{
	const uint64_t valid = BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE_VALID;
	struct btrfs_super_block sb;
	int fd = open(w.path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	for (unsigned i = 0; i < 2; i++) {
		off_t at = (off_t)super_mirror_physical(i);

		assert_int_equal(pread(fd, &sb, sizeof(sb), at), sizeof(sb));
		PUT(&sb, compat_ro_flags, GET(&sb, compat_ro_flags) & ~valid);
		memset(sb.csum, 0, sizeof(sb.csum));
		csum_compute(GET(&sb, csum_type), (const char *)&sb + BTRFS_CSUM_SIZE,
			sizeof(sb) - BTRFS_CSUM_SIZE, sb.csum);
		assert_int_equal(pwrite(fd, &sb, sizeof(sb), at), sizeof(sb));
	}
	close(fd);
}

static bool is_valid(void)
{
	struct btrfs_super_block sb;
	int fd = open(w.path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, &sb, sizeof(sb), 65536), sizeof(sb));
	close(fd);
	return GET(&sb, compat_ro_flags) & BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE_VALID;
}

/* Takes what the tree says of a data block group away, so that all of it seems to be in use. */
static void spoil_tree(void)
{
	struct tree_root *tree = &w.vol->w->free_space_tree;
	struct space *space = &w.vol->w->space;
	struct tree_path path = PATH_INIT;
	struct btrfs_key key = {0};
	struct txn_handle h;

	for (size_t i = 0; i < space->n_groups; i++)
		if (space->groups[i]->flags & BTRFS_BLOCK_GROUP_DATA)
			key = key_make(space->groups[i]->logical + 1, 0, 0);
	assert_int_equal(txn_join(&w.ctx, &w.vol->w->txns, 8, 0, &h), 0);
	assert_true(tree_search(&w.ctx, tree, &key, &path) >= 0);
	key = path_key(&path);
	path_release(&path);
	assert_int_equal(tree_search_modify(&h.w, tree, &key, TREE_IN_PLACE, &path), 0);
	assert_int_equal(path_delete_items(&h.w, &path, 1), 0);
	path_release(&path);
	txn_end(&h);
}

static void test_invalid_free_space_tree_is_built_anew(void **state)
{
	static const char *const formats[] = {"", "-n 4096 -m single", "-M"};

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(formats); f++) {
		bool mixed = strstr(formats[f], "-M");
		struct fsc_volume_info info;
		struct model more;

		writing_make(formats[f]);
		make_files();
		/* Not with metadata in it, which the next commit changes. */
		if (!mixed)
			spoil_tree();
		writing_shut();
		invalidate();
		assert_false(is_valid());
		writing_load();
		fsc_volume_info(w.vol, &info);
		assert_false(info.read_only);
		assert_true(is_valid());
		compare_files();
		model_create(&more, w.root, "more", 4u << 20);
		model_write(&more, 0, 3u << 20, BYTES_RANDOM, 99);
		model_sync(&more);
		model_close(&more);
		writing_reopen();
		compare_files();
		model_open(&more);
		model_compare(&more);
		model_free(&more);
		writing_end();
		for (unsigned i = 1; i < FILES; i += 2)
			free(models[i].bytes);
	}
}

/* Cut short: it is begun again. */
static void test_rebuilding_that_fails_is_read_only_and_done_next_time(void **state)
{
	struct fault_rule rule = {.op[IO_WRITE] = true, .action = FAULT_ERROR, .error = -EIO};
	struct fsc_volume_info info;

	(void)state;
	writing_make("");
	make_files();
	writing_shut();
	for (unsigned i = 0; i < 8; i++) {
		invalidate();
		rule.skip = i * 6;
		writing_load_with(&rule);
		fsc_volume_info(w.vol, &info);
		dev_fault_clear(w.fault);
		writing_shut();
		if (!info.read_only)
			break;
		assert_false(is_valid());
	}
	assert_false(info.read_only);
	writing_load();
	compare_files();
	writing_end();
	for (unsigned i = 1; i < FILES; i += 2)
		free(models[i].bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_invalid_free_space_tree_is_built_anew),
		cmocka_unit_test(test_rebuilding_that_fails_is_read_only_and_done_next_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
