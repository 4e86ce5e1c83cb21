/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "server/options.h"

/* Runs fn with stderr in a file; what came there. */
static char said[4096];

static int saved_stderr;
static FILE *capture;

static void capture_begin(void)
{
	fflush(stderr);
	capture = tmpfile();
	assert_non_null(capture);
	saved_stderr = dup(STDERR_FILENO);
	dup2(fileno(capture), STDERR_FILENO);
}

static void capture_end(void)
{
	size_t n;

	fflush(stderr);
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	rewind(capture);
	n = fread(said, 1, sizeof(said) - 1, capture);
	said[n] = '\0';
	fclose(capture);
}

static int read_text(struct srv_config *c, const char *text)
{
	char path[] = "/tmp/byred-test-XXXXXX";
	int fd = mkstemp(path), ret;
	size_t len = strlen(text);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
	assert_int_equal(srv_config_init(c), 0);
	capture_begin();
	ret = srv_config_read(c, path);
	capture_end();
	unlink(path);
	return ret;
}

static void test_config_reads_everything(void **state)
{
	struct srv_config c;

	(void)state;
	assert_int_equal(read_text(&c,
				 "volume = \"/dev/x\";\n"
				 "listen = [\"127.0.0.1:1\", \"[::1]:2\"];\n"
				 "socket = \"/run/s\"; cache = \"2G\"; workers = 3;\n"
				 "loops = 4; connections = 5; rpcbind = false; discard = true;\n"
				 "log = { file = \"/l\"; level = \"debug\"; };\n"
				 "exports = ( { name = \"/a\"; subvolume = \"/b\";\n"
				 "  options = \"rw\"; clients = (\"10.0.0.0/8(ro)\", \"*\"); },\n"
				 "  { subvolume = \"/\"; name = \"/\"; } );\n"),
		0);
	assert_string_equal(c.volume, "/dev/x");
	assert_int_equal(c.n_listen, 2);
	assert_string_equal(c.listen[1], "[::1]:2");
	assert_string_equal(c.socket, "/run/s");
	assert_int_equal(c.cache_bytes, 2ull << 30);
	assert_int_equal(c.workers, 3);
	assert_int_equal(c.loops, 4);
	assert_int_equal(c.connections, 5);
	assert_false(c.rpcbind);
	assert_true(c.discard);
	assert_string_equal(c.log_file, "/l");
	assert_int_equal(c.log_level, LOG_LVL_DEBUG);
	assert_int_equal(c.exports->n, 2);
	assert_int_equal(c.exports->list[0].n_clients, 2);
	assert_false(c.exports->list[0].clients[0].rules.writable);
	assert_true(c.exports->list[0].clients[1].rules.writable);
	assert_int_equal(srv_config_check(&c), 0);
	srv_config_fini(&c);
}

static void test_config_mistakes_name_line_and_what_was_expected(void **state)
{
	static const struct {
		const char *text, *line, *says;
	} cases[] = {
		{"volume = \"x\"\nvolumes = \"y\";", ":2: ", "unknown setting \"volumes\""},
		{"\nvolume = 5;", ":2: ", "volume: expected a string"},
		{"listen = \"here\";", ":1: ", "expected \"ADDRESS:PORT\""},
		{"listen = [\"1.2.3.4:5\", \"1.2.3.4:65536\"];",
			":1: ", "expected \"ADDRESS:PORT\""},
		{"workers = 0;", ":1: ", "workers: expected a number from 1 to"},
		{"cache = \"5X\";", ":1: ", "cache: expected a size"},
		{"rpcbind = 1;", ":1: ", "expected true or false"},
		{"discard = \"yes\";", ":1: ", "expected true or false"},
		{"log = { level = \"loud\"; };", ":1: ", "expected \"error\""},
		{"log = 5;", ":1: ", "expected a group"},
		{"exports = 5;", ":1: ", "expected a list"},
		{"exports = (\n{ name = \"/a\"; } );", ":2: ", "export without a subvolume"},
		{"exports = ( { name = \"/a\"; subvolume = \"/\";\nnoise = 1; } );",
			":2: ", "unknown setting \"noise\" of an export"},
		{"exports = ( { name = \"/a\"; subvolume = \"/\"; options = \"zz\"; } );",
			":1: ", "unknown option \"zz\""},
		{"exports = ( { name = \"/a\"; subvolume = \"/\"; clients = [ 1 ]; } );",
			":1: ", "expected a list of strings"},
		{"volume = ;", ":1: ", "syntax error"},
	};
	struct srv_config c;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_not_equal(read_text(&c, cases[i].text), 0);
		if (!strstr(said, cases[i].line) || !strstr(said, cases[i].says))
			fail_msg("%s\n-> %s", cases[i].text, said);
		srv_config_fini(&c);
	}
}

static enum options_result parse(struct srv_config *c, const char *const *argv)
{
	enum options_result r;
	int argc = 0;

	while (argv[argc])
		argc++;
	assert_int_equal(srv_config_init(c), 0);
	capture_begin();
	r = options_parse(argc, (char *const *)(uintptr_t)argv, c);
	capture_end();
	return r;
}

static void test_options_of_the_command_line(void **state)
{
	static const char *const argv[] = {"byred", "--volume", "/v", "--export", "/a=/,rw",
		"--export=/b=/x,client=10.0.0.0/8(ro,secure)", "--listen", "127.0.0.1:0", "--cache",
		"64M", "--workers", "2", "--loops", "1", "--foreground", "--no-rpcbind",
		"--discard", NULL};
	struct srv_config c;

	(void)state;
	assert_int_equal(parse(&c, argv), OPTIONS_RUN);
	assert_string_equal(c.volume, "/v");
	assert_int_equal(c.exports->n, 2);
	assert_int_equal(c.cache_bytes, 64 << 20);
	assert_int_equal(c.n_listen, 1);
	assert_int_equal(c.workers, 2);
	assert_int_equal(c.loops, 1);
	assert_false(c.rpcbind);
	assert_true(c.discard);
	srv_config_fini(&c);
}

static void test_options_mistakes_are_said(void **state)
{
	static const struct {
		const char *argv[6], *says;
	} cases[] = {
		{{"byred", "--volume", "/v", NULL}, "nothing is exported"},
		{{"byred", "--export", "/a=/", NULL}, "no volume"},
		{{"byred", "--export", "a", NULL}, "--export a: expected /NAME=SUBVOLUME"},
		{{"byred", "--listen", "x", NULL}, "--listen x: expected ADDRESS:PORT"},
		{{"byred", "--loops", "-1", NULL}, "--loops -1: expected a number"},
		{{"byred", "stray", NULL}, "unexpected argument \"stray\""},
		{{"byred", "--config", "/nonexistent", NULL}, "/nonexistent: cannot be read"},
	};
	struct srv_config c;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(&c, cases[i].argv), OPTIONS_BAD);
		if (!strstr(said, cases[i].says))
			fail_msg("\"%s\" instead of \"%s\"", said, cases[i].says);
		srv_config_fini(&c);
	}
}

static void test_size_units(void **state)
{
	static const char *const bad[] = {
		"", "M", "-1", "1MM", "1x", "99999999999999999999", "99999999999T", " 1", "1 "};
	uint64_t v;

	(void)state;
	assert_true(srv_config_parse_size("0", &v) && v == 0);
	assert_true(srv_config_parse_size("1k", &v) && v == 1024);
	assert_true(srv_config_parse_size("3T", &v) && v == 3ull << 40);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(srv_config_parse_size(bad[i], &v));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config_reads_everything),
		cmocka_unit_test(test_config_mistakes_name_line_and_what_was_expected),
		cmocka_unit_test(test_options_of_the_command_line),
		cmocka_unit_test(test_options_mistakes_are_said),
		cmocka_unit_test(test_size_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
