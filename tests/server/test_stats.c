/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/stats.c and ctl/ctl.c: the names are what scripts read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/ctl/ctl.h"
#include "server/daemon.h"
#include "server/loop.h"
#include "tests/server/rpc_client.h"

static const char *const exports[] = {"/e=/,no_root_squash", NULL};

struct rig {
	struct world *w;
	struct loop *loop;
	struct daemon d;
};

static void rig_begin(struct rig *r)
{
	const struct loop_limits limits = {.connections = 1, .memory_bytes = 1 << 20};

	memset(r, 0, sizeof(*r));
	r->w = world_begin(exports, 1);
	assert_int_equal(loop_create(&r->w->srv, 0, &limits, &r->loop), 0);
	r->d.srv = r->w->srv;
	r->d.loops = &r->loop;
	r->d.n_loops = 1;
}

static void rig_end(struct rig *r)
{
	loop_destroy(r->loop);
	world_end(r->w);
}

/* The number at a path of names; -1: there is none. */
static double number(const json_t *o, const char *const *names)
{
	for (; *names && o; names++)
		o = json_object_get(o, *names);
	return o ? json_number_value(o) : -1;
}

#define NUMBER(o, ...) number(o, (const char *const[]){__VA_ARGS__, NULL})

static void check(const char *text)
{
	json_t *o = json_loads(text, 0, NULL);

	assert_non_null(o);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "calls") == 10);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "errors") == 1);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "inline") == 5);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "async") == 3);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "fell_back") == 2);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "fell_back_why", "cache") == 2);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "latency", "count") == 1);
	assert_true(NUMBER(o, "operations", "nfs3", "read", "latency", "p999_us") >= 50);
	assert_true(NUMBER(o, "operations", "nfs3", "lookup", "calls") == -1);
	assert_true(NUMBER(o, "connections", "sent_bytes") == 77);
	assert_true(NUMBER(o, "loops", "iteration", "count") == 0);
	assert_true(NUMBER(o, "loops", "might_wait") == 0);
	assert_true(NUMBER(o, "workers", "count") == 1);
	assert_true(NUMBER(o, "caches", "metadata", "hit_rate") == 0.75);
	assert_true(NUMBER(o, "device", "read_bytes") == 4096);
	json_decref(o);
}

static void set_counters(struct rig *r)
{
	struct op_counters *c = &r->loop->counters.op[NFS3_READ];

	counter_add(&c->calls, 10);
	counter_add(&c->errors, 1);
	counter_add(&c->done_inline, 5);
	counter_add(&c->done_async, 3);
	counter_add(&c->done_worker, 2);
	counter_add(&c->blocked[FSC_BLOCKED_CACHE], 2);
	hist_add(&c->latency, 50000);
	counter_add(&r->loop->counters.sent_bytes, 77);
}

static void test_stats_names_and_sums(void **state)
{
	struct rig r;
	char *text;

	(void)state;
	rig_begin(&r);
	set_counters(&r);
	text = ctl_stats(&r.d);
	assert_non_null(text);
	check(text);
	free(text);
	rig_end(&r);
}

static size_t ask(const char *path, const char *line, char *answer, size_t size)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	size_t len = 0;
	ssize_t n;

	strcpy(addr.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(write(fd, line, strlen(line)), strlen(line));
	while ((n = read(fd, answer + len, size - 1 - len)) > 0)
		len += (size_t)n;
	answer[len] = '\0';
	close(fd);
	return len;
}

static void test_ctl_answers_on_its_socket(void **state)
{
	static char answer[1 << 20];
	char dir[] = "/tmp/byred-test-XXXXXX", path[64];
	struct ctl *ctl;
	struct rig r;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/ctl", dir);
	rig_begin(&r);
	set_counters(&r);
	/* Twice: the second finds what the first has left, if it left something. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ctl_create(&r.d, path, &ctl), 0);
		ask(path, "stats\n", answer, sizeof(answer));
		check(answer);
		ask(path, "nonsense\n", answer, sizeof(answer));
		assert_non_null(strstr(answer, "unknown command"));
		ctl_destroy(ctl);
		assert_int_not_equal(access(path, F_OK), 0);
	}
	rig_end(&r);
	rmdir(dir);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stats_names_and_sums),
		cmocka_unit_test(test_ctl_answers_on_its_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
