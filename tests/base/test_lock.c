/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/lock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct short_lock low, high;
static struct long_lock tree;

static int set_up(void **state)
{
	(void)state;
	short_lock_init(&low, RANK_INODE_TABLE);
	short_lock_init(&high, RANK_PAGE_POOL);
	long_lock_init(&tree, RANK_TREE_ROOT);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	short_lock_fini(&low);
	short_lock_fini(&high);
	long_lock_fini(&tree);
	return 0;
}

/* Whether fn ends its process with abort(); it runs in a child. */
static bool aborts(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void take_ascending(void)
{
	long_lock_read(&tree);
	short_lock(&low);
	short_lock(&high);
	short_unlock(&low);
	short_unlock(&high);
	long_unlock(&tree);
}

static void take_descending(void)
{
	short_lock(&high);
	short_lock(&low);
}

static void try_descending(void)
{
	short_lock(&high);
	if (!short_trylock(&low) || !long_trylock_write(&tree))
		_exit(1);
	long_unlock(&tree);
	short_unlock(&low);
	short_unlock(&high);
}

static void free_what_is_not_held(void)
{
	long_lock_read(&tree);
	short_unlock(&low);
}

static void wait_on_a_loop_thread(void)
{
	might_wait_set_loop(true);
	long_lock_read(&tree);
}

static void test_ascending_ranks_pass(void **state)
{
	(void)state;
	assert_false(aborts(take_ascending));
}

static void test_tries_may_break_the_order(void **state)
{
	(void)state;
	assert_false(aborts(try_descending));
}

static void test_debug_build_aborts_on_misuse(void **state)
{
	(void)state;
#ifdef BYRE_DEBUG
	assert_true(aborts(take_descending));
	assert_true(aborts(free_what_is_not_held));
	assert_true(aborts(wait_on_a_loop_thread));
#else
	(void)take_descending;
	(void)free_what_is_not_held;
	(void)wait_on_a_loop_thread;
	skip();
#endif
}

static void test_tries_fail_on_a_held_lock(void **state)
{
	(void)state;
	short_lock(&low);
	assert_false(short_trylock(&low));
	short_unlock(&low);
	assert_true(long_trylock_read(&tree));
	assert_false(long_trylock_write(&tree));
	assert_true(long_trylock_read(&tree));
	long_unlock(&tree);
	long_unlock(&tree);
}

static void test_might_wait_counts_on_loop_threads_only(void **state)
{
	uint64_t before = might_wait_count();

	(void)state;
	might_wait("a test");
	assert_int_equal(might_wait_count(), before);
#ifndef BYRE_DEBUG
	might_wait_set_loop(true);
	assert_true(might_wait_is_loop());
	might_wait("a test");
	might_wait_set_loop(false);
	assert_int_equal(might_wait_count(), before + 1);
#endif
	assert_false(might_wait_is_loop());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ascending_ranks_pass),
		cmocka_unit_test(test_tries_may_break_the_order),
		cmocka_unit_test(test_debug_build_aborts_on_misuse),
		cmocka_unit_test(test_tries_fail_on_a_held_lock),
		cmocka_unit_test(test_might_wait_counts_on_loop_threads_only),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
