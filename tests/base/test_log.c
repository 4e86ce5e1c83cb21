/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"

static char dir[64], path[80], rotated[96];

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/byre-test-log.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/log", dir);
	snprintf(rotated, sizeof(rotated), "%s/log.1", dir);
	return log_open(path);
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	unlink(rotated);
	return rmdir(dir);
}

/* The last line of a file without its newline, or "". */
static const char *last_line(const char *name)
{
	static char line[4096];
	FILE *f = fopen(name, "r");

	line[0] = '\0';
	if (!f)
		return line;
	while (fgets(line, sizeof(line), f))
		;
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static bool ends_with(const char *s, const char *end)
{
	return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

static void test_line_has_time_level_and_message(void **state)
{
	const char *line;

	(void)state;
	log_warning("volume %d is full", 7);
	line = last_line(path);
	assert_int_equal(line[4], '-');
	assert_int_equal(line[10], 'T');
	assert_true(ends_with(line, "Z warning: volume 7 is full"));
}

static void test_levels_below_the_set_one_are_dropped(void **state)
{
	(void)state;
	log_notice("kept");
	log_debug("dropped");
	assert_true(ends_with(last_line(path), "kept"));
	log_set_level(LOG_LVL_DEBUG);
	log_debug("now kept");
	log_set_level(LOG_LVL_INFO);
	assert_true(ends_with(last_line(path), "now kept"));
}

static void test_control_characters_do_not_break_the_line(void **state)
{
	(void)state;
	log_error("name a\nb\x1b[31m\x7f");
	assert_true(ends_with(last_line(path), "error: name a?b?[31m?"));
}

static void test_long_message_is_cut_and_still_one_line(void **state)
{
	char text[3000];
	const char *line;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error("%s", text);
	line = last_line(path);
	assert_in_range(strlen(line), 900, 1023);
	log_error("after it");
	assert_true(ends_with(last_line(path), "error: after it"));
}

static void test_reopen_follows_a_rotated_file(void **state)
{
	(void)state;
	log_info("old");
	assert_int_equal(rename(path, rotated), 0);
	log_info("still in the old file");
	assert_int_equal(log_reopen(), 0);
	log_info("new");
	assert_true(ends_with(last_line(rotated), "still in the old file"));
	assert_true(ends_with(last_line(path), "info: new"));
}

static void test_open_of_a_bad_path_fails_and_logs_as_before(void **state)
{
	(void)state;
	assert_int_equal(log_open("/nonexistent/log"), -ENOENT);
	log_info("as before");
	assert_true(ends_with(last_line(path), "as before"));
}

static void test_level_names(void **state)
{
	(void)state;
	assert_int_equal(log_level_parse("error"), LOG_LVL_ERROR);
	assert_int_equal(log_level_parse("debug"), LOG_LVL_DEBUG);
	assert_int_equal(log_level_parse("loud"), -EINVAL);
	assert_int_equal(log_level_parse(""), -EINVAL);
}

static void test_gate_lets_one_pass_and_counts_the_others(void **state)
{
	struct log_gate gate = {0};
	uint64_t dropped = 99;

	(void)state;
	assert_true(log_gate_pass(&gate, 3600ull * 1000000000u, &dropped));
	assert_int_equal(dropped, 0);
	assert_false(log_gate_pass(&gate, 3600ull * 1000000000u, &dropped));
	assert_false(log_gate_pass(&gate, 3600ull * 1000000000u, &dropped));
	gate.next_ns = 0; /* an hour later */
	assert_true(log_gate_pass(&gate, 0, &dropped));
	assert_int_equal(dropped, 2);
}

#define LINES 3000

/* A pipe that is full: who reads it does not. */
static int make_full_pipe(const char *name)
{
	static const char fill[4096] = {'\n'};
	int fd;

	assert_int_equal(mkfifo(name, 0600), 0);
	fd = open(name, O_RDWR | O_NONBLOCK);
	assert_true(fd >= 0);
	while (write(fd, fill, sizeof(fill)) > 0)
		;
	return fd;
}

/* What follows each place of `what` in text, added up; or how many there are. */
static unsigned count(const char *text, const char *what, bool sum)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n += sum ? (unsigned)strtoul(at + strlen(what), NULL, 10) : 1;
	return n;
}

/* Reads until all lines are there or said to be left out; these are counted. */
static unsigned read_lines(int fd, unsigned n_lines)
{
	static char text[1 << 20];
	size_t len = 0;
	unsigned left_out = 0;

	while (count(text, "line number", false) + left_out < n_lines) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		assert_int_equal(poll(&p, 1, 10000), 1);
		n = read(fd, text + len, sizeof(text) - 1 - len);
		assert_true(n > 0);
		/* What made it full comes first. */
		for (ssize_t k = 0; k < n; k++, len++)
			if (!text[len])
				text[len] = ' ';
		text[len] = '\0';
		left_out = count(text, "warning: (", true);
	}
	assert_int_equal(count(text, "line number", false) + left_out, n_lines);
	return left_out;
}

static void test_loop_thread_does_not_wait_for_the_log(void **state)
{
	unsigned left_out;
	char fifo[80];
	int fd;

	(void)state;
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	fd = make_full_pipe(fifo);
	assert_int_equal(log_open(fifo), 0);
	assert_int_equal(log_start(), 0);
	alarm(20);
	might_wait_set_loop(true);
	for (unsigned i = 0; i < LINES; i++)
		log_notice("line number %u of those of a loop", i);
	might_wait_set_loop(false);
	alarm(0);
	left_out = read_lines(fd, LINES);
	log_stop();
	assert_true(left_out > 0 && left_out < LINES);
	/* Without it, and without being a loop, at once. */
	log_notice("again");
	assert_true(read(fd, fifo, 1) == 1);
	close(fd);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	unlink(fifo);
	assert_int_equal(log_open(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_has_time_level_and_message),
		cmocka_unit_test(test_levels_below_the_set_one_are_dropped),
		cmocka_unit_test(test_control_characters_do_not_break_the_line),
		cmocka_unit_test(test_long_message_is_cut_and_still_one_line),
		cmocka_unit_test(test_reopen_follows_a_rotated_file),
		cmocka_unit_test(test_open_of_a_bad_path_fails_and_logs_as_before),
		cmocka_unit_test(test_level_names),
		cmocka_unit_test(test_gate_lets_one_pass_and_counts_the_others),
		cmocka_unit_test(test_loop_thread_does_not_wait_for_the_log),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
