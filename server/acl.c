/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/acl.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define ACL_VERSION	 2u
#define ACL_HEADER_BYTES 4u
#define ACL_ENTRY_BYTES	 8u

enum acl_tag {
	ACL_USER_OBJ = 0x01,
	ACL_USER = 0x02,
	ACL_GROUP_OBJ = 0x04,
	ACL_GROUP = 0x08,
	ACL_MASK = 0x10,
	ACL_OTHER = 0x20,
};

struct acl_entry {
	unsigned tag, perm;
	uint32_t id;
};

/* The number of entries. -EINVAL: not an ACL. */
static int acl_count(const uint8_t *value, size_t len, size_t *n)
{
	uint32_t version;

	if (len < ACL_HEADER_BYTES || (len - ACL_HEADER_BYTES) % ACL_ENTRY_BYTES)
		return -EINVAL;
	memcpy(&version, value, 4);
	if (le32toh(version) != ACL_VERSION)
		return -EINVAL;
	*n = (len - ACL_HEADER_BYTES) / ACL_ENTRY_BYTES;
	return 0;
}

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

static void acl_set_perm(uint8_t *value, size_t i, unsigned perm)
{
	uint16_t v = htole16((uint16_t)perm);

	memcpy(value + ACL_HEADER_BYTES + i * ACL_ENTRY_BYTES + 2, &v, 2);
}

/* Where the entry with a tag of which there is one is; n: nowhere. */
static size_t acl_find(const uint8_t *value, size_t n, unsigned tag)
{
	size_t i = 0;

	while (i < n && acl_entry_at(value, i).tag != tag)
		i++;
	return i;
}

/* The entry that the group bits of the mode stand for. */
static size_t acl_group_class(const uint8_t *value, size_t n)
{
	size_t i = acl_find(value, n, ACL_MASK);

	return i < n ? i : acl_find(value, n, ACL_GROUP_OBJ);
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
	size_t n;

	if (acl_count(value, len, &n))
		return -EINVAL;
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

int acl_set_mode(uint8_t *value, size_t len, uint32_t mode)
{
	size_t n, at[3];

	if (acl_count(value, len, &n))
		return -EINVAL;
	at[0] = acl_find(value, n, ACL_OTHER);
	at[1] = acl_group_class(value, n);
	at[2] = acl_find(value, n, ACL_USER_OBJ);
	for (unsigned i = 0; i < 3; i++) {
		if (at[i] == n)
			return -EINVAL;
		acl_set_perm(value, at[i], mode >> (3 * i) & 7u);
	}
	return 0;
}

int acl_inherit(uint8_t *value, size_t len, uint32_t *mode, bool *extended)
{
	uint32_t granted = *mode & ~0777u;
	size_t n, at[3];

	if (acl_count(value, len, &n))
		return -EINVAL;
	at[0] = acl_find(value, n, ACL_OTHER);
	at[1] = acl_group_class(value, n);
	at[2] = acl_find(value, n, ACL_USER_OBJ);
	for (unsigned i = 0; i < 3; i++) {
		unsigned perm;

		if (at[i] == n)
			return -EINVAL;
		perm = acl_entry_at(value, at[i]).perm & (*mode >> (3 * i) & 7u);
		acl_set_perm(value, at[i], perm);
		granted |= perm << (3 * i);
	}
	*mode = granted;
	*extended = n > 3;
	return 0;
}
