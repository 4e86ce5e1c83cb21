/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * byred. The main thread starts the daemon, waits for signals in an event base
 * of its own, and stops it.
 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "server/daemon.h"
#include "server/listener.h"
#include "server/notify.h"
#include "server/options.h"

static void on_stop(evutil_socket_t sig, short what, void *arg)
{
	(void)what;
	log_notice("signal %d: stopping", (int)sig);
	event_base_loopbreak(arg);
}

static void on_hup(evutil_socket_t sig, short what, void *arg)
{
	int ret = log_reopen();

	(void)sig;
	(void)what;
	(void)arg;
	if (ret)
		log_error("the log file cannot be opened again: %s", strerror(-ret));
}

static const struct {
	int signal;
	event_callback_fn fn;
} signals[] = {
	{SIGTERM, on_stop},
	{SIGINT, on_stop},
	{SIGHUP, on_hup},
};

/* From here on a signal waits for the event base, also during the start. */
static bool watch_signals(struct event_base *base, struct event *events[ARRAY_SIZE(signals)])
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		events[i] = evsignal_new(base, signals[i].signal, signals[i].fn, base);
		if (!events[i] || event_add(events[i], NULL))
			return false;
	}
	return true;
}

/* Threads inherit this: signals are for the main thread. */
static void block_signals(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, saved);
}

static int serve(struct daemon *d, const struct srv_config *config, struct event_base *base)
{
	sigset_t saved;
	int ret;

	block_signals(&saved);
	ret = daemon_start(d, config);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (ret)
		return ret;
	printf("ready nfs=%s\n", listener_name(d->listeners[0]));
	fflush(stdout);
	notify("READY=1");
	log_notice("serving %s (%s)", config->volume, listener_name(d->listeners[0]));
	event_base_dispatch(base);
	notify("STOPPING=1");
	return 0;
}

static int run(const struct srv_config *config)
{
	struct event *events[ARRAY_SIZE(signals)] = {NULL};
	struct daemon d = {.n_loops = 0};
	struct event_base *base = event_base_new();
	int ret = -1;

	log_set_level((enum log_level)config->log_level);
	if (log_open(config->log_file))
		log_error("%s: cannot be opened for the log", config->log_file);
	else if (base && watch_signals(base, events) && !log_start()) {
		ret = serve(&d, config, base);
		daemon_stop(&d);
		log_stop();
	}
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (events[i])
			event_free(events[i]);
	if (base)
		event_base_free(base);
	return ret;
}

int main(int argc, char **argv)
{
	struct srv_config config;
	int ret = 1;

	signal(SIGPIPE, SIG_IGN);
	if (srv_config_init(&config))
		return 1;
	switch (options_parse(argc, argv, &config)) {
	case OPTIONS_RUN:
		ret = run(&config) ? 1 : 0;
		break;
	case OPTIONS_EXIT_OK:
		ret = 0;
		break;
	case OPTIONS_BAD:
		break;
	}
	srv_config_fini(&config);
	return ret;
}
