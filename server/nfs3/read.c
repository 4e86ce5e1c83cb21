/* SPDX-License-Identifier: GPL-2.0-or-later */
/* READ: submitted from the loop, and completed there. */
#include <errno.h>
#include <sys/stat.h>

#include "base/util.h"
#include "server/nfs3/nfs3.h"

/*
 * The owner may always read: the client has checked the mode when the file was
 * opened, and a later chmod does not close it. Whoever may execute a file may
 * read it too, or a client could not run it.
 */
static int may_read(struct request *req, const struct srv_object *o)
{
	unsigned granted;
	int ret;

	if (req->cred.uid == o->attr.uid)
		return 0;
	ret = access_check(
		&req->ctx, o->inode, &o->attr, &req->cred, MAY_READ | MAY_EXEC, &granted);
	if (ret)
		return ret;
	return granted ? 0 : -EACCES;
}

static int begin(struct request *req)
{
	const struct nfs3_read_args *a = &req->args.nfs3.read;
	struct srv_object *o = &req->object[0];
	int ret;

	ret = nfs3_object(req, 0, &a->fh);
	if (ret)
		return ret;
	if (S_ISDIR(o->attr.mode))
		return -EISDIR;
	if (!S_ISREG(o->attr.mode))
		return -EINVAL;
	ret = may_read(req, o);
	if (ret)
		return ret;
	req->rd.file_off = a->file_off;
	req->rd.len_bytes = MIN(a->count, SRV_IO_MAX);
	return fsc_read(&req->ctx, o->inode, &req->rd);
}

int nfs3_run_read(struct request *req)
{
	struct nfs3_read_res *res = &req->res.nfs3.read;
	int ret = req->read_ended ? req->rd.status : begin(req);

	if (ret == -EAGAIN || ret == -EINPROGRESS)
		return ret;
	nfs3_post_attr(req, 0, &res->obj);
	if (ret)
		return ret;
	res->count = (uint32_t)req->rd.result_bytes;
	res->eof = req->rd.eof;
	return 0;
}
