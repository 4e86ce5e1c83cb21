/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nfsc/libnfs.h>
/* The base header must come first. */
#include <nfsc/libnfs-raw.h>

const char *stat_name(uint32_t nfsstat)
{
	static char unknown[32];
	const char *name;

	if (nfsstat == NFS3_OK)
		return "OK";
	name = nfsstat3_to_str((int)nfsstat);
	if (strncmp(name, "NFS3ERR_", 8) == 0)
		return name + 8;
	snprintf(unknown, sizeof(unknown), "status %u", nfsstat);
	return unknown;
}

nfs_fh3 fh_wire(const struct probe_fh *fh)
{
	nfs_fh3 w;

	w.data.data_len = fh->len;
	w.data.data_val = probe_alloc(NFS3_FHSIZE);
	memcpy(w.data.data_val, fh->data, fh->len);
	return w;
}

void fh_keep(struct probe_fh *to, const nfs_fh3 *from)
{
	WANT(from->data.data_len > 0 && from->data.data_len <= NFS3_FHSIZE,
		"file handle of %u bytes", from->data.data_len);
	to->len = from->data.data_len;
	memcpy(to->data, from->data.data_val, to->len);
}

void want_stat(const char *what, uint32_t got, uint32_t want)
{
	char got_name[32];

	snprintf(got_name, sizeof(got_name), "%s", stat_name(got));
	WANT(got == want, "%s: %s instead of %s", what, got_name, stat_name(want));
}

static void want_fattr(const char *what, const fattr3 *a)
{
	WANT(a->type >= NF3REG && a->type <= NF3FIFO, "%s: type %d", what, (int)a->type);
	WANT((a->mode & ~07777u) == 0, "%s: mode 0%o", what, a->mode);
	WANT(a->nlink > 0, "%s: no links", what);
	WANT(a->fileid != 0, "%s: fileid 0", what);
	WANT(a->atime.nseconds < 1000000000 && a->mtime.nseconds < 1000000000 &&
			a->ctime.nseconds < 1000000000,
		"%s: nanoseconds past a second", what);
}

void want_attr(const char *what, const post_op_attr *a)
{
	WANT(a->attributes_follow, "%s: no post-op attributes", what);
	want_fattr(what, &a->post_op_attr_u.attributes);
}

void want_wcc(const char *what, const wcc_data *w)
{
	want_attr(what, &w->after);
	if (w->before.attributes_follow) {
		const wcc_attr *b = &w->before.pre_op_attr_u.attributes;

		WANT(b->mtime.nseconds < 1000000000 && b->ctime.nseconds < 1000000000,
			"%s: nanoseconds past a second in pre-op", what);
	}
}

uint32_t try_lookup(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, struct probe_fh *out)
{
	LOOKUP3args a = {.what = {fh_wire(dir), probe_alloc(strlen(name) + 1)}};
	LOOKUP3res r = {0};

	strcpy(a.what.name, name);
	NFS_CALL(c, LOOKUP, &a, &r);
	if (r.status != NFS3_OK) {
		if (r.status != NFS3ERR_STALE && r.status != NFS3ERR_BADHANDLE)
			want_attr("LOOKUP dir", &r.LOOKUP3res_u.resfail.dir_attributes);
		return r.status;
	}
	want_attr("LOOKUP object", &r.LOOKUP3res_u.resok.obj_attributes);
	want_attr("LOOKUP dir", &r.LOOKUP3res_u.resok.dir_attributes);
	if (out)
		fh_keep(out, &r.LOOKUP3res_u.resok.object);
	return r.status;
}

struct probe_fh path_fh(struct probe_conn *c, const char *path)
{
	struct probe_fh fh = probe.root;
	char *copy = probe_alloc(strlen(path) + 1), *step, *rest;

	strcpy(copy, path);
	for (step = strtok_r(copy, "/", &rest); step; step = strtok_r(NULL, "/", &rest)) {
		struct probe_fh dir = fh;
		uint32_t s = try_lookup(c, &dir, step, &fh);

		WANT(s == NFS3_OK, "LOOKUP %s of %s: %s", step, path, stat_name(s));
	}
	return fh;
}

uint32_t try_getattr(struct probe_conn *c, const struct probe_fh *fh, fattr3 *attr)
{
	GETATTR3args a = {.object = fh_wire(fh)};
	GETATTR3res r = {0};

	NFS_CALL(c, GETATTR, &a, &r);
	if (r.status == NFS3_OK) {
		want_fattr("GETATTR", &r.GETATTR3res_u.resok.obj_attributes);
		if (attr)
			*attr = r.GETATTR3res_u.resok.obj_attributes;
	}
	return r.status;
}

fattr3 fh_attr(struct probe_conn *c, const struct probe_fh *fh)
{
	fattr3 attr = {0};

	want_stat("GETATTR", try_getattr(c, fh, &attr), NFS3_OK);
	return attr;
}

uint32_t fh_access(struct probe_conn *c, const struct probe_fh *fh, uint32_t bits)
{
	ACCESS3args a = {.object = fh_wire(fh), .access = bits};
	ACCESS3res r = {0};

	NFS_CALL(c, ACCESS, &a, &r);
	want_stat("ACCESS", r.status, NFS3_OK);
	want_attr("ACCESS", &r.ACCESS3res_u.resok.obj_attributes);
	WANT((r.ACCESS3res_u.resok.access & ~bits) == 0, "ACCESS asked for 0x%x, granted 0x%x",
		bits, r.ACCESS3res_u.resok.access);
	return r.ACCESS3res_u.resok.access;
}

void fh_read(struct probe_conn *c, const struct probe_fh *fh, uint64_t file_off, uint32_t count,
	READ3res *r)
{
	READ3args a = {.file = fh_wire(fh), .offset = file_off, .count = count};

	memset(r, 0, sizeof(*r));
	NFS_CALL(c, READ, &a, r);
	if (r->status != NFS3_OK)
		return;
	want_attr("READ", &r->READ3res_u.resok.file_attributes);
	WANT(r->READ3res_u.resok.count == r->READ3res_u.resok.data.data_len,
		"READ: count %u but %u bytes of data", r->READ3res_u.resok.count,
		r->READ3res_u.resok.data.data_len);
	WANT(r->READ3res_u.resok.count <= count, "READ of %u gave %u bytes", count,
		r->READ3res_u.resok.count);
}

mountstat3 mount_path(struct probe_conn *c, const char *path, struct probe_fh *root)
{
	mountres3 r = {0};
	dirpath p = probe_alloc(strlen(path) + 1);

	strcpy(p, path);
	conn_call(c, MOUNT_PROGRAM, MOUNT3_MNT, (zdrproc_t)zdr_dirpath, &p,
		(zdrproc_t)zdr_mountres3, &r);
	if (r.fhs_status != MNT3_OK)
		return r.fhs_status;
	WANT(r.mountres3_u.mountinfo.fhandle.fhandle3_len > 0 &&
			r.mountres3_u.mountinfo.fhandle.fhandle3_len <= NFS3_FHSIZE,
		"MNT gave a handle of %u bytes", r.mountres3_u.mountinfo.fhandle.fhandle3_len);
	if (root) {
		root->len = r.mountres3_u.mountinfo.fhandle.fhandle3_len;
		memcpy(root->data, r.mountres3_u.mountinfo.fhandle.fhandle3_val, root->len);
	}
	return MNT3_OK;
}

char *export_path(const char *below)
{
	size_t n = strlen(probe.export) + strlen(below) + 2;
	char *p = probe_alloc(n);
	bool slash = probe.export[strlen(probe.export) - 1] == '/';

	snprintf(p, n, "%s%s%s", probe.export, slash ? "" : "/", below);
	return p;
}
