/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MOUNT version 3: RFC 1813, appendix I. */
#include "probe.h"

#include <string.h>

static void want_mount(const char *path, mountstat3 want)
{
	struct probe_conn *c = conn_open_mount();
	mountstat3 got = mount_path(c, path, NULL);

	WANT(got == want, "MNT %s: mountstat %d instead of %d", path, (int)got, (int)want);
}

static void mnt_existing(void)
{
	struct probe_fh root;
	struct probe_conn *c = conn_open_mount();

	WANT(mount_path(c, probe.export, &root) == MNT3_OK, "MNT failed");
	WANT(root.len == probe.root.len && !memcmp(root.data, probe.root.data, root.len),
		"another handle than before");
}

static void mnt_gives_auth_flavors(void)
{
	struct probe_conn *c = conn_open_mount();
	mountres3 r = {0};
	dirpath p = export_path("");
	bool sys = false;

	p[strlen(probe.export)] = '\0';
	conn_call(c, MOUNT_PROGRAM, MOUNT3_MNT, (zdrproc_t)zdr_dirpath, &p,
		(zdrproc_t)zdr_mountres3, &r);
	WANT(r.fhs_status == MNT3_OK, "mountstat %d", (int)r.fhs_status);
	for (uint32_t i = 0; i < r.mountres3_u.mountinfo.auth_flavors.auth_flavors_len; i++)
		sys |= r.mountres3_u.mountinfo.auth_flavors.auth_flavors_val[i] == AUTH_UNIX;
	WANT(sys, "AUTH_SYS is not among the flavors");
}

static void mnt_missing(void)
{
	want_mount(export_path("no-such-name"), MNT3ERR_NOENT);
}

static void mnt_no_such_export(void)
{
	struct probe_conn *c = conn_open_mount();
	mountstat3 s = mount_path(c, "/no-such-export-anywhere", NULL);

	WANT(s == MNT3ERR_NOENT || s == MNT3ERR_ACCES, "mountstat %d", (int)s);
}

static void mnt_file(void)
{
	want_mount(export_path("hello"), MNT3ERR_NOTDIR);
}

static void mnt_below_file(void)
{
	want_mount(export_path("hello/x"), MNT3ERR_NOTDIR);
}

static void mnt_subdir(void)
{
	struct probe_conn *m = conn_open_mount(), *c = conn_open();
	struct probe_fh root, want = path_fh(c, "types");
	fattr3 a, b;

	WANT(mount_path(m, export_path("types"), &root) == MNT3_OK,
		"MNT of a directory below the export failed");
	a = fh_attr(c, &root);
	b = fh_attr(c, &want);
	WANT(a.fileid == b.fileid && a.fsid == b.fsid, "another object");
}

/* However often it is asked: a client once did so thousands of times a second. */
static void mnt_denied(void)
{
	struct probe_conn *c = conn_open_mount();

	if (!probe.denied_export)
		probe_skip("no --denied-export");
	for (int i = 0; i < 1000; i++) {
		mountstat3 s = mount_path(c, probe.denied_export, NULL);

		WANT(s == MNT3ERR_ACCES, "mountstat %d instead of ACCES", (int)s);
		probe_release();
	}
	want_mount(probe.export, MNT3_OK);
}

static void mnt_trailing_slash(void)
{
	want_mount(export_path(""), MNT3_OK);
}

static void mnt_dotdot_stays_inside(void)
{
	struct probe_conn *m = conn_open_mount(), *c = conn_open();
	struct probe_fh root;
	mountstat3 s = mount_path(m, export_path("../../.."), &root);

	if (s == MNT3_OK) {
		fattr3 a = fh_attr(c, &root), b = fh_attr(c, &probe.root);

		WANT(a.fileid == b.fileid && a.fsid == b.fsid, "MNT went above the export");
	}
}

static void mnt_long_path(void)
{
	struct probe_conn *c = conn_open_mount();
	char *path = probe_alloc(MNTPATHLEN + 1);
	mountstat3 s;

	memset(path, 'p', MNTPATHLEN);
	path[0] = '/';
	s = mount_path(c, path, NULL);
	WANT(s == MNT3ERR_NAMETOOLONG || s == MNT3ERR_NOENT || s == MNT3ERR_ACCES, "mountstat %d",
		(int)s);
}

static void mnt_path_over_limit(void)
{
	struct probe_conn *c = conn_open_mount();
	char *path = probe_alloc(70000);
	struct probe_out o;
	struct probe_reply r;

	memset(path, 'p', 65536);
	out_init(&o, 80000);
	out_call(&o, c, MOUNT_PROGRAM, 3, MOUNT3_MNT);
	out_opaque(&o, path, 65536);
	conn_exchange(c, &o, &r);
	WANT(r.closed || r.stat == GARBAGE_ARGS ||
			(r.stat == SUCCESS && r.body_bytes == 4 && r.body[3] != 0),
		"a path of 64 KiB was accepted");
	want_mount(probe.export, MNT3_OK);
}

static void export_lists_us(void)
{
	struct probe_conn *c = conn_open_mount();
	exports list = NULL;

	conn_call(c, MOUNT_PROGRAM, MOUNT3_EXPORT, (zdrproc_t)zdr_void, NULL,
		(zdrproc_t)zdr_exports, (void *)&list);
	for (; list; list = list->ex_next)
		if (!strcmp(list->ex_dir, probe.export))
			return;
	FAIL("%s is not in the list", probe.export);
}

static mountlist dump(struct probe_conn *c)
{
	mountlist list = NULL;

	conn_call(c, MOUNT_PROGRAM, MOUNT3_DUMP, (zdrproc_t)zdr_void, NULL,
		(zdrproc_t)zdr_mountlist, (void *)&list);
	return list;
}

/* RFC 1813: a server need not keep this list; what it sends must be well formed. */
static void dump_is_well_formed(void)
{
	struct probe_conn *c = conn_open_mount();

	mount_path(c, probe.export, NULL);
	for (mountlist l = dump(c); l; l = l->ml_next)
		WANT(l->ml_hostname && l->ml_directory && l->ml_directory[0],
			"an entry without host or directory");
}

static void umnt_answers(void)
{
	struct probe_conn *c = conn_open_mount();
	dirpath p = export_path("");

	p[strlen(probe.export)] = '\0';
	conn_call(c, MOUNT_PROGRAM, MOUNT3_UMNT, (zdrproc_t)zdr_dirpath, &p, (zdrproc_t)zdr_void,
		NULL);
	strcpy(p, "/none");
	conn_call(c, MOUNT_PROGRAM, MOUNT3_UMNT, (zdrproc_t)zdr_dirpath, &p, (zdrproc_t)zdr_void,
		NULL);
}

static void umntall_answers(void)
{
	struct probe_conn *c = conn_open_mount();

	conn_call(c, MOUNT_PROGRAM, MOUNT3_UMNTALL, (zdrproc_t)zdr_void, NULL, (zdrproc_t)zdr_void,
		NULL);
	/* The handle goes on working: NFSv3 has no mount state. */
	want_stat("GETATTR after UMNTALL", try_getattr(conn_open(), &probe.root, NULL), NFS3_OK);
}

static void mnt_handles_are_many(void)
{
	struct probe_conn *c = conn_open_mount();

	for (int i = 0; i < 1000; i++) {
		WANT(mount_path(c, probe.export, NULL) == MNT3_OK, "MNT %d", i);
		probe_release();
	}
}

const struct probe_case probe_mount_cases[] = {
	{"mount_mnt_existing", mnt_existing},
	{"mount_mnt_gives_auth_flavors", mnt_gives_auth_flavors},
	{"mount_p31_mnt_missing_noent", mnt_missing},
	{"mount_p31_mnt_no_such_export", mnt_no_such_export},
	{"mount_p31_mnt_file_notdir", mnt_file},
	{"mount_p31_mnt_below_file_notdir", mnt_below_file},
	{"mount_p31_mnt_denied_acces", mnt_denied},
	{"mount_p31_mnt_subdir", mnt_subdir},
	{"mount_mnt_trailing_slash", mnt_trailing_slash},
	{"mount_mnt_dotdot_stays_inside", mnt_dotdot_stays_inside},
	{"mount_mnt_long_path", mnt_long_path},
	{"mount_mnt_path_over_limit", mnt_path_over_limit},
	{"mount_p32_export_lists_us", export_lists_us},
	{"mount_dump_is_well_formed", dump_is_well_formed},
	{"mount_umnt_answers", umnt_answers},
	{"mount_umntall_answers", umntall_answers},
	{"mount_1000_times", mnt_handles_are_many},
	{NULL, NULL},
};
