/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random changes of a tree in memory, in many transactions, against a table. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/tree/leaf.h"
#include "fscore/tree/modify.h"
#include "tests/fscore/fake_writer.h"

#define PLACES	  3000u
#define ITEM_TYPE 248u

/* One item as it should be; bytes 0: not there. */
struct model_item {
	bool there;
	uint32_t bytes;
	uint8_t fill;
};

static struct {
	struct fsc_thread *thread;
	struct meta_cache mc;
	struct chunk_map chunks;
	struct tree_root root;
	struct tree_writer w;
	struct fsc_ctx ctx;
	uint64_t next_logical;
	/* The dirty blocks of the transaction. */
	struct mblock *dirty[16384];
	unsigned n_dirty;
	unsigned n_blocks; /* that the tree should consist of */
	struct model_item model[PLACES];
} t;

static int fake_alloc(struct tree_writer *w, struct tree_root *root, uint8_t level,
	const struct btrfs_key *first_key, uint64_t *logical)
{
	(void)w;
	(void)root;
	(void)level;
	(void)first_key;
	*logical = t.next_logical;
	t.next_logical += t.mc.geo.node_bytes;
	t.n_blocks++;
	return 0;
}

static int fake_copied(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct mblock *copy, const struct block_share *share)
{
	(void)w;
	(void)root;
	(void)share;
	assert_int_equal(old->level, copy->level);
	t.n_blocks--;
	/* The reference that next_transaction() has left. */
	meta_put(old);
	return 0;
}

static void fake_free(struct tree_writer *w, struct tree_root *root, struct mblock *block)
{
	(void)root;
	assert_true(block->generation == w->generation);
	t.n_blocks--;
	for (unsigned i = 0; i < t.n_dirty; i++)
		if (t.dirty[i] == block) {
			t.dirty[i] = t.dirty[--t.n_dirty];
			meta_discard(&t.mc, block);
			meta_put(block);
			return;
		}
	fail_msg("a block that was not dirty is freed");
}

static void fake_dirtied(struct tree_writer *w, struct mblock *block)
{
	(void)w;
	assert_true(t.n_dirty < ARRAY_SIZE(t.dirty));
	atomic_fetch_add(&block->refs, 1);
	t.dirty[t.n_dirty++] = block;
}

static const struct tree_writer_ops fake_ops = {
	.alloc_block = fake_alloc,
	.share_info = fake_share,
	.block_copied = fake_copied,
	.free_block = fake_free,
	.block_dirtied = fake_dirtied,
	.broken = fake_broken,
	.root_changed = fake_root_changed,
};

/* What is dirty stays in memory as clean blocks: there is no device to write to. */
static void next_transaction(void)
{
	for (unsigned i = 0; i < t.n_dirty; i++) {
		meta_clean(&t.mc, t.dirty[i]);
		/* A reference stays: it could not be read again. */
	}
	t.n_dirty = 0;
	t.w.generation++;
}

static void start(uint32_t node_bytes)
{
	struct volume_geometry geo = {
		.sector_bytes = 4096, .node_bytes = node_bytes, .csum_bytes = 4, .generation = 1};

	memset(&t, 0, sizeof(t));
	assert_int_equal(fsc_thread_create(&t.thread), 0);
	chunk_map_init(&t.chunks);
	assert_int_equal(meta_cache_init(&t.mc, &geo, NULL, &t.chunks, 1u << 28), 0);
	t.ctx.thread = t.thread;
	t.w = (struct tree_writer){.ctx = &t.ctx, .ops = &fake_ops, .generation = 1};
	t.next_logical = 1 << 20;
	assert_int_equal(tree_create(&t.w, &t.mc, 999, &t.root), 0);
}

static void stop(void)
{
	tree_root_fini(&t.root);
	meta_cache_fini(&t.mc);
	chunk_map_fini(&t.chunks);
	fsc_thread_destroy(t.thread);
}

static struct btrfs_key key_of(unsigned i)
{
	return key_make(i / 50 + 1, ITEM_TYPE, i % 50);
}

/* ------------------------------------------------------------- the invariants */

static unsigned check_block(uint64_t logical, uint64_t generation, uint8_t level,
	const struct btrfs_key *first, bool is_root, struct btrfs_key *last)
{
	struct block_expect expect = {.logical = logical, .generation = generation, .level = level};
	int error;
	struct mblock *b = meta_lookup(&t.mc, &expect, &error);
	unsigned n_blocks = 1;
	uint32_t n;

	assert_non_null(b);
	assert_int_equal(block_level(b->data), level);
	assert_true(GET(block_header(b->data), bytenr) == logical);
	n = block_nritems(b->data);
	assert_true(n > 0 || (is_root && level == 0));
	for (uint32_t i = 0; i < n; i++) {
		struct btrfs_key key = level ? node_key(b->data, i) : leaf_key(b->data, i);

		if (i == 0 && first)
			assert_int_equal(key_cmp(&key, first), 0);
		assert_true(key_cmp(last, &key) < 0 || (i == 0 && key_cmp(last, &key) <= 0));
		if (level) {
			const struct btrfs_key_ptr *ptr = node_ptr(b->data, i);

			n_blocks += check_block(GET(ptr, blockptr), GET(ptr, generation),
				(uint8_t)(level - 1), &key, false, last);
		} else {
			*last = key;
		}
	}
	if (!level) {
		uint32_t end = leaf_capacity_bytes(t.mc.geo.node_bytes);

		for (uint32_t i = 0; i < n; i++) {
			end -= leaf_data_bytes(b->data, i);
			assert_int_equal(GET(leaf_item(b->data, i), offset), end);
		}
		assert_true(n * sizeof(struct btrfs_item) <= end);
	}
	meta_put(b);
	return n_blocks;
}

static void check_tree(void)
{
	struct btrfs_key last = key_make(0, 0, 0);

	assert_int_equal(
		check_block(t.root.bytenr, t.root.generation, t.root.level, NULL, true, &last),
		t.n_blocks);
}

/* Every item of the model is in the tree, with its content, and no other. */
static void check_content(void)
{
	struct btrfs_key key = key_make(0, 0, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(&t.ctx, &t.root, &key, &path);

	assert_true(ret >= 0);
	for (unsigned i = 0; i < PLACES; i++) {
		struct btrfs_key want = key_of(i), at;
		const uint8_t *data;

		if (!t.model[i].there)
			continue;
		assert_true(path_valid(&path));
		at = path_key(&path);
		assert_int_equal(key_cmp(&want, &at), 0);
		assert_int_equal(path_data_bytes(&path), t.model[i].bytes);
		data = path_data(&path);
		for (uint32_t k = 0; k < t.model[i].bytes; k++)
			assert_int_equal(data[k], t.model[i].fill);
		assert_int_equal(tree_next(&t.ctx, &path), 0);
	}
	assert_false(path_valid(&path));
	path_release(&path);
}

/* ---------------------------------------------------------------- operations */

static void insert(unsigned i, uint32_t bytes)
{
	struct btrfs_key key = key_of(i);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&t.w, &t.root, &key, (int)bytes, &path);

	assert_int_equal(ret, 1);
	t.model[i] = (struct model_item){true, bytes, (uint8_t)random()};
	memset(path_insert_item(&t.w, &path, &key, bytes), t.model[i].fill, bytes);
	path_release(&path);
}

static void resize(unsigned i, uint32_t bytes)
{
	struct btrfs_key key = key_of(i);
	struct tree_path path = PATH_INIT;
	struct model_item *m = &t.model[i];
	int more = (int)bytes - (int)m->bytes;
	char *data;

	assert_int_equal(
		tree_search_modify(&t.w, &t.root, &key, more > 0 ? more : TREE_IN_PLACE, &path), 0);
	data = path_resize_item(&path, bytes);
	if (more > 0)
		memset(data + m->bytes, m->fill, (size_t)more);
	m->bytes = bytes;
	path_release(&path);
}

static void delete (unsigned i)
{
	struct btrfs_key key = key_of(i);
	struct tree_path path = PATH_INIT;

	assert_int_equal(tree_search_modify(&t.w, &t.root, &key, TREE_IN_PLACE, &path), 0);
	assert_int_equal(path_delete_items(&t.w, &path, 1), 0);
	t.model[i].there = false;
	path_release(&path);
}

static uint32_t some_bytes(void)
{
	uint32_t max = tree_max_item_bytes(&t.root);

	switch (random() % 8) {
	case 0:
		return max - (uint32_t)random() % 3;
	case 1:
		return (uint32_t)random() % max;
	default:
		return (uint32_t)random() % 200;
	}
}

/* insert_share: of 100 operations, how many put something in. */
static void random_operations(unsigned n, unsigned insert_share)
{
	for (unsigned k = 0; k < n; k++) {
		unsigned i = (unsigned)random() % PLACES;

		if (!t.model[i].there) {
			if ((unsigned)random() % 100 < insert_share)
				insert(i, some_bytes());
		} else if (random() % 3 == 0) {
			resize(i, some_bytes());
		} else if ((unsigned)random() % 100 >= insert_share) {
			delete (i);
		}
		if (k % 500 == 499)
			next_transaction();
	}
	check_tree();
	check_content();
}

static void test_tree_random_changes_equal_a_model(void **state)
{
	const uint32_t sizes[] = {4096, 16384, 65536};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		srandom(i + 1);
		start(sizes[i]);
		for (unsigned round = 0; round < 6; round++) {
			random_operations(2000, 90);
			random_operations(1500, 10);
		}
		for (unsigned k = 0; k < PLACES; k++)
			if (t.model[k].there)
				delete (k);
		check_tree();
		assert_int_equal(t.n_blocks, 1);
		assert_int_equal(t.root.level, 0);
		stop();
	}
}

static void test_tree_ascending_keys_fill_the_leaves(void **state)
{
	unsigned leaf_items;

	(void)state;
	start(4096);
	leaf_items = leaf_capacity_bytes(4096) / (uint32_t)(sizeof(struct btrfs_item) + 100);
	for (unsigned i = 0; i < PLACES; i++)
		insert(i, 100);
	check_tree();
	check_content();
	assert_true(t.n_blocks <= PLACES / leaf_items + PLACES / leaf_items / 40 + 4);
	stop();
}

/* As inodes and, later, their inline data: what comes in order between others leaves full leaves. */
static void test_tree_ascending_keys_between_others_fill_the_leaves(void **state)
{
	const uint32_t small = 150, large = 1000, header = sizeof(struct btrfs_item);
	uint32_t n_pairs = PLACES / 2;
	uint64_t bytes = (uint64_t)n_pairs * (small + large + 2 * header);

	(void)state;
	start(16384);
	for (unsigned i = 0; i < n_pairs; i++)
		insert(2 * i, small);
	next_transaction();
	for (unsigned i = 0; i < n_pairs; i++)
		insert(2 * i + 1, large);
	check_tree();
	check_content();
	/* Nine tenths full: leaves that were halved would be half, or three quarters. */
	assert_true(t.n_blocks <= bytes * 10 / 9 / leaf_capacity_bytes(16384) + 4);
	stop();
}

static void test_tree_descending_keys_work(void **state)
{
	(void)state;
	start(4096);
	for (unsigned i = PLACES; i-- > 0;)
		insert(i, i % 150);
	check_tree();
	check_content();
	stop();
}

static void test_tree_too_large_item_is_refused(void **state)
{
	struct btrfs_key key = key_of(5);
	struct tree_path path = PATH_INIT;

	(void)state;
	start(4096);
	insert(4, 10);
	assert_int_equal(tree_search_modify(
				 &t.w, &t.root, &key, (int)tree_max_item_bytes(&t.root) + 1, &path),
		-EOVERFLOW);
	insert(5, tree_max_item_bytes(&t.root));
	check_tree();
	check_content();
	stop();
}

/* Several places under one lock: nobody sees one without the other. */
static void test_tree_prepared_changes_are_made_under_one_lock(void **state)
{
	struct btrfs_key places[] = {key_of(10), key_of(2000)};
	struct tree_path path = PATH_INIT;

	(void)state;
	srandom(9);
	start(4096);
	random_operations(3000, 95);
	for (unsigned i = 0; i < 2; i++)
		if (t.model[i ? 2000 : 10].there)
			delete (i ? 2000 : 10);
	next_transaction();
	assert_int_equal(tree_prepare(&t.w, &t.root, places, 2), 0);
	assert_false(long_trylock_read(&t.root.lock));
	for (unsigned i = 0; i < 2; i++) {
		unsigned place = i ? 2000 : 10;
		uint32_t bytes = 50 + i;

		assert_int_equal(
			tree_search_prepared(&t.w, &t.root, &places[i], (int)bytes, &path), 1);
		t.model[place] = (struct model_item){true, bytes, 7};
		memset(path_insert_item(&t.w, &path, &places[i], bytes), 7, bytes);
		path_release(&path);
	}
	tree_unlock_write(&t.root);
	check_tree();
	check_content();
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree_random_changes_equal_a_model),
		cmocka_unit_test(test_tree_ascending_keys_fill_the_leaves),
		cmocka_unit_test(test_tree_ascending_keys_between_others_fill_the_leaves),
		cmocka_unit_test(test_tree_descending_keys_work),
		cmocka_unit_test(test_tree_too_large_item_is_refused),
		cmocka_unit_test(test_tree_prepared_changes_are_made_under_one_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
