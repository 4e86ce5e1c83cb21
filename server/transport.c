/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/transport.h"

#include <sys/socket.h>

static ssize_t plain_receive(int fd, void *buf, size_t size)
{
	return recv(fd, buf, size, MSG_DONTWAIT);
}

static ssize_t plain_send(int fd, struct iovec *iov, unsigned n_iov)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n_iov};

	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

const struct transport transport_plain = {plain_receive, plain_send};
