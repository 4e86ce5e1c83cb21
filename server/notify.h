/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sd_notify(3) protocol: a datagram to the socket that $NOTIFY_SOCKET names. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/* state: "READY=1" and the like. Does nothing when nobody listens. */
void notify(const char *state);

#endif
