/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of NFSv3's changing procedures as one function each, for tests: they send, take the reply,
 * which must be there at once, check that it is whole, and return its status.
 */
#ifndef TESTS_SERVER_NFS3_CLIENT_H
#define TESTS_SERVER_NFS3_CLIENT_H

#include "tests/server/rpc_client.h"

/* What the last reply held. */
struct nfs3_seen {
	uint32_t stat;
	struct nfs3_wcc wcc[2];
	bool has_fh;
	struct nfs3_post_attr obj;
	uint32_t count, committed;
	uint64_t verf;
};

void put_name(struct wire_out *out, const char *name);
void put_dirop(struct wire_out *out, struct fsc_inode *dir, const char *name);
void put_sattr(struct wire_out *out, const struct nfs3_sattr *s);

/* The arguments alone. verf: with NFS3_EXCLUSIVE. */
void put_create(struct wire_out *out, struct fsc_inode *dir, const char *name,
	enum nfs3_createmode mode, const struct nfs3_sattr *s, uint64_t verf);
void put_write(struct wire_out *out, struct fsc_inode *file, uint64_t off, enum nfs3_stable stable,
	const void *data, uint32_t len);

/* Reads the results of a changing procedure. */
void see_reply(struct reply *r, uint32_t proc, struct nfs3_seen *seen);

/* guard: NULL for none. */
uint32_t do_setattr(struct world *w, struct fsc_inode *i, const struct nfs3_sattr *s,
	const struct nfs3_time *guard, struct nfs3_seen *seen);
uint32_t do_create(struct world *w, struct fsc_inode *dir, const char *name,
	enum nfs3_createmode mode, const struct nfs3_sattr *s, uint64_t verf,
	struct nfs3_seen *seen);
uint32_t do_mkdir(struct world *w, struct fsc_inode *dir, const char *name,
	const struct nfs3_sattr *s, struct nfs3_seen *seen);
uint32_t do_symlink(struct world *w, struct fsc_inode *dir, const char *name, const void *target,
	uint32_t len, struct nfs3_seen *seen);
uint32_t do_mknod(struct world *w, struct fsc_inode *dir, const char *name, uint32_t type,
	uint32_t major, uint32_t minor, struct nfs3_seen *seen);
/* REMOVE or RMDIR */
uint32_t do_remove(struct world *w, uint32_t proc, struct fsc_inode *dir, const char *name,
	struct nfs3_seen *seen);
uint32_t do_rename(struct world *w, struct fsc_inode *from_dir, const char *from,
	struct fsc_inode *to_dir, const char *to, struct nfs3_seen *seen);
uint32_t do_link(struct world *w, struct fsc_inode *i, struct fsc_inode *dir, const char *name,
	struct nfs3_seen *seen);
uint32_t do_write(struct world *w, struct fsc_inode *file, uint64_t off, enum nfs3_stable stable,
	const void *data, uint32_t len, struct nfs3_seen *seen);
uint32_t do_commit(struct world *w, struct fsc_inode *file, struct nfs3_seen *seen);

#endif
