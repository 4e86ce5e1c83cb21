/* SPDX-License-Identifier: GPL-2.0-or-later */
/* server/nfs3/create.c on the fake core: the modes of CREATE, owners, what can't be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/util.h"
#include "tests/server/nfs3_client.h"

static const char *const exports[] = {"/e=/,rw,no_root_squash", NULL};

static const struct nfs3_sattr nothing;
static const struct nfs3_sattr mode_644 = {.set_mode = true, .mode = 0644};

static struct fsc_inode *make_dir(uint32_t mode, uint32_t uid, uint32_t gid)
{
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | mode);

	fake_attr(d)->uid = uid;
	fake_attr(d)->gid = gid;
	return d;
}

static void test_create_makes_a_file_of_the_caller(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0), *f;
	int syncs = atomic_load(&fake.syncs_names);
	struct nfs3_seen seen;

	(void)state;
	assert_int_equal(do_create(w, d, "f", NFS3_GUARDED, &mode_644, 0, &seen), NFS3_OK);
	f = fake_find(d, "f");
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 0644);
	assert_int_equal(fake_attr(f)->uid, 1000);
	assert_int_equal(fake_attr(f)->gid, 1000);
	assert_true(seen.has_fh && seen.obj.present);
	assert_int_equal(seen.obj.attr.fileid, fake_attr(f)->ino);
	assert_true(seen.wcc[0].has_before);
	assert_int_equal(seen.wcc[0].after.attr.mtime.nsec, seen.wcc[0].mtime.nsec + 1);
	assert_int_equal(atomic_load(&fake.syncs_names), syncs + 1);
	world_end(w);
}

static void test_create_unchecked_of_existing_heeds_the_file_only(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0555, 0, 0), *f = fake_make(d, "f", S_IFREG | 0666);
	struct nfs3_sattr s = {.set_mode = true, .mode = 0, .set_size = true};
	struct nfs3_seen seen;

	(void)state;
	fake_set_data(f, "text", 4);
	assert_int_equal(do_create(w, d, "f", NFS3_UNCHECKED, &mode_644, 0, &seen), NFS3_OK);
	assert_true(seen.has_fh);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 0666);
	assert_int_equal(fake_attr(f)->size_bytes, 4);
	assert_int_equal(do_create(w, d, "f", NFS3_UNCHECKED, &s, 0, &seen), NFS3_OK);
	assert_int_equal(fake_attr(f)->mode, S_IFREG | 0666);
	assert_int_equal(fake_attr(f)->size_bytes, 0);
	fake_attr(f)->mode = S_IFREG | 0444;
	assert_int_equal(do_create(w, d, "f", NFS3_UNCHECKED, &s, 0, NULL), NFS3ERR_ACCES);
	assert_int_equal(do_create(w, d, "f", NFS3_UNCHECKED, &mode_644, 0, NULL), NFS3_OK);
	assert_int_equal(do_create(w, d, "g", NFS3_UNCHECKED, &mode_644, 0, NULL), NFS3ERR_ACCES);
	assert_int_equal(do_create(w, d, "f", NFS3_GUARDED, &mode_644, 0, NULL), NFS3ERR_EXIST);
	world_end(w);
}

/* The one who made it is not answered yet, and it may still turn out not to be durable. */
static void test_create_unchecked_of_existing_waits_for_its_name(void **state)
{
	static const struct nfs3_sattr cut = {.set_size = true, .size = 3};
	static const struct nfs3_sattr *const attrs[] = {&nothing, &mode_644, &cut};
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct nfs3_seen seen;
	struct reply r;
	struct call c;

	(void)state;
	fake_make(d, "fifo", S_IFIFO | 0666);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(attrs); i++) {
		const char *name = i % 2 ? "f" : "fifo";

		atomic_store(&fake.async_syncs, true);
		for (int n = 0; n < 2; n++) {
			call_nfs3(w, &c, NFS3_CREATE);
			put_create(&c.out, d, name, NFS3_UNCHECKED, attrs[i / 2], 0);
			assert_int_equal(call_send(w, &c), 0);
		}
		assert_false(reply_take(w, &r));
		assert_int_equal(w->peer.n_requests, 2);
		assert_int_equal(fake_end_syncs(-EIO), 2);
		for (int n = 0; n < 2; n++) {
			reply_wait(w, &r);
			see_reply(&r, NFS3_CREATE, &seen);
			assert_int_equal(seen.stat, NFS3ERR_IO);
			reply_free(&r);
		}
		atomic_store(&fake.async_syncs, false);
	}
	world_end(w);
}

static void test_create_exclusive_is_told_by_its_verifier(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct nfs3_sattr s = {.mtime_how = NFS3_SERVER_TIME};
	int syncs = atomic_load(&fake.syncs_names);
	struct nfs3_seen first, again;

	(void)state;
	assert_int_equal(
		do_create(w, d, "f", NFS3_EXCLUSIVE, &nothing, UINT64_MAX, &first), NFS3_OK);
	assert_int_equal(
		do_create(w, d, "f", NFS3_EXCLUSIVE, &nothing, UINT64_MAX, &again), NFS3_OK);
	assert_int_equal(first.obj.attr.fileid, again.obj.attr.fileid);
	assert_int_equal(atomic_load(&fake.syncs_names), syncs + 2);
	assert_int_equal(do_create(w, d, "f", NFS3_EXCLUSIVE, &nothing, UINT64_MAX - 1, NULL),
		NFS3ERR_EXIST);
	assert_int_equal(do_setattr(w, fake_find(d, "f"), &s, NULL, NULL), NFS3_OK);
	assert_int_equal(
		do_create(w, d, "f", NFS3_EXCLUSIVE, &nothing, UINT64_MAX, NULL), NFS3ERR_EXIST);
	world_end(w);
}

static void test_create_odd_names(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	char name[257];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	assert_int_equal(
		do_create(w, d, name, NFS3_UNCHECKED, &nothing, 0, NULL), NFS3ERR_NAMETOOLONG);
	assert_int_equal(do_create(w, d, name + 1, NFS3_UNCHECKED, &nothing, 0, NULL), NFS3_OK);
	assert_int_equal(do_create(w, d, ".", NFS3_UNCHECKED, &nothing, 0, NULL), NFS3ERR_EXIST);
	assert_int_equal(do_mkdir(w, d, "..", &nothing, NULL), NFS3ERR_EXIST);
	assert_int_equal(do_create(w, d, "", NFS3_UNCHECKED, &nothing, 0, NULL), NFS3ERR_INVAL);
	assert_int_equal(do_create(w, d, "a/b", NFS3_UNCHECKED, &nothing, 0, NULL), NFS3ERR_INVAL);
	assert_int_equal(do_mkdir(w, d, name + 1, &nothing, NULL), NFS3ERR_EXIST);
	world_end(w);
}

static void test_create_in_setgid_directory_inherits_the_group(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(02777, 0, 50);
	struct nfs3_sattr s = {.set_mode = true, .mode = 06775};

	(void)state;
	assert_int_equal(do_mkdir(w, d, "sub", &s, NULL), NFS3_OK);
	assert_int_equal(fake_attr(fake_find(d, "sub"))->mode, S_IFDIR | 02775);
	assert_int_equal(fake_attr(fake_find(d, "sub"))->gid, 50);
	/* A setgid program of a group that the caller is not in must not come of it. */
	assert_int_equal(do_create(w, d, "f", NFS3_GUARDED, &s, 0, NULL), NFS3_OK);
	assert_int_equal(fake_attr(fake_find(d, "f"))->mode, S_IFREG | 04775);
	assert_int_equal(fake_attr(fake_find(d, "f"))->gid, 50);
	world_end(w);
}

static void test_create_owner_is_chosen_by_root_only(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct nfs3_sattr s = {.set_uid = true, .uid = 7, .set_gid = true, .gid = 8};

	(void)state;
	assert_int_equal(do_create(w, d, "a", NFS3_GUARDED, &s, 0, NULL), NFS3_OK);
	assert_int_equal(fake_attr(fake_find(d, "a"))->uid, 1000);
	assert_int_equal(fake_attr(fake_find(d, "a"))->gid, 1000);
	w->cred.uid = 0;
	assert_int_equal(do_create(w, d, "b", NFS3_GUARDED, &s, 0, NULL), NFS3_OK);
	assert_int_equal(fake_attr(fake_find(d, "b"))->uid, 7);
	assert_int_equal(fake_attr(fake_find(d, "b"))->gid, 8);
	world_end(w);
}

/* Two changes: on a worker, and all or nothing. */
static void test_create_with_times_runs_on_a_worker(void **state)
{
	struct world *w = world_begin(exports, 1);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct nfs3_sattr s = {
		.mtime_how = NFS3_CLIENT_TIME, .mtime = {77, 0}, .set_size = true, .size = 10};
	struct nfs3_seen seen;
	struct reply r;
	struct call c;

	(void)state;
	call_nfs3(w, &c, NFS3_CREATE);
	put_create(&c.out, d, "f", NFS3_GUARDED, &s, 0);
	assert_int_equal(call_send(w, &c), 0);
	reply_wait(w, &r);
	see_reply(&r, NFS3_CREATE, &seen);
	reply_free(&r);
	assert_int_equal(seen.stat, NFS3_OK);
	assert_int_equal(seen.obj.attr.mtime.sec, 77);
	assert_int_equal(seen.obj.attr.size, 10);
	assert_int_equal(w->counters.op[NFS3_CREATE].done_worker, 1);
	world_end(w);
}

#define ENTRY(tag, perm, id) tag, 0, perm, 0, id, 0, 0, 0

static const uint8_t acl_extended[] = {2, 0, 0, 0, ENTRY(1, 7, 0), ENTRY(2, 6, 50), ENTRY(4, 5, 0),
	ENTRY(16, 7, 0), ENTRY(32, 1, 0)};
static const uint8_t acl_minimal[] = {2, 0, 0, 0, ENTRY(1, 7, 0), ENTRY(4, 0, 0), ENTRY(32, 0, 0)};

static uint32_t status_on_worker(
	struct world *w, struct call *c, uint32_t proc, struct nfs3_seen *seen)
{
	struct reply r;

	assert_int_equal(call_send(w, c), 0);
	reply_wait(w, &r);
	see_reply(&r, proc, seen);
	reply_free(&r);
	return seen->stat;
}

static void run_on_worker(struct world *w, struct call *c, uint32_t proc)
{
	struct nfs3_seen seen;

	assert_int_equal(status_on_worker(w, c, proc, &seen), NFS3_OK);
	assert_true(seen.wcc[0].has_before);
}

static uint32_t granted_to(struct world *w, struct fsc_inode *i, uint32_t uid)
{
	struct rpc_cred was = w->cred;
	struct nfs3_post_attr attr;
	struct reply r;
	struct call c;
	uint32_t bits;

	w->cred.uid = uid;
	call_nfs3(w, &c, NFS3_ACCESS);
	put_fh(&c.out, i);
	wire_put_u32(&c.out, 0x3f);
	call_reply(w, &c, &r);
	assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
	nfs3_get_post_attr(&r.in, &attr);
	bits = wire_get_u32(&r.in);
	reply_free(&r);
	w->cred = was;
	return bits;
}

static void setattr_call(struct world *w, struct call *c, struct fsc_inode *i, uint32_t mode)
{
	const struct nfs3_sattr s = {.set_mode = true, .mode = mode};

	call_nfs3(w, c, NFS3_SETATTR);
	put_fh(&c->out, i);
	put_sattr(&c->out, &s);
	wire_put_bool(&c->out, false);
}

static void test_create_inherits_the_default_acl(void **state)
{
	struct nfs3_sattr s = {.set_mode = true, .mode = 0646};
	struct world *w = world_begin(exports, 1);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct call c;

	(void)state;
	fake_set_default_acl(d, acl_extended, sizeof(acl_extended));
	call_nfs3(w, &c, NFS3_CREATE);
	put_create(&c.out, d, "f", NFS3_GUARDED, &s, 0);
	run_on_worker(w, &c, NFS3_CREATE);
	/* 7 & 6, mask 7 & 4, 1 & 6 */
	assert_int_equal(fake_attr(fake_find(d, "f"))->mode, S_IFREG | 0640);
	assert_int_equal(granted_to(w, fake_find(d, "f"), 50), NFS3_ACCESS_READ);
	/* chmod changes the mask. */
	s.mode = 0660;
	setattr_call(w, &c, fake_find(d, "f"), s.mode);
	run_on_worker(w, &c, NFS3_SETATTR);
	assert_int_equal(granted_to(w, fake_find(d, "f"), 50),
		NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND);
	/* A directory hands it on. */
	call_nfs3(w, &c, NFS3_MKDIR);
	put_dirop(&c.out, d, "sub");
	put_sattr(&c.out, &s);
	run_on_worker(w, &c, NFS3_MKDIR);
	w->cred.uid = 0;
	call_nfs3(w, &c, NFS3_CREATE);
	put_create(&c.out, fake_find(d, "sub"), "g", NFS3_GUARDED, &s, 0);
	run_on_worker(w, &c, NFS3_CREATE);
	assert_int_equal(granted_to(w, fake_find(fake_find(d, "sub"), "g"), 50),
		NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND);
	world_end(w);
}

/*
 * chmod of a file with an ACL, failing at each place in turn: what the client is told fits
 * what was done, and what was done is durable then.
 */
static void test_setattr_with_acl_that_fails_half_way(void **state)
{
	unsigned seen_ok = 0, seen_half = 0, seen_nothing = 0;

	(void)state;
	for (int at = 0; at < 12; at++) {
		struct world *w = world_begin(exports, 1);
		struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | 0600);
		int syncs = atomic_load(&fake.syncs_names);
		struct nfs3_seen seen;
		struct call c;

		w->cred.uid = 0;
		fake_set_acl(f, acl_extended, sizeof(acl_extended));
		setattr_call(w, &c, f, 0640);
		atomic_store(&fake.fail_skip, at);
		atomic_store(&fake.fail, -ENOMEM);
		status_on_worker(w, &c, NFS3_SETATTR, &seen);
		atomic_store(&fake.fail, 0);
		switch (seen.stat) {
		case NFS3_OK:
			seen_ok++;
			assert_int_equal(fake_attr(f)->mode, S_IFREG | 0640);
			assert_true(granted_to(w, f, 50) & NFS3_ACCESS_READ);
			break;
		case NFS3ERR_IO:
			seen_half++;
			assert_int_equal(atomic_load(&fake.syncs_names), syncs + 1);
			break;
		default:
			seen_nothing++;
			assert_int_equal(seen.stat, NFS3ERR_JUKEBOX);
			assert_int_equal(fake_attr(f)->mode, S_IFREG | 0600);
		}
		atomic_store(&fake.fail_skip, 0);
		world_end(w);
	}
	assert_true(seen_ok && seen_half == 1 && seen_nothing > 2);
}

static void test_create_with_acl_that_fails_half_way(void **state)
{
	struct world *w;
	unsigned seen_ok = 0, seen_undone = 0;

	(void)state;
	for (int at = 0; at < 16; at++) {
		int changes, syncs = atomic_load(&fake.syncs_names);
		struct nfs3_seen seen;
		struct fsc_inode *d;
		struct call c;

		w = world_begin(exports, 1);
		d = make_dir(0777, 0, 0);
		fake_set_default_acl(d, acl_extended, sizeof(acl_extended));
		call_nfs3(w, &c, NFS3_MKDIR);
		put_dirop(&c.out, d, "sub");
		put_sattr(&c.out, &mode_644);
		changes = atomic_load(&fake.changes);
		atomic_store(&fake.fail_skip, at);
		atomic_store(&fake.fail, -ENOMEM);
		if (status_on_worker(w, &c, NFS3_MKDIR, &seen)) {
			assert_int_equal(seen.stat, NFS3ERR_JUKEBOX);
			assert_null(fake_find(d, "sub"));
			/* That it is gone again is durable, too. */
			if (atomic_load(&fake.changes) > changes) {
				assert_int_equal(atomic_load(&fake.syncs_names), syncs + 1);
				seen_undone++;
			}
		} else {
			assert_non_null(fake_find(d, "sub"));
			assert_int_equal(atomic_load(&fake.syncs_names), syncs + 1);
			seen_ok++;
		}
		atomic_store(&fake.fail, 0);
		atomic_store(&fake.fail_skip, 0);
		world_end(w);
	}
	assert_true(seen_ok && seen_undone == 2);
}

/* Longer than a page: Linux takes them, and a leaf holds them. */
static void test_create_inherits_a_long_acl(void **state)
{
	enum {
		NAMED = 8000,
		ENTRIES = NAMED + 5
	};
	static uint8_t acl[4 + ENTRIES * 8];
	struct world *w = world_begin(exports, 1);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct call c;

	(void)state;
	/* The first two entries, so many users, and the last three. */
	memcpy(acl, acl_extended, 20);
	for (size_t i = 0; i < NAMED; i++) {
		memcpy(acl + 20 + i * 8, acl_extended + 12, 8);
		acl[20 + i * 8 + 4] = (uint8_t)(100 + i % 100);
	}
	memcpy(acl + 20 + NAMED * 8, acl_extended + 20, 24);
	fake_set_default_acl(d, acl, sizeof(acl));
	call_nfs3(w, &c, NFS3_CREATE);
	put_create(&c.out, d, "f", NFS3_GUARDED, &mode_644, 0);
	run_on_worker(w, &c, NFS3_CREATE);
	assert_int_equal(granted_to(w, fake_find(d, "f"), 150), NFS3_ACCESS_READ);
	setattr_call(w, &c, fake_find(d, "f"), 0660);
	run_on_worker(w, &c, NFS3_SETATTR);
	assert_int_equal(granted_to(w, fake_find(d, "f"), 150),
		NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND);
	world_end(w);
}

static void test_create_default_acl_that_is_but_a_mode(void **state)
{
	struct world *w = world_begin(exports, 1);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct call c;

	(void)state;
	fake_set_default_acl(d, acl_minimal, sizeof(acl_minimal));
	call_nfs3(w, &c, NFS3_CREATE);
	put_create(&c.out, d, "f", NFS3_GUARDED, &mode_644, 0);
	run_on_worker(w, &c, NFS3_CREATE);
	assert_int_equal(fake_attr(fake_find(d, "f"))->mode, S_IFREG | 0600);
	assert_false(fake_attr(fake_find(d, "f"))->has_acl);
	/* What is no ACL is as if it were not there. */
	fake_set_default_acl(d, "junk", 4);
	assert_int_equal(do_create(w, d, "g", NFS3_GUARDED, &mode_644, 0, NULL), NFS3_OK);
	assert_int_equal(fake_attr(fake_find(d, "g"))->mode, S_IFREG | 0644);
	world_end(w);
}

static void test_symlink_targets(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	char target[FSC_SYMLINK_MAX + 1];
	struct nfs3_seen seen;

	(void)state;
	memset(target, 't', sizeof(target));
	assert_int_equal(do_symlink(w, d, "a", target, FSC_SYMLINK_MAX, &seen), NFS3_OK);
	assert_int_equal(strlen(fake_target), FSC_SYMLINK_MAX);
	assert_int_equal(seen.obj.attr.type, NFS3_LNK);
	assert_int_equal(
		do_symlink(w, d, "b", target, FSC_SYMLINK_MAX + 1, NULL), NFS3ERR_NAMETOOLONG);
	assert_int_equal(do_symlink(w, d, "b", "", 0, NULL), NFS3ERR_INVAL);
	assert_int_equal(do_symlink(w, d, "b", "a\0b", 3, NULL), NFS3ERR_INVAL);
	assert_int_equal(do_symlink(w, d, "a", "x", 1, NULL), NFS3ERR_EXIST);
	world_end(w);
}

static void test_mknod_types(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	const struct fsc_attr *a;

	(void)state;
	assert_int_equal(do_mknod(w, d, "p", NFS3_FIFO, 0, 0, NULL), NFS3_OK);
	assert_int_equal(fake_attr(fake_find(d, "p"))->mode, S_IFIFO | 0640);
	assert_int_equal(do_mknod(w, d, "s", NFS3_SOCK, 0, 0, NULL), NFS3_OK);
	assert_int_equal(do_mknod(w, d, "c", NFS3_CHR, 5, 1, NULL), NFS3ERR_PERM);
	assert_int_equal(do_mknod(w, d, "r", NFS3_REG, 0, 0, NULL), NFS3ERR_BADTYPE);
	assert_int_equal(do_mknod(w, d, "r", NFS3_DIR, 0, 0, NULL), NFS3ERR_BADTYPE);
	assert_int_equal(do_mknod(w, d, "r", NFS3_LNK, 0, 0, NULL), NFS3ERR_BADTYPE);
	assert_int_equal(do_mknod(w, d, "r", 0, 0, 0, NULL), NFS3ERR_BADTYPE);
	w->cred.uid = 0;
	assert_int_equal(do_mknod(w, d, "c", NFS3_CHR, 0xfff, 0xfffff, NULL), NFS3_OK);
	a = fake_attr(fake_find(d, "c"));
	assert_true(S_ISCHR(a->mode) && a->rdev_major == 0xfff && a->rdev_minor == 0xfffff);
	assert_int_equal(do_mknod(w, d, "b", NFS3_BLK, 0x1000, 0, NULL), NFS3ERR_INVAL);
	world_end(w);
}

static void test_create_leaves_out_before_when_others_changed_it(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	struct nfs3_seen seen;

	(void)state;
	atomic_store(&fake.rivals, true);
	assert_int_equal(do_mkdir(w, d, "a", &nothing, &seen), NFS3_OK);
	atomic_store(&fake.rivals, false);
	assert_false(seen.wcc[0].has_before);
	assert_true(seen.wcc[0].after.present);
	world_end(w);
}

static void test_create_on_async_export_does_not_wait(void **state)
{
	static const char *const async[] = {"/e=/,rw,async,no_root_squash", NULL};
	struct world *w = world_begin(async, 0);
	struct fsc_inode *d = make_dir(0777, 0, 0);
	int syncs = atomic_load(&fake.syncs_names);

	(void)state;
	assert_int_equal(do_mkdir(w, d, "a", &nothing, NULL), NFS3_OK);
	assert_int_equal(do_remove(w, NFS3_RMDIR, d, "a", NULL), NFS3_OK);
	assert_int_equal(atomic_load(&fake.syncs_names), syncs);
	world_end(w);
}

/* The option of the export is the core's matter, for subvolumes below it as well. */
static void test_create_below_an_export_is_compressed_as_it_says(void **state)
{
	static const char *const compressed[] = {"/e=/,rw,compress=lzo,no_root_squash", NULL};
	struct world *w = world_begin(compressed, 0);

	(void)state;
	fake_compress[0] = '\0';
	fake_attr(fake_root(301))->mode |= 0777;
	assert_int_equal(do_mkdir(w, fake_root(301), "a", &nothing, NULL), NFS3_OK);
	assert_string_equal(fake_compress, "lzo");
	world_end(w);
}

static void test_create_on_read_only_volume_is_rofs(void **state)
{
	struct world *w;

	(void)state;
	atomic_store(&fake.read_only, true);
	w = world_begin(exports, 0);
	w->cred.uid = 0;
	assert_int_equal(do_mkdir(w, fake_root(5), "a", &nothing, NULL), NFS3ERR_ROFS);
	world_end(w);
	atomic_store(&fake.read_only, false);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_makes_a_file_of_the_caller),
		cmocka_unit_test(test_create_unchecked_of_existing_heeds_the_file_only),
		cmocka_unit_test(test_create_unchecked_of_existing_waits_for_its_name),
		cmocka_unit_test(test_create_exclusive_is_told_by_its_verifier),
		cmocka_unit_test(test_create_odd_names),
		cmocka_unit_test(test_create_in_setgid_directory_inherits_the_group),
		cmocka_unit_test(test_create_owner_is_chosen_by_root_only),
		cmocka_unit_test(test_create_with_times_runs_on_a_worker),
		cmocka_unit_test(test_create_inherits_the_default_acl),
		cmocka_unit_test(test_setattr_with_acl_that_fails_half_way),
		cmocka_unit_test(test_create_with_acl_that_fails_half_way),
		cmocka_unit_test(test_create_inherits_a_long_acl),
		cmocka_unit_test(test_create_default_acl_that_is_but_a_mode),
		cmocka_unit_test(test_symlink_targets),
		cmocka_unit_test(test_mknod_types),
		cmocka_unit_test(test_create_leaves_out_before_when_others_changed_it),
		cmocka_unit_test(test_create_on_async_export_does_not_wait),
		cmocka_unit_test(test_create_below_an_export_is_compressed_as_it_says),
		cmocka_unit_test(test_create_on_read_only_volume_is_rofs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
