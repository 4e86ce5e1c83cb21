/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of the running daemon, in the order in which they start; they stop
 * in the reverse order.
 *
 *   volume, exports -> workers -> loops -> listeners -> control socket, rpcbind
 *
 * Stopping: no more connections; the loops read no more, and end when their
 * last reply is sent (workers still run); then the workers; then the volume.
 */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include "server/config.h"
#include "server/server.h"

struct loop;
struct listener;
struct rpcbind;
struct ctl;

struct daemon {
	struct server srv;
	struct fsc_thread *thread; /* the main thread's */
	struct loop **loops;
	unsigned n_loops;
	struct listener *listeners[CONFIG_LISTENERS_MAX];
	size_t n_listeners;
	struct ctl *ctl;
	struct rpcbind *rpcbind;
};

/* Logs what is wrong. After an error, daemon_stop() too. */
int daemon_start(struct daemon *d, const struct srv_config *config);

void daemon_stop(struct daemon *d);

#endif
