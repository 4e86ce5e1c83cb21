/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/jobs.h"

#define JOBS 300

static struct job jobs[JOBS];

static void add(struct job_queues *q, int i, uint64_t tenant, uint32_t cost)
{
	jobs[i] = (struct job){.tenant = tenant, .cost = cost};
	assert_int_equal(job_queues_add(q, &jobs[i]), 0);
}

static void test_job_queues_one_tenant_keeps_order(void **state)
{
	struct job_queues *q = job_queues_create(100);

	(void)state;
	for (int i = 0; i < 50; i++)
		add(q, i, 1, 1 + (uint32_t)i % 40);
	for (int i = 0; i < 50; i++)
		assert_ptr_equal(job_queues_next(q), &jobs[i]);
	assert_null(job_queues_next(q));
	for (int i = 0; i < 50; i++)
		job_queues_done(q, 1);
	job_queues_destroy(q);
}

static void test_job_queues_late_tenant_does_not_wait_for_the_first(void **state)
{
	struct job_queues *q = job_queues_create(100);
	int at = 0;

	(void)state;
	for (int i = 0; i < 200; i++)
		add(q, i, 1, JOBS_QUANTUM);
	add(q, 200, 2, JOBS_QUANTUM);
	while (job_queues_next(q) != &jobs[200])
		at++;
	assert_true(at <= 1);
	job_queues_destroy(q);
}

/* Small jobs of one against big jobs of another: equal work, not equal numbers. */
static void test_job_queues_shares_follow_cost(void **state)
{
	struct job_queues *q = job_queues_create(1000);
	uint64_t work[2] = {0, 0};

	(void)state;
	for (int i = 0; i < 250; i++)
		add(q, i, 0, 1);
	for (int i = 250; i < 300; i++)
		add(q, i, 1, 5 * JOBS_QUANTUM);
	for (int i = 0; i < 200; i++) {
		struct job *j = job_queues_next(q);

		work[j->tenant] += j->cost;
		if (work[0] >= 240)
			break;
	}
	assert_true(work[1] + 5 * JOBS_QUANTUM >= work[0]);
	assert_true(work[0] + 5 * JOBS_QUANTUM + JOBS_QUANTUM >= work[1]);
	job_queues_destroy(q);
}

static void test_job_queues_tenant_at_its_cap_waits(void **state)
{
	struct job_queues *q = job_queues_create(2);

	(void)state;
	for (int i = 0; i < 5; i++)
		add(q, i, 1, 1);
	assert_ptr_equal(job_queues_next(q), &jobs[0]);
	assert_ptr_equal(job_queues_next(q), &jobs[1]);
	assert_null(job_queues_next(q));
	add(q, 5, 2, 1);
	assert_ptr_equal(job_queues_next(q), &jobs[5]);
	assert_null(job_queues_next(q));
	job_queues_done(q, 1);
	assert_ptr_equal(job_queues_next(q), &jobs[2]);
	assert_null(job_queues_next(q));
	job_queues_done(q, 1);
	job_queues_done(q, 1);
	assert_ptr_equal(job_queues_next(q), &jobs[3]);
	assert_ptr_equal(job_queues_next(q), &jobs[4]);
	job_queues_done(q, 1);
	job_queues_done(q, 1);
	job_queues_done(q, 2);
	assert_null(job_queues_next(q));
	job_queues_destroy(q);
}

static void test_job_queues_thousand_tenants_each_get_a_turn(void **state)
{
	struct job_queues *q = job_queues_create(1);
	uint8_t seen[JOBS] = {0};

	(void)state;
	for (int i = 0; i < JOBS; i++)
		add(q, i, 1000 + (uint64_t)i, JOBS_QUANTUM * 3);
	for (int i = 0; i < JOBS; i++)
		seen[job_queues_next(q)->tenant - 1000]++;
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(seen[i], 1);
	for (int i = 0; i < JOBS; i++)
		job_queues_done(q, 1000 + (uint64_t)i);
	job_queues_destroy(q);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_job_queues_one_tenant_keeps_order),
		cmocka_unit_test(test_job_queues_late_tenant_does_not_wait_for_the_first),
		cmocka_unit_test(test_job_queues_shares_follow_cost),
		cmocka_unit_test(test_job_queues_tenant_at_its_cap_waits),
		cmocka_unit_test(test_job_queues_thousand_tenants_each_get_a_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
