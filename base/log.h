/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log: one line a message, to stderr (with the journal's "<N>" priority
 * prefix when systemd reads it) or to a file. Any thread may log; a message is
 * one write(2), so lines never mix. Nothing is allocated.
 *
 * The log may be a pipe that nobody reads, or on a disk that is slow: loop threads
 * (base/lock.h) leave their lines to a thread, once log_start() has made it, and what
 * that does not write in time is left out, and counted.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Values are those of syslog(3). */
enum log_level {
	LOG_LVL_ERROR = 3,
	LOG_LVL_WARNING = 4,
	LOG_LVL_NOTICE = 5,
	LOG_LVL_INFO = 6,
	LOG_LVL_DEBUG = 7,
};

/*
 * Logs to the file at path (opened for appending), or to stderr when path is
 * NULL. Returns 0 or the error of open(2), and then logs as before.
 */
int log_open(const char *path);

/* Opens the log file again by name, after it was rotated. */
int log_reopen(void);

/* Errors of pthread_create(3): without it, all threads write their lines themselves. */
int log_start(void);

/* Returns when all is written. From then on all threads write their lines themselves. */
void log_stop(void);

void log_set_level(enum log_level level);

/* The name of a level ("error" ... "debug"), or -EINVAL. */
int log_level_parse(const char *name);

void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* How many errors have been logged, so that a caller can tell whether what failed has said why. */
uint64_t log_error_count(void);

#define log_error(...)	 log_msg(LOG_LVL_ERROR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_LVL_WARNING, __VA_ARGS__)
#define log_notice(...)	 log_msg(LOG_LVL_NOTICE, __VA_ARGS__)
#define log_info(...)	 log_msg(LOG_LVL_INFO, __VA_ARGS__)
#define log_debug(...)	 log_msg(LOG_LVL_DEBUG, __VA_ARGS__)

/*
 * For messages that a remote client or a damaged volume can cause at will: at
 * most one for each interval_ns from each gate; says how many were left out.
 */
struct log_gate {
	_Atomic uint64_t next_ns;
	_Atomic uint64_t dropped;
};

/* True when a message may be logged now; *dropped counts those left out. */
bool log_gate_pass(struct log_gate *gate, uint64_t interval_ns, uint64_t *dropped);

#define LOG_RATE_NS 1000000000u

#define log_limited(level, ...)                                                    \
	do {                                                                       \
		static struct log_gate gate_;                                      \
		uint64_t dropped_;                                                 \
		if (log_gate_pass(&gate_, LOG_RATE_NS, &dropped_)) {               \
			log_msg(level, __VA_ARGS__);                               \
			if (dropped_)                                              \
				log_msg(level, "(%llu similar messages left out)", \
					(unsigned long long)dropped_);             \
		}                                                                  \
	} while (0)

#endif
