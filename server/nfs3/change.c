/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What changes something. Writing is not served yet: after the checks that
 * come before it (the handle, the kind of object, the name), all of these end
 * with ROFS and the attributes as they are. ROFS comes before EXIST and before
 * permissions, as on a local read-only mount.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "server/nfs3/nfs3.h"

/* What "." and ".." are to an operation on a name. */
struct dot_errors {
	int dot, dotdot;
};

static const struct dot_errors dots_exist = {-EROFS, -EROFS};
static const struct dot_errors dots_invalid = {-EINVAL, -EINVAL};

static int check_dirop(struct request *req, unsigned slot, const struct nfs3_diropargs *d,
	const struct dot_errors *dots)
{
	int ret = nfs3_directory(req, slot, &d->fh);

	if (ret)
		return ret;
	ret = nfs3_check_name(&d->name);
	if (ret)
		return ret;
	if (nfs3_is_dot(&d->name))
		return dots->dot;
	return nfs3_is_dotdot(&d->name) ? dots->dotdot : 0;
}

static int refuse(int ret)
{
	return ret ? ret : -EROFS;
}

int nfs3_run_setattr(struct request *req)
{
	int ret = nfs3_object(req, 0, &req->args.nfs3.setattr.fh);

	nfs3_wcc_unchanged(req, 0, &req->res.nfs3.wcc);
	return refuse(ret);
}

int nfs3_run_write(struct request *req)
{
	int ret = nfs3_object(req, 0, &req->args.nfs3.write.fh);

	if (!ret && !S_ISREG(req->object[0].attr.mode))
		ret = -EINVAL;
	nfs3_wcc_unchanged(req, 0, &req->res.nfs3.write.wcc);
	return refuse(ret);
}

/* CREATE, MKDIR, SYMLINK and MKNOD differ in their arguments only. */
static int refuse_new(struct request *req, const struct nfs3_diropargs *where)
{
	int ret = check_dirop(req, 0, where, &dots_exist);

	nfs3_wcc_unchanged(req, 0, &req->res.nfs3.create.dir);
	return refuse(ret);
}

int nfs3_run_create(struct request *req)
{
	return refuse_new(req, &req->args.nfs3.create.where);
}

int nfs3_run_mkdir(struct request *req)
{
	return refuse_new(req, &req->args.nfs3.mkdir.where);
}

int nfs3_run_symlink(struct request *req)
{
	return refuse_new(req, &req->args.nfs3.symlink.where);
}

int nfs3_run_mknod(struct request *req)
{
	return refuse_new(req, &req->args.nfs3.mknod.where);
}

static int refuse_removal(struct request *req)
{
	int ret = check_dirop(req, 0, &req->args.nfs3.dirop, &dots_invalid);

	nfs3_wcc_unchanged(req, 0, &req->res.nfs3.wcc);
	return refuse(ret);
}

int nfs3_run_remove(struct request *req)
{
	return refuse_removal(req);
}

int nfs3_run_rmdir(struct request *req)
{
	return refuse_removal(req);
}

int nfs3_run_rename(struct request *req)
{
	const struct nfs3_rename_args *a = &req->args.nfs3.rename;
	struct nfs3_rename_res *res = &req->res.nfs3.rename;
	int ret = check_dirop(req, 0, &a->from, &dots_invalid);

	if (!ret)
		ret = check_dirop(req, 1, &a->to, &dots_invalid);
	nfs3_wcc_unchanged(req, 0, &res->from);
	nfs3_wcc_unchanged(req, 1, &res->to);
	return refuse(ret);
}

int nfs3_run_link(struct request *req)
{
	const struct nfs3_link_args *a = &req->args.nfs3.link;
	struct nfs3_link_res *res = &req->res.nfs3.link;
	int ret = nfs3_object(req, 0, &a->fh);

	if (!ret)
		ret = check_dirop(req, 1, &a->to, &dots_exist);
	nfs3_post_attr(req, 0, &res->obj);
	nfs3_wcc_unchanged(req, 1, &res->dir);
	return refuse(ret);
}

/*
 * Nothing is unwritten, so any range is durable: one beyond the largest file
 * is no error either.
 */
int nfs3_run_commit(struct request *req)
{
	struct nfs3_commit_res *res = &req->res.nfs3.commit;
	int ret = nfs3_object(req, 0, &req->args.nfs3.commit.fh);

	if (!ret && !S_ISREG(req->object[0].attr.mode))
		ret = -EINVAL;
	nfs3_wcc_unchanged(req, 0, &res->wcc);
	memcpy(res->verf, req->thread->srv->write_verf, NFS3_VERF_SIZE);
	return ret;
}
