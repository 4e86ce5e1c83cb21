/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NFSv3 on fscore: the operations of nfs3/table.c. For siblings only.
 *
 * Each is a run function of rpc/program.h. What they share: a handle becomes
 * an object (an inode that is referenced, its attributes, and the export's
 * rules for this client), and results carry attributes whenever there are any,
 * in failures too.
 */
#ifndef SERVER_NFS3_NFS3_H
#define SERVER_NFS3_NFS3_H

#include "server/rpc/request.h"

int nfs3_run_getattr(struct request *req);
int nfs3_run_lookup(struct request *req);
int nfs3_run_access(struct request *req);
int nfs3_run_readlink(struct request *req);
int nfs3_run_read(struct request *req);
int nfs3_run_readdir(struct request *req);
int nfs3_run_readdirplus(struct request *req);
int nfs3_run_fsstat(struct request *req);
int nfs3_run_fsinfo(struct request *req);
int nfs3_run_pathconf(struct request *req);

/* change.c: operations that a read-only file system refuses */
int nfs3_run_setattr(struct request *req);
int nfs3_run_write(struct request *req);
int nfs3_run_create(struct request *req);
int nfs3_run_mkdir(struct request *req);
int nfs3_run_symlink(struct request *req);
int nfs3_run_mknod(struct request *req);
int nfs3_run_remove(struct request *req);
int nfs3_run_rmdir(struct request *req);
int nfs3_run_rename(struct request *req);
int nfs3_run_link(struct request *req);
int nfs3_run_commit(struct request *req);

/* -------------------------------------------------------------- object.c */

/*
 * Resolves a handle into object[slot], and with slot 0 sets req->cred and
 * req->tenant. -SRV_EBADHANDLE, -ESTALE, -EACCES: not for this client.
 */
int nfs3_object(struct request *req, unsigned slot, const struct wire_blob *fh);

/* The same, of something that must be a directory: -ENOTDIR. */
int nfs3_directory(struct request *req, unsigned slot, const struct wire_blob *fh);

/*
 * Makes an inode that was looked up object[slot]; takes the reference over.
 * -EACCES: it is in an export that this client has no access to.
 */
int nfs3_adopt(struct request *req, unsigned slot, struct fsc_inode *inode);

/* True for the root of an exported subvolume: it has no parent. */
bool nfs3_is_export_root(const struct srv_object *o);

/* False when everything that changes must be refused. */
bool nfs3_is_writable(const struct request *req, const struct srv_object *o);

/* -EINVAL: empty, with a slash or NUL; -ENAMETOOLONG. */
int nfs3_check_name(const struct wire_blob *name);
bool nfs3_is_dot(const struct wire_blob *name);
bool nfs3_is_dotdot(const struct wire_blob *name);

/* 0, -EACCES or an error of reading an ACL. want: MAY_ bits (creds.h). */
int nfs3_need(struct request *req, const struct srv_object *o, unsigned want);

void nfs3_fattr(const struct fsc_attr *attr, uint64_t fsid, struct nfs3_fattr *out);
/* Not present when the slot is empty. */
void nfs3_post_attr(const struct request *req, unsigned slot, struct nfs3_post_attr *out);
/* Nothing has changed: before is after. */
void nfs3_wcc_unchanged(const struct request *req, unsigned slot, struct nfs3_wcc *out);
void nfs3_make_fh(const struct request *req, const struct fsc_attr *attr, struct nfs3_fh *out);

#endif
