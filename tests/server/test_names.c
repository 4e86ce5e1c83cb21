/* SPDX-License-Identifier: GPL-2.0-or-later */
/* server/nfs3/names.c on the fake core: permissions, kinds, exports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/util.h"
#include "tests/server/nfs3_client.h"

static const char *const exports[] = {"/e=/,rw,no_root_squash", NULL};

static struct fsc_inode *make_dir(struct fsc_inode *in, const char *name, uint32_t mode)
{
	struct fsc_inode *d = fake_make(in, name, S_IFDIR | mode);

	return d;
}

static struct fsc_inode *make_file(struct fsc_inode *in, const char *name, uint32_t uid)
{
	struct fsc_inode *f = fake_make(in, name, S_IFREG | 0644);

	fake_attr(f)->uid = uid;
	return f;
}

static void test_remove_kinds(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(fake_root(5), "d", 0777);
	struct nfs3_seen seen;

	(void)state;
	make_file(d, "f", 0);
	make_file(make_dir(d, "full", 0777), "f", 0);
	make_dir(d, "empty", 0777);
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "full", NULL), NFS3ERR_ISDIR);
	assert_int_equal(do_remove(w, NFS3_RMDIR, d, "full", NULL), NFS3ERR_NOTEMPTY);
	assert_int_equal(do_remove(w, NFS3_RMDIR, d, "f", NULL), NFS3ERR_NOTDIR);
	assert_int_equal(do_remove(w, NFS3_RMDIR, d, ".", NULL), NFS3ERR_INVAL);
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "..", NULL), NFS3ERR_INVAL);
	assert_int_equal(do_remove(w, NFS3_RMDIR, d, "empty", &seen), NFS3_OK);
	assert_true(seen.wcc[0].has_before && seen.wcc[0].after.present);
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "f", NULL), NFS3_OK);
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "f", NULL), NFS3ERR_NOENT);
	w->cred.uid = 0;
	assert_int_equal(do_remove(w, NFS3_RMDIR, fake_root(5), "sub", NULL), NFS3ERR_PERM);
	world_end(w);
}

static void test_remove_permissions(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(fake_root(5), "d", 0755);

	(void)state;
	make_file(d, "mine", 1000);
	make_file(d, "theirs", 1001);
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "mine", NULL), NFS3ERR_ACCES);
	fake_attr(d)->mode = S_IFDIR | 01777;
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "theirs", NULL), NFS3ERR_PERM);
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "none", NULL), NFS3ERR_NOENT);
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "mine", NULL), NFS3_OK);
	fake_attr(d)->uid = 1000;
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "theirs", NULL), NFS3_OK);
	world_end(w);
}

static void test_rename_moves_and_replaces(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *a = make_dir(fake_root(5), "a", 0777);
	struct fsc_inode *b = make_dir(fake_root(5), "b", 0777), *f = make_file(a, "f", 1);
	struct nfs3_seen seen;

	(void)state;
	make_file(b, "g", 2);
	assert_int_equal(do_rename(w, a, "f", b, "g", &seen), NFS3_OK);
	assert_true(seen.wcc[0].has_before && seen.wcc[1].has_before);
	assert_int_equal(seen.wcc[0].after.attr.fileid, fake_attr(a)->ino);
	assert_int_equal(seen.wcc[1].after.attr.fileid, fake_attr(b)->ino);
	assert_ptr_equal(fake_find(b, "g"), f);
	assert_int_equal(do_rename(w, b, "g", b, "h", &seen), NFS3_OK);
	assert_true(seen.wcc[0].has_before && seen.wcc[1].has_before);
	assert_int_equal(do_rename(w, b, "g", b, "h", NULL), NFS3ERR_NOENT);
	assert_int_equal(do_rename(w, b, ".", b, "h", NULL), NFS3ERR_INVAL);
	assert_int_equal(do_rename(w, b, "h", b, "..", NULL), NFS3ERR_INVAL);
	assert_int_equal(do_rename(w, fake_root(5), "a", a, "x", NULL), NFS3ERR_ACCES);
	w->cred.uid = 0;
	assert_int_equal(do_rename(w, fake_root(5), "a", a, "x", NULL), NFS3ERR_INVAL);
	assert_int_equal(do_rename(w, fake_root(5), "a", b, "h", NULL), NFS3ERR_NOTDIR);
	assert_int_equal(do_rename(w, b, "h", fake_root(5), "a", NULL), NFS3ERR_ISDIR);
	world_end(w);
}

static void test_rename_permissions(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *a = make_dir(fake_root(5), "a", 01777);
	struct fsc_inode *b = make_dir(fake_root(5), "b", 0777), *moved = make_dir(b, "dir", 0755);

	(void)state;
	make_file(a, "theirs", 1001);
	make_file(b, "f", 1001);
	assert_int_equal(do_rename(w, a, "theirs", b, "x", NULL), NFS3ERR_PERM);
	assert_int_equal(do_rename(w, b, "f", a, "theirs", NULL), NFS3ERR_PERM);
	/* The ".." of a directory that moves is changed: that takes writing to it. */
	assert_int_equal(do_rename(w, b, "dir", a, "dir", NULL), NFS3ERR_ACCES);
	assert_int_equal(do_rename(w, b, "dir", b, "dir2", NULL), NFS3_OK);
	fake_attr(moved)->mode = S_IFDIR | 0777;
	assert_int_equal(do_rename(w, b, "dir2", a, "dir", NULL), NFS3_OK);
	fake_attr(b)->mode = S_IFDIR | 0555;
	assert_int_equal(do_rename(w, b, "f", a, "f", NULL), NFS3ERR_ACCES);
	fake_attr(moved)->uid = 1000;
	assert_int_equal(do_rename(w, a, "dir", b, "dir", NULL), NFS3ERR_ACCES);
	world_end(w);
}

static void test_names_do_not_cross_subvolumes(void **state)
{
	static const char *const two[] = {"/e=/,rw,no_root_squash", "/s=/sub,no_root_squash", NULL};
	struct world *w = world_begin(two, 0);
	struct fsc_inode *top = fake_root(5), *f = make_file(top, "f", 0);

	(void)state;
	w->cred.uid = 0;
	make_file(fake_root(300), "g", 0);
	/* The other export is read-only: that comes first. */
	assert_int_equal(do_rename(w, top, "f", fake_root(300), "f", NULL), NFS3ERR_ROFS);
	assert_int_equal(do_rename(w, fake_root(300), "g", top, "g", NULL), NFS3ERR_ROFS);
	assert_int_equal(do_link(w, f, fake_root(300), "f", NULL), NFS3ERR_ROFS);
	world_end(w);

	w = world_begin(exports, 0);
	top = fake_root(5);
	f = make_file(top, "f", 0);
	w->cred.uid = 0;
	assert_int_equal(do_rename(w, top, "f", fake_root(300), "f", NULL), NFS3ERR_XDEV);
	assert_int_equal(do_link(w, f, fake_root(300), "f", NULL), NFS3ERR_XDEV);
	world_end(w);
}

static void test_link(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(fake_root(5), "d", 0777), *f = make_file(d, "f", 0);
	struct fsc_inode *l = fake_make(d, "symlink", S_IFLNK | 0777);
	struct nfs3_seen seen;

	(void)state;
	assert_int_equal(do_link(w, f, d, "g", &seen), NFS3_OK);
	assert_int_equal(seen.obj.attr.nlink, 2);
	assert_true(seen.wcc[0].has_before);
	assert_int_equal(do_link(w, l, d, "h", &seen), NFS3_OK);
	assert_int_equal(do_link(w, f, d, "g", NULL), NFS3ERR_EXIST);
	assert_int_equal(do_link(w, f, d, ".", NULL), NFS3ERR_EXIST);
	assert_int_equal(do_link(w, d, d, "x", NULL), NFS3ERR_ISDIR);
	assert_int_equal(do_link(w, f, f, "x", NULL), NFS3ERR_NOTDIR);
	fake_attr(d)->mode = S_IFDIR | 0555;
	assert_int_equal(do_link(w, f, d, "x", NULL), NFS3ERR_ACCES);
	atomic_store(&fake.fail, -EMLINK); /* reading the directory's subvolume */
	world_end(w);
	atomic_store(&fake.fail, 0);
}

/* Every error of the core has a status of its own. */
static void test_names_errors_of_the_core(void **state)
{
	static const struct {
		int err;
		uint32_t stat;
	} cases[] = {
		{-ENOSPC, NFS3ERR_NOSPC},
		{-EDQUOT, NFS3ERR_DQUOT},
		{-EROFS, NFS3ERR_ROFS},
		{-EMLINK, NFS3ERR_MLINK},
		{-EOVERFLOW, NFS3ERR_NAMETOOLONG},
		{-EXDEV, NFS3ERR_XDEV},
		{-EIO, NFS3ERR_IO},
		{-EUCLEAN, NFS3ERR_IO},
		{-ENOMEM, NFS3ERR_JUKEBOX},
		{-EREMCHG, NFS3ERR_NOT_SYNC},
		{-EFBIG, NFS3ERR_FBIG},
	};
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(fake_root(5), "d", 0777);

	(void)state;
	make_file(d, "f", 0);
	/* The subvolume is known from here on: the handle's lookup is the first that fails. */
	assert_int_equal(do_remove(w, NFS3_REMOVE, d, "none", NULL), NFS3ERR_NOENT);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		atomic_store(&fake.fail, cases[i].err);
		assert_int_equal(do_remove(w, NFS3_REMOVE, d, "f", NULL), cases[i].stat);
	}
	world_end(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remove_kinds),
		cmocka_unit_test(test_remove_permissions),
		cmocka_unit_test(test_rename_moves_and_replaces),
		cmocka_unit_test(test_rename_permissions),
		cmocka_unit_test(test_names_do_not_cross_subvolumes),
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_names_errors_of_the_core),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
