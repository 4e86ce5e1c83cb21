/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/util.h"
#include "server/conn.h"

#define BACKLOG	       1024
#define ACCEPT_AT_ONCE 64
#define NAME_BYTES     80u

union any_addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct listener {
	/* immutable after init */
	int fd;
	char name[NAME_BYTES];
	union any_addr addr;
	struct loop *const *loops;
	unsigned n_loops;

	/* owned by loop 0 */
	struct event event, retry_event;
	unsigned next;

	struct fsc_msg stop_msg;
};

static bool parse_spec(const char *spec, union any_addr *out, socklen_t *len)
{
	char host[NAME_BYTES];
	const char *colon = strrchr(spec, ':'), *name = host;
	size_t n = colon ? (size_t)(colon - spec) : 0;
	uint64_t number;
	uint16_t port;

	if (!colon || n >= sizeof(host) || !parse_number(colon + 1, UINT16_MAX, &number))
		return false;
	port = (uint16_t)number;
	memcpy(host, spec, n);
	host[n] = '\0';
	memset(out, 0, sizeof(*out));
	if (host[0] == '[' && n > 2 && host[n - 1] == ']') {
		host[n - 1] = '\0';
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = htons(port);
		*len = sizeof(out->v6);
		return inet_pton(AF_INET6, host + 1, &out->v6.sin6_addr) == 1;
	}
	if (!n || !strcmp(host, "*"))
		name = "0.0.0.0";
	out->v4.sin_family = AF_INET;
	out->v4.sin_port = htons(port);
	*len = sizeof(out->v4);
	return inet_pton(AF_INET, name, &out->v4.sin_addr) == 1;
}

bool listener_spec_ok(const char *spec)
{
	union any_addr addr;
	socklen_t len;

	return parse_spec(spec, &addr, &len);
}

static void set_name(struct listener *l)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (l->addr.sa.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &l->addr.v6.sin6_addr, host, sizeof(host));
		snprintf(l->name, sizeof(l->name), "[%s]:%u", host, listener_port(l));
	} else {
		inet_ntop(AF_INET, &l->addr.v4.sin_addr, host, sizeof(host));
		snprintf(l->name, sizeof(l->name), "%s:%u", host, listener_port(l));
	}
}

const char *listener_name(const struct listener *l)
{
	return l->name;
}

uint16_t listener_port(const struct listener *l)
{
	return ntohs(l->addr.sa.sa_family == AF_INET6 ? l->addr.v6.sin6_port : l->addr.v4.sin_port);
}

int listener_family(const struct listener *l)
{
	return l->addr.sa.sa_family;
}

static void set_paused(struct listener *l)
{
	static const struct timeval later = {0, 100000};

	event_del(&l->event);
	event_add(&l->retry_event, &later);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;

	(void)fd;
	(void)what;
	event_add(&l->event, NULL);
}

/* False: there is nothing more to accept now. */
static bool accept_one(struct listener *l)
{
	union any_addr from;
	socklen_t len = sizeof(from);
	struct net_addr addr;
	int fd = accept4(l->fd, &from.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			log_limited(LOG_LVL_WARNING, "accept: %s", strerror(errno));
			set_paused(l);
		}
		return errno == ECONNABORTED || errno == EINTR;
	}
	if (!net_addr_from(&from.sa, &addr)) {
		close(fd);
		return true;
	}
	conn_adopt(l->loops[l->next], fd, &addr);
	l->next = (l->next + 1) % l->n_loops;
	return true;
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;

	(void)fd;
	(void)what;
	loop_enter(l->loops[0]);
	for (int i = 0; i < ACCEPT_AT_ONCE; i++)
		if (!accept_one(l))
			return;
}

static int open_socket(struct listener *l, socklen_t len)
{
	int one = 1;

	l->fd = socket(l->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return -errno;
	setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* An IPv4 socket beside it may have the same port. */
	if (l->addr.sa.sa_family == AF_INET6)
		setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(l->fd, &l->addr.sa, len) || listen(l->fd, BACKLOG) ||
		getsockname(l->fd, &l->addr.sa, &len))
		return -errno;
	return 0;
}

static int add_events(struct listener *l)
{
	struct event_base *base = l->loops[0]->base;

	event_assign(&l->event, base, l->fd, EV_READ | EV_PERSIST, on_connection, l);
	event_assign(&l->retry_event, base, -1, 0, on_retry, l);
	return event_add(&l->event, NULL) ? -ENOMEM : 0;
}

int listener_create(
	const char *spec, struct loop *const *loops, unsigned n_loops, struct listener **out)
{
	struct listener *l = calloc(1, sizeof(*l));
	socklen_t len;
	int ret;

	if (!l)
		return -ENOMEM;
	l->fd = -1;
	l->loops = loops;
	l->n_loops = n_loops;
	ret = parse_spec(spec, &l->addr, &len) ? open_socket(l, len) : -EINVAL;
	if (!ret)
		ret = add_events(l);
	if (ret) {
		log_error("listen on %s: %s", spec, strerror(-ret));
		listener_destroy(l);
		return ret;
	}
	set_name(l);
	*out = l;
	return 0;
}

/* Of a listener that was never stopped, since the start failed, they are still there. */
static void drop_events(struct listener *l)
{
	if (event_initialized(&l->event))
		event_del(&l->event);
	if (event_initialized(&l->retry_event))
		event_del(&l->retry_event);
}

void listener_destroy(struct listener *l)
{
	if (!l)
		return;
	drop_events(l);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

static void on_stop(struct fsc_msg *msg)
{
	struct listener *l = container_of(msg, struct listener, stop_msg);

	drop_events(l);
	close(l->fd);
	l->fd = -1;
}

void listener_stop(struct listener *l)
{
	l->stop_msg.fn = on_stop;
	fsc_thread_post(l->loops[0]->rpc.thread.fsc, &l->stop_msg);
}
