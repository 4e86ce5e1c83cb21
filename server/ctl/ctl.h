/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket: a unix stream socket on which byrectl sends one line, a
 * command, and reads the answer to the end. Served one client at a time by a
 * thread of its own, which may wait; loops are never involved.
 *
 *   stats    counters as one JSON object
 */
#ifndef SERVER_CTL_CTL_H
#define SERVER_CTL_CTL_H

struct ctl;
struct daemon;

/*
 * Listens at path, which may be a socket that an earlier run left behind; only
 * the user of the process may connect. Logs what is wrong.
 */
int ctl_create(struct daemon *d, const char *path, struct ctl **out);

/* NULL is allowed. Might wait. */
void ctl_destroy(struct ctl *ctl);

/* ------------------------------------------------------------- stats.c */

/* A string to be freed; NULL: out of memory. */
char *ctl_stats(struct daemon *d);

#endif
