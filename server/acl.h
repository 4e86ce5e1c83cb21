/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * POSIX ACLs in the format of the extended attributes system.posix_acl_*: what they
 * grant, and how they go with the mode (acl(5)). The values are those of the disk:
 * whatever they hold, nothing is read beyond their length.
 */
#ifndef SERVER_ACL_H
#define SERVER_ACL_H

#include "server/creds.h"

#define ACL_XATTR_ACCESS  "system.posix_acl_access"
#define ACL_XATTR_DEFAULT "system.posix_acl_default"
/*
 * Linux takes xattrs up to here, ACLs too, and btrfs what fits in a leaf, which has at
 * most this size: no volume has a longer one.
 */
#define ACL_BYTES_MAX 65536u

/* What an ACL grants. -EINVAL: the value is not an ACL; the mode bits then count. */
int acl_granted(const uint8_t *value, size_t len, const struct fsc_attr *attr,
	const struct cred *cred, unsigned *granted);

/*
 * chmod(2): changes the entries that the mode stands for (owner, mask or group,
 * others). -EINVAL.
 */
int acl_set_mode(uint8_t *value, size_t len, uint32_t mode);

/*
 * What is made in a directory with this default ACL gets it as its access ACL,
 * limited by the mode it is made with; and the mode is what the ACL leaves. extended:
 * the ACL says more than the mode. -EINVAL.
 */
int acl_inherit(uint8_t *value, size_t len, uint32_t *mode, bool *extended);

#endif
