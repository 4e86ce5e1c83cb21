/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters of a loop thread. The loop alone writes them (relaxed stores, no
 * atomic read-modify-write, no cache line shared between loops); the control
 * thread reads and sums them at any time.
 */
#ifndef SERVER_COUNTERS_H
#define SERVER_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/hist.h"
#include "fscore/fscore.h"

/* Operations of all programs together; a program has its first number. */
#define COUNTER_OPS	     28u
#define COUNTER_MOUNT3_FIRST 22u

struct op_counters {
	_Atomic uint64_t calls;
	_Atomic uint64_t errors;      /* answered with another status than OK */
	_Atomic uint64_t done_inline; /* by the try on the loop */
	_Atomic uint64_t done_async;  /* parked on I/O, then done on the loop */
	_Atomic uint64_t done_worker; /* fell back to a worker, because of: */
	_Atomic uint64_t blocked[FSC_BLOCKED_REASONS];
	_Atomic uint64_t parked_sync; /* of all these: waited, without a thread, to be durable */
	struct hist latency;	      /* from the arrival of the request to its reply */
};

struct loop_counters {
	struct op_counters op[COUNTER_OPS];
	struct hist iteration;	     /* of the event loop, without its sleep */
	_Atomic uint64_t rpc_errors; /* calls that reached no procedure */
	_Atomic uint64_t accepted, closed;
	_Atomic uint64_t refused; /* connections: too many, or bad messages */
	_Atomic uint64_t received_bytes, sent_bytes;
	_Atomic uint64_t paused; /* times a connection was not read any more */
	/* Gauges. */
	_Atomic uint64_t connections;
	_Atomic uint64_t requests, request_bytes; /* in flight */
};

static inline void counter_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void counter_set(_Atomic uint64_t *c, uint64_t v)
{
	atomic_store_explicit(c, v, memory_order_relaxed);
}

static inline uint64_t counter_get(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

#endif
