/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of what exists: REMOVE, RMDIR, RENAME, LINK.
 *
 * Sticky directories are checked on what has the name before the change; fscore
 * does not do both at once, so a name that another client replaces in between is
 * judged by its old owner.
 */
#include <errno.h>
#include <sys/stat.h>

#include "server/nfs3/nfs3.h"

static const char *text(const struct wire_blob *name)
{
	return (const char *)name->data;
}

/* Attributes of what a name means now. */
static int attr_of_name(
	struct request *req, unsigned slot, const struct wire_blob *name, struct fsc_attr *out)
{
	struct fsc_inode *found;
	int ret = fsc_lookup(&req->ctx, req->object[slot].inode, text(name), name->len, &found);

	if (ret)
		return ret;
	fsc_inode_attr(found, out);
	fsc_inode_put(found);
	return 0;
}

/* In a sticky directory a name goes only with the owner of the file or of the directory. */
static bool is_guarded(const struct request *req, unsigned slot)
{
	const struct srv_object *dir = &req->object[slot];

	return dir->attr.mode & S_ISVTX && !nfs3_owns(req, dir);
}

/* The permission to take a name away. A name that is not there needs none. */
static int need_remove(struct request *req, unsigned slot, const struct wire_blob *name)
{
	struct fsc_attr attr;
	int ret = nfs3_need_names(req, slot);

	if (ret || !is_guarded(req, slot))
		return ret;
	ret = attr_of_name(req, slot, name, &attr);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	return attr.uid == req->cred.uid ? 0 : -EPERM;
}

static int remove_name(struct request *req,
	int (*op)(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len))
{
	const struct nfs3_diropargs *a = &req->args.nfs3.dirop;
	int ret = nfs3_changing_name(req, 0, a, -EINVAL);

	if (!ret)
		ret = need_remove(req, 0, &a->name);
	if (!ret) {
		nfs3_before(req, 0);
		ret = op(&req->ctx, req->object[0].inode, text(&a->name), a->name.len);
		req->object[0].steps = !ret;
		if (!ret)
			nfs3_durable_names(req, 0);
	}
	nfs3_wcc(req, 0, &req->res.nfs3.wcc);
	return ret;
}

int nfs3_run_remove(struct request *req)
{
	return remove_name(req, fsc_unlink);
}

int nfs3_run_rmdir(struct request *req)
{
	return remove_name(req, fsc_rmdir);
}

/* ----------------------------------------------------------------- RENAME */

/* A directory that moves changes itself: its ".." does. */
static int need_move(struct request *req, const struct wire_blob *name)
{
	struct srv_object moved = {.inode = NULL};
	int ret;

	if (!req->cred.uid || req->object[0].attr.ino == req->object[1].attr.ino)
		return 0;
	ret = fsc_lookup(&req->ctx, req->object[0].inode, text(name), name->len, &moved.inode);
	if (ret)
		return ret;
	fsc_inode_attr(moved.inode, &moved.attr);
	if (S_ISDIR(moved.attr.mode))
		ret = nfs3_need(req, &moved, MAY_WRITE);
	fsc_inode_put(moved.inode);
	return ret;
}

/* Both names must be such as can be, before it matters that nothing may change. */
static int find_both(struct request *req)
{
	const struct nfs3_rename_args *a = &req->args.nfs3.rename;
	int from = nfs3_changing_name(req, 0, &a->from, -EINVAL), to;

	if (from && from != -EROFS)
		return from;
	to = nfs3_changing_name(req, 1, &a->to, -EINVAL);
	return to ? to : from;
}

static int rename_name(struct request *req)
{
	const struct nfs3_rename_args *a = &req->args.nfs3.rename;
	struct srv_object *from = &req->object[0], *to = &req->object[1];
	int ret = find_both(req);

	if (ret)
		return ret;
	/* The user and the rules are those of one export from here on. */
	if (from->attr.subvol != to->attr.subvol)
		return -EXDEV;
	ret = need_remove(req, 0, &a->from.name);
	if (!ret)
		ret = need_remove(req, 1, &a->to.name);
	if (!ret)
		ret = need_move(req, &a->from.name);
	if (ret)
		return ret;
	nfs3_before(req, 0);
	nfs3_before(req, 1);
	ret = fsc_rename(&req->ctx, from->inode, text(&a->from.name), a->from.name.len, to->inode,
		text(&a->to.name), a->to.name.len);
	if (ret)
		return ret;
	/* A name less and a name more, which may be of the same directory. */
	from->steps = to->steps = from->inode == to->inode ? 2 : 1;
	nfs3_durable_names(req, 0);
	return 0;
}

int nfs3_run_rename(struct request *req)
{
	struct nfs3_rename_res *res = &req->res.nfs3.rename;
	int ret = rename_name(req);

	nfs3_wcc(req, 0, &res->from);
	nfs3_wcc(req, 1, &res->to);
	return ret;
}

/* ------------------------------------------------------------------- LINK */

static int link_name(struct request *req)
{
	const struct nfs3_link_args *a = &req->args.nfs3.link;
	struct srv_object *o = &req->object[0], *dir = &req->object[1];
	int ret = nfs3_object(req, 0, &a->fh);

	if (!ret)
		ret = nfs3_changing_name(req, 1, &a->to, -EEXIST);
	if (ret)
		return ret;
	if (o->attr.subvol != dir->attr.subvol)
		return -EXDEV;
	ret = nfs3_need_names(req, 1);
	if (ret)
		return ret;
	if (S_ISDIR(o->attr.mode))
		return -EISDIR;
	nfs3_before(req, 1);
	ret = fsc_link(&req->ctx, o->inode, dir->inode, text(&a->to.name), a->to.name.len);
	if (ret)
		return ret;
	dir->steps = 1;
	fsc_inode_attr(o->inode, &o->attr);
	nfs3_durable_names(req, 1);
	return 0;
}

int nfs3_run_link(struct request *req)
{
	struct nfs3_link_res *res = &req->res.nfs3.link;
	int ret = link_name(req);

	nfs3_post_attr(req, 0, &res->obj);
	nfs3_wcc(req, 1, &res->dir);
	return ret;
}
