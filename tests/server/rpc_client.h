/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A peer of the dispatcher without a socket: builds calls, hands them to rpc_dispatch(), and takes
 * replies out of the peer's queue. On fake_fscore.h.
 */
#ifndef TESTS_SERVER_RPC_CLIENT_H
#define TESTS_SERVER_RPC_CLIENT_H

#include <semaphore.h>

#include "server/rpc/dispatch.h"
#include "tests/server/fake_fscore.h"

#define WORKERS_HELD_MAX 2u

struct world {
	struct server srv;
	struct exports *exports;
	struct fsc_thread *fsc;
	struct loop_counters counters;
	struct rpc_loop loop;
	struct rpc_peer peer;
	unsigned readies; /* calls of peer.ready */

	struct rpc_cred cred; /* of the next calls */
	uint32_t xid;
	bool own_records; /* records come in memory that may be taken over */

	struct job holding[WORKERS_HELD_MAX]; /* of hold_worker() */
	unsigned n_held;
	sem_t held, let_go;
};

/* The tree: see world_begin(). workers 0: none, jobs_add() must not be reached. */
struct world *world_begin(const char *const *export_specs, unsigned workers);
/* Checks that everything was given back. */
void world_end(struct world *w);

/* Closes the connection, which has nothing in flight, and opens another one, from another port. */
void world_reconnect(struct world *w, bool all_received);

/* Keeps another worker busy, until let_workers_go(). */
void hold_worker(struct world *w);
void let_workers_go(struct world *w);

/* Handles what other threads send until a peer has no request in flight. */
void wait_for_requests(struct world *w, const struct rpc_peer *peer);

struct call {
	uint8_t data[8192];
	struct wire_out out;
};

/* A call up to its arguments, which the test puts in call->out. */
void call_begin(struct world *w, struct call *c, uint32_t program, uint32_t proc);
void call_nfs3(struct world *w, struct call *c, uint32_t proc);
/* Hands it over. Returns what rpc_dispatch() does. */
int call_send(struct world *w, const struct call *c);
int call_send_by(struct world *w, struct rpc_peer *peer, const struct call *c);

struct reply {
	uint8_t *data; /* freed by reply_free() */
	size_t len;
	uint32_t xid, stat; /* accept_stat */
	bool denied;
	struct wire_in in; /* at the results */
};

/* False: there is none. Checks the record mark. */
bool reply_take(struct world *w, struct reply *r);
/* Handles what other threads send until there is one. */
void reply_wait(struct world *w, struct reply *r);
void reply_free(struct reply *r);

/* Sends and takes the reply, which must be there at once and be a success. */
void call_reply(struct world *w, const struct call *c, struct reply *r);

/* The handle of an inode of the fake tree, as an argument. */
void put_fh(struct wire_out *out, struct fsc_inode *inode);

#endif
