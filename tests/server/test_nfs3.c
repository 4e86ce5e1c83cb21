/* SPDX-License-Identifier: GPL-2.0-or-later */
/* server/nfs3 and server/mount on the fake core: what RFC 1813 and the reported cases ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/util.h"
#include "tests/server/rpc_client.h"

static const char *const exports[] = {"/e=/,no_root_squash", NULL};

static void put_name(struct call *c, const char *name)
{
	wire_put_opaque(&c->out, name, (uint32_t)strlen(name));
}

static uint32_t lookup(
	struct world *w, struct fsc_inode *dir, const char *name, uint32_t len, struct reply *r)
{
	struct call c;

	call_nfs3(w, &c, NFS3_LOOKUP);
	put_fh(&c.out, dir);
	wire_put_opaque(&c.out, name, len);
	call_reply(w, &c, r);
	return wire_get_u32(&r->in);
}

static uint32_t lookup_stat(struct world *w, struct fsc_inode *dir, const char *name, uint32_t len)
{
	struct reply r;
	uint32_t stat = lookup(w, dir, name, len, &r);

	reply_free(&r);
	return stat;
}

/* The inode number that a LOOKUP finds; 0 when it fails. */
static uint64_t lookup_ino(struct world *w, struct fsc_inode *dir, const char *name, uint64_t *fsid)
{
	struct nfs3_post_attr attr = {.present = false};
	struct wire_blob fh;
	struct reply r;

	if (!lookup(w, dir, name, (uint32_t)strlen(name), &r)) {
		wire_get_opaque(&r.in, NFS3_FH_MAX, &fh);
		nfs3_get_post_attr(&r.in, &attr);
		assert_true(attr.present);
	}
	assert_false(r.in.bad);
	reply_free(&r);
	if (fsid)
		*fsid = attr.attr.fsid;
	return attr.present ? attr.attr.fileid : 0;
}

static void test_lookup_odd_names(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *top = fake_root(5), *f = fake_make(top, "f", S_IFREG | 0644);
	char name[257];

	(void)state;
	memset(name, 'n', sizeof(name));
	assert_int_equal(lookup_stat(w, top, "", 0), NFS3ERR_INVAL);
	assert_int_equal(lookup_stat(w, top, "a/b", 3), NFS3ERR_INVAL);
	assert_int_equal(lookup_stat(w, top, "a\0b", 3), NFS3ERR_INVAL);
	assert_int_equal(lookup_stat(w, top, name, 255), NFS3ERR_NOENT);
	assert_int_equal(lookup_stat(w, top, name, 256), NFS3ERR_NAMETOOLONG);
	assert_int_equal(lookup_stat(w, f, "x", 1), NFS3ERR_NOTDIR);
	assert_int_equal(lookup_stat(w, top, "f", 1), NFS3_OK);
	world_end(w);
}

static void test_lookup_dots_stay_in_the_export(void **state)
{
	static const char *const two[] = {"/e=/,no_root_squash", "/s=/sub,no_root_squash", NULL};
	struct world *w = world_begin(two, 0);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0755);
	uint64_t top_fsid, fsid;

	(void)state;
	assert_int_equal(lookup_ino(w, fake_root(5), ".", &top_fsid), 256);
	assert_int_equal(lookup_ino(w, fake_root(5), "..", NULL), 256);
	assert_int_equal(lookup_ino(w, d, "..", NULL), 256);
	/* 300 is the root of an export of its own, 301 is not. */
	assert_int_equal(lookup_ino(w, fake_root(300), "..", &fsid), 256);
	assert_int_not_equal(fsid, top_fsid);
	assert_int_equal(lookup_ino(w, fake_root(301), "..", &top_fsid), 256);
	assert_int_equal(top_fsid, fsid);
	world_end(w);
}

static void test_lookup_into_subvolume_of_other_clients_is_refused(void **state)
{
	static const char *const two[] = {
		"/e=/,no_root_squash", "/s=/sub,client=192.0.2.0/24", NULL};
	struct world *w = world_begin(two, 0);
	struct reply r;
	struct call c;

	(void)state;
	assert_int_equal(lookup_stat(w, fake_root(5), "sub", 3), NFS3ERR_ACCES);
	call_nfs3(w, &c, NFS3_GETATTR);
	put_fh(&c.out, fake_root(301)); /* below it: the same export */
	call_reply(w, &c, &r);
	assert_int_equal(wire_get_u32(&r.in), NFS3ERR_ACCES);
	reply_free(&r);
	world_end(w);
}

static void test_getattr_above_all_exports_is_stale(void **state)
{
	static const char *const one[] = {"/s=/sub", NULL};
	struct world *w = world_begin(one, 0);
	struct reply r;
	struct call c;

	(void)state;
	call_nfs3(w, &c, NFS3_GETATTR);
	put_fh(&c.out, fake_root(5));
	call_reply(w, &c, &r);
	assert_int_equal(wire_get_u32(&r.in), NFS3ERR_STALE);
	reply_free(&r);
	world_end(w);
}

static void test_getattr_of_unlinked_is_stale(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | 0644);
	struct reply r;
	struct call c;

	(void)state;
	fake_unlink(fake_root(5), "f");
	call_nfs3(w, &c, NFS3_GETATTR);
	put_fh(&c.out, f);
	call_reply(w, &c, &r);
	assert_int_equal(wire_get_u32(&r.in), NFS3ERR_STALE);
	reply_free(&r);
	world_end(w);
}

/* ------------------------------------------------------------ directories */

struct page {
	uint32_t stat;
	unsigned n;
	uint64_t cookie; /* the last one */
	uint8_t verf[8];
	bool eof;
	size_t bytes; /* of the results behind the status */
};

/* Reads a page and marks the names f<N> that it has; "." and ".." too. */
static struct page read_page(struct world *w, struct fsc_inode *dir, uint64_t cookie,
	const uint8_t verf[8], uint32_t dircount, uint32_t maxcount, bool plus, uint8_t *seen)
{
	struct nfs3_post_attr attr;
	struct page p = {.cookie = cookie};
	struct reply r;
	struct call c;

	call_nfs3(w, &c, plus ? NFS3_READDIRPLUS : NFS3_READDIR);
	put_fh(&c.out, dir);
	wire_put_u64(&c.out, cookie);
	wire_put_fixed(&c.out, verf, 8);
	if (plus)
		wire_put_u32(&c.out, dircount);
	wire_put_u32(&c.out, maxcount);
	call_reply(w, &c, &r);
	p.stat = wire_get_u32(&r.in);
	p.bytes = wire_left(&r.in);
	nfs3_get_post_attr(&r.in, &attr);
	assert_true(attr.present);
	if (!p.stat) {
		memcpy(p.verf, wire_take(&r.in, 8), 8);
		while (wire_get_bool(&r.in)) {
			struct wire_blob name, fh;

			wire_get_u64(&r.in);
			wire_get_opaque(&r.in, 255, &name);
			p.cookie = wire_get_u64(&r.in);
			assert_true(p.cookie > 2 && p.cookie < (1ull << 63));
			if (plus) {
				nfs3_get_post_attr(&r.in, &attr);
				if (wire_get_bool(&r.in))
					wire_get_opaque(&r.in, NFS3_FH_MAX, &fh);
			}
			p.n++;
			if (seen && name.data[0] == 'f')
				seen[atoi((const char *)name.data + 1)]++;
		}
		p.eof = wire_get_bool(&r.in);
	}
	assert_false(r.in.bad);
	assert_int_equal(wire_left(&r.in), 0);
	reply_free(&r);
	return p;
}

static const uint8_t no_verf[8];

/* Lists all with pages of one size. False: some page was too small. */
static bool list_all(struct world *w, struct fsc_inode *dir, uint32_t size, bool plus, unsigned n)
{
	uint8_t seen[64] = {0}, verf[8] = {0};
	unsigned total = 0;
	struct page p = {.cookie = 0};

	do {
		p = read_page(w, dir, p.cookie, verf, size, size, plus, seen);
		if (p.stat) {
			assert_int_equal(p.stat, NFS3ERR_TOOSMALL);
			return false;
		}
		assert_true(p.n || p.eof);
		assert_true(p.bytes <= size);
		memcpy(verf, p.verf, 8);
		total += p.n;
	} while (!p.eof);
	assert_int_equal(total, n + 2);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(seen[i], 1);
	return true;
}

static void fill_dir(struct fsc_inode *dir, unsigned n)
{
	char name[256];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%02u%.*s", i, (int)(i * 3),
			"------------------"
			"--------------------------------------------------------------------------"
			"--------------------------------------------------------------------------");
		fake_make(dir, name, S_IFREG | 0644);
	}
}

static void test_readdir_every_size_lists_each_name_once(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0755);
	bool fits[2] = {false, false};

	(void)state;
	fill_dir(d, 40);
	for (uint32_t size = 0; size < 1200; size++)
		for (int plus = 0; plus < 2; plus++) {
			bool ok = list_all(w, d, size, plus, 40);

			assert_true(ok || !fits[plus]); /* once it fits it always does */
			fits[plus] |= ok;
		}
	assert_true(fits[0] && fits[1]);
	assert_true(list_all(w, d, 1 << 20, true, 40));
	assert_true(list_all(w, d, UINT32_MAX, false, 40));
	world_end(w);
}

static void test_readdir_first_entry_too_big_is_toosmall(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0755);
	char name[256];

	(void)state;
	memset(name, 'x', 255);
	name[255] = '\0';
	fake_make(d, name, S_IFREG | 0644);
	for (uint32_t count = 0; count <= 400; count += 4) {
		struct page p = read_page(w, d, 4, no_verf, 0, count, false, NULL);

		assert_true(p.stat == NFS3ERR_TOOSMALL || (p.stat == NFS3_OK && p.n == 1));
	}
	world_end(w);
}

static void test_readdir_ends_where_it_began(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0755);
	uint8_t seen[64] = {0}, verf[8];
	struct page p;
	char name[16];

	(void)state;
	fill_dir(d, 10);
	p = read_page(w, d, 0, no_verf, 300, 300, false, seen);
	memcpy(verf, p.verf, 8);
	for (unsigned more = 10; !p.eof; more++) {
		assert_true(more < 60);
		snprintf(name, sizeof(name), "f%u", more); /* a rename appends */
		fake_make(d, name, S_IFREG | 0644);
		p = read_page(w, d, p.cookie, verf, 300, 300, false, seen);
		assert_int_equal(p.stat, NFS3_OK);
	}
	for (int i = 0; i < 60; i++)
		assert_int_equal(seen[i], i < 10);
	/* A new listing sees what is there now, and so does one without verifier. */
	memset(seen, 0, sizeof(seen));
	p = read_page(w, d, 0, no_verf, 60000, 60000, false, seen);
	assert_true(p.eof && seen[10] == 1);
	memset(seen, 0, sizeof(seen));
	p = read_page(w, d, 4, no_verf, 60000, 60000, false, seen);
	assert_true(p.eof && seen[10] == 1);
	world_end(w);
}

/* A program may seek anywhere in a directory. */
static void test_readdir_cookies_before_the_first_list_all(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0755);
	struct page all, p;

	(void)state;
	fill_dir(d, 10);
	all = read_page(w, d, 0, no_verf, 60000, 60000, false, NULL);
	assert_int_equal(all.n, 12);
	for (uint64_t cookie = 1; cookie <= 2; cookie++) {
		p = read_page(w, d, cookie, all.verf, 60000, 60000, cookie % 2, NULL);
		assert_int_equal(p.stat, NFS3_OK);
		assert_true(p.eof && p.n == all.n);
	}
	world_end(w);
}

static void test_readdir_impossible_cookies_are_bad(void **state)
{
	static const uint64_t bad[] = {1ull << 63, UINT64_MAX, (1ull << 62) + 3};
	static const uint8_t verf[8] = {0xff};
	struct world *w = world_begin(exports, 0);
	struct page p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		p = read_page(w, fake_root(5), bad[i], no_verf, 4096, 4096, i % 2, NULL);
		assert_int_equal(p.stat, NFS3ERR_BAD_COOKIE);
	}
	p = read_page(w, fake_root(5), 5, verf, 4096, 4096, false, NULL);
	assert_int_equal(p.stat, NFS3ERR_BAD_COOKIE);
	/* Beyond the end is no error. */
	p = read_page(w, fake_root(5), 1000000, no_verf, 4096, 4096, false, NULL);
	assert_true(p.stat == NFS3_OK && p.eof && !p.n);
	world_end(w);
}

static void test_readdirplus_subvolume_is_a_mount_point(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct reply r;
	struct call c;
	int with = 0;

	(void)state;
	fake_make(fake_root(5), "f", S_IFREG | 0644);
	call_nfs3(w, &c, NFS3_READDIRPLUS);
	put_fh(&c.out, fake_root(5));
	wire_put_u64(&c.out, 4);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, 8192);
	wire_put_u32(&c.out, 8192);
	call_reply(w, &c, &r);
	assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
	wire_take(&r.in, NFS3_POST_ATTR_BYTES + 8);
	while (wire_get_bool(&r.in)) {
		struct nfs3_post_attr attr;
		struct wire_blob name, fh;
		bool has_fh;

		wire_get_u64(&r.in);
		wire_get_opaque(&r.in, 255, &name);
		wire_get_u64(&r.in);
		nfs3_get_post_attr(&r.in, &attr);
		has_fh = wire_get_bool(&r.in);
		if (has_fh)
			wire_get_opaque(&r.in, NFS3_FH_MAX, &fh);
		assert_int_equal(attr.present, name.data[0] == 'f');
		assert_int_equal(has_fh, name.data[0] == 'f');
		with += has_fh;
	}
	assert_int_equal(with, 1);
	reply_free(&r);
	world_end(w);
}

/* ------------------------------------------------------------ permissions */

static uint32_t access_of(struct world *w, struct fsc_inode *i)
{
	struct nfs3_post_attr attr;
	struct reply r;
	struct call c;
	uint32_t bits;

	call_nfs3(w, &c, NFS3_ACCESS);
	put_fh(&c.out, i);
	wire_put_u32(&c.out, 0x3f);
	call_reply(w, &c, &r);
	assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
	nfs3_get_post_attr(&r.in, &attr);
	bits = wire_get_u32(&r.in);
	reply_free(&r);
	return bits;
}

static void test_access_follows_mode_and_read_only(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | 0640);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0711);
	struct fsc_inode *dev = fake_make(fake_root(5), "n", S_IFCHR | 0666);

	(void)state;
	fake_attr(f)->uid = 1000;
	fake_attr(f)->gid = 50;
	assert_int_equal(access_of(w, f), NFS3_ACCESS_READ);
	assert_int_equal(access_of(w, d), NFS3_ACCESS_LOOKUP);
	assert_int_equal(
		access_of(w, dev), NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND);
	w->cred.uid = 1;
	assert_int_equal(access_of(w, f), 0);
	w->cred.n_gids = 1;
	w->cred.gids[0] = 50;
	assert_int_equal(access_of(w, f), NFS3_ACCESS_READ);
	w->cred.uid = 0;
	assert_int_equal(access_of(w, f), NFS3_ACCESS_READ);
	assert_int_equal(access_of(w, d), NFS3_ACCESS_READ | NFS3_ACCESS_LOOKUP);
	world_end(w);
}

static uint32_t read_stat(struct world *w, struct fsc_inode *f)
{
	struct reply r;
	struct call c;
	uint32_t stat;

	call_nfs3(w, &c, NFS3_READ);
	put_fh(&c.out, f);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, 10);
	call_reply(w, &c, &r);
	stat = wire_get_u32(&r.in);
	reply_free(&r);
	return stat;
}

static void test_read_permissions(void **state)
{
	static const char *const squashed[] = {"/e=/", NULL};
	struct world *w = world_begin(squashed, 0);
	struct fsc_inode *none = fake_make(fake_root(5), "none", S_IFREG);
	struct fsc_inode *exec = fake_make(fake_root(5), "exec", S_IFREG | 0111);
	struct fsc_inode *dir = fake_make(fake_root(5), "dir", S_IFDIR | 0777);
	struct fsc_inode *link = fake_make(fake_root(5), "link", S_IFLNK | 0777);

	(void)state;
	fake_attr(none)->uid = 1000;
	assert_int_equal(read_stat(w, none), NFS3_OK); /* the owner, whatever the mode */
	assert_int_equal(read_stat(w, exec), NFS3_OK); /* to run it */
	assert_int_equal(read_stat(w, dir), NFS3ERR_ISDIR);
	assert_int_equal(read_stat(w, link), NFS3ERR_INVAL);
	w->cred.uid = 0; /* squashed: nobody */
	assert_int_equal(read_stat(w, none), NFS3ERR_ACCES);
	w->cred.flavor = RPC_AUTH_NONE;
	assert_int_equal(read_stat(w, none), NFS3ERR_ACCES);
	world_end(w);
}

/* -------------------------------------------------------------- read-only */

struct change {
	uint32_t proc;
	void (*put)(
		struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name);
};

static void put_sattr(struct call *c)
{
	for (int i = 0; i < 6; i++)
		wire_put_u32(&c->out, 0);
}

static void put_create(
	struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name)
{
	(void)file;
	put_fh(&c->out, dir);
	put_name(c, name);
	wire_put_u32(&c->out, NFS3_EXCLUSIVE);
	wire_put_u64(&c->out, 1);
}

static void put_mkdir(
	struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name)
{
	(void)file;
	put_fh(&c->out, dir);
	put_name(c, name);
	put_sattr(c);
}

static void put_symlink(
	struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name)
{
	put_mkdir(c, dir, file, name);
	put_name(c, "target");
}

static void put_mknod(
	struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name)
{
	(void)file;
	put_fh(&c->out, dir);
	put_name(c, name);
	wire_put_u32(&c->out, NFS3_CHR);
	put_sattr(c);
	wire_put_u64(&c->out, 0);
}

static void put_remove(
	struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name)
{
	(void)file;
	put_fh(&c->out, dir);
	put_name(c, name);
}

static void put_rename(
	struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name)
{
	put_remove(c, dir, file, "f");
	put_remove(c, dir, file, name);
}

static void put_link(
	struct call *c, struct fsc_inode *dir, struct fsc_inode *file, const char *name)
{
	put_fh(&c->out, file);
	put_remove(c, dir, file, name);
}

static const struct change changes[] = {
	{NFS3_CREATE, put_create},
	{NFS3_MKDIR, put_mkdir},
	{NFS3_SYMLINK, put_symlink},
	{NFS3_MKNOD, put_mknod},
	{NFS3_REMOVE, put_remove},
	{NFS3_RMDIR, put_remove},
	{NFS3_RENAME, put_rename},
	{NFS3_LINK, put_link},
};

static uint32_t change_stat(struct world *w, const struct change *ch, struct fsc_inode *dir,
	struct fsc_inode *file, const char *name)
{
	struct reply r;
	struct call c;
	uint32_t stat;

	call_nfs3(w, &c, ch->proc);
	ch->put(&c, dir, file, name);
	call_reply(w, &c, &r);
	stat = wire_get_u32(&r.in);
	/* At least one set of attributes follows the status. */
	assert_true(wire_left(&r.in) >= 4 + 24 + NFS3_POST_ATTR_BYTES);
	reply_free(&r);
	return stat;
}

static void test_changes_are_refused_as_read_only(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0777);
	struct fsc_inode *f = fake_make(d, "f", S_IFREG | 0666);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const struct change *c = &changes[i];

		assert_int_equal(change_stat(w, c, d, f, "new"), NFS3ERR_ROFS);
		assert_int_equal(change_stat(w, c, d, f, "f"), NFS3ERR_ROFS);
		assert_int_equal(change_stat(w, c, d, f, "a/b"), NFS3ERR_INVAL);
		assert_int_equal(change_stat(w, c, d, f, ""), NFS3ERR_INVAL);
		assert_int_equal(change_stat(w, c, f, f, "new"), NFS3ERR_NOTDIR);
	}
	world_end(w);
}

static void test_commit_takes_any_range(void **state)
{
	static const struct {
		uint64_t off;
		uint32_t count;
	} ranges[] = {{0, 0}, {UINT64_MAX, 4096}, {1ull << 63, UINT32_MAX}};
	struct world *w = world_begin(exports, 0);
	struct fsc_inode *f = fake_make(fake_root(5), "f", S_IFREG | 0666);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		struct reply r;
		struct call c;

		call_nfs3(w, &c, NFS3_COMMIT);
		put_fh(&c.out, f);
		wire_put_u64(&c.out, ranges[i].off);
		wire_put_u32(&c.out, ranges[i].count);
		call_reply(w, &c, &r);
		assert_int_equal(wire_get_u32(&r.in), NFS3_OK);
		reply_free(&r);
	}
	world_end(w);
}

/* ------------------------------------------------------------------ mount */

static uint32_t mnt(struct world *w, const char *path)
{
	struct reply r;
	struct call c;
	uint32_t stat;

	call_begin(w, &c, MOUNT3_PROGRAM, MOUNT3_MNT);
	put_name(&c, path);
	call_reply(w, &c, &r);
	stat = wire_get_u32(&r.in);
	if (stat)
		assert_int_equal(wire_left(&r.in), 0);
	reply_free(&r);
	return stat;
}

static void test_mnt_paths(void **state)
{
	static const char *const two[] = {"/e=/", "/no=/sub,client=192.0.2.1", NULL};
	struct world *w = world_begin(two, 0);
	struct fsc_inode *d = fake_make(fake_root(5), "d", S_IFDIR | 0755);

	(void)state;
	fake_make(d, "f", S_IFREG | 0644);
	assert_int_equal(mnt(w, "/e"), MOUNT3_OK);
	assert_int_equal(mnt(w, "/e//"), MOUNT3_OK);
	assert_int_equal(mnt(w, "/e/d"), MOUNT3_OK);
	assert_int_equal(mnt(w, "/e/./d/"), MOUNT3_OK);
	assert_int_equal(mnt(w, "/e/d/f"), MOUNT3ERR_NOTDIR);
	assert_int_equal(mnt(w, "/e/d/f/g"), MOUNT3ERR_NOTDIR);
	assert_int_equal(mnt(w, "/e/none"), MOUNT3ERR_NOENT);
	assert_int_equal(mnt(w, "/ee"), MOUNT3ERR_NOENT);
	assert_int_equal(mnt(w, "/"), MOUNT3ERR_NOENT);
	assert_int_equal(mnt(w, ""), MOUNT3ERR_NOENT);
	assert_int_equal(mnt(w, "/e/../x"), MOUNT3ERR_ACCES);
	/* What is there does not show to who has no access. */
	assert_int_equal(mnt(w, "/no"), MOUNT3ERR_ACCES);
	assert_int_equal(mnt(w, "/no/none"), MOUNT3ERR_ACCES);
	assert_int_equal(mnt(w, "/e/sub"), MOUNT3ERR_ACCES);
	world_end(w);
}

static void test_mount_lists(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct wire_blob a, b;
	struct reply r;
	struct call c;

	(void)state;
	assert_int_equal(mnt(w, "/e"), MOUNT3_OK);
	call_begin(w, &c, MOUNT3_PROGRAM, MOUNT3_DUMP);
	call_reply(w, &c, &r);
	assert_true(wire_get_bool(&r.in));
	wire_get_opaque(&r.in, 255, &a);
	wire_get_opaque(&r.in, 255, &b);
	assert_memory_equal(a.data, "10.0.0.1", 8);
	assert_memory_equal(b.data, "/e", 2);
	assert_false(wire_get_bool(&r.in));
	reply_free(&r);

	call_begin(w, &c, MOUNT3_PROGRAM, MOUNT3_UMNTALL);
	call_reply(w, &c, &r);
	reply_free(&r);
	call_begin(w, &c, MOUNT3_PROGRAM, MOUNT3_DUMP);
	call_reply(w, &c, &r);
	assert_false(wire_get_bool(&r.in));
	reply_free(&r);

	call_begin(w, &c, MOUNT3_PROGRAM, MOUNT3_EXPORT);
	call_reply(w, &c, &r);
	assert_true(wire_get_bool(&r.in));
	wire_get_opaque(&r.in, 255, &a);
	assert_memory_equal(a.data, "/e", 2);
	assert_true(wire_get_bool(&r.in));
	wire_get_opaque(&r.in, 255, &b);
	assert_memory_equal(b.data, "*", 1);
	assert_false(wire_get_bool(&r.in));
	assert_false(wire_get_bool(&r.in));
	assert_int_equal(wire_left(&r.in), 0);
	reply_free(&r);
	world_end(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup_odd_names),
		cmocka_unit_test(test_lookup_dots_stay_in_the_export),
		cmocka_unit_test(test_lookup_into_subvolume_of_other_clients_is_refused),
		cmocka_unit_test(test_getattr_above_all_exports_is_stale),
		cmocka_unit_test(test_getattr_of_unlinked_is_stale),
		cmocka_unit_test(test_readdir_every_size_lists_each_name_once),
		cmocka_unit_test(test_readdir_first_entry_too_big_is_toosmall),
		cmocka_unit_test(test_readdir_ends_where_it_began),
		cmocka_unit_test(test_readdir_cookies_before_the_first_list_all),
		cmocka_unit_test(test_readdir_impossible_cookies_are_bad),
		cmocka_unit_test(test_readdirplus_subvolume_is_a_mount_point),
		cmocka_unit_test(test_access_follows_mode_and_read_only),
		cmocka_unit_test(test_read_permissions),
		cmocka_unit_test(test_changes_are_refused_as_read_only),
		cmocka_unit_test(test_commit_takes_any_range),
		cmocka_unit_test(test_mnt_paths),
		cmocka_unit_test(test_mount_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
