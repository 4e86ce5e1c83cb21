/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A request from its arrival until its reply has been sent.
 *
 *              decode, run(NOWAIT)
 *   received ------------------------> done ---> sending ---> freed
 *      | | |                            ^ ^
 *      | | | must be durable    done()  | |
 *      | | +---------> parked ----------+ | (fsc_sync_*())
 *      | | -EINPROGRESS  ^     done()     |
 *      | +-----> parked -|----------------+ (fsc_read())
 *      |            |    | must be        |
 *      |            |    | durable        |
 *      | -EAGAIN    v    |                |
 *      +---------> queued ---> running ---+
 *                          (worker)    posted back
 *
 * A retransmission of a call that is still running goes from received to
 * waiting, and is done when the first run is.
 *
 * The loop thread owns it but for "running", when the worker does. It counts
 * in its peer and its loop until freed. Requests come from the loop's free
 * list; arguments point into the record that the loop received and, when the
 * request outlives that, into a copy.
 */
#ifndef SERVER_RPC_REQUEST_H
#define SERVER_RPC_REQUEST_H

#include "fscore/fscore.h"
#include "proto/rpc.h"
#include "server/counters.h"
#include "server/creds.h"
#include "server/exports.h"
#include "server/jobs.h"
#include "server/outq.h"
#include "server/rpc/program.h"
#include "server/rpc/replay.h"
#include "server/server.h"

/* A copy of a record up to this length needs no allocation. */
#define REQUEST_RECORD_BYTES 512u
#define REQUEST_BODY_BYTES   SRV_DIRLIST_MAX

enum request_state {
	REQUEST_FREE,
	REQUEST_RECEIVED,
	REQUEST_PARKED,	 /* on an fsc_read or an fsc_sync: no thread is held */
	REQUEST_QUEUED,	 /* or running */
	REQUEST_WAITING, /* for the first run of the same call */
	REQUEST_DONE,
	REQUEST_SENDING,
};

/* What must be durable before a request is answered. */
enum request_durable {
	DURABLE_NOTHING,
	DURABLE_NAMES, /* all names and attributes so far */
	DURABLE_INODE, /* the content of object[0] */
};

/* An inode that a handle named, or that was looked up, and what goes with it. */
struct srv_object {
	struct fsc_inode *inode; /* a reference; NULL: none */
	struct srv_subvol subvol;
	const struct export_rules *rules;
	struct fsc_attr attr;
	unsigned steps; /* how often the request has moved attr.change since */
};

struct rpc_loop;
struct rpc_peer;

struct request {
	struct request *next; /* in the free list */
	enum request_state state;

	/* set when it is received */
	struct rpc_peer *peer;
	struct rpc_loop *loop;
	const struct srv_program *program;
	const struct srv_op *op;
	struct op_counters *counters;
	uint64_t start_ns;
	uint32_t charge;
	struct rpc_call call;

	/* for run */
	struct srv_thread *thread; /* the one that runs it */
	struct fsc_ctx ctx;
	struct cred cred; /* squashed for the export of object[0] */
	struct srv_object object[2];
	bool read_ended;
	bool args_lost; /* no memory for the copy: it can't run again */
	struct fsc_read rd;
	enum request_durable durable; /* set by run */
	struct fsc_sync sync;
	uint8_t *body;
	size_t body_len, body_capacity;
	uint64_t tenant; /* the subvolume, once known */
	union request_args args;
	union request_res res;

	/* set while its reply is to be kept, or comes from another request */
	struct replay_entry *replay;
	struct replay_waiter waiter;

	int result; /* of the last run, until it is answered */

	/* for the way to a worker and back */
	struct job job;
	struct fsc_msg msg;
	struct rpc_record {
		uint8_t *data; /* NULL: arguments are in the loop's buffer */
		size_t len;
		uint8_t small[REQUEST_RECORD_BYTES];
	} record;
};

/*
 * Memory for the body of a reply, of at least size bytes; NULL: none. Run on
 * the loop it comes from the loop's pool.
 */
uint8_t *request_body(struct request *req, size_t size);

/* Gives back what a run has taken, so that it can run again. */
void request_reset(struct request *req);

/* ----------------------------------------------------- for rpc/dispatch.c */

/* NULL: out of memory. Counts in peer and loop. */
struct request *request_get(struct rpc_peer *peer);

/* Gives the copy of the record back: no run will need it any more. */
void request_drop_record(struct request *req);

/* Only on the loop thread. */
void request_put(struct request *req);

#endif
