/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/rpc/replay.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/lock.h"
#include "base/util.h"
#include "server/rpc/replay_key.h"

#define SHARDS	       8u
#define CLIENT_BUCKETS 64u
#define LIFE_NS	       (REPLAY_SECONDS * 1000000000ull)
/* What a replay_end() does at most about answers that are too old. */
#define EXPIRE_AT_ONCE 4u
/* Entries kept for the next calls, for each shard and kind: never many. */
#define FREE_MAX 64u
/* Of a client's connections, so many are looked at for the one with most answers. */
#define LOOK_AT 8u
/* Holdings of 2^(l-1) to 2^l - 1 answers are of level l. */
#define LEVELS 33u

struct replay_entry {
	/* immutable after replay_begin() */
	struct replay_origin *origin; /* a reference */
	struct replay_key key;
	enum replay_kind kind;

	/* guarded by shard->lock */
	LIST_ENTRY(replay_entry) chain;
	TAILQ_ENTRY(replay_entry) age, of_origin; /* when it is kept; else the list of free ones */
	unsigned refs;				  /* of those who take its reply */
	bool in_chain, kept;
	bool gone; /* freed when nobody refers to it any more */
	struct replay_waiter *waiters;

	/* set before done, then immutable */
	bool done;
	uint64_t ended_ns;
	uint16_t reply_len;
	uint8_t reply[];
};

LIST_HEAD(entry_chain, replay_entry);
TAILQ_HEAD(entry_queue, replay_entry);

/* What an origin has of a kind. */
struct origin_part {
	TAILQ_ENTRY(origin_part) link; /* while n > 0 */
	struct replay_origin *origin;
	struct entry_queue entries; /* the oldest first */
	unsigned n;
};

TAILQ_HEAD(part_queue, origin_part);

/* What a client has of a kind. */
struct holding {
	LIST_ENTRY(holding) link; /* in its level, while n > 0 */
	struct part_queue parts;
	unsigned n, level;
};

LIST_HEAD(holding_list, holding);

/* All fields of these two are guarded by the shard's lock, or immutable. */
struct client {
	LIST_ENTRY(client) chain;
	uint8_t ip[16];
	unsigned refs; /* of its origins */
	struct holding holding[REPLAY_KINDS];
};

struct replay_origin {
	struct shard *shard;
	struct client *client;
	unsigned refs; /* the connection, and entries */
	uint16_t port;
	bool all_received;
	struct origin_part part[REPLAY_KINDS];
};

LIST_HEAD(client_chain, client);

struct shard_kind {
	size_t limit_bytes;
	/* guarded by lock */
	size_t bytes;		/* of the entries that are kept */
	struct entry_queue age; /* these, the oldest first */
	struct holding_list level[LEVELS];
	struct entry_queue free;
	unsigned n_free;
};

struct shard {
	/* immutable after init */
	struct replay_cache *cache;

	struct short_lock lock; /* RANK_SERVER */
	/* guarded by lock */
	struct entry_chain *bucket;
	struct client_chain client[CLIENT_BUCKETS];
	struct shard_kind kind[REPLAY_KINDS];
	uint64_t entries, hits, waits, no_room;
};

struct replay_cache {
	/* immutable after init */
	struct replay_secret secret;
	size_t n_buckets; /* of a shard; a power of two */

	struct shard shard[SHARDS];
};

static const size_t reply_bytes[REPLAY_KINDS] = {
	[REPLAY_NAMES] = REPLAY_REPLY_BYTES,
	[REPLAY_DATA] = REPLAY_DATA_REPLY_BYTES,
};

_Static_assert(sizeof(struct replay_entry) + REPLAY_REPLY_BYTES <= REPLAY_ENTRY_BYTES,
	"what a call is charged for its entry is enough");

static size_t entry_bytes(enum replay_kind kind)
{
	return sizeof(struct replay_entry) + reply_bytes[kind];
}

/* ------------------------------------------------------- clients and origins */

static struct client *client_get(struct shard *s, const uint8_t ip[16], uint64_t hash)
{
	struct client_chain *chain = &s->client[hash / SHARDS % CLIENT_BUCKETS];
	struct client *c;

	LIST_FOREACH(c, chain, chain) {
		if (!memcmp(c->ip, ip, sizeof(c->ip))) {
			c->refs++;
			return c;
		}
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	memcpy(c->ip, ip, sizeof(c->ip));
	c->refs = 1;
	for (unsigned k = 0; k < REPLAY_KINDS; k++)
		TAILQ_INIT(&c->holding[k].parts);
	LIST_INSERT_HEAD(chain, c, chain);
	return c;
}

static void origin_put(struct replay_origin *o)
{
	struct client *c = o->client;

	if (--o->refs)
		return;
	free(o);
	if (--c->refs)
		return;
	LIST_REMOVE(c, chain);
	free(c);
}

struct replay_origin *replay_origin_create(struct replay_cache *c, const uint8_t *ip, uint16_t port)
{
	uint64_t hash = replay_ip_hash(&c->secret, ip);
	struct replay_origin *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->refs = 1;
	o->port = port;
	o->shard = &c->shard[hash % SHARDS];
	for (unsigned k = 0; k < REPLAY_KINDS; k++) {
		o->part[k].origin = o;
		TAILQ_INIT(&o->part[k].entries);
	}
	short_lock(&o->shard->lock);
	o->client = client_get(o->shard, ip, hash);
	short_unlock(&o->shard->lock);
	if (!o->client) {
		free(o);
		return NULL;
	}
	return o;
}

void replay_origin_close(struct replay_origin *o, bool all_received)
{
	struct shard *s;

	if (!o)
		return;
	s = o->shard;
	short_lock(&s->lock);
	o->all_received = all_received;
	origin_put(o);
	short_unlock(&s->lock);
}

/* ---------------------------------------------------------- who holds how much */

static void set_count(struct shard *s, enum replay_kind kind, struct holding *h, unsigned n)
{
	unsigned level = n ? 32u - (unsigned)__builtin_clz(n) : 0;

	h->n = n;
	if (level == h->level)
		return;
	if (h->level)
		LIST_REMOVE(h, link);
	if (level)
		LIST_INSERT_HEAD(&s->kind[kind].level[level], h, link);
	h->level = level;
}

static void keep(struct shard *s, struct replay_entry *e)
{
	struct origin_part *part = &e->origin->part[e->kind];
	struct holding *h = &e->origin->client->holding[e->kind];

	e->kept = true;
	TAILQ_INSERT_TAIL(&s->kind[e->kind].age, e, age);
	TAILQ_INSERT_TAIL(&part->entries, e, of_origin);
	if (!part->n++)
		TAILQ_INSERT_TAIL(&h->parts, part, link);
	set_count(s, e->kind, h, h->n + 1);
	s->kind[e->kind].bytes += entry_bytes(e->kind);
}

static void unkeep(struct shard *s, struct replay_entry *e)
{
	struct origin_part *part = &e->origin->part[e->kind];
	struct holding *h = &e->origin->client->holding[e->kind];

	e->kept = false;
	TAILQ_REMOVE(&s->kind[e->kind].age, e, age);
	TAILQ_REMOVE(&part->entries, e, of_origin);
	if (!--part->n)
		TAILQ_REMOVE(&h->parts, part, link);
	set_count(s, e->kind, h, h->n - 1);
	s->kind[e->kind].bytes -= entry_bytes(e->kind);
}

/* ------------------------------------------------------------------ entries */

static struct entry_chain *bucket_of(struct shard *s, uint64_t hash)
{
	return &s->bucket[hash & (s->cache->n_buckets - 1)];
}

static struct replay_entry *entry_get(struct shard *s, enum replay_kind kind)
{
	struct shard_kind *sk = &s->kind[kind];
	struct replay_entry *e = TAILQ_FIRST(&sk->free);

	if (e) {
		TAILQ_REMOVE(&sk->free, e, age);
		sk->n_free--;
	} else {
		e = malloc(entry_bytes(kind));
		if (!e)
			return NULL;
	}
	s->entries++;
	return e;
}

static void entry_free(struct shard *s, struct replay_entry *e)
{
	struct shard_kind *sk = &s->kind[e->kind];

	s->entries--;
	origin_put(e->origin);
	if (sk->n_free >= FREE_MAX) {
		free(e);
		return;
	}
	TAILQ_INSERT_HEAD(&sk->free, e, age);
	sk->n_free++;
}

static void leave_chain(struct replay_entry *e)
{
	if (e->in_chain)
		LIST_REMOVE(e, chain);
	e->in_chain = false;
}

/* Nobody will find it any more. */
static void forget(struct shard *s, struct replay_entry *e)
{
	leave_chain(e);
	if (e->kept)
		unkeep(s, e);
	e->gone = true;
	if (!e->refs)
		entry_free(s, e);
}

static bool is_too_old(const struct replay_entry *e, uint64_t now_ns)
{
	return e->done && now_ns > e->ended_ns + LIFE_NS;
}

/*
 * What was acknowledged before an orderly end was received by the client's host, but maybe
 * not by the client, when it gave the connection up at that moment. One that comes again
 * from the same port, as Linux does, goes on with its xids: it may ask for that again.
 */
static bool is_over(
	const struct replay_entry *e, const struct replay_origin *caller, uint64_t now_ns)
{
	return is_too_old(e, now_ns) ||
		(e->done && e->origin->all_received && e->origin->port != caller->port);
}

static struct replay_entry *find(
	struct shard *s, const struct replay_key *k, const struct replay_call *call)
{
	struct replay_entry *e;

	LIST_FOREACH(e, bucket_of(s, k->hash), chain)
		if (replay_key_same(&e->key, k))
			break;
	if (e && is_over(e, call->origin, call->now_ns)) {
		forget(s, e);
		return NULL;
	}
	return e;
}

static struct replay_entry *entry_start(
	struct shard *s, const struct replay_key *k, const struct replay_call *call)
{
	struct replay_entry *e = entry_get(s, call->kind);

	if (!e)
		return NULL;
	e->origin = call->origin;
	e->origin->refs++;
	e->key = *k;
	e->kind = call->kind;
	e->refs = 0;
	e->kept = e->gone = e->done = false;
	e->waiters = NULL;
	e->reply_len = 0;
	e->in_chain = true;
	LIST_INSERT_HEAD(bucket_of(s, k->hash), e, chain);
	return e;
}

/* ----------------------------------------------------------------- making room */

/*
 * Of the connections of a client, one that has about the most answers of a kind; first
 * one whose answers are hardly asked for. They take turns in being looked at.
 */
static struct origin_part *part_to_cut(struct holding *h)
{
	struct origin_part *best = TAILQ_FIRST(&h->parts);
	unsigned looked = 0;

	for (struct origin_part *part = best; part; part = TAILQ_NEXT(part, link)) {
		if (part->origin->all_received) {
			best = part;
			break;
		}
		if (part->n > best->n)
			best = part;
		if (++looked == LOOK_AT)
			break;
	}
	TAILQ_REMOVE(&h->parts, best, link);
	TAILQ_INSERT_TAIL(&h->parts, best, link);
	return best;
}

/*
 * Who has the most gives its oldest: what others have, and what a client has from a
 * connection that it lost, stays while one is busy.
 */
static bool forget_one(struct shard *s, enum replay_kind kind)
{
	struct shard_kind *sk = &s->kind[kind];
	unsigned level = LEVELS - 1;

	while (level && LIST_EMPTY(&sk->level[level]))
		level--;
	if (!level)
		return false;
	forget(s, TAILQ_FIRST(&part_to_cut(LIST_FIRST(&sk->level[level]))->entries));
	return true;
}

static void make_room(struct shard *s, enum replay_kind kind, uint64_t now_ns)
{
	struct shard_kind *sk = &s->kind[kind];
	struct replay_entry *e;

	for (unsigned i = 0; i < EXPIRE_AT_ONCE; i++) {
		e = TAILQ_FIRST(&sk->age);
		if (!e || !is_too_old(e, now_ns))
			break;
		forget(s, e);
	}
	while (sk->bytes > sk->limit_bytes)
		if (!forget_one(s, kind))
			break;
}

/* ------------------------------------------------------------------- the cache */

static int shard_init(struct shard *s, struct replay_cache *c, size_t memory_bytes)
{
	short_lock_init(&s->lock, RANK_SERVER);
	s->cache = c;
	s->kind[REPLAY_DATA].limit_bytes = memory_bytes / 4;
	s->kind[REPLAY_NAMES].limit_bytes = memory_bytes - memory_bytes / 4;
	for (unsigned k = 0; k < REPLAY_KINDS; k++) {
		TAILQ_INIT(&s->kind[k].age);
		TAILQ_INIT(&s->kind[k].free);
	}
	s->bucket = calloc(c->n_buckets, sizeof(*s->bucket));
	return s->bucket ? 0 : -ENOMEM;
}

static void shard_fini(struct shard *s)
{
	struct replay_entry *e;

	for (unsigned k = 0; k < REPLAY_KINDS; k++) {
		while ((e = TAILQ_FIRST(&s->kind[k].age)))
			forget(s, e);
		while ((e = TAILQ_FIRST(&s->kind[k].free))) {
			TAILQ_REMOVE(&s->kind[k].free, e, age);
			free(e);
		}
	}
	free(s->bucket);
	short_lock_fini(&s->lock);
}

int replay_cache_create(size_t memory_bytes, struct replay_cache **out)
{
	struct replay_cache *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	for (c->n_buckets = 64; c->n_buckets * REPLAY_ENTRY_BYTES < memory_bytes / SHARDS;)
		c->n_buckets *= 2;
	ret = replay_secret_init(&c->secret);
	for (unsigned i = 0; i < SHARDS; i++) {
		int err = shard_init(&c->shard[i], c, memory_bytes / SHARDS);

		ret = ret ? ret : err;
	}
	if (ret) {
		replay_cache_destroy(c);
		return ret;
	}
	*out = c;
	return 0;
}

void replay_cache_destroy(struct replay_cache *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < SHARDS; i++)
		shard_fini(&c->shard[i]);
	free(c);
}

enum replay_found replay_begin(struct replay_cache *c, const struct replay_call *call,
	struct replay_waiter *waiter, struct replay_entry **out)
{
	enum replay_found found = REPLAY_NO_ROOM;
	struct shard *s = call->origin->shard;
	struct replay_entry *e;
	struct replay_key key;

	replay_key_init(&key, &c->secret, call->origin->client->ip, call);
	short_lock(&s->lock);
	e = find(s, &key, call);
	if (!e) {
		e = entry_start(s, &key, call);
		if (e)
			found = REPLAY_NEW;
		else
			s->no_room++;
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
	struct replay_entry *e, const uint8_t *reply, size_t len, bool keep_it, uint64_t now_ns)
{
	struct shard *s = e->origin->shard;
	struct replay_waiter *w;

	assert(len <= reply_bytes[e->kind]);
	short_lock(&s->lock);
	memcpy(e->reply, reply, len);
	e->reply_len = (uint16_t)len;
	e->ended_ns = now_ns;
	e->done = true;
	w = e->waiters;
	e->waiters = NULL;
	if (keep_it) {
		keep(s, e);
		make_room(s, e->kind, now_ns);
	} else {
		forget(s, e);
	}
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
	struct shard *s = e->origin->shard;

	short_lock(&s->lock);
	if (!--e->refs && e->gone)
		entry_free(s, e);
	short_unlock(&s->lock);
}

void replay_cache_stats(struct replay_cache *c, struct replay_stats *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];

		short_lock(&s->lock);
		out->entries += s->entries;
		for (unsigned k = 0; k < REPLAY_KINDS; k++)
			out->bytes[k] += s->kind[k].bytes;
		out->hits += s->hits;
		out->waits += s->waits;
		out->no_room += s->no_room;
		short_unlock(&s->lock);
	}
}
