/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The procedures that change something, on a read-only export: ROFS with well
 * formed attributes, and nothing changed. The senders are functions of their own,
 * for the cases of a writable export to use.
 */
#include "probe.h"

#include <string.h>

static char *name_copy(const char *name)
{
	return strcpy(probe_alloc(strlen(name) + 1), name);
}

static diropargs3 where(const struct probe_fh *dir, const char *name)
{
	diropargs3 d = {fh_wire(dir), name_copy(name)};

	return d;
}

static void need_read_only(void)
{
	if (probe.read_write)
		probe_skip("the export is writable");
}

static void want_rofs(const char *what, uint32_t status)
{
	want_stat(what, status, NFS3ERR_ROFS);
}

/* One status of many, each legal, none of which changes anything. */
static void want_refused(const char *what, uint32_t status)
{
	WANT(status == NFS3ERR_ROFS || status == NFS3ERR_NOTEMPTY || status == NFS3ERR_NOTDIR ||
			status == NFS3ERR_INVAL || status == NFS3ERR_ISDIR ||
			status == NFS3ERR_ACCES || status == NFS3ERR_PERM ||
			status == NFS3ERR_EXIST,
		"%s: %s", what, stat_name(status));
}

static uint32_t setattr_mode(
	struct probe_conn *c, const struct probe_fh *fh, uint32_t mode, const nfstime3 *guard)
{
	SETATTR3args a = {.object = fh_wire(fh)};
	SETATTR3res r = {0};

	a.new_attributes.mode.set_it = 1;
	a.new_attributes.mode.set_mode3_u.mode = mode;
	if (guard) {
		a.guard.check = 1;
		a.guard.sattrguard3_u.obj_ctime = *guard;
	}
	NFS_CALL(c, SETATTR, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("SETATTR", &r.SETATTR3res_u.resok.obj_wcc);
	else
		want_wcc("SETATTR", &r.SETATTR3res_u.resfail.obj_wcc);
	return r.status;
}

static uint32_t setattr_size(struct probe_conn *c, const struct probe_fh *fh, uint64_t size)
{
	SETATTR3args a = {.object = fh_wire(fh)};
	SETATTR3res r = {0};

	a.new_attributes.size.set_it = 1;
	a.new_attributes.size.set_size3_u.size = size;
	NFS_CALL(c, SETATTR, &a, &r);
	return r.status;
}

static uint32_t write_text(
	struct probe_conn *c, const struct probe_fh *fh, const char *text, stable_how how)
{
	WRITE3args a = {.file = fh_wire(fh), .stable = how};
	WRITE3res r = {0};

	a.count = a.data.data_len = (uint32_t)strlen(text);
	a.data.data_val = name_copy(text);
	NFS_CALL(c, WRITE, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("WRITE", &r.WRITE3res_u.resok.file_wcc);
	else
		want_wcc("WRITE", &r.WRITE3res_u.resfail.file_wcc);
	return r.status;
}

static uint32_t create_file(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, createmode3 how)
{
	CREATE3args a = {.where = where(dir, name), .how = {.mode = how}};
	CREATE3res r = {0};

	if (how != EXCLUSIVE) {
		a.how.createhow3_u.obj_attributes.mode.set_it = 1;
		a.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = 0644;
	}
	NFS_CALL(c, CREATE, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("CREATE", &r.CREATE3res_u.resok.dir_wcc);
	else
		want_wcc("CREATE", &r.CREATE3res_u.resfail.dir_wcc);
	return r.status;
}

static uint32_t make_dir(struct probe_conn *c, const struct probe_fh *dir, const char *name)
{
	MKDIR3args a = {.where = where(dir, name)};
	MKDIR3res r = {0};

	NFS_CALL(c, MKDIR, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("MKDIR", &r.MKDIR3res_u.resok.dir_wcc);
	else
		want_wcc("MKDIR", &r.MKDIR3res_u.resfail.dir_wcc);
	return r.status;
}

static uint32_t make_symlink(struct probe_conn *c, const struct probe_fh *dir, const char *name)
{
	SYMLINK3args a = {.where = where(dir, name)};
	SYMLINK3res r = {0};

	a.symlink.symlink_data = name_copy("target");
	NFS_CALL(c, SYMLINK, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("SYMLINK", &r.SYMLINK3res_u.resok.dir_wcc);
	else
		want_wcc("SYMLINK", &r.SYMLINK3res_u.resfail.dir_wcc);
	return r.status;
}

static uint32_t make_node(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, ftype3 type)
{
	MKNOD3args a = {.where = where(dir, name), .what = {.type = type}};
	MKNOD3res r = {0};

	NFS_CALL(c, MKNOD, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("MKNOD", &r.MKNOD3res_u.resok.dir_wcc);
	else
		want_wcc("MKNOD", &r.MKNOD3res_u.resfail.dir_wcc);
	return r.status;
}

static uint32_t remove_name(struct probe_conn *c, const struct probe_fh *dir, const char *name)
{
	REMOVE3args a = {.object = where(dir, name)};
	REMOVE3res r = {0};

	NFS_CALL(c, REMOVE, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("REMOVE", &r.REMOVE3res_u.resok.dir_wcc);
	else
		want_wcc("REMOVE", &r.REMOVE3res_u.resfail.dir_wcc);
	return r.status;
}

static uint32_t remove_dir(struct probe_conn *c, const struct probe_fh *dir, const char *name)
{
	RMDIR3args a = {.object = where(dir, name)};
	RMDIR3res r = {0};

	NFS_CALL(c, RMDIR, &a, &r);
	if (r.status == NFS3_OK)
		want_wcc("RMDIR", &r.RMDIR3res_u.resok.dir_wcc);
	else
		want_wcc("RMDIR", &r.RMDIR3res_u.resfail.dir_wcc);
	return r.status;
}

static uint32_t rename_name(struct probe_conn *c, const struct probe_fh *from, const char *name,
	const struct probe_fh *to, const char *new_name)
{
	RENAME3args a = {.from = where(from, name), .to = where(to, new_name)};
	RENAME3res r = {0};

	NFS_CALL(c, RENAME, &a, &r);
	if (r.status != NFS3_OK) {
		want_wcc("RENAME", &r.RENAME3res_u.resfail.fromdir_wcc);
		want_wcc("RENAME", &r.RENAME3res_u.resfail.todir_wcc);
	}
	return r.status;
}

static uint32_t link_file(struct probe_conn *c, const struct probe_fh *file,
	const struct probe_fh *dir, const char *name)
{
	LINK3args a = {.file = fh_wire(file), .link = where(dir, name)};
	LINK3res r = {0};

	NFS_CALL(c, LINK, &a, &r);
	if (r.status == NFS3_OK) {
		want_attr("LINK", &r.LINK3res_u.resok.file_attributes);
		want_wcc("LINK", &r.LINK3res_u.resok.linkdir_wcc);
	} else {
		want_attr("LINK", &r.LINK3res_u.resfail.file_attributes);
		want_wcc("LINK", &r.LINK3res_u.resfail.linkdir_wcc);
	}
	return r.status;
}

/* -- cases ----------------------------------------------------------------- */

static void setattr_rofs(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "hello");

	need_read_only();
	want_rofs("mode", setattr_mode(c, &fh, 0600, NULL));
	want_rofs("size 0", setattr_size(c, &fh, 0));
	WANT(fh_attr(c, &fh).size == 13, "truncated all the same");
	WANT(fh_attr(c, &fh).mode == 0644, "mode changed all the same");
}

/* P20: a guard that doesn't match may be noticed first. */
static void setattr_guard(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "hello");
	nfstime3 guard = fh_attr(c, &fh).ctime;
	uint32_t s;

	need_read_only();
	want_rofs("guard equal", setattr_mode(c, &fh, 0600, &guard));
	guard.nseconds = (guard.nseconds + 1) % 1000000000;
	s = setattr_mode(c, &fh, 0600, &guard);
	WANT(s == NFS3ERR_ROFS || s == NFS3ERR_NOT_SYNC, "1 ns off: %s", stat_name(s));
}

static void write_rofs(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "hello");

	need_read_only();
	for (int how = UNSTABLE; how <= FILE_SYNC; how++)
		want_rofs("WRITE", write_text(c, &fh, "HELLO", (stable_how)how));
	WANT(fh_attr(c, &fh).mtime.nseconds == 123456789, "mtime changed");
}

static void create_rofs(void)
{
	struct probe_conn *c = conn_open();

	need_read_only();
	for (int how = UNCHECKED; how <= EXCLUSIVE; how++)
		want_rofs("CREATE", create_file(c, &probe.root, "new", (createmode3)how));
	want_stat("LOOKUP after", try_lookup(c, &probe.root, "new", NULL), NFS3ERR_NOENT);
}

/* P30: the directory's write permission must not be what is refused. */
static void create_existing(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh dir = path_fh(root, "perm/d0555");
	uint32_t s;

	conn_as(c, 1001, 1001);
	s = create_file(c, &dir, "f0666", UNCHECKED);
	if (probe.read_write)
		want_stat("CREATE", s, NFS3_OK);
	else
		WANT(s == NFS3ERR_ROFS || s == NFS3_OK, "CREATE: %s", stat_name(s));
}

static void mkdir_rofs(void)
{
	struct probe_conn *c = conn_open();

	need_read_only();
	want_rofs("MKDIR", make_dir(c, &probe.root, "new"));
	want_refused("MKDIR of a name that exists", make_dir(c, &probe.root, "types"));
}

static void symlink_rofs(void)
{
	need_read_only();
	want_rofs("SYMLINK", make_symlink(conn_open(), &probe.root, "new"));
}

static void mknod_rofs(void)
{
	static const ftype3 types[] = {NF3CHR, NF3BLK, NF3SOCK, NF3FIFO};
	struct probe_conn *c = conn_open();

	need_read_only();
	for (int i = 0; i < 4; i++)
		want_rofs("MKNOD", make_node(c, &probe.root, "new", types[i]));
}

static void remove_rofs(void)
{
	struct probe_conn *c = conn_open();

	need_read_only();
	want_rofs("REMOVE", remove_name(c, &probe.root, "hello"));
	want_refused("REMOVE of a directory", remove_name(c, &probe.root, "emptydir"));
	path_fh(c, "hello");
	path_fh(c, "emptydir");
}

/* P27. */
static void rmdir_rofs(void)
{
	struct probe_conn *c = conn_open();

	need_read_only();
	want_rofs("RMDIR", remove_dir(c, &probe.root, "emptydir"));
	want_refused("RMDIR non-empty", remove_dir(c, &probe.root, "types"));
	want_refused("RMDIR of a file", remove_dir(c, &probe.root, "hello"));
	want_refused("RMDIR of a subvolume", remove_dir(c, &probe.root, "sub"));
	want_refused("RMDIR .", remove_dir(c, &probe.root, "."));
	want_refused("RMDIR ..", remove_dir(c, &probe.root, ".."));
	path_fh(c, "emptydir");
	path_fh(c, "types/file");
	path_fh(c, "sub/inside");
}

static void rename_rofs(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "types");

	need_read_only();
	want_rofs("RENAME", rename_name(c, &probe.root, "hello", &probe.root, "new"));
	want_rofs("RENAME to another directory", rename_name(c, &probe.root, "hello", &dir, "new"));
	want_rofs("RENAME over a file", rename_name(c, &probe.root, "hello", &dir, "file"));
	path_fh(c, "hello");
}

/* P28: with the handle of a symlink, too. */
static void link_rofs(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh file = path_fh(c, "hello"), slink = path_fh(c, "slink");

	need_read_only();
	want_rofs("LINK", link_file(c, &file, &probe.root, "new"));
	want_rofs("LINK of a symlink", link_file(c, &slink, &probe.root, "new"));
	WANT(fh_attr(c, &file).nlink == 1, "linked all the same");
}

/* P16: COMMIT may succeed on a read-only export, having nothing to do. */
static void commit_ranges(void)
{
	static const struct {
		uint64_t file_off;
		uint32_t count;
	} ranges[] = {{0, 0}, {0, 4096}, {UINT64_MAX, 4096}, {UINT64_MAX, 0},
		{1ull << 63, UINT32_MAX}, {(1ull << 63) - 1, 2}};
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "hello");

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		COMMIT3args a = {.file = fh_wire(&fh),
			.offset = ranges[i].file_off,
			.count = ranges[i].count};
		COMMIT3res r = {0};

		probe_trying("offset 0x%lx, count %u", ranges[i].file_off, ranges[i].count);
		NFS_CALL(c, COMMIT, &a, &r);
		if (r.status == NFS3_OK)
			want_wcc("COMMIT", &r.COMMIT3res_u.resok.file_wcc);
		else if (!probe.read_write && r.status == NFS3ERR_ROFS)
			want_wcc("COMMIT", &r.COMMIT3res_u.resfail.file_wcc);
		else
			FAIL("%s", stat_name(r.status));
	}
}

/* Bad names are refused before or after the export's being read-only, never taken. */
static void create_bad_names(void)
{
	static const char *const names[] = {"", ".", "..", "a/b"};
	struct probe_conn *c = conn_open();
	char name[257];

	memset(name, 'n', 256);
	name[256] = '\0';
	for (int i = 0; i < 5; i++) {
		CREATE3args a = {.where = where(&probe.root, i < 4 ? names[i] : name)};
		struct probe_reply r;
		struct probe_out o;
		CREATE3res cr = {0};

		probe_trying("name %d", i);
		out_init(&o, 1024);
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_CREATE);
		out_fh(&o, &probe.root);
		out_opaque(&o, a.where.name, (uint32_t)strlen(a.where.name));
		out_u32(&o, GUARDED);
		for (int w = 0; w < 6; w++)
			out_u32(&o, 0);
		conn_exchange(c, &o, &r);
		WANT(!r.closed, "connection closed");
		if (r.stat == GARBAGE_ARGS)
			continue;
		WANT(r.stat == SUCCESS, "RPC error %u", r.stat);
		reply_decode(&r, (zdrproc_t)zdr_CREATE3res, &cr);
		WANT(cr.status != NFS3_OK, "created");
	}
}

const struct probe_case probe_rofs_cases[] = {
	{"rofs_setattr", setattr_rofs},
	{"rofs_p20_setattr_guard", setattr_guard},
	{"rofs_write", write_rofs},
	{"rofs_create", create_rofs},
	{"rofs_p30_create_existing", create_existing},
	{"rofs_mkdir", mkdir_rofs},
	{"rofs_symlink", symlink_rofs},
	{"rofs_mknod", mknod_rofs},
	{"rofs_remove", remove_rofs},
	{"rofs_p27_rmdir", rmdir_rofs},
	{"rofs_rename", rename_rofs},
	{"rofs_p28_link", link_rofs},
	{"commit_p16_ranges", commit_ranges},
	{"rofs_p13_create_bad_names", create_bad_names},
	{NULL, NULL},
};
