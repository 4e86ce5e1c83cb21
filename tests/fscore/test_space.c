/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Space against a model, on volumes of every kind that mkfs.btrfs makes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"
#include "fscore/tree/leaf.h"
#include "tests/fscore/space_volume.h"

#define MAX_EXTENTS 8192u
#define MIB	    (1ull << 20)

struct extent {
	uint64_t logical, bytes;
};

/* Extents that the test has: allocated only, and in the trees. */
static struct {
	struct space_volume *sv;
	struct extent only[MAX_EXTENTS], in_tree[MAX_EXTENTS];
	unsigned n_only, n_in_tree;
} t;

static struct extent take(struct extent *list, unsigned *n)
{
	unsigned i = (unsigned)random() % *n;
	struct extent e = list[i];

	list[i] = list[--*n];
	return e;
}

static void allocate(uint64_t most_sectors)
{
	uint64_t sector = t.sv->vol->geo.sector_bytes;
	uint64_t want = 1 + (uint64_t)random() % most_sectors,
		 least = 1 + (uint64_t)random() % want;
	struct extent e;

	if (t.n_only == MAX_EXTENTS ||
		space_reserve(&t.sv->space, SPACE_DATA, want * sector, false))
		return;
	if (sv_alloc_data(t.sv, least * sector, want * sector, &e.logical, &e.bytes)) {
		space_unreserve(&t.sv->space, SPACE_DATA, want * sector);
		return;
	}
	space_unreserve(&t.sv->space, SPACE_DATA, want * sector - e.bytes);
	t.only[t.n_only++] = e;
}

static void put_in_tree(void)
{
	struct extent e;

	if (!t.n_only || t.n_in_tree == MAX_EXTENTS)
		return;
	e = take(t.only, &t.n_only);
	sv_owe_data(t.sv, e.logical, e.bytes, true);
	t.in_tree[t.n_in_tree++] = e;
	/* Its order among others does not matter, but it must be there to be removed. */
	sv_settle(t.sv);
}

static void remove_from_tree(void)
{
	struct extent e;

	if (!t.n_in_tree)
		return;
	e = take(t.in_tree, &t.n_in_tree);
	sv_owe_data(t.sv, e.logical, e.bytes, false);
}

static void free_unused(void)
{
	struct extent e;

	if (!t.n_only)
		return;
	e = take(t.only, &t.n_only);
	sv_free_unused(t.sv, e.logical, e.bytes);
}

/* As the transaction layer does it: before there is need. */
static void make_chunks(void)
{
	for (unsigned i = 0; i < SPACE_TYPES; i++)
		while (space_wants_chunk(&t.sv->space, (enum space_type)i))
			if (sv_alloc_chunk(t.sv, (enum space_type)i))
				break;
}

/* share: of 100 operations, how many take space. */
static void operate(unsigned n, unsigned share, uint64_t most_sectors)
{
	for (unsigned i = 0; i < n; i++) {
		if ((unsigned)random() % 100 < share) {
			allocate(most_sectors);
			if (random() % 8)
				put_in_tree();
		} else if (random() % 8 == 0) {
			free_unused();
		} else {
			remove_from_tree();
		}
		assert_int_equal(space_prepare_metadata(&t.sv->ctx, &t.sv->space,
					 64ull * t.sv->vol->geo.node_bytes),
			0);
	}
}

static void commit_and_check(void)
{
	make_chunks();
	sv_check_memory(t.sv);
	sv_commit(t.sv);
	sv_check_memory(t.sv);
	sv_check_trees(t.sv);
}

static void remove_all(void)
{
	while (t.n_in_tree)
		remove_from_tree();
	while (t.n_only)
		free_unused();
}

static bool any_bitmaps(void)
{
	for (size_t i = 0; i < t.sv->space.n_groups; i++)
		if (t.sv->space.groups[i]->has_bitmaps)
			return true;
	return false;
}

static void start(const char *options, uint64_t size)
{
	memset(&t, 0, sizeof(t));
	t.sv = sv_create(options, size);
}

static void exercise(const char *options, uint64_t size)
{
	bool bitmaps = false;

	print_message("mkfs.btrfs %s\n", options);
	start(options, size);
	sv_check_memory(t.sv);
	sv_check_trees(t.sv);
	for (unsigned round = 0; round < 4; round++) {
		operate(200, 75, 20);
		commit_and_check();
		bitmaps |= any_bitmaps();
		operate(100, 20, 300);
		commit_and_check();
	}
	if (t.sv->has_free_space_tree)
		assert_true(bitmaps);
	remove_all();
	sv_commit(t.sv);
	sv_commit(t.sv);
	sv_check_memory(t.sv);
	sv_check_trees(t.sv);
	sv_btrfs_check(t.sv);
	sv_destroy(t.sv);
}

static void test_space_random_changes_equal_a_model(void **state)
{
	static const char *const options[] = {
		"",
		"-n 4096 -m single",
		"-n 65536",
		"-m dup -d dup",
		"-M",
		"-M -m dup -d dup",
		"-R ^free-space-tree",
		"-M -R ^free-space-tree",
		"+bgt",
		"+bgt -n 4096",
		"+bgt -M",
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(options); i++) {
		srandom(i + 1);
		exercise(options[i], 512 * MIB);
	}
}

/* One sector of two, over all of a large block group, and back. */
static void test_space_tree_form_follows_the_number_of_extents(void **state)
{
	uint64_t sector, logical, bytes;
	struct block_group *bg;

	(void)state;
	start("", 1024 * MIB);
	sector = t.sv->vol->geo.sector_bytes;
	assert_int_equal(sv_alloc_chunk(t.sv, SPACE_DATA), 0);
	sv_commit(t.sv);
	bg = t.sv->space.groups[t.sv->space.n_groups - 1];
	assert_true(bg->length_bytes > 100 * MIB);
	for (unsigned i = 0; i < 400; i++) {
		assert_int_equal(space_alloc(&t.sv->ctx, &t.sv->space, SPACE_DATA, sector, sector,
					 bg->logical + 2 * i * sector, &logical, &bytes),
			0);
		assert_int_equal(logical, bg->logical + 2 * i * sector);
		sv_mark(t.sv, logical, bytes, SECTOR_FREE, SECTOR_ALLOCATED);
		sv_owe_data(t.sv, logical, bytes, true);
	}
	commit_and_check();
	assert_true(bg->has_bitmaps);
	for (unsigned i = 0; i < 400; i++) {
		sv_owe_data(t.sv, bg->logical + 2 * i * sector, sector, false);
		if (i == 200) {
			commit_and_check();
			assert_true(bg->has_bitmaps);
		}
	}
	commit_and_check();
	assert_false(bg->has_bitmaps);
	assert_int_equal(bg->extent_count, 1);
	sv_commit(t.sv);
	sv_btrfs_check(t.sv);
	sv_destroy(t.sv);
}

/* Until there is no room on the device: every kind of chunk, under the superblocks too. */
static void fill_with_chunks(const char *options)
{
	start(options, 300 * MIB);
	for (unsigned i = 0, failed = 0; failed < SPACE_TYPES; i++) {
		failed = sv_alloc_chunk(t.sv, (enum space_type)(i % SPACE_TYPES)) ? failed + 1 : 0;
		if (i % 4 == 3)
			commit_and_check();
	}
	commit_and_check();
	sv_commit(t.sv);
	assert_true(t.sv->new_chunks >= 3);
	sv_check_array(t.sv);
	assert_true(t.sv->space.unallocated_bytes < 2 * MIB);
	for (unsigned i = 0; i < SPACE_TYPES; i++)
		assert_false(space_wants_chunk(&t.sv->space, (enum space_type)i));
	sv_btrfs_check(t.sv);
	sv_destroy(t.sv);
}

static void test_space_chunks_fill_the_device(void **state)
{
	static const char *const options[] = {
		"", "-m single", "-M", "-d dup", "+bgt", "-R ^free-space-tree", "-n 4096"};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(options); i++)
		fill_with_chunks(options[i]);
}

/* Takes every node of a type. Returns how many there were; free(*out). */
static size_t take_all_nodes(enum space_type type, uint64_t **out)
{
	uint64_t logical, node = t.sv->vol->geo.node_bytes;
	size_t n = 0, max = 1u << 16;

	*out = calloc(max, sizeof(**out));
	assert_non_null(*out);
	while (!space_alloc_metadata(&t.sv->w, &t.sv->space, type, &logical)) {
		assert_true(n < max);
		sv_mark(t.sv, logical, node, SECTOR_FREE, SECTOR_ALLOCATED);
		(*out)[n++] = logical;
	}
	return n;
}

static void give_nodes_back(uint64_t *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sv_free_unused(t.sv, nodes[i], t.sv->vol->geo.node_bytes);
	free(nodes);
}

/* A tree of chunks or devices has no node left to grow: first it gets a chunk. */
static void test_space_chunk_for_a_full_tree_comes_with_another(void **state)
{
	/* What is full, and for what a chunk is wanted. */
	static const enum space_type cases[][2] = {
		{SPACE_SYSTEM, SPACE_METADATA},
		{SPACE_SYSTEM, SPACE_DATA},
		{SPACE_METADATA, SPACE_DATA},
	};
	static const char *const options[] = {"", "-m single -n 4096"};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases) * ARRAY_SIZE(options); i++) {
		const enum space_type *types = cases[i % ARRAY_SIZE(cases)];
		size_t n, n_groups;
		uint64_t *nodes;

		start(options[i / ARRAY_SIZE(cases)], 1024 * MIB);
		n = take_all_nodes(types[0], &nodes);
		n_groups = t.sv->space.n_groups;
		assert_int_equal(sv_alloc_chunk(t.sv, types[1]), 0);
		assert_int_equal(t.sv->space.n_groups, n_groups + 2);
		sv_check_memory(t.sv);
		give_nodes_back(nodes, n);
		commit_and_check();
		sv_commit(t.sv);
		sv_check_array(t.sv);
		sv_btrfs_check(t.sv);
		sv_destroy(t.sv);
	}
}

/* There is room for a chunk, but not for its items: nothing has changed then. */
static void test_space_chunk_without_room_for_its_items_is_not_made(void **state)
{
	uint64_t *nodes, unallocated;
	uint32_t array_bytes;
	struct chunk chunk;
	size_t n, n_groups;

	(void)state;
	start("", 1024 * MIB);
	n = take_all_nodes(SPACE_SYSTEM, &nodes);
	array_bytes = GET(&t.sv->super, sys_chunk_array_size);
	PUT(&t.sv->super, sys_chunk_array_size, BTRFS_SYS_CHUNK_ARRAY_SIZE);
	n_groups = t.sv->space.n_groups;
	unallocated = t.sv->space.unallocated_bytes;
	for (unsigned type = 0; type < SPACE_TYPES; type++)
		assert_int_equal(sv_alloc_chunk(t.sv, (enum space_type)type), -ENOSPC);
	assert_int_equal(t.sv->space.n_groups, n_groups);
	assert_int_equal(t.sv->space.unallocated_bytes, unallocated);
	assert_false(chunk_map_next(
		t.sv->space.config.chunks, t.sv->space.groups[n_groups - 1]->logical + 1, &chunk));
	sv_check_memory(t.sv);
	PUT(&t.sv->super, sys_chunk_array_size, array_bytes);
	give_nodes_back(nodes, n);
	for (unsigned type = 0; type < SPACE_TYPES; type++)
		assert_int_equal(sv_alloc_chunk(t.sv, (enum space_type)type), 0);
	commit_and_check();
	sv_commit(t.sv);
	sv_btrfs_check(t.sv);
	sv_destroy(t.sv);
}

/* All of the data space can be allocated, sector by sector, and the superblocks are not. */
static void test_space_every_free_sector_can_be_allocated(void **state)
{
	struct space_info info;
	uint64_t logical, bytes, free_bytes, n = 0;

	(void)state;
	start("-d dup", 300 * MIB);
	while (!sv_alloc_chunk(t.sv, SPACE_DATA))
		;
	sv_commit(t.sv);
	space_info_get(&t.sv->space, SPACE_DATA, &info);
	free_bytes = info.total_bytes - info.used_bytes - info.readonly_bytes;
	while (!sv_alloc_data(t.sv, 4096, 1 * MIB + 4096, &logical, &bytes))
		n += bytes;
	assert_int_equal(n, free_bytes);
	sv_check_memory(t.sv);
	space_info_get(&t.sv->space, SPACE_METADATA, &info);
	assert_true(info.readonly_bytes > 0);
	sv_destroy(t.sv);
}

static void test_space_reservations_end_at_what_there_is(void **state)
{
	struct space_info info;
	uint64_t room;

	(void)state;
	start("", 300 * MIB);
	space_info_get(&t.sv->space, SPACE_DATA, &info);
	room = info.total_bytes - info.used_bytes - info.readonly_bytes;
	assert_int_equal(space_reserve(&t.sv->space, SPACE_DATA, room + 4096, true), -ENOSPC);
	assert_int_equal(space_reserve(&t.sv->space, SPACE_DATA, room, false), 0);
	assert_int_equal(space_reserve(&t.sv->space, SPACE_DATA, 4096, true), -ENOSPC);
	space_unreserve(&t.sv->space, SPACE_DATA, room);
	assert_int_equal(space_reserve(&t.sv->space, SPACE_DATA, room, false), 0);
	/* Metadata may be promised beyond its block groups; that is data's no more. */
	space_info_get(&t.sv->space, SPACE_METADATA, &info);
	room = info.total_bytes - info.used_bytes - info.readonly_bytes;
	assert_int_equal(space_reserve(&t.sv->space, SPACE_METADATA, room, false), 0);
	while (!space_reserve(&t.sv->space, SPACE_METADATA, MIB, false))
		;
	while (!sv_alloc_chunk(t.sv, SPACE_DATA))
		;
	while (!sv_alloc_chunk(t.sv, SPACE_METADATA))
		;
	space_info_get(&t.sv->space, SPACE_METADATA, &info);
	assert_true(
		info.used_bytes + info.reserved_bytes + info.pinned_bytes + info.readonly_bytes <=
		info.total_bytes);
	/* Half of the global reserve is for what frees space, half for settling transactions. */
	space_unreserve(&t.sv->space, SPACE_METADATA, t.sv->space.global_reserve_bytes);
	while (!space_reserve(&t.sv->space, SPACE_METADATA, 64 * 1024, false))
		;
	assert_int_equal(space_reserve(&t.sv->space, SPACE_METADATA, 64 * 1024, true), 0);
	while (!space_reserve(&t.sv->space, SPACE_METADATA, 64 * 1024, true))
		;
	assert_true(space_settle_room(&t.sv->space) >= t.sv->space.global_reserve_bytes / 2 - MIB);
	assert_true(space_settle_room(&t.sv->space) <= t.sv->space.global_reserve_bytes);
	sv_destroy(t.sv);
}

/* Data can't take so much of mixed block groups that metadata gets no promise. */
static void test_space_mixed_data_leaves_metadata_room(void **state)
{
	(void)state;
	start("-M", 300 * MIB);
	while (!space_reserve(&t.sv->space, SPACE_DATA, 64 * 1024, false))
		;
	assert_int_equal(space_reserve(&t.sv->space, SPACE_METADATA, 4 * MIB, false), 0);
	assert_int_equal(space_reserve(&t.sv->space, SPACE_DATA, 64 * 1024, false), -ENOSPC);
	assert_true(space_wants_chunk(&t.sv->space, SPACE_METADATA));
	assert_int_equal(sv_alloc_chunk(t.sv, SPACE_METADATA), 0);
	assert_int_equal(space_reserve(&t.sv->space, SPACE_DATA, 64 * 1024, false), 0);
	sv_destroy(t.sv);
}

static void test_space_nowait_does_not_load(void **state)
{
	uint64_t logical, bytes;
	struct fsc_ctx nowait;

	(void)state;
	start("", 300 * MIB);
	nowait = (struct fsc_ctx){.thread = t.sv->thread, .flags = FSC_NOWAIT};
	assert_int_equal(
		space_alloc(&nowait, &t.sv->space, SPACE_DATA, 4096, 8192, 0, &logical, &bytes),
		-EAGAIN);
	assert_int_equal(nowait.blocked, FSC_BLOCKED_CACHE);
	assert_int_equal(sv_alloc_data(t.sv, 4096, 4096, &logical, &bytes), 0);
	assert_int_equal(
		space_alloc(&nowait, &t.sv->space, SPACE_DATA, 4096, 8192, 0, &logical, &bytes), 0);
	assert_int_equal(space_type_of(&t.sv->space, logical), SPACE_DATA);
	assert_int_equal(space_alloc(&nowait, &t.sv->space, SPACE_DATA, 1024 * MIB, 1024 * MIB, 0,
				 &logical, &bytes),
		-ENOSPC);
	sv_destroy(t.sv);
}

/* What is freed in a transaction can't be allocated until it is on disk. */
static void test_space_pinned_ranges_wait_for_their_transaction(void **state)
{
	uint64_t logical, bytes, again, n;
	struct space_info info;

	(void)state;
	start("", 300 * MIB);
	assert_int_equal(sv_alloc_data(t.sv, 64 * 1024, 64 * 1024, &logical, &bytes), 0);
	sv_owe_data(t.sv, logical, bytes, true);
	sv_commit(t.sv);
	sv_owe_data(t.sv, logical, bytes, false);
	sv_settle(t.sv);
	space_info_get(&t.sv->space, SPACE_DATA, &info);
	assert_int_equal(info.pinned_bytes, bytes);
	assert_int_equal(
		space_alloc(&t.sv->ctx, &t.sv->space, SPACE_DATA, 4096, 4096, logical, &again, &n),
		0);
	assert_true(again < logical || again >= logical + bytes);
	space_free_unused(&t.sv->space, again, n);
	space_unpin(&t.sv->space, t.sv->w.generation - 1);
	space_info_get(&t.sv->space, SPACE_DATA, &info);
	assert_int_equal(info.pinned_bytes, bytes);
	sv_commit(t.sv);
	assert_int_equal(
		space_alloc(&t.sv->ctx, &t.sv->space, SPACE_DATA, 4096, 4096, logical, &again, &n),
		0);
	assert_int_equal(again, logical);
	sv_destroy(t.sv);
}

/* ------------------------------------------------------------------- damage */

static struct block_group *first_data_group(void)
{
	size_t i = 0;

	while (!(t.sv->space.groups[i]->flags & BTRFS_BLOCK_GROUP_DATA))
		i++;
	return t.sv->space.groups[i];
}

static void delete_item(struct tree_root *root, const struct btrfs_key *key)
{
	struct tree_path path = PATH_INIT;

	assert_int_equal(tree_search_modify(&t.sv->w, root, key, TREE_IN_PLACE, &path), 0);
	assert_int_equal(path_delete_items(&t.sv->w, &path, 1), 0);
	path_release(&path);
}

/* The block group whose free space is in doubt is left alone, the others are not. */
static void test_space_damaged_group_is_not_allocated_from(void **state)
{
	uint64_t logical, bytes;
	struct block_group *bg;
	struct space_info info;
	struct btrfs_key key;

	(void)state;
	start("", 300 * MIB);
	bg = first_data_group();
	key = key_make(bg->logical, BTRFS_FREE_SPACE_EXTENT_KEY, bg->length_bytes);
	delete_item(&t.sv->free_space_tree, &key);
	assert_int_equal(sv_alloc_data(t.sv, 4096, 4096, &logical, &bytes), -ENOSPC);
	assert_true(bg->read_only);
	space_info_get(&t.sv->space, SPACE_DATA, &info);
	assert_int_equal(info.used_bytes + info.readonly_bytes, info.total_bytes);
	assert_int_equal(space_reserve(&t.sv->space, SPACE_DATA, 4096, true), -ENOSPC);
	assert_int_equal(space_load_group(&t.sv->ctx, &t.sv->space, bg->logical), -EUCLEAN);
	assert_int_equal(sv_alloc_chunk(t.sv, SPACE_DATA), 0);
	assert_int_equal(sv_alloc_data(t.sv, 4096, 4096, &logical, &bytes), 0);
	assert_true(logical >= bg->logical + bg->length_bytes);
	sv_destroy(t.sv);
}

static void test_space_open_without_a_group_item_is_refused(void **state)
{
	struct space_config config;
	struct block_group *bg;
	struct btrfs_key key;
	struct space other;

	(void)state;
	start("", 300 * MIB);
	bg = first_data_group();
	key = key_make(bg->logical, BTRFS_BLOCK_GROUP_ITEM_KEY, bg->length_bytes);
	delete_item(&t.sv->extent_tree, &key);
	config = sv_config(t.sv);
	assert_int_equal(space_open(&t.sv->ctx, &other, &config), -EUCLEAN);
	sv_destroy(t.sv);
}

/* What the trees say of an extent does not fit: an error, and no bit changes. */
static void test_space_tree_changes_that_can_not_be_are_refused(void **state)
{
	struct block_group *bg;
	uint64_t logical, bytes;

	(void)state;
	start("", 300 * MIB);
	bg = first_data_group();
	assert_int_equal(space_tree_remove(&t.sv->w, &t.sv->space, bg->logical, 4096), -EUCLEAN);
	assert_int_equal(space_tree_add(&t.sv->w, &t.sv->space, bg->logical, 4096), -EUCLEAN);
	assert_int_equal(sv_alloc_data(t.sv, 8192, 8192, &logical, &bytes), 0);
	assert_int_equal(space_tree_remove(&t.sv->w, &t.sv->space, logical, bytes), -EUCLEAN);
	assert_int_equal(
		space_tree_add(&t.sv->w, &t.sv->space, logical, bg->length_bytes), -EUCLEAN);
	assert_int_equal(space_tree_add(&t.sv->w, &t.sv->space, 4096, 4096), -EUCLEAN);
	assert_int_equal(space_tree_add(&t.sv->w, &t.sv->space, logical + 512, 4096), -EUCLEAN);
	sv_check_memory(t.sv);
	sv_destroy(t.sv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_damaged_group_is_not_allocated_from),
		cmocka_unit_test(test_space_open_without_a_group_item_is_refused),
		cmocka_unit_test(test_space_tree_changes_that_can_not_be_are_refused),
		cmocka_unit_test(test_space_nowait_does_not_load),
		cmocka_unit_test(test_space_pinned_ranges_wait_for_their_transaction),
		cmocka_unit_test(test_space_mixed_data_leaves_metadata_room),
		cmocka_unit_test(test_space_reservations_end_at_what_there_is),
		cmocka_unit_test(test_space_every_free_sector_can_be_allocated),
		cmocka_unit_test(test_space_chunks_fill_the_device),
		cmocka_unit_test(test_space_chunk_for_a_full_tree_comes_with_another),
		cmocka_unit_test(test_space_chunk_without_room_for_its_items_is_not_made),
		cmocka_unit_test(test_space_tree_form_follows_the_number_of_extents),
		cmocka_unit_test(test_space_random_changes_equal_a_model),
	};

	log_set_level(LOG_LVL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
