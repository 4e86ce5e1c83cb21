/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Several threads read one volume through caches that are far too small, some as
 * loop threads do and some as workers do. What they read must be right; the rest is
 * for ThreadSanitizer, AddressSanitizer and might_wait() to find.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/lock.h"
#include "base/util.h"
#include "fscore/io/dev.h"
#include "fscore/volume/open.h"
#include "tests/fscore/image.h"

#define THREADS 6u
#define ROUNDS	1500u

static struct fsc_volume *vol;

struct reader {
	pthread_t id;
	unsigned seed;
	bool is_loop;
	struct fsc_thread *thread;
	bool read_done;
	unsigned n_right, n_wrong, n_again;
};

/* The read that a reader has under way, to find the reader from its completion. */
struct reading {
	struct fsc_read rd;
	struct reader *reader;
};

static void on_done(struct fsc_read *rd)
{
	container_of(rd, struct reading, rd)->reader->read_done = true;
}

/* Runs an expression that uses ctx as the server would: without waiting, and then with. */
#define TRY(r, call)                                                                    \
	({                                                                              \
		struct fsc_ctx ctx = {                                                  \
			.thread = (r)->thread, .flags = (r)->is_loop ? FSC_NOWAIT : 0}; \
		int ret_;                                                               \
		might_wait_set_loop((r)->is_loop);                                      \
		ret_ = (call);                                                          \
		might_wait_set_loop(false);                                             \
		if (ret_ == -EAGAIN) {                                                  \
			(r)->n_again++;                                                 \
			ctx.flags = 0;                                                  \
			ret_ = (call);                                                  \
		}                                                                       \
		ret_;                                                                   \
	})

static int read_file(struct reader *r, struct fsc_inode *inode, struct fsc_read *rd)
{
	int ret = TRY(r, fsc_read(&ctx, inode, rd));

	if (ret == -EINPROGRESS) {
		while (!r->read_done)
			fsc_thread_wait(r->thread);
		ret = rd->status;
	}
	return ret;
}

static bool is_right(unsigned file, const struct fsc_read *rd)
{
	uint64_t size = image_size(file), off = rd->file_off;
	size_t want = off >= size ? 0 : MIN(rd->len_bytes, size - off);

	if (rd->result_bytes != want)
		return false;
	for (unsigned i = 0; i < rd->n_iov; i++) {
		const uint8_t *p = rd->iov[i].iov_base;

		for (size_t k = 0; k < rd->iov[i].iov_len; k++)
			if (p[k] != image_byte(file, off++))
				return false;
	}
	return true;
}

static void one_round(struct reader *r, struct fsc_inode *dir)
{
	unsigned file = (unsigned)rand_r(&r->seed) % IMAGE_FILES;
	struct reading reading = {.reader = r};
	struct fsc_inode *inode;
	char name[16];
	int ret;

	snprintf(name, sizeof(name), "file-%04u", file);
	ret = TRY(r, fsc_lookup(&ctx, dir, name, strlen(name), &inode));
	if (ret) {
		r->n_wrong++;
		return;
	}
	reading.rd.file_off = (uint64_t)rand_r(&r->seed) % (image_size(file) + 1);
	reading.rd.len_bytes = (size_t)rand_r(&r->seed) % 200000 + 1;
	reading.rd.done = on_done;
	r->read_done = false;
	ret = read_file(r, inode, &reading.rd);
	if (!ret && is_right(file, &reading.rd))
		r->n_right++;
	else
		r->n_wrong++;
	fsc_read_release(&reading.rd);
	fsc_inode_put(inode);
}

static bool count_name(void *arg, const struct fsc_dirent *e)
{
	(void)e;
	++*(unsigned *)arg;
	return true;
}

static unsigned list_once(struct reader *r, struct fsc_inode *dir)
{
	struct fsc_ctx ctx = {.thread = r->thread};
	unsigned n = 0;
	bool eof;

	if (fsc_readdir(&ctx, dir, 0, UINT64_MAX, FSC_READDIR_ATTR, count_name, &n, &eof) || !eof)
		return 0;
	return n;
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	struct fsc_inode *root, *dir;

	if (fsc_thread_create(&r->thread))
		abort();
	if (TRY(r, fsc_inode_get(&ctx, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root)) ||
		TRY(r, fsc_lookup(&ctx, root, "dir", 3, &dir)))
		abort();
	for (unsigned i = 0; i < ROUNDS; i++) {
		one_round(r, dir);
		if (i % 100 == 0 && list_once(r, dir) != IMAGE_FILES)
			r->n_wrong++;
	}
	fsc_inode_put(dir);
	fsc_inode_put(root);
	fsc_thread_destroy(r->thread);
	return NULL;
}

/*
 * Nothing of the file tree has been read yet: a try has to fall back, and the same call that may
 * wait does not. This thread serves the read that the try has started.
 */
static void fall_back_once(struct fsc_thread *t)
{
	struct fsc_ctx nowait = {.thread = t, .flags = FSC_NOWAIT}, wait = {.thread = t};
	struct fsc_inode *root = NULL;

	might_wait_set_loop(true);
	assert_int_equal(
		fsc_inode_get(&nowait, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), -EAGAIN);
	might_wait_set_loop(false);
	assert_int_equal(nowait.blocked, FSC_BLOCKED_CACHE);
	assert_int_equal(fsc_inode_get(&wait, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	fsc_inode_put(root);
}

static void test_readers_in_parallel_see_the_content(void **state)
{
	struct fsc_open_options opt = {.read_only = true, .cache_bytes = 1};
	struct reader readers[THREADS] = {0};
	struct fsc_thread *t;
	struct fsc_stats stats;
	size_t bytes;
	void *image = image_make("-m single -d single -n 4096", &bytes);
	struct dev *mem;
	unsigned n_again = 0;

	(void)state;
	assert_int_equal(fsc_thread_create(&t), 0);
	assert_int_equal(dev_mem_create(image, bytes, &mem), 0);
	assert_int_equal(volume_open_dev(t, mem, "test", &opt, &vol), 0);
	fall_back_once(t);
	for (unsigned i = 0; i < THREADS; i++) {
		readers[i].seed = i + 1;
		readers[i].is_loop = i % 2;
		assert_int_equal(pthread_create(&readers[i].id, NULL, reader_main, &readers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(readers[i].id, NULL), 0);
		assert_int_equal(readers[i].n_wrong, 0);
		assert_int_equal(readers[i].n_right, ROUNDS);
		n_again += readers[i].n_again;
	}
	fsc_stats(vol, &stats);
	/* The page cache was too small: else this tested little. */
	assert_true(stats.pages.evictions > 1000);
	printf("# %u tries fell back\n", n_again);
	fsc_volume_close(t, vol);
	fsc_thread_destroy(t);
	free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readers_in_parallel_see_the_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
