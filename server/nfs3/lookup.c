/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names, attributes and permissions: GETATTR, LOOKUP, ACCESS, READLINK. */
#include <errno.h>
#include <sys/stat.h>

#include "server/errors.h"
#include "server/nfs3/nfs3.h"

int nfs3_run_getattr(struct request *req)
{
	struct srv_object *o = &req->object[0];
	int ret = nfs3_object(req, 0, &req->args.nfs3.fh.fh);

	if (!ret)
		nfs3_fattr(&o->attr, o->subvol.fsid, &req->res.nfs3.getattr);
	return ret;
}

/* "." and, at the root of an export, "..": the directory itself. */
static bool names_itself(const struct srv_object *dir, const struct wire_blob *name)
{
	return nfs3_is_dot(name) || (nfs3_is_dotdot(name) && nfs3_is_export_root(dir));
}

static int find_name(struct request *req, const struct wire_blob *name)
{
	struct srv_object *dir = &req->object[0];
	struct fsc_inode *found;
	int ret;

	if (names_itself(dir, name)) {
		fsc_inode_ref(dir->inode);
		found = dir->inode;
	} else {
		ret = fsc_lookup(
			&req->ctx, dir->inode, (const char *)name->data, name->len, &found);
		if (ret)
			return ret;
	}
	return nfs3_adopt(req, 1, found);
}

static int lookup(struct request *req)
{
	const struct nfs3_diropargs *a = &req->args.nfs3.dirop;
	int ret;

	ret = nfs3_directory(req, 0, &a->fh);
	if (ret)
		return ret;
	ret = nfs3_check_name(&a->name);
	if (ret)
		return ret;
	ret = nfs3_need(req, &req->object[0], MAY_EXEC);
	if (ret)
		return ret;
	return find_name(req, &a->name);
}

int nfs3_run_lookup(struct request *req)
{
	struct nfs3_lookup_res *res = &req->res.nfs3.lookup;
	int ret = lookup(req);

	nfs3_post_attr(req, 0, &res->dir);
	if (ret)
		return ret;
	nfs3_make_fh(req, &req->object[1].attr, &res->fh);
	nfs3_post_attr(req, 1, &res->obj);
	return 0;
}

/* Which permission each bit of ACCESS asks for, by the kind of the object. */
struct access_bit {
	uint32_t bit;
	unsigned need;
};

static const struct access_bit dir_bits[] = {
	{NFS3_ACCESS_READ, MAY_READ},
	{NFS3_ACCESS_LOOKUP, MAY_EXEC},
	{NFS3_ACCESS_MODIFY, MAY_WRITE | MAY_EXEC},
	{NFS3_ACCESS_EXTEND, MAY_WRITE | MAY_EXEC},
	{NFS3_ACCESS_DELETE, MAY_WRITE | MAY_EXEC},
	{0, 0},
};

static const struct access_bit file_bits[] = {
	{NFS3_ACCESS_READ, MAY_READ},
	{NFS3_ACCESS_MODIFY, MAY_WRITE},
	{NFS3_ACCESS_EXTEND, MAY_WRITE},
	{NFS3_ACCESS_EXECUTE, MAY_EXEC},
	{0, 0},
};

/* A device or pipe belongs to the client: that our side is read-only is no matter. */
static bool is_local_to_client(uint32_t mode)
{
	return S_ISBLK(mode) || S_ISCHR(mode) || S_ISFIFO(mode) || S_ISSOCK(mode);
}

int nfs3_run_access(struct request *req)
{
	const struct nfs3_access_args *a = &req->args.nfs3.access;
	struct nfs3_access_res *res = &req->res.nfs3.access;
	struct srv_object *o = &req->object[0];
	const struct access_bit *bits;
	unsigned granted = 0;
	int ret;

	ret = nfs3_object(req, 0, &a->fh);
	if (!ret)
		ret = access_check(&req->ctx, o->inode, &o->attr, &req->cred,
			MAY_READ | MAY_WRITE | MAY_EXEC, &granted);
	nfs3_post_attr(req, 0, &res->obj);
	if (ret)
		return ret;
	if (!nfs3_is_writable(req, o) && !is_local_to_client(o->attr.mode))
		granted &= ~MAY_WRITE;
	res->access = 0;
	for (bits = S_ISDIR(o->attr.mode) ? dir_bits : file_bits; bits->bit; bits++)
		if ((granted & bits->need) == bits->need)
			res->access |= bits->bit & a->access;
	return 0;
}

int nfs3_run_readlink(struct request *req)
{
	struct nfs3_readlink_res *res = &req->res.nfs3.readlink;
	struct srv_object *o = &req->object[0];
	size_t len = 0;
	int ret;

	ret = nfs3_object(req, 0, &req->args.nfs3.fh.fh);
	if (!ret && !S_ISLNK(o->attr.mode))
		ret = -EINVAL;
	if (!ret && !request_body(req, FSC_SYMLINK_MAX + 1))
		ret = -SRV_ELATER;
	if (!ret)
		ret = fsc_readlink(&req->ctx, o->inode, (char *)req->body, FSC_SYMLINK_MAX, &len);
	req->body_len = len;
	res->len = (uint32_t)len;
	nfs3_post_attr(req, 0, &res->obj);
	return ret;
}
