/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What makes two calls the same to the duplicate request cache. For replay.c alone. */
#ifndef SERVER_RPC_REPLAY_KEY_H
#define SERVER_RPC_REPLAY_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/rpc/replay.h"

struct replay_secret {
	uint64_t word[2];
};

struct replay_key {
	uint64_t hash; /* of all below, keyed: nobody can aim at a value */
	uint64_t args_hash;
	uint64_t args_len;
	uint8_t ip[16];
	uint32_t xid, program, procedure;
	struct rpc_cred cred; /* groups that are not there are zero */
};

/* -EIO: no random numbers. */
int replay_secret_init(struct replay_secret *secret);

void replay_key_init(struct replay_key *k, const struct replay_secret *secret, const uint8_t ip[16],
	const struct replay_call *call);

bool replay_key_same(const struct replay_key *a, const struct replay_key *b);

/* Of an address, to spread clients over shards. */
uint64_t replay_ip_hash(const struct replay_secret *secret, const uint8_t ip[16]);

#endif
