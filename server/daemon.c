/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/daemon.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/util.h"
#include "server/ctl/ctl.h"
#include "server/jobs.h"
#include "server/listener.h"
#include "server/loop.h"
#include "server/mount/mount_list.h"
#include "server/rpc/replay.h"
#include "server/rpcbind.h"

#define DEFAULT_LISTEN "0.0.0.0:2049"
/* What all loops together may hold in flight: replies, their pages, requests. */
#define IN_FLIGHT_MAX (256u << 20)
#define IN_FLIGHT_MIN (8u << 20)
#define DEFAULT_CACHE (256u << 20)
/* Answers that are kept for retransmissions. */
#define REPLAYS_MAX (256u << 20)
#define REPLAYS_MIN (8u << 20)

static void on_data_lost(void *arg)
{
	write_verf_renew(arg);
}

static int open_volume(struct daemon *d, const struct srv_config *config)
{
	bool writable = exports_any_writable(config->exports);
	struct fsc_open_options opt = {.cache_bytes = config->cache_bytes,
		.read_only = !writable,
		.discard = config->discard,
		.data_lost = on_data_lost,
		.data_lost_arg = &d->srv.write_verf};
	int ret = fsc_thread_create(&d->thread);

	if (ret) {
		log_error("io_uring: %s", strerror(-ret));
		return ret;
	}
	ret = fsc_volume_open(d->thread, config->volume, &opt, &d->srv.vol);
	if (ret)
		return ret;
	fsc_volume_info(d->srv.vol, &d->srv.vol_info);
	if (writable && d->srv.vol_info.read_only)
		log_notice("%s can only be read: so can every export", config->volume);
	ret = exports_resolve(config->exports, d->thread, d->srv.vol);
	d->srv.exports = config->exports;
	return ret;
}

static uint64_t cache_bytes(const struct srv_config *config)
{
	return config->cache_bytes ? config->cache_bytes : DEFAULT_CACHE;
}

static size_t replay_bytes(const struct srv_config *config)
{
	return MAX(MIN(cache_bytes(config) / 8, (uint64_t)REPLAYS_MAX), (uint64_t)REPLAYS_MIN);
}

static int make_shared(struct daemon *d, const struct srv_config *config)
{
	/* At least one worker is always left to other tenants. */
	unsigned per_tenant = config->workers - config->workers / 4;
	int ret;

	if (per_tenant == config->workers && per_tenant > 1)
		per_tenant--;
	ret = write_verf_init(&d->srv.write_verf);
	if (!ret)
		ret = replay_cache_create(replay_bytes(config), &d->srv.replays);
	if (ret)
		return ret;
	d->srv.mounts = mount_list_create();
	if (!d->srv.mounts)
		return -ENOMEM;
	ret = jobs_create(&d->srv, config->workers, per_tenant, &d->srv.jobs);
	if (ret)
		log_error("workers: %s", strerror(-ret));
	return ret;
}

static unsigned cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned)MAX(CPU_COUNT(&set), 1);
}

static struct loop_limits limits_of(const struct srv_config *config, unsigned loops)
{
	uint64_t bytes = MIN(cache_bytes(config) / 4, (uint64_t)IN_FLIGHT_MAX) / loops;

	return (struct loop_limits){
		.connections = (config->connections + loops - 1) / loops,
		.memory_bytes = MAX(bytes, (uint64_t)IN_FLIGHT_MIN),
	};
}

static int make_loops(struct daemon *d, const struct srv_config *config)
{
	unsigned n = config->loops ? config->loops : cpus();
	struct loop_limits limits = limits_of(config, n);

	d->loops = calloc(n, sizeof(struct loop *));
	if (!d->loops)
		return -ENOMEM;
	for (; d->n_loops < n; d->n_loops++) {
		int ret = loop_create(&d->srv, d->n_loops, &limits, &d->loops[d->n_loops]);

		if (ret) {
			log_error("event loop: %s", strerror(-ret));
			return ret;
		}
	}
	return 0;
}

static int make_listeners(struct daemon *d, const struct srv_config *config)
{
	size_t n = MAX(config->n_listen, (size_t)1);

	for (; d->n_listeners < n; d->n_listeners++) {
		const char *spec =
			config->n_listen ? config->listen[d->n_listeners] : DEFAULT_LISTEN;
		int ret =
			listener_create(spec, d->loops, d->n_loops, &d->listeners[d->n_listeners]);

		if (ret)
			return ret;
	}
	return 0;
}

/* Loop 0 comes last: it accepts, and hands connections to the others. */
static int start_loops(struct daemon *d)
{
	for (unsigned i = d->n_loops; i-- > 0;) {
		int ret = loop_start(d->loops[i]);

		if (ret) {
			log_error("event loop: %s", strerror(-ret));
			return ret;
		}
	}
	return 0;
}

static void raise_file_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur == lim.rlim_max)
		return;
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
}

int daemon_start(struct daemon *d, const struct srv_config *config)
{
	int ret;

	raise_file_limit();
	ret = open_volume(d, config);
	if (!ret)
		ret = make_shared(d, config);
	if (!ret)
		ret = make_loops(d, config);
	if (!ret)
		ret = make_listeners(d, config);
	if (!ret && config->socket)
		ret = ctl_create(d, config->socket, &d->ctl);
	if (!ret)
		ret = start_loops(d);
	if (!ret && config->rpcbind)
		d->rpcbind = rpcbind_register(
			listener_family(d->listeners[0]), listener_port(d->listeners[0]));
	return ret;
}

/* Loop 0 comes first: when it has ended, nobody gives to the others any more. */
static void stop_loops(struct daemon *d)
{
	for (unsigned i = 0; i < d->n_loops; i++) {
		if (!d->loops[i]->started)
			continue;
		for (size_t n = 0; !i && n < d->n_listeners; n++)
			listener_stop(d->listeners[n]);
		loop_stop(d->loops[i]);
		loop_join(d->loops[i]);
	}
}

void daemon_stop(struct daemon *d)
{
	rpcbind_unregister(d->rpcbind);
	ctl_destroy(d->ctl);
	stop_loops(d);
	jobs_destroy(d->srv.jobs);
	for (size_t i = 0; i < d->n_listeners; i++)
		listener_destroy(d->listeners[i]);
	for (unsigned i = 0; i < d->n_loops; i++)
		loop_destroy(d->loops[i]);
	free(d->loops);
	mount_list_destroy(d->srv.mounts);
	replay_cache_destroy(d->srv.replays);
	fsc_volume_close(d->thread, d->srv.vol);
	fsc_thread_destroy(d->thread);
}
