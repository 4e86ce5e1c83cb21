/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Listening sockets. They are events of loop 0, which hands each connection to
 * the next loop in turn.
 */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "server/loop.h"

struct listener;

/*
 * Binds to "ADDR:PORT", "[ADDR]:PORT" or ":PORT" (numeric; port 0 takes a free
 * one) and listens. Logs what is wrong. Called before the loops run.
 */
int listener_create(
	const char *spec, struct loop *const *loops, unsigned n_loops, struct listener **out);

/* Any thread, after loop 0 has ended or before it starts. NULL is allowed. */
void listener_destroy(struct listener *l);

/* Any thread, once: accepts no more. Runs on loop 0, before a later loop_stop(). */
void listener_stop(struct listener *l);

/* "ADDR:PORT" as it really is. */
const char *listener_name(const struct listener *l);
uint16_t listener_port(const struct listener *l);
int listener_family(const struct listener *l);

/* Parses a spec; for the configuration. */
bool listener_spec_ok(const char *spec);

#endif
