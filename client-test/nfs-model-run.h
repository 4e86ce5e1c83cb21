/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-model-run.h - a run of nfs-model, for its own files: what was asked for, the
 * clients, and the parts of a run in the order in which they come: set-up, random
 * operations, the full check, the manifest.
 *
 * Set-up, check and manifest are for the main thread while no client runs.
 */
#ifndef BYRE_CLIENT_TEST_NFS_MODEL_RUN_H
#define BYRE_CLIENT_TEST_NFS_MODEL_RUN_H

#include "nfs-model-conn.h"

#include <pthread.h>

#define DEAD_HANDLES 16u

/* Immutable once the command line has been read. */
struct model_options {
	const char *host, *dir, *manifest, *start_manifest, *log;
	char *export;
	int port, mount_port;
	uint64_t seed, ops, max_bytes, hash_limit;
	unsigned clients, max_files, sync_percent;
	bool full_ok, adopt, no_large, lenient;
};
extern struct model_options opt;

struct client {
	unsigned id;
	pthread_t thread;
	struct conn conn;
	uint64_t random;
	struct op op;
	bool busy; /* op is in flight */
	char *buf, *want;
	struct handle dead[DEAD_HANDLES];
	unsigned n_dead;
	bool gone; /* its connection is */
};

struct run {
	/* immutable once the clients run */
	/* Another run with the same seed must not pass for this one's retransmission. */
	uint64_t nonce;
	int log_fd; /* -1: none */

	/* Guards everything in struct tree, and what follows. */
	pthread_mutex_t lock;
	struct client clients[AREAS];
	uint64_t next_seq, ops_left, done_ops, full_answers, error_counts;
	bool failed, stop;
};
extern struct run run;

/* What keeps the program from going on: ends it. */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *fmt, ...);
/* Prints what is not as the model says, and ends the run. The lock is held, or no client runs. */
void fail_op(const struct op *op, const char *why);
__attribute__((format(printf, 1, 2))) void fail(const char *fmt, ...);

/* -- nfs-model-choose.c: chance, as the client's seed has it. The lock is held. -- */

uint64_t rnd(struct client *c);
/* 0 when n is. */
uint64_t below(struct client *c, uint64_t n);
bool chance(struct client *c, unsigned percent);
/* False: there was nothing to do it with. */
bool choose_op(struct client *c, struct op *op);
bool touches_foreign(const struct op *op);
/* No operation in flight touches the same. */
bool fits_others(const struct op *op);

/* -- nfs-model-client.c: operations, and their answers against the model -- */

/* The lock is held on entry and on return, not between. False: the connection is gone. */
bool run_op(struct client *c, struct op *op);
/* A listing. The lock is not held. False: the connection is gone. */
bool list_dir(struct client *c, uint32_t dir, const char **wrong, uint32_t *status);
/* The bytes of a READ in c->buf against those in c->want. */
const char *check_read(struct client *c, const struct op *op, const struct result *res);
const char *check_handle(const struct op *op, const struct result *res);
/* A thread: random operations until there were enough. arg: its client. */
void *client_main(void *arg);

/* -- nfs-model-setup.c -- */

/* What the server says of a node's attributes becomes what is known. */
void learn_attr(struct client *c, uint32_t id);
/* The top: the export itself, or a directory in it, made if it is not there. */
void find_top(struct client *c, const struct handle *root);
/* A directory for each client and the shared one. */
void make_subtrees(struct client *c);
/* Takes what is in a directory into the tree. */
void adopt_dir(struct client *c, uint32_t dir, unsigned area);

/* -- nfs-model-check.c -- */

/* All below a directory, as the server has it now. */
void check_dir(struct client *c, uint32_t dir, const char *path);
void write_manifest(const char *file);

#endif
