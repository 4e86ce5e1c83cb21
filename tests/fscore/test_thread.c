/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/util.h"
#include "fscore/fscore.h"

static int setup(void **state)
{
	return fsc_thread_create((struct fsc_thread **)state);
}

static int teardown(void **state)
{
	fsc_thread_destroy(*state);
	return 0;
}

struct note {
	struct fsc_msg msg;
	struct fsc_thread *thread;
	int *log; /* NULL: nothing more than to count */
	int value;
	int ran;
	struct note *then; /* posted, or waited for, when this one runs */
};

static void write_down(struct fsc_msg *msg)
{
	struct note *n = container_of(msg, struct note, msg);

	n->ran++;
	if (n->log) {
		int at = ++n->log[0];

		n->log[at] = n->value;
	}
}

static void post_again(struct fsc_msg *msg)
{
	struct note *n = container_of(msg, struct note, msg);

	n->ran++;
	if (n->then)
		fsc_thread_post(n->thread, &n->then->msg);
}

static void wait_for_next(struct fsc_msg *msg)
{
	struct note *n = container_of(msg, struct note, msg);

	n->ran++;
	while (!n->then->ran)
		fsc_thread_wait(n->thread);
}

static bool is_readable(struct fsc_thread *t)
{
	struct pollfd pfd = {.fd = fsc_thread_fd(t), .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

static void test_reap_nothing_returns_0(void **state)
{
	assert_false(is_readable(*state));
	assert_int_equal(fsc_thread_reap(*state), 0);
}

static void test_post_several_run_in_order(void **state)
{
	int log[11] = {0};
	struct note notes[10];

	for (int i = 0; i < 10; i++) {
		notes[i] = (struct note){.msg.fn = write_down, .log = log, .value = i};
		fsc_thread_post(*state, &notes[i].msg);
	}
	assert_true(is_readable(*state));
	assert_int_equal(fsc_thread_reap(*state), 10);
	assert_false(is_readable(*state));
	for (int i = 0; i < 10; i++)
		assert_int_equal(log[1 + i], i);
}

static void test_post_from_callback_runs_at_next_reap(void **state)
{
	struct note n = {.msg.fn = post_again, .thread = *state};

	n.then = &n;
	fsc_thread_post(*state, &n.msg);
	assert_int_equal(fsc_thread_reap(*state), 1);
	assert_true(is_readable(*state));
	n.then = NULL;
	assert_int_equal(fsc_thread_reap(*state), 1);
	assert_false(is_readable(*state));
}

/* Those that came along with the message that waits must run while it waits. */
static void test_wait_in_callback_runs_the_rest(void **state)
{
	struct note second = {.msg.fn = write_down};
	struct note first = {.msg.fn = wait_for_next, .thread = *state, .then = &second};

	fsc_thread_post(*state, &first.msg);
	fsc_thread_post(*state, &second.msg);
	fsc_thread_reap(*state);
	assert_int_equal(first.ran, 1);
	assert_int_equal(second.ran, 1);
}

/* As above, and one that is posted while the first has not returned. */
static void test_wait_in_callback_loses_no_message(void **state)
{
	struct note last = {.msg.fn = write_down};
	struct note second = {.msg.fn = post_again, .thread = *state, .then = &last};
	struct note first = {.msg.fn = wait_for_next, .thread = *state, .then = &second};

	fsc_thread_post(*state, &first.msg);
	fsc_thread_post(*state, &second.msg);
	while (!last.ran)
		fsc_thread_wait(*state);
}

static void test_wake_before_wait_returns(void **state)
{
	fsc_thread_wake(*state);
	fsc_thread_wait(*state);
}

static void test_wake_reaped_still_ends_wait(void **state)
{
	fsc_thread_wake(*state);
	fsc_thread_reap(*state);
	/* Or it would wait for ever. */
	fsc_thread_wait(*state);
}

#define POSTERS 4
#define POSTS	20000

struct poster {
	pthread_t id;
	struct fsc_thread *to;
	_Atomic int ran;
};

struct counted {
	struct fsc_msg msg;
	struct poster *poster;
};

static void count_run(struct fsc_msg *msg)
{
	struct counted *c = container_of(msg, struct counted, msg);
	struct poster *p = c->poster;

	free(c);
	atomic_fetch_add(&p->ran, 1);
}

static void *post_many(void *arg)
{
	struct poster *p = arg;

	for (int i = 0; i < POSTS; i++) {
		struct counted *c = malloc(sizeof(*c));

		*c = (struct counted){.msg.fn = count_run, .poster = p};
		fsc_thread_post(p->to, &c->msg);
	}
	return NULL;
}

static void test_post_from_threads_all_arrive(void **state)
{
	struct poster posters[POSTERS] = {0};
	int ran = 0;

	for (int i = 0; i < POSTERS; i++) {
		posters[i].to = *state;
		assert_int_equal(pthread_create(&posters[i].id, NULL, post_many, &posters[i]), 0);
	}
	while (ran < POSTERS * POSTS) {
		fsc_thread_wait(*state);
		ran = 0;
		for (int i = 0; i < POSTERS; i++)
			ran += atomic_load(&posters[i].ran);
	}
	for (int i = 0; i < POSTERS; i++)
		pthread_join(posters[i].id, NULL);
}

static void test_destroy_null_does_nothing(void **state)
{
	(void)state;
	fsc_thread_destroy(NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_reap_nothing_returns_0),
		CASE(test_post_several_run_in_order),
		CASE(test_post_from_callback_runs_at_next_reap),
		CASE(test_wait_in_callback_runs_the_rest),
		CASE(test_wait_in_callback_loses_no_message),
		CASE(test_wake_before_wait_returns),
		CASE(test_wake_reaped_still_ends_wait),
		CASE(test_post_from_threads_all_arrive),
		cmocka_unit_test(test_destroy_null_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
