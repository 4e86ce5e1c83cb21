/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who a request acts as, and what that one may do with an inode: AUTH_SYS
 * credentials after squashing, POSIX mode bits and POSIX ACLs.
 */
#ifndef SERVER_CREDS_H
#define SERVER_CREDS_H

#include "fscore/fscore.h"
#include "proto/rpc.h"
#include "server/exports.h"

struct cred {
	uint32_t uid, gid;
	uint32_t n_gids;
	uint32_t gids[RPC_GIDS_MAX];
};

/* What a client's credentials become under the rules of an export. */
void cred_squash(const struct rpc_cred *from, const struct export_rules *rules, struct cred *out);

bool cred_in_group(const struct cred *c, uint32_t gid);

/* As in mode bits. */
#define MAY_EXEC  1u
#define MAY_WRITE 2u
#define MAY_READ  4u

/*
 * Which of the wanted MAY_ bits are granted. *granted is a subset of want.
 * Returns 0, or an error of fsc_getxattr() when an ACL cannot be read.
 */
int access_check(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct fsc_attr *attr,
	const struct cred *cred, unsigned want, unsigned *granted);

/* 0 when all of want is granted, otherwise -EACCES or the error above. */
int access_need(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct fsc_attr *attr,
	const struct cred *cred, unsigned want);

#endif
