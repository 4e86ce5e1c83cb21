/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READDIR and READDIRPLUS.
 *
 * Cookies: "." is 3, ".." is 4, and an entry is its index in the directory + 3
 * (indexes begin at 2): unique, over 2, under 2^63, and never used again for
 * another name. So a page costs what it holds, wherever it begins.
 *
 * The verifier is the highest index that was in use when the listing began
 * (cookie 0): a listing ends there, so that renaming what was listed, which
 * appends it again, cannot make it endless. It says nothing about changes: a
 * cookie stays good whatever happens to the directory. A verifier of zeros
 * (a client that keeps none) means no bound.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "server/errors.h"
#include "server/nfs3/nfs3.h"

#define COOKIE_DOT    3u
#define COOKIE_DOTDOT 4u
#define COOKIE_SHIFT  3u
#define INDEX_FIRST   2u
#define INDEX_END     (1ull << 62) /* all indexes are below */

struct listing {
	struct request *req;
	const struct srv_object *dir;
	bool plus;
	size_t dircount_left; /* what dircount still allows */
	bool any, full;
	struct wire_out out;
};

/* Puts an entry if it fits, whole. attr: NULL for none, and then no handle. */
static bool put(struct listing *l, const struct nfs3_entry *entry, const struct fsc_attr *attr)
{
	struct wire_out before = l->out;
	size_t names = nfs3_entry_bytes(entry->name_len);
	struct nfs3_entry e = *entry;
	struct nfs3_fattr fattr;
	struct nfs3_fh fh;

	/* dircount is a hint: it never keeps the first entry out. */
	if (l->any && names > l->dircount_left)
		goto full;
	if (l->plus && attr) {
		nfs3_fattr(attr, l->dir->subvol.fsid, &fattr);
		nfs3_make_fh(l->req, attr, &fh);
		e.attr = &fattr;
		e.fh = &fh;
	}
	if (l->plus)
		nfs3_put_entry_plus(&l->out, &e);
	else
		nfs3_put_entry(&l->out, &e);
	if (l->out.bad)
		goto full;
	l->dircount_left -= MIN(names, l->dircount_left);
	l->any = true;
	return true;
full:
	l->out = before;
	l->full = true;
	return false;
}

static bool put_dirent(void *arg, const struct fsc_dirent *d)
{
	struct listing *l = arg;
	/* A subvolume's entry is a mount point: the client looks it up. */
	bool crosses = d->subvol != l->dir->attr.subvol;
	struct nfs3_entry e = {
		.fileid = crosses ? FSC_INO_ROOT : d->ino,
		.name = d->name,
		.name_len = (uint32_t)d->name_len,
		.cookie = d->index + COOKIE_SHIFT,
	};

	return put(l, &e, crosses ? NULL : d->attr);
}

/* The directory that holds this one, as object[1]; at an export's root itself. */
static int find_parent(struct request *req)
{
	struct srv_object *dir = &req->object[0];
	struct fsc_inode *parent;
	int ret;

	if (nfs3_is_export_root(dir)) {
		fsc_inode_ref(dir->inode);
		parent = dir->inode;
	} else {
		ret = fsc_lookup(&req->ctx, dir->inode, "..", 2, &parent);
		if (ret)
			return ret;
	}
	return nfs3_adopt(req, 1, parent);
}

static int put_dots(struct listing *l, uint64_t cookie)
{
	struct nfs3_entry dot = {
		.fileid = l->dir->attr.ino, .name = ".", .name_len = 1, .cookie = COOKIE_DOT};
	struct nfs3_entry dotdot = {.name = "..", .name_len = 2, .cookie = COOKIE_DOTDOT};
	const struct srv_object *up = &l->req->object[1];
	int ret;

	if (cookie < COOKIE_DOT && !put(l, &dot, &l->dir->attr))
		return 0;
	if (cookie >= COOKIE_DOTDOT)
		return 0;
	ret = find_parent(l->req);
	if (ret == -EAGAIN)
		return ret;
	/* A damaged or forbidden parent must not hide the entries. */
	dotdot.fileid = ret ? l->dir->attr.ino : up->attr.ino;
	put(l, &dotdot, !ret && up->attr.subvol == l->dir->attr.subvol ? &up->attr : NULL);
	return 0;
}

static int put_all(struct listing *l, uint64_t cookie, uint64_t bound, bool *eof)
{
	uint64_t from = cookie < COOKIE_DOTDOT + 1 ? INDEX_FIRST : cookie - COOKIE_SHIFT + 1;
	int ret;

	*eof = false;
	ret = put_dots(l, cookie);
	if (ret || l->full)
		return ret;
	if (from > bound) {
		*eof = true;
		return 0;
	}
	ret = fsc_readdir(&l->req->ctx, l->req->object[0].inode, from, bound,
		l->plus ? FSC_READDIR_ATTR : 0, put_dirent, l, eof);
	/* With the dots in the page already, the rest can be the next one. */
	if (ret == -EAGAIN && l->any)
		return 0;
	return ret;
}

/*
 * Finds the bound of this listing, and refuses cookies that can't be. Those between
 * ours are good: programs seek to any number, and Linux takes BAD_COOKIE for the end.
 */
static int find_bound(struct request *req, uint64_t *bound)
{
	const struct nfs3_readdir_args *a = &req->args.nfs3.readdir;
	int ret;

	if (!a->cookie) {
		ret = fsc_dir_last_index(&req->ctx, req->object[0].inode, bound);
		return ret;
	}
	*bound = wire_load_u64(a->verf);
	if (a->cookie >= INDEX_END + COOKIE_SHIFT || *bound >= INDEX_END)
		return -SRV_EBADCOOKIE;
	return 0;
}

static int list(struct request *req, bool plus)
{
	const struct nfs3_readdir_args *a = &req->args.nfs3.readdir;
	struct nfs3_readdir_res *res = &req->res.nfs3.readdir;
	struct listing l = {.req = req, .dir = &req->object[0], .plus = plus};
	size_t size = MIN(a->maxcount, SRV_DIRLIST_MAX);
	uint64_t bound;
	bool eof;
	int ret;

	ret = nfs3_directory(req, 0, &a->fh);
	if (!ret)
		ret = nfs3_need(req, l.dir, MAY_READ);
	if (!ret)
		ret = find_bound(req, &bound);
	if (ret)
		return ret;
	if (size < NFS3_READDIR_FIXED_BYTES)
		return -SRV_ETOOSMALL;
	if (!request_body(req, SRV_DIRLIST_MAX))
		return -SRV_ELATER;
	wire_set_u64(res->verf, bound);
	l.dircount_left = a->dircount;
	wire_out_init(&l.out, req->body, size - NFS3_READDIR_FIXED_BYTES);
	ret = put_all(&l, a->cookie, bound ? bound : INDEX_END - 1, &eof);
	if (ret)
		return ret;
	if (!l.any && !eof)
		return -SRV_ETOOSMALL;
	l.out.end += NFS3_DIRLIST_END_BYTES;
	nfs3_put_dirlist_end(&l.out, eof);
	req->body_len = (size_t)(l.out.p - req->body);
	return 0;
}

int nfs3_run_readdir(struct request *req)
{
	int ret = list(req, false);

	nfs3_post_attr(req, 0, &req->res.nfs3.readdir.dir);
	return ret;
}

int nfs3_run_readdirplus(struct request *req)
{
	int ret = list(req, true);

	nfs3_post_attr(req, 0, &req->res.nfs3.readdir.dir);
	return ret;
}
