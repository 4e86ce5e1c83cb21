/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
