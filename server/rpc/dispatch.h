/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From a record to its reply: decodes the call, finds the operation, runs it
 * (on the loop without waiting; if that cannot be, later on a worker), and
 * queues the reply. Knows no socket: a peer is whoever sends records.
 *
 * Everything here is called on the loop thread of the peer.
 */
#ifndef SERVER_RPC_DISPATCH_H
#define SERVER_RPC_DISPATCH_H

#include "server/outq.h"
#include "server/rpc/request.h"

/* What a body is while nobody uses it. */
struct free_body {
	struct free_body *next;
};

/* A loop, as requests see it. Owned by the loop thread. */
struct rpc_loop {
	struct srv_thread thread;
	struct loop_counters *counters;
	struct outq_pool out_pool;
	uint64_t now_ns; /* when the current batch of input arrived */

	struct request *free;
	unsigned n_free;
	/* Bodies of REQUEST_BODY_BYTES. */
	struct free_body *free_bodies;
	unsigned n_free_bodies;

	/* In flight: from arrival until the reply has been sent. */
	unsigned n_requests;
	size_t request_bytes;
};

void rpc_loop_init(struct rpc_loop *loop, struct server *srv, struct fsc_thread *fsc,
	struct loop_counters *counters);
void rpc_loop_fini(struct rpc_loop *loop);

struct rpc_peer {
	struct rpc_loop *loop;
	struct net_addr addr;
	struct outq out;
	bool closed;		      /* replies are dropped */
	bool all_received;	      /* before closing: the client has got every reply */
	struct replay_origin *origin; /* NULL: nothing to be replayed yet */

	/* In flight, as in the loop. */
	unsigned n_requests;
	size_t request_bytes;

	/*
	 * Called when something was put in out outside of rpc_dispatch(), and
	 * when a request of a closed peer has ended. Must not free the peer.
	 */
	void (*ready)(struct rpc_peer *peer);
};

void rpc_peer_init(struct rpc_peer *peer, struct rpc_loop *loop, const struct net_addr *addr,
	void (*ready)(struct rpc_peer *peer));

/* Drops unsent replies. The peer may be freed once n_requests is 0. */
void rpc_peer_close(struct rpc_peer *peer);

/* The rules that hold for the peer in an export; NULL: no access. */
const struct export_rules *rpc_peer_rules(const struct rpc_peer *peer, const struct export *e);

/* A record. A request that outlives rpc_dispatch() copies it, or takes it over. */
struct rpc_input {
	const uint8_t *data;
	size_t len;
	/* Memory from malloc() that holds data and may be taken over: NULL then. */
	uint8_t *owned;
	size_t owned_bytes; /* of that memory: it may have grown ahead of the data */
};

/*
 * Handles one record. The reply is in peer->out when this returns, or comes
 * later. -EBADMSG: the record is no call, and the connection should be closed;
 * -ENOMEM likewise.
 */
int rpc_dispatch(struct rpc_peer *peer, struct rpc_input *in);

#endif
