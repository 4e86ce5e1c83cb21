/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An event loop: a thread that never waits but for its events. It owns its
 * connections, a libevent base and an fsc_thread whose eventfd is one of the
 * base's events.
 *
 * One iteration: all ready events run; connections that got replies from
 * completions are flushed; new I/O goes to the kernel in one call; connections
 * that ended are freed.
 */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "server/rpc/dispatch.h"

struct conn;

/*
 * What is received at once; a connection's turn in an iteration. Room for a WRITE
 * of 64 KiB with its header. The rest of a larger record comes in one piece.
 */
#define LOOP_RECEIVE_BYTES 73728u

struct loop_limits {
	unsigned connections;
	/* Of all requests in flight and records that are not complete. */
	size_t memory_bytes;
};

TAILQ_HEAD(conn_list, conn);

struct loop {
	/* immutable after init */
	unsigned index;
	struct loop_limits limits;
	pthread_t pthread;
	struct event_base *base;

	/* owned by the thread that starts and joins */
	bool started;

	/* handed over by start_done */
	sem_t start_done;
	int start_result;

	/* owned by the loop thread */
	struct rpc_loop rpc;
	struct event fsc_event, tick_event;
	struct conn_list conns;	  /* open ones */
	struct conn_list dirty;	  /* to be flushed at the end of the iteration */
	struct conn_list dead;	  /* to be freed there */
	struct conn_list starved; /* not read because the loop is at its limit */
	unsigned n_conns;
	size_t partial_bytes;	     /* held by records that are not complete */
	size_t granted_bytes;	     /* of these, by large ones that have all they need */
	uint64_t iteration_start_ns; /* 0: no event yet */
	bool stopping;
	uint8_t *receive_buf;

	/* for other threads */
	struct fsc_msg stop_msg;
	struct loop_counters counters;
};

int loop_create(
	struct server *srv, unsigned index, const struct loop_limits *limits, struct loop **out);

/* Returns when the loop runs. Might wait. */
int loop_start(struct loop *l);

/* Any thread, once: no more input is read; ends when what is in flight has ended. */
void loop_stop(struct loop *l);

/* After loop_stop(), from the thread that called loop_start(). Might wait. */
void loop_join(struct loop *l);

/* NULL is allowed. The thread has ended or was never started. */
void loop_destroy(struct loop *l);

/* Each callback of the loop begins with this: time, and what an iteration took. */
void loop_enter(struct loop *l);

/* True when memory in flight is at the limit of the loop. */
bool loop_is_full(const struct loop *l);

#endif
