/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe.h - the frame of nfs3-probe: connections whose every byte a case can
 * choose, calls coded by libnfs's XDR routines (an implementation independent of
 * byred's), and the table of cases. One thread; everything blocks with a time-out.
 *
 * A case is a function that returns when all is well and calls FAIL() or one of
 * the want_ helpers otherwise, which leaves it by longjmp. Whatever it opened or
 * allocated through these functions is released by the runner after it.
 */
#ifndef BYRE_CLIENT_TEST_PROBE_H
#define BYRE_CLIENT_TEST_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nfsc/libnfs-zdr.h>
/* The codec header must come first. */
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#define PROBE_MAX_GIDS 64

struct probe_fh {
	uint32_t len;
	char data[NFS3_FHSIZE];
};

struct probe_cred {
	uint32_t flavor; /* AUTH_NONE, AUTH_UNIX, or what a case makes up */
	uint32_t uid, gid, gid_count;
	uint32_t gids[PROBE_MAX_GIDS];
};

/* What a reply's header says; body is what follows it. */
struct probe_reply {
	bool closed; /* the server closed the connection instead */
	uint32_t xid;
	uint32_t reply_stat; /* MSG_ACCEPTED or MSG_DENIED */
	uint32_t stat;	     /* accept_stat or reject_stat */
	uint32_t low, high;  /* of a mismatch */
	uint32_t auth_stat;  /* of an AUTH_ERROR */
	char *body;
	uint32_t body_bytes;
};

struct probe_conn {
	int fd;
	uint32_t next_xid;
	uint32_t last_body_bytes; /* of the last reply of conn_call */
	struct probe_cred cred;
	struct probe_conn *next;
};

/* Options and what the set-up found; immutable while cases run. */
struct probe {
	const char *host, *export, *squash_export, *denied_export;
	int port, mount_port;
	bool read_write; /* the export is writable and may be changed */
	bool verbose;
	const char *restart_command; /* kills the server and starts it again, or NULL */
	struct probe_fh root;
	uint32_t rtmax, wtmax, dtpref;
	bool has_subvolumes;
};
extern struct probe probe;

struct probe_case {
	const char *name;
	void (*run)(void);
};

/* Each file of cases has one table, which ends with a NULL name. */
extern const struct probe_case probe_rpc_cases[];
extern const struct probe_case probe_mount_cases[];
extern const struct probe_case probe_proc_cases[];
extern const struct probe_case probe_rofs_cases[];
extern const struct probe_case probe_dir_cases[];
extern const struct probe_case probe_perm_cases[];
extern const struct probe_case probe_fh_cases[];
/* Only with --rw. */
extern const struct probe_case probe_write_data_cases[];
extern const struct probe_case probe_write_name_cases[];
extern const struct probe_case probe_write_rpc_cases[];

/* -- outcome of the running case ----------------------------------------- */

__attribute__((format(printf, 1, 2), noreturn)) void probe_fail(const char *fmt, ...);
__attribute__((format(printf, 1, 2), noreturn)) void probe_skip(const char *fmt, ...);
/* A prefix for the message of a later failure: what is being tried. */
__attribute__((format(printf, 1, 2))) void probe_trying(const char *fmt, ...);

#define FAIL(...) probe_fail(__VA_ARGS__)
#define WANT(condition, ...)                     \
	do {                                     \
		if (!(condition))                \
			probe_fail(__VA_ARGS__); \
	} while (0)

void *probe_alloc(size_t bytes); /* zeroed; freed when the case ends */
/* Frees all that now, results of calls too: between rounds of a long case. */
void probe_release(void);

/* -- connections and records --------------------------------------------- */

struct probe_conn *conn_open(void);	  /* to the NFS port */
struct probe_conn *conn_open_mount(void); /* to the MOUNT port */
void conn_close(struct probe_conn *c);
void conn_close_all(void);
void conn_as(struct probe_conn *c, uint32_t uid, uint32_t gid);

/* false: the server has closed the connection. */
bool conn_send(struct probe_conn *c, const void *data, size_t bytes);
/* One record as fragments of at most fragment_bytes; where every_empty, an empty
 * one before each. late_end: "last" is said by an empty fragment of its own. */
bool conn_send_record(struct probe_conn *c, const char *data, uint32_t bytes,
	uint32_t fragment_bytes, bool every_empty, bool late_end);
/* Waits for one record; false: closed. A record that doesn't come in 10 s fails
 * the case. The bytes live until the case ends. */
bool conn_receive(struct probe_conn *c, char **data, uint32_t *bytes);
/* Waits until the server closes the connection. */
void want_closed(struct probe_conn *c);

/* -- messages ------------------------------------------------------------- */

struct probe_out { /* a message being built; bytes that don't fit are a bug */
	char *data;
	uint32_t bytes, room;
};

void out_init(struct probe_out *o, uint32_t room);
void out_u32(struct probe_out *o, uint32_t v);
void out_u64(struct probe_out *o, uint64_t v);
void out_raw(struct probe_out *o, const void *data, uint32_t bytes);
void out_opaque(struct probe_out *o, const void *data, uint32_t bytes);
void out_fh(struct probe_out *o, const struct probe_fh *fh);
/* Call header up to and including the verifier; returns the xid it took. */
uint32_t out_call(struct probe_out *o, struct probe_conn *c, uint32_t program, uint32_t version,
	uint32_t procedure);

/* Sends o as one record and parses the reply to it. */
void conn_exchange(struct probe_conn *c, const struct probe_out *o, struct probe_reply *reply);
void reply_parse(const char *data, uint32_t bytes, struct probe_reply *reply);
/* o must be accepted with this accept_stat (SUCCESS and the like). */
void want_accept(struct probe_conn *c, const struct probe_out *o, uint32_t accept_stat,
	struct probe_reply *reply);
/* Decodes a whole body and fails the case when bytes are missing or left over. */
void reply_decode(const struct probe_reply *reply, zdrproc_t decode, void *result);
/* A call that must be accepted and answered well formed. */
void conn_call(struct probe_conn *c, uint32_t program, uint32_t procedure, zdrproc_t encode,
	void *args, zdrproc_t decode, void *result);

#define NFS_CALL(c, name, args, result)                                            \
	conn_call(c, NFS_PROGRAM, NFS3_##name, (zdrproc_t)zdr_##name##3args, args, \
		(zdrproc_t)zdr_##name##3res, result)

/* -- NFS helpers ----------------------------------------------------------- */

const char *stat_name(uint32_t nfsstat);
nfs_fh3 fh_wire(const struct probe_fh *fh);
void fh_keep(struct probe_fh *to, const nfs_fh3 *from);
void want_stat(const char *what, uint32_t got, uint32_t want);
/* Attributes that are there and make sense. */
void want_attr(const char *what, const post_op_attr *a);
void want_wcc(const char *what, const wcc_data *w);

uint32_t try_lookup(
	struct probe_conn *c, const struct probe_fh *dir, const char *name, struct probe_fh *out);
/* A path below the root of the export, each step of which must exist. */
struct probe_fh path_fh(struct probe_conn *c, const char *path);
uint32_t try_getattr(struct probe_conn *c, const struct probe_fh *fh, fattr3 *attr);
fattr3 fh_attr(struct probe_conn *c, const struct probe_fh *fh);
uint32_t fh_access(struct probe_conn *c, const struct probe_fh *fh, uint32_t bits);
/* The result is well formed whatever its status. */
void fh_read(struct probe_conn *c, const struct probe_fh *fh, uint64_t file_off, uint32_t count,
	READ3res *result);
mountstat3 mount_path(struct probe_conn *c, const char *path, struct probe_fh *root);
char *export_path(const char *below); /* EXPORT/below */

#endif
