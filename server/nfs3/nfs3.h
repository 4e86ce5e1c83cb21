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

int nfs3_run_setattr(struct request *req);
int nfs3_run_write(struct request *req);
int nfs3_run_commit(struct request *req);
int nfs3_run_create(struct request *req);
int nfs3_run_mkdir(struct request *req);
int nfs3_run_symlink(struct request *req);
int nfs3_run_mknod(struct request *req);
int nfs3_run_remove(struct request *req);
int nfs3_run_rmdir(struct request *req);
int nfs3_run_rename(struct request *req);
int nfs3_run_link(struct request *req);
/* rpc/program.h: synced, of COMMIT */
void nfs3_synced_commit(struct request *req, int status);

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

struct nfs3_time nfs3_time_of(const struct fsc_time *t);
void nfs3_fattr(const struct fsc_attr *attr, uint64_t fsid, struct nfs3_fattr *out);
/* Not present when the slot is empty. */
void nfs3_post_attr(const struct request *req, unsigned slot, struct nfs3_post_attr *out);
void nfs3_make_fh(const struct request *req, const struct fsc_attr *attr, struct nfs3_fh *out);

/* -------------------------------------------------------------- change.c */

/*
 * A directory and a name in it that is to be changed, into object[slot]. dots:
 * what "." and ".." are to the operation, -EINVAL or -EEXIST. -EROFS comes before
 * -EEXIST and before permissions, as on a local read-only mount.
 */
int nfs3_changing_name(
	struct request *req, unsigned slot, const struct nfs3_diropargs *d, int dots);

/* The permission to make and remove names in object[slot]. */
int nfs3_need_names(struct request *req, unsigned slot);

/* True for the owner, and for root. */
bool nfs3_owns(const struct request *req, const struct srv_object *o);

/*
 * To write or truncate. The owner may whatever the mode says: the client has
 * checked it when the file was opened, and a later chmod does not close it.
 */
int nfs3_need_write(struct request *req, const struct srv_object *o);

/*
 * The attributes just before a change: to be called as late as possible. After the
 * change nfs3_wcc() says what was before and what is now. fscore does not give the
 * two at once, but a counter that moves with each change; the object's steps say how
 * often this operation has moved it. When others have changed the object in between,
 * what was before is left out: the client then trusts nothing that it has cached,
 * which is what it must do.
 */
void nfs3_before(struct request *req, unsigned slot);
void nfs3_wcc(struct request *req, unsigned slot, struct nfs3_wcc *out);

/* Has the reply wait until names and attributes are durable, but on an async export. */
void nfs3_durable_names(struct request *req, unsigned slot);

/* ------------------------------------------------------------- setattr.c */

/*
 * What a sattr3 means for an object, by the rules of chmod(2), chown(2),
 * truncate(2) and utimensat(2). -EPERM, -EACCES, -EINVAL, -EISDIR, -EFBIG.
 */
int nfs3_setattr_of(struct request *req, const struct srv_object *o, const struct nfs3_sattr *s,
	struct fsc_setattr *out);

/* The times of a sattr3, without permissions. -EINVAL. */
int nfs3_times_of(const struct nfs3_sattr *s, struct fsc_setattr *out);

/*
 * An operation that needs two changes runs on a worker: the first could not be
 * taken back when the second had to wait. -EAGAIN with FSC_NOWAIT, otherwise 0.
 */
int nfs3_need_worker(struct request *req);

/*
 * The error of an operation whose first change is there and whose second failed: never
 * one after which the client tries again as if nothing had been done.
 */
int nfs3_half_done(int err);

#endif
