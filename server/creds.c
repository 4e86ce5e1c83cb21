/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/creds.h"

#include <errno.h>
#include <sys/stat.h>

#include "server/acl.h"

void cred_squash(const struct rpc_cred *from, const struct export_rules *rules, struct cred *out)
{
	out->uid = rules->anon_uid;
	out->gid = rules->anon_gid;
	out->n_gids = 0;
	if (from->flavor != RPC_AUTH_SYS || rules->squash == SQUASH_ALL)
		return;
	out->uid = from->uid;
	out->gid = from->gid;
	out->n_gids = from->n_gids;
	for (uint32_t i = 0; i < from->n_gids; i++)
		out->gids[i] = from->gids[i];
	if (rules->squash == SQUASH_NONE)
		return;
	if (!out->uid)
		out->uid = rules->anon_uid;
	if (!out->gid)
		out->gid = rules->anon_gid;
	for (uint32_t i = 0; i < out->n_gids; i++)
		if (!out->gids[i])
			out->gids[i] = rules->anon_gid;
}

bool cred_in_group(const struct cred *c, uint32_t gid)
{
	if (c->gid == gid)
		return true;
	for (uint32_t i = 0; i < c->n_gids; i++)
		if (c->gids[i] == gid)
			return true;
	return false;
}

static unsigned mode_granted(const struct fsc_attr *attr, const struct cred *cred)
{
	if (cred->uid == attr->uid)
		return attr->mode >> 6 & 7u;
	if (cred_in_group(cred, attr->gid))
		return attr->mode >> 3 & 7u;
	return attr->mode & 7u;
}

/* The superuser: everything, but to run a file someone must be able to. */
static unsigned root_granted(const struct fsc_attr *attr)
{
	if (S_ISDIR(attr->mode) || attr->mode & 0111)
		return MAY_READ | MAY_WRITE | MAY_EXEC;
	return MAY_READ | MAY_WRITE;
}

int access_check(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct fsc_attr *attr,
	const struct cred *cred, unsigned want, unsigned *granted)
{
	uint8_t value[ACL_BYTES_MAX];
	size_t len;
	int ret;

	*granted = 0;
	if (!cred->uid) {
		*granted = root_granted(attr) & want;
		return 0;
	}
	/*
	 * The owner's bits are the same in the mode. A group class of no bits
	 * is an ACL's empty mask, which leaves nothing to the ACL's entries.
	 */
	if (attr->has_acl && cred->uid != attr->uid && attr->mode & 0070) {
		unsigned acl;

		ret = fsc_getxattr(ctx, inode, ACL_XATTR_ACCESS, value, sizeof(value), &len);
		if (!ret && !acl_granted(value, len, attr, cred, &acl)) {
			*granted = acl & want;
			return 0;
		}
		if (ret && ret != -ENODATA)
			return ret;
	}
	*granted = mode_granted(attr, cred) & want;
	return 0;
}

int access_need(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct fsc_attr *attr,
	const struct cred *cred, unsigned want)
{
	unsigned granted;
	int ret = access_check(ctx, inode, attr, cred, want, &granted);

	if (ret)
		return ret;
	return granted == want ? 0 : -EACCES;
}
