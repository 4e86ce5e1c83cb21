/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Extended attributes (fsc_getxattr(), fsc_listxattr() of fscore.h). */
#ifndef FSCORE_FILE_XATTR_H
#define FSCORE_FILE_XATTR_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this is the name hash of a POSIX ACL's attribute. */
bool xattr_hash_is_acl(uint64_t hash);

#endif
