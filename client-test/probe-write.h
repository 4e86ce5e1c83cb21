/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe-write.h - what the cases for a writable export share: each procedure that
 * changes something as one call with its results in one structure. Every case works
 * in a directory of its own, which stays behind.
 */
#ifndef BYRE_CLIENT_TEST_PROBE_WRITE_H
#define BYRE_CLIENT_TEST_PROBE_WRITE_H

#include "probe.h"

/* What a change has said; after a failure the wcc is that of the failure. */
struct change {
	uint32_t status;
	wcc_data wcc, wcc2; /* of the directory or the object; of RENAME's target directory */
	bool has_fh, has_attr;
	struct probe_fh fh; /* of what was made */
	fattr3 attr;	    /* of it, or of LINK's file */
	uint32_t count, committed;
	char verf[NFS3_WRITEVERFSIZE];
};

/* A new directory "rw-NAME", mode 0777, owned by root. */
struct probe_fh work_dir(struct probe_conn *c, const char *name);

sattr3 sattr_mode(uint32_t mode);
struct change do_create(struct probe_conn *c, const struct probe_fh *dir, const char *name,
	createmode3 how, const sattr3 *attr, const char *verf);
struct change do_mkdir(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, const sattr3 *attr);
struct change do_symlink(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, const char *target);
struct change do_mknod(struct probe_conn *c, const struct probe_fh *dir, const char *name,
	ftype3 type, uint32_t major, uint32_t minor);
struct change do_remove(struct probe_conn *c, const struct probe_fh *dir, const char *name);
struct change do_rmdir(struct probe_conn *c, const struct probe_fh *dir, const char *name);
struct change do_rename(struct probe_conn *c, const struct probe_fh *from, const char *name,
	const struct probe_fh *to, const char *new_name);
struct change do_link(struct probe_conn *c, const struct probe_fh *file, const struct probe_fh *dir,
	const char *name);
struct change do_setattr(
	struct probe_conn *c, const struct probe_fh *fh, const sattr3 *attr, const nfstime3 *guard);
struct change do_size(struct probe_conn *c, const struct probe_fh *fh, uint64_t size);
struct change do_write(struct probe_conn *c, const struct probe_fh *fh, uint64_t file_off,
	const void *data, uint32_t bytes, stable_how how);
struct change do_commit(
	struct probe_conn *c, const struct probe_fh *fh, uint64_t file_off, uint32_t count);

/* A file of mode 0644 with this text, FILE_SYNC; it must work. */
struct probe_fh make_file(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, const char *text);
struct probe_fh make_subdir(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, uint32_t mode);

/* The change must have ended so. */
void want_change(const char *what, const struct change *ch, uint32_t status);
/* One of several; each list ends with UINT32_MAX. */
void want_one_of(const char *what, uint32_t status, const uint32_t *wanted);
/* The bytes of a whole file are these. */
void want_bytes(struct probe_conn *c, const struct probe_fh *fh, const void *data, uint64_t bytes);
/* Attributes before and after are what GETATTR says: before, and now. */
void want_wcc_exact(struct probe_conn *c, const char *what, const wcc_data *wcc,
	const struct probe_fh *fh, const fattr3 *before);
bool same_time(const nfstime3 *a, const nfstime3 *b);
bool later(const nfstime3 *a, const nfstime3 *b); /* a is later than b */
bool same_fh(const struct probe_fh *a, const struct probe_fh *b);

#endif
