/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fscore.h on a volume in memory: whole operations, NOWAIT, faults, damage. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/util.h"
#include "fscore/io/dev.h"
#include "fscore/volume/open.h"
#include "tests/fscore/image.h"

static void *image;
static size_t image_bytes;

/* The volume that a test works on. */
static struct {
	struct fsc_thread *thread;
	struct dev *mem, *fault;
	struct fsc_volume *vol;
} t;

static struct fsc_ctx wait_ctx(void)
{
	return (struct fsc_ctx){.thread = t.thread};
}

static struct fsc_ctx nowait_ctx(void)
{
	return (struct fsc_ctx){.thread = t.thread, .flags = FSC_NOWAIT};
}

static int open_volume(void)
{
	struct fsc_open_options opt = {.read_only = true, .cache_bytes = 1};

	return volume_open_dev(t.thread, t.fault, "test", &opt, &t.vol);
}

static void make_devices(void)
{
	assert_int_equal(fsc_thread_create(&t.thread), 0);
	assert_int_equal(dev_mem_create(image, image_bytes, &t.mem), 0);
	assert_int_equal(dev_fault_create(t.mem, &t.fault), 0);
}

static int setup(void **state)
{
	(void)state;
	make_devices();
	return open_volume();
}

static int teardown(void **state)
{
	(void)state;
	fsc_volume_close(t.thread, t.vol);
	fsc_thread_destroy(t.thread);
	memset(&t, 0, sizeof(t));
	return 0;
}

static int make_image(void **state)
{
	(void)state;
	image = image_make("-m dup -d dup", &image_bytes);
	return 0;
}

static int free_image(void **state)
{
	(void)state;
	free(image);
	return 0;
}

static int lookup(
	struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, struct fsc_inode **out)
{
	return fsc_lookup(ctx, dir, name, strlen(name), out);
}

static int get_root(struct fsc_inode **out)
{
	struct fsc_ctx ctx = wait_ctx();

	return fsc_inode_get(&ctx, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, out);
}

static int find_file(unsigned file, struct fsc_inode **out)
{
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_inode *root, *dir;
	char name[16];
	int ret = get_root(&root);

	if (ret)
		return ret;
	ret = lookup(&ctx, root, "dir", &dir);
	fsc_inode_put(root);
	if (ret)
		return ret;
	snprintf(name, sizeof(name), "file-%04u", file);
	ret = lookup(&ctx, dir, name, out);
	fsc_inode_put(dir);
	return ret;
}

/* Whether a finished read has the bytes of that file. */
static bool read_is_right(unsigned file, const struct fsc_read *rd)
{
	uint64_t size = image_size(file), off = rd->file_off;
	size_t want = off >= size ? 0 : MIN(rd->len_bytes, size - off);

	if (rd->result_bytes != want || rd->eof != (off + want >= size))
		return false;
	for (unsigned i = 0; i < rd->n_iov; i++) {
		const uint8_t *p = rd->iov[i].iov_base;

		for (size_t k = 0; k < rd->iov[i].iov_len; k++)
			if (p[k] != image_byte(file, off++))
				return false;
	}
	return off == rd->file_off + want || !want;
}

static int read_whole(unsigned file)
{
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_read rd = {.len_bytes = 1 << 20};
	struct fsc_inode *inode;
	int ret = find_file(file, &inode);

	if (ret)
		return ret;
	ret = fsc_read(&ctx, inode, &rd);
	if (!ret)
		assert_true(read_is_right(file, &rd));
	fsc_read_release(&rd);
	fsc_inode_put(inode);
	return ret;
}

/* ------------------------------------------------------------------- names */

static void test_lookup_names_and_their_errors(void **state)
{
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_inode *root, *dir, *file, *same;
	char long_name[257];
	struct fsc_attr attr;

	(void)state;
	memset(long_name, 'x', sizeof(long_name));
	assert_int_equal(get_root(&root), 0);
	assert_int_equal(lookup(&ctx, root, "dir", &dir), 0);
	assert_int_equal(lookup(&ctx, root, "no", &same), -ENOENT);
	assert_int_equal(lookup(&ctx, root, "", &same), -ENOENT);
	assert_int_equal(fsc_lookup(&ctx, root, long_name, 255, &same), -ENOENT);
	assert_int_equal(fsc_lookup(&ctx, root, long_name, 256, &same), -ENAMETOOLONG);
	assert_int_equal(lookup(&ctx, dir, "..", &same), 0);
	assert_ptr_equal(same, root);
	fsc_inode_put(same);
	assert_int_equal(lookup(&ctx, root, "..", &same), 0);
	assert_ptr_equal(same, root);
	fsc_inode_put(same);
	assert_int_equal(lookup(&ctx, root, ".", &same), 0);
	assert_ptr_equal(same, root);
	fsc_inode_put(same);
	assert_int_equal(find_file(4, &file), 0);
	fsc_inode_attr(file, &attr);
	assert_true(S_ISREG(attr.mode) && attr.size_bytes == image_size(4));
	assert_int_equal(lookup(&ctx, file, "x", &same), -ENOTDIR);
	fsc_inode_put(file);
	fsc_inode_put(dir);
	fsc_inode_put(root);
}

static void test_inode_get_wrong_generation_or_number_is_stale(void **state)
{
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_inode *file, *again;
	struct fsc_attr attr;

	(void)state;
	assert_int_equal(find_file(1, &file), 0);
	fsc_inode_attr(file, &attr);
	assert_int_equal(
		fsc_inode_get(&ctx, t.vol, attr.subvol, attr.ino, attr.generation, &again), 0);
	assert_ptr_equal(file, again);
	fsc_inode_put(again);
	assert_int_equal(
		fsc_inode_get(&ctx, t.vol, attr.subvol, attr.ino, attr.generation + 1, &again),
		-ESTALE);
	assert_int_equal(fsc_inode_get(&ctx, t.vol, attr.subvol, 1 << 30, 0, &again), -ESTALE);
	assert_int_equal(fsc_inode_get(&ctx, t.vol, 77777, attr.ino, 0, &again), -ESTALE);
	assert_int_equal(fsc_inode_get(&ctx, t.vol, 2, 256, 0, &again), -ESTALE);
	fsc_inode_put(file);
}

static void test_readlink_gives_the_target(void **state)
{
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_inode *root, *link;
	char buf[64];
	size_t len;

	(void)state;
	assert_int_equal(get_root(&root), 0);
	assert_int_equal(lookup(&ctx, root, "link", &link), 0);
	assert_int_equal(fsc_readlink(&ctx, link, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, strlen("dir/file-0000"));
	assert_memory_equal(buf, "dir/file-0000", len);
	assert_int_equal(fsc_readlink(&ctx, root, buf, sizeof(buf), &len), -EINVAL);
	fsc_inode_put(link);
	fsc_inode_put(root);
}

/* ----------------------------------------------------------------- readdir */

struct page_of_names {
	unsigned room, n;
	uint64_t next;
	bool seen[IMAGE_FILES];
	bool with_attr;
};

static bool take_name(void *arg, const struct fsc_dirent *e)
{
	struct page_of_names *p = arg;
	char name[256];
	unsigned file;

	if (p->n == p->room)
		return false;
	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	assert_int_equal(sscanf(name, "file-%u", &file), 1);
	assert_true(file < IMAGE_FILES && !p->seen[file]);
	assert_true(e->index >= p->next);
	assert_int_equal(e->type, DT_REG);
	assert_int_equal(!!e->attr, p->with_attr);
	if (e->attr)
		assert_true(e->attr->size_bytes == image_size(file) && e->attr->ino == e->ino);
	p->seen[file] = true;
	p->n++;
	p->next = e->index + 1;
	return true;
}

static void test_readdir_every_page_size_gives_each_name_once(void **state)
{
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_inode *root, *dir;

	(void)state;
	assert_int_equal(get_root(&root), 0);
	assert_int_equal(lookup(&ctx, root, "dir", &dir), 0);
	for (unsigned room = 1; room <= IMAGE_FILES + 1; room += room < 20 ? 1 : 57) {
		struct page_of_names p = {.room = room, .with_attr = room % 2};
		bool eof = false;
		unsigned n = 0;

		while (!eof) {
			p.n = 0;
			assert_int_equal(
				fsc_readdir(&ctx, dir, p.next, UINT64_MAX,
					p.with_attr ? FSC_READDIR_ATTR : 0, take_name, &p, &eof),
				0);
			n += p.n;
		}
		assert_int_equal(n, IMAGE_FILES);
	}
	fsc_inode_put(dir);
	fsc_inode_put(root);
}

static void test_readdir_upper_bound_ends_the_listing(void **state)
{
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_inode *root, *dir, *empty;
	struct page_of_names p = {.room = IMAGE_FILES};
	uint64_t last;
	bool eof;

	(void)state;
	assert_int_equal(get_root(&root), 0);
	assert_int_equal(lookup(&ctx, root, "dir", &dir), 0);
	assert_int_equal(fsc_dir_last_index(&ctx, dir, &last), 0);
	assert_int_equal(fsc_readdir(&ctx, dir, 0, last - 10, 0, take_name, &p, &eof), 0);
	assert_true(eof);
	assert_int_equal(p.n, IMAGE_FILES - 10);
	assert_int_equal(fsc_readdir(&ctx, dir, last + 1, UINT64_MAX, 0, take_name, &p, &eof), 0);
	assert_true(eof);
	assert_int_equal(p.n, IMAGE_FILES - 10);
	assert_int_equal(lookup(&ctx, root, "empty", &empty), 0);
	assert_int_equal(fsc_dir_last_index(&ctx, empty, &last), 0);
	assert_int_equal(last, 1);
	assert_int_equal(fsc_readdir(&ctx, empty, 0, UINT64_MAX, 0, take_name, &p, &eof), 0);
	assert_true(eof);
	fsc_inode_put(empty);
	fsc_inode_put(dir);
	fsc_inode_put(root);
}

/* -------------------------------------------------------------------- read */

static void test_read_any_range_equals_the_content(void **state)
{
	struct fsc_ctx ctx = wait_ctx();

	(void)state;
	srandom(2);
	for (unsigned i = 0; i < 2000; i++) {
		unsigned file = (unsigned)random() % IMAGE_FILES;
		struct fsc_read rd = {.file_off = (uint64_t)random() % (image_size(file) + 5000),
			.len_bytes = (size_t)random() % 300000};
		struct fsc_inode *inode;

		assert_int_equal(find_file(file, &inode), 0);
		assert_int_equal(fsc_read(&ctx, inode, &rd), 0);
		assert_true(read_is_right(file, &rd));
		fsc_read_release(&rd);
		fsc_inode_put(inode);
	}
}

static void test_read_beyond_any_end_is_empty(void **state)
{
	const uint64_t offs[] = {
		1u << 31, INT64_MAX - 4095, INT64_MAX, UINT64_MAX - 4095, UINT64_MAX};
	struct fsc_ctx ctx = wait_ctx();
	struct fsc_inode *inode, *root;

	(void)state;
	assert_int_equal(find_file(8, &inode), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(offs); i++) {
		struct fsc_read rd = {.file_off = offs[i], .len_bytes = 8192};

		assert_int_equal(fsc_read(&ctx, inode, &rd), 0);
		assert_true(rd.eof && rd.result_bytes == 0);
		fsc_read_release(&rd);
	}
	assert_int_equal(get_root(&root), 0);
	assert_int_equal(fsc_read(&ctx, root, &(struct fsc_read){.len_bytes = 1}), -EISDIR);
	fsc_inode_put(root);
	fsc_inode_put(inode);
}

/* ------------------------------------------------------------------ nowait */

static bool read_done;

static void on_read_done(struct fsc_read *rd)
{
	(void)rd;
	read_done = true;
}

/* With every read held back by the device, a call says so at once, and changes nothing. */
static void test_nowait_without_the_blocks_says_again(void **state)
{
	struct fault_rule hold = {.op = {[IO_READ] = true}, .action = FAULT_HOLD};
	struct fsc_ctx ctx = nowait_ctx(), blocking = wait_ctx();
	struct fsc_inode *root;

	(void)state;
	assert_int_equal(dev_fault_add(t.fault, &hold), 0);
	might_wait_set_loop(true);
	assert_int_equal(
		fsc_inode_get(&ctx, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), -EAGAIN);
	assert_int_equal(ctx.blocked, FSC_BLOCKED_CACHE);
	/* The read is under way: the same again does not start it twice. */
	fsc_thread_flush(t.thread);
	assert_int_equal(
		fsc_inode_get(&ctx, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), -EAGAIN);
	might_wait_set_loop(false);
	dev_fault_clear(t.fault);
	assert_int_equal(
		fsc_inode_get(&blocking, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	might_wait_set_loop(true);
	fsc_inode_put(root);
	assert_int_equal(fsc_inode_get(&ctx, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	might_wait_set_loop(false);
	fsc_inode_put(root);
}

/* A read whose extents are known is submitted by the try, and completes later. */
static void test_nowait_read_of_known_extents_is_in_progress(void **state)
{
	struct fault_rule hold = {.op = {[IO_READ] = true}, .action = FAULT_HOLD};
	struct fsc_ctx ctx = nowait_ctx();
	struct fsc_read first = {.len_bytes = 4096, .done = on_read_done};
	struct fsc_read rd = {.file_off = 65536, .len_bytes = 65536, .done = on_read_done};
	struct fsc_read same = {.file_off = 70000, .len_bytes = 100, .done = on_read_done};
	struct fsc_inode *inode;
	unsigned file = 100;

	(void)state;
	assert_int_equal(find_file(file, &inode), 0);
	first.file_off = image_size(file) - 10;
	{
		struct fsc_ctx blocking = wait_ctx();

		assert_int_equal(fsc_read(&blocking, inode, &first), 0);
		fsc_read_release(&first);
	}
	assert_int_equal(dev_fault_add(t.fault, &hold), 0);
	read_done = false;
	might_wait_set_loop(true);
	assert_int_equal(fsc_read(&ctx, inode, &rd), -EINPROGRESS);
	/* Another read of the same pages waits for them, and starts nothing. */
	uint64_t seen = dev_fault_seen(t.fault, IO_READ);
	assert_int_equal(fsc_read(&ctx, inode, &same), -EINPROGRESS);
	assert_true(dev_fault_seen(t.fault, IO_READ) == seen);
	fsc_thread_flush(t.thread);
	fsc_thread_reap(t.thread);
	assert_false(read_done);
	might_wait_set_loop(false);
	dev_fault_clear(t.fault);
	while (!read_done || !same.n_iov || !rd.n_iov)
		fsc_thread_wait(t.thread);
	assert_int_equal(rd.status, 0);
	assert_int_equal(same.status, 0);
	assert_true(read_is_right(file, &rd));
	assert_true(read_is_right(file, &same));
	fsc_read_release(&rd);
	fsc_read_release(&same);
	might_wait_set_loop(true);
	assert_int_equal(fsc_read(&ctx, inode, &rd), 0);
	might_wait_set_loop(false);
	fsc_read_release(&rd);
	fsc_inode_put(inode);
}

/* ------------------------------------------------------------------ faults */

/* EIO at each read of a small workload in turn: an honest error, or the right bytes. */
static void test_fault_eio_at_each_read_gives_an_error_or_the_content(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (uint64_t skip = 0;; skip++) {
		struct fault_rule eio = {.op = {[IO_READ] = true},
			.skip = skip,
			.count = 1,
			.action = FAULT_ERROR,
			.error = -EIO};
		uint64_t seen;
		int ret;

		make_devices();
		assert_int_equal(dev_fault_add(t.fault, &eio), 0);
		ret = open_volume();
		for (unsigned file = 0; !ret && file < IMAGE_FILES; file += 40)
			ret = read_whole(file);
		assert_true(ret == 0 || ret == -EIO || ret == -EINVAL);
		failed += ret != 0;
		seen = ret ? UINT64_MAX : dev_fault_seen(t.fault, IO_READ);
		teardown(NULL);
		if (seen <= skip)
			break;
	}
	/* Two copies of all: one error alone costs nothing. */
	assert_int_equal(failed, 0);
}

/* All reads of one kind of place fail, for ever. */
static void test_fault_eio_everywhere_ends_with_eio(void **state)
{
	struct fault_rule eio = {.op = {[IO_READ] = true}, .action = FAULT_ERROR, .error = -EIO};

	(void)state;
	assert_int_equal(dev_fault_add(t.fault, &eio), 0);
	assert_int_equal(read_whole(8), -EIO);
	dev_fault_clear(t.fault);
	assert_int_equal(read_whole(8), 0);
}

/* A bit flips in each read: data and metadata are read from the other copy. */
static void test_fault_corrupt_reads_never_show(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (unsigned file = 0; file < IMAGE_FILES; file += 8) {
		struct fault_rule flip = {.op = {[IO_READ] = true},
			.count = 1,
			.action = FAULT_CORRUPT,
			.bytes = file};

		assert_int_equal(dev_fault_add(t.fault, &flip), 0);
		wrong += read_whole(file) != 0;
		dev_fault_clear(t.fault);
	}
	assert_int_equal(wrong, 0);
	struct fsc_stats stats;
	fsc_stats(t.vol, &stats);
	assert_true(stats.mirror_repairs > 10);
}

static void test_open_noise_is_refused(void **state)
{
	struct fsc_open_options opt = {.read_only = true};
	struct fsc_volume *vol;
	uint8_t *noise = malloc(1 << 20);
	struct dev *dev;

	(void)state;
	for (unsigned i = 0; i < 1 << 20; i++)
		noise[i] = image_byte(3, i);
	assert_int_equal(dev_mem_create(noise, 1 << 20, &dev), 0);
	assert_int_equal(volume_open_dev(t.thread, dev, "noise", &opt, &vol), -EINVAL);
	assert_int_equal(dev_mem_create(NULL, 8192, &dev), 0);
	assert_int_equal(volume_open_dev(t.thread, dev, "tiny", &opt, &vol), -EINVAL);
	free(noise);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_lookup_names_and_their_errors),
		CASE(test_inode_get_wrong_generation_or_number_is_stale),
		CASE(test_readlink_gives_the_target),
		CASE(test_readdir_every_page_size_gives_each_name_once),
		CASE(test_readdir_upper_bound_ends_the_listing),
		CASE(test_read_any_range_equals_the_content),
		CASE(test_read_beyond_any_end_is_empty),
		CASE(test_nowait_without_the_blocks_says_again),
		CASE(test_nowait_read_of_known_extents_is_in_progress),
		cmocka_unit_test(test_fault_eio_at_each_read_gives_an_error_or_the_content),
		CASE(test_fault_eio_everywhere_ends_with_eio),
		CASE(test_fault_corrupt_reads_never_show),
		CASE(test_open_noise_is_refused),
	};

	log_set_level(LOG_LVL_ERROR);
	return cmocka_run_group_tests(tests, make_image, free_image);
}
