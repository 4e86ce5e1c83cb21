/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What makes something new: CREATE, MKDIR, SYMLINK, MKNOD. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "server/acl.h"
#include "server/errors.h"
#include "server/nfs3/nfs3.h"

/* What the kernel's dev_t holds. */
#define MAJOR_MAX 0xfffu
#define MINOR_MAX 0xfffffu

/* Another client may make or remove a name between the look at it and the change. */
#define TRIES 3

/*
 * Owner, group and mode of what is made in a directory. A directory with setgid
 * hands its group on. Only root may choose the owner, as with chown(2); what others
 * send of it is ignored (some send the group of the directory with each CREATE).
 */
static void owner_of_new(const struct request *req, const struct nfs3_sattr *s, struct fsc_new *n)
{
	const struct fsc_attr *dir = &req->object[0].attr;
	const struct cred *cred = &req->cred;
	bool inherits = dir->mode & S_ISGID;

	n->uid = cred->uid;
	n->gid = inherits ? dir->gid : cred->gid;
	if (!cred->uid && s->set_uid && s->uid != UINT32_MAX)
		n->uid = s->uid;
	if (!cred->uid && s->set_gid && s->gid != UINT32_MAX)
		n->gid = s->gid;
	if (inherits && S_ISDIR(n->mode))
		n->mode |= S_ISGID;
	else if (cred->uid && !cred_in_group(cred, n->gid))
		n->mode &= ~(uint32_t)S_ISGID;
}

/*
 * What can be set only when it exists: rare, since clients send a SETATTR for it, and
 * few directories have a default ACL.
 */
struct later {
	struct fsc_setattr set;
	size_t default_len; /* 0: none to be inherited */
	bool extended;	    /* the access ACL says more than the mode */
	uint8_t default_acl[ACL_BYTES_MAX], access_acl[ACL_BYTES_MAX];
};

static int attrs_of_new(
	const struct nfs3_sattr *s, const struct fsc_new *n, struct fsc_setattr *out)
{
	int ret = nfs3_times_of(s, out);

	/* It is now that it is made. */
	out->mask &= ~(FSC_SET_ATIME_NOW | FSC_SET_MTIME_NOW);
	if (!ret && S_ISREG(n->mode) && s->set_size && s->size) {
		if (s->size > INT64_MAX)
			return -EFBIG;
		out->mask |= FSC_SET_SIZE;
		out->size_bytes = s->size;
	}
	return ret;
}

/* A default ACL of the directory, and what it makes of the mode. */
static int acl_of_new(struct request *req, struct fsc_new *n, struct later *later)
{
	struct srv_object *dir = &req->object[0];
	size_t len;
	int ret;

	if (!dir->attr.has_acl || S_ISLNK(n->mode))
		return 0;
	ret = fsc_getxattr(&req->ctx, dir->inode, ACL_XATTR_DEFAULT, later->default_acl,
		sizeof(later->default_acl), &len);
	if (ret)
		return ret == -ENODATA ? 0 : ret;
	memcpy(later->access_acl, later->default_acl, len);
	/* What is not an ACL is not inherited. */
	if (!acl_inherit(later->access_acl, len, &n->mode, &later->extended))
		later->default_len = len;
	return 0;
}

static int later_of_new(
	struct request *req, const struct nfs3_sattr *s, struct fsc_new *n, struct later *later)
{
	int ret;

	memset(&later->set, 0, sizeof(later->set));
	later->default_len = 0;
	ret = attrs_of_new(s, n, &later->set);
	if (!ret)
		ret = acl_of_new(req, n, later);
	if (!ret && (later->set.mask || later->default_len))
		ret = nfs3_need_worker(req);
	return ret;
}

/* On a worker: see later_of_new(). */
static int set_later(struct request *req, const struct fsc_new *n, const struct later *later)
{
	struct fsc_inode *inode = req->object[1].inode;
	int ret = 0;

	if (later->default_len && later->extended)
		ret = fsc_setxattr(&req->ctx, inode, ACL_XATTR_ACCESS, later->access_acl,
			later->default_len, 0);
	if (!ret && later->default_len && S_ISDIR(n->mode))
		ret = fsc_setxattr(&req->ctx, inode, ACL_XATTR_DEFAULT, later->default_acl,
			later->default_len, 0);
	if (!ret && later->set.mask)
		ret = fsc_setattr(&req->ctx, inode, &later->set);
	return ret;
}

/* Returns the error to answer with: err, as if nothing had been done, if nothing is left. */
static int take_back(struct request *req, const struct wire_blob *name, int err)
{
	struct srv_object *dir = &req->object[0], *o = &req->object[1];
	const char *text = (const char *)name->data;
	int ret;

	if (S_ISDIR(o->attr.mode))
		ret = fsc_rmdir(&req->ctx, dir->inode, text, name->len);
	else
		ret = fsc_unlink(&req->ctx, dir->inode, text, name->len);
	dir->steps += !ret;
	fsc_inode_put(o->inode);
	o->inode = NULL;
	return ret ? nfs3_half_done(err) : err;
}

/* Makes n as a name in object[0]; the new one becomes object[1]. */
static int make(struct request *req, const struct wire_blob *name, const struct nfs3_sattr *s,
	struct fsc_new *n)
{
	struct srv_object *dir = &req->object[0], *o = &req->object[1];
	struct later later;
	int ret = nfs3_need_names(req, 0);

	if (!ret)
		ret = later_of_new(req, s, n, &later);
	if (ret)
		return ret;
	nfs3_before(req, 0);
	owner_of_new(req, s, n);
	ret = fsc_create(&req->ctx, dir->inode, (const char *)name->data, name->len, n, &o->inode);
	if (ret) {
		o->inode = NULL;
		return ret;
	}
	dir->steps = 1;
	o->subvol = dir->subvol;
	o->rules = dir->rules;
	nfs3_durable_names(req, 0);
	ret = set_later(req, n, &later);
	fsc_inode_attr(o->inode, &o->attr);
	return ret ? take_back(req, name, ret) : 0;
}

/* The results that the four share. object[1] is what was made, or was there. */
static int answer(struct request *req, int ret)
{
	struct nfs3_create_res *res = &req->res.nfs3.create;

	nfs3_wcc(req, 0, &res->dir);
	res->has_fh = !ret && req->object[1].inode;
	res->obj.present = false;
	if (res->has_fh) {
		nfs3_make_fh(req, &req->object[1].attr, &res->fh);
		nfs3_post_attr(req, 1, &res->obj);
	}
	return ret;
}

/* ----------------------------------------------------------------- CREATE */

/* The 64 bits decide whether this is the same CREATE again. */
static int exists_exclusive(struct request *req)
{
	const struct nfs3_create_args *a = &req->args.nfs3.create;
	struct srv_object *o = &req->object[1];
	int ret;

	if (!S_ISREG(o->attr.mode))
		return -EEXIST;
	ret = fsc_verifier_check(&req->ctx, o->inode, a->verf);
	if (!ret)
		nfs3_durable_names(req, 0);
	return ret;
}

/* Of what is there only the size is set, which must be allowed by the file's mode. */
static int cut_existing(struct request *req)
{
	const struct nfs3_sattr *s = &req->args.nfs3.create.attr;
	struct nfs3_sattr size = {.set_size = true, .size = s->size};
	struct srv_object *o = &req->object[1];
	struct fsc_setattr set;
	int ret = nfs3_setattr_of(req, o, &size, &set);

	if (!ret)
		ret = fsc_setattr(&req->ctx, o->inode, &set);
	if (!ret)
		fsc_inode_attr(o->inode, &o->attr);
	return ret;
}

/* Whoever made it may still be waiting for its name to be durable: so does this answer. */
static int exists_unchecked(struct request *req)
{
	const struct srv_object *o = &req->object[1];
	int ret = 0;

	/* A pipe or device may be opened so, a directory never. */
	if (S_ISDIR(o->attr.mode))
		return -EISDIR;
	if (req->args.nfs3.create.attr.set_size && S_ISREG(o->attr.mode))
		ret = cut_existing(req);
	if (!ret)
		nfs3_durable_names(req, 0);
	return ret;
}

static int exists(struct request *req)
{
	switch (req->args.nfs3.create.mode) {
	case NFS3_UNCHECKED:
		return exists_unchecked(req);
	case NFS3_EXCLUSIVE:
		return exists_exclusive(req);
	case NFS3_GUARDED:
		break;
	}
	return -EEXIST;
}

static int make_file(struct request *req)
{
	const struct nfs3_create_args *a = &req->args.nfs3.create;
	static const struct nfs3_sattr nothing;
	bool exclusive = a->mode == NFS3_EXCLUSIVE;
	struct fsc_new n = {.mode = S_IFREG, .has_verifier = exclusive};

	if (exclusive)
		memcpy(n.verifier, a->verf, FSC_VERIFIER_BYTES);
	else if (a->attr.set_mode)
		n.mode |= a->attr.mode & 07777;
	return make(req, &a->where.name, exclusive ? &nothing : &a->attr, &n);
}

static int find(struct request *req, const struct wire_blob *name)
{
	struct fsc_inode *found;
	int ret = fsc_lookup(
		&req->ctx, req->object[0].inode, (const char *)name->data, name->len, &found);

	return ret ? ret : nfs3_adopt(req, 1, found);
}

/*
 * First a look whether the name is there: clients send CREATE for files that exist,
 * in directories that they may not write.
 */
static int create(struct request *req)
{
	const struct nfs3_create_args *a = &req->args.nfs3.create;
	int ret = nfs3_changing_name(req, 0, &a->where, -EEXIST);

	if (!ret)
		ret = nfs3_need(req, &req->object[0], MAY_EXEC);
	if (ret)
		return ret;
	for (int i = 0; i < TRIES; i++) {
		ret = find(req, &a->where.name);
		if (!ret)
			return exists(req);
		if (ret != -ENOENT)
			return ret;
		ret = make_file(req);
		if (ret != -EEXIST)
			return ret;
	}
	return -SRV_ELATER;
}

int nfs3_run_create(struct request *req)
{
	return answer(req, create(req));
}

/* ---------------------------------------------------------------- others */

int nfs3_run_mkdir(struct request *req)
{
	const struct nfs3_mkdir_args *a = &req->args.nfs3.mkdir;
	struct fsc_new n = {.mode = S_IFDIR};
	int ret = nfs3_changing_name(req, 0, &a->where, -EEXIST);

	if (a->attr.set_mode)
		n.mode |= a->attr.mode & 01777;
	if (!ret)
		ret = make(req, &a->where.name, &a->attr, &n);
	return answer(req, ret);
}

/* Terminates the target, which may be any bytes but NUL. */
static int target_of(const struct wire_blob *in, char out[FSC_SYMLINK_MAX + 1])
{
	if (!in->len)
		return -EINVAL;
	if (in->len > FSC_SYMLINK_MAX)
		return -ENAMETOOLONG;
	if (memchr(in->data, '\0', in->len))
		return -EINVAL;
	memcpy(out, in->data, in->len);
	out[in->len] = '\0';
	return 0;
}

int nfs3_run_symlink(struct request *req)
{
	const struct nfs3_symlink_args *a = &req->args.nfs3.symlink;
	char target[FSC_SYMLINK_MAX + 1];
	struct fsc_new n = {.mode = S_IFLNK | 0777, .target = target};
	int ret = nfs3_changing_name(req, 0, &a->where, -EEXIST);

	if (!ret)
		ret = target_of(&a->target, target);
	if (!ret)
		ret = make(req, &a->where.name, &a->attr, &n);
	return answer(req, ret);
}

/* Type and number of a node. Devices are root's, as with mknod(2). */
static int node_of(const struct request *req, const struct nfs3_mknod_args *a, struct fsc_new *n)
{
	static const uint32_t format[] = {
		[NFS3_BLK] = S_IFBLK,
		[NFS3_CHR] = S_IFCHR,
		[NFS3_SOCK] = S_IFSOCK,
		[NFS3_FIFO] = S_IFIFO,
	};

	if (a->type >= sizeof(format) / sizeof(format[0]) || !format[a->type])
		return -SRV_EBADTYPE;
	n->mode = format[a->type];
	if (a->attr.set_mode)
		n->mode |= a->attr.mode & 07777;
	if (!S_ISBLK(n->mode) && !S_ISCHR(n->mode))
		return 0;
	if (req->cred.uid)
		return -EPERM;
	if (a->major > MAJOR_MAX || a->minor > MINOR_MAX)
		return -EINVAL;
	n->rdev_major = a->major;
	n->rdev_minor = a->minor;
	return 0;
}

int nfs3_run_mknod(struct request *req)
{
	const struct nfs3_mknod_args *a = &req->args.nfs3.mknod;
	struct fsc_new n = {0};
	int ret = nfs3_changing_name(req, 0, &a->where, -EEXIST);

	if (!ret)
		ret = node_of(req, a, &n);
	if (!ret)
		ret = make(req, &a->where.name, &a->attr, &n);
	return answer(req, ret);
}
