/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the operations that change something share. */
#include <errno.h>

#include "server/nfs3/nfs3.h"

int nfs3_changing_name(struct request *req, unsigned slot, const struct nfs3_diropargs *d, int dots)
{
	bool is_dots = nfs3_is_dot(&d->name) || nfs3_is_dotdot(&d->name);
	int ret = nfs3_directory(req, slot, &d->fh);

	if (ret)
		return ret;
	ret = nfs3_check_name(&d->name);
	if (ret)
		return ret;
	if (is_dots && dots == -EINVAL)
		return dots;
	if (!nfs3_is_writable(req, &req->object[slot]))
		return -EROFS;
	return is_dots ? dots : 0;
}

int nfs3_need_names(struct request *req, unsigned slot)
{
	return nfs3_need(req, &req->object[slot], MAY_WRITE | MAY_EXEC);
}

bool nfs3_owns(const struct request *req, const struct srv_object *o)
{
	return !req->cred.uid || req->cred.uid == o->attr.uid;
}

int nfs3_need_write(struct request *req, const struct srv_object *o)
{
	return nfs3_owns(req, o) ? 0 : nfs3_need(req, o, MAY_WRITE);
}

void nfs3_before(struct request *req, unsigned slot)
{
	struct srv_object *o = &req->object[slot];

	fsc_inode_attr(o->inode, &o->attr);
	o->steps = 0;
}

void nfs3_wcc(struct request *req, unsigned slot, struct nfs3_wcc *out)
{
	struct srv_object *o = &req->object[slot];
	struct fsc_attr before = o->attr;

	out->has_before = false;
	out->after.present = o->inode != NULL;
	if (!o->inode)
		return;
	fsc_inode_attr(o->inode, &o->attr);
	nfs3_post_attr(req, slot, &out->after);
	out->has_before = o->attr.change - before.change == o->steps;
	o->steps = 0;
	out->size = before.size_bytes;
	out->mtime = nfs3_time_of(&before.mtime);
	out->ctime = nfs3_time_of(&before.ctime);
}

void nfs3_durable_names(struct request *req, unsigned slot)
{
	if (!req->object[slot].rules->async)
		req->durable = DURABLE_NAMES;
}

int nfs3_need_worker(struct request *req)
{
	if (!(req->ctx.flags & FSC_NOWAIT))
		return 0;
	req->ctx.blocked = FSC_BLOCKED_TXN;
	return -EAGAIN;
}

int nfs3_half_done(int err)
{
	return err == -ENOSPC || err == -EDQUOT ? err : -EIO;
}
