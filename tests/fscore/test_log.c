/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log: each case changes a volume after its last commit and syncs, so that the log has it. A copy of
 * the volume's file then is what a crash leaves; opened, it must be what it was, and `btrfs check` find
 * nothing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "tests/fscore/writing.h"

/* ------------------------------------------------------------------------ what there is */

static struct fsc_inode *lookup(struct fsc_inode *dir, const char *name)
{
	struct fsc_inode *inode = NULL;
	int ret = fsc_lookup(&w.ctx, dir, name, strlen(name), &inode);

	assert_true(ret == 0 || ret == -ENOENT);
	return inode;
}

static struct fsc_inode *make(struct fsc_inode *dir, const char *name, uint32_t mode)
{
	struct fsc_new n = {.mode = mode, .uid = 7, .gid = 8};
	struct fsc_inode *inode;

	if (S_ISLNK(mode))
		n.target = "where it leads";
	assert_int_equal(fsc_create(&w.ctx, dir, name, strlen(name), &n, &inode), 0);
	return inode;
}

static struct fsc_inode *make_file(struct fsc_inode *dir, const char *name)
{
	return make(dir, name, S_IFREG | 0644);
}

static void fill(struct fsc_inode *inode, uint64_t off, size_t len, char what)
{
	char *buf = malloc(len);
	struct iovec iov = {buf, len};

	assert_non_null(buf);
	memset(buf, what, len);
	assert_int_equal(fsc_write(&w.ctx, inode, off, &iov, 1), 0);
	free(buf);
}

static void set_size(struct fsc_inode *inode, uint64_t size)
{
	struct fsc_setattr set = {.mask = FSC_SET_SIZE, .size_bytes = size};

	assert_int_equal(fsc_setattr(&w.ctx, inode, &set), 0);
}

static bool ended;

static void on_sync(struct fsc_sync *sync)
{
	(void)sync;
	ended = true;
}

static int try_sync_names(void)
{
	struct fsc_sync sync = {.thread = w.thread, .done = on_sync};
	int ret;

	ended = false;
	ret = fsc_sync_names(w.vol, &sync);
	while (ret == -EINPROGRESS && !ended)
		fsc_thread_wait(w.thread);
	return ret == -EINPROGRESS ? sync.status : ret;
}

static void sync_names(void)
{
	assert_int_equal(try_sync_names(), 0);
}

/* All that can be seen of a tree, in one string. */
struct listing {
	char text[1 << 16];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct listing *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	l->len += (size_t)vsnprintf(l->text + l->len, sizeof(l->text) - l->len, fmt, ap);
	va_end(ap);
	assert_true(l->len < sizeof(l->text));
}

struct names {
	char name[64][64];
	unsigned n;
};

static bool take_name(void *arg, const struct fsc_dirent *e)
{
	struct names *names = arg;

	assert_true(names->n < 64 && e->name_len < 64);
	memcpy(names->name[names->n], e->name, e->name_len);
	names->name[names->n++][e->name_len] = '\0';
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void list_content(struct listing *l, struct fsc_inode *inode, uint64_t size)
{
	uint64_t sum = 0;

	for (uint64_t off = 0; off < size; off += 1u << 20) {
		struct fsc_read rd = {.file_off = off, .len_bytes = 1u << 20};

		assert_int_equal(fsc_read(&w.ctx, inode, &rd), 0);
		for (unsigned k = 0; k < rd.n_iov; k++)
			for (size_t i = 0; i < rd.iov[k].iov_len; i++)
				sum = hash_mix64(sum + ((uint8_t *)rd.iov[k].iov_base)[i]);
		fsc_read_release(&rd);
	}
	add(l, " %llx", (unsigned long long)sum);
}

static void list_xattrs(struct listing *l, struct fsc_inode *inode)
{
	char names[1024], value[1024];
	size_t bytes, len;

	assert_int_equal(fsc_listxattr(&w.ctx, inode, names, sizeof(names), &bytes), 0);
	for (size_t at = 0; at < bytes; at += strlen(names + at) + 1) {
		assert_int_equal(
			fsc_getxattr(&w.ctx, inode, names + at, value, sizeof(value), &len), 0);
		add(l, " %s=%.*s", names + at, (int)len, value);
	}
}

static void list_one(struct listing *l, struct fsc_inode *inode, const char *path);

static void list_entries(struct listing *l, struct fsc_inode *dir, const char *path)
{
	struct names names = {.n = 0};
	bool eof;

	assert_int_equal(fsc_readdir(&w.ctx, dir, 0, UINT64_MAX, 0, take_name, &names, &eof), 0);
	qsort(names.name, names.n, sizeof(names.name[0]), by_name);
	for (unsigned i = 0; i < names.n; i++) {
		struct fsc_inode *inode = lookup(dir, names.name[i]);
		char below[256];

		assert_non_null(inode);
		snprintf(below, sizeof(below), "%s/%s", path, names.name[i]);
		list_one(l, inode, below);
		fsc_inode_put(inode);
	}
}

static void list_one(struct listing *l, struct fsc_inode *inode, const char *path)
{
	struct fsc_attr a;

	fsc_inode_attr(inode, &a);
	add(l, "%s: %llu %o %u %u %llu", path, (unsigned long long)a.ino, a.mode, a.nlink, a.uid,
		(unsigned long long)a.size_bytes);
	if (S_ISREG(a.mode)) {
		add(l, " %llu %lld.%u", (unsigned long long)a.used_bytes, (long long)a.mtime.sec,
			a.mtime.nsec);
		list_content(l, inode, a.size_bytes);
	}
	list_xattrs(l, inode);
	add(l, "\n");
	if (S_ISDIR(a.mode))
		list_entries(l, inode, path);
}

static struct listing *list_all(void)
{
	struct listing *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	list_one(l, w.root, "");
	return l;
}

/* ---------------------------------------------------------------------------- the crash */

static struct txn_stats stats(void)
{
	struct txn_stats s;

	txn_stats_get(&w.vol->w->txns, &s);
	return s;
}

static void copy_volume(const char *to)
{
	char command[256];

	snprintf(command, sizeof(command), "cp --sparse=always %s %s", w.path, to);
	assert_int_equal(system(command), 0);
}

static void put(struct fsc_inode **inodes, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fsc_inode_put(inodes[i]);
}

/*
 * All has been synced: the copy, opened, has what we have now. Goes on with the copy, so that it is
 * checked as well. logged: no commit has been needed since `before`.
 */
static void crash(const struct txn_stats *before, bool logged)
{
	struct txn_stats now = stats();
	struct listing *is = list_all(), *was;
	char copy[sizeof(w.path)];

	if (logged) {
		assert_int_equal(now.commits, before->commits);
		assert_true(now.log_writes > before->log_writes);
	} else {
		assert_true(now.commits > before->commits);
	}
	snprintf(copy, sizeof(copy), "%.50s.crash", w.path);
	copy_volume(copy);
	writing_end();
	strcpy(w.path, copy);
	writing_load();
	was = list_all();
	if (strcmp(is->text, was->text))
		fail_msg("was:\n%sis after the crash:\n%s", is->text, was->text);
	free(is);
	free(was);
	writing_end();
}

/* What the last commit has: dir, dir/one, dir/two, dir/sub, dir/sub/deep, large. */
struct base {
	struct fsc_inode *dir, *one, *two, *sub, *deep, *large;
	struct txn_stats before;
};

static struct base begin(const char *mkfs_options)
{
	struct base b;

	writing_make(mkfs_options);
	b.dir = make(w.root, "dir", S_IFDIR | 0755);
	b.one = make_file(b.dir, "one");
	b.two = make_file(b.dir, "two");
	b.sub = make(b.dir, "sub", S_IFDIR | 0755);
	b.deep = make_file(b.sub, "deep");
	b.large = make_file(w.root, "large");
	fill(b.one, 0, 5000, '1');
	fill(b.two, 0, 500, '2');
	fill(b.large, 0, 300000, 'l');
	assert_int_equal(fsc_setxattr(&w.ctx, b.one, "user.first", "a", 1, 0), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, b.one, "user.second", "b", 1, 0), 0);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	b.before = stats();
	return b;
}

static void end(struct base *b, bool logged)
{
	struct fsc_inode *all[] = {b->dir, b->one, b->two, b->sub, b->deep, b->large};

	put(all, ARRAY_SIZE(all));
	crash(&b->before, logged);
}

static int do_rename(
	struct fsc_inode *from_dir, const char *from, struct fsc_inode *to_dir, const char *to)
{
	return fsc_rename(&w.ctx, from_dir, from, strlen(from), to_dir, to, strlen(to));
}

static int do_unlink(struct fsc_inode *dir, const char *name)
{
	return fsc_unlink(&w.ctx, dir, name, strlen(name));
}

/* -------------------------------------------------------------------------------- cases */

static void test_new_files_are_in_the_log(void **state)
{
	struct base b = begin("");

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		struct fsc_inode *file;
		char name[16];

		snprintf(name, sizeof(name), "new-%u", i);
		file = make_file(b.dir, name);
		if (i % 4)
			fill(file, 0, i * 700, (char)('a' + i % 26));
		assert_int_equal(writing_sync(file), 0);
		fsc_inode_put(file);
	}
	end(&b, true);
}

static void test_all_types_and_new_directories(void **state)
{
	struct base b = begin("");
	struct fsc_inode *top = make(w.root, "x", S_IFDIR | 0755);
	struct fsc_inode *all[] = {top, make(top, "y", S_IFDIR | 0700),
		make(top, "link", S_IFLNK | 0777), make(top, "fifo", S_IFIFO | 0600),
		make(b.sub, "f", S_IFREG | 0600)};
	struct fsc_inode *below = make_file(all[1], "below");

	(void)state;
	fill(below, 0, 9000, 'z');
	assert_int_equal(writing_sync(below), 0);
	fsc_inode_put(below);
	put(all, ARRAY_SIZE(all));
	end(&b, true);
}

static void test_content_changes_of_old_files(void **state)
{
	struct base b = begin("");

	(void)state;
	fill(b.large, 100000, 9000, 'm');
	assert_int_equal(writing_sync(b.large), 0);
	/* Into what the log has, at both ends and in the middle. */
	fill(b.large, 95000, 8000, 'n');
	assert_int_equal(writing_sync(b.large), 0);
	fill(b.large, 104000, 100, 'o');
	fill(b.large, 299000, 50000, 'p');
	assert_int_equal(writing_sync(b.large), 0);
	/* Inline, and then not any more. */
	fill(b.two, 400, 300, '3');
	assert_int_equal(writing_sync(b.two), 0);
	fill(b.two, 600, 20000, '4');
	assert_int_equal(writing_sync(b.two), 0);
	end(&b, true);
}

static void test_truncate_down_and_up_does_not_bring_old_bytes_back(void **state)
{
	struct base b = begin("");

	(void)state;
	set_size(b.large, 5000);
	set_size(b.large, 250000);
	fill(b.large, 200000, 10, 'q');
	assert_int_equal(writing_sync(b.large), 0);
	fill(b.one, 0, 100000, 'r');
	assert_int_equal(writing_sync(b.one), 0);
	set_size(b.one, 50000);
	sync_names();
	set_size(b.one, 70000);
	sync_names();
	end(&b, false);
}

static void test_names_are_removed_renamed_and_replaced(void **state)
{
	struct base b = begin("");
	struct fsc_inode *fresh = make_file(w.root, "fresh");

	(void)state;
	fill(fresh, 0, 7000, 'f');
	assert_int_equal(writing_sync(fresh), 0);
	assert_int_equal(do_rename(w.root, "fresh", w.root, "large"), 0);
	sync_names();
	assert_int_equal(do_rename(b.dir, "one", b.sub, "moved"), 0);
	sync_names();
	assert_int_equal(do_rename(b.sub, "moved", b.sub, "moved-on"), 0);
	assert_int_equal(do_unlink(b.sub, "deep"), 0);
	sync_names();
	/* Both ways, through a third name. */
	fsc_inode_put(make_file(b.dir, "three"));
	assert_int_equal(do_rename(b.dir, "two", b.dir, "tmp"), 0);
	assert_int_equal(do_rename(b.dir, "three", b.dir, "two"), 0);
	assert_int_equal(do_rename(b.dir, "tmp", b.dir, "three"), 0);
	sync_names();
	fsc_inode_put(fresh);
	end(&b, true);
}

static void test_what_has_come_and_gone_leaves_nothing(void **state)
{
	struct base b = begin("");

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct fsc_inode *file = make_file(b.dir, "short-lived");

		fill(file, 0, 20000, 's');
		if (i % 2)
			assert_int_equal(writing_sync(file), 0);
		assert_int_equal(do_unlink(b.dir, "short-lived"), 0);
		if (i % 3)
			sync_names();
		fsc_inode_put(file);
	}
	assert_int_equal(do_unlink(b.dir, "one"), 0);
	fsc_inode_put(make_file(b.dir, "one"));
	sync_names();
	end(&b, true);
}

static void test_directory_is_emptied_and_removed(void **state)
{
	struct base b = begin("");
	struct fsc_inode *made = make(b.dir, "made", S_IFDIR | 0755);

	(void)state;
	sync_names();
	assert_int_equal(do_rename(b.sub, "deep", made, "deep"), 0);
	assert_int_equal(fsc_rmdir(&w.ctx, b.dir, "sub", 3), 0);
	sync_names();
	assert_int_equal(do_unlink(made, "deep"), 0);
	assert_int_equal(fsc_rmdir(&w.ctx, b.dir, "made", 4), 0);
	sync_names();
	fsc_inode_put(made);
	end(&b, true);
}

static void test_attributes_and_xattrs(void **state)
{
	struct base b = begin("");
	struct fsc_setattr set = {.mask = FSC_SET_MODE | FSC_SET_UID, .mode = 0640, .uid = 99};
	struct fsc_inode *fresh = make_file(b.dir, "fresh");

	(void)state;
	assert_int_equal(fsc_setattr(&w.ctx, b.one, &set), 0);
	assert_int_equal(fsc_setattr(&w.ctx, b.dir, &set), 0);
	sync_names();
	assert_int_equal(fsc_removexattr(&w.ctx, b.one, "user.first"), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, b.one, "user.third", "ccc", 3, 0), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, b.sub, "user.of-sub", "d", 1, 0), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, fresh, "user.of-new", "e", 1, 0), 0);
	sync_names();
	assert_int_equal(fsc_removexattr(&w.ctx, b.one, "user.third"), 0);
	assert_int_equal(fsc_setxattr(&w.ctx, fresh, "user.of-new", "changed", 7, 0), 0);
	sync_names();
	fsc_inode_put(fresh);
	end(&b, true);
}

/* Content that was written before, and not committed, goes along with a change of attributes. */
static void test_open_file_without_a_name_is_not_logged(void **state)
{
	struct base b = begin("");

	(void)state;
	fill(b.large, 0, 50000, 'u');
	assert_int_equal(do_unlink(w.root, "large"), 0);
	sync_names();
	fill(b.two, 0, 10, 'v');
	assert_int_equal(writing_sync(b.two), 0);
	end(&b, true);
}

/* A directory that fills leaves, with ranges of indexes that come and go. */
static void test_many_names_in_one_directory(void **state)
{
	struct base b = begin("-n 4096 -m single");

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 300; i++) {
			char name[32];

			snprintf(name, sizeof(name), "round-%u-%u", round, i);
			fsc_inode_put(make_file(b.sub, name));
			if (i % 7 == 0)
				sync_names();
		}
		for (unsigned i = 0; i < 300; i++) {
			char name[32];

			snprintf(name, sizeof(name), "round-%u-%u", round, i);
			if (i % 50)
				assert_int_equal(do_unlink(b.sub, name), 0);
			if (i % 9 == 0)
				sync_names();
		}
	}
	sync_names();
	end(&b, true);
}

static void test_compressed_data(void **state)
{
	struct base b = begin("");
	struct fsc_inode *file;

	(void)state;
	/* The first one says in the superblock what it needs: not in a log. */
	assert_int_equal(fsc_subvol_set_compress(&w.ctx, w.vol, FSC_SUBVOL_TOP, "zstd"), 0);
	fill(b.one, 0, 200000, 'c');
	assert_int_equal(writing_sync(b.one), 0);
	assert_true(stats().commits > b.before.commits);
	b.before = stats();
	file = make_file(b.dir, "packed");
	fill(file, 0, 500000, 'p');
	assert_int_equal(writing_sync(file), 0);
	fill(file, 60000, 5000, 'q');
	assert_int_equal(writing_sync(file), 0);
	fsc_inode_put(file);
	end(&b, true);
}

/* -- what the log can't say -- */

static void test_links_and_moved_directories_are_committed(void **state)
{
	struct base b = begin("");

	(void)state;
	assert_int_equal(fsc_link(&w.ctx, b.one, b.sub, "linked", 6), 0);
	sync_names();
	assert_true(stats().commits == b.before.commits + 1);
	assert_int_equal(do_unlink(b.dir, "one"), 0);
	sync_names();
	assert_true(stats().commits == b.before.commits + 2);
	assert_int_equal(do_rename(b.dir, "sub", w.root, "sub"), 0);
	sync_names();
	assert_true(stats().commits == b.before.commits + 3);
	/* And then there is a log again. */
	fsc_inode_put(make_file(b.dir, "more"));
	sync_names();
	assert_true(stats().commits == b.before.commits + 3);
	end(&b, false);
}

static void test_without_no_holes_all_is_committed(void **state)
{
	struct base b = begin("-O ^no-holes");

	(void)state;
	fill(b.large, 400000, 10, 'x');
	assert_int_equal(writing_sync(b.large), 0);
	assert_int_equal(stats().log_writes, 0);
	end(&b, false);
}

static void churn(struct fsc_inode *dir)
{
	fsc_inode_put(make_file(dir, "again"));
	assert_int_equal(do_unlink(dir, "again"), 0);
}

/* Nobody waits for what is noted: it does not pile up. */
static void test_many_notes_that_nobody_wants_are_dropped(void **state)
{
	struct base b = begin("");

	(void)state;
	for (size_t i = 0; i < LOG_NOTES_MAX_BYTES / sizeof(struct log_note) / 2; i++)
		churn(i % 2 ? b.dir : b.sub);
	sync_names();
	end(&b, false);
}

/* The log can't be written once: the commit makes durable what was promised, and then there is a log again. */
static void test_log_that_is_not_written_is_a_commit(void **state)
{
	struct fault_rule rule = {
		.op[IO_WRITE] = true, .action = FAULT_ERROR, .count = 1, .error = -EIO};
	struct base b = begin("");

	(void)state;
	fsc_inode_put(make_file(b.dir, "logged"));
	sync_names();
	assert_int_equal(stats().commits, b.before.commits);
	assert_int_equal(dev_fault_add(w.fault, &rule), 0);
	assert_int_equal(do_unlink(b.dir, "one"), 0);
	fsc_inode_put(make_file(b.dir, "committed"));
	sync_names();
	assert_int_equal(stats().commits, b.before.commits + 1);
	dev_fault_clear(w.fault);
	b.before = stats();
	fsc_inode_put(make_file(b.dir, "logged-again"));
	sync_names();
	end(&b, true);
}

/* What a device that fails a flush has lost, nobody knows: no later one may vouch for it. */
static void test_flush_of_a_log_that_fails_ends_all_writing(void **state)
{
	struct fault_rule rule = {
		.op[IO_FLUSH] = true, .action = FAULT_ERROR, .count = 1, .error = -EIO};
	struct base b = begin("");

	(void)state;
	fsc_inode_put(make_file(b.dir, "logged"));
	sync_names();
	assert_int_equal(dev_fault_add(w.fault, &rule), 0);
	fsc_inode_put(make_file(b.dir, "lost"));
	assert_int_equal(try_sync_names(), -EIO);
	assert_false(fs_writable(w.vol));
	dev_fault_clear(w.fault);
	put((struct fsc_inode *[]){b.dir, b.one, b.two, b.sub, b.deep, b.large}, 6);
	writing_end();
}

/* Cut, and cut again further on: what the trees have behind the first cut stays gone. */
static void test_cut_twice_and_grown_does_not_bring_old_bytes_back(void **state)
{
	static const uint64_t sizes[] = {0, 4096, 0, 250000};
	struct base b = begin("");

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct fsc_setattr set = {.mask = FSC_SET_SIZE, .size_bytes = sizes[i]};

		assert_int_equal(fsc_setattr(&w.ctx, b.large, &set), 0);
		sync_names();
	}
	end(&b, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_files_are_in_the_log),
		cmocka_unit_test(test_all_types_and_new_directories),
		cmocka_unit_test(test_content_changes_of_old_files),
		cmocka_unit_test(test_truncate_down_and_up_does_not_bring_old_bytes_back),
		cmocka_unit_test(test_names_are_removed_renamed_and_replaced),
		cmocka_unit_test(test_what_has_come_and_gone_leaves_nothing),
		cmocka_unit_test(test_directory_is_emptied_and_removed),
		cmocka_unit_test(test_attributes_and_xattrs),
		cmocka_unit_test(test_open_file_without_a_name_is_not_logged),
		cmocka_unit_test(test_many_names_in_one_directory),
		cmocka_unit_test(test_compressed_data),
		cmocka_unit_test(test_links_and_moved_directories_are_committed),
		cmocka_unit_test(test_without_no_holes_all_is_committed),
		cmocka_unit_test(test_many_notes_that_nobody_wants_are_dropped),
		cmocka_unit_test(test_log_that_is_not_written_is_a_commit),
		cmocka_unit_test(test_flush_of_a_log_that_fails_ends_all_writing),
		cmocka_unit_test(test_cut_twice_and_grown_does_not_bring_old_bytes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
