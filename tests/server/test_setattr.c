/* SPDX-License-Identifier: GPL-2.0-or-later */
/* server/nfs3/setattr.c on the fake core: who may change what. */
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

static const struct nfs3_sattr nothing;

static struct fsc_inode *make_file(uint32_t mode, uint32_t uid, uint32_t gid)
{
	struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | mode);

	fake_attr(f)->uid = uid;
	fake_attr(f)->gid = gid;
	return f;
}

static uint32_t set_mode(struct world *w, struct fsc_inode *i, uint32_t mode)
{
	struct nfs3_sattr s = {.set_mode = true, .mode = mode};

	return do_setattr(w, i, &s, NULL, NULL);
}

static uint32_t set_owner(struct world *w, struct fsc_inode *i, uint32_t uid, uint32_t gid)
{
	struct nfs3_sattr s = {
		.set_uid = uid != UINT32_MAX, .uid = uid, .set_gid = gid != UINT32_MAX, .gid = gid};

	return do_setattr(w, i, &s, NULL, NULL);
}

static uint32_t set_size(struct world *w, struct fsc_inode *i, uint64_t size)
{
	struct nfs3_sattr s = {.set_size = true, .size = size};

	return do_setattr(w, i, &s, NULL, NULL);
}

static uint32_t set_times(struct world *w, struct fsc_inode *i, enum nfs3_time_how how)
{
	struct nfs3_sattr s = {
		.atime_how = how, .mtime_how = how, .atime = {77, 1}, .mtime = {78, 2}};

	return do_setattr(w, i, &s, NULL, NULL);
}

static void test_setattr_mode_is_the_owners(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0666, 1000, 50);

	(void)state;
	assert_int_equal(set_mode(w, f, 0640), NFS3_OK);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 0640);
	/* setgid goes for who is not in the group. */
	assert_int_equal(set_mode(w, f, 06755), NFS3_OK);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 04755);
	w->cred.n_gids = 1;
	w->cred.gids[0] = 50;
	assert_int_equal(set_mode(w, f, 06755), NFS3_OK);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 06755);
	w->cred.uid = 1001;
	assert_int_equal(set_mode(w, f, 0777), NFS3ERR_PERM);
	w->cred.uid = 0;
	assert_int_equal(set_mode(w, f, 0100), NFS3_OK);
	world_end(w);
}

static void test_setattr_owner_and_group(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(06775, 1000, 1000);

	(void)state;
	assert_int_equal(set_owner(w, f, 1001, UINT32_MAX), NFS3ERR_PERM);
	assert_int_equal(set_owner(w, f, UINT32_MAX, 50), NFS3ERR_PERM);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 06775);
	/* To be what it is already; and set-id bits go all the same. */
	assert_int_equal(set_owner(w, f, 1000, 1000), NFS3_OK);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 0775);
	w->cred.n_gids = 1;
	w->cred.gids[0] = 50;
	assert_int_equal(set_owner(w, f, UINT32_MAX, 50), NFS3_OK);
	assert_int_equal(fake_attr(f)->gid, 50);
	w->cred.uid = 1001;
	assert_int_equal(set_owner(w, f, UINT32_MAX, 50), NFS3ERR_PERM);
	w->cred.uid = 0;
	assert_int_equal(set_owner(w, f, 7, 8), NFS3_OK);
	assert_int_equal(fake_attr(f)->uid, 7);
	assert_int_equal(fake_attr(f)->gid, 8);
	world_end(w);
}

static void test_setattr_setgid_without_execute_stays_with_chown(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(06644, 1000, 1000);

	(void)state;
	w->cred.uid = 0;
	assert_int_equal(set_owner(w, f, 5, UINT32_MAX), NFS3_OK);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 02644);
	world_end(w);
}

/* As chown(2) does, which spares directories alone. */
static void test_setattr_chown_takes_setid_of_all_but_directories(void **state)
{
	static const uint32_t types[] = {S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK, S_IFDIR};
	struct world *w = world_begin(exports, 0);
	char name[] = "0";

	(void)state;
	w->cred.n_gids = 1;
	w->cred.gids[0] = 50;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++, name[0]++) {
		struct fsc_inode *f = fake_make(fake_root(5), name, types[i] | 06555);
		uint32_t kept = S_ISDIR(types[i]) ? 06555 : 0555;

		fake_attr(f)->uid = fake_attr(f)->gid = 1000;
		assert_int_equal(set_owner(w, f, 1000, 50), NFS3_OK);
		assert_int_equal(fake_attr(f)->mode, types[i] | kept);
		fake_attr(f)->mode = types[i] | 06555;
		assert_int_equal(set_owner(w, f, UINT32_MAX, 1000), NFS3_OK);
		assert_int_equal(fake_attr(f)->mode, types[i] | kept);
	}
	world_end(w);
}

static void test_setattr_size(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0, 1000, 1000);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0777);
	struct fsc_inode *p = fake_make(fake_root(5), "p", S_IFIFO | 0777);

	(void)state;
	/* The owner whatever the mode, others by it. */
	assert_int_equal(set_size(w, f, 100), NFS3_OK);
	assert_int_equal(fake_attr(f)->size_bytes, 100);
	assert_int_equal(set_size(w, f, 1ull << 63), NFS3ERR_FBIG);
	assert_int_equal(set_size(w, d, 0), NFS3ERR_ISDIR);
	assert_int_equal(set_size(w, p, 0), NFS3ERR_INVAL);
	w->cred.uid = w->cred.gid = 1001;
	assert_int_equal(set_size(w, f, 0), NFS3ERR_ACCES);
	fake_attr(f)->mode |= 06712;
	assert_int_equal(set_size(w, f, 0), NFS3_OK);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 0712);
	world_end(w);
}

static void test_setattr_times(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0602, 1000, 1000);
	struct nfs3_sattr bad = {.mtime_how = NFS3_CLIENT_TIME, .mtime = {1, 1000000000}};

	(void)state;
	assert_int_equal(set_times(w, f, NFS3_CLIENT_TIME), NFS3_OK);
	assert_int_equal(fake_attr(f)->atime.sec, 77);
	assert_int_equal(fake_attr(f)->mtime.nsec, 2);
	assert_int_equal(do_setattr(w, f, &bad, NULL, NULL), NFS3ERR_INVAL);
	w->cred.uid = w->cred.gid = 1001;
	assert_int_equal(set_times(w, f, NFS3_CLIENT_TIME), NFS3ERR_PERM);
	assert_int_equal(set_times(w, f, NFS3_SERVER_TIME), NFS3_OK);
	assert_int_equal(fake_attr(f)->mtime.sec, 2000);
	fake_attr(f)->mode = S_IFREG | 0644;
	assert_int_equal(set_times(w, f, NFS3_SERVER_TIME), NFS3ERR_ACCES);
	world_end(w);
}

static void test_setattr_guard(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0644, 1000, 1000);
	struct nfs3_sattr s = {.set_mode = true, .mode = 0600};
	struct nfs3_time guard = {1000, 2};
	struct nfs3_seen seen;

	(void)state;
	assert_int_equal(do_setattr(w, f, &s, &guard, &seen), NFS3_OK);
	assert_true(seen.wcc[0].has_before && seen.wcc[0].ctime.nsec == 2);
	assert_int_equal(seen.wcc[0].after.attr.ctime.nsec, 3);
	/* The change time has moved: the same guard does not hold any more. */
	s.mode = 0640;
	assert_int_equal(do_setattr(w, f, &s, &guard, &seen), NFS3ERR_NOT_SYNC);
	assert_true(seen.wcc[0].has_before && seen.wcc[0].after.present);
	guard.nsec = 4;
	assert_int_equal(do_setattr(w, f, &s, &guard, NULL), NFS3ERR_NOT_SYNC);
	assert_int_equal(do_setattr(w, f, &nothing, &guard, NULL), NFS3ERR_NOT_SYNC);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 0600);
	/* A time that the protocol can't hold is compared as it was sent. */
	fake_attr(f)->ctime = (struct fsc_time){-5, 3};
	guard = (struct nfs3_time){0, 0};
	assert_int_equal(do_setattr(w, f, &s, &guard, NULL), NFS3_OK);
	world_end(w);
}

static void test_setattr_of_nothing_changes_nothing(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = make_file(0644, 1, 1);
	struct fsc_inode *l = fake_make(fake_root(5), "l", S_IFLNK | 0777);
	int changes = atomic_load(&fake.changes);

	(void)state;
	assert_int_equal(do_setattr(w, f, &nothing, NULL, NULL), NFS3_OK);
	assert_int_equal(set_mode(w, l, 0600), NFS3_OK); /* a symlink has none */
	assert_int_equal(atomic_load(&fake.changes), changes);
	world_end(w);
}

static void test_setattr_squashed(void **state)
{
	static const char *const squashed[] = {"/e=/,rw,all_squash,anonuid=99,anongid=98", NULL};
	struct world *w = world_begin(squashed, 0);
	struct fsc_inode *f = make_file(0644, 1000, 1000);

	(void)state;
	assert_int_equal(set_mode(w, f, 0600), NFS3ERR_PERM);
	fake_attr(f)->uid = 99;
	assert_int_equal(set_mode(w, f, 0600), NFS3_OK);
	world_end(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_setattr_mode_is_the_owners),
		cmocka_unit_test(test_setattr_owner_and_group),
		cmocka_unit_test(test_setattr_setgid_without_execute_stays_with_chown),
		cmocka_unit_test(test_setattr_chown_takes_setid_of_all_but_directories),
		cmocka_unit_test(test_setattr_size),
		cmocka_unit_test(test_setattr_times),
		cmocka_unit_test(test_setattr_guard),
		cmocka_unit_test(test_setattr_of_nothing_changes_nothing),
		cmocka_unit_test(test_setattr_squashed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
