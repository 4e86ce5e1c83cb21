/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/util.h"
#include "server/conn.h"

#define TICK_SECONDS 5
/* After a stop, how long clients may take to receive their last replies. */
#define DRAIN_NS (10u * 1000000000ull)

void loop_enter(struct loop *l)
{
	l->rpc.now_ns = clock_now_ns();
	if (!l->iteration_start_ns)
		l->iteration_start_ns = l->rpc.now_ns;
}

bool loop_is_full(const struct loop *l)
{
	return l->rpc.request_bytes + l->partial_bytes +
		l->rpc.out_pool.n_used * sizeof(struct outq_block) >
		l->limits.memory_bytes;
}

static void on_fsc(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	(void)fd;
	(void)what;
	loop_enter(l);
	fsc_thread_reap(l->rpc.thread.fsc);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	(void)fd;
	(void)what;
	loop_enter(l);
	conn_check_ages(l);
}

static int init_base(struct loop *l)
{
	struct event_config *cfg = event_config_new();

	if (!cfg)
		return -ENOMEM;
	event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK);
	l->base = event_base_new_with_config(cfg);
	event_config_free(cfg);
	return l->base ? 0 : -ENOMEM;
}

/* The part that only the loop's own thread may do. */
static int init_on_thread(struct loop *l)
{
	static const struct timeval tick = {TICK_SECONDS, 0};
	int ret = fsc_thread_create(&l->rpc.thread.fsc);

	if (ret)
		return ret;
	event_assign(&l->fsc_event, l->base, fsc_thread_fd(l->rpc.thread.fsc), EV_READ | EV_PERSIST,
		on_fsc, l);
	event_assign(&l->tick_event, l->base, -1, EV_PERSIST, on_tick, l);
	if (event_add(&l->fsc_event, NULL) || event_add(&l->tick_event, &tick))
		return -ENOMEM;
	return 0;
}

int loop_create(
	struct server *srv, unsigned index, const struct loop_limits *limits, struct loop **out)
{
	struct loop *l = calloc(1, sizeof(*l));
	int ret = 0;

	if (!l)
		return -ENOMEM;
	l->index = index;
	l->limits = *limits;
	TAILQ_INIT(&l->conns);
	TAILQ_INIT(&l->dirty);
	TAILQ_INIT(&l->dead);
	TAILQ_INIT(&l->starved);
	rpc_loop_init(&l->rpc, srv, NULL, &l->counters);
	l->receive_buf = malloc(LOOP_RECEIVE_BYTES);
	if (!l->receive_buf)
		ret = -ENOMEM;
	if (!ret)
		ret = init_base(l);
	if (ret) {
		loop_destroy(l);
		return ret;
	}
	*out = l;
	return 0;
}

void loop_destroy(struct loop *l)
{
	if (!l)
		return;
	if (l->base)
		event_base_free(l->base);
	rpc_loop_fini(&l->rpc);
	free(l->receive_buf);
	free(l);
}

static void publish_gauges(struct loop *l)
{
	counter_set(&l->counters.connections, l->n_conns);
	counter_set(&l->counters.requests, l->rpc.n_requests);
	counter_set(&l->counters.request_bytes, l->rpc.request_bytes);
}

static void end_iteration(struct loop *l)
{
	conn_flush_dirty(l);
	conn_feed_starved(l);
	fsc_thread_flush(l->rpc.thread.fsc);
	conn_free_dead(l);
	publish_gauges(l);
	if (l->iteration_start_ns)
		hist_add(&l->counters.iteration, clock_now_ns() - l->iteration_start_ns);
	l->iteration_start_ns = 0;
}

/* True when all has ended. Past the deadline, clients that do not read lose. */
static bool drained(struct loop *l, uint64_t deadline_ns)
{
	if (!TAILQ_EMPTY(&l->conns) && clock_now_ns() > deadline_ns)
		conn_close_all(l);
	conn_free_dead(l);
	return TAILQ_EMPTY(&l->conns) && !l->rpc.n_requests;
}

static void loop_run(struct loop *l)
{
	static const struct timeval drain_tick = {0, 100000};
	uint64_t deadline_ns = 0;

	for (;;) {
		if (event_base_loop(l->base, EVLOOP_ONCE) < 0) {
			log_error("event loop %u failed", l->index);
			return;
		}
		end_iteration(l);
		if (!l->stopping)
			continue;
		if (!deadline_ns) {
			deadline_ns = clock_now_ns() + DRAIN_NS;
			event_del(&l->tick_event);
			event_add(&l->tick_event, &drain_tick);
		}
		if (drained(l, deadline_ns))
			return;
	}
}

static void *loop_main(void *arg)
{
	struct loop *l = arg;

	pthread_setname_np(pthread_self(), "loop");
	l->start_result = init_on_thread(l);
	sem_post(&l->start_done);
	if (!l->start_result) {
		might_wait_set_loop(true);
		loop_run(l);
		might_wait_set_loop(false);
		/* Connections that were handed over too late. */
		fsc_thread_reap(l->rpc.thread.fsc);
	}
	fsc_thread_destroy(l->rpc.thread.fsc);
	l->rpc.thread.fsc = NULL;
	return NULL;
}

int loop_start(struct loop *l)
{
	int ret;

	sem_init(&l->start_done, 0, 0);
	ret = -pthread_create(&l->pthread, NULL, loop_main, l);
	if (!ret) {
		while (sem_wait(&l->start_done))
			; /* a signal */
		ret = l->start_result;
		if (ret)
			pthread_join(l->pthread, NULL);
	}
	sem_destroy(&l->start_done);
	l->started = !ret;
	return ret;
}

static void on_stop(struct fsc_msg *msg)
{
	struct loop *l = container_of(msg, struct loop, stop_msg);

	l->stopping = true;
	conn_stop_all(l);
}

void loop_stop(struct loop *l)
{
	l->stop_msg.fn = on_stop;
	fsc_thread_post(l->rpc.thread.fsc, &l->stop_msg);
}

void loop_join(struct loop *l)
{
	l->started = false;
	pthread_join(l->pthread, NULL);
}
