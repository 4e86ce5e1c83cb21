/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "probe-write.h"

#include <stdio.h>
#include <string.h>

static char *copy_of(const char *text)
{
	return strcpy(probe_alloc(strlen(text) + 1), text);
}

static diropargs3 where(const struct probe_fh *dir, const char *name)
{
	diropargs3 d = {fh_wire(dir), copy_of(name)};

	return d;
}

sattr3 sattr_mode(uint32_t mode)
{
	sattr3 s;

	memset(&s, 0, sizeof(s));
	s.mode.set_it = 1;
	s.mode.set_mode3_u.mode = mode;
	return s;
}

static void keep_made(struct change *ch, const post_op_fh3 *fh, const post_op_attr *attr)
{
	ch->has_fh = fh->handle_follows;
	if (ch->has_fh)
		fh_keep(&ch->fh, &fh->post_op_fh3_u.handle);
	ch->has_attr = attr->attributes_follow;
	if (ch->has_attr)
		ch->attr = attr->post_op_attr_u.attributes;
}

/* Results of CREATE, MKDIR, SYMLINK and MKNOD have the same members. */
#define KEEP_MADE(ch, r, members)                                                                  \
	do {                                                                                       \
		(ch).status = (r).status;                                                          \
		if ((r).status == NFS3_OK) {                                                       \
			(ch).wcc = (r).members.resok.dir_wcc;                                      \
			keep_made(                                                                 \
				&(ch), &(r).members.resok.obj, &(r).members.resok.obj_attributes); \
		} else {                                                                           \
			(ch).wcc = (r).members.resfail.dir_wcc;                                    \
		}                                                                                  \
	} while (0)

struct change do_create(struct probe_conn *c, const struct probe_fh *dir, const char *name,
	createmode3 how, const sattr3 *attr, const char *verf)
{
	CREATE3args a = {.where = where(dir, name), .how = {.mode = how}};
	CREATE3res r = {0};
	struct change ch = {0};

	if (how == EXCLUSIVE)
		memcpy(a.how.createhow3_u.verf, verf, NFS3_CREATEVERFSIZE);
	else
		a.how.createhow3_u.obj_attributes = attr ? *attr : sattr_mode(0644);
	NFS_CALL(c, CREATE, &a, &r);
	KEEP_MADE(ch, r, CREATE3res_u);
	return ch;
}

struct change do_mkdir(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, const sattr3 *attr)
{
	MKDIR3args a = {.where = where(dir, name), .attributes = attr ? *attr : sattr_mode(0755)};
	MKDIR3res r = {0};
	struct change ch = {0};

	NFS_CALL(c, MKDIR, &a, &r);
	KEEP_MADE(ch, r, MKDIR3res_u);
	return ch;
}

struct change do_symlink(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, const char *target)
{
	SYMLINK3args a = {.where = where(dir, name)};
	SYMLINK3res r = {0};
	struct change ch = {0};

	a.symlink.symlink_data = copy_of(target);
	NFS_CALL(c, SYMLINK, &a, &r);
	KEEP_MADE(ch, r, SYMLINK3res_u);
	return ch;
}

struct change do_mknod(struct probe_conn *c, const struct probe_fh *dir, const char *name,
	ftype3 type, uint32_t major, uint32_t minor)
{
	MKNOD3args a = {.where = where(dir, name), .what = {.type = type}};
	MKNOD3res r = {0};
	struct change ch = {0};

	if (type == NF3CHR || type == NF3BLK) {
		a.what.mknoddata3_u.chr_device.dev_attributes = sattr_mode(0600);
		a.what.mknoddata3_u.chr_device.spec.specdata1 = major;
		a.what.mknoddata3_u.chr_device.spec.specdata2 = minor;
	} else {
		a.what.mknoddata3_u.pipe_attributes = sattr_mode(0600);
	}
	NFS_CALL(c, MKNOD, &a, &r);
	KEEP_MADE(ch, r, MKNOD3res_u);
	return ch;
}

struct change do_remove(struct probe_conn *c, const struct probe_fh *dir, const char *name)
{
	REMOVE3args a = {.object = where(dir, name)};
	REMOVE3res r = {0};
	struct change ch = {0};

	NFS_CALL(c, REMOVE, &a, &r);
	ch.status = r.status;
	ch.wcc =
		r.status == NFS3_OK ? r.REMOVE3res_u.resok.dir_wcc : r.REMOVE3res_u.resfail.dir_wcc;
	return ch;
}

struct change do_rmdir(struct probe_conn *c, const struct probe_fh *dir, const char *name)
{
	RMDIR3args a = {.object = where(dir, name)};
	RMDIR3res r = {0};
	struct change ch = {0};

	NFS_CALL(c, RMDIR, &a, &r);
	ch.status = r.status;
	ch.wcc = r.status == NFS3_OK ? r.RMDIR3res_u.resok.dir_wcc : r.RMDIR3res_u.resfail.dir_wcc;
	return ch;
}

struct change do_rename(struct probe_conn *c, const struct probe_fh *from, const char *name,
	const struct probe_fh *to, const char *new_name)
{
	RENAME3args a = {.from = where(from, name), .to = where(to, new_name)};
	RENAME3res r = {0};
	struct change ch = {0};

	NFS_CALL(c, RENAME, &a, &r);
	ch.status = r.status;
	if (r.status == NFS3_OK) {
		ch.wcc = r.RENAME3res_u.resok.fromdir_wcc;
		ch.wcc2 = r.RENAME3res_u.resok.todir_wcc;
	} else {
		ch.wcc = r.RENAME3res_u.resfail.fromdir_wcc;
		ch.wcc2 = r.RENAME3res_u.resfail.todir_wcc;
	}
	return ch;
}

struct change do_link(struct probe_conn *c, const struct probe_fh *file, const struct probe_fh *dir,
	const char *name)
{
	LINK3args a = {.file = fh_wire(file), .link = where(dir, name)};
	LINK3res r = {0};
	struct change ch = {0};
	const post_op_attr *attr;

	NFS_CALL(c, LINK, &a, &r);
	ch.status = r.status;
	if (r.status == NFS3_OK) {
		ch.wcc = r.LINK3res_u.resok.linkdir_wcc;
		attr = &r.LINK3res_u.resok.file_attributes;
	} else {
		ch.wcc = r.LINK3res_u.resfail.linkdir_wcc;
		attr = &r.LINK3res_u.resfail.file_attributes;
	}
	ch.has_attr = attr->attributes_follow;
	if (ch.has_attr)
		ch.attr = attr->post_op_attr_u.attributes;
	return ch;
}

struct change do_setattr(
	struct probe_conn *c, const struct probe_fh *fh, const sattr3 *attr, const nfstime3 *guard)
{
	SETATTR3args a = {.object = fh_wire(fh), .new_attributes = *attr};
	SETATTR3res r = {0};
	struct change ch = {0};

	a.guard.check = guard != NULL;
	if (guard)
		a.guard.sattrguard3_u.obj_ctime = *guard;
	NFS_CALL(c, SETATTR, &a, &r);
	ch.status = r.status;
	ch.wcc = r.status == NFS3_OK ? r.SETATTR3res_u.resok.obj_wcc
				     : r.SETATTR3res_u.resfail.obj_wcc;
	return ch;
}

struct change do_size(struct probe_conn *c, const struct probe_fh *fh, uint64_t size)
{
	sattr3 s;

	memset(&s, 0, sizeof(s));
	s.size.set_it = 1;
	s.size.set_size3_u.size = size;
	return do_setattr(c, fh, &s, NULL);
}

struct change do_write(struct probe_conn *c, const struct probe_fh *fh, uint64_t file_off,
	const void *data, uint32_t bytes, stable_how how)
{
	WRITE3args a = {.file = fh_wire(fh), .offset = file_off, .count = bytes, .stable = how};
	WRITE3res r = {0};
	struct change ch = {0};

	a.data.data_len = bytes;
	a.data.data_val = memcpy(probe_alloc(bytes + 1), data, bytes);
	NFS_CALL(c, WRITE, &a, &r);
	ch.status = r.status;
	if (r.status != NFS3_OK) {
		ch.wcc = r.WRITE3res_u.resfail.file_wcc;
		return ch;
	}
	ch.wcc = r.WRITE3res_u.resok.file_wcc;
	ch.count = r.WRITE3res_u.resok.count;
	ch.committed = r.WRITE3res_u.resok.committed;
	memcpy(ch.verf, r.WRITE3res_u.resok.verf, sizeof(ch.verf));
	return ch;
}

struct change do_commit(
	struct probe_conn *c, const struct probe_fh *fh, uint64_t file_off, uint32_t count)
{
	COMMIT3args a = {.file = fh_wire(fh), .offset = file_off, .count = count};
	COMMIT3res r = {0};
	struct change ch = {0};

	NFS_CALL(c, COMMIT, &a, &r);
	ch.status = r.status;
	if (r.status != NFS3_OK) {
		ch.wcc = r.COMMIT3res_u.resfail.file_wcc;
		return ch;
	}
	ch.wcc = r.COMMIT3res_u.resok.file_wcc;
	memcpy(ch.verf, r.COMMIT3res_u.resok.verf, sizeof(ch.verf));
	return ch;
}

/* ------------------------------------------------------------------ wishes */

void want_change(const char *what, const struct change *ch, uint32_t status)
{
	want_stat(what, ch->status, status);
	want_wcc(what, &ch->wcc);
}

void want_one_of(const char *what, uint32_t status, const uint32_t *wanted)
{
	for (; *wanted != UINT32_MAX; wanted++)
		if (status == *wanted)
			return;
	FAIL("%s: %s", what, stat_name(status));
}

static struct probe_fh made(struct probe_conn *c, const char *what, const struct change *ch,
	const struct probe_fh *dir, const char *name)
{
	struct probe_fh fh;

	want_change(what, ch, NFS3_OK);
	if (ch->has_fh)
		return ch->fh;
	want_stat("LOOKUP of what was made", try_lookup(c, dir, name, &fh), NFS3_OK);
	return fh;
}

struct probe_fh make_subdir(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, uint32_t mode)
{
	sattr3 s = sattr_mode(mode);
	struct change ch = do_mkdir(c, dir, name, &s);

	return made(c, "MKDIR", &ch, dir, name);
}

struct probe_fh work_dir(struct probe_conn *c, const char *name)
{
	static unsigned number;
	char full[200];

	/* Another run on the same tree must not find this one's. */
	for (;;) {
		struct probe_fh there;

		snprintf(full, sizeof(full), "rw-%s-%u", name, number++);
		if (try_lookup(c, &probe.root, full, &there) == NFS3ERR_NOENT)
			return make_subdir(c, &probe.root, full, 0777);
	}
}

struct probe_fh make_file(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, const char *text)
{
	struct change ch = do_create(c, dir, name, GUARDED, NULL, NULL);
	struct probe_fh fh = made(c, "CREATE", &ch, dir, name);

	if (*text) {
		ch = do_write(c, &fh, 0, text, (uint32_t)strlen(text), FILE_SYNC);
		want_change("WRITE", &ch, NFS3_OK);
		WANT(ch.count == strlen(text), "WRITE of %zu wrote %u", strlen(text), ch.count);
	}
	return fh;
}

void want_bytes(struct probe_conn *c, const struct probe_fh *fh, const void *data, uint64_t bytes)
{
	const char *want = data;
	uint64_t off = 0;
	READ3res r;

	WANT(fh_attr(c, fh).size == bytes, "size %lu instead of %lu", fh_attr(c, fh).size, bytes);
	while (off < bytes) {
		uint32_t n, ask = bytes - off < 65536 ? (uint32_t)(bytes - off) : 65536;

		fh_read(c, fh, off, ask, &r);
		want_stat("READ", r.status, NFS3_OK);
		n = r.READ3res_u.resok.count;
		WANT(n > 0, "READ at %lu of %lu: nothing", off, bytes);
		for (uint32_t i = 0; i < n; i++)
			WANT(r.READ3res_u.resok.data.data_val[i] == want[off + i],
				"byte 0x%02x instead of 0x%02x at %lu",
				(uint8_t)r.READ3res_u.resok.data.data_val[i],
				(uint8_t)want[off + i], off + i);
		off += n;
	}
}

bool same_time(const nfstime3 *a, const nfstime3 *b)
{
	return a->seconds == b->seconds && a->nseconds == b->nseconds;
}

bool later(const nfstime3 *a, const nfstime3 *b)
{
	return a->seconds > b->seconds || (a->seconds == b->seconds && a->nseconds > b->nseconds);
}

bool same_fh(const struct probe_fh *a, const struct probe_fh *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

void want_wcc_exact(struct probe_conn *c, const char *what, const wcc_data *wcc,
	const struct probe_fh *fh, const fattr3 *before)
{
	const wcc_attr *b = &wcc->before.pre_op_attr_u.attributes;
	const fattr3 *a = &wcc->after.post_op_attr_u.attributes;
	fattr3 now = fh_attr(c, fh);

	want_wcc(what, wcc);
	WANT(wcc->before.attributes_follow, "%s: no attributes before", what);
	WANT(b->size == before->size, "%s: size before %lu, GETATTR said %lu", what, b->size,
		before->size);
	WANT(same_time(&b->mtime, &before->mtime), "%s: mtime before is not what GETATTR said",
		what);
	WANT(same_time(&b->ctime, &before->ctime), "%s: ctime before is not what GETATTR said",
		what);
	WANT(a->fileid == now.fileid && a->size == now.size && a->nlink == now.nlink &&
			a->mode == now.mode && same_time(&a->mtime, &now.mtime) &&
			same_time(&a->ctime, &now.ctime),
		"%s: attributes after are not what GETATTR says next", what);
}
