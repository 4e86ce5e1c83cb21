/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads that are under way while the same file is written: what they may see, and may not leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/util.h"
#include "fscore/extent/extent_tree.h"
#include "fscore/file/fs.h"
#include "fscore/file/writeback.h"
#include "tests/fscore/writing.h"

#define PAGE	    4096u
#define A_BYTES	    (8u * PAGE)
#define BIG_BYTES   (80u << 20)
#define CHUNK	    (1u << 20)
#define MAX_HELD    1024u
#define DEADLINE_NS 30000000000ull

static struct {
	struct fsc_read reads[MAX_HELD];
	unsigned n;
	uint64_t off; /* as far as the file has been read */
} held;

static void hold(struct model *m, size_t bytes)
{
	struct fsc_read *rd = &held.reads[held.n++];

	assert_true(held.n <= MAX_HELD && held.off + bytes <= m->size);
	*rd = (struct fsc_read){.file_off = held.off, .len_bytes = bytes};
	assert_int_equal(fsc_read(&w.ctx, m->inode, rd), 0);
	held.off += bytes;
}

/* All pages are in use by reads of m that have not been released; the last of them have 1 page. */
static void hold_all_pages(struct model *m)
{
	uint64_t left = (uint64_t)w.vol->pages.n_pages * PAGE;

	for (; left >= 2 * CHUNK; left -= CHUNK)
		hold(m, CHUNK);
	for (; left > 256 * PAGE; left -= 16 * PAGE)
		hold(m, 16 * PAGE);
	for (; left; left -= PAGE)
		hold(m, PAGE);
}

static void let_go(unsigned n)
{
	while (n--)
		fsc_read_release(&held.reads[--held.n]);
}

static void until(bool (*is_so)(struct model *m), struct model *m)
{
	uint64_t end = clock_now_ns() + DEADLINE_NS;

	while (!is_so(m)) {
		assert_true(clock_now_ns() < end);
		sched_yield();
	}
}

static bool somebody_waits_for_pages(struct model *m)
{
	(void)m;
	return atomic_load(&w.vol->pages.has_waiters);
}

static bool first_page_is_evicted(struct model *m)
{
	bool gone;

	short_lock(&m->inode->owner.lock);
	gone = !page_index_lookup(&m->inode->index, 0);
	short_unlock(&m->inode->owner.lock);
	return gone;
}

/* ------------------------------------------------------------------------- tests */

struct reading {
	struct model *m;
	struct fsc_read rd;
	int ret;
};

static void *read_main(void *arg)
{
	struct reading *r = arg;
	struct fsc_ctx ctx = {0};

	if (fsc_thread_create(&ctx.thread))
		abort();
	r->rd = (struct fsc_read){.len_bytes = A_BYTES};
	r->ret = fsc_read(&ctx, r->m->inode, &r->rd);
	fsc_thread_destroy(ctx.thread);
	return NULL;
}

/*
 * A read has looked up where its data is, and waits for pages. Meanwhile the first page of the
 * file is written, goes to disk and into the trees, and is evicted.
 */
static void test_a_slow_read_does_not_cache_what_was_overwritten(void **state)
{
	struct model a, big;
	struct reading r = {.m = &a};
	pthread_t id;

	(void)state;
	writing_make("");
	model_create(&a, w.root, "a", A_BYTES);
	model_write(&a, 0, A_BYTES, BYTES_TEXT, 1);
	model_create(&big, w.root, "big", BIG_BYTES);
	for (uint64_t off = 0; off < BIG_BYTES; off += CHUNK)
		model_write(&big, off, CHUNK, BYTES_TEXT, 2);
	model_close(&a);
	model_close(&big);
	writing_reopen();
	model_open(&a);
	model_open(&big);
	hold_all_pages(&big);
	assert_int_equal(pthread_create(&id, NULL, read_main, &r), 0);
	until(somebody_waits_for_pages, NULL);
	/* Enough for a page to be written, and not for the read, whose tries evict that page. */
	let_go(4);
	model_write(&a, 0, PAGE, BYTES_TEXT, 3);
	model_sync(&a);
	until(first_page_is_evicted, &a);
	let_go(held.n);
	assert_int_equal(pthread_join(id, NULL), 0);
	assert_int_equal(r.ret, 0);
	assert_int_equal(r.rd.result_bytes, A_BYTES);
	fsc_read_release(&r.rd);
	model_compare(&a);
	model_free(&a);
	model_free(&big);
	writing_end();
}

/*
 * Data that is written and overwritten in one transaction: a read may have looked it up, so its
 * place is not for others before reads have ended, which a commit waits for.
 */
static void test_data_of_one_transaction_is_pinned_when_it_is_overwritten(void **state)
{
	struct space_info before, after;
	struct txn_handle h;
	struct model m;

	(void)state;
	writing_make("");
	model_create(&m, w.root, "m", A_BYTES);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	model_write(&m, 0, A_BYTES, BYTES_TEXT, 1);
	flusher_write_all(&w.ctx, w.vol);
	model_write(&m, 0, A_BYTES, BYTES_TEXT, 2);
	flusher_write_all(&w.ctx, w.vol);
	space_info_get(&w.vol->w->space, SPACE_DATA, &before);
	assert_int_equal(txn_join(&w.ctx, &w.vol->w->txns, 8, 0, &h), 0);
	assert_int_equal(extent_run_refs(&h.w, &h.txn->extents, 0), 0);
	txn_end(&h);
	space_info_get(&w.vol->w->space, SPACE_DATA, &after);
	assert_int_equal(after.pinned_bytes, before.pinned_bytes + A_BYTES);
	assert_int_equal(after.used_bytes, before.used_bytes - A_BYTES);
	model_compare(&m);
	model_free(&m);
	writing_end();
}

/* -------------------------------------------------------- reads that the device holds */

/* Where the first byte of the file lies on the device. */
static uint64_t first_physical(struct model *m)
{
	struct chunk_place place;
	struct extents_seen seen;

	extents_see(m->inode, &seen);
	assert_int_equal(chunk_map_lookup(&w.vol->chunks, seen.first_logical, &place), 0);
	return place.physical[0];
}

static void hold_reads(uint64_t physical, size_t bytes)
{
	struct fault_rule rule = {.op[IO_READ] = true,
		.first = physical,
		.end = physical + bytes,
		.action = FAULT_HOLD};

	assert_int_equal(dev_fault_add(w.fault, &rule), 0);
}

static bool held_done;

static void on_held_done(struct fsc_read *rd)
{
	(void)rd;
	held_done = true;
}

static void start_held_read(struct model *m, struct fsc_read *rd)
{
	struct fsc_ctx ctx = {.thread = w.thread, .flags = FSC_NOWAIT};
	int ret = -EAGAIN;

	held_done = false;
	for (unsigned i = 0; ret == -EAGAIN && i < 100; i++) {
		*rd = (struct fsc_read){.len_bytes = A_BYTES, .done = on_held_done};
		ret = fsc_read(&ctx, m->inode, rd);
		if (ret == -EAGAIN) {
			fsc_read_release(rd);
			fsc_thread_wait(w.thread);
		}
	}
	assert_int_equal(ret, -EINPROGRESS);
}

static uint64_t pinned_data(void)
{
	struct space_info info;

	space_info_get(&w.vol->w->space, SPACE_DATA, &info);
	return info.pinned_bytes;
}

static bool nothing_is_pinned(struct model *m)
{
	(void)m;
	return !pinned_data();
}

/* While the device holds a read up, commits go on; what it reads is not given to others. */
static void test_a_read_that_hangs_holds_up_no_commit(void **state)
{
	struct model a, b;
	struct extents_seen seen;
	struct fsc_read rd;
	uint64_t at;

	(void)state;
	writing_make("");
	model_create(&a, w.root, "a", A_BYTES);
	model_write(&a, 0, A_BYTES, BYTES_RANDOM, 1);
	model_close(&a);
	writing_reopen();
	model_open(&a);
	model_create(&b, w.root, "b", A_BYTES);
	at = first_physical(&a);
	hold_reads(at, A_BYTES);
	start_held_read(&a, &rd);
	/* What is being read is freed, and others take what they can get. */
	model_truncate(&a, 0);
	for (unsigned i = 0; i < 6; i++) {
		model_write(&b, 0, A_BYTES, BYTES_RANDOM, 2 + i);
		model_sync(&b);
		assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
		extents_see(b.inode, &seen);
		assert_int_not_equal(first_physical(&b), at);
	}
	assert_false(held_done);
	assert_true(pinned_data() >= A_BYTES);
	dev_fault_clear(w.fault);
	while (!held_done)
		fsc_thread_wait(w.thread);
	fsc_read_release(&rd);
	until(nothing_is_pinned, NULL);
	model_compare(&b);
	model_free(&a);
	model_free(&b);
	writing_end();
}

/* The inode is still referenced, as by a request that was about to read it. */
static void test_read_of_what_has_lost_its_last_name_is_stale(void **state)
{
	struct fsc_read rd = {.len_bytes = A_BYTES};
	struct model m;

	(void)state;
	writing_make("");
	for (int cached = 0; cached < 2; cached++) {
		model_create(&m, w.root, "f", A_BYTES);
		model_write(&m, 0, A_BYTES, BYTES_RANDOM, 1);
		model_close(&m);
		writing_reopen();
		model_open(&m);
		if (cached)
			model_compare(&m);
		assert_int_equal(fsc_unlink(&w.ctx, w.root, "f", 1), 0);
		/* What is in the cache may be given; zeros never. */
		assert_int_equal(fsc_read(&w.ctx, m.inode, &rd), cached ? 0 : -ESTALE);
		if (cached) {
			assert_int_equal(rd.result_bytes, A_BYTES);
			assert_memory_equal(rd.iov[0].iov_base, m.bytes, rd.iov[0].iov_len);
		}
		fsc_read_release(&rd);
		model_free(&m);
	}
	writing_end();
}

#define CUTS 3000u

struct cut_reader {
	struct fsc_inode *inode;
	atomic_bool stop;
	unsigned n_zeros;
	uint64_t n_bytes;
};

static void *cut_reader_main(void *arg)
{
	struct cut_reader *r = arg;
	struct fsc_ctx ctx = {0};

	if (fsc_thread_create(&ctx.thread))
		abort();
	while (!atomic_load(&r->stop)) {
		struct fsc_read rd = {.len_bytes = A_BYTES};

		if (fsc_read(&ctx, r->inode, &rd))
			abort();
		for (unsigned i = 0; i < rd.n_iov; i++) {
			r->n_zeros += memchr(rd.iov[i].iov_base, 0, rd.iov[i].iov_len) != NULL;
			r->n_bytes += rd.iov[i].iov_len;
		}
		fsc_read_release(&rd);
	}
	fsc_thread_destroy(ctx.thread);
	return NULL;
}

/* The file is cut to nothing and written again: there never is a zero in it. */
static void test_read_beside_a_cut_gives_no_zeros(void **state)
{
	const struct fsc_setattr cut = {.mask = FSC_SET_SIZE};
	static char text[A_BYTES];
	struct iovec iov = {text, sizeof(text)};
	struct cut_reader r = {.inode = NULL};
	struct model m;
	pthread_t id;

	(void)state;
	memset(text, 'x', sizeof(text));
	writing_make("");
	model_create(&m, w.root, "f", A_BYTES);
	r.inode = m.inode;
	assert_int_equal(pthread_create(&id, NULL, cut_reader_main, &r), 0);
	for (unsigned i = 0; i < CUTS; i++) {
		assert_int_equal(fsc_write(&w.ctx, m.inode, 0, &iov, 1), 0);
		if (i % 10 == 0)
			sched_yield();
		assert_int_equal(fsc_setattr(&w.ctx, m.inode, &cut), 0);
	}
	atomic_store(&r.stop, true);
	pthread_join(id, NULL);
	assert_int_equal(r.n_zeros, 0);
	assert_true(r.n_bytes > 0);
	model_free(&m);
	writing_end();
}

/* -------------------------------------------------------------------- discards */

static uint64_t file_blocks(void)
{
	struct stat st;

	assert_int_equal(stat(w.path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* The file in which the volume lies gets smaller; nothing that is in use goes with it. */
static void test_what_is_freed_is_discarded(void **state)
{
	const char *const formats[] = {"", "-d dup -n 4096", "-M"};

	(void)state;
	w.discard = true;
	for (unsigned f = 0; f < ARRAY_SIZE(formats); f++) {
		struct model a, b;
		struct fsc_stats stats;
		uint64_t before;

		writing_make(formats[f]);
		model_create(&a, w.root, "a", 16u << 20);
		model_create(&b, w.root, "b", CHUNK);
		for (unsigned i = 0; i < 16; i++)
			model_write(&a, i * CHUNK, CHUNK, BYTES_RANDOM, i);
		model_write(&b, 0, CHUNK, BYTES_RANDOM, 99);
		assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
		before = file_blocks();
		model_truncate(&a, 4u << 20);
		assert_int_equal(txn_commit_for_space(&w.ctx, &w.vol->w->txns), 0);
		fsc_stats(w.vol, &stats);
		assert_true(stats.dev_discard_bytes >= 12u << 20);
		assert_true(file_blocks() + (11u << 20) < before);
		for (unsigned i = 0; i < 50; i++) {
			model_write(&b, 0, CHUNK, BYTES_RANDOM, i);
			model_sync(&b);
		}
		model_close(&a);
		model_close(&b);
		writing_reopen();
		model_open(&a);
		model_open(&b);
		model_compare(&a);
		model_compare(&b);
		model_free(&a);
		model_free(&b);
		writing_end();
	}
	w.discard = false;
}

/* A discard that takes long holds up no commit, and nobody gets that space before it has ended. */
static void test_a_discard_that_hangs_holds_up_no_commit(void **state)
{
	struct fault_rule rule = {.op[IO_DISCARD] = true, .action = FAULT_HOLD};
	struct model a, b;
	uint64_t pinned;

	(void)state;
	w.discard = true;
	writing_make("");
	model_create(&a, w.root, "a", CHUNK);
	model_create(&b, w.root, "b", CHUNK);
	model_write(&a, 0, CHUNK, BYTES_RANDOM, 1);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	assert_int_equal(dev_fault_add(w.fault, &rule), 0);
	model_truncate(&a, 0);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	pinned = pinned_data();
	assert_true(pinned >= CHUNK);
	for (unsigned i = 0; i < 5; i++) {
		model_write(&b, 0, CHUNK / 2, BYTES_RANDOM, i);
		model_sync(&b);
		assert_true(pinned_data() >= pinned);
	}
	dev_fault_clear(w.fault);
	until(nothing_is_pinned, NULL);
	model_compare(&b);
	model_free(&a);
	model_free(&b);
	writing_end();
	w.discard = false;
}

/* What can't be discarded is used again all the same. */
static void test_a_device_without_discards_is_left_alone(void **state)
{
	struct fault_rule rule = {
		.op[IO_DISCARD] = true, .action = FAULT_ERROR, .error = -EOPNOTSUPP};
	uint64_t seen = 0;
	struct model a;

	(void)state;
	w.discard = true;
	writing_make("");
	assert_int_equal(dev_fault_add(w.fault, &rule), 0);
	model_create(&a, w.root, "a", CHUNK);
	for (unsigned i = 0; i < 4; i++) {
		model_write(&a, 0, CHUNK, BYTES_RANDOM, 1);
		model_sync(&a);
		model_truncate(&a, 0);
		assert_int_equal(txn_commit_for_space(&w.ctx, &w.vol->w->txns), 0);
		if (i == 1)
			seen = dev_fault_seen(w.fault, IO_DISCARD);
	}
	assert_true(seen > 0);
	assert_int_equal(dev_fault_seen(w.fault, IO_DISCARD), seen);
	until(nothing_is_pinned, NULL);
	model_free(&a);
	writing_end();
	w.discard = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_slow_read_does_not_cache_what_was_overwritten),
		cmocka_unit_test(test_data_of_one_transaction_is_pinned_when_it_is_overwritten),
		cmocka_unit_test(test_a_read_that_hangs_holds_up_no_commit),
		cmocka_unit_test(test_read_of_what_has_lost_its_last_name_is_stale),
		cmocka_unit_test(test_read_beside_a_cut_gives_no_zeros),
		cmocka_unit_test(test_what_is_freed_is_discarded),
		cmocka_unit_test(test_a_discard_that_hangs_holds_up_no_commit),
		cmocka_unit_test(test_a_device_without_discards_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
