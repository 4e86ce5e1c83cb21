/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing in place: nodatacow files, and preallocated extents. There is no fallocate() nor
 * chattr() in fscore, so the tests set flags and insert such extents themselves.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/file/extent_write.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/writeback.h"
#include "fscore/tree/leaf.h"
#include "tests/fscore/writing.h"

#define MIB (1u << 20)

/* ------------------------------------------------------------------- what is missing */

static void make_nodatacow(struct model *m)
{
	m->inode->flags |= BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM;
}

static uint64_t allocate(uint64_t len)
{
	struct space *space = &w.vol->w->space;
	uint64_t logical, got;

	if (space_reserve(space, SPACE_DATA, len, false)) {
		txn_make_chunk(&w.ctx, &w.vol->w->txns, SPACE_DATA);
		assert_int_equal(space_reserve(space, SPACE_DATA, len, false), 0);
	}
	assert_int_equal(space_alloc(&w.ctx, space, SPACE_DATA, len, len, 0, &logical, &got), 0);
	return logical;
}

static void set_prealloc(struct txn_handle *h, struct fsc_inode *inode, uint64_t file_off)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, file_off);
	struct tree_path path = PATH_INIT;

	assert_int_equal(
		tree_search_modify(&h->w, &inode->subvol->root, &key, TREE_IN_PLACE, &path), 0);
	((struct btrfs_file_extent_item *)path_data_mut(&path))->type = BTRFS_FILE_EXTENT_PREALLOC;
	path_release(&path);
}

/* As fallocate() with FALLOC_FL_KEEP_SIZE, where the file has a hole or ends. */
static void preallocate(struct model *m, uint64_t file_off, uint64_t len)
{
	struct new_extent extent = {allocate(len), len, len, BTRFS_COMPRESS_NONE};
	struct fsc_inode *inode = m->inode;
	struct txn_handle h;

	assert_int_equal(txn_join(&w.ctx, &w.vol->w->txns, 8, 0, &h), 0);
	assert_int_equal(extent_insert_new(&h, inode, file_off, &extent), 0);
	set_prealloc(&h, inode, file_off);
	short_lock(&inode->attr_lock);
	inode->flags |= BTRFS_INODE_PREALLOC;
	inode->used_bytes += len;
	inode->attr.used_bytes = inode->used_bytes;
	short_unlock(&inode->attr_lock);
	inode_mark_dirty(&h, inode);
	txn_end(&h);
}

/* Gives `to`, which is empty, the item that `from` has at its start: as a clone of it. */
static void share_first(struct model *from, struct model *to)
{
	struct btrfs_key key = key_make(from->inode->ino, BTRFS_EXTENT_DATA_KEY, 0);
	struct tree_root *root = &from->inode->subvol->root;
	struct tree_path path = PATH_INIT;
	struct btrfs_file_extent_item fi;
	struct ref_change change = {.is_data = true, .count = 1};
	struct txn_handle h;

	assert_int_equal(tree_search(&w.ctx, root, &key, &path), 0);
	memcpy(&fi, path_data(&path), sizeof(fi));
	path_release(&path);
	change.logical = GET(&fi, disk_bytenr);
	change.bytes = GET(&fi, disk_num_bytes);
	change.key = (struct ref_key){.root = FSC_SUBVOL_TOP, .objectid = to->inode->ino};
	key.objectid = to->inode->ino;
	assert_int_equal(txn_join(&w.ctx, &w.vol->w->txns, 8, 0, &h), 0);
	assert_int_equal(tree_search_modify(&h.w, root, &key, (int)sizeof(fi), &path), 1);
	memcpy(path_insert_item(&h.w, &path, &key, sizeof(fi)), &fi, sizeof(fi));
	path_release(&path);
	assert_int_equal(extent_ref_change(&h.txn->extents, &change), 0);
	to->inode->used_bytes = GET(&fi, num_bytes);
	to->inode->disk_size = to->inode->attr.size_bytes = from->size;
	inode_mark_dirty(&h, to->inode);
	txn_end(&h);
	memcpy(to->bytes, from->bytes, from->size);
	to->size = from->size;
}

static uint64_t first_logical(struct model *m)
{
	struct extents_seen seen;

	extents_see(m->inode, &seen);
	return seen.first_logical;
}

static void reopen(struct model *m)
{
	model_close(m);
	writing_reopen();
	model_open(m);
	model_compare(m);
}

/* A new volume and a file on it. */
static void begin(struct model *m, const char *mkfs_options, size_t max)
{
	writing_make(mkfs_options);
	model_create(m, w.root, "f", max);
}

/* What the file has is on the disk, too, and nothing is wrong with the volume. */
static void end(struct model *m)
{
	reopen(m);
	model_free(m);
	writing_end();
}

/* ----------------------------------------------------------------------- nodatacow */

static void test_nodatacow_is_written_in_place(void **state)
{
	struct space_info before, after;
	struct extents_seen seen;
	struct model m;
	uint64_t at;

	(void)state;
	begin(&m, "", MIB);
	make_nodatacow(&m);
	model_write(&m, 0, MIB, BYTES_RANDOM, 1);
	model_sync(&m);
	at = first_logical(&m);
	space_info_get(&w.vol->w->space, SPACE_DATA, &before);
	for (unsigned i = 0; i < 20; i++) {
		model_write(&m, i * 50001, 3000 + i * 100, BYTES_RANDOM, 2 + i);
		if (i % 3 == 0)
			model_sync(&m);
	}
	model_write(&m, 0, 10, BYTES_TEXT, 1);
	model_sync(&m);
	space_info_get(&w.vol->w->space, SPACE_DATA, &after);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_regular, 1);
	assert_int_equal(seen.first_logical, at);
	assert_int_equal(after.used_bytes, before.used_bytes);
	assert_int_equal(after.reserved_bytes, 0);
	reopen(&m);
	/* From the disk, too. */
	model_write(&m, 7000, 10000, BYTES_TEXT, 3);
	model_sync(&m);
	assert_int_equal(first_logical(&m), at);
	end(&m);
}

static void test_nodatacow_of_the_same_transaction_is_written_in_place(void **state)
{
	struct model m;
	uint64_t at;

	(void)state;
	begin(&m, "", MIB);
	make_nodatacow(&m);
	model_write(&m, 0, 100000, BYTES_RANDOM, 1);
	flusher_write_all(&w.ctx, w.vol);
	at = first_logical(&m);
	model_write(&m, 4000, 100000, BYTES_RANDOM, 2);
	flusher_write_all(&w.ctx, w.vol);
	assert_int_equal(first_logical(&m), at);
	end(&m);
}

static void test_nodatacow_that_is_shared_is_copied(void **state)
{
	struct model a, b;
	uint64_t at;

	(void)state;
	for (unsigned synced = 0; synced < 2; synced++) {
		writing_make("");
		model_create(&a, w.root, "a", MIB);
		model_create(&b, w.root, "b", MIB);
		make_nodatacow(&a);
		make_nodatacow(&b);
		model_write(&a, 0, 300000, BYTES_RANDOM, 1);
		model_sync(&a);
		at = first_logical(&a);
		share_first(&a, &b);
		if (synced)
			model_sync(&b);
		model_write(&a, 0, 20000, BYTES_RANDOM, 2);
		model_sync(&a);
		assert_int_not_equal(first_logical(&a), at);
		assert_int_equal(first_logical(&b), at);
		/* What is new is a's own. */
		at = first_logical(&a);
		model_write(&a, 0, 20000, BYTES_RANDOM, 3);
		model_sync(&a);
		assert_int_equal(first_logical(&a), at);
		model_compare(&a);
		model_compare(&b);
		model_close(&b);
		reopen(&a);
		model_open(&b);
		model_compare(&b);
		model_free(&a);
		model_free(&b);
		writing_end();
	}
}

static void test_nodatacow_older_than_a_snapshot_is_copied(void **state)
{
	struct model m;
	uint64_t at;

	(void)state;
	begin(&m, "", MIB);
	make_nodatacow(&m);
	model_write(&m, 0, 100000, BYTES_RANDOM, 1);
	model_sync(&m);
	at = first_logical(&m);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	m.inode->subvol->root.last_snapshot = txn_running_id(&w.vol->w->txns) - 1;
	model_write(&m, 0, 50000, BYTES_RANDOM, 2);
	model_sync(&m);
	assert_int_not_equal(first_logical(&m), at);
	end(&m);
}

/* A file that became nodatacow when it had content: its checksums must stay true. */
static void test_nodatacow_over_checksums_is_copied(void **state)
{
	struct model m;
	uint64_t at;

	(void)state;
	begin(&m, "", MIB);
	model_write(&m, 0, 100000, BYTES_RANDOM, 1);
	model_sync(&m);
	at = first_logical(&m);
	make_nodatacow(&m);
	model_write(&m, 0, 50000, BYTES_RANDOM, 2);
	model_sync(&m);
	assert_int_not_equal(first_logical(&m), at);
	model_compare(&m);
	model_free(&m);
	/* btrfs check does not know what to think of the rest of that file. */
	assert_int_equal(fsc_unlink(&w.ctx, w.root, "f", 1), 0);
	writing_end();
}

/* ------------------------------------------------------------------------- prealloc */

static void test_prealloc_is_written_in_place_part_by_part(void **state)
{
	const char *const formats[] = {"", "-O ^no-holes", "-n 4096 --csum sha256", "-d dup"};

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(formats); f++) {
		struct extents_seen seen;
		struct model m;
		uint64_t at;

		begin(&m, formats[f], MIB);
		preallocate(&m, 0, MIB);
		at = first_logical(&m);
		/* The middle, behind the end. */
		model_write(&m, 409600, 40960, BYTES_RANDOM, 1);
		model_sync(&m);
		extents_see(m.inode, &seen);
		assert_int_equal(seen.n_prealloc, 2);
		assert_int_equal(seen.n_regular, 1);
		model_compare(&m);
		/* The front, in turns; joined. */
		for (unsigned i = 0; i < 10; i++) {
			model_write(&m, i * 20480, 20480, BYTES_RANDOM, 2 + i);
			model_sync(&m);
		}
		extents_see(m.inode, &seen);
		assert_int_equal(seen.n_prealloc, 2);
		assert_int_equal(seen.n_regular, 2);
		reopen(&m);
		/* The gap, and a little of the end. */
		model_write(&m, 204800, 204800, BYTES_RANDOM, 20);
		model_write(&m, MIB - 5000, 5000, BYTES_RANDOM, 21);
		model_sync(&m);
		extents_see(m.inode, &seen);
		assert_int_equal(seen.n_prealloc, 1);
		assert_int_equal(seen.n_regular, 2);
		assert_int_equal(seen.first_logical, at);
		reopen(&m);
		/* What is written, with checksums, is copied like anything else. */
		model_write(&m, 0, 5000, BYTES_RANDOM, 22);
		model_sync(&m);
		assert_int_not_equal(first_logical(&m), at);
		end(&m);
	}
}

static void test_prealloc_that_is_shared_is_copied(void **state)
{
	struct model a, b;
	uint64_t at;

	(void)state;
	writing_make("");
	model_create(&a, w.root, "a", MIB);
	model_create(&b, w.root, "b", MIB);
	model_truncate(&a, 200000);
	preallocate(&a, 0, 204800);
	share_first(&a, &b);
	b.inode->flags |= BTRFS_INODE_PREALLOC;
	at = first_logical(&a);
	model_write(&a, 0, 10000, BYTES_RANDOM, 1);
	model_write(&b, 0, 10, BYTES_RANDOM, 2);
	model_sync(&a);
	assert_int_not_equal(first_logical(&a), at);
	model_compare(&a);
	model_compare(&b);
	model_close(&b);
	reopen(&a);
	model_open(&b);
	model_compare(&b);
	model_free(&a);
	model_free(&b);
	writing_end();
}

static void test_prealloc_of_a_compressed_file_is_written_in_place(void **state)
{
	struct extents_seen seen;
	struct model m;
	uint64_t at;

	(void)state;
	begin(&m, "", MIB);
	assert_int_equal(fsc_setxattr(&w.ctx, m.inode, "btrfs.compression", "zstd", 4, 0), 0);
	preallocate(&m, 0, MIB / 2);
	at = first_logical(&m);
	model_write(&m, 0, MIB, BYTES_TEXT, 1);
	model_sync(&m);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.first_logical, at);
	assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_NONE], 1);
	assert_int_equal(seen.n_of_type[BTRFS_COMPRESS_ZSTD], 4);
	end(&m);
}

/* A gap before what is preallocated, and one behind it; without no-holes these are items. */
static void test_write_behind_prealloc_fills_only_gaps_with_holes(void **state)
{
	struct model m;

	(void)state;
	for (unsigned f = 0; f < 2; f++) {
		begin(&m, f ? "-O ^no-holes" : "", 2 * MIB);
		preallocate(&m, 65536, 65536);
		preallocate(&m, 262144, 65536);
		model_write(&m, MIB, 1000, BYTES_RANDOM, 1);
		model_sync(&m);
		model_truncate(&m, 2 * MIB);
		model_write(&m, 60000, 20000, BYTES_RANDOM, 2);
		reopen(&m);
		model_free(&m);
		model_create(&m, w.root, "g", 2 * MIB);
		preallocate(&m, 65536, 65536);
		model_truncate(&m, MIB);
		model_write(&m, 70000, 30000, BYTES_RANDOM, 3);
		end(&m);
	}
}

static void test_small_write_into_prealloc_does_not_go_inline(void **state)
{
	struct extents_seen seen;
	struct model m;

	(void)state;
	begin(&m, "", MIB);
	preallocate(&m, 4096, 65536);
	model_write(&m, 0, 100, BYTES_TEXT, 1);
	model_sync(&m);
	extents_see(m.inode, &seen);
	assert_int_equal(seen.n_inline, 0);
	end(&m);
}

static void test_random_changes_in_place_keep_the_content(void **state)
{
	const char *const formats[] = {"", "-n 4096 -O ^no-holes", "-M"};

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(formats); f++) {
		struct model m[2];

		writing_make(formats[f]);
		for (unsigned k = 0; k < 2; k++) {
			model_create(&m[k], w.root, k ? "cow" : "nocow", 2 * MIB);
			if (!k)
				make_nodatacow(&m[k]);
			preallocate(&m[k], 0, MIB / 2);
			preallocate(&m[k], MIB, MIB / 2);
		}
		for (unsigned i = 0; i < 300; i++) {
			struct model *to = &m[i % 2];
			uint64_t r = hash_mix64(f * 1000 + i);
			size_t len = r % 4 ? r % 9000 + 1 : r % 300000 + 1;

			if (i % 40 == 39)
				model_truncate(to, (r >> 20) % to->max);
			else
				model_write(to, (r >> 20) % (to->max - len), len, BYTES_RANDOM, i);
			if (i % 5 == 0)
				model_sync(to);
			else if (i % 5 == 1)
				flusher_note(to->inode, true);
		}
		model_compare(&m[0]);
		model_close(&m[0]);
		reopen(&m[1]);
		model_open(&m[0]);
		model_compare(&m[0]);
		model_free(&m[0]);
		model_free(&m[1]);
		writing_end();
	}
}

/* ----------------------------------------------------------------------- full volumes */

/* Promises all data space to the test; the device has no room for more. Returns how much. */
static uint64_t hog_data(void)
{
	uint64_t taken = 0;

	for (unsigned type = SPACE_METADATA + 1; type-- > SPACE_DATA;)
		while (!txn_make_chunk(&w.ctx, &w.vol->w->txns, (enum space_type)type))
			;
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	while (!space_reserve(&w.vol->w->space, SPACE_DATA, 4096, false))
		taken += 4096;
	return taken;
}

static int try_write(struct model *m, unsigned flags, uint64_t off, size_t len)
{
	struct fsc_ctx ctx = {.thread = w.thread, .flags = flags};
	struct iovec iov = {calloc(1, len), len};
	int ret = fsc_write(&ctx, m->inode, off, &iov, 1);

	free(iov.iov_base);
	return ret;
}

static void test_nodatacow_is_written_over_on_a_full_volume(void **state)
{
	struct space_info info;
	struct model m;
	uint64_t taken;

	(void)state;
	begin(&m, "", 2 * MIB);
	make_nodatacow(&m);
	model_write(&m, 0, MIB, BYTES_RANDOM, 1);
	model_sync(&m);
	taken = hog_data();
	assert_int_equal(try_write(&m, 0, MIB - 4096, 8192), -ENOSPC);
	for (unsigned i = 0; i < 5; i++) {
		model_write(&m, i * 50001, 100000, BYTES_RANDOM, 2 + i);
		/* Over what is dirty, or on its way. */
		model_write(&m, i * 50001 + 70000, 20000, BYTES_RANDOM, 20 + i);
		if (i % 2)
			model_sync(&m);
	}
	/* A loop thread needs no space either. */
	assert_int_equal(try_write(&m, FSC_NOWAIT, 8192, 4096), 0);
	memset(m.bytes + 8192, 0, 4096);
	model_sync(&m);
	space_unreserve(&w.vol->w->space, SPACE_DATA, taken);
	space_info_get(&w.vol->w->space, SPACE_DATA, &info);
	assert_int_equal(info.reserved_bytes, 0);
	end(&m);
}

static void test_prealloc_is_written_once_on_a_full_volume(void **state)
{
	struct space_info info;
	struct model m;
	uint64_t taken, at;

	(void)state;
	begin(&m, "", 2 * MIB);
	preallocate(&m, 0, MIB);
	at = first_logical(&m);
	taken = hog_data();
	model_write(&m, 0, 300000, BYTES_RANDOM, 1);
	model_write(&m, 200000, 300000, BYTES_RANDOM, 2);
	model_sync(&m);
	/* It has checksums now. */
	assert_int_equal(try_write(&m, 0, 4096, 4096), -ENOSPC);
	model_write(&m, 500000 / 4096 * 4096 + 4096, 100000, BYTES_RANDOM, 3);
	/* Dirty pages without space, of which some get it. */
	space_unreserve(&w.vol->w->space, SPACE_DATA, MIB);
	model_write(&m, 540672, 20000, BYTES_RANDOM, 4);
	model_truncate(&m, 550000);
	model_sync(&m);
	assert_int_equal(first_logical(&m), at);
	space_unreserve(&w.vol->w->space, SPACE_DATA, taken - MIB);
	space_info_get(&w.vol->w->space, SPACE_DATA, &info);
	assert_int_equal(info.reserved_bytes, 0);
	end(&m);
}

/* Accepted without space; when it is written, the extent is shared, and there is space again. */
static void test_in_place_that_becomes_shared_gets_space(void **state)
{
	struct space_info info;
	struct model a, b;
	uint64_t taken, at;

	(void)state;
	writing_make("");
	model_create(&a, w.root, "a", MIB);
	model_create(&b, w.root, "b", MIB);
	make_nodatacow(&a);
	make_nodatacow(&b);
	model_write(&a, 0, 300000, BYTES_RANDOM, 1);
	model_sync(&a);
	at = first_logical(&a);
	taken = hog_data();
	model_write(&a, 0, 200000, BYTES_RANDOM, 2);
	space_unreserve(&w.vol->w->space, SPACE_DATA, taken);
	/* As a clone must not do it: a has not been written first. */
	share_first(&a, &b);
	model_sync(&a);
	assert_int_not_equal(first_logical(&a), at);
	space_info_get(&w.vol->w->space, SPACE_DATA, &info);
	assert_int_equal(info.reserved_bytes, 0);
	model_compare(&a);
	model_free(&b);
	end(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nodatacow_is_written_in_place),
		cmocka_unit_test(test_nodatacow_of_the_same_transaction_is_written_in_place),
		cmocka_unit_test(test_nodatacow_that_is_shared_is_copied),
		cmocka_unit_test(test_nodatacow_older_than_a_snapshot_is_copied),
		cmocka_unit_test(test_nodatacow_over_checksums_is_copied),
		cmocka_unit_test(test_prealloc_is_written_in_place_part_by_part),
		cmocka_unit_test(test_prealloc_that_is_shared_is_copied),
		cmocka_unit_test(test_prealloc_of_a_compressed_file_is_written_in_place),
		cmocka_unit_test(test_write_behind_prealloc_fills_only_gaps_with_holes),
		cmocka_unit_test(test_small_write_into_prealloc_does_not_go_inline),
		cmocka_unit_test(test_random_changes_in_place_keep_the_content),
		cmocka_unit_test(test_nodatacow_is_written_over_on_a_full_volume),
		cmocka_unit_test(test_prealloc_is_written_once_on_a_full_volume),
		cmocka_unit_test(test_in_place_that_becomes_shared_gets_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
