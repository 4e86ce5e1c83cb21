/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-model-conn.h - NFSv3 calls of one thread, one at a time, over a socket of its
 * own; coded by libnfs's XDR routines. Each connection belongs to one thread.
 */
#ifndef BYRE_CLIENT_TEST_NFS_MODEL_CONN_H
#define BYRE_CLIENT_TEST_NFS_MODEL_CONN_H

#include "nfs-model.h"

#include <nfsc/libnfs-zdr.h>
/* The codec header must come first. */
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

struct conn {
	int fd;
	uint32_t xid;
	char *out, *in;
	size_t in_room;
	ZDR zdr; /* of the last reply: owns what was decoded, until the next call */
	bool has_zdr;
};

/* Ends the program when nobody listens. */
void conn_open(struct conn *c, const char *host, int port, uint32_t first_xid);
void conn_close(struct conn *c);
/* false: the connection is gone. What is malformed ends the program. */
bool conn_call(struct conn *c, uint32_t program, uint32_t procedure, zdrproc_t encode, void *args,
	zdrproc_t decode, void *result);

/* MNT; ends the program if that fails. */
void conn_mount(const char *host, int port, char *path, struct handle *root);

struct model_verf {
	bool known;
	char bytes[8];
};
/* The write verifier that all must give; NULL checks none. */
extern struct model_verf write_verf;
extern uint32_t max_write, max_read;
void conn_fsinfo(struct conn *c, const struct handle *root);

/*
 * Sends an operation and takes the answer apart. Returns false when the connection
 * is gone. *wrong: what is wrong with the answer by itself, or NULL. The tree is not
 * touched: handles come with the call. Bytes of READ go to buf.
 */
struct op_handles {
	struct handle node, dir, dir2;
};
bool conn_op(struct conn *c, const struct op *op, const struct op_handles *fh, void *buf,
	struct result *res, const char **wrong);

/* One page of a directory by READDIRPLUS or READDIR. */
typedef const char *(*conn_entry_fn)(void *arg, const char *name, uint64_t fileid,
	const struct handle *fh, const struct attrs *attr);
bool conn_list(struct conn *c, const struct handle *dir, bool plus, uint32_t page_bytes,
	conn_entry_fn fn, void *arg, uint32_t *status, const char **wrong);

void wire_attrs(const fattr3 *from, struct attrs *to);

#endif
