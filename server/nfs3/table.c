/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The operations of NFSv3. */
#include "base/util.h"
#include "server/errors.h"
#include "server/nfs3/nfs3.h"

/* The codecs of proto/ know their own unions; the dispatcher those of all. */
#define DECODE(name)                                                         \
	static bool decode_##name(struct wire_in *in, union request_args *a) \
	{                                                                    \
		return nfs3_decode_##name(in, &a->nfs3);                     \
	}
#define ENCODE(name)                                                               \
	static void encode_##name(                                                 \
		struct wire_out *out, uint32_t status, const union request_res *r) \
	{                                                                          \
		nfs3_encode_##name(out, (enum nfs3_stat)status, &r->nfs3);         \
	}

DECODE(fh)
DECODE(dirop)
DECODE(setattr)
DECODE(access)
DECODE(read)
DECODE(write)
DECODE(create)
DECODE(mkdir)
DECODE(symlink)
DECODE(mknod)
DECODE(rename)
DECODE(link)
DECODE(readdir)
DECODE(readdirplus)
DECODE(commit)

ENCODE(getattr)
ENCODE(wcc)
ENCODE(lookup)
ENCODE(access)
ENCODE(readlink)
ENCODE(read)
ENCODE(write)
ENCODE(create)
ENCODE(rename)
ENCODE(link)
ENCODE(readdir)
ENCODE(fsstat)
ENCODE(fsinfo)
ENCODE(pathconf)
ENCODE(commit)

static uint32_t charge_read(const union request_args *a)
{
	return MIN(a->nfs3.read.count, SRV_IO_MAX);
}

static uint32_t charge_list(const union request_args *a)
{
	(void)a;
	return REQUEST_BODY_BYTES;
}

static const struct srv_op ops[NFS3_PROCS] = {
	[NFS3_NULL] = {.name = "null"},
	[NFS3_GETATTR] = {"getattr", decode_fh, nfs3_run_getattr, encode_getattr, NULL, 0, NULL},
	[NFS3_SETATTR] = {"setattr", decode_setattr, nfs3_run_setattr, encode_wcc, NULL, OP_REPLAY,
		NULL},
	[NFS3_LOOKUP] = {"lookup", decode_dirop, nfs3_run_lookup, encode_lookup, NULL, 0, NULL},
	[NFS3_ACCESS] = {"access", decode_access, nfs3_run_access, encode_access, NULL, 0, NULL},
	[NFS3_READLINK] = {"readlink", decode_fh, nfs3_run_readlink, encode_readlink, charge_list,
		OP_BODY, NULL},
	[NFS3_READ] = {"read", decode_read, nfs3_run_read, encode_read, charge_read, OP_READ, NULL},
	[NFS3_WRITE] = {"write", decode_write, nfs3_run_write, encode_write, NULL,
		OP_REPLAY | OP_REPLAY_DATA, NULL},
	[NFS3_CREATE] = {"create", decode_create, nfs3_run_create, encode_create, NULL, OP_REPLAY,
		NULL},
	[NFS3_MKDIR] = {"mkdir", decode_mkdir, nfs3_run_mkdir, encode_create, NULL, OP_REPLAY,
		NULL},
	[NFS3_SYMLINK] = {"symlink", decode_symlink, nfs3_run_symlink, encode_create, NULL,
		OP_REPLAY, NULL},
	[NFS3_MKNOD] = {"mknod", decode_mknod, nfs3_run_mknod, encode_create, NULL, OP_REPLAY,
		NULL},
	[NFS3_REMOVE] = {"remove", decode_dirop, nfs3_run_remove, encode_wcc, NULL, OP_REPLAY,
		NULL},
	[NFS3_RMDIR] = {"rmdir", decode_dirop, nfs3_run_rmdir, encode_wcc, NULL, OP_REPLAY, NULL},
	[NFS3_RENAME] = {"rename", decode_rename, nfs3_run_rename, encode_rename, NULL, OP_REPLAY,
		NULL},
	[NFS3_LINK] = {"link", decode_link, nfs3_run_link, encode_link, NULL, OP_REPLAY, NULL},
	[NFS3_READDIR] = {"readdir", decode_readdir, nfs3_run_readdir, encode_readdir, charge_list,
		OP_BODY, NULL},
	[NFS3_READDIRPLUS] = {"readdirplus", decode_readdirplus, nfs3_run_readdirplus,
		encode_readdir, charge_list, OP_BODY, NULL},
	[NFS3_FSSTAT] = {"fsstat", decode_fh, nfs3_run_fsstat, encode_fsstat, NULL, 0, NULL},
	[NFS3_FSINFO] = {"fsinfo", decode_fh, nfs3_run_fsinfo, encode_fsinfo, NULL, 0, NULL},
	[NFS3_PATHCONF] = {"pathconf", decode_fh, nfs3_run_pathconf, encode_pathconf, NULL, 0,
		NULL},
	[NFS3_COMMIT] = {"commit", decode_commit, nfs3_run_commit, encode_commit, NULL, 0,
		nfs3_synced_commit},
};

_Static_assert(NFS3_PROCS == COUNTER_MOUNT3_FIRST, "counters do not overlap");

const struct srv_program nfs3_program = {
	.name = "nfs3",
	.number = NFS3_PROGRAM,
	.version = NFS3_VERSION,
	.ops = ops,
	.n_ops = NFS3_PROCS,
	.first_counter = 0,
	.status = errors_nfs3,
};
