/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hold phase: thousands of idle connections from one process. Plain sockets
 * and a NULL call made by hand, for a context of libnfs costs more than what is to
 * be measured at the server.
 */
#include "nfsload.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALL_WORDS  11 /* record marker, then a call with AUTH_NONE */
#define REPLY_BYTES 28 /* record marker, then an accepted reply without a result */

static void raise_fd_limit(int conns)
{
	rlim_t need = (rlim_t)conns + 64;
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		die("getrlimit: %s", strerror(errno));
	if (r.rlim_cur >= need)
		return;
	r.rlim_cur = need;
	if (r.rlim_max < need)
		r.rlim_max = need;
	if (setrlimit(RLIMIT_NOFILE, &r))
		die("cannot have %d open files: %s", conns, strerror(errno));
}

/* One source address has too few ports for more; 127/8 has many addresses. */
static void bind_source(int fd, const struct addrinfo *to, int conn)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	const struct sockaddr_in *in = (const void *)to->ai_addr;

	if (to->ai_family != AF_INET || ntohl(in->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
		return;
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)conn / 10000);
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)))
		die("bind: %s", strerror(errno));
}

static void receive_all(int fd, char *to, size_t bytes)
{
	while (bytes) {
		ssize_t n = recv(fd, to, bytes, 0);

		if (n <= 0)
			die("NULL on a connection: %s",
				n ? strerror(errno) : "closed by the server");
		to += n;
		bytes -= (size_t)n;
	}
}

static void null_call(int fd, uint32_t xid)
{
	uint32_t call[CALL_WORDS] = {0x80000000u | (4 * (CALL_WORDS - 1)), xid, 0, 2, 100003, 3, 0};
	char reply[REPLY_BYTES];
	uint32_t got_xid;

	for (int i = 0; i < CALL_WORDS; i++)
		call[i] = htonl(call[i]);
	if (send(fd, call, sizeof(call), MSG_NOSIGNAL) != sizeof(call))
		die("send: %s", strerror(errno));
	receive_all(fd, reply, sizeof(reply));
	memcpy(&got_xid, reply + 4, 4);
	if (ntohl(got_xid) != xid)
		die("NULL: reply to another call");
}

static int open_one(const struct addrinfo *to, int conn)
{
	int fd = socket(to->ai_family, SOCK_STREAM, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	bind_source(fd, to, conn);
	if (connect(fd, to->ai_addr, to->ai_addrlen))
		die("connect %d: %s", conn, strerror(errno));
	null_call(fd, (uint32_t)conn + 1);
	return fd;
}

/* How many of them the server has closed meanwhile. */
static int count_closed(const int *fds)
{
	int closed = 0;

	for (int i = 0; i < opt.conns; i++) {
		struct pollfd p = {.fd = fds[i], .events = POLLIN};

		closed += poll(&p, 1, 0) > 0;
	}
	return closed;
}

void hold(void)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *to;
	int *fds = calloc((size_t)opt.conns, sizeof(*fds));
	double before = rss_kib(opt.server), with;
	uint64_t start = now_ns();
	char service[16];
	int closed;

	snprintf(service, sizeof(service), "%d", opt.port);
	if (!fds || !opt.host || getaddrinfo(opt.host, service, &hints, &to))
		die("hold needs nfs://HOST/EXPORT");
	raise_fd_limit(opt.conns);
	for (int i = 0; i < opt.conns; i++)
		fds[i] = open_one(to, i);
	with = rss_kib(opt.server);
	printf("%s phase=hold c=%d secs=%.3f rss_before_KiB=%.0f "
	       "rss_with_KiB=%.0f KiB_per_conn=%.3f",
		opt.label, opt.conns, (double)(now_ns() - start) / 1e9, before, with,
		(with - before) / opt.conns);
	fflush(stdout);
	poll(NULL, 0, opt.seconds * 1000);
	closed = count_closed(fds);
	printf(" closed=%d\n", closed);
	for (int i = 0; i < opt.conns; i++)
		close(fds[i]);
	freeaddrinfo(to);
	free(fds);
	if (closed)
		die("the server closed %d idle connections", closed);
}
