/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/util.h"
#include "server/errors.h"
#include "server/fh.h"
#include "server/nfs3/nfs3.h"
#include "server/rpc/dispatch.h"

/* The subvolume and the rules of an object; its inode is not needed yet. */
static int find_rules(struct request *req, struct srv_object *o, uint64_t id)
{
	int ret = srv_subvol_get(req->thread, &req->ctx, id, &o->subvol);

	if (ret)
		return ret == -ENOENT ? -ESTALE : ret;
	if (!o->subvol.export)
		return -ESTALE;
	o->rules = rpc_peer_rules(req->peer, o->subvol.export);
	if (!o->rules) {
		char text[NET_ADDR_TEXT];

		net_addr_text(&req->peer->addr, text);
		log_limited(
			LOG_LVL_NOTICE, "%s: no access to export %s", text, o->subvol.export->name);
		return -EACCES;
	}
	return 0;
}

int nfs3_object(struct request *req, unsigned slot, const struct wire_blob *fh)
{
	struct server *srv = req->thread->srv;
	struct srv_object *o = &req->object[slot];
	struct fh_id id;
	int ret;

	ret = fh_decode(srv->vol_info.uuid, fh->data, fh->len, &id);
	if (ret)
		return ret;
	if (!slot)
		req->tenant = id.subvol;
	ret = find_rules(req, o, id.subvol);
	if (ret)
		return ret;
	if (!slot)
		cred_squash(&req->call.cred, o->rules, &req->cred);
	ret = fsc_inode_get(&req->ctx, srv->vol, id.subvol, id.ino, id.generation, &o->inode);
	if (ret) {
		o->inode = NULL;
		return ret == -ENOENT ? -ESTALE : ret;
	}
	fsc_inode_attr(o->inode, &o->attr);
	o->steps = 0;
	return 0;
}

int nfs3_directory(struct request *req, unsigned slot, const struct wire_blob *fh)
{
	int ret = nfs3_object(req, slot, fh);

	if (!ret && !S_ISDIR(req->object[slot].attr.mode))
		ret = -ENOTDIR;
	return ret;
}

int nfs3_adopt(struct request *req, unsigned slot, struct fsc_inode *inode)
{
	struct srv_object *o = &req->object[slot];
	int ret;

	fsc_inode_attr(inode, &o->attr);
	ret = find_rules(req, o, o->attr.subvol);
	if (ret) {
		fsc_inode_put(inode);
		return ret;
	}
	o->inode = inode;
	return 0;
}

bool nfs3_is_export_root(const struct srv_object *o)
{
	return o->attr.ino == FSC_INO_ROOT && o->subvol.export->subvol == o->attr.subvol;
}

bool nfs3_is_writable(const struct request *req, const struct srv_object *o)
{
	return o->rules->writable && !o->subvol.read_only && !req->thread->srv->vol_info.read_only;
}

bool nfs3_is_dot(const struct wire_blob *name)
{
	return name->len == 1 && name->data[0] == '.';
}

bool nfs3_is_dotdot(const struct wire_blob *name)
{
	return name->len == 2 && name->data[0] == '.' && name->data[1] == '.';
}

int nfs3_check_name(const struct wire_blob *name)
{
	if (!name->len)
		return -EINVAL;
	if (name->len > FSC_NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name->data, '/', name->len) || memchr(name->data, '\0', name->len))
		return -EINVAL;
	return 0;
}

int nfs3_need(struct request *req, const struct srv_object *o, unsigned want)
{
	return access_need(&req->ctx, o->inode, &o->attr, &req->cred, want);
}

static const uint8_t type_of_format[16] = {
	[S_IFIFO >> 12] = NFS3_FIFO,
	[S_IFCHR >> 12] = NFS3_CHR,
	[S_IFDIR >> 12] = NFS3_DIR,
	[S_IFBLK >> 12] = NFS3_BLK,
	[S_IFREG >> 12] = NFS3_REG,
	[S_IFLNK >> 12] = NFS3_LNK,
	[S_IFSOCK >> 12] = NFS3_SOCK,
};

/* Times before 1970 and after 2106 do not fit: the nearest one that does. */
struct nfs3_time nfs3_time_of(const struct fsc_time *t)
{
	if (t->sec < 0)
		return (struct nfs3_time){0, 0};
	if (t->sec > UINT32_MAX)
		return (struct nfs3_time){UINT32_MAX, 999999999};
	return (struct nfs3_time){(uint32_t)t->sec, t->nsec};
}

void nfs3_fattr(const struct fsc_attr *attr, uint64_t fsid, struct nfs3_fattr *out)
{
	uint8_t type = type_of_format[(attr->mode & S_IFMT) >> 12];

	out->type = type ? (enum nfs3_ftype)type : NFS3_REG;
	out->mode = attr->mode & 07777;
	out->nlink = attr->nlink;
	out->uid = attr->uid;
	out->gid = attr->gid;
	out->size = attr->size_bytes;
	out->used = attr->used_bytes;
	out->rdev_major = attr->rdev_major;
	out->rdev_minor = attr->rdev_minor;
	out->fsid = fsid;
	out->fileid = attr->ino;
	out->atime = nfs3_time_of(&attr->atime);
	out->mtime = nfs3_time_of(&attr->mtime);
	out->ctime = nfs3_time_of(&attr->ctime);
}

void nfs3_post_attr(const struct request *req, unsigned slot, struct nfs3_post_attr *out)
{
	const struct srv_object *o = &req->object[slot];

	out->present = o->inode != NULL;
	if (out->present)
		nfs3_fattr(&o->attr, o->subvol.fsid, &out->attr);
}

void nfs3_make_fh(const struct request *req, const struct fsc_attr *attr, struct nfs3_fh *out)
{
	struct fh_id id = {attr->subvol, attr->ino, attr->generation};

	fh_encode(req->thread->srv->vol_info.uuid, &id, out->data);
	out->len = FH_BYTES;
}
