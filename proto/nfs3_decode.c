/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/nfs3.h"

/* Names and data end with the message, so no other limit is needed here. */
#define NO_LIMIT UINT32_MAX

static void get_fh(struct wire_in *in, struct wire_blob *fh)
{
	wire_get_opaque(in, NFS3_FH_MAX, fh);
}

static void get_dirop(struct wire_in *in, struct nfs3_diropargs *d)
{
	get_fh(in, &d->fh);
	wire_get_opaque(in, NO_LIMIT, &d->name);
}

static void get_time(struct wire_in *in, struct nfs3_time *t)
{
	t->sec = wire_get_u32(in);
	t->nsec = wire_get_u32(in);
}

static enum nfs3_time_how get_set_time(struct wire_in *in, struct nfs3_time *t)
{
	enum nfs3_time_how how = wire_get_enum(in, NFS3_CLIENT_TIME);

	if (how == NFS3_CLIENT_TIME)
		get_time(in, t);
	return how;
}

static void get_sattr(struct wire_in *in, struct nfs3_sattr *s)
{
	memset(s, 0, sizeof(*s));
	s->set_mode = wire_get_bool(in);
	if (s->set_mode)
		s->mode = wire_get_u32(in);
	s->set_uid = wire_get_bool(in);
	if (s->set_uid)
		s->uid = wire_get_u32(in);
	s->set_gid = wire_get_bool(in);
	if (s->set_gid)
		s->gid = wire_get_u32(in);
	s->set_size = wire_get_bool(in);
	if (s->set_size)
		s->size = wire_get_u64(in);
	s->atime_how = get_set_time(in, &s->atime);
	s->mtime_how = get_set_time(in, &s->mtime);
}

static void get_verf(struct wire_in *in, uint8_t verf[NFS3_VERF_SIZE])
{
	const uint8_t *p = wire_take(in, NFS3_VERF_SIZE);

	if (p)
		memcpy(verf, p, NFS3_VERF_SIZE);
}

bool nfs3_decode_fh(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->fh.fh);
	return !in->bad;
}

bool nfs3_decode_dirop(struct wire_in *in, union nfs3_args *a)
{
	get_dirop(in, &a->dirop);
	return !in->bad;
}

bool nfs3_decode_setattr(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->setattr.fh);
	get_sattr(in, &a->setattr.attr);
	a->setattr.guarded = wire_get_bool(in);
	if (a->setattr.guarded)
		get_time(in, &a->setattr.guard);
	return !in->bad;
}

bool nfs3_decode_access(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->access.fh);
	a->access.access = wire_get_u32(in);
	return !in->bad;
}

bool nfs3_decode_read(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->read.fh);
	a->read.file_off = wire_get_u64(in);
	a->read.count = wire_get_u32(in);
	return !in->bad;
}

bool nfs3_decode_write(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->write.fh);
	a->write.file_off = wire_get_u64(in);
	a->write.count = wire_get_u32(in);
	a->write.stable = wire_get_enum(in, NFS3_FILE_SYNC);
	wire_get_opaque(in, NO_LIMIT, &a->write.data);
	/* RFC 1813: count and the length of data are the same number. */
	return !in->bad && a->write.data.len >= a->write.count;
}

bool nfs3_decode_create(struct wire_in *in, union nfs3_args *a)
{
	get_dirop(in, &a->create.where);
	a->create.mode = wire_get_enum(in, NFS3_EXCLUSIVE);
	if (a->create.mode == NFS3_EXCLUSIVE)
		get_verf(in, a->create.verf);
	else
		get_sattr(in, &a->create.attr);
	return !in->bad;
}

bool nfs3_decode_mkdir(struct wire_in *in, union nfs3_args *a)
{
	get_dirop(in, &a->mkdir.where);
	get_sattr(in, &a->mkdir.attr);
	return !in->bad;
}

bool nfs3_decode_symlink(struct wire_in *in, union nfs3_args *a)
{
	get_dirop(in, &a->symlink.where);
	get_sattr(in, &a->symlink.attr);
	wire_get_opaque(in, NO_LIMIT, &a->symlink.target);
	return !in->bad;
}

bool nfs3_decode_mknod(struct wire_in *in, union nfs3_args *a)
{
	struct nfs3_mknod_args *m = &a->mknod;

	get_dirop(in, &m->where);
	m->type = wire_get_u32(in);
	m->major = m->minor = 0;
	switch (m->type) {
	case NFS3_BLK:
	case NFS3_CHR:
		get_sattr(in, &m->attr);
		m->major = wire_get_u32(in);
		m->minor = wire_get_u32(in);
		break;
	case NFS3_SOCK:
	case NFS3_FIFO:
		get_sattr(in, &m->attr);
		break;
	default:
		memset(&m->attr, 0, sizeof(m->attr));
		break;
	}
	return !in->bad;
}

bool nfs3_decode_rename(struct wire_in *in, union nfs3_args *a)
{
	get_dirop(in, &a->rename.from);
	get_dirop(in, &a->rename.to);
	return !in->bad;
}

bool nfs3_decode_link(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->link.fh);
	get_dirop(in, &a->link.to);
	return !in->bad;
}

bool nfs3_decode_readdir(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->readdir.fh);
	a->readdir.cookie = wire_get_u64(in);
	get_verf(in, a->readdir.verf);
	a->readdir.dircount = a->readdir.maxcount = wire_get_u32(in);
	return !in->bad;
}

bool nfs3_decode_readdirplus(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->readdir.fh);
	a->readdir.cookie = wire_get_u64(in);
	get_verf(in, a->readdir.verf);
	a->readdir.dircount = wire_get_u32(in);
	a->readdir.maxcount = wire_get_u32(in);
	return !in->bad;
}

bool nfs3_decode_commit(struct wire_in *in, union nfs3_args *a)
{
	get_fh(in, &a->commit.fh);
	a->commit.file_off = wire_get_u64(in);
	a->commit.count = wire_get_u32(in);
	return !in->bad;
}

/* ------------------------------------------------------ the client's side */

void nfs3_get_fattr(struct wire_in *in, struct nfs3_fattr *a)
{
	a->type = wire_get_enum(in, NFS3_FIFO);
	a->mode = wire_get_u32(in);
	a->nlink = wire_get_u32(in);
	a->uid = wire_get_u32(in);
	a->gid = wire_get_u32(in);
	a->size = wire_get_u64(in);
	a->used = wire_get_u64(in);
	a->rdev_major = wire_get_u32(in);
	a->rdev_minor = wire_get_u32(in);
	a->fsid = wire_get_u64(in);
	a->fileid = wire_get_u64(in);
	get_time(in, &a->atime);
	get_time(in, &a->mtime);
	get_time(in, &a->ctime);
}

void nfs3_get_post_attr(struct wire_in *in, struct nfs3_post_attr *attr)
{
	attr->present = wire_get_bool(in);
	if (attr->present)
		nfs3_get_fattr(in, &attr->attr);
}
