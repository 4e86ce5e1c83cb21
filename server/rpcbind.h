/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration with the local rpcbind, through libtirpc, so that clients that
 * are told no port find us. A thread of its own does it: a hung rpcbind delays
 * nothing.
 */
#ifndef SERVER_RPCBIND_H
#define SERVER_RPCBIND_H

#include <stdint.h>

struct rpcbind;

/*
 * Registers all programs at a port of a family's wildcard address. NULL when
 * there is no thread for it (said in the log); the server then works without.
 */
struct rpcbind *rpcbind_register(int family, uint16_t port);

/* Removes what was registered; waits a few seconds at most. NULL is allowed. */
void rpcbind_unregister(struct rpcbind *r);

#endif
