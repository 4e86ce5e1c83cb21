/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many threads allocate, put in the trees, take out and give back, while one makes chunks,
 * writes block groups and commits. No sector has two owners, and nothing is lost.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/space/space_private.h"
#include "tests/fscore/space_volume.h"

#define N_WORKERS 3u
#define N_COMMITS 40u
#define N_EXTENTS 64u
#define SECTOR	  4096u

struct extent {
	uint64_t logical, bytes;
	bool in_tree;
};

static struct {
	struct space_volume *sv;
	_Atomic uint64_t generation;
	_Atomic bool stop;
	_Atomic unsigned failures;
	_Atomic uint8_t owned[SV_MAX_SECTORS];
} t;

struct worker {
	pthread_t thread;
	unsigned seed;
	struct fsc_ctx ctx;
	struct tree_writer w;
	struct extent extents[N_EXTENTS];
	unsigned n;
};

static void expect(bool ok)
{
	if (!ok)
		atomic_fetch_add(&t.failures, 1);
}

static void own(const struct extent *e, uint8_t owned)
{
	for (uint64_t i = 0; i < e->bytes / SECTOR; i++)
		expect(atomic_exchange(&t.owned[e->logical / SECTOR + i], owned) != owned);
}

static void allocate(struct worker *me)
{
	uint64_t want = (1 + (uint64_t)rand_r(&me->seed) % 30) * SECTOR;
	struct extent e = {.in_tree = false};

	if (space_reserve(&t.sv->space, SPACE_DATA, want, false))
		return;
	if (space_alloc(
		    &me->ctx, &t.sv->space, SPACE_DATA, SECTOR, want, 0, &e.logical, &e.bytes)) {
		space_unreserve(&t.sv->space, SPACE_DATA, want);
		return;
	}
	space_unreserve(&t.sv->space, SPACE_DATA, want - e.bytes);
	expect(space_type_of(&t.sv->space, e.logical) == SPACE_DATA);
	own(&e, 1);
	me->extents[me->n++] = e;
}

static void give_back(struct worker *me)
{
	struct extent e = me->extents[--me->n];

	own(&e, 0);
	if (e.in_tree)
		expect(!space_tree_remove(&me->w, &t.sv->space, e.logical, e.bytes));
	else
		space_free_unused(&t.sv->space, e.logical, e.bytes);
}

static void put_in_tree(struct worker *me)
{
	struct extent *e = &me->extents[(unsigned)rand_r(&me->seed) % me->n];

	if (!e->in_tree)
		expect(!space_tree_add(&me->w, &t.sv->space, e->logical, e->bytes));
	e->in_tree = true;
}

static void *work(void *arg)
{
	struct worker *me = arg;

	expect(!fsc_thread_create(&me->ctx.thread));
	me->w = (struct tree_writer){.ctx = &me->ctx};
	while (!atomic_load(&t.stop)) {
		me->w.generation = atomic_load(&t.generation);
		switch (rand_r(&me->seed) % 3) {
		case 0:
			if (me->n < N_EXTENTS)
				allocate(me);
			break;
		case 1:
			if (me->n)
				put_in_tree(me);
			break;
		default:
			if (me->n && rand_r(&me->seed) % 4)
				give_back(me);
		}
	}
	while (me->n)
		give_back(me);
	fsc_thread_destroy(me->ctx.thread);
	return NULL;
}

/* What the committer does. */
static void commit_meanwhile(void)
{
	for (unsigned i = 0; i < N_COMMITS; i++) {
		struct space_info info;

		atomic_store(&t.generation, t.sv->w.generation);
		if (i < 3)
			sv_alloc_chunk(t.sv, SPACE_DATA);
		sv_commit_meanwhile(t.sv);
		space_info_get(&t.sv->space, SPACE_DATA, &info);
		expect(info.used_bytes + info.pinned_bytes + info.readonly_bytes <=
			info.total_bytes);
	}
	atomic_store(&t.stop, true);
}

static void test_space_many_threads_lose_and_share_nothing(void **state)
{
	struct worker workers[N_WORKERS];

	(void)state;
	t.sv = sv_create("", 300ull << 20);
	memset(workers, 0, sizeof(workers));
	t.generation = t.sv->w.generation;
	for (unsigned i = 0; i < N_WORKERS; i++) {
		workers[i].seed = i + 1;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	commit_meanwhile();
	for (unsigned i = 0; i < N_WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	assert_int_equal(t.failures, 0);
	/* The model knows nothing of the workers' extents: they are gone. */
	sv_commit(t.sv);
	sv_commit(t.sv);
	sv_check_memory(t.sv);
	sv_check_trees(t.sv);
	sv_btrfs_check(t.sv);
	sv_destroy(t.sv);
}

/* Makes chunks of one type after another, until there is no room for any. */
static void *make_chunks(void *arg)
{
	struct worker *me = arg;
	unsigned failed = 0;

	expect(!fsc_thread_create(&me->ctx.thread));
	me->w = t.sv->w;
	me->w.ctx = &me->ctx;
	for (unsigned i = 0; failed < SPACE_TYPES; i++) {
		int ret = space_alloc_chunk(
			&me->w, &t.sv->space, (enum space_type)((me->seed + i) % SPACE_TYPES));

		expect(!ret || ret == -ENOSPC);
		failed = ret ? failed + 1 : 0;
	}
	fsc_thread_destroy(me->ctx.thread);
	return NULL;
}

static void test_space_chunks_of_many_threads_do_not_overlap(void **state)
{
	struct worker workers[N_WORKERS];

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		memset(&t, 0, sizeof(t));
		t.sv = sv_create(round % 2 ? "-m single" : "", 300ull << 20);
		memset(workers, 0, sizeof(workers));
		for (unsigned i = 0; i < N_WORKERS; i++) {
			workers[i].seed = i * (round / 2);
			assert_int_equal(
				pthread_create(&workers[i].thread, NULL, make_chunks, &workers[i]),
				0);
		}
		for (unsigned i = 0; i < N_WORKERS; i++)
			pthread_join(workers[i].thread, NULL);
		assert_int_equal(t.failures, 0);
		sv_commit(t.sv);
		sv_check_memory(t.sv);
		sv_check_trees(t.sv);
		sv_check_array(t.sv);
		sv_btrfs_check(t.sv);
		sv_destroy(t.sv);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_many_threads_lose_and_share_nothing),
		cmocka_unit_test(test_space_chunks_of_many_threads_do_not_overlap),
	};

	log_set_level(LOG_LVL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
