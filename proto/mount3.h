/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MOUNT version 3 (RFC 1813 appendix I): numbers, arguments and results. */
#ifndef PROTO_MOUNT3_H
#define PROTO_MOUNT3_H

#include "proto/wire.h"

#define MOUNT3_PROGRAM	100005u
#define MOUNT3_VERSION	3u
#define MOUNT3_PATH_MAX 1024u
#define MOUNT3_NAME_MAX 255u
#define MOUNT3_FH_MAX	64u

enum mount3_proc {
	MOUNT3_NULL,
	MOUNT3_MNT,
	MOUNT3_DUMP,
	MOUNT3_UMNT,
	MOUNT3_UMNTALL,
	MOUNT3_EXPORT,
	MOUNT3_PROCS
};

enum mount3_stat {
	MOUNT3_OK = 0,
	MOUNT3ERR_PERM = 1,
	MOUNT3ERR_NOENT = 2,
	MOUNT3ERR_IO = 5,
	MOUNT3ERR_ACCES = 13,
	MOUNT3ERR_NOTDIR = 20,
	MOUNT3ERR_INVAL = 22,
	MOUNT3ERR_NAMETOOLONG = 63,
	MOUNT3ERR_NOTSUPP = 10004,
	MOUNT3ERR_SERVERFAULT = 10006,
};

struct mount3_path_args {
	struct wire_blob path;
};

struct mount3_mnt_res {
	uint8_t fh[MOUNT3_FH_MAX];
	uint32_t fh_len;
};

bool mount3_decode_path(struct wire_in *in, struct mount3_path_args *args);

/* res is looked at when stat is MOUNT3_OK. */
void mount3_put_mnt(struct wire_out *out, enum mount3_stat stat, const struct mount3_mnt_res *res);

/* Entries of the lists that DUMP and EXPORT answer, and the end of each list. */
void mount3_put_dump_entry(struct wire_out *out, const char *host, const char *dir);
void mount3_put_export_begin(struct wire_out *out, const char *dir);
void mount3_put_export_group(struct wire_out *out, const char *group);
void mount3_put_list_end(struct wire_out *out);

#endif
