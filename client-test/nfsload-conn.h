/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfsload-conn.h - one NFSv3 connection of nfsload: a libnfs context, the handles
 * it has found, and the requests that are waited for one at a time. One thread.
 */
#ifndef BYRE_CLIENT_TEST_NFSLOAD_CONN_H
#define BYRE_CLIENT_TEST_NFSLOAD_CONN_H

#include "nfsload.h"

#include <nfsc/libnfs.h>
/* The base header must come first. */
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw.h>

struct fh {
	unsigned len;
	char data[NFS3_FHSIZE];
};

struct conn {
	int id;
	struct rpc_context *rpc;
	struct fh root, *dir; /* dir[] is indexed by directory number */
	struct fh big;
	struct tally *tally;
	int busy; /* slots with a request in flight */
	/* phase state */
	int phase_dir;		     /* small files: directory being worked on */
	int next_file, end_file;     /* small files: next in that directory */
	uint64_t next_off, deadline; /* big file */
	int full;		     /* fill: NOSPC was seen */
	char **names;		     /* empty: what READDIRPLUS found */
	int nnames, next_name;
	struct fh list_dir;
	uint64_t cookie;
	char cookieverf[NFS3_COOKIEVERFSIZE];
	int list_eof;
};

struct wait {
	int done, status, code;
	struct fh fh;
	int has_fh;
	struct conn *c; /* READDIRPLUS: where the names go */
};

nfs_fh3 wire_fh(struct fh *fh);
void keep_fh(struct fh *to, const nfs_fh3 *from);
void set_mode(sattr3 *a, int mode);

void serve(struct conn *c); /* one round of the event loop; waits */
/* Serves until w is done; "queued" is what libnfs's call returned. */
void wait_for(struct conn *c, struct wait *w, int queued, const char *what);
/* Callbacks for a struct wait, which take the status of any result, and the
 * handle of a CREATE or MKDIR. */
void on_status(struct rpc_context *rpc, int status, void *data, void *priv);
void on_create_wait(struct rpc_context *rpc, int status, void *data, void *priv);

/* These return an nfsstat3, or end the program if the RPC fails. */
int lookup(struct conn *c, struct fh *dir, char *name, struct fh *out);
int make_dir(struct conn *c, char *name, struct fh *out); /* one may exist */
void remove_dir(struct conn *c, char *name);
void commit(struct conn *c, struct fh *fh);
void mount_export(struct conn *c); /* sets rpc and root */
/* All names of a directory into c->names, by READDIRPLUS. */
void list_dir(struct conn *c, struct fh *dir);

#endif
