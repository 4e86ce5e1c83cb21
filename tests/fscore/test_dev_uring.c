/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "fscore/io/dev.h"

#define SECTOR	   4096u
#define FILE_BYTES (8u << 20)

struct fixture {
	struct fsc_thread *thread;
	struct dev *dev;
	char path[64];
	uint8_t *buf; /* FILE_BYTES, aligned */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd;

	*state = f;
	strcpy(f->path, "test_dev_uring.XXXXXX");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	close(fd);
	assert_int_equal(posix_memalign((void **)&f->buf, SECTOR, FILE_BYTES), 0);
	memset(f->buf, 0, FILE_BYTES);
	assert_int_equal(fsc_thread_create(&f->thread), 0);
	assert_int_equal(dev_uring_open(f->path, false, false, &f->dev), 0);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	dev_destroy(f->dev);
	fsc_thread_destroy(f->thread);
	unlink(f->path);
	free(f->buf);
	free(f);
	return 0;
}

/* Bytes that tell where they belong. */
static void fill(uint8_t *buf, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		buf[i] = (uint8_t)(i / SECTOR * 7 + i + seed);
}

static bool is_filled(const uint8_t *buf, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (buf[i] != (uint8_t)(i / SECTOR * 7 + i + seed))
			return false;
	return true;
}

static void test_rw_sync_reads_what_was_written(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->dev->size_bytes, FILE_BYTES);
	assert_int_equal(f->dev->align_bytes, SECTOR);
	fill(f->buf, FILE_BYTES, 1);
	assert_int_equal(dev_rw_sync(f->dev, f->thread, IO_WRITE, 0, f->buf, FILE_BYTES), 0);
	assert_int_equal(dev_rw_sync(f->dev, f->thread, IO_FLUSH, 0, NULL, 0), 0);
	memset(f->buf, 0, FILE_BYTES);
	assert_int_equal(dev_rw_sync(f->dev, f->thread, IO_READ, 0, f->buf, FILE_BYTES), 0);
	assert_true(is_filled(f->buf, FILE_BYTES, 1));
	assert_int_equal(f->dev->stats.reads, 1);
	assert_int_equal(f->dev->stats.write_bytes, FILE_BYTES);
	assert_int_equal(f->dev->stats.flushes, 1);
}

static unsigned completed;

static void count_done(struct io_req *req)
{
	assert_int_equal(req->status, 0);
	completed++;
}

/* Many times as many as the submission queue has room for. */
static void test_submit_many_all_complete(void **state)
{
	struct fixture *f = *state;
	unsigned n = FILE_BYTES / SECTOR;
	struct io_req *reqs = calloc(n, sizeof(*reqs));
	struct iovec *iovs = calloc(n, sizeof(*iovs));

	fill(f->buf, FILE_BYTES, 2);
	for (unsigned round = 0; round < 2; round++) {
		completed = 0;
		for (unsigned i = 0; i < n; i++) {
			iovs[i] = (struct iovec){f->buf + i * SECTOR, SECTOR};
			reqs[i] = (struct io_req){
				.op = round ? IO_READ : IO_WRITE,
				.physical = i * SECTOR,
				.iov = &iovs[i],
				.n_iov = 1,
				.len_bytes = SECTOR,
				.done = count_done,
			};
			dev_submit(f->dev, f->thread, &reqs[i]);
			assert_int_equal(completed, 0);
		}
		while (completed < n)
			fsc_thread_wait(f->thread);
		if (!round)
			memset(f->buf, 0, FILE_BYTES);
	}
	assert_true(is_filled(f->buf, FILE_BYTES, 2));
	free(reqs);
	free(iovs);
}

static void test_submit_scattered_reads_in_order(void **state)
{
	struct fixture *f = *state;
	struct iovec iov[IO_MAX_IOV];
	struct io_req req = {
		.op = IO_READ,
		.iov = iov,
		.n_iov = IO_MAX_IOV,
		.len_bytes = IO_MAX_IOV * SECTOR,
		.done = count_done,
	};

	fill(f->buf, FILE_BYTES, 3);
	assert_int_equal(dev_rw_sync(f->dev, f->thread, IO_WRITE, 0, f->buf, FILE_BYTES), 0);
	memset(f->buf, 0, FILE_BYTES);
	/* Backwards in memory. */
	for (unsigned i = 0; i < IO_MAX_IOV; i++)
		iov[i] = (struct iovec){f->buf + (IO_MAX_IOV - 1 - i) * SECTOR, SECTOR};
	completed = 0;
	dev_submit(f->dev, f->thread, &req);
	while (!completed)
		fsc_thread_wait(f->thread);
	for (unsigned i = 0; i < IO_MAX_IOV; i++)
		assert_int_equal(*(uint8_t *)iov[i].iov_base, (uint8_t)(i * 7 + i * SECTOR + 3));
}

static void test_rw_sync_beyond_the_end_is_eio(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(dev_rw_sync(f->dev, f->thread, IO_READ, FILE_BYTES, f->buf, SECTOR), -EIO);
	assert_int_equal(
		dev_rw_sync(f->dev, f->thread, IO_READ, FILE_BYTES - SECTOR, f->buf, 2 * SECTOR),
		-EIO);
	assert_int_equal(
		dev_rw_sync(f->dev, f->thread, IO_READ, UINT64_MAX - 4095, f->buf, SECTOR), -EIO);
	assert_int_equal(f->dev->stats.read_errors, 3);
}

/* The transfer is cut short, and there is nothing where it would go on. */
static void test_rw_sync_truncated_file_is_eio(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(truncate(f->path, 2 * SECTOR), 0);
	assert_int_equal(dev_rw_sync(f->dev, f->thread, IO_READ, 0, f->buf, 4 * SECTOR), -EIO);
	assert_int_equal(dev_rw_sync(f->dev, f->thread, IO_READ, 0, f->buf, 2 * SECTOR), 0);
}

static void test_open_read_only_refuses_writes(void **state)
{
	struct fixture *f = *state;
	struct dev *ro;

	assert_int_equal(dev_uring_open(f->path, true, true, &ro), 0);
	assert_true(ro->read_only);
	assert_int_equal(dev_rw_sync(ro, f->thread, IO_WRITE, 0, f->buf, SECTOR), -EROFS);
	assert_int_equal(dev_rw_sync(ro, f->thread, IO_READ, 0, f->buf, SECTOR), 0);
	dev_destroy(ro);
}

static void test_open_locked_is_ebusy(void **state)
{
	struct fixture *f = *state;
	struct dev *again;

	assert_int_equal(dev_uring_open(f->path, true, false, &again), -EBUSY);
	dev_destroy(f->dev);
	f->dev = NULL;
	assert_int_equal(dev_uring_open(f->path, true, false, &again), 0);
	dev_destroy(again);
}

static void test_open_missing_or_odd_is_refused(void **state)
{
	struct dev *dev;

	(void)state;
	assert_int_equal(dev_uring_open("no/such/file", true, false, &dev), -ENOENT);
	assert_int_equal(dev_uring_open("/dev/null", true, false, &dev), -ENOTBLK);
	assert_int_equal(dev_uring_open(".", true, false, &dev), -ENOTBLK);
}

/* Opens a path as somebody who is not root, and gives what was logged meanwhile. */
static int open_logged(const char *path, bool read_only, char *text, size_t size)
{
	char name[] = "/tmp/byre-test-log-XXXXXX";
	int file = mkstemp(name), old = dup(STDERR_FILENO), uid = setfsuid(1), ret;
	struct dev *dev = NULL;
	ssize_t n;

	assert_true(file >= 0 && old >= 0);
	unlink(name);
	dup2(file, STDERR_FILENO);
	ret = dev_uring_open(path, read_only, true, &dev);
	dup2(old, STDERR_FILENO);
	setfsuid((uid_t)uid);
	if (!ret) {
		assert_true(dev->read_only);
		dev_destroy(dev);
	}
	n = pread(file, text, size - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	close(file);
	close(old);
	return ret;
}

static void test_open_says_what_it_may_not(void **state)
{
	struct fixture *f = *state;
	char text[512];

	assert_int_equal(chmod(f->path, 0444), 0);
	assert_int_equal(open_logged(f->path, false, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "opened read-only"));
	/* Asked for like this there is nothing to say. */
	assert_int_equal(open_logged(f->path, true, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(chmod(f->path, 0), 0);
	assert_int_equal(open_logged(f->path, true, text, sizeof(text)), -EACCES);
	assert_non_null(strstr(text, "Permission denied"));
	assert_int_equal(open_logged("no/such/file", true, text, sizeof(text)), -ENOENT);
	assert_non_null(strstr(text, "No such file"));
	assert_int_equal(open_logged("/dev/null", true, text, sizeof(text)), -ENOTBLK);
	assert_non_null(strstr(text, "neither"));
}

/* A free loop device, attached to path: its descriptor, or -1 without the right to. */
static int attach_loop(const char *path, char *name, size_t name_bytes)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int n = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	int file, loop;

	close(control);
	if (n < 0)
		return -1;
	snprintf(name, name_bytes, "/dev/loop%d", n);
	loop = open(name, O_RDWR | O_CLOEXEC);
	if (loop < 0)
		return -1;
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0 || ioctl(loop, LOOP_SET_FD, file)) {
		close(loop);
		loop = -1;
	}
	close(file);
	return loop;
}

static void test_open_attached_to_loop_is_ebusy(void **state)
{
	struct fixture *f = *state;
	char name[32];
	struct dev *dev, *again;
	int loop;

	dev_destroy(f->dev);
	f->dev = NULL;
	loop = attach_loop(f->path, name, sizeof(name));
	if (loop < 0)
		skip();
	assert_int_equal(dev_uring_open(f->path, true, false, &dev), -EBUSY);
	/* The loop device itself is fine, once. */
	assert_int_equal(dev_uring_open(name, false, false, &dev), 0);
	assert_int_equal(dev->size_bytes, FILE_BYTES);
	assert_int_equal(dev_uring_open(name, false, false, &again), -EBUSY);
	fill(f->buf, FILE_BYTES, 4);
	assert_int_equal(dev_rw_sync(dev, f->thread, IO_WRITE, 0, f->buf, FILE_BYTES), 0);
	assert_int_equal(dev_rw_sync(dev, f->thread, IO_FLUSH, 0, NULL, 0), 0);
	dev_destroy(dev);
	assert_int_equal(ioctl(loop, LOOP_CLR_FD, 0), 0);
	close(loop);
}

/* Requests under way are waited for: their buffers are the caller's to free then. */
static void test_thread_destroy_waits_for_requests(void **state)
{
	struct fixture *f = *state;
	struct iovec iov = {f->buf, FILE_BYTES};
	struct io_req req = {
		.op = IO_READ,
		.iov = &iov,
		.n_iov = 1,
		.len_bytes = FILE_BYTES,
		.done = count_done,
	};

	completed = 0;
	dev_submit(f->dev, f->thread, &req);
	fsc_thread_destroy(f->thread);
	f->thread = NULL;
	assert_int_equal(completed, 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_rw_sync_reads_what_was_written),
		CASE(test_submit_many_all_complete),
		CASE(test_submit_scattered_reads_in_order),
		CASE(test_rw_sync_beyond_the_end_is_eio),
		CASE(test_rw_sync_truncated_file_is_eio),
		CASE(test_open_read_only_refuses_writes),
		CASE(test_open_locked_is_ebusy),
		CASE(test_open_missing_or_odd_is_refused),
		CASE(test_open_says_what_it_may_not),
		CASE(test_open_attached_to_loop_is_ebusy),
		CASE(test_thread_destroy_waits_for_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
