/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/server/nfs3_client.h"

#include <string.h>

#include "tests/server/check.h"

void put_name(struct wire_out *out, const char *name)
{
	wire_put_opaque(out, name, (uint32_t)strlen(name));
}

void put_dirop(struct wire_out *out, struct fsc_inode *dir, const char *name)
{
	put_fh(out, dir);
	put_name(out, name);
}

static void put_optional(struct wire_out *out, bool set, uint32_t v)
{
	wire_put_bool(out, set);
	if (set)
		wire_put_u32(out, v);
}

static void put_time(struct wire_out *out, enum nfs3_time_how how, const struct nfs3_time *t)
{
	wire_put_u32(out, how);
	if (how == NFS3_CLIENT_TIME) {
		wire_put_u32(out, t->sec);
		wire_put_u32(out, t->nsec);
	}
}

void put_sattr(struct wire_out *out, const struct nfs3_sattr *s)
{
	put_optional(out, s->set_mode, s->mode);
	put_optional(out, s->set_uid, s->uid);
	put_optional(out, s->set_gid, s->gid);
	wire_put_bool(out, s->set_size);
	if (s->set_size)
		wire_put_u64(out, s->size);
	put_time(out, s->atime_how, &s->atime);
	put_time(out, s->mtime_how, &s->mtime);
}

void put_create(struct wire_out *out, struct fsc_inode *dir, const char *name,
	enum nfs3_createmode mode, const struct nfs3_sattr *s, uint64_t verf)
{
	put_dirop(out, dir, name);
	wire_put_u32(out, mode);
	if (mode == NFS3_EXCLUSIVE)
		wire_put_u64(out, verf);
	else
		put_sattr(out, s);
}

void put_write(struct wire_out *out, struct fsc_inode *file, uint64_t off, enum nfs3_stable stable,
	const void *data, uint32_t len)
{
	put_fh(out, file);
	wire_put_u64(out, off);
	wire_put_u32(out, len);
	wire_put_u32(out, stable);
	wire_put_opaque(out, data, len);
}

/* ---------------------------------------------------------------- replies */

static void see_wcc(struct wire_in *in, struct nfs3_wcc *wcc)
{
	wcc->has_before = wire_get_bool(in);
	if (wcc->has_before) {
		wcc->size = wire_get_u64(in);
		wcc->mtime.sec = wire_get_u32(in);
		wcc->mtime.nsec = wire_get_u32(in);
		wcc->ctime.sec = wire_get_u32(in);
		wcc->ctime.nsec = wire_get_u32(in);
	}
	nfs3_get_post_attr(in, &wcc->after);
}

static void see_created(struct wire_in *in, struct nfs3_seen *seen)
{
	struct wire_blob fh;

	if (!seen->stat) {
		seen->has_fh = wire_get_bool(in);
		if (seen->has_fh)
			wire_get_opaque(in, NFS3_FH_MAX, &fh);
		nfs3_get_post_attr(in, &seen->obj);
	}
	see_wcc(in, &seen->wcc[0]);
}

static void see_written(struct wire_in *in, struct nfs3_seen *seen, bool is_write)
{
	see_wcc(in, &seen->wcc[0]);
	if (seen->stat)
		return;
	if (is_write) {
		seen->count = wire_get_u32(in);
		seen->committed = wire_get_u32(in);
	}
	seen->verf = wire_get_u64(in);
}

void see_reply(struct reply *r, uint32_t proc, struct nfs3_seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	CHECK(!r->denied && r->stat == RPC_SUCCESS);
	seen->stat = wire_get_u32(&r->in);
	switch (proc) {
	case NFS3_CREATE:
	case NFS3_MKDIR:
	case NFS3_SYMLINK:
	case NFS3_MKNOD:
		see_created(&r->in, seen);
		break;
	case NFS3_WRITE:
	case NFS3_COMMIT:
		see_written(&r->in, seen, proc == NFS3_WRITE);
		break;
	case NFS3_LINK:
		nfs3_get_post_attr(&r->in, &seen->obj);
		see_wcc(&r->in, &seen->wcc[0]);
		break;
	case NFS3_RENAME:
		see_wcc(&r->in, &seen->wcc[0]);
		see_wcc(&r->in, &seen->wcc[1]);
		break;
	default:
		see_wcc(&r->in, &seen->wcc[0]);
		break;
	}
	CHECK(!r->in.bad && !wire_left(&r->in));
}

static uint32_t finish(struct world *w, struct call *c, uint32_t proc, struct nfs3_seen *seen)
{
	struct nfs3_seen mine;
	struct reply r;

	if (!seen)
		seen = &mine;
	call_reply(w, c, &r);
	see_reply(&r, proc, seen);
	reply_free(&r);
	return seen->stat;
}

/* ------------------------------------------------------------------ calls */

uint32_t do_setattr(struct world *w, struct fsc_inode *i, const struct nfs3_sattr *s,
	const struct nfs3_time *guard, struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, NFS3_SETATTR);
	put_fh(&c.out, i);
	put_sattr(&c.out, s);
	wire_put_bool(&c.out, guard != NULL);
	if (guard) {
		wire_put_u32(&c.out, guard->sec);
		wire_put_u32(&c.out, guard->nsec);
	}
	return finish(w, &c, NFS3_SETATTR, seen);
}

uint32_t do_create(struct world *w, struct fsc_inode *dir, const char *name,
	enum nfs3_createmode mode, const struct nfs3_sattr *s, uint64_t verf,
	struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, NFS3_CREATE);
	put_create(&c.out, dir, name, mode, s, verf);
	return finish(w, &c, NFS3_CREATE, seen);
}

uint32_t do_mkdir(struct world *w, struct fsc_inode *dir, const char *name,
	const struct nfs3_sattr *s, struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, NFS3_MKDIR);
	put_dirop(&c.out, dir, name);
	put_sattr(&c.out, s);
	return finish(w, &c, NFS3_MKDIR, seen);
}

uint32_t do_symlink(struct world *w, struct fsc_inode *dir, const char *name, const void *target,
	uint32_t len, struct nfs3_seen *seen)
{
	static const struct nfs3_sattr nothing;
	struct call c;

	call_nfs3(w, &c, NFS3_SYMLINK);
	put_dirop(&c.out, dir, name);
	put_sattr(&c.out, &nothing);
	wire_put_opaque(&c.out, target, len);
	return finish(w, &c, NFS3_SYMLINK, seen);
}

uint32_t do_mknod(struct world *w, struct fsc_inode *dir, const char *name, uint32_t type,
	uint32_t major, uint32_t minor, struct nfs3_seen *seen)
{
	const struct nfs3_sattr s = {.set_mode = true, .mode = 0640};
	struct call c;

	call_nfs3(w, &c, NFS3_MKNOD);
	put_dirop(&c.out, dir, name);
	wire_put_u32(&c.out, type);
	if (type >= NFS3_BLK && type != NFS3_LNK)
		put_sattr(&c.out, &s);
	if (type == NFS3_BLK || type == NFS3_CHR) {
		wire_put_u32(&c.out, major);
		wire_put_u32(&c.out, minor);
	}
	return finish(w, &c, NFS3_MKNOD, seen);
}

uint32_t do_remove(struct world *w, uint32_t proc, struct fsc_inode *dir, const char *name,
	struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, proc);
	put_dirop(&c.out, dir, name);
	return finish(w, &c, proc, seen);
}

uint32_t do_rename(struct world *w, struct fsc_inode *from_dir, const char *from,
	struct fsc_inode *to_dir, const char *to, struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, NFS3_RENAME);
	put_dirop(&c.out, from_dir, from);
	put_dirop(&c.out, to_dir, to);
	return finish(w, &c, NFS3_RENAME, seen);
}

uint32_t do_link(struct world *w, struct fsc_inode *i, struct fsc_inode *dir, const char *name,
	struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, NFS3_LINK);
	put_fh(&c.out, i);
	put_dirop(&c.out, dir, name);
	return finish(w, &c, NFS3_LINK, seen);
}

uint32_t do_write(struct world *w, struct fsc_inode *file, uint64_t off, enum nfs3_stable stable,
	const void *data, uint32_t len, struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, NFS3_WRITE);
	put_write(&c.out, file, off, stable, data, len);
	return finish(w, &c, NFS3_WRITE, seen);
}

uint32_t do_commit(struct world *w, struct fsc_inode *file, struct nfs3_seen *seen)
{
	struct call c;

	call_nfs3(w, &c, NFS3_COMMIT);
	put_fh(&c.out, file);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, 0);
	return finish(w, &c, NFS3_COMMIT, seen);
}
