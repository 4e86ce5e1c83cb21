/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/creds.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define ACL_XATTR	 "system.posix_acl_access"
#define ACL_VERSION	 2u
#define ACL_HEADER_BYTES 4u
#define ACL_ENTRY_BYTES	 8u
/* The most that fits in a leaf of 64 KiB is less; Linux's own limit is too. */
#define ACL_BYTES_MAX 4096u

enum acl_tag {
	ACL_USER_OBJ = 0x01,
	ACL_USER = 0x02,
	ACL_GROUP_OBJ = 0x04,
	ACL_GROUP = 0x08,
	ACL_MASK = 0x10,
	ACL_OTHER = 0x20,
};

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

struct acl_entry {
	unsigned tag, perm;
	uint32_t id;
};

static struct acl_entry acl_entry_at(const uint8_t *value, size_t i)
{
	const uint8_t *p = value + ACL_HEADER_BYTES + i * ACL_ENTRY_BYTES;
	struct acl_entry e;
	uint16_t tag, perm;
	uint32_t id;

	memcpy(&tag, p, 2);
	memcpy(&perm, p + 2, 2);
	memcpy(&id, p + 4, 4);
	e.tag = le16toh(tag);
	e.perm = le16toh(perm) & 7u;
	e.id = le32toh(id);
	return e;
}

static bool acl_entry_of_group(
	const struct acl_entry *e, const struct fsc_attr *attr, const struct cred *cred)
{
	if (e->tag == ACL_GROUP_OBJ)
		return cred_in_group(cred, attr->gid);
	return e->tag == ACL_GROUP && cred_in_group(cred, e->id);
}

/*
 * acl(5): the owner's entry; else a named user's; else all entries of groups
 * that the user is in, any of which may grant; else others'. The mask limits
 * all but the owner's and others'.
 *
 * A request for several permissions is granted by groups only when one entry
 * has them all; bits that are asked for one by one are a union. Callers ask
 * for single bits, or need all: the union differs only for odd ACLs, and the
 * kernel then decides per open mode, which a client's ACCESS cannot express.
 */
int acl_granted(const uint8_t *value, size_t len, const struct fsc_attr *attr,
	const struct cred *cred, unsigned *granted)
{
	unsigned mask = 7, user = 0, group = 0, other = 0;
	bool named_user = false, in_group = false;
	uint32_t version;
	size_t n;

	if (len < ACL_HEADER_BYTES || (len - ACL_HEADER_BYTES) % ACL_ENTRY_BYTES)
		return -EINVAL;
	memcpy(&version, value, 4);
	if (le32toh(version) != ACL_VERSION)
		return -EINVAL;
	n = (len - ACL_HEADER_BYTES) / ACL_ENTRY_BYTES;
	for (size_t i = 0; i < n; i++) {
		struct acl_entry e = acl_entry_at(value, i);

		if (e.tag == ACL_USER_OBJ && cred->uid == attr->uid) {
			*granted = e.perm;
			return 0;
		}
		if (e.tag == ACL_USER && e.id == cred->uid) {
			named_user = true;
			user = e.perm;
		} else if (acl_entry_of_group(&e, attr, cred)) {
			in_group = true;
			group |= e.perm;
		} else if (e.tag == ACL_MASK) {
			mask = e.perm;
		} else if (e.tag == ACL_OTHER) {
			other = e.perm;
		}
	}
	if (named_user)
		*granted = user & mask;
	else if (in_group)
		*granted = group & mask;
	else
		*granted = other;
	return 0;
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

		ret = fsc_getxattr(ctx, inode, ACL_XATTR, value, sizeof(value), &len);
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
