/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The duplicate request cache: what was answered to calls that must not run
 * twice (REMOVE, RENAME, CREATE...). A client that has lost its connection sends
 * again what was not answered; it then gets the answer of the first run.
 *
 * WRITE is one of them. Twice in a row it does no harm, but while one run still waits
 * somewhere, the retransmission may be answered; what the client then writes in the
 * same place would be overwritten by the late run.
 *
 * A call is the same when all of these are: the client's address (not its port,
 * since it comes on a new connection), the xid, the procedure, the user and groups
 * it acts as, and its arguments (their length and a keyed hash, which nobody can
 * aim at). So an answer never goes to another user or for other arguments.
 *
 *            replay_begin()            replay_end()
 *   (none) ----------------> running --------------> done ---> reused
 *                               |                     ^
 *                   replay_begin() again: waits ------+
 *
 * A client that starts its xids anew may send the same call for another purpose. So
 * answers that the client certainly received, because it then closed the connection
 * in an orderly way, do not count any more (struct replay_origin), unless it comes again
 * from the same port.
 *
 * Bounded: answers by the memory that the cache was made with; calls that still run by
 * what bounds requests in flight, in which they are charged REPLAY_ENTRY_BYTES. A quarter
 * of the memory is for calls that carry data: the many answers to WRITE never push out
 * those of another kind. When the memory is full, the client that has most answers
 * gives up some of the connection that has most of them, the oldest first. (Both "most"
 * hold within a factor of two.) So a client that was cut off for a while finds its
 * answers when others were busy, or its own other connections. An answer is good for
 * REPLAY_SECONDS from when it was given.
 *
 * Clients are spread over shards, with a share of the memory and a short lock each.
 */
#ifndef SERVER_RPC_REPLAY_H
#define SERVER_RPC_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/nfs3.h"
#include "proto/rpc.h"

#define REPLAY_SECONDS		120u
#define REPLAY_REPLY_BYTES	(RPC_REPLY_HEAD_BYTES + NFS3_RES_BYTES_MAX)
#define REPLAY_DATA_REPLY_BYTES (RPC_REPLY_HEAD_BYTES + NFS3_WRITE_RES_BYTES)
/* An entry, at most. */
#define REPLAY_ENTRY_BYTES 1024u

struct replay_cache;
struct replay_entry;
struct replay_origin;

/* What a call is, by its arguments. */
enum replay_kind {
	REPLAY_NAMES, /* small: all of them tell it from others */
	REPLAY_DATA,  /* WRITE: of the data only both ends do */
};
#define REPLAY_KINDS 2u

/* -ENOMEM, -EIO: no random numbers. */
int replay_cache_create(size_t memory_bytes, struct replay_cache **out);
/* Nothing runs or waits any more. NULL is allowed. */
void replay_cache_destroy(struct replay_cache *c);

/* A connection of the client with this address (16 bytes), from this port. NULL: no memory. */
struct replay_origin *replay_origin_create(
	struct replay_cache *c, const uint8_t *ip, uint16_t port);
/* The connection has ended. NULL is allowed. */
void replay_origin_close(struct replay_origin *o, bool all_received);

struct replay_call {
	struct replay_origin *origin;
	enum replay_kind kind;
	const struct rpc_call *call;
	const uint8_t *args;
	size_t args_len;
	uint64_t now_ns;
};

/* Who waits for the end of the first run; embed it. */
struct replay_waiter {
	struct replay_waiter *next;
	/* Called once by the thread that ends the first run. */
	void (*ended)(struct replay_waiter *w);
};

enum replay_found {
	REPLAY_NEW,	/* run it, then replay_end() */
	REPLAY_RUNNING, /* waiter->ended will be called; then as REPLAY_DONE */
	REPLAY_DONE,	/* replay_reply(), then replay_put() */
	REPLAY_NO_ROOM, /* run it; there is no memory for an entry */
};

/* Any thread. *out is set but for REPLAY_NO_ROOM. */
enum replay_found replay_begin(struct replay_cache *c, const struct replay_call *call,
	struct replay_waiter *waiter, struct replay_entry **out);

/*
 * The first run has ended with this reply (from its xid on), at most
 * REPLAY_REPLY_BYTES, or REPLAY_DATA_REPLY_BYTES. keep_it false: nothing was done, the call may run again;
 * only those who wait already get the reply.
 */
void replay_end(
	struct replay_entry *e, const uint8_t *reply, size_t len, bool keep_it, uint64_t now_ns);

const uint8_t *replay_reply(const struct replay_entry *e, size_t *len);
void replay_put(struct replay_entry *e);

struct replay_stats {
	uint64_t entries;	      /* of calls that run, too */
	uint64_t bytes[REPLAY_KINDS]; /* of answers */
	uint64_t hits, waits, no_room;
};

void replay_cache_stats(struct replay_cache *c, struct replay_stats *out);

#endif
