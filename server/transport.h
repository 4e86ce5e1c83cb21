/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a connection's bytes get in and out. One implementation for each kind:
 * transport_plain is TCP as it is.
 */
#ifndef SERVER_TRANSPORT_H
#define SERVER_TRANSPORT_H

#include <sys/types.h>
#include <sys/uio.h>

struct transport {
	/* Both never wait, and return as recv(2) and sendmsg(2) do. */
	ssize_t (*receive)(int fd, void *buf, size_t size);
	ssize_t (*send)(int fd, struct iovec *iov, unsigned n_iov);
};

extern const struct transport transport_plain;

#endif
