/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/rpc.h"

#define MSG_ACCEPTED	  0u
#define MSG_DENIED	  1u
#define DENY_RPC_MISMATCH 0u
#define DENY_AUTH_ERROR	  1u

/* The body of AUTH_SYS: RFC 5531 appendix A. */
static bool decode_auth_sys(const struct wire_blob *body, struct rpc_cred *cred)
{
	struct wire_in in;
	struct wire_blob machine;

	wire_in_init(&in, body->data, body->len);
	wire_get_u32(&in); /* stamp */
	wire_get_opaque(&in, RPC_MACHINE_MAX, &machine);
	cred->uid = wire_get_u32(&in);
	cred->gid = wire_get_u32(&in);
	cred->n_gids = wire_get_u32(&in);
	if (in.bad || cred->n_gids > RPC_GIDS_MAX)
		return false;
	for (uint32_t i = 0; i < cred->n_gids; i++)
		cred->gids[i] = wire_get_u32(&in);
	return !in.bad;
}

static enum rpc_auth_stat decode_cred(
	uint32_t flavor, const struct wire_blob *body, struct rpc_cred *cred)
{
	cred->flavor = flavor;
	cred->n_gids = 0;
	switch (flavor) {
	case RPC_AUTH_NONE:
		return RPC_AUTH_OK;
	case RPC_AUTH_SYS:
		return decode_auth_sys(body, cred) ? RPC_AUTH_OK : RPC_AUTH_BADCRED;
	default:
		/* What the Linux server says: clients then try another one. */
		return RPC_AUTH_BADCRED;
	}
}

enum rpc_decoded rpc_decode_call(struct wire_in *in, struct rpc_call *call)
{
	struct wire_blob cred, verf;
	uint32_t type, flavor;

	call->xid = wire_get_u32(in);
	type = wire_get_u32(in);
	if (in->bad)
		return RPC_BAD_HEADER;
	if (type != RPC_CALL)
		return RPC_IS_NOT_CALL;
	call->rpc_version = wire_get_u32(in);
	call->program = wire_get_u32(in);
	call->version = wire_get_u32(in);
	call->procedure = wire_get_u32(in);
	/* What other versions have further on is unknown. */
	if (in->bad)
		return RPC_BAD_HEADER;
	if (call->rpc_version != RPC_VERSION)
		return RPC_BAD_VERSION;
	flavor = wire_get_u32(in);
	wire_get_opaque(in, RPC_AUTH_BYTES_MAX, &cred);
	wire_get_u32(in); /* flavor of the verifier: nothing depends on it */
	wire_get_opaque(in, RPC_AUTH_BYTES_MAX, &verf);
	if (in->bad)
		return RPC_BAD_HEADER;
	call->auth = decode_cred(flavor, &cred, &call->cred);
	return RPC_IS_CALL;
}

void rpc_put_accepted(struct wire_out *out, uint32_t xid, enum rpc_accept_stat stat)
{
	uint8_t *p = wire_reserve(out, RPC_REPLY_HEAD_BYTES);

	if (!p)
		return;
	wire_set_u32(p, xid);
	wire_set_u32(p + 4, RPC_REPLY);
	wire_set_u32(p + 8, MSG_ACCEPTED);
	wire_set_u64(p + 12, RPC_AUTH_NONE); /* verifier, of no bytes */
	wire_set_u32(p + 20, stat);
}

void rpc_put_prog_mismatch(struct wire_out *out, uint32_t xid, uint32_t low, uint32_t high)
{
	rpc_put_accepted(out, xid, RPC_PROG_MISMATCH);
	wire_put_u32(out, low);
	wire_put_u32(out, high);
}

static void put_denied(struct wire_out *out, uint32_t xid, uint32_t why)
{
	wire_put_u32(out, xid);
	wire_put_u32(out, RPC_REPLY);
	wire_put_u32(out, MSG_DENIED);
	wire_put_u32(out, why);
}

void rpc_put_rpc_mismatch(struct wire_out *out, uint32_t xid)
{
	put_denied(out, xid, DENY_RPC_MISMATCH);
	wire_put_u32(out, RPC_VERSION);
	wire_put_u32(out, RPC_VERSION);
}

void rpc_put_auth_error(struct wire_out *out, uint32_t xid, enum rpc_auth_stat stat)
{
	put_denied(out, xid, DENY_AUTH_ERROR);
	wire_put_u32(out, stat);
}
