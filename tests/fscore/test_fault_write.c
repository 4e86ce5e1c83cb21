/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults while writing: each write, flush and read of a workload fails in turn, with
 * EIO and ENOSPC, once or for ever from there on; and each allocation of memory, and of
 * space. The volume has files and is opened anew before, so that it is read from, too.
 * Operations fail with honest errors, the process lives, what was acknowledged is
 * there after the volume has been opened anew, and btrfs check finds nothing.
 *
 * BYRE_FAULT_ONLY     tests whose names are like this pattern
 * BYRE_FAULT_FIRST    the first request or allocation to fail (0)
 * BYRE_FAULT_STEP     tries every Nth request (1), and every 5 Nth allocation
 * BYRE_FAULT_SECONDS  the most that one test may take (20): those that it would not come
 *                     to are left out evenly, and that is said
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

#include "base/util.h"
#include "fscore/io/dev.h"
#include "fscore/space/space.h"
#include "fscore/volume/open.h"
#include "tests/fscore/crash_work.h"

#define IMAGE_BYTES ((size_t)128 << 20)
#define BEFORE	    100u /* operations before the faults */
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

/* -- what the linker leads here (--wrap): the nth of all calls fails, or each from there on -- */

struct failing {
	_Atomic uint64_t seen, at;
	atomic_bool once;
};

static struct failing memory = {.at = NEVER}, space = {.at = NEVER};

static bool fails(struct failing *f)
{
	uint64_t n = atomic_fetch_add(&f->seen, 1), at = atomic_load(&f->at);

	return atomic_load(&f->once) ? n == at : n >= at;
}

static bool memory_fails(void)
{
	return !crash_work_allocates && fails(&memory);
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

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

/* Those that may find nothing; space_alloc_metadata() gets what was promised. */
int __real_space_reserve(struct space *sp, enum space_type type, uint64_t bytes, bool use_global);
int __wrap_space_reserve(struct space *sp, enum space_type type, uint64_t bytes, bool use_global);
int __real_space_alloc(struct fsc_ctx *ctx, struct space *sp, enum space_type type,
	uint64_t min_bytes, uint64_t want_bytes, uint64_t near, uint64_t *logical, uint64_t *bytes);
int __wrap_space_alloc(struct fsc_ctx *ctx, struct space *sp, enum space_type type,
	uint64_t min_bytes, uint64_t want_bytes, uint64_t near, uint64_t *logical, uint64_t *bytes);
int __real_space_alloc_chunk(struct tree_writer *w, struct space *sp, enum space_type type);
int __wrap_space_alloc_chunk(struct tree_writer *w, struct space *sp, enum space_type type);

int __wrap_space_reserve(struct space *sp, enum space_type type, uint64_t bytes, bool use_global)
{
	return fails(&space) ? -ENOSPC : __real_space_reserve(sp, type, bytes, use_global);
}

int __wrap_space_alloc(struct fsc_ctx *ctx, struct space *sp, enum space_type type,
	uint64_t min_bytes, uint64_t want_bytes, uint64_t near, uint64_t *logical, uint64_t *bytes)
{
	return fails(&space)
		? -ENOSPC
		: __real_space_alloc(ctx, sp, type, min_bytes, want_bytes, near, logical, bytes);
}

int __wrap_space_alloc_chunk(struct tree_writer *w, struct space *sp, enum space_type type)
{
	return fails(&space) ? -ENOSPC : __real_space_alloc_chunk(w, sp, type);
}

/* -- one run -- */

struct plan {
	const char *what; /* NULL: nothing fails */
	bool once;	  /* or from then on */
	uint64_t at;	  /* counted from where the faults may begin */
	struct failing *call;
	enum io_op op; /* without call */
	int error;
};

/* How many a run without faults has. */
static struct {
	uint64_t requests[3], memory, space;
} usual;

static void say(const struct plan *p, const char *what, const char *why)
{
	fail_msg("%s number %lu, %s, error %d: %s: %s", p->what ? p->what : "nothing", p->at,
		p->once ? "once" : "from then on", p->error, what, why);
}

/* The file gets what is on the disk now; little of it has changed since the last time. */
static void disk_to_file(void)
{
	const uint8_t *disk = dev_mem_data(t.mem);

	for (size_t at = 0; at < IMAGE_BYTES; at += 4096)
		if (memcmp(t.scratch + at, disk + at, 4096))
			memcpy(t.scratch + at, disk + at, 4096);
}

/* Without the volume's memory. */
static void check_disk(const struct plan *p, struct crash_work *w)
{
	struct dev *mem, *fault;
	struct fsc_volume *vol;
	int ret;

	disk_to_file();
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

/* Files are made, and the volume opened anew, so that nothing is in memory. */
static struct crash_work *prepare(const struct plan *p)
{
	struct crash_work *w;
	int ret = open_on(t.image, &t.mem, &t.fault, &t.vol);

	assert_int_equal(ret, 0);
	w = crash_work_begin(t.thread, t.vol, NULL, 7, &ret);
	if (!w)
		say(p, "begin", strerror(-ret));
	if (crash_work_run(w, BEFORE, false) < 0)
		say(p, "before", crash_work_why(w));
	assert_int_equal(crash_work_sync(w), 0);
	crash_work_detach(w);
	disk_to_file();
	fsc_volume_close(t.thread, t.vol);
	assert_int_equal(open_on(t.scratch, &t.mem, &t.fault, &t.vol), 0);
	ret = crash_work_attach(w, t.vol);
	if (ret)
		say(p, "attach", strerror(-ret));
	return w;
}

static void begin_faults(const struct plan *p)
{
	struct fault_rule rule = {
		.skip = p->at, .count = p->once, .error = p->error, .action = FAULT_ERROR};

	for (int op = 0; op < 3; op++)
		usual.requests[op] = dev_fault_seen(t.fault, (enum io_op)op);
	usual.memory = atomic_load(&memory.seen);
	usual.space = atomic_load(&space.seen);
	if (p->call) {
		atomic_store(&p->call->once, p->once);
		atomic_store(&p->call->at, atomic_load(&p->call->seen) + p->at);
	} else if (p->what) {
		rule.op[p->op] = true;
		assert_int_equal(dev_fault_add(t.fault, &rule), 0);
	}
}

/* They go away before the disk does: what could not be written must not appear now. */
static void end_faults(void)
{
	atomic_store(&memory.at, NEVER);
	atomic_store(&space.at, NEVER);
	dev_fault_clear(t.fault);
	for (int op = 0; op < 3; op++)
		usual.requests[op] = dev_fault_seen(t.fault, (enum io_op)op) - usual.requests[op];
	usual.memory = atomic_load(&memory.seen) - usual.memory;
	usual.space = atomic_load(&space.seen) - usual.space;
}

static void run(const struct plan *p)
{
	struct crash_work *w = prepare(p);

	begin_faults(p);
	if (crash_work_run(w, OPERATIONS, p->what != NULL) < 0)
		say(p, "an operation", crash_work_why(w));
	crash_work_sync(w);
	end_faults();
	crash_work_detach(w);
	check_disk(p, w);
	fsc_volume_close(t.thread, t.vol);
}

static double seconds_since(const struct timespec *begin)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)(ts.tv_sec - begin->tv_sec) + 1e-9 * (double)(ts.tv_nsec - begin->tv_nsec);
}

/* Each of n in turn; or as many as there is time for, evenly. */
static void run_each(struct plan *p, uint64_t n, unsigned long step)
{
	double limit = (double)setting("BYRE_FAULT_SECONDS", 20);
	unsigned long tried = 0;
	struct timespec begin;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (p->at = setting("BYRE_FAULT_FIRST", 0); p->at < n; p->at += step) {
		double spent, left;

		run(p);
		tried++;
		spent = seconds_since(&begin);
		left = spent / (double)tried * (double)(n - p->at) / (double)step;
		if (spent + left > limit)
			step = 1 + (unsigned long)((double)step * left / MAX(limit - spent, 1));
	}
	printf("# %lu of %lu\n", tried, n);
	assert_true(tried || !n);
}

static void fail_requests(enum io_op op, const char *what, int error, bool once)
{
	struct plan p = {.what = what, .once = once, .op = op, .error = error}, none = {0};

	run(&none);
	run_each(&p, usual.requests[op], setting("BYRE_FAULT_STEP", 1));
}

static void fail_calls(struct failing *call, const char *what, bool once)
{
	struct plan p = {.what = what, .once = once, .call = call}, none = {0};

	run(&none);
	run_each(&p, call == &memory ? usual.memory : usual.space,
		5 * setting("BYRE_FAULT_STEP", 1));
}

static void test_fault_write_fails_once(void **state)
{
	(void)state;
	fail_requests(IO_WRITE, "write", -EIO, true);
}

static void test_fault_writes_fail_from_one_on(void **state)
{
	(void)state;
	fail_requests(IO_WRITE, "write", -EIO, false);
}

static void test_fault_write_finds_no_space_once(void **state)
{
	(void)state;
	fail_requests(IO_WRITE, "write", -ENOSPC, true);
}

static void test_fault_writes_find_no_space(void **state)
{
	(void)state;
	fail_requests(IO_WRITE, "write", -ENOSPC, false);
}

static void test_fault_flush_fails_once(void **state)
{
	(void)state;
	fail_requests(IO_FLUSH, "flush", -EIO, true);
}

static void test_fault_flushes_fail_from_one_on(void **state)
{
	(void)state;
	fail_requests(IO_FLUSH, "flush", -EIO, false);
}

static void test_fault_read_fails_once(void **state)
{
	(void)state;
	fail_requests(IO_READ, "read", -EIO, true);
}

static void test_fault_reads_fail_from_one_on(void **state)
{
	(void)state;
	fail_requests(IO_READ, "read", -EIO, false);
}

/* A file of which some is on the disk, and some is not. */
static struct fsc_inode *half_written(struct fsc_ctx *ctx, struct fsc_inode *root, const char *name)
{
	static char data[200000] = "data";
	struct fsc_new n = {.mode = S_IFREG | 0644};
	struct iovec iov = {data, sizeof(data) / 2};
	struct fsc_inode *file;

	assert_int_equal(fsc_create(ctx, root, name, strlen(name), &n, &file), 0);
	assert_int_equal(fsc_write(ctx, file, 0, &iov, 1), 0);
	assert_int_equal(fsc_sync_all(ctx, t.vol), 0);
	assert_int_equal(fsc_write(ctx, file, sizeof(data) / 2, &iov, 1), 0);
	return file;
}

static uint64_t size_of(struct fsc_inode *inode)
{
	struct fsc_attr attr;

	fsc_inode_attr(inode, &attr);
	return attr.size_bytes;
}

#define UNKNOWN UINT64_MAX

/* A truncation in which from the n-th call on no space is found. Returns the size that is to stay. */
static uint64_t failed_truncation(
	struct fsc_ctx *ctx, struct fsc_inode *root, const char *name, unsigned n)
{
	struct fsc_setattr set = {.mask = FSC_SET_SIZE, .size_bytes = 5000};
	struct fsc_inode *file = half_written(ctx, root, name);
	uint64_t size;
	int ret;

	atomic_store(&space.once, false);
	atomic_store(&space.at, atomic_load(&space.seen) + n);
	ret = fsc_setattr(ctx, file, &set);
	atomic_store(&space.at, NEVER);
	size = size_of(file);
	assert_true(!ret || ret == -ENOSPC);
	/* Done, not begun, or without what was not on the disk. */
	assert_true(size == 5000 || (ret && size == 200000) || (ret && size == 100000));
	/* What was to be written and is gone may show until then; that it is gone is said. */
	if (fsc_sync_all(ctx, t.vol))
		size = UNKNOWN;
	else
		assert_true(size != 100000);
	fsc_inode_put(file);
	return size;
}

/*
 * Whichever step of a truncation finds no space: afterwards the file has the size that the
 * disk knows, not one that changes when the server is started again; and what had not been
 * written and is gone was said to be lost.
 */
static void test_fault_failed_truncation_leaves_what_the_disk_has(void **state)
{
	struct fsc_ctx ctx = {.thread = t.thread};
	struct fsc_inode *root, *file;
	uint64_t sizes[32];
	char name[8];

	(void)state;
	assert_int_equal(open_on(t.image, &t.mem, &t.fault, &t.vol), 0);
	assert_int_equal(fsc_inode_get(&ctx, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	for (unsigned n = 0; n < ARRAY_SIZE(sizes); n++) {
		snprintf(name, sizeof(name), "f%u", n);
		sizes[n] = failed_truncation(&ctx, root, name, n);
	}
	assert_int_equal(sizes[ARRAY_SIZE(sizes) - 1], 5000);
	fsc_inode_put(root);
	disk_to_file();
	fsc_volume_close(t.thread, t.vol);
	assert_true(crash_btrfs_check(t.path));
	assert_int_equal(open_on(t.scratch, &t.mem, &t.fault, &t.vol), 0);
	assert_int_equal(fsc_inode_get(&ctx, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	for (unsigned n = 0; n < ARRAY_SIZE(sizes); n++) {
		snprintf(name, sizeof(name), "f%u", n);
		assert_int_equal(fsc_lookup(&ctx, root, name, strlen(name), &file), 0);
		assert_true(size_of(file) == sizes[n] || sizes[n] == UNKNOWN);
		fsc_inode_put(file);
	}
	fsc_inode_put(root);
	fsc_volume_close(t.thread, t.vol);
}

static void test_fault_memory_fails_once(void **state)
{
	(void)state;
	fail_calls(&memory, "allocation", true);
}

static void test_fault_space_is_not_there_once(void **state)
{
	(void)state;
	fail_calls(&space, "allocation of space", true);
}

static void test_fault_space_is_not_there_from_one_on(void **state)
{
	(void)state;
	fail_calls(&space, "allocation of space", false);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fault_write_fails_once),
		cmocka_unit_test(test_fault_writes_fail_from_one_on),
		cmocka_unit_test(test_fault_write_finds_no_space_once),
		cmocka_unit_test(test_fault_writes_find_no_space),
		cmocka_unit_test(test_fault_flush_fails_once),
		cmocka_unit_test(test_fault_flushes_fail_from_one_on),
		cmocka_unit_test(test_fault_read_fails_once),
		cmocka_unit_test(test_fault_reads_fail_from_one_on),
		cmocka_unit_test(test_fault_lost_data_is_said_without_its_file),
		cmocka_unit_test(test_fault_failed_truncation_leaves_what_the_disk_has),
		cmocka_unit_test(test_fault_memory_fails_once),
		cmocka_unit_test(test_fault_space_is_not_there_once),
		cmocka_unit_test(test_fault_space_is_not_there_from_one_on),
	};

	if (getenv("BYRE_FAULT_ONLY"))
		cmocka_set_test_filter(getenv("BYRE_FAULT_ONLY"));
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
