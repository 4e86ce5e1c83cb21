/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metadata cache: an address that gets a new block while the old one is still in use. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fscore/io/thread.h"
#include "fscore/tree/meta_cache.h"

#define NODE	  16384u
#define CHUNK	  (8ull << 20)
#define DEV_BYTES (16u << 20)
#define AT	  (CHUNK + 64 * NODE)

static struct {
	struct fsc_thread *thread;
	struct fsc_ctx ctx;
	struct dev *dev;
	struct chunk_map chunks;
	struct meta_cache mc;
} t;

static int set_up(void **state)
{
	struct volume_geometry geo = {
		.sector_bytes = 4096, .node_bytes = NODE, .csum_bytes = 4, .generation = 9};
	struct chunk chunk = {.logical = CHUNK, .length_bytes = CHUNK, .n_mirrors = 1};
	struct dev *mem;

	(void)state;
	memset(&t, 0, sizeof(t));
	assert_int_equal(fsc_thread_create(&t.thread), 0);
	t.ctx.thread = t.thread;
	assert_int_equal(dev_mem_create(NULL, DEV_BYTES, &mem), 0);
	assert_int_equal(dev_fault_create(mem, &t.dev), 0);
	chunk_map_init(&t.chunks);
	assert_int_equal(chunk_map_add(&t.chunks, &chunk), 0);
	assert_int_equal(meta_cache_init(&t.mc, &geo, t.dev, &t.chunks, 0), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	meta_cache_fini(&t.mc);
	chunk_map_fini(&t.chunks);
	dev_destroy(t.dev);
	fsc_thread_destroy(t.thread);
	return 0;
}

static void expect_found(struct mblock *block, uint64_t generation)
{
	struct block_expect expect = {.logical = AT, .generation = generation};
	int error;
	struct mblock *found = meta_lookup(&t.mc, &expect, &error);

	assert_ptr_equal(found, block);
	meta_put(found);
}

static void test_create_over_a_block_that_is_held_makes_a_new_one(void **state)
{
	struct mblock *old, *new;

	(void)state;
	old = meta_create(&t.mc, AT, 1, 0);
	assert_non_null(old);
	assert_null(meta_create(&t.mc, AT, 1, 0));
	meta_clean(&t.mc, old);
	new = meta_create(&t.mc, AT, 2, 0);
	assert_non_null(new);
	expect_found(new, 2);
	meta_put(old);
	expect_found(new, 2);
	meta_put(new);
	assert_int_equal(t.mc.n_used, 1);
}

static void test_create_over_a_block_that_is_being_read_makes_a_new_one(void **state)
{
	struct fault_rule rule = {.op[IO_READ] = true, .action = FAULT_HOLD};
	struct block_expect expect = {.logical = AT, .generation = 1};
	struct fsc_ctx nowait = {.thread = t.thread, .flags = FSC_NOWAIT};
	struct mblock *block;

	(void)state;
	assert_int_equal(dev_fault_add(t.dev, &rule), 0);
	assert_int_equal(meta_read(&nowait, &t.mc, &expect, &block), -EAGAIN);
	block = meta_create(&t.mc, AT, 2, 0);
	assert_non_null(block);
	dev_fault_clear(t.dev);
	while (t.thread->in_flight)
		fsc_thread_wait(t.thread);
	expect_found(block, 2);
	meta_put(block);
	assert_int_equal(t.mc.n_used, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_create_over_a_block_that_is_held_makes_a_new_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_create_over_a_block_that_is_being_read_makes_a_new_one, set_up,
			tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
