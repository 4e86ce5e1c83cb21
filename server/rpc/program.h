/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a protocol family gives the dispatcher: one table of operations.
 *
 * decode, run and encode hold only what is particular to an operation. The
 * dispatcher owns replies, errors, counters, freeing, and the step from the
 * try on the loop to a worker.
 */
#ifndef SERVER_RPC_PROGRAM_H
#define SERVER_RPC_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/mount3.h"
#include "proto/nfs3.h"
#include "proto/wire.h"

struct request;

union request_args {
	union nfs3_args nfs3;
	struct mount3_path_args mount_path;
};

union request_res {
	union nfs3_res nfs3;
	struct mount3_mnt_res mnt;
};

/* The reply ends with bytes that run() left in the request's body. */
#define OP_BODY 1u
/* The reply ends with the data of the request's fsc_read. */
#define OP_READ 2u
/* Must not run twice: a retransmission gets the first reply (replay.h). */
#define OP_REPLAY 4u
/* And carries data, of which only both ends tell it from other calls. */
#define OP_REPLAY_DATA 8u

struct srv_op {
	const char *name;

	/* False: GARBAGE_ARGS. NULL: there are no arguments. */
	bool (*decode)(struct wire_in *in, union request_args *args);

	/*
	 * Does the operation with req->ctx and fills req->res; NULL: there is
	 * nothing to do. Returns 0 or a negative error (errors.h), or
	 *   -EAGAIN       with FSC_NOWAIT: it is run again on a worker, from
	 *		   the start, with the request as it was after decode;
	 *   -EINPROGRESS  with FSC_NOWAIT: fsc_read() is under way on req->rd;
	 *		   run is called again when it has ended, with
	 *		   req->read_ended set.
	 * With req->durable set the reply waits until that is durable, that of
	 * a failure which has changed something, too.
	 * Once run has changed something it must not return -EAGAIN any more.
	 */
	int (*run)(struct request *req);

	/* status: what the program made of run's result. NULL: no results. */
	void (*encode)(struct wire_out *out, uint32_t status, const union request_res *res);

	/* Bytes of reply and pages that it may hold, for the bounds, beside its record. NULL: few. */
	uint32_t (*charge)(const union request_args *args);

	unsigned flags;

	/*
	 * On the loop, when what req->durable names is durable (status 0) or
	 * could not be made so. NULL: there is nothing to do.
	 */
	void (*synced)(struct request *req, int status);
};

struct srv_program {
	const char *name;
	uint32_t number, version;
	const struct srv_op *ops;
	uint32_t n_ops;
	unsigned first_counter;
	uint32_t (*status)(int err);
};

extern const struct srv_program nfs3_program;
extern const struct srv_program mount3_program;

/* NULL: not served. All versions but one are refused. */
const struct srv_program *program_find(uint32_t number);

/* All programs, ended by NULL: for the counters and for rpcbind. */
extern const struct srv_program *const programs[];

#endif
