/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names on a writable export: making, removing, renaming, linking, listing meanwhile. */
#include "probe-write.h"

#include "clash.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINKS 65535u

static void want_dir_changed(struct probe_conn *c, const char *what, const struct change *ch,
	const struct probe_fh *dir, const fattr3 *before)
{
	want_stat(what, ch->status, NFS3_OK);
	want_wcc_exact(c, what, &ch->wcc, dir, before);
	WANT(later(&ch->wcc.after.post_op_attr_u.attributes.mtime, &before->mtime),
		"%s did not move the mtime of the directory", what);
}

/* ------------------------------------------------------------------ CREATE */

static void create_modes(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "create");
	fattr3 before = fh_attr(c, &dir);
	struct change ch = do_create(c, &dir, "f", GUARDED, NULL, NULL), again;
	sattr3 cut;

	want_dir_changed(c, "CREATE", &ch, &dir, &before);
	WANT(ch.has_fh && ch.has_attr, "CREATE gave no handle or no attributes");
	WANT(ch.attr.type == NF3REG && ch.attr.mode == 0644 && ch.attr.size == 0 &&
			ch.attr.nlink == 1,
		"attributes of the new file");
	do_write(c, &ch.fh, 0, "content", 7, FILE_SYNC);
	again = do_create(c, &dir, "f", GUARDED, NULL, NULL);
	want_change("GUARDED on what is there", &again, NFS3ERR_EXIST);
	memset(&cut, 0, sizeof(cut));
	again = do_create(c, &dir, "f", UNCHECKED, &cut, NULL);
	want_change("UNCHECKED on what is there", &again, NFS3_OK);
	WANT(!again.has_fh || same_fh(&again.fh, &ch.fh), "another handle");
	want_bytes(c, &ch.fh, "content", 7);
	cut.size.set_it = 1;
	again = do_create(c, &dir, "f", UNCHECKED, &cut, NULL);
	want_change("UNCHECKED with size 0", &again, NFS3_OK);
	want_bytes(c, &ch.fh, "", 0);
	WANT(!again.has_attr || again.attr.size == 0, "attributes say size %lu", again.attr.size);
	make_subdir(c, &dir, "d", 0755);
	again = do_create(c, &dir, "d", UNCHECKED, NULL, NULL);
	want_one_of("UNCHECKED on a directory", again.status,
		(const uint32_t[]){NFS3ERR_EXIST, NFS3ERR_ISDIR, UINT32_MAX});
}

/* P17. The restart is a case of its own. */
static void create_exclusive(void)
{
	static const char verfs[][9] = {"\377\377\377\377\377\377\377\377", "\0\0\0\0\0\0\0\0",
		"\200\0\0\0\0\0\0\1", "12345678"};
	struct probe_conn *c = conn_open(), *other = conn_open();
	struct probe_fh dir = work_dir(c, "exclusive");

	for (int i = 0; i < 4; i++) {
		char name[16], bad[9];
		struct change ch, again;
		sattr3 s = sattr_mode(0600);

		probe_trying("verifier %d", i);
		snprintf(name, sizeof(name), "f%d", i);
		ch = do_create(c, &dir, name, EXCLUSIVE, NULL, verfs[i]);
		want_change("CREATE", &ch, NFS3_OK);
		WANT(ch.has_fh, "no handle");
		again = do_create(other, &dir, name, EXCLUSIVE, NULL, verfs[i]);
		want_change("the same again", &again, NFS3_OK);
		WANT(again.has_fh && same_fh(&ch.fh, &again.fh), "another handle");
		for (int bit = 0; bit < 64; bit += 9) {
			memcpy(bad, verfs[i], 8);
			bad[bit / 8] ^= (char)(1 << bit % 8);
			again = do_create(c, &dir, name, EXCLUSIVE, NULL, bad);
			want_change("one bit of the verifier changed", &again, NFS3ERR_EXIST);
		}
		if (ch.has_attr)
			WANT(ch.attr.mtime.seconds + 86400 > ch.attr.ctime.seconds &&
					ch.attr.mtime.seconds < ch.attr.ctime.seconds + 86400 &&
					ch.attr.atime.seconds + 86400 > ch.attr.ctime.seconds &&
					ch.attr.atime.seconds < ch.attr.ctime.seconds + 86400,
				"the verifier shows in the times");
		s.mtime.set_it = s.atime.set_it = SET_TO_SERVER_TIME;
		again = do_setattr(c, &ch.fh, &s, NULL);
		want_change("SETATTR", &again, NFS3_OK);
		again = do_create(c, &dir, name, EXCLUSIVE, NULL, verfs[i]);
		want_change("the verifier after SETATTR", &again, NFS3ERR_EXIST);
	}
	make_file(c, &dir, "plain", "x");
	want_stat("EXCLUSIVE on a file made otherwise",
		do_create(c, &dir, "plain", EXCLUSIVE, NULL, verfs[1]).status, NFS3ERR_EXIST);
}

static void create_with_attributes(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "attributes");
	sattr3 s = sattr_mode(04751);
	struct change ch;
	fattr3 a;

	s.uid.set_it = s.gid.set_it = 1;
	s.uid.set_uid3_u.uid = 1234;
	s.gid.set_gid3_u.gid = 5678;
	s.mtime.set_it = SET_TO_CLIENT_TIME;
	s.mtime.set_mtime_u.mtime = (nfstime3){1000000000, 5};
	ch = do_create(c, &dir, "f", GUARDED, &s, NULL);
	want_change("CREATE", &ch, NFS3_OK);
	a = fh_attr(c, &ch.fh);
	WANT(a.mode == 04751 && a.uid == 1234 && a.gid == 5678, "mode 0%o, owner %u:%u", a.mode,
		a.uid, a.gid);
	WANT(a.mtime.seconds == 1000000000 && a.mtime.nseconds == 5, "mtime %u.%09u",
		a.mtime.seconds, a.mtime.nseconds);
	s = sattr_mode(01751);
	s.gid.set_it = 1;
	s.gid.set_gid3_u.gid = 77;
	ch = do_mkdir(c, &dir, "d", &s);
	want_change("MKDIR", &ch, NFS3_OK);
	a = fh_attr(c, &ch.fh);
	WANT(a.mode == 01751 && a.gid == 77, "directory: mode 0%o, group %u", a.mode, a.gid);
}

static void setgid_directory(void)
{
	struct probe_conn *c = conn_open(), *user = conn_open();
	struct probe_fh dir = work_dir(c, "setgid");
	sattr3 s = sattr_mode(02777);
	struct change ch;
	fattr3 a;

	s.gid.set_it = 1;
	s.gid.set_gid3_u.gid = 4321;
	ch = do_setattr(c, &dir, &s, NULL);
	want_change("SETATTR", &ch, NFS3_OK);
	conn_as(user, 1001, 1001);
	ch = do_create(user, &dir, "f", GUARDED, NULL, NULL);
	want_change("CREATE", &ch, NFS3_OK);
	a = fh_attr(c, &ch.fh);
	WANT(a.uid == 1001 && a.gid == 4321, "file: owner %u:%u", a.uid, a.gid);
	ch = do_mkdir(user, &dir, "d", NULL);
	want_change("MKDIR", &ch, NFS3_OK);
	a = fh_attr(c, &ch.fh);
	WANT(a.gid == 4321 && a.mode & 02000, "directory: mode 0%o, group %u", a.mode, a.gid);
}

/* ------------------------------------------------------------------ MKDIR, SYMLINK, MKNOD */

static void mkdir_and_rmdir(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "mkdir"), file = make_file(c, &dir, "f", "x");
	fattr3 before = fh_attr(c, &dir);
	struct change ch = do_mkdir(c, &dir, "d", NULL), r;

	want_dir_changed(c, "MKDIR", &ch, &dir, &before);
	WANT(ch.has_attr && ch.attr.type == NF3DIR && ch.attr.mode == 0755, "attributes");
	r = do_mkdir(c, &dir, "d", NULL);
	want_change("MKDIR of what is there", &r, NFS3ERR_EXIST);
	r = do_mkdir(c, &dir, "f", NULL);
	want_change("MKDIR where a file is", &r, NFS3ERR_EXIST);
	want_stat("MKDIR in a file", do_mkdir(c, &file, "x", NULL).status, NFS3ERR_NOTDIR);
	before = fh_attr(c, &dir);
	r = do_rmdir(c, &dir, "d");
	want_dir_changed(c, "RMDIR", &r, &dir, &before);
	r = do_rmdir(c, &dir, "d");
	want_change("RMDIR again", &r, NFS3ERR_NOENT);
}

/* P27. */
static void rmdir_refused(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "p27"), sub = make_subdir(c, &dir, "d", 0755);
	struct change ch;

	make_file(c, &sub, "f", "x");
	ch = do_rmdir(c, &dir, "d");
	want_change("RMDIR of what is not empty", &ch, NFS3ERR_NOTEMPTY);
	ch = do_rmdir(c, &sub, "f");
	want_change("RMDIR of a file", &ch, NFS3ERR_NOTDIR);
	ch = do_rmdir(c, &sub, ".");
	want_change("RMDIR .", &ch, NFS3ERR_INVAL);
	ch = do_rmdir(c, &sub, "..");
	want_one_of("RMDIR ..", ch.status,
		(const uint32_t[]){NFS3ERR_INVAL, NFS3ERR_EXIST, NFS3ERR_NOTEMPTY, UINT32_MAX});
	ch = do_remove(c, &dir, "d");
	want_one_of("REMOVE of a directory", ch.status,
		(const uint32_t[]){NFS3ERR_ISDIR, NFS3ERR_PERM, UINT32_MAX});
	ch = do_remove(c, &dir, ".");
	want_one_of("REMOVE .", ch.status,
		(const uint32_t[]){NFS3ERR_INVAL, NFS3ERR_ISDIR, NFS3ERR_PERM, UINT32_MAX});
	want_stat("the file is there", try_lookup(c, &sub, "f", NULL), NFS3_OK);
	ch = do_remove(c, &dir, "nothing");
	want_change("REMOVE of nothing", &ch, NFS3ERR_NOENT);
	if (!probe.has_subvolumes)
		return;
	want_one_of("RMDIR of a subvolume", do_rmdir(c, &probe.root, "sub").status,
		(const uint32_t[]){NFS3ERR_ACCES, NFS3ERR_PERM, NFS3ERR_NOTEMPTY, UINT32_MAX});
	want_stat("the subvolume is there", try_lookup(c, &probe.root, "sub", NULL), NFS3_OK);
}

static void symlinks(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "symlink");
	char target[4096];

	for (uint32_t len = 1; len < sizeof(target); len = len * 3 + 1) {
		READLINK3args a;
		READLINK3res r = {0};
		char name[16];
		struct change ch;

		probe_trying("target of %u bytes", len);
		memset(target, 't', len);
		target[len] = '\0';
		snprintf(name, sizeof(name), "l%u", len);
		ch = do_symlink(c, &dir, name, target);
		want_change("SYMLINK", &ch, NFS3_OK);
		WANT(ch.has_attr && ch.attr.type == NF3LNK && ch.attr.size == len, "attributes");
		a.symlink = fh_wire(&ch.fh);
		NFS_CALL(c, READLINK, &a, &r);
		want_stat("READLINK", r.status, NFS3_OK);
		WANT(!strcmp(r.READLINK3res_u.resok.data, target), "another target");
		want_stat("again", do_symlink(c, &dir, name, "x").status, NFS3ERR_EXIST);
	}
}

static void nodes(void)
{
	static const ftype3 types[] = {NF3CHR, NF3BLK, NF3SOCK, NF3FIFO};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "mknod");

	for (int i = 0; i < 4; i++) {
		char name[16];
		struct change ch;
		fattr3 a;

		probe_trying("type %d", (int)types[i]);
		snprintf(name, sizeof(name), "n%d", i);
		ch = do_mknod(c, &dir, name, types[i], 1000 + (uint32_t)i, 70000);
		want_change("MKNOD", &ch, NFS3_OK);
		a = fh_attr(c, &ch.fh);
		WANT(a.type == types[i] && a.mode == 0600, "type %d, mode 0%o", (int)a.type,
			a.mode);
		if (i < 2)
			WANT(a.rdev.specdata1 == 1000 + (uint32_t)i && a.rdev.specdata2 == 70000,
				"device %u:%u", a.rdev.specdata1, a.rdev.specdata2);
		want_stat("again", do_mknod(c, &dir, name, types[i], 1, 1).status, NFS3ERR_EXIST);
	}
	want_stat("MKNOD of a file", do_mknod(c, &dir, "f", NF3REG, 0, 0).status, NFS3ERR_BADTYPE);
	want_stat("MKNOD of a directory", do_mknod(c, &dir, "d", NF3DIR, 0, 0).status,
		NFS3ERR_BADTYPE);
}

/* ------------------------------------------------------------------ names */

enum maker {
	BY_CREATE,
	BY_MKDIR,
	BY_SYMLINK,
	BY_MKNOD,
	BY_LINK,
	BY_RENAME,
	MAKERS
};

static const char *const maker_names[] = {"CREATE", "MKDIR", "SYMLINK", "MKNOD", "LINK", "RENAME"};

/* A call with any bytes for a name. Returns the status, or UINT32_MAX for GARBAGE_ARGS. */
static uint32_t make_bytes(struct probe_conn *c, enum maker by, const struct probe_fh *dir,
	const char *name, uint32_t len, const struct probe_fh *file)
{
	static const uint32_t procs[] = {
		NFS3_CREATE, NFS3_MKDIR, NFS3_SYMLINK, NFS3_MKNOD, NFS3_LINK, NFS3_RENAME};
	struct probe_reply r;
	struct probe_out o;
	uint32_t status;

	out_init(&o, 4096);
	out_call(&o, c, NFS_PROGRAM, 3, procs[by]);
	if (by == BY_LINK)
		out_fh(&o, file);
	if (by == BY_RENAME) {
		out_fh(&o, dir);
		out_opaque(&o, "from", 4);
	}
	out_fh(&o, dir);
	out_opaque(&o, name, len);
	if (by == BY_CREATE)
		out_u32(&o, GUARDED);
	if (by == BY_MKNOD)
		out_u32(&o, NF3FIFO);
	for (int i = 0; by <= BY_MKNOD && i < 6; i++)
		out_u32(&o, 0);
	if (by == BY_SYMLINK)
		out_opaque(&o, "target", 6);
	conn_exchange(c, &o, &r);
	WANT(!r.closed, "connection closed");
	if (r.stat == GARBAGE_ARGS)
		return UINT32_MAX;
	WANT(r.stat == SUCCESS && r.body_bytes >= 4, "RPC error %u", r.stat);
	memcpy(&status, r.body, 4);
	return ntohl(status);
}

/* P13: what may be a name, and what never, for each operation that makes one. */
static void names(void)
{
	static const char utf8[] = "\303\251";
	char good[3][256], long_name[257];
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "p13"), file = make_file(c, &dir, "linked", "x");

	memset(good[0], 'n', 255);
	for (int i = 0; i < 254; i++)
		good[1][i] = utf8[i % 2];
	good[1][254] = 'x';
	memset(good[2], '\377', 255);
	memset(long_name, 'm', sizeof(long_name));
	for (int by = 0; by < MAKERS; by++) {
		struct probe_fh sub = make_subdir(c, &dir, maker_names[by], 0777);
		const struct {
			const char *name;
			uint32_t len, status;
		} bad[] = {{long_name, 256, NFS3ERR_NAMETOOLONG},
			{long_name, 257, NFS3ERR_NAMETOOLONG}, {"", 0, 0}, {".", 1, 0},
			{"..", 2, 0}, {"a/b", 3, 0}, {"/", 1, 0}, {"a\0b", 3, 0}};

		for (int i = 0; i < 3; i++) {
			probe_trying("%s, good name %d", maker_names[by], i);
			if (by == BY_RENAME)
				make_file(c, &sub, "from", "x");
			want_stat("status",
				make_bytes(c, (enum maker)by, &sub, good[i], 255, &file), NFS3_OK);
		}
		if (by == BY_RENAME)
			make_file(c, &sub, "from", "x");
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			static const uint32_t refused[] = {UINT32_MAX - 1, NFS3ERR_INVAL,
				NFS3ERR_ACCES, NFS3ERR_EXIST, NFS3ERR_ISDIR, NFS3ERR_NOTEMPTY,
				NFS3ERR_NAMETOOLONG, UINT32_MAX};
			uint32_t s;

			probe_trying("%s, bad name %zu", maker_names[by], i);
			s = make_bytes(c, (enum maker)by, &sub, bad[i].name, bad[i].len, &file);
			if (bad[i].status)
				want_stat("status", s, bad[i].status);
			else if (s != UINT32_MAX)
				want_one_of("status", s, refused);
		}
	}
}

/*
 * B21: names of one hash share an item of the directory, which has an end. Beyond it each
 * operation is refused; nobody else notices, and what was made can be removed.
 */
static void names_of_one_hash(void)
{
	struct probe_conn *c = conn_open(), *other = conn_open();
	struct probe_fh dir = work_dir(c, "clash"), elsewhere = work_dir(c, "clash-elsewhere"),
			file = make_file(c, &dir, "linked", "x");
	char name[250 + 1] = "";
	uint32_t status = NFS3_OK, n = 0;
	struct change ch;

	for (; status == NFS3_OK && n < 5000; n++) {
		enum maker by = (enum maker)(n % MAKERS);

		if (by == BY_RENAME)
			make_file(c, &dir, "from", "x");
		clash_name(CLASH_NAME_SEED, 0xb21b21u, "clash", n, name, 250);
		status = make_bytes(c, by, &dir, name, 250, &file);
	}
	want_stat("one too many", status, NFS3ERR_NAMETOOLONG);
	ch = do_create(c, &dir, "from", UNCHECKED, NULL, NULL);
	want_change("CREATE of another name", &ch, NFS3_OK);
	for (int by = 0; by < MAKERS; by++)
		want_stat(maker_names[by], make_bytes(c, (enum maker)by, &dir, name, 250, &file),
			NFS3ERR_NAMETOOLONG);
	want_stat("what was to be renamed", try_lookup(c, &dir, "from", NULL), NFS3_OK);
	/* Others, in this directory and elsewhere, durably. */
	make_file(other, &dir, "other", "x");
	make_file(other, &elsewhere, "other", "x");
	for (uint32_t i = 0; i + 1 < n; i++) {
		clash_name(CLASH_NAME_SEED, 0xb21b21u, "clash", i, name, 250);
		probe_trying("name %u of %u", i, n);
		want_stat("LOOKUP", try_lookup(other, &dir, name, NULL), NFS3_OK);
		ch = i % MAKERS == BY_MKDIR ? do_rmdir(c, &dir, name) : do_remove(c, &dir, name);
		want_change("removal", &ch, NFS3_OK);
	}
}

/* ------------------------------------------------------------------ RENAME */

static const uint32_t in_the_way[] = {
	NFS3ERR_EXIST, NFS3ERR_NOTEMPTY, NFS3ERR_ISDIR, NFS3ERR_NOTDIR, UINT32_MAX};

static void renames(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "rename"), d1 = make_subdir(c, &dir, "d1", 0755),
			d2 = make_subdir(c, &dir, "d2", 0755), f = make_file(c, &d1, "f", "one"),
			g = make_file(c, &d2, "g", "two"), found;
	fattr3 before1 = fh_attr(c, &d1), before2 = fh_attr(c, &d2), a;
	struct change ch = do_rename(c, &d1, "f", &d2, "moved");

	want_dir_changed(c, "RENAME", &ch, &d1, &before1);
	want_wcc_exact(c, "RENAME", &ch.wcc2, &d2, &before2);
	want_stat("the old name", try_lookup(c, &d1, "f", NULL), NFS3ERR_NOENT);
	want_stat("the new name", try_lookup(c, &d2, "moved", &found), NFS3_OK);
	WANT(same_fh(&found, &f), "another handle after RENAME");
	/* Onto another file: that one is gone. */
	ch = do_rename(c, &d2, "moved", &d2, "g");
	want_change("RENAME onto a file", &ch, NFS3_OK);
	want_stat("what was replaced", try_getattr(c, &g, &a), NFS3ERR_STALE);
	want_bytes(c, &f, "one", 3);
	/* Onto itself, and onto another name of the same file: nothing happens. */
	want_stat("RENAME onto itself", do_rename(c, &d2, "g", &d2, "g").status, NFS3_OK);
	want_change("LINK", (ch = do_link(c, &f, &d1, "other"), &ch), NFS3_OK);
	want_stat("RENAME onto a link of it", do_rename(c, &d2, "g", &d1, "other").status, NFS3_OK);
	want_stat("both names", try_lookup(c, &d2, "g", NULL), NFS3_OK);
	want_stat("both names", try_lookup(c, &d1, "other", NULL), NFS3_OK);
	WANT(fh_attr(c, &f).nlink == 2, "%u links", fh_attr(c, &f).nlink);
	want_stat("of nothing", do_rename(c, &d1, "nothing", &d2, "x").status, NFS3ERR_NOENT);
	want_stat(".", do_rename(c, &d1, ".", &d2, "x").status, NFS3ERR_INVAL);
	want_one_of("to ..", do_rename(c, &d1, "other", &d2, "..").status,
		(const uint32_t[]){
			NFS3ERR_INVAL, NFS3ERR_EXIST, NFS3ERR_NOTEMPTY, NFS3ERR_ISDIR, UINT32_MAX});
}

static void rename_directories(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "rename-dir"), a = make_subdir(c, &dir, "a", 0755),
			in = make_subdir(c, &a, "in", 0755), up;
	struct change ch;

	make_subdir(c, &dir, "empty", 0755);
	make_subdir(c, &dir, "b", 0755);
	make_file(c, &dir, "file", "x");
	make_file(c, &in, "deep", "x");
	want_one_of("a directory onto a file", do_rename(c, &dir, "b", &dir, "file").status,
		in_the_way);
	want_one_of("a file onto a directory", do_rename(c, &dir, "file", &dir, "b").status,
		in_the_way);
	want_one_of(
		"onto what is not empty", do_rename(c, &dir, "b", &dir, "a").status, in_the_way);
	want_stat("into itself", do_rename(c, &dir, "a", &in, "x").status, NFS3ERR_INVAL);
	want_stat("into itself", do_rename(c, &dir, "a", &a, "x").status, NFS3ERR_INVAL);
	ch = do_rename(c, &dir, "b", &dir, "empty");
	want_change("onto an empty directory", &ch, NFS3_OK);
	/* To another place, with everything in it: ".." leads to the new one. */
	ch = do_rename(c, &a, "in", &dir, "out");
	want_change("RENAME", &ch, NFS3_OK);
	want_stat("LOOKUP ..", try_lookup(c, &in, "..", &up), NFS3_OK);
	WANT(same_fh(&up, &dir), ".. leads to where it was before");
	want_stat("what is in it", try_lookup(c, &in, "deep", NULL), NFS3_OK);
	want_stat("RMDIR of where it was", do_rmdir(c, &dir, "a").status, NFS3_OK);
}

static void across_subvolumes(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "subvolumes"), file = make_file(c, &dir, "f", "x"), sub;
	static const uint32_t crossing[] = {NFS3ERR_XDEV, UINT32_MAX};

	if (!probe.has_subvolumes)
		probe_skip("no subvolumes");
	sub = path_fh(c, "sub");
	want_one_of("RENAME", do_rename(c, &dir, "f", &sub, "f").status, crossing);
	want_one_of("LINK", do_link(c, &file, &sub, "f").status, crossing);
	want_stat("the file is there", try_lookup(c, &dir, "f", NULL), NFS3_OK);
	make_file(c, &sub, "rw-in-the-subvolume", "x");
	want_stat("REMOVE in it", do_remove(c, &sub, "rw-in-the-subvolume").status, NFS3_OK);
}

/*
 * B31: what a snapshot has in place of a subvolume takes nothing in, and is not moved; the snapshot
 * around it is as writable as any other.
 */
static void stub_in_snapshot(void)
{
	static const uint32_t refused[] = {NFS3ERR_ROFS, NFS3ERR_ACCES, NFS3ERR_PERM, UINT32_MAX};
	struct probe_conn *c = conn_open();
	struct probe_fh snap, stub;
	sattr3 mode = sattr_mode(0777);

	if (!probe.has_subvolumes)
		probe_skip("no subvolumes");
	snap = path_fh(c, "snap");
	stub = path_fh(c, "snap/sub2");
	make_file(c, &snap, "rw-beside", "x");
	want_one_of("CREATE", do_create(c, &stub, "f", GUARDED, NULL, NULL).status, refused);
	want_one_of("MKDIR", do_mkdir(c, &stub, "d", NULL).status, refused);
	want_one_of("RENAME into", do_rename(c, &snap, "rw-beside", &stub, "f").status, refused);
	want_one_of("SETATTR", do_setattr(c, &stub, &mode, NULL).status, refused);
	want_one_of("RENAME", do_rename(c, &snap, "sub2", &snap, "elsewhere").status, refused);
	want_one_of("REMOVE", do_remove(c, &snap, "sub2").status,
		(const uint32_t[]){NFS3ERR_ISDIR, NFS3ERR_PERM, UINT32_MAX});
	want_stat("LOOKUP", try_lookup(c, &snap, "sub2", NULL), NFS3_OK);
	want_stat("REMOVE", do_remove(c, &snap, "rw-beside").status, NFS3_OK);
}

/* ------------------------------------------------------------------ LINK */

static void links(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "link"), f = make_file(c, &dir, "f", "x"), found;
	struct change ch, sym = do_symlink(c, &dir, "s", "target");
	fattr3 before = fh_attr(c, &dir), was = fh_attr(c, &f);

	ch = do_link(c, &f, &dir, "g");
	want_dir_changed(c, "LINK", &ch, &dir, &before);
	WANT(ch.has_attr && ch.attr.nlink == 2, "attributes of the file");
	WANT(later(&ch.attr.ctime, &was.ctime), "the ctime did not move");
	want_stat("LOOKUP", try_lookup(c, &dir, "g", &found), NFS3_OK);
	WANT(same_fh(&found, &f), "another handle");
	ch = do_link(c, &f, &dir, "g");
	want_change("LINK to what is there", &ch, NFS3ERR_EXIST);
	WANT(fh_attr(c, &f).nlink == 2, "%u links", fh_attr(c, &f).nlink);
	want_one_of("LINK of a directory", do_link(c, &dir, &dir, "d").status,
		(const uint32_t[]){NFS3ERR_PERM, NFS3ERR_ISDIR, NFS3ERR_INVAL, UINT32_MAX});
	/* P28. */
	want_change("SYMLINK", &sym, NFS3_OK);
	ch = do_link(c, &sym.fh, &dir, "s2");
	want_change("LINK of a symlink", &ch, NFS3_OK);
	WANT(fh_attr(c, &sym.fh).nlink == 2, "%u links of the symlink", fh_attr(c, &sym.fh).nlink);
	want_stat("REMOVE", do_remove(c, &dir, "f").status, NFS3_OK);
	want_bytes(c, &f, "x", 1);
	WANT(fh_attr(c, &f).nlink == 1, "%u links", fh_attr(c, &f).nlink);
}

/* Calls in flight together, each on a name of five digits; returns how many gave this status. */
static uint32_t pipelined(struct probe_conn *c, bool link, const struct probe_fh *file,
	const struct probe_fh *dir, uint32_t from, uint32_t to, uint32_t stride, uint32_t status)
{
	const uint32_t batch = 200;
	uint32_t same = 0;

	for (uint32_t i = from; i < to; i += batch) {
		uint32_t n = to - i < batch ? to - i : batch;

		for (uint32_t k = 0; k < n; k++) {
			char name[16];
			struct probe_out o;

			snprintf(name, sizeof(name), "%05u", (i + k) * stride % MAX_LINKS);
			out_init(&o, 512);
			out_call(&o, c, NFS_PROGRAM, 3, link ? NFS3_LINK : NFS3_REMOVE);
			if (link)
				out_fh(&o, file);
			out_fh(&o, dir);
			out_opaque(&o, name, 5);
			WANT(conn_send_record(c, o.data, o.bytes, UINT32_MAX / 2, false, false),
				"connection closed");
		}
		for (uint32_t k = 0; k < n; k++) {
			struct probe_reply r;
			char *data;
			uint32_t bytes, s;

			WANT(conn_receive(c, &data, &bytes), "connection closed");
			reply_parse(data, bytes, &r);
			WANT(r.stat == SUCCESS && r.body_bytes >= 4, "RPC error %u", r.stat);
			memcpy(&s, r.body, 4);
			same += ntohl(s) == status;
		}
	}
	return same;
}

/* B23: as many links as there may be, in one directory and so past one item, and none of it left. */
static void max_links(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "links"), names_dir = make_subdir(c, &dir, "names", 0755),
			f = make_file(c, &dir, "f", "x");
	PATHCONF3args pa = {.object = fh_wire(&f)};
	PATHCONF3res pr = {0};
	struct change ch;
	uint32_t done;

	done = pipelined(c, true, &f, &names_dir, 0, MAX_LINKS - 1, 1, NFS3_OK);
	WANT(done == MAX_LINKS - 1, "%u of %u LINKs succeeded", done, MAX_LINKS - 1);
	WANT(fh_attr(c, &f).nlink == MAX_LINKS, "%u links", fh_attr(c, &f).nlink);
	ch = do_link(c, &f, &dir, "more");
	want_change("one more", &ch, NFS3ERR_MLINK);
	/* Removed in another order than made: 7919 is a prime. */
	done = pipelined(c, false, &f, &names_dir, 0, MAX_LINKS, 7919, NFS3_OK);
	WANT(done == MAX_LINKS - 1, "%u of %u REMOVEs succeeded", done, MAX_LINKS - 1);
	WANT(fh_attr(c, &f).nlink == 1, "%u links", fh_attr(c, &f).nlink);
	want_stat("RMDIR", do_rmdir(c, &dir, "names").status, NFS3_OK);
	NFS_CALL(c, PATHCONF, &pa, &pr);
	want_stat("PATHCONF", pr.status, NFS3_OK);
	WANT(pr.PATHCONF3res_u.resok.linkmax == MAX_LINKS, "PATHCONF linkmax %u",
		pr.PATHCONF3res_u.resok.linkmax);
}

/* ------------------------------------------------------------------ READDIR meanwhile */

struct page {
	uint64_t cookie;
	char verf[NFS3_COOKIEVERFSIZE];
	bool eof;
	uint32_t status, n;
	char names[600][16];
};

static void next_page(
	struct probe_conn *c, const struct probe_fh *dir, uint32_t bytes, struct page *p)
{
	READDIR3args a = {.dir = fh_wire(dir), .cookie = p->cookie, .count = bytes};
	READDIR3res r = {0};

	memcpy(a.cookieverf, p->verf, sizeof(a.cookieverf));
	NFS_CALL(c, READDIR, &a, &r);
	p->status = r.status;
	p->n = 0;
	if (r.status != NFS3_OK)
		return;
	memcpy(p->verf, r.READDIR3res_u.resok.cookieverf, sizeof(p->verf));
	p->eof = r.READDIR3res_u.resok.reply.eof;
	for (entry3 *e = r.READDIR3res_u.resok.reply.entries; e; e = e->nextentry) {
		p->cookie = e->cookie;
		if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
			continue;
		WANT(p->n < 600, "too many entries for a page");
		snprintf(p->names[p->n++], sizeof(p->names[0]), "%s", e->name);
	}
}

static void fill_dir(struct probe_conn *c, const struct probe_fh *dir, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "e%u", i);
		want_stat("CREATE", do_create(c, dir, name, GUARDED, NULL, NULL).status, NFS3_OK);
	}
}

/* P06: what comes and goes between two pages changes nothing for the rest. */
static void listing_while_changing(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "p06");
	struct page *p = probe_alloc(sizeof(*p));
	unsigned seen[300] = {0}, n, step = 0;

	fill_dir(c, &dir, 300);
	do {
		char name[16];

		next_page(c, &dir, 700, p);
		want_stat("READDIR with the verifier of the page before", p->status, NFS3_OK);
		for (uint32_t i = 0; i < p->n; i++)
			if (sscanf(p->names[i], "e%u", &n) == 1 && n < 300)
				seen[n]++;
		snprintf(name, sizeof(name), "new%u", step++);
		want_stat("CREATE", do_create(c, &dir, name, GUARDED, NULL, NULL).status, NFS3_OK);
		if (step % 2)
			want_stat("REMOVE", do_remove(c, &dir, name).status, NFS3_OK);
		WANT(step < 1000, "the listing does not end");
	} while (!p->eof);
	for (n = 0; n < 300; n++)
		WANT(seen[n] == 1, "e%u was listed %u times", n, seen[n]);
}

/* P08, generic/736: each entry gets a new place while it is listed. */
static void listing_while_renaming(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "p08");
	struct page *p = probe_alloc(sizeof(*p));
	unsigned seen[400] = {0}, n, pages = 0;

	fill_dir(c, &dir, 400);
	do {
		next_page(c, &dir, 600, p);
		want_stat("READDIR", p->status, NFS3_OK);
		for (uint32_t i = 0; i < p->n; i++) {
			if (sscanf(p->names[i], "e%u", &n) == 1 && n < 400)
				seen[n]++;
			want_stat("RENAME",
				do_rename(c, &dir, p->names[i], &dir, "TEMPFILE").status, NFS3_OK);
			want_stat("RENAME",
				do_rename(c, &dir, "TEMPFILE", &dir, p->names[i]).status, NFS3_OK);
		}
		WANT(++pages < 500, "the listing does not end");
	} while (!p->eof);
	for (n = 0; n < 400; n++)
		WANT(seen[n] >= 1, "e%u was not listed", n);
}

/* P09: from the start again, everything that is there now. */
static void listing_again(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "p09");
	struct page *p = probe_alloc(sizeof(*p));
	unsigned found = 0;

	fill_dir(c, &dir, 10);
	next_page(c, &dir, 4096, p);
	WANT(p->status == NFS3_OK && p->eof && p->n == 10, "%u entries", p->n);
	want_stat("CREATE", do_create(c, &dir, "late1", GUARDED, NULL, NULL).status, NFS3_OK);
	want_stat("CREATE", do_create(c, &dir, "late2", GUARDED, NULL, NULL).status, NFS3_OK);
	want_stat("REMOVE", do_remove(c, &dir, "e3").status, NFS3_OK);
	p->cookie = 0;
	memset(p->verf, 0, sizeof(p->verf));
	next_page(c, &dir, 4096, p);
	for (uint32_t i = 0; i < p->n; i++) {
		found += !strncmp(p->names[i], "late", 4);
		WANT(strcmp(p->names[i], "e3"), "what was removed is listed");
	}
	WANT(p->eof && p->n == 11 && found == 2, "%u entries, %u of the new ones", p->n, found);
}

/* A cookie whose entry was removed still has its place. */
static void cookie_of_removed(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "cookie");
	struct page *p = probe_alloc(sizeof(*p));
	unsigned total = 0;

	fill_dir(c, &dir, 100);
	do {
		next_page(c, &dir, 600, p);
		want_stat("READDIR", p->status, NFS3_OK);
		total += p->n;
		for (uint32_t i = 0; i < p->n; i++)
			want_stat("REMOVE", do_remove(c, &dir, p->names[i]).status, NFS3_OK);
	} while (!p->eof);
	WANT(total == 100, "%u of 100 entries", total);
}

/* O06: a name that is a directory, a file, a directory: an old handle never is the new object. */
static void handles_are_not_used_again(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "o06"), old[100];
	fattr3 a;

	for (int i = 0; i < 100; i++) {
		struct change ch = i % 2 ? do_create(c, &dir, "a", GUARDED, NULL, NULL)
					 : do_mkdir(c, &dir, "a", NULL);

		want_change("made", &ch, NFS3_OK);
		old[i] = ch.fh;
		ch = i % 2 ? do_remove(c, &dir, "a") : do_rmdir(c, &dir, "a");
		want_change("removed", &ch, NFS3_OK);
	}
	make_file(c, &dir, "a", "x");
	for (int i = 0; i < 100; i++)
		want_stat("GETATTR", try_getattr(c, &old[i], &a), NFS3ERR_STALE);
}

const struct probe_case probe_write_name_cases[] = {
	{"create_modes", create_modes},
	{"create_p17_exclusive", create_exclusive},
	{"create_attributes", create_with_attributes},
	{"create_setgid_directory", setgid_directory},
	{"mkdir_rmdir", mkdir_and_rmdir},
	{"rmdir_p27", rmdir_refused},
	{"symlink_targets", symlinks},
	{"mknod_types", nodes},
	{"names_p13", names},
	{"names_b21_one_hash", names_of_one_hash},
	{"rename_files", renames},
	{"rename_directories", rename_directories},
	{"rename_link_xdev", across_subvolumes},
	{"subvolumes_b31_stub_is_left_alone", stub_in_snapshot},
	{"link_p28", links},
	{"link_b23_max", max_links},
	{"readdir_p06_changes", listing_while_changing},
	{"readdir_p08_renames", listing_while_renaming},
	{"readdir_p09_again", listing_again},
	{"readdir_cookie_of_removed", cookie_of_removed},
	{"handles_o06", handles_are_not_used_again},
	{NULL, NULL},
};
