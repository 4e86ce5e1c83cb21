/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changing a volume through fscore.h, and asking `btrfs check` about it afterwards: on volumes
 * of several formats.
 */
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

#include "base/util.h"
#include "tests/fscore/image.h"
#include "tests/fscore/writing.h"

/* A new volume with files in it, as mkfs.btrfs makes it with these options. */
static void make_volume(const char *options)
{
	size_t bytes;
	char *data = image_make(options, &bytes);

	writing_make_of(data, bytes);
	free(data);
}

/* ------------------------------------------------------------------------- helpers */

static struct fsc_inode *make(struct fsc_inode *dir, const char *name, uint32_t mode)
{
	struct fsc_new n = {.mode = mode, .uid = 7, .gid = 8};
	struct fsc_inode *inode;

	assert_int_equal(fsc_create(&w.ctx, dir, name, strlen(name), &n, &inode), 0);
	return inode;
}

static void write_at(struct fsc_inode *inode, uint64_t off, size_t len, unsigned seed)
{
	uint8_t *buf = malloc(len);
	struct iovec iov = {buf, len};

	for (size_t i = 0; i < len; i++)
		buf[i] = image_byte(seed, off + i);
	assert_int_equal(fsc_write(&w.ctx, inode, off, &iov, 1), 0);
	free(buf);
}

/* The file has these bytes at off (seed), or zeros (seed 0). */
static void expect_bytes(struct fsc_inode *inode, uint64_t off, size_t len, unsigned seed)
{
	struct fsc_read rd = {.file_off = off, .len_bytes = len};
	size_t done = 0;

	assert_int_equal(fsc_read(&w.ctx, inode, &rd), 0);
	assert_int_equal(rd.result_bytes, len);
	for (unsigned k = 0; k < rd.n_iov; k++)
		for (size_t i = 0; i < rd.iov[k].iov_len; i++, done++)
			if (((uint8_t *)rd.iov[k].iov_base)[i] !=
				(seed ? image_byte(seed, off + done) : 0))
				fail_msg("wrong byte at %llu", (unsigned long long)(off + done));
	fsc_read_release(&rd);
}

static struct fsc_inode *find(struct fsc_inode *dir, const char *name)
{
	struct fsc_inode *inode;
	int ret = fsc_lookup(&w.ctx, dir, name, strlen(name), &inode);

	if (ret)
		fail_msg("%s: %d", name, ret);
	return inode;
}

/* --------------------------------------------------------------------------- cases */

static void test_open_and_close_for_writing_changes_nothing(void **state)
{
	(void)state;
	make_volume("");
	writing_end();
}

static void test_create_names_are_there_after_reopening(void **state)
{
	struct fsc_new link = {.mode = S_IFLNK | 0777, .target = "some/where"};
	struct fsc_new dev = {.mode = S_IFCHR | 0600, .rdev_major = 5, .rdev_minor = 70000};
	struct fsc_inode *inode, *dir;
	struct fsc_attr attr;
	char buf[64];
	size_t len;

	(void)state;
	make_volume("");
	fsc_inode_put(make(w.root, "new", S_IFREG | 0644));
	dir = make(w.root, "newdir", S_IFDIR | 0750);
	fsc_inode_put(make(dir, "deep", S_IFIFO | 0600));
	assert_int_equal(fsc_create(&w.ctx, dir, "sym", 3, &link, &inode), 0);
	fsc_inode_put(inode);
	assert_int_equal(fsc_create(&w.ctx, dir, "dev", 3, &dev, &inode), 0);
	fsc_inode_put(inode);
	assert_int_equal(fsc_create(&w.ctx, dir, "dev", 3, &dev, &inode), -EEXIST);
	fsc_inode_put(dir);
	writing_reopen();
	inode = find(w.root, "new");
	fsc_inode_attr(inode, &attr);
	assert_int_equal(attr.mode, S_IFREG | 0644);
	assert_int_equal(attr.uid, 7);
	assert_int_equal(attr.nlink, 1);
	fsc_inode_put(inode);
	dir = find(w.root, "newdir");
	inode = find(dir, "dev");
	fsc_inode_attr(inode, &attr);
	assert_int_equal(attr.rdev_major, 5);
	assert_int_equal(attr.rdev_minor, 70000);
	fsc_inode_put(inode);
	inode = find(dir, "sym");
	assert_int_equal(fsc_readlink(&w.ctx, inode, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, 10);
	assert_memory_equal(buf, "some/where", 10);
	fsc_inode_put(inode);
	fsc_inode_put(dir);
	writing_end();
}

static void test_write_content_is_there_after_reopening(void **state)
{
	struct fsc_inode *inode;

	(void)state;
	make_volume("");
	inode = make(w.root, "small", S_IFREG | 0644);
	write_at(inode, 0, 100, 1);
	fsc_inode_put(inode);
	inode = make(w.root, "large", S_IFREG | 0644);
	for (unsigned i = 0; i < 20; i++)
		write_at(inode, i * 300000ull, 300000, 2);
	/* over what is there, unaligned, and a hole */
	write_at(inode, 1000001, 5000, 2);
	write_at(inode, 8000000, 10, 2);
	assert_int_equal(writing_sync(inode), 0);
	write_at(inode, 4096, 8192, 3);
	fsc_inode_put(inode);
	writing_reopen();
	inode = find(w.root, "small");
	expect_bytes(inode, 0, 100, 1);
	fsc_inode_put(inode);
	inode = find(w.root, "large");
	expect_bytes(inode, 0, 4096, 2);
	expect_bytes(inode, 4096, 8192, 3);
	expect_bytes(inode, 12288, 2000000, 2);
	expect_bytes(inode, 5000000, 1000000, 2);
	expect_bytes(inode, 6000000, 2000000, 0);
	expect_bytes(inode, 8000000, 10, 2);
	fsc_inode_put(inode);
	writing_end();
}

static int set_size(struct fsc_inode *inode, uint64_t size)
{
	struct fsc_setattr set = {.mask = FSC_SET_SIZE, .size_bytes = size};

	return fsc_setattr(&w.ctx, inode, &set);
}

static void test_truncate_both_ways_shows_zeros_and_never_old_bytes(void **state)
{
	struct fsc_inode *inode;

	(void)state;
	make_volume("");
	inode = make(w.root, "f", S_IFREG | 0644);
	write_at(inode, 0, 1000000, 4);
	assert_int_equal(writing_sync(inode), 0);
	assert_int_equal(set_size(inode, 500001), 0);
	assert_int_equal(set_size(inode, 900000), 0);
	expect_bytes(inode, 0, 500001, 4);
	expect_bytes(inode, 500001, 399999, 0);
	assert_int_equal(writing_sync(inode), 0);
	assert_int_equal(set_size(inode, 100), 0);
	assert_int_equal(set_size(inode, 3000), 0);
	fsc_inode_put(inode);
	inode = make(w.root, "g", S_IFREG | 0644);
	write_at(inode, 0, 50, 5);
	assert_int_equal(writing_sync(inode), 0);
	assert_int_equal(set_size(inode, 1ull << 40), 0);
	fsc_inode_put(inode);
	writing_reopen();
	inode = find(w.root, "f");
	expect_bytes(inode, 0, 100, 4);
	expect_bytes(inode, 100, 2900, 0);
	fsc_inode_put(inode);
	inode = find(w.root, "g");
	expect_bytes(inode, 0, 50, 5);
	expect_bytes(inode, 50, 100000, 0);
	fsc_inode_put(inode);
	writing_end();
}

/* The end moves to places that are dirty, holes, or not there yet, before anything is on disk. */
static void test_truncate_before_anything_is_on_disk(void **state)
{
	const char *const formats[] = {"", "-O ^no-holes"};

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(formats); f++) {
		struct fsc_inode *a, *b, *c;

		make_volume(formats[f]);
		a = make(w.root, "a", S_IFREG | 0644);
		write_at(a, 4096, 70000, 1);
		assert_int_equal(set_size(a, 60000), 0);
		b = make(w.root, "b", S_IFREG | 0644);
		write_at(b, 0, 5000, 2);
		write_at(b, 900000, 5000, 2);
		assert_int_equal(set_size(b, 400000), 0);
		c = make(w.root, "c", S_IFREG | 0644);
		write_at(c, 0, 80, 3);
		write_at(c, 100000, 80, 3);
		assert_int_equal(set_size(c, 50), 0);
		assert_int_equal(set_size(c, 70000), 0);
		fsc_inode_put(a);
		fsc_inode_put(b);
		fsc_inode_put(c);
		writing_reopen();
		a = find(w.root, "a");
		expect_bytes(a, 0, 4096, 0);
		expect_bytes(a, 4096, 60000 - 4096, 1);
		b = find(w.root, "b");
		expect_bytes(b, 0, 5000, 2);
		expect_bytes(b, 5000, 395000, 0);
		c = find(w.root, "c");
		expect_bytes(c, 0, 50, 3);
		expect_bytes(c, 50, 69950, 0);
		fsc_inode_put(a);
		fsc_inode_put(b);
		fsc_inode_put(c);
		writing_end();
	}
}

static void test_unlink_rename_link_move_names(void **state)
{
	struct fsc_inode *a, *d1, *d2, *x;
	struct fsc_attr attr;

	(void)state;
	make_volume("");
	d1 = make(w.root, "d1", S_IFDIR | 0755);
	d2 = make(d1, "d2", S_IFDIR | 0755);
	a = make(d1, "a", S_IFREG | 0644);
	write_at(a, 0, 20000, 6);
	assert_int_equal(fsc_link(&w.ctx, a, d2, "b", 1), 0);
	assert_int_equal(fsc_link(&w.ctx, a, d2, "b", 1), -EEXIST);
	fsc_inode_attr(a, &attr);
	assert_int_equal(attr.nlink, 2);
	assert_int_equal(fsc_rename(&w.ctx, d1, "a", 1, d2, "b", 1), 0); /* the same file */
	assert_int_equal(fsc_unlink(&w.ctx, d2, "b", 1), 0);
	assert_int_equal(fsc_rmdir(&w.ctx, w.root, "d1", 2), -ENOTEMPTY);
	assert_int_equal(fsc_unlink(&w.ctx, w.root, "d1", 2), -EISDIR);
	assert_int_equal(fsc_rmdir(&w.ctx, d1, "a", 1), -ENOTDIR);
	assert_int_equal(fsc_rename(&w.ctx, w.root, "d1", 2, d2, "z", 1), -EINVAL);
	fsc_inode_put(make(d2, "victim", S_IFREG | 0600));
	assert_int_equal(fsc_rename(&w.ctx, d1, "a", 1, d2, "victim", 6), 0);
	x = find(d2, "victim");
	assert_ptr_equal(x, a);
	expect_bytes(x, 0, 20000, 6);
	fsc_inode_put(x);
	assert_int_equal(fsc_lookup(&w.ctx, d1, "a", 1, &x), -ENOENT);
	assert_int_equal(fsc_rename(&w.ctx, d1, "d2", 2, w.root, "moved", 5), 0);
	assert_int_equal(fsc_rmdir(&w.ctx, w.root, "d1", 2), 0);
	fsc_inode_put(a);
	fsc_inode_put(d1);
	fsc_inode_put(d2);
	writing_reopen();
	d2 = find(w.root, "moved");
	x = find(d2, "victim");
	expect_bytes(x, 0, 20000, 6);
	assert_int_equal(fsc_unlink(&w.ctx, d2, "victim", 6), 0);
	fsc_inode_put(x);
	fsc_inode_put(d2);
	assert_int_equal(fsc_rmdir(&w.ctx, w.root, "moved", 5), 0);
	assert_int_equal(fsc_lookup(&w.ctx, w.root, "d1", 2, &x), -ENOENT);
	writing_end();
}

/* Without waiting, if that can be done now. Returns whether it was. */
static bool unlink_trying(struct fsc_inode *dir, const char *name)
{
	struct fsc_ctx try = {.thread = w.thread, .flags = FSC_NOWAIT};
	int ret = fsc_unlink(&try, dir, name, strlen(name));

	if (ret == -EAGAIN)
		assert_int_equal(fsc_unlink(&w.ctx, dir, name, strlen(name)), 0);
	else
		assert_int_equal(ret, 0);
	return !ret;
}

static void test_many_files_come_and_go(void **state)
{
	const char *const formats[] = {"", "-n 4096", "-n 65536 --csum xxhash", "-M",
		"-O ^no-holes", "-d dup --csum sha256", "-R ^free-space-tree",
		"-M -R ^free-space-tree"};

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(formats); f++) {
		struct fsc_inode *dir, *inode;
		unsigned at_once = 0;
		char name[300];

		make_volume(formats[f]);
		dir = make(w.root, "many", S_IFDIR | 0755);
		for (unsigned i = 0; i < 1500; i++) {
			snprintf(name, sizeof(name), "file-%u-%0*u", i, i % 100 + 1, i);
			inode = make(dir, name, S_IFREG | 0644);
			write_at(inode, i % 3 ? 0 : i * 5, i * 7 % 20000 + 1, i + 1);
			if (i % 50 == 0)
				assert_int_equal(writing_sync(inode), 0);
			fsc_inode_put(inode);
		}
		writing_reopen();
		dir = find(w.root, "many");
		for (unsigned i = 0; i < 1500; i++) {
			snprintf(name, sizeof(name), "file-%u-%0*u", i, i % 100 + 1, i);
			inode = find(dir, name);
			expect_bytes(inode, i % 3 ? 0 : i * 5, i * 7 % 20000 + 1, i + 1);
			fsc_inode_put(inode);
			if (i % 4 == 1)
				assert_int_equal(fsc_unlink(&w.ctx, dir, name, strlen(name)), 0);
			else if (i % 4 == 3)
				at_once += unlink_trying(dir, name);
		}
		fsc_inode_put(dir);
		assert_true(at_once > 0);
		writing_end();
	}
}

/* The same places over and over, in several transactions and within one. */
static void test_overwrite_the_last_content_wins(void **state)
{
	unsigned last[64] = {0};
	struct fsc_inode *inode;

	(void)state;
	make_volume("");
	inode = make(w.root, "o", S_IFREG | 0644);
	srandom(5);
	write_at(inode, 0, sizeof(last) / sizeof(*last) * 4096, 1);
	for (unsigned i = 0; i < 64; i++)
		last[i] = 1;
	for (unsigned round = 2; round < 4000; round++) {
		unsigned page = (unsigned)random() % 64;

		write_at(inode, page * 4096, 4096, round);
		last[page] = round;
		if (round % 7 == 0)
			fsc_thread_reap(w.thread);
		if (round % 50 == 0)
			assert_int_equal(writing_sync(inode), 0);
	}
	fsc_inode_put(inode);
	writing_reopen();
	inode = find(w.root, "o");
	for (unsigned i = 0; i < 64; i++)
		expect_bytes(inode, i * 4096, 4096, last[i]);
	fsc_inode_put(inode);
	writing_end();
}

/* Nobody has the file any more when its data is lost, and many others come after it. */
static void test_sync_hears_of_lost_data_of_a_file_long_out_of_use(void **state)
{
	struct fault_rule rule = {
		.op[IO_WRITE] = true, .action = FAULT_ERROR, .error = -EIO, .count = 1};
	struct fsc_inode *inode;
	char name[32];

	(void)state;
	w.cache_bytes = 1;
	make_volume("");
	inode = make(w.root, "lost", S_IFREG | 0644);
	assert_int_equal(writing_sync(inode), 0);
	write_at(inode, 0, 20000, 1);
	fsc_inode_put(inode);
	assert_int_equal(dev_fault_add(w.fault, &rule), 0);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), -EIO);
	for (unsigned i = 0; i < 2 * w.vol->inodes_per_shard * INODE_SHARDS; i++) {
		snprintf(name, sizeof(name), "other-%u", i);
		fsc_inode_put(make(w.root, name, S_IFREG | 0644));
		if (i % 500 == 0)
			assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	}
	inode = find(w.root, "lost");
	assert_int_equal(writing_sync(inode), -EIO);
	assert_int_equal(writing_sync(inode), 0);
	fsc_inode_put(inode);
	writing_end();
	w.cache_bytes = 0;
}

static void test_xattrs_come_change_and_go(void **state)
{
	struct fsc_inode *inode;
	char value[4000], got[4000];
	size_t len;

	(void)state;
	memset(value, 'v', sizeof(value));
	make_volume("");
	inode = make(w.root, "x", S_IFREG | 0644);
	assert_int_equal(
		fsc_setxattr(&w.ctx, inode, "user.a", "1", 1, FSC_XATTR_REPLACE), -ENODATA);
	assert_int_equal(fsc_setxattr(&w.ctx, inode, "user.a", "1", 1, 0), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, inode, "user.a", "2", 1, FSC_XATTR_CREATE), -EEXIST);
	assert_int_equal(fsc_setxattr(&w.ctx, inode, "user.a", value, sizeof(value), 0), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, inode, "user.b", "", 0, 0), 0);
	assert_int_equal(fsc_removexattr(&w.ctx, inode, "user.none"), -ENODATA);
	fsc_inode_put(inode);
	writing_reopen();
	inode = find(w.root, "x");
	assert_int_equal(fsc_getxattr(&w.ctx, inode, "user.a", got, sizeof(got), &len), 0);
	assert_int_equal(len, sizeof(value));
	assert_memory_equal(got, value, len);
	assert_int_equal(fsc_removexattr(&w.ctx, inode, "user.a"), 0);
	assert_int_equal(fsc_getxattr(&w.ctx, inode, "user.a", got, sizeof(got), &len), -ENODATA);
	assert_int_equal(fsc_getxattr(&w.ctx, inode, "user.b", got, sizeof(got), &len), 0);
	assert_int_equal(len, 0);
	fsc_inode_put(inode);
	writing_end();
}

static void test_setattr_guard_and_times(void **state)
{
	struct fsc_setattr set = {
		.mask = FSC_SET_MODE | FSC_SET_MTIME, .mode = 0711, .mtime = {-5, 7}};
	struct fsc_inode *inode;
	struct fsc_attr before, after;

	(void)state;
	make_volume("");
	inode = make(w.root, "s", S_IFREG | 0644);
	fsc_inode_attr(inode, &before);
	set.has_guard = true;
	set.guard = before.ctime;
	assert_int_equal(fsc_setattr(&w.ctx, inode, &set), 0);
	assert_int_equal(fsc_setattr(&w.ctx, inode, &set), -EREMCHG);
	fsc_inode_put(inode);
	writing_reopen();
	inode = find(w.root, "s");
	fsc_inode_attr(inode, &after);
	assert_int_equal(after.mode, S_IFREG | 0711);
	assert_true(after.mtime.sec == -5 && after.mtime.nsec == 7);
	assert_true(after.change > before.change);
	fsc_inode_put(inode);
	writing_end();
}

static void test_exclusive_verifier_is_kept_whole(void **state)
{
	struct fsc_new n = {.mode = S_IFREG | 0600,
		.has_verifier = true,
		.verifier = {255, 255, 255, 255, 255, 255, 255, 254}};
	const uint8_t other[8] = {255, 255, 255, 255, 255, 255, 255, 255};
	struct fsc_setattr set = {.mask = FSC_SET_MODE, .mode = 0644};
	struct fsc_inode *inode;

	(void)state;
	make_volume("");
	assert_int_equal(fsc_create(&w.ctx, w.root, "e", 1, &n, &inode), 0);
	fsc_inode_put(inode);
	writing_reopen();
	inode = find(w.root, "e");
	assert_int_equal(fsc_verifier_check(&w.ctx, inode, n.verifier), 0);
	assert_int_equal(fsc_verifier_check(&w.ctx, inode, other), -EEXIST);
	assert_int_equal(fsc_setattr(&w.ctx, inode, &set), 0);
	assert_int_equal(fsc_verifier_check(&w.ctx, inode, n.verifier), -EEXIST);
	fsc_inode_put(inode);
	writing_end();
}

/* Nothing has been loaded or joined yet: the chunk tree's blocks need space all the same. */
static void test_make_chunk_as_the_first_change(void **state)
{
	(void)state;
	writing_make("-m single");
	assert_int_equal(txn_make_chunk(&w.ctx, &w.vol->w->txns, SPACE_METADATA), 0);
	writing_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_make_chunk_as_the_first_change),
		cmocka_unit_test(test_open_and_close_for_writing_changes_nothing),
		cmocka_unit_test(test_create_names_are_there_after_reopening),
		cmocka_unit_test(test_write_content_is_there_after_reopening),
		cmocka_unit_test(test_truncate_both_ways_shows_zeros_and_never_old_bytes),
		cmocka_unit_test(test_truncate_before_anything_is_on_disk),
		cmocka_unit_test(test_unlink_rename_link_move_names),
		cmocka_unit_test(test_many_files_come_and_go),
		cmocka_unit_test(test_overwrite_the_last_content_wins),
		cmocka_unit_test(test_sync_hears_of_lost_data_of_a_file_long_out_of_use),
		cmocka_unit_test(test_xattrs_come_change_and_go),
		cmocka_unit_test(test_setattr_guard_and_times),
		cmocka_unit_test(test_exclusive_verifier_is_kept_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
