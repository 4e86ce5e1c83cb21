/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Extended attributes (fsc_getxattr(), fsc_listxattr() of fscore.h). */
#ifndef FSCORE_FILE_XATTR_H
#define FSCORE_FILE_XATTR_H

#include <stdbool.h>
#include <stdint.h>

#include "fscore/file/inode.h"

/* Whether this is the name hash of a POSIX ACL's attribute. */
bool xattr_hash_is_acl(uint64_t hash);

/*
 * Puts the first attribute of a new inode in the locked tree, at a place that was prepared: the
 * key of its name. An error aborts the transaction.
 */
int xattr_insert_prepared(struct txn_handle *h, struct fsc_inode *inode, const char *name,
	const void *value, size_t len);

/*
 * Keeps the verifier of an exclusive creation in an attribute that clients do not see, in the
 * transaction of h. An error aborts it.
 */
int verifier_store(struct txn_handle *h, struct fsc_inode *inode, const uint8_t *verifier);

/* Takes the verifier away, if there is one. op_lock is held. */
int verifier_drop(struct txn_handle *h, struct fsc_inode *inode);

/* Whether there is one; from memory or the tree. */
int verifier_exists(struct fsc_ctx *ctx, struct fsc_inode *inode, bool *exists);

#endif
