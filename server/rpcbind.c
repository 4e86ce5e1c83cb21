/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/rpcbind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netconfig.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_clnt.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "server/rpc/program.h"

#define RPCBIND_PORT	   111
#define UNREGISTER_SECONDS 3

static const char *const rpcbind_sockets[] = {"/run/rpcbind.sock", "/var/run/rpcbind.sock", NULL};

struct rpcbind {
	/* immutable after init */
	int family;
	uint16_t port;
	pthread_t pthread;

	pthread_mutex_t mutex;
	pthread_cond_t changed;
	/* guarded by mutex */
	bool stop, ended;
};

static bool can_connect(const struct sockaddr *sa, socklen_t len)
{
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && !connect(fd, sa, len);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* libtirpc would wait for one that is not there. */
static bool rpcbind_is_there(void)
{
	struct sockaddr_in tcp = {.sin_family = AF_INET,
		.sin_port = htons(RPCBIND_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	for (int i = 0; rpcbind_sockets[i]; i++) {
		struct sockaddr_un un = {.sun_family = AF_UNIX};

		strcpy(un.sun_path, rpcbind_sockets[i]);
		if (can_connect((const struct sockaddr *)&un, sizeof(un)))
			return true;
	}
	return can_connect((const struct sockaddr *)&tcp, sizeof(tcp));
}

/* The netbuf of the wildcard address with our port. */
static void wildcard(const struct rpcbind *r, struct sockaddr_storage *ss, struct netbuf *out)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(r->port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(r->port)};

	memset(ss, 0, sizeof(*ss));
	if (r->family == AF_INET6) {
		memcpy(ss, &v6, sizeof(v6));
		out->len = sizeof(v6);
	} else {
		memcpy(ss, &v4, sizeof(v4));
		out->len = sizeof(v4);
	}
	out->maxlen = sizeof(*ss);
	out->buf = ss;
}

static struct netconfig *transport(const struct rpcbind *r)
{
	return getnetconfigent(r->family == AF_INET6 ? "tcp6" : "tcp");
}

static void register_all(const struct rpcbind *r)
{
	struct netconfig *nc = transport(r);
	struct sockaddr_storage ss;
	struct netbuf addr;

	if (!nc) {
		log_warning("rpcbind: no TCP in the netconfig database");
		return;
	}
	wildcard(r, &ss, &addr);
	for (unsigned i = 0; programs[i]; i++) {
		const struct srv_program *p = programs[i];

		if (rpcb_set(p->number, p->version, nc, &addr))
			log_info("rpcbind: %s registered at port %u", p->name, r->port);
		else
			log_warning("rpcbind: %s version %u is registered by "
				    "another server",
				p->name, p->version);
	}
	freenetconfigent(nc);
}

static void unregister_all(const struct rpcbind *r)
{
	struct netconfig *nc = transport(r);

	for (unsigned i = 0; nc && programs[i]; i++)
		rpcb_unset(programs[i]->number, programs[i]->version, nc);
	freenetconfigent(nc);
}

static void *rpcbind_main(void *arg)
{
	struct rpcbind *r = arg;
	bool there = rpcbind_is_there();

	pthread_setname_np(pthread_self(), "rpcbind");
	if (there)
		register_all(r);
	else
		log_info("rpcbind is not there: clients must be told the port");
	pthread_mutex_lock(&r->mutex);
	while (!r->stop)
		pthread_cond_wait(&r->changed, &r->mutex);
	pthread_mutex_unlock(&r->mutex);
	if (there)
		unregister_all(r);
	pthread_mutex_lock(&r->mutex);
	r->ended = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->mutex);
	return NULL;
}

struct rpcbind *rpcbind_register(int family, uint16_t port)
{
	struct rpcbind *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->family = family;
	r->port = port;
	pthread_mutex_init(&r->mutex, NULL);
	pthread_cond_init(&r->changed, NULL);
	if (pthread_create(&r->pthread, NULL, rpcbind_main, r)) {
		log_warning("rpcbind: no thread to register with it");
		free(r);
		return NULL;
	}
	return r;
}

void rpcbind_unregister(struct rpcbind *r)
{
	struct timespec until;
	bool ended;

	if (!r)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += UNREGISTER_SECONDS;
	pthread_mutex_lock(&r->mutex);
	r->stop = true;
	pthread_cond_broadcast(&r->changed);
	while (!r->ended && pthread_cond_timedwait(&r->changed, &r->mutex, &until) != ETIMEDOUT)
		;
	ended = r->ended;
	pthread_mutex_unlock(&r->mutex);
	if (!ended) {
		/* It hangs in a call to rpcbind; the process is about to end. */
		log_warning("rpcbind does not answer");
		pthread_detach(r->pthread);
		return;
	}
	pthread_join(r->pthread, NULL);
	free(r);
}
