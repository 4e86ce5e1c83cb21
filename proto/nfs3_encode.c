/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/nfs3.h"

static uint8_t *set_time(uint8_t *p, const struct nfs3_time *t)
{
	wire_set_u32(p, t->sec);
	wire_set_u32(p + 4, t->nsec);
	return p + 8;
}

/* Attributes are in nearly every reply, so their room is checked once. */
static void set_fattr(uint8_t *p, const struct nfs3_fattr *a)
{
	wire_set_u32(p, a->type);
	wire_set_u32(p + 4, a->mode);
	wire_set_u32(p + 8, a->nlink);
	wire_set_u32(p + 12, a->uid);
	wire_set_u32(p + 16, a->gid);
	wire_set_u64(p + 20, a->size);
	wire_set_u64(p + 28, a->used);
	wire_set_u32(p + 36, a->rdev_major);
	wire_set_u32(p + 40, a->rdev_minor);
	wire_set_u64(p + 44, a->fsid);
	wire_set_u64(p + 52, a->fileid);
	p = set_time(p + 60, &a->atime);
	p = set_time(p, &a->mtime);
	set_time(p, &a->ctime);
}

static void put_optional_attr(struct wire_out *out, const struct nfs3_fattr *attr)
{
	uint8_t *p;

	if (!attr) {
		wire_put_bool(out, false);
		return;
	}
	p = wire_reserve(out, NFS3_POST_ATTR_BYTES);
	if (!p)
		return;
	wire_set_u32(p, true);
	set_fattr(p + 4, attr);
}

static void put_post_attr(struct wire_out *out, const struct nfs3_post_attr *attr)
{
	put_optional_attr(out, attr->present ? &attr->attr : NULL);
}

static void put_time(struct wire_out *out, const struct nfs3_time *t)
{
	uint8_t *p = wire_reserve(out, 8);

	if (p)
		set_time(p, t);
}

static void put_wcc(struct wire_out *out, const struct nfs3_wcc *wcc)
{
	wire_put_bool(out, wcc->has_before);
	if (wcc->has_before) {
		wire_put_u64(out, wcc->size);
		put_time(out, &wcc->mtime);
		put_time(out, &wcc->ctime);
	}
	put_post_attr(out, &wcc->after);
}

static void put_fh(struct wire_out *out, const struct nfs3_fh *fh)
{
	wire_put_opaque(out, fh->data, fh->len);
}

static void put_optional_fh(struct wire_out *out, const struct nfs3_fh *fh)
{
	wire_put_bool(out, fh != NULL);
	if (fh)
		put_fh(out, fh);
}

void nfs3_encode_getattr(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	uint8_t *p;

	wire_put_u32(out, stat);
	if (stat)
		return;
	p = wire_reserve(out, NFS3_FATTR_BYTES);
	if (p)
		set_fattr(p, &r->getattr);
}

void nfs3_encode_wcc(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_wcc(out, &r->wcc);
}

void nfs3_encode_lookup(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	if (!stat) {
		put_fh(out, &r->lookup.fh);
		put_post_attr(out, &r->lookup.obj);
	}
	put_post_attr(out, &r->lookup.dir);
}

void nfs3_encode_access(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_post_attr(out, &r->access.obj);
	if (!stat)
		wire_put_u32(out, r->access.access);
}

void nfs3_encode_readlink(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_post_attr(out, &r->readlink.obj);
	if (!stat)
		wire_put_u32(out, r->readlink.len);
}

void nfs3_encode_read(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_post_attr(out, &r->read.obj);
	if (stat)
		return;
	wire_put_u32(out, r->read.count);
	wire_put_bool(out, r->read.eof);
	wire_put_u32(out, r->read.count);
}

void nfs3_encode_write(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_wcc(out, &r->write.wcc);
	if (stat)
		return;
	wire_put_u32(out, r->write.count);
	wire_put_u32(out, r->write.committed);
	wire_put_fixed(out, r->write.verf, NFS3_VERF_SIZE);
}

void nfs3_encode_create(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	if (!stat) {
		put_optional_fh(out, r->create.has_fh ? &r->create.fh : NULL);
		put_post_attr(out, &r->create.obj);
	}
	put_wcc(out, &r->create.dir);
}

void nfs3_encode_rename(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_wcc(out, &r->rename.from);
	put_wcc(out, &r->rename.to);
}

void nfs3_encode_link(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_post_attr(out, &r->link.obj);
	put_wcc(out, &r->link.dir);
}

void nfs3_encode_readdir(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_post_attr(out, &r->readdir.dir);
	if (!stat)
		wire_put_fixed(out, r->readdir.verf, NFS3_VERF_SIZE);
}

void nfs3_encode_fsstat(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	const struct nfs3_fsstat_res *f = &r->fsstat;

	wire_put_u32(out, stat);
	put_post_attr(out, &f->obj);
	if (stat)
		return;
	wire_put_u64(out, f->total_bytes);
	wire_put_u64(out, f->free_bytes);
	wire_put_u64(out, f->avail_bytes);
	wire_put_u64(out, f->total_files);
	wire_put_u64(out, f->free_files);
	wire_put_u64(out, f->avail_files);
	wire_put_u32(out, f->invar_sec);
}

void nfs3_encode_fsinfo(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	const struct nfs3_fsinfo_res *f = &r->fsinfo;

	wire_put_u32(out, stat);
	put_post_attr(out, &f->obj);
	if (stat)
		return;
	wire_put_u32(out, f->rtmax);
	wire_put_u32(out, f->rtpref);
	wire_put_u32(out, f->rtmult);
	wire_put_u32(out, f->wtmax);
	wire_put_u32(out, f->wtpref);
	wire_put_u32(out, f->wtmult);
	wire_put_u32(out, f->dtpref);
	wire_put_u64(out, f->max_file_bytes);
	put_time(out, &f->time_delta);
	wire_put_u32(out, f->properties);
}

void nfs3_encode_pathconf(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	const struct nfs3_pathconf_res *p = &r->pathconf;

	wire_put_u32(out, stat);
	put_post_attr(out, &p->obj);
	if (stat)
		return;
	wire_put_u32(out, p->link_max);
	wire_put_u32(out, p->name_max);
	wire_put_bool(out, p->no_trunc);
	wire_put_bool(out, p->chown_restricted);
	wire_put_bool(out, p->case_insensitive);
	wire_put_bool(out, p->case_preserving);
}

void nfs3_encode_commit(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r)
{
	wire_put_u32(out, stat);
	put_wcc(out, &r->commit.wcc);
	if (!stat)
		wire_put_fixed(out, r->commit.verf, NFS3_VERF_SIZE);
}

void nfs3_put_entry(struct wire_out *out, const struct nfs3_entry *e)
{
	size_t len = wire_padded(e->name_len);
	uint8_t *p = wire_reserve(out, nfs3_entry_bytes(e->name_len));

	if (!p)
		return;
	wire_set_u32(p, true);
	wire_set_u64(p + 4, e->fileid);
	wire_set_u32(p + 12, e->name_len);
	p += 16;
	if (len) {
		memset(p + len - 4, 0, 4);
		memcpy(p, e->name, e->name_len);
	}
	wire_set_u64(p + len, e->cookie);
}

void nfs3_put_entry_plus(struct wire_out *out, const struct nfs3_entry *e)
{
	nfs3_put_entry(out, e);
	put_optional_attr(out, e->attr);
	put_optional_fh(out, e->fh);
}

void nfs3_put_dirlist_end(struct wire_out *out, bool eof)
{
	wire_put_bool(out, false);
	wire_put_bool(out, eof);
}
