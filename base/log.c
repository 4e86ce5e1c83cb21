/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"

#define LINE_BYTES 1024

static const char *const level_names[] = {
	[LOG_LVL_ERROR] = "error",
	[LOG_LVL_WARNING] = "warning",
	[LOG_LVL_NOTICE] = "notice",
	[LOG_LVL_INFO] = "info",
	[LOG_LVL_DEBUG] = "debug",
};

/* Immutable but for log_open() and log_reopen(), which the main thread calls. */
static char log_path[PATH_MAX];
static _Atomic int log_fd = STDERR_FILENO;
static _Atomic int log_level = LOG_LVL_INFO;
static _Atomic uint64_t n_errors;

static int open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	int old;

	if (fd < 0)
		return -errno;
	old = atomic_load(&log_fd);
	if (old == STDERR_FILENO) {
		atomic_store(&log_fd, fd);
		return 0;
	}
	/* The number stays, so that a thread in the middle of a write is safe. */
	if (dup3(fd, old, O_CLOEXEC) < 0) {
		int ret = -errno;

		close(fd);
		return ret;
	}
	close(fd);
	return 0;
}

int log_open(const char *path)
{
	int ret;

	if (!path)
		return 0;
	if (strlen(path) >= sizeof(log_path))
		return -ENAMETOOLONG;
	ret = open_file(path);
	if (!ret)
		strcpy(log_path, path);
	return ret;
}

int log_reopen(void)
{
	return log_path[0] ? open_file(log_path) : 0;
}

void log_set_level(enum log_level level)
{
	atomic_store(&log_level, (int)level);
}

int log_level_parse(const char *name)
{
	for (int i = LOG_LVL_ERROR; i <= LOG_LVL_DEBUG; i++)
		if (!strcmp(name, level_names[i]))
			return i;
	return -EINVAL;
}

static size_t put_prefix(char *line, enum log_level level)
{
	struct timespec now;
	struct tm tm;
	size_t n;

	if (!log_path[0]) {
		if (getenv("JOURNAL_STREAM"))
			return (size_t)snprintf(line, LINE_BYTES, "<%d>", (int)level);
		return (size_t)snprintf(line, LINE_BYTES, "byred: %s: ", level_names[level]);
	}
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(line, LINE_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	return n +
		(size_t)snprintf(line + n, LINE_BYTES - n, ".%03ldZ %s: ", now.tv_nsec / 1000000,
			level_names[level]);
}

/* ------------------------------------------------------------ lines of loop threads */

#define QUEUE_BYTES 65536u

/* A leaf below all ranked locks: lines are logged under any of them. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	/* guarded by mutex */
	bool runs, stop;
	char lines[QUEUE_BYTES];
	size_t len;
	uint64_t dropped;
	/* owned by who starts and stops */
	pthread_t thread;
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void write_all(const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(atomic_load(&log_fd), p, len);

		if (n < 0 && errno != EINTR)
			return; /* There is nowhere to report it. */
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
}

/* True when the line was taken, or left out: the caller must not wait for the log. */
static bool leave_to_writer(const char *line, size_t len)
{
	bool taken;

	if (!might_wait_is_loop())
		return false;
	pthread_mutex_lock(&queue.mutex);
	taken = queue.runs;
	if (taken && len > QUEUE_BYTES - queue.len) {
		queue.dropped++;
	} else if (taken) {
		memcpy(queue.lines + queue.len, line, len);
		queue.len += len;
		pthread_cond_signal(&queue.changed);
	}
	pthread_mutex_unlock(&queue.mutex);
	return taken;
}

static void *writer_main(void *arg)
{
	static char lines[QUEUE_BYTES];
	uint64_t dropped;
	size_t len;

	pthread_mutex_lock(&queue.mutex);
	while (queue.len || !queue.stop) {
		if (!queue.len) {
			pthread_cond_wait(&queue.changed, &queue.mutex);
			continue;
		}
		len = queue.len;
		memcpy(lines, queue.lines, len);
		dropped = queue.dropped;
		queue.len = queue.dropped = 0;
		pthread_mutex_unlock(&queue.mutex);
		write_all(lines, len);
		if (dropped)
			log_warning("(%llu messages left out: the log did not take them in time)",
				(unsigned long long)dropped);
		pthread_mutex_lock(&queue.mutex);
	}
	pthread_mutex_unlock(&queue.mutex);
	return arg;
}

int log_start(void)
{
	sigset_t all, saved;
	int ret;

	/* Signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	queue.stop = false;
	ret = pthread_create(&queue.thread, NULL, writer_main, NULL);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_mutex_lock(&queue.mutex);
	queue.runs = !ret;
	pthread_mutex_unlock(&queue.mutex);
	return -ret;
}

void log_stop(void)
{
	bool runs;

	pthread_mutex_lock(&queue.mutex);
	runs = queue.runs;
	queue.runs = false;
	queue.stop = true;
	pthread_cond_signal(&queue.changed);
	pthread_mutex_unlock(&queue.mutex);
	if (runs)
		pthread_join(queue.thread, NULL);
}

/* -------------------------------------------------------------------------- lines */

void log_msg(enum log_level level, const char *fmt, ...)
{
	char line[LINE_BYTES];
	va_list ap;
	size_t n;
	int len;

	if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
		return;
	if (level == LOG_LVL_ERROR)
		atomic_fetch_add_explicit(&n_errors, 1, memory_order_relaxed);
	n = put_prefix(line, level);
	va_start(ap, fmt);
	len = vsnprintf(line + n, LINE_BYTES - n - 1, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	n += (size_t)len < LINE_BYTES - n - 1 ? (size_t)len : LINE_BYTES - n - 2;
	/* Names from clients and volumes may hold anything: keep it one line. */
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	if (!leave_to_writer(line, n))
		write_all(line, n);
}

bool log_gate_pass(struct log_gate *gate, uint64_t interval_ns, uint64_t *dropped)
{
	uint64_t now = clock_now_ns();
	uint64_t next = atomic_load_explicit(&gate->next_ns, memory_order_relaxed);

	if (now < next ||
		!atomic_compare_exchange_strong(&gate->next_ns, &next, now + interval_ns)) {
		atomic_fetch_add_explicit(&gate->dropped, 1, memory_order_relaxed);
		return false;
	}
	*dropped = atomic_exchange_explicit(&gate->dropped, 0, memory_order_relaxed);
	return true;
}

uint64_t log_error_count(void)
{
	return atomic_load_explicit(&n_errors, memory_order_relaxed);
}
