/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ONC RPC version 2 (RFC 5531): the headers of calls and replies. */
#ifndef PROTO_RPC_H
#define PROTO_RPC_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire.h"

#define RPC_VERSION	   2u
#define RPC_AUTH_BYTES_MAX 400u
#define RPC_GIDS_MAX	   16u
#define RPC_MACHINE_MAX	   255u

enum rpc_msg_type {
	RPC_CALL,
	RPC_REPLY
};

enum rpc_flavor {
	RPC_AUTH_NONE = 0,
	RPC_AUTH_SYS = 1,
};

enum rpc_accept_stat {
	RPC_SUCCESS,
	RPC_PROG_UNAVAIL,
	RPC_PROG_MISMATCH,
	RPC_PROC_UNAVAIL,
	RPC_GARBAGE_ARGS,
	RPC_SYSTEM_ERR,
};

enum rpc_auth_stat {
	RPC_AUTH_OK,
	RPC_AUTH_BADCRED,
	RPC_AUTH_REJECTEDCRED,
	RPC_AUTH_BADVERF,
	RPC_AUTH_REJECTEDVERF,
	RPC_AUTH_TOOWEAK,
};

/* AUTH_NONE: the flavor alone is set. */
struct rpc_cred {
	uint32_t flavor;
	uint32_t uid, gid;
	uint32_t n_gids;
	uint32_t gids[RPC_GIDS_MAX];
};

struct rpc_call {
	uint32_t xid;
	uint32_t rpc_version;
	uint32_t program, version, procedure;
	enum rpc_auth_stat auth; /* what is wrong with the credentials */
	struct rpc_cred cred;	 /* set when auth is RPC_AUTH_OK */
};

enum rpc_decoded {
	RPC_IS_CALL,	 /* whole header decoded; in is at the arguments */
	RPC_BAD_VERSION, /* xid and rpc_version alone are set */
	RPC_IS_NOT_CALL, /* a reply, or of no known type */
	RPC_BAD_HEADER,	 /* cut short, or with an over-long credential */
};

enum rpc_decoded rpc_decode_call(struct wire_in *in, struct rpc_call *call);

#define RPC_REPLY_HEAD_BYTES 24u

/* An accepted reply up to the status; for RPC_SUCCESS the results follow. */
void rpc_put_accepted(struct wire_out *out, uint32_t xid, enum rpc_accept_stat stat);
void rpc_put_prog_mismatch(struct wire_out *out, uint32_t xid, uint32_t low, uint32_t high);
void rpc_put_rpc_mismatch(struct wire_out *out, uint32_t xid);
void rpc_put_auth_error(struct wire_out *out, uint32_t xid, enum rpc_auth_stat stat);

#endif
