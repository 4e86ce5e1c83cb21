/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a file system is like: FSSTAT, FSINFO, PATHCONF. */
#include "server/nfs3/nfs3.h"

/*
 * btrfs makes inodes as it needs them. Clients take no free inodes for a full
 * file system, and programs print the difference: so many, all but a few free.
 */
#define FILES_TOTAL (1ull << 40)

/* Of an inode: btrfs counts up to 65,535 links within one directory, and more. */
#define LINK_MAX_ANSWERED 65535u

int nfs3_run_fsstat(struct request *req)
{
	struct nfs3_fsstat_res *res = &req->res.nfs3.fsstat;
	struct fsc_statfs st;
	int ret;

	ret = nfs3_object(req, 0, &req->args.nfs3.fh.fh);
	if (!ret)
		ret = fsc_statfs(&req->ctx, req->thread->srv->vol, req->object[0].attr.subvol, &st);
	nfs3_post_attr(req, 0, &res->obj);
	if (ret)
		return ret;
	res->total_bytes = st.total_bytes;
	res->free_bytes = st.free_bytes;
	res->avail_bytes = st.avail_bytes;
	res->total_files = FILES_TOTAL;
	res->free_files = res->avail_files = FILES_TOTAL - 1;
	res->invar_sec = 0;
	return 0;
}

int nfs3_run_fsinfo(struct request *req)
{
	struct nfs3_fsinfo_res *res = &req->res.nfs3.fsinfo;
	int ret = nfs3_object(req, 0, &req->args.nfs3.fh.fh);

	nfs3_post_attr(req, 0, &res->obj);
	if (ret)
		return ret;
	res->rtmax = res->rtpref = SRV_IO_MAX;
	res->wtmax = res->wtpref = SRV_IO_MAX;
	res->rtmult = res->wtmult = 4096;
	res->dtpref = SRV_DIRLIST_MAX;
	res->max_file_bytes = INT64_MAX;
	res->time_delta = (struct nfs3_time){0, 1};
	res->properties =
		NFS3_FSF_LINK | NFS3_FSF_SYMLINK | NFS3_FSF_HOMOGENEOUS | NFS3_FSF_CANSETTIME;
	return 0;
}

int nfs3_run_pathconf(struct request *req)
{
	struct nfs3_pathconf_res *res = &req->res.nfs3.pathconf;
	int ret = nfs3_object(req, 0, &req->args.nfs3.fh.fh);

	nfs3_post_attr(req, 0, &res->obj);
	if (ret)
		return ret;
	res->link_max = LINK_MAX_ANSWERED;
	res->name_max = FSC_NAME_MAX;
	res->no_trunc = true;
	res->chown_restricted = true;
	res->case_insensitive = false;
	res->case_preserving = true;
	return 0;
}
