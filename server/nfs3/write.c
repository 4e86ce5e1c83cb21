/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * WRITE and COMMIT. Data go from the record, where they were received, into the
 * page cache. What the client wants to be stable is answered when it is durable,
 * on async exports too: there only names and attributes may be lost.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "server/nfs3/nfs3.h"

static int write_data(struct request *req)
{
	const struct nfs3_write_args *a = &req->args.nfs3.write;
	struct nfs3_write_res *res = &req->res.nfs3.write;
	struct srv_object *o = &req->object[0];
	/* Clients heed wtmax; to others the count says how far it went. */
	struct iovec iov = {(void *)(uintptr_t)a->data.data, MIN(a->count, SRV_IO_MAX)};
	int ret;

	ret = nfs3_object(req, 0, &a->fh);
	if (ret)
		return ret;
	if (!S_ISREG(o->attr.mode))
		return -EINVAL;
	if (!nfs3_is_writable(req, o))
		return -EROFS;
	ret = nfs3_need_write(req, o);
	if (ret)
		return ret;
	if (a->file_off > INT64_MAX - iov.iov_len)
		return -EFBIG;
	/* Before the data can get lost: see write_verf.h. */
	write_verf_get(&req->thread->srv->write_verf, res->verf);
	res->count = (uint32_t)iov.iov_len;
	res->committed = a->stable;
	nfs3_before(req, 0);
	if (iov.iov_len) {
		ret = fsc_write(&req->ctx, o->inode, a->file_off, &iov, 1);
		o->steps = !ret;
	}
	if (!ret && a->stable != NFS3_UNSTABLE)
		req->durable = DURABLE_INODE;
	return ret;
}

int nfs3_run_write(struct request *req)
{
	int ret = write_data(req);

	nfs3_wcc(req, 0, &req->res.nfs3.write.wcc);
	return ret;
}

/*
 * All of the file becomes durable, so any range is fine: one beyond the largest
 * file is no error either. On a read-only export nothing is unwritten.
 */
int nfs3_run_commit(struct request *req)
{
	struct nfs3_commit_res *res = &req->res.nfs3.commit;
	struct srv_object *o = &req->object[0];
	int ret = nfs3_object(req, 0, &req->args.nfs3.commit.fh);

	if (!ret && !S_ISREG(o->attr.mode))
		ret = -EINVAL;
	if (!ret && nfs3_is_writable(req, o))
		req->durable = DURABLE_INODE;
	nfs3_wcc(req, 0, &res->wcc);
	write_verf_get(&req->thread->srv->write_verf, res->verf);
	return ret;
}

void nfs3_synced_commit(struct request *req, int status)
{
	struct nfs3_commit_res *res = &req->res.nfs3.commit;

	(void)status;
	/* As of now: what was lost until the end shows. */
	write_verf_get(&req->thread->srv->write_verf, res->verf);
	nfs3_wcc(req, 0, &res->wcc);
}
