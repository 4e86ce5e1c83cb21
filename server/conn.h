/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A connection: bytes of a socket to records and back. Owned by its loop.
 *
 *            eof            in flight = 0, all sent
 *   open ---------> closing -----------------------+
 *    |  ^                                          v
 *    |  | room         error, bad record, too slow  dead --> freed when its
 *    v  |              -------------------------->  last request has ended
 *   paused (not read: a bound is reached); to closing when the client has hung up
 *
 * An idle connection holds no buffers: input is received into the loop's one
 * buffer and handled there; only a record that is not complete is kept. The rest of
 * a large one is received into the record's own memory, which goes with the request
 * when that must wait: the data of a WRITE are copied once, into the page cache.
 *
 * Bounds, so that memory does not depend on what clients do:
 *   CONN_REQUESTS_MAX, CONN_BYTES_MAX   in flight for one connection
 *   loop_limits.memory_bytes            in flight for all of a loop; past it
 *                                       each connection still has one request
 *   SRV_RECORD_MAX                      a record
 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include "server/loop.h"

#define CONN_REQUESTS_MAX 256u
#define CONN_BYTES_MAX	  (8u << 20)

/*
 * Hands an accepted socket to a loop; any thread. Takes fd over. The socket is
 * closed when there is no memory or the loop has its limit of connections.
 */
void conn_adopt(struct loop *l, int fd, const struct net_addr *addr);

/* ---------------------------------------------- for the loop, on its thread */

void conn_flush_dirty(struct loop *l);
void conn_feed_starved(struct loop *l);
void conn_free_dead(struct loop *l);
void conn_check_ages(struct loop *l);
/* Reads no more, and closes what has nothing in flight. */
void conn_stop_all(struct loop *l);
void conn_close_all(struct loop *l);

#endif
