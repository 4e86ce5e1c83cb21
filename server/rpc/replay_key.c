/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/rpc/replay_key.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

/*
 * Of arguments that carry data so much is hashed: handle, place and length, how the data
 * begin and how they end. All of a large WRITE would cost more than the write does.
 */
#define DATA_HEAD_BYTES 192u
#define DATA_TAIL_BYTES 64u

/* ------------------------------------------------- SipHash-2-4, of Aumasson and Bernstein */

struct sip {
	uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static void sip_word(struct sip *s, uint64_t m)
{
	s->v3 ^= m;
	sip_round(s);
	sip_round(s);
	s->v0 ^= m;
}

static uint64_t sip_hash(const struct replay_secret *secret, const void *data, size_t len)
{
	struct sip s = {secret->word[0] ^ 0x736f6d6570736575u,
		secret->word[1] ^ 0x646f72616e646f6du, secret->word[0] ^ 0x6c7967656e657261u,
		secret->word[1] ^ 0x7465646279746573u};
	const uint8_t *p = data;
	uint64_t word, last = (uint64_t)len << 56;
	size_t left = len;

	for (; left >= 8; left -= 8, p += 8) {
		memcpy(&word, p, 8);
		sip_word(&s, le64toh(word));
	}
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)p[i] << (8 * i);
	sip_word(&s, last);
	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* ------------------------------------------------------------------- keys */

int replay_secret_init(struct replay_secret *secret)
{
	ssize_t n = getrandom(secret, sizeof(*secret), 0);

	return n == (ssize_t)sizeof(*secret) ? 0 : -EIO;
}

uint64_t replay_ip_hash(const struct replay_secret *secret, const uint8_t ip[16])
{
	return sip_hash(secret, ip, 16);
}

static uint64_t args_hash(const struct replay_secret *secret, const struct replay_call *call)
{
	uint8_t ends[DATA_HEAD_BYTES + DATA_TAIL_BYTES];

	if (call->kind == REPLAY_NAMES || call->args_len <= sizeof(ends))
		return sip_hash(secret, call->args, call->args_len);
	memcpy(ends, call->args, DATA_HEAD_BYTES);
	memcpy(ends + DATA_HEAD_BYTES, call->args + call->args_len - DATA_TAIL_BYTES,
		DATA_TAIL_BYTES);
	return sip_hash(secret, ends, sizeof(ends));
}

void replay_key_init(struct replay_key *k, const struct replay_secret *secret, const uint8_t ip[16],
	const struct replay_call *call)
{
	const struct rpc_cred *cred = &call->call->cred;

	memset(k, 0, sizeof(*k));
	memcpy(k->ip, ip, sizeof(k->ip));
	k->xid = call->call->xid;
	k->program = call->call->program;
	k->procedure = call->call->procedure;
	k->cred.flavor = cred->flavor;
	if (cred->flavor == RPC_AUTH_SYS) {
		k->cred.uid = cred->uid;
		k->cred.gid = cred->gid;
		k->cred.n_gids = cred->n_gids;
		memcpy(k->cred.gids, cred->gids, cred->n_gids * sizeof(cred->gids[0]));
	}
	k->args_len = call->args_len;
	k->args_hash = args_hash(secret, call);
	/* The groups come last. */
	k->hash = sip_hash(secret, k,
		offsetof(struct replay_key, cred.gids) + k->cred.n_gids * sizeof(k->cred.gids[0]));
}

bool replay_key_same(const struct replay_key *a, const struct replay_key *b)
{
	return a->hash == b->hash && a->args_hash == b->args_hash && a->args_len == b->args_len &&
		!memcmp(a->ip, b->ip, sizeof(a->ip)) && a->xid == b->xid &&
		a->program == b->program && a->procedure == b->procedure &&
		!memcmp(&a->cred, &b->cred, sizeof(a->cred));
}
