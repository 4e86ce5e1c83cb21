/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/rpc/replay.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#include "base/lock.h"

#define SHARDS	      16u
#define SHARD_ENTRIES (REPLAY_ENTRIES / SHARDS)
#define SHARD_BUCKETS SHARD_ENTRIES
#define LIFE_NS	      (REPLAY_SECONDS * 1000000000ull)

struct replay_key {
	uint64_t hash; /* of all below and of the arguments */
	uint64_t args_hash;
	size_t args_len;
	uint8_t ip[16];
	uint32_t xid, program, procedure;
	struct rpc_cred cred; /* groups that are not there are zero */
};

struct replay_origin {
	_Atomic unsigned refs; /* the connection, and entries */
	atomic_bool all_received;
};

struct replay_entry {
	/* immutable after replay_begin() */
	struct shard *shard;
	struct replay_origin *origin; /* a reference; or NULL */
	struct replay_key key;

	/* guarded by shard->lock */
	LIST_ENTRY(replay_entry) chain;
	TAILQ_ENTRY(replay_entry) age; /* in old, when done */
	unsigned refs;		       /* of those who take its reply */
	bool in_chain;
	struct replay_waiter *waiters;

	/* set before done, then immutable */
	bool done;
	uint64_t ended_ns;
	uint16_t reply_len;
	uint8_t reply[REPLAY_REPLY_BYTES];
};

LIST_HEAD(bucket, replay_entry);
TAILQ_HEAD(by_age, replay_entry);

struct shard {
	struct short_lock lock; /* RANK_SERVER */
	/* guarded by lock */
	struct bucket bucket[SHARD_BUCKETS];
	struct by_age old; /* done; the oldest first */
	unsigned n_entries;
	uint64_t hits, waits, no_room;
};

struct replay_cache {
	/* immutable after init */
	uint64_t secret[2];

	struct shard shard[SHARDS];
};

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

static uint64_t sip_hash(const uint64_t secret[2], const uint8_t *p, size_t len)
{
	struct sip s = {secret[0] ^ 0x736f6d6570736575u, secret[1] ^ 0x646f72616e646f6du,
		secret[0] ^ 0x6c7967656e657261u, secret[1] ^ 0x7465646279746573u};
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

/* ---------------------------------------------------------------- origins */

struct replay_origin *replay_origin_create(void)
{
	struct replay_origin *o = calloc(1, sizeof(*o));

	if (o)
		atomic_init(&o->refs, 1);
	return o;
}

static void origin_put(struct replay_origin *o)
{
	if (o && atomic_fetch_sub(&o->refs, 1) == 1)
		free(o);
}

void replay_origin_close(struct replay_origin *o, bool all_received)
{
	if (o && all_received)
		atomic_store(&o->all_received, true);
	origin_put(o);
}

/* ---------------------------------------------------------------- entries */

int replay_cache_create(struct replay_cache **out)
{
	struct replay_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	if (getrandom(c->secret, sizeof(c->secret), 0) != sizeof(c->secret)) {
		free(c);
		return -EIO;
	}
	for (unsigned i = 0; i < SHARDS; i++) {
		short_lock_init(&c->shard[i].lock, RANK_SERVER);
		TAILQ_INIT(&c->shard[i].old);
	}
	*out = c;
	return 0;
}

void replay_cache_destroy(struct replay_cache *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];
		struct replay_entry *e;

		while ((e = TAILQ_FIRST(&s->old))) {
			TAILQ_REMOVE(&s->old, e, age);
			origin_put(e->origin);
			free(e);
		}
		short_lock_fini(&s->lock);
	}
	free(c);
}

/* Copies what counts of the credentials, so that keys compare as bytes. */
static void key_init(struct replay_key *k, const uint64_t secret[2], const struct replay_call *call)
{
	const struct rpc_cred *cred = &call->call->cred;

	memset(k, 0, sizeof(*k));
	memcpy(k->ip, call->ip, sizeof(k->ip));
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
	k->args_hash = sip_hash(secret, call->args, call->args_len);
	k->hash = sip_hash(secret, (const uint8_t *)k, sizeof(*k));
}

static struct bucket *bucket_of(struct shard *s, uint64_t hash)
{
	return &s->bucket[hash / SHARDS % SHARD_BUCKETS];
}

static void leave_chain(struct replay_entry *e)
{
	if (e->in_chain)
		LIST_REMOVE(e, chain);
	e->in_chain = false;
}

static bool is_over(const struct replay_entry *e, uint64_t now_ns)
{
	if (!e->done)
		return false;
	return now_ns > e->ended_ns + LIFE_NS ||
		(e->origin && atomic_load(&e->origin->all_received));
}

static bool same_key(const struct replay_key *a, const struct replay_key *b)
{
	return a->hash == b->hash && a->args_hash == b->args_hash && a->args_len == b->args_len &&
		!memcmp(a->ip, b->ip, sizeof(a->ip)) && a->xid == b->xid &&
		a->program == b->program && a->procedure == b->procedure &&
		!memcmp(&a->cred, &b->cred, sizeof(a->cred));
}

static struct replay_entry *find(struct shard *s, const struct replay_key *k, uint64_t now_ns)
{
	struct replay_entry *e;

	LIST_FOREACH(e, bucket_of(s, k->hash), chain)
		if (same_key(&e->key, k))
			break;
	if (e && is_over(e, now_ns)) {
		leave_chain(e);
		return NULL;
	}
	return e;
}

/* A new entry, or the oldest one that nobody needs. */
static struct replay_entry *take_entry(struct shard *s)
{
	struct replay_entry *e = NULL;

	if (s->n_entries < SHARD_ENTRIES)
		e = malloc(sizeof(*e));
	if (e) {
		s->n_entries++;
		return e;
	}
	e = TAILQ_FIRST(&s->old);
	while (e && e->refs)
		e = TAILQ_NEXT(e, age);
	if (e) {
		TAILQ_REMOVE(&s->old, e, age);
		leave_chain(e);
		origin_put(e->origin);
	}
	return e;
}

static void entry_start(struct replay_entry *e, struct shard *s, const struct replay_key *k,
	const struct replay_call *call)
{
	e->shard = s;
	e->key = *k;
	e->origin = call->origin;
	if (e->origin)
		atomic_fetch_add(&e->origin->refs, 1);
	e->refs = 0;
	e->waiters = NULL;
	e->done = false;
	e->reply_len = 0;
	e->in_chain = true;
	LIST_INSERT_HEAD(bucket_of(s, k->hash), e, chain);
}

enum replay_found replay_begin(struct replay_cache *c, const struct replay_call *call,
	struct replay_waiter *waiter, struct replay_entry **out)
{
	enum replay_found found = REPLAY_NO_ROOM;
	struct replay_entry *e;
	struct replay_key key;
	struct shard *s;

	key_init(&key, c->secret, call);
	s = &c->shard[key.hash % SHARDS];
	short_lock(&s->lock);
	e = find(s, &key, call->now_ns);
	if (!e) {
		e = take_entry(s);
		if (e) {
			entry_start(e, s, &key, call);
			found = REPLAY_NEW;
		} else {
			s->no_room++;
		}
	} else {
		e->refs++;
		found = e->done ? REPLAY_DONE : REPLAY_RUNNING;
		if (e->done) {
			s->hits++;
		} else {
			s->waits++;
			waiter->next = e->waiters;
			e->waiters = waiter;
		}
	}
	short_unlock(&s->lock);
	*out = e;
	return found;
}

void replay_end(
	struct replay_entry *e, const uint8_t *reply, size_t len, bool keep, uint64_t now_ns)
{
	struct shard *s = e->shard;
	struct replay_waiter *w;

	short_lock(&s->lock);
	memcpy(e->reply, reply, len);
	e->reply_len = (uint16_t)len;
	e->ended_ns = now_ns;
	e->done = true;
	if (!keep)
		leave_chain(e);
	TAILQ_INSERT_TAIL(&s->old, e, age);
	w = e->waiters;
	e->waiters = NULL;
	short_unlock(&s->lock);
	while (w) {
		struct replay_waiter *next = w->next;

		w->ended(w);
		w = next;
	}
}

const uint8_t *replay_reply(const struct replay_entry *e, size_t *len)
{
	*len = e->reply_len;
	return e->reply;
}

void replay_put(struct replay_entry *e)
{
	struct shard *s = e->shard;

	short_lock(&s->lock);
	e->refs--;
	short_unlock(&s->lock);
}

void replay_cache_stats(struct replay_cache *c, struct replay_stats *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];

		short_lock(&s->lock);
		out->entries += s->n_entries;
		out->hits += s->hits;
		out->waits += s->waits;
		out->no_room += s->no_room;
		short_unlock(&s->lock);
	}
}
