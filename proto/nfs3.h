/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NFS version 3 (RFC 1813): numbers, arguments and results of its 22 procedures.
 *
 * Decoders fill an argument structure whose blobs point into the message.
 * A name or path may be longer than any file system has, up to what the message
 * holds: the answer to that is NFS3ERR_NAMETOOLONG, not an RPC error.
 *
 * Encoders write everything of a result but the data of READ, the target of
 * READLINK and the entries of a directory: these come last in their results, so
 * the caller appends them (and their padding) without a copy.
 */
#ifndef PROTO_NFS3_H
#define PROTO_NFS3_H

#include "proto/wire.h"

#define NFS3_PROGRAM   100003u
#define NFS3_VERSION   3u
#define NFS3_FH_MAX    64u
#define NFS3_VERF_SIZE 8u

enum nfs3_proc {
	NFS3_NULL,
	NFS3_GETATTR,
	NFS3_SETATTR,
	NFS3_LOOKUP,
	NFS3_ACCESS,
	NFS3_READLINK,
	NFS3_READ,
	NFS3_WRITE,
	NFS3_CREATE,
	NFS3_MKDIR,
	NFS3_SYMLINK,
	NFS3_MKNOD,
	NFS3_REMOVE,
	NFS3_RMDIR,
	NFS3_RENAME,
	NFS3_LINK,
	NFS3_READDIR,
	NFS3_READDIRPLUS,
	NFS3_FSSTAT,
	NFS3_FSINFO,
	NFS3_PATHCONF,
	NFS3_COMMIT,
	NFS3_PROCS
};

enum nfs3_stat {
	NFS3_OK = 0,
	NFS3ERR_PERM = 1,
	NFS3ERR_NOENT = 2,
	NFS3ERR_IO = 5,
	NFS3ERR_NXIO = 6,
	NFS3ERR_ACCES = 13,
	NFS3ERR_EXIST = 17,
	NFS3ERR_XDEV = 18,
	NFS3ERR_NODEV = 19,
	NFS3ERR_NOTDIR = 20,
	NFS3ERR_ISDIR = 21,
	NFS3ERR_INVAL = 22,
	NFS3ERR_FBIG = 27,
	NFS3ERR_NOSPC = 28,
	NFS3ERR_ROFS = 30,
	NFS3ERR_MLINK = 31,
	NFS3ERR_NAMETOOLONG = 63,
	NFS3ERR_NOTEMPTY = 66,
	NFS3ERR_DQUOT = 69,
	NFS3ERR_STALE = 70,
	NFS3ERR_REMOTE = 71,
	NFS3ERR_BADHANDLE = 10001,
	NFS3ERR_NOT_SYNC = 10002,
	NFS3ERR_BAD_COOKIE = 10003,
	NFS3ERR_NOTSUPP = 10004,
	NFS3ERR_TOOSMALL = 10005,
	NFS3ERR_SERVERFAULT = 10006,
	NFS3ERR_BADTYPE = 10007,
	NFS3ERR_JUKEBOX = 10008,
};

enum nfs3_ftype {
	NFS3_REG = 1,
	NFS3_DIR,
	NFS3_BLK,
	NFS3_CHR,
	NFS3_LNK,
	NFS3_SOCK,
	NFS3_FIFO,
};

#define NFS3_ACCESS_READ    0x01u
#define NFS3_ACCESS_LOOKUP  0x02u
#define NFS3_ACCESS_MODIFY  0x04u
#define NFS3_ACCESS_EXTEND  0x08u
#define NFS3_ACCESS_DELETE  0x10u
#define NFS3_ACCESS_EXECUTE 0x20u

#define NFS3_FSF_LINK	     0x01u
#define NFS3_FSF_SYMLINK     0x02u
#define NFS3_FSF_HOMOGENEOUS 0x08u
#define NFS3_FSF_CANSETTIME  0x10u

enum nfs3_stable {
	NFS3_UNSTABLE,
	NFS3_DATA_SYNC,
	NFS3_FILE_SYNC
};
enum nfs3_createmode {
	NFS3_UNCHECKED,
	NFS3_GUARDED,
	NFS3_EXCLUSIVE
};
enum nfs3_time_how {
	NFS3_DONT_CHANGE,
	NFS3_SERVER_TIME,
	NFS3_CLIENT_TIME
};

struct nfs3_time {
	uint32_t sec, nsec;
};

/* ------------------------------------------------------------ arguments */

struct nfs3_diropargs {
	struct wire_blob fh, name;
};

struct nfs3_sattr {
	bool set_mode, set_uid, set_gid, set_size;
	uint32_t mode, uid, gid;
	uint64_t size;
	enum nfs3_time_how atime_how, mtime_how;
	struct nfs3_time atime, mtime;
};

struct nfs3_fh_args {
	struct wire_blob fh;
};

struct nfs3_setattr_args {
	struct wire_blob fh;
	struct nfs3_sattr attr;
	bool guarded;
	struct nfs3_time guard;
};

struct nfs3_access_args {
	struct wire_blob fh;
	uint32_t access;
};

struct nfs3_read_args {
	struct wire_blob fh;
	uint64_t file_off;
	uint32_t count;
};

struct nfs3_write_args {
	struct wire_blob fh;
	uint64_t file_off;
	uint32_t count;
	enum nfs3_stable stable;
	struct wire_blob data;
};

struct nfs3_create_args {
	struct nfs3_diropargs where;
	enum nfs3_createmode mode;
	struct nfs3_sattr attr;	      /* not with NFS3_EXCLUSIVE */
	uint8_t verf[NFS3_VERF_SIZE]; /* with NFS3_EXCLUSIVE */
};

struct nfs3_mkdir_args {
	struct nfs3_diropargs where;
	struct nfs3_sattr attr;
};

struct nfs3_symlink_args {
	struct nfs3_diropargs where;
	struct nfs3_sattr attr;
	struct wire_blob target;
};

struct nfs3_mknod_args {
	struct nfs3_diropargs where;
	uint32_t type; /* any number: those that are no device have no more */
	struct nfs3_sattr attr;
	uint32_t major, minor;
};

struct nfs3_rename_args {
	struct nfs3_diropargs from, to;
};

struct nfs3_link_args {
	struct wire_blob fh;
	struct nfs3_diropargs to;
};

/* READDIR (dircount is its count) and READDIRPLUS. */
struct nfs3_readdir_args {
	struct wire_blob fh;
	uint64_t cookie;
	uint8_t verf[NFS3_VERF_SIZE];
	uint32_t dircount, maxcount;
};

struct nfs3_commit_args {
	struct wire_blob fh;
	uint64_t file_off;
	uint32_t count;
};

union nfs3_args {
	struct nfs3_fh_args fh;	     /* GETATTR READLINK FSSTAT FSINFO PATHCONF */
	struct nfs3_diropargs dirop; /* LOOKUP REMOVE RMDIR */
	struct nfs3_setattr_args setattr;
	struct nfs3_access_args access;
	struct nfs3_read_args read;
	struct nfs3_write_args write;
	struct nfs3_create_args create;
	struct nfs3_mkdir_args mkdir;
	struct nfs3_symlink_args symlink;
	struct nfs3_mknod_args mknod;
	struct nfs3_rename_args rename;
	struct nfs3_link_args link;
	struct nfs3_readdir_args readdir;
	struct nfs3_commit_args commit;
};

/* All return false for a malformed message. */
bool nfs3_decode_fh(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_dirop(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_setattr(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_access(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_read(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_write(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_create(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_mkdir(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_symlink(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_mknod(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_rename(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_link(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_readdir(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_readdirplus(struct wire_in *in, union nfs3_args *a);
bool nfs3_decode_commit(struct wire_in *in, union nfs3_args *a);

/* -------------------------------------------------------------- results */

struct nfs3_fattr {
	enum nfs3_ftype type;
	uint32_t mode; /* without the type */
	uint32_t nlink, uid, gid;
	uint64_t size, used;
	uint32_t rdev_major, rdev_minor;
	uint64_t fsid, fileid;
	struct nfs3_time atime, mtime, ctime;
};

#define NFS3_FATTR_BYTES     84u
#define NFS3_POST_ATTR_BYTES (4u + NFS3_FATTR_BYTES)

struct nfs3_post_attr {
	bool present;
	struct nfs3_fattr attr;
};

struct nfs3_fh {
	uint8_t data[NFS3_FH_MAX];
	uint32_t len;
};

/* What the weak cache consistency data of an operation says of before. */
struct nfs3_wcc {
	bool has_before;
	uint64_t size;
	struct nfs3_time mtime, ctime;
	struct nfs3_post_attr after;
};

struct nfs3_lookup_res {
	struct nfs3_fh fh;
	struct nfs3_post_attr obj, dir;
};

struct nfs3_access_res {
	struct nfs3_post_attr obj;
	uint32_t access;
};

struct nfs3_readlink_res {
	struct nfs3_post_attr obj;
	uint32_t len; /* of the target, which follows */
};

struct nfs3_read_res {
	struct nfs3_post_attr obj;
	uint32_t count; /* of the data that follow */
	bool eof;
};

struct nfs3_write_res {
	struct nfs3_wcc wcc;
	uint32_t count;
	enum nfs3_stable committed;
	uint8_t verf[NFS3_VERF_SIZE];
};

/* CREATE, MKDIR, SYMLINK, MKNOD */
struct nfs3_create_res {
	bool has_fh;
	struct nfs3_fh fh;
	struct nfs3_post_attr obj;
	struct nfs3_wcc dir;
};

struct nfs3_rename_res {
	struct nfs3_wcc from, to;
};

struct nfs3_link_res {
	struct nfs3_post_attr obj;
	struct nfs3_wcc dir;
};

struct nfs3_readdir_res {
	struct nfs3_post_attr dir;
	uint8_t verf[NFS3_VERF_SIZE];
};

struct nfs3_fsstat_res {
	struct nfs3_post_attr obj;
	uint64_t total_bytes, free_bytes, avail_bytes;
	uint64_t total_files, free_files, avail_files;
	uint32_t invar_sec;
};

struct nfs3_fsinfo_res {
	struct nfs3_post_attr obj;
	uint32_t rtmax, rtpref, rtmult;
	uint32_t wtmax, wtpref, wtmult;
	uint32_t dtpref;
	uint64_t max_file_bytes;
	struct nfs3_time time_delta;
	uint32_t properties;
};

struct nfs3_pathconf_res {
	struct nfs3_post_attr obj;
	uint32_t link_max, name_max;
	bool no_trunc, chown_restricted, case_insensitive, case_preserving;
};

struct nfs3_commit_res {
	struct nfs3_wcc wcc;
	uint8_t verf[NFS3_VERF_SIZE];
};

union nfs3_res {
	struct nfs3_fattr getattr;
	struct nfs3_wcc wcc; /* SETATTR REMOVE RMDIR */
	struct nfs3_lookup_res lookup;
	struct nfs3_access_res access;
	struct nfs3_readlink_res readlink;
	struct nfs3_read_res read;
	struct nfs3_write_res write;
	struct nfs3_create_res create;
	struct nfs3_rename_res rename;
	struct nfs3_link_res link;
	struct nfs3_readdir_res readdir;
	struct nfs3_fsstat_res fsstat;
	struct nfs3_fsinfo_res fsinfo;
	struct nfs3_pathconf_res pathconf;
	struct nfs3_commit_res commit;
};

/* No result is longer, but for what follows READ, READLINK and READDIR. */
#define NFS3_RES_BYTES_MAX 384u
/* Of WRITE. */
#define NFS3_WRITE_RES_BYTES (4u + 28u + NFS3_POST_ATTR_BYTES + 8u + NFS3_VERF_SIZE)

/* With another stat than NFS3_OK only what RFC 1813 has in the failure arm. */
void nfs3_encode_getattr(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_wcc(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_lookup(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_access(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_readlink(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_read(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_write(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_create(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_rename(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_link(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_readdir(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_fsstat(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_fsinfo(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_pathconf(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);
void nfs3_encode_commit(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);

/* ---------------------------------------------------- directory entries */

struct nfs3_entry {
	uint64_t fileid;
	const char *name;
	uint32_t name_len;
	uint64_t cookie;
	/* READDIRPLUS only; NULL: not given */
	const struct nfs3_fattr *attr;
	const struct nfs3_fh *fh;
};

/* The end of the list and the eof flag: room to leave behind the entries. */
#define NFS3_DIRLIST_END_BYTES 8u
/* What counts in a READDIR's count beside the entries: attributes, verifier, end. */
#define NFS3_READDIR_FIXED_BYTES (NFS3_POST_ATTR_BYTES + NFS3_VERF_SIZE + NFS3_DIRLIST_END_BYTES)

/* Encoded size of an entry of READDIR; what READDIRPLUS's dircount counts. */
static inline size_t nfs3_entry_bytes(uint32_t name_len)
{
	return 4 + 8 + 4 + wire_padded(name_len) + 8;
}

void nfs3_put_entry(struct wire_out *out, const struct nfs3_entry *e);
void nfs3_put_entry_plus(struct wire_out *out, const struct nfs3_entry *e);
void nfs3_put_dirlist_end(struct wire_out *out, bool eof);

/* -------------------------------- the client's side, for tests and fuzzing */

/* Reads what the encoders above write. */
void nfs3_get_fattr(struct wire_in *in, struct nfs3_fattr *attr);
void nfs3_get_post_attr(struct wire_in *in, struct nfs3_post_attr *attr);

#endif
