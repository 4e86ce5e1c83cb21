/* SPDX-License-Identifier: GPL-2.0-or-later */
/* listener.c on a loop that does not run: what a start that fails leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "server/listener.h"
#include "server/loop.h"
#include "tests/server/rpc_client.h"

static const char *const exports[] = {"/e=/,rw", NULL};

static const struct loop_limits limits = {.connections = 1, .memory_bytes = 1 << 20};

static int n_events(const struct loop *l)
{
	return event_base_get_num_events(l->base, EVENT_BASE_COUNT_ADDED);
}

/* As when the control socket can't be made: no loop has run yet. */
static void test_listener_destroyed_unstopped_leaves_no_event(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct listener *listener;
	struct loop *loop;
	int before;

	(void)state;
	assert_int_equal(loop_create(&w->srv, 0, &limits, &loop), 0);
	before = n_events(loop);
	assert_int_equal(listener_create("127.0.0.1:0", &loop, 1, &listener), 0);
	assert_int_equal(n_events(loop), before + 1);
	assert_true(listener_port(listener) > 0);
	listener_destroy(listener);
	assert_int_equal(n_events(loop), before);
	loop_destroy(loop);
	world_end(w);
}

static void test_listener_that_cannot_be_made_leaves_nothing(void **state)
{
	struct world *w = world_begin(exports, 0);
	struct listener *first, *second;
	struct loop *loop;
	int before;

	(void)state;
	assert_int_equal(loop_create(&w->srv, 0, &limits, &loop), 0);
	assert_int_equal(listener_create("127.0.0.1:0", &loop, 1, &first), 0);
	before = n_events(loop);
	assert_int_equal(listener_create(listener_name(first), &loop, 1, &second), -EADDRINUSE);
	assert_int_equal(listener_create("nonsense", &loop, 1, &second), -EINVAL);
	assert_int_equal(n_events(loop), before);
	listener_destroy(first);
	loop_destroy(loop);
	world_end(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_listener_destroyed_unstopped_leaves_no_event),
		cmocka_unit_test(test_listener_that_cannot_be_made_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
