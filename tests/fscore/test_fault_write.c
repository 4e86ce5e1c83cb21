/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults while writing: each write, flush and read of a workload fails in turn, with
 * EIO and ENOSPC, once or for ever from there on; and each allocation of memory.
 * Operations fail with honest errors, the process lives, what was acknowledged is
 * there after the volume has been opened anew, and btrfs check finds nothing.
 *
 * BYRE_FAULT_STEP     tries every Nth request only (so that all take a minute or so)
 * BYRE_FAULT_SECONDS  the most that one test may take (60): the rest is left out, and
 *                     that is said
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fscore/io/dev.h"
#include "fscore/volume/open.h"
#include "tests/fscore/crash_work.h"

#define IMAGE_BYTES ((size_t)128 << 20)
#define OPERATIONS  120u
#define NEVER	    UINT64_MAX

static struct {
	uint8_t *image; /* as mkfs.btrfs made it; in the file at path there is what is checked */
	uint8_t *scratch;
	char *path;
	struct fsc_thread *thread;
	struct dev *mem, *fault;
	struct fsc_volume *vol;
} t;

static unsigned long setting(const char *name, unsigned long otherwise)
{
	const char *value = getenv(name);

	return value ? strtoul(value, NULL, 0) : otherwise;
}

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static int set_up(void **state)
{
	(void)state;
	t.scratch = crash_image(NULL, IMAGE_BYTES, &t.path);
	t.image = malloc(IMAGE_BYTES);
	if (!t.image)
		return -1;
	memcpy(t.image, t.scratch, IMAGE_BYTES);
	return fsc_thread_create(&t.thread);
}

static int tear_down(void **state)
{
	(void)state;
	fsc_thread_destroy(t.thread);
	munmap(t.scratch, IMAGE_BYTES);
	unlink(t.path);
	free(t.path);
	free(t.image);
	return 0;
}

static int open_on(const void *bytes, struct dev **mem, struct dev **fault, struct fsc_volume **vol)
{
	struct fsc_open_options opt = {.cache_bytes = 4u << 20};

	assert_int_equal(dev_mem_create(bytes, IMAGE_BYTES, mem), 0);
	assert_int_equal(dev_fault_create(*mem, fault), 0);
	return volume_open_dev(t.thread, *fault, "fault", &opt, vol);
}

/* -- memory: the nth allocation fails; the linker leads all of the program's here (--wrap) -- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static _Atomic uint64_t allocations;
static _Atomic uint64_t fail_allocation = NEVER;

static bool memory_fails(void)
{
	return !crash_work_allocates && atomic_fetch_add(&allocations, 1) == fail_allocation;
}

void *__wrap_malloc(size_t n)
{
	return memory_fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t each)
{
	return memory_fails() ? NULL : __real_calloc(n, each);
}

void *__wrap_realloc(void *p, size_t n)
{
	return memory_fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return memory_fails() ? NULL : __real_aligned_alloc(align, n);
}

/* -- one run -- */

struct plan {
	bool has_rule;
	struct fault_rule rule;
	uint64_t allocation; /* from the begin of the operations on; NEVER */
};

/* How much of each kind a run without faults has. */
static struct {
	uint64_t seen[3], allocations;
} usual;

static void say(const struct plan *p, const char *what, const char *why)
{
	fail_msg("%s%s%s, number %lu, %s, error %d: %s: %s", p->rule.op[IO_READ] ? "read" : "",
		p->rule.op[IO_WRITE] ? "write" : "", p->rule.op[IO_FLUSH] ? "flush" : "",
		p->has_rule ? p->rule.skip : p->allocation, p->rule.count ? "once" : "from then on",
		p->rule.error, what, why);
}

/* What is on the disk now, without the volume's memory. */
static void check_disk(const struct plan *p, struct crash_work *w)
{
	struct dev *mem, *fault;
	struct fsc_volume *vol;
	int ret;

	memcpy(t.scratch, dev_mem_data(t.mem), IMAGE_BYTES);
	if (!crash_btrfs_check(t.path))
		say(p, "btrfs check", "see above");
	ret = open_on(t.scratch, &mem, &fault, &vol);
	if (ret)
		say(p, "open afterwards", strerror(-ret));
	if (!crash_work_check(w, t.thread, vol, SIZE_MAX, SIZE_MAX))
		say(p, "content", crash_work_why(w));
	/* It can be written to. */
	crash_work_destroy(w);
	w = crash_work_begin(t.thread, vol, NULL, 99, &ret);
	if (!w)
		say(p, "writing afterwards", strerror(-ret));
	crash_work_destroy(w);
	fsc_volume_close(t.thread, vol);
}

static void run(const struct plan *p)
{
	struct crash_work *w;
	int ret = open_on(t.image, &t.mem, &t.fault, &t.vol);

	assert_int_equal(ret, 0);
	w = crash_work_begin(t.thread, t.vol, NULL, 7, &ret);
	if (!w)
		say(p, "begin", strerror(-ret));
	for (int op = 0; op < 3; op++)
		usual.seen[op] = dev_fault_seen(t.fault, (enum io_op)op);
	usual.allocations = atomic_load(&allocations);
	if (p->has_rule)
		assert_int_equal(dev_fault_add(t.fault, &p->rule), 0);
	if (p->allocation != NEVER)
		atomic_store(&fail_allocation, atomic_load(&allocations) + p->allocation);
	if (crash_work_run(w, OPERATIONS, p->has_rule || p->allocation != NEVER) < 0)
		say(p, "an operation", crash_work_why(w));
	crash_work_sync(w);
	atomic_store(&fail_allocation, NEVER);
	for (int op = 0; op < 3; op++)
		usual.seen[op] = dev_fault_seen(t.fault, (enum io_op)op) - usual.seen[op];
	usual.allocations = atomic_load(&allocations) - usual.allocations;
	/* The fault goes away before the disk does: what could not be written must not appear now. */
	dev_fault_clear(t.fault);
	crash_work_detach(w);
	check_disk(p, w);
	fsc_volume_close(t.thread, t.vol);
}

static void fail_each(enum io_op op, int error, bool once)
{
	struct plan p = {.has_rule = true,
		.rule = {.count = once, .error = error, .action = FAULT_ERROR},
		.allocation = NEVER};
	unsigned long step = setting("BYRE_FAULT_STEP", 7), tried = 0;
	time_t end = now() + (time_t)setting("BYRE_FAULT_SECONDS", 60);
	struct plan none = {.allocation = NEVER};
	uint64_t n;

	run(&none);
	n = usual.seen[op];
	p.rule.op[op] = true;
	for (p.rule.skip = 0; p.rule.skip < n && now() < end; p.rule.skip += step) {
		run(&p);
		tried++;
	}
	printf("# %lu of %lu requests, every %luth\n", tried, n, step);
	assert_true(tried || !n);
}

static void test_fault_write_fails_once(void **state)
{
	(void)state;
	fail_each(IO_WRITE, -EIO, true);
}

static void test_fault_writes_fail_from_one_on(void **state)
{
	(void)state;
	fail_each(IO_WRITE, -EIO, false);
}

static void test_fault_writes_find_no_space(void **state)
{
	(void)state;
	fail_each(IO_WRITE, -ENOSPC, false);
}

static void test_fault_flush_fails_once(void **state)
{
	(void)state;
	fail_each(IO_FLUSH, -EIO, true);
}

static void test_fault_flushes_fail_from_one_on(void **state)
{
	(void)state;
	fail_each(IO_FLUSH, -EIO, false);
}

static void test_fault_read_fails_once(void **state)
{
	(void)state;
	fail_each(IO_READ, -EIO, true);
}

static void count_loss(void *arg)
{
	atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

/* Nobody has the file any more when its data is lost: that is said all the same, and once. */
static void test_fault_lost_data_is_said_without_its_file(void **state)
{
	_Atomic unsigned losses = 0;
	struct fsc_open_options opt = {
		.cache_bytes = 4u << 20, .data_lost = count_loss, .data_lost_arg = &losses};
	struct fault_rule rule = {.op[IO_WRITE] = true, .count = 1, .error = -EIO};
	struct fsc_ctx ctx = {.thread = t.thread};
	struct fsc_new new_inode = {.mode = S_IFREG | 0644};
	struct fsc_inode *root, *file;
	char data[8192] = "data";
	struct iovec iov = {data, sizeof(data)};
	struct fsc_volume *vol;
	struct dev *mem, *fault;

	(void)state;
	assert_int_equal(dev_mem_create(t.image, IMAGE_BYTES, &mem), 0);
	assert_int_equal(dev_fault_create(mem, &fault), 0);
	assert_int_equal(volume_open_dev(t.thread, fault, "fault", &opt, &vol), 0);
	assert_int_equal(fsc_inode_get(&ctx, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	assert_int_equal(fsc_create(&ctx, root, "f", 1, &new_inode, &file), 0);
	assert_int_equal(fsc_sync_all(&ctx, vol), 0);
	assert_int_equal(fsc_write(&ctx, file, 0, &iov, 1), 0);
	fsc_inode_put(file);
	assert_int_equal(dev_fault_add(fault, &rule), 0);
	assert_int_equal(fsc_sync_all(&ctx, vol), -EIO);
	assert_int_equal(atomic_load(&losses), 1);
	assert_int_equal(fsc_sync_all(&ctx, vol), 0);
	assert_int_equal(atomic_load(&losses), 1);
	fsc_inode_put(root);
	fsc_volume_close(t.thread, vol);
}

static void test_fault_memory_fails_once(void **state)
{
	unsigned long step = setting("BYRE_FAULT_STEP", 7) * 5, tried = 0;
	time_t end = now() + (time_t)setting("BYRE_FAULT_SECONDS", 60);
	struct plan p = {.allocation = NEVER};
	uint64_t n;

	(void)state;
	run(&p);
	n = usual.allocations;
	for (p.allocation = 0; p.allocation < n && now() < end; p.allocation += step) {
		run(&p);
		tried++;
	}
	printf("# %lu of %lu allocations, every %luth\n", tried, n, step);
	assert_true(tried || !n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fault_write_fails_once),
		cmocka_unit_test(test_fault_writes_fail_from_one_on),
		cmocka_unit_test(test_fault_writes_find_no_space),
		cmocka_unit_test(test_fault_flush_fails_once),
		cmocka_unit_test(test_fault_flushes_fail_from_one_on),
		cmocka_unit_test(test_fault_read_fails_once),
		cmocka_unit_test(test_fault_lost_data_is_said_without_its_file),
		cmocka_unit_test(test_fault_memory_fails_once),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
