/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Anybody can choose names that have one hash. All of them share an item, which has an end:
 * who goes beyond it gets an error, and nobody else notices. Entries of directories,
 * references from an inode to its names, extended attributes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "client-test/clash.h"
#include "tests/fscore/writing.h"

#define HASH	  0x5eed0107u
#define NAME_LEN  40u
#define MANY	  2000u
#define LONG_NAME 250u

static const char *const formats[] = {"-n 4096", "", "-n 4096 -O ^no-holes -m single"};

static void dir_name(unsigned number, char name[NAME_LEN])
{
	clash_name(CLASH_NAME_SEED, HASH, "n", number, name, NAME_LEN);
}

static struct fsc_inode *made(struct fsc_inode *dir, const char *name, uint32_t mode)
{
	struct fsc_new n = {.mode = mode};
	struct fsc_inode *inode;

	assert_int_equal(fsc_create(&w.ctx, dir, name, strlen(name), &n, &inode), 0);
	return inode;
}

static struct fsc_inode *found(struct fsc_inode *dir, const char *name, size_t len)
{
	struct fsc_inode *inode;

	assert_int_equal(fsc_lookup(&w.ctx, dir, name, len, &inode), 0);
	return inode;
}

/* A file, a directory, a symlink, a link of a file, a file renamed to it: by number. */
static int make_name(struct fsc_inode *dir, struct fsc_inode *file, unsigned number)
{
	static const uint32_t modes[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK | 0777};
	struct fsc_new n = {.target = "to"};
	struct fsc_inode *inode;
	char name[NAME_LEN];
	int ret;

	dir_name(number, name);
	switch (number % 5) {
	case 3:
		return fsc_link(&w.ctx, file, dir, name, NAME_LEN);
	case 4:
		fsc_inode_put(made(dir, "from", S_IFREG | 0600));
		ret = fsc_rename(&w.ctx, dir, "from", 4, dir, name, NAME_LEN);
		if (ret)
			assert_int_equal(fsc_unlink(&w.ctx, dir, "from", 4), 0);
		return ret;
	default:
		n.mode = modes[number % 5];
		if (!S_ISLNK(n.mode))
			n.target = NULL;
		ret = fsc_create(&w.ctx, dir, name, NAME_LEN, &n, &inode);
		if (!ret)
			fsc_inode_put(inode);
		return ret;
	}
}

static int remove_name(struct fsc_inode *dir, unsigned number)
{
	char name[NAME_LEN];

	dir_name(number, name);
	return number % 5 == 1 ? fsc_rmdir(&w.ctx, dir, name, NAME_LEN)
			       : fsc_unlink(&w.ctx, dir, name, NAME_LEN);
}

/* The names from..to are there, and the next is not. */
static void expect_names(struct fsc_inode *dir, unsigned from, unsigned to)
{
	struct fsc_inode *inode;
	char name[NAME_LEN];

	for (unsigned i = from; i < to; i++) {
		dir_name(i, name);
		fsc_inode_put(found(dir, name, NAME_LEN));
	}
	dir_name(to, name);
	assert_int_equal(fsc_lookup(&w.ctx, dir, name, NAME_LEN, &inode), -ENOENT);
}

/* Others go on as if nothing were, and all of it gets to the disk. */
static void expect_others_work(struct fsc_inode *dir)
{
	fsc_inode_put(made(dir, "other", S_IFREG | 0644));
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	assert_int_equal(fsc_unlink(&w.ctx, dir, "other", 5), 0);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
}

static void fill_a_directory(const char *format)
{
	struct fsc_inode *dir, *file;
	unsigned n = 0, refused = 0;

	writing_make(format);
	dir = made(w.root, "dir", S_IFDIR | 0755);
	file = made(dir, "file", S_IFREG | 0644);
	while (make_name(dir, file, n) == 0)
		n++;
	assert_true(n > 20 && n < MANY);
	for (unsigned kind = n; kind < n + 5; kind++)
		refused += make_name(dir, file, kind) == -EOVERFLOW;
	assert_int_equal(refused, 5);
	expect_names(dir, 0, n);
	expect_others_work(dir);
	/* One less, and there is room for one more. */
	assert_int_equal(remove_name(dir, n / 2), 0);
	assert_int_equal(make_name(dir, file, n / 2), 0);
	assert_int_equal(make_name(dir, file, n), -EOVERFLOW);
	fsc_inode_put(file);
	fsc_inode_put(dir);
	writing_reopen();
	dir = found(w.root, "dir", 3);
	expect_names(dir, 0, n);
	for (unsigned i = 0; i < n; i++) /* from the middle */
		assert_int_equal(remove_name(dir, (i + n / 2) % n), 0);
	assert_int_equal(fsc_unlink(&w.ctx, dir, "file", 4), 0);
	fsc_inode_put(dir);
	assert_int_equal(fsc_rmdir(&w.ctx, w.root, "dir", 3), 0);
	writing_end();
}

static void test_names_of_one_hash_are_refused_when_their_item_is_full(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		fill_a_directory(formats[i]);
}

/* ------------------------------------------------------- from an inode to its names */

/* So many links of a file in a directory that their INODE_REF item is full. */
static unsigned fill_refs(struct fsc_inode *dir, struct fsc_inode *file, size_t node_bytes)
{
	unsigned n = 0;

	for (size_t bytes = 0; bytes < node_bytes; bytes += LONG_NAME, n++) {
		char name[LONG_NAME + 1];

		snprintf(name, sizeof(name), "%0*u", (int)LONG_NAME, n);
		assert_int_equal(fsc_link(&w.ctx, file, dir, name, LONG_NAME), 0);
	}
	return n;
}

static int link_clashing(
	struct fsc_inode *dir, struct fsc_inode *file, unsigned number, char name[NAME_LEN])
{
	struct fsc_attr attr;

	fsc_inode_attr(dir, &attr);
	clash_name((uint32_t)attr.ino, HASH, "x", number, name, NAME_LEN);
	return fsc_link(&w.ctx, file, dir, name, NAME_LEN);
}

/* Links in several directories whose references from the inode share one item, until it is full. */
static void test_references_of_one_hash_are_refused_when_their_item_is_full(void **state)
{
	enum {
		DIRS = 8
	};
	struct fsc_inode *dirs[DIRS], *file;
	unsigned made_in[DIRS] = {0}, links = 1, total = 0;
	char text[8], name[NAME_LEN];
	struct fsc_attr attr;
	int ret = 0;

	(void)state;
	writing_make("-n 4096");
	file = made(w.root, "file", S_IFREG | 0644);
	for (unsigned d = 0; d < DIRS; d++) {
		snprintf(text, sizeof(text), "d%u", d);
		dirs[d] = made(w.root, text, S_IFDIR | 0755);
		links += fill_refs(dirs[d], file, 4096);
	}
	for (unsigned i = 0; !ret && i < MANY; i++) {
		ret = link_clashing(dirs[i % DIRS], file, i / DIRS, name);
		if (!ret)
			made_in[i % DIRS]++, total++;
	}
	assert_int_equal(ret, -EOVERFLOW);
	assert_true(total > 20);
	for (unsigned d = 0; d < DIRS; d++)
		assert_int_equal(link_clashing(dirs[d], file, made_in[d], name), -EOVERFLOW);
	expect_others_work(dirs[0]);
	fsc_inode_attr(file, &attr);
	assert_int_equal(attr.nlink, links + total);
	fsc_inode_put(file);
	for (unsigned d = 0; d < DIRS; d++)
		fsc_inode_put(dirs[d]);
	writing_reopen();
	for (unsigned d = 0; d < DIRS; d++) {
		snprintf(text, sizeof(text), "d%u", d);
		dirs[d] = found(w.root, text, 2);
		fsc_inode_attr(dirs[d], &attr);
		for (unsigned i = 0; i < made_in[d]; i++) {
			clash_name((uint32_t)attr.ino, HASH, "x", i, name, NAME_LEN);
			assert_int_equal(fsc_unlink(&w.ctx, dirs[d], name, NAME_LEN), 0);
		}
		fsc_inode_put(dirs[d]);
	}
	file = found(w.root, "file", 4);
	fsc_inode_attr(file, &attr);
	assert_int_equal(attr.nlink, links);
	fsc_inode_put(file);
	writing_end();
}

/* Without extended references a file has as many names in a directory as one item holds. */
static void test_links_beyond_one_item_without_extref_are_emlink(void **state)
{
	struct fsc_inode *file;
	unsigned n = 0;
	int ret = 0;

	(void)state;
	writing_make("-n 4096 -O ^extref");
	file = made(w.root, "file", S_IFREG | 0644);
	for (; !ret && n < MANY; n++) {
		char name[LONG_NAME + 1];

		snprintf(name, sizeof(name), "%0*u", (int)LONG_NAME, n);
		ret = fsc_link(&w.ctx, file, w.root, name, LONG_NAME);
	}
	assert_int_equal(ret, -EMLINK);
	assert_true(n > 10);
	expect_others_work(w.root);
	fsc_inode_put(file);
	writing_end();
}

/* --------------------------------------------------------------- extended attributes */

static void xattr_name(unsigned number, char name[NAME_LEN + 1])
{
	clash_name(CLASH_NAME_SEED, HASH, "user.", number, name, NAME_LEN);
	name[NAME_LEN] = '\0';
}

static void fill_xattrs(const char *format)
{
	char name[NAME_LEN + 1], value[64];
	struct fsc_inode *file;
	unsigned n = 0, total;
	size_t len;
	int ret = 0;

	writing_make(format);
	file = made(w.root, "file", S_IFREG | 0644);
	for (; !ret && n < MANY; n++) {
		xattr_name(n, name);
		ret = fsc_setxattr(&w.ctx, file, name, &n, sizeof(n), 0);
	}
	assert_int_equal(ret, -ENOSPC);
	total = --n;
	assert_true(n > 20);
	/* Nor may one that is there grow beyond the end: it stays what it was. It may change. */
	memset(value, 'v', sizeof(value));
	xattr_name(3, name);
	assert_int_equal(fsc_setxattr(&w.ctx, file, name, value, sizeof(value), 0), -ENOSPC);
	assert_int_equal(fsc_setxattr(&w.ctx, file, name, value, 0, FSC_XATTR_CREATE), -EEXIST);
	assert_int_equal(fsc_setxattr(&w.ctx, file, name, value, sizeof(n), 0), 0);
	n = 3;
	assert_int_equal(fsc_setxattr(&w.ctx, file, name, &n, sizeof(n), FSC_XATTR_REPLACE), 0);
	n = total;
	assert_int_equal(fsc_setxattr(&w.ctx, file, "user.other", "1", 1, 0), 0);
	expect_others_work(w.root);
	fsc_inode_put(file);
	writing_reopen();
	file = found(w.root, "file", 4);
	for (unsigned i = 0; i < n; i++) {
		unsigned got = UINT32_MAX;

		xattr_name((i + n / 2) % n, name);
		assert_int_equal(fsc_getxattr(&w.ctx, file, name, &got, sizeof(got), &len), 0);
		assert_int_equal(got, (i + n / 2) % n);
		assert_int_equal(fsc_removexattr(&w.ctx, file, name), 0);
	}
	fsc_inode_put(file);
	writing_end();
}

/* A value that takes more than half a leaf is replaced by another one. */
static void test_xattr_of_most_of_a_leaf_is_replaced(void **state)
{
	static const size_t sizes[] = {3000, 3000, 3900, 2500, 3900, 1, 3900};
	char value[4096], got[4096];
	struct fsc_inode *file;
	size_t len;

	(void)state;
	writing_make("-n 4096");
	file = made(w.root, "file", S_IFREG | 0644);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(value, 'a' + (int)i, sizes[i]);
		assert_int_equal(fsc_setxattr(&w.ctx, file, "user.x", value, sizes[i], 0), 0);
		assert_int_equal(fsc_getxattr(&w.ctx, file, "user.x", got, sizeof(got), &len), 0);
		assert_int_equal(len, sizes[i]);
		assert_memory_equal(got, value, len);
	}
	assert_int_equal(fsc_setxattr(&w.ctx, file, "user.x", value, 4000, 0), -ENOSPC);
	fsc_inode_put(file);
	writing_end();
}

static void test_xattrs_of_one_hash_are_refused_when_their_item_is_full(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		fill_xattrs(formats[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_one_hash_are_refused_when_their_item_is_full),
		cmocka_unit_test(test_references_of_one_hash_are_refused_when_their_item_is_full),
		cmocka_unit_test(test_links_beyond_one_item_without_extref_are_emlink),
		cmocka_unit_test(test_xattr_of_most_of_a_leaf_is_replaced),
		cmocka_unit_test(test_xattrs_of_one_hash_are_refused_when_their_item_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
