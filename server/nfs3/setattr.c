/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SETATTR: who may change what, as the system calls of the same purpose. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "server/acl.h"
#include "server/nfs3/nfs3.h"

#define NSEC_PER_SEC 1000000000u
/* chown(2): leave it. */
#define NO_ID UINT32_MAX

static int time_of(enum nfs3_time_how how, const struct nfs3_time *t, unsigned given, unsigned now,
	struct fsc_time *to, unsigned *mask)
{
	if (how == NFS3_SERVER_TIME)
		*mask |= now;
	if (how != NFS3_CLIENT_TIME)
		return 0;
	if (t->nsec >= NSEC_PER_SEC)
		return -EINVAL;
	*to = (struct fsc_time){t->sec, t->nsec};
	*mask |= given;
	return 0;
}

int nfs3_times_of(const struct nfs3_sattr *s, struct fsc_setattr *out)
{
	int ret = time_of(
		s->atime_how, &s->atime, FSC_SET_ATIME, FSC_SET_ATIME_NOW, &out->atime, &out->mask);

	if (ret)
		return ret;
	return time_of(
		s->mtime_how, &s->mtime, FSC_SET_MTIME, FSC_SET_MTIME_NOW, &out->mtime, &out->mask);
}

/* The owner may set any time; who may write, only the present one. */
static int set_times(struct request *req, const struct srv_object *o, const struct nfs3_sattr *s,
	struct fsc_setattr *out)
{
	int ret = nfs3_times_of(s, out);

	if (ret || nfs3_owns(req, o))
		return ret;
	if (out->mask & (FSC_SET_ATIME | FSC_SET_MTIME))
		return -EPERM;
	if (out->mask & (FSC_SET_ATIME_NOW | FSC_SET_MTIME_NOW))
		return nfs3_need(req, o, MAY_WRITE);
	return 0;
}

static int set_size(struct request *req, const struct srv_object *o, const struct nfs3_sattr *s,
	struct fsc_setattr *out)
{
	if (!s->set_size)
		return 0;
	if (S_ISDIR(o->attr.mode))
		return -EISDIR;
	if (!S_ISREG(o->attr.mode))
		return -EINVAL;
	if (s->size > INT64_MAX)
		return -EFBIG;
	out->mask |= FSC_SET_SIZE;
	out->size_bytes = s->size;
	return nfs3_need_write(req, o);
}

/* Only root gives files away; the owner chooses among the groups that it is in. */
static int set_owner(struct request *req, const struct srv_object *o, const struct nfs3_sattr *s,
	struct fsc_setattr *out)
{
	const struct cred *cred = &req->cred;

	if (s->set_uid && s->uid != NO_ID) {
		if (cred->uid && (cred->uid != o->attr.uid || s->uid != o->attr.uid))
			return -EPERM;
		out->mask |= FSC_SET_UID;
		out->uid = s->uid;
	}
	if (s->set_gid && s->gid != NO_ID) {
		if (cred->uid &&
			(cred->uid != o->attr.uid ||
				(s->gid != o->attr.gid && !cred_in_group(cred, s->gid))))
			return -EPERM;
		out->mask |= FSC_SET_GID;
		out->gid = s->gid;
	}
	return 0;
}

static uint32_t without_setid(uint32_t mode)
{
	mode &= ~(uint32_t)S_ISUID;
	/* Without the execute bit it once meant mandatory locking, not a privilege. */
	return mode & S_IXGRP ? mode & ~(uint32_t)S_ISGID : mode;
}

/* The mode that is asked for, and what must go of it with other changes. */
static int set_mode(struct request *req, const struct srv_object *o, const struct nfs3_sattr *s,
	struct fsc_setattr *out)
{
	uint32_t now = o->attr.mode & 07777, mode = now;
	uint32_t gid = out->mask & FSC_SET_GID ? out->gid : o->attr.gid;
	bool chown = out->mask & (FSC_SET_UID | FSC_SET_GID);
	bool cut = out->mask & FSC_SET_SIZE && req->cred.uid;

	/* That of a symbolic link means nothing, and clients send it all the same. */
	if (s->set_mode && !S_ISLNK(o->attr.mode)) {
		if (!nfs3_owns(req, o))
			return -EPERM;
		mode = s->mode & 07777;
		if (req->cred.uid && !cred_in_group(&req->cred, gid))
			mode &= ~(uint32_t)S_ISGID;
		out->mask |= FSC_SET_MODE;
	}
	if (!S_ISDIR(o->attr.mode) && (chown || cut))
		mode = without_setid(mode);
	out->mode = mode;
	if (mode != now)
		out->mask |= FSC_SET_MODE;
	return 0;
}

int nfs3_setattr_of(struct request *req, const struct srv_object *o, const struct nfs3_sattr *s,
	struct fsc_setattr *out)
{
	int ret;

	memset(out, 0, sizeof(*out));
	ret = set_times(req, o, s, out);
	if (!ret)
		ret = set_size(req, o, s, out);
	if (!ret)
		ret = set_owner(req, o, s, out);
	if (!ret)
		ret = set_mode(req, o, s, out);
	return ret;
}

/*
 * The guard is compared as the client sees it (a time that its format can't hold is
 * sent as the nearest one); fscore compares the exact one again, with the change.
 */
static int guard(
	const struct srv_object *o, const struct nfs3_setattr_args *a, struct fsc_setattr *set)
{
	struct nfs3_time seen = nfs3_time_of(&o->attr.ctime);

	if (!a->guarded)
		return 0;
	if (seen.sec != a->guard.sec || seen.nsec != a->guard.nsec)
		return -EREMCHG;
	set->has_guard = true;
	set->guard = o->attr.ctime;
	return 0;
}

/*
 * The ACL follows the mode, as with chmod(2): what it will be. *len 0: it stays, since
 * there is none, or what there is is not an ACL.
 */
static int acl_of_mode(
	struct request *req, const struct srv_object *o, uint32_t mode, uint8_t *acl, size_t *len)
{
	int ret = fsc_getxattr(&req->ctx, o->inode, ACL_XATTR_ACCESS, acl, ACL_BYTES_MAX, len);

	if (ret) {
		*len = 0;
		return ret == -ENODATA ? 0 : ret;
	}
	if (acl_set_mode(acl, *len, mode))
		*len = 0;
	return 0;
}

/*
 * Mode and ACL, on a worker. The two become durable together, unless a commit comes
 * right between them and a crash after it. Whatever can fail without having changed
 * anything comes first.
 */
static int change_both(struct request *req, struct srv_object *o, const struct fsc_setattr *set)
{
	uint8_t acl[ACL_BYTES_MAX];
	size_t len;
	int ret = nfs3_need_worker(req);

	if (!ret)
		ret = acl_of_mode(req, o, set->mode, acl, &len);
	if (!ret)
		ret = fsc_setattr(&req->ctx, o->inode, set);
	if (ret)
		return ret;
	o->steps = 1;
	nfs3_durable_names(req, 0);
	if (len)
		ret = fsc_setxattr(
			&req->ctx, o->inode, ACL_XATTR_ACCESS, acl, len, FSC_XATTR_REPLACE);
	if (ret)
		return nfs3_half_done(ret);
	o->steps += len > 0;
	return 0;
}

static int change_attr(struct request *req, struct srv_object *o, const struct fsc_setattr *set)
{
	int ret;

	if (set->mask & FSC_SET_MODE && o->attr.has_acl)
		return change_both(req, o, set);
	ret = fsc_setattr(&req->ctx, o->inode, set);
	if (ret)
		return ret;
	o->steps = 1;
	nfs3_durable_names(req, 0);
	return 0;
}

static int setattr(struct request *req)
{
	const struct nfs3_setattr_args *a = &req->args.nfs3.setattr;
	struct srv_object *o = &req->object[0];
	struct fsc_setattr set;
	int ret = nfs3_object(req, 0, &a->fh);

	if (ret)
		return ret;
	if (!nfs3_is_writable(req, o))
		return -EROFS;
	ret = nfs3_setattr_of(req, o, &a->attr, &set);
	if (ret)
		return ret;
	nfs3_before(req, 0);
	ret = guard(o, a, &set);
	if (ret || !set.mask)
		return ret;
	return change_attr(req, o, &set);
}

int nfs3_run_setattr(struct request *req)
{
	int ret = setattr(req);

	nfs3_wcc(req, 0, &req->res.nfs3.wcc);
	return ret;
}
