/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "server/outq.h"

static unsigned given_back;

static void give_back(void *owner)
{
	assert_non_null(owner);
	given_back++;
}

static uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 31 + (at >> 8));
}

/* Takes up to len bytes from the front and checks them against the pattern from *at. */
static void take(struct outq *q, struct outq_pool *pool, size_t len, size_t *at)
{
	struct iovec iov[7];
	unsigned n = outq_front(q, iov, 7);
	size_t sent = 0;

	for (unsigned i = 0; i < n && sent < len; i++) {
		size_t k = MIN(iov[i].iov_len, len - sent);

		for (size_t b = 0; b < k; b++)
			assert_int_equal(((uint8_t *)iov[i].iov_base)[b], pattern(*at + b));
		*at += k;
		sent += k;
	}
	outq_sent(q, pool, sent);
}

static void test_outq_any_split_keeps_order_and_owners(void **state)
{
	static uint8_t data[1 << 20];
	struct outq_pool pool;
	struct outq q;
	size_t put = 0, got = 0;
	unsigned owners = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = pattern(i);
	given_back = 0;
	outq_pool_init(&pool, give_back);
	outq_init(&q);
	srand(1);
	while (put < sizeof(data) - 20000) {
		size_t len = 1 + (size_t)rand() % 700;

		memcpy(outq_reserve(&q, &pool, len), data + put, len);
		outq_commit(&q, len);
		put += len;
		if (rand() % 2) {
			struct iovec iov[3] = {{data + put, 100}, {data + put + 100, 4096},
				{data + put + 4196, 5000}};

			/* shorter than its pieces */
			assert_true(outq_add_pieces(&q, &pool, iov, 3, 6000, &q));
			put += 6000;
			owners++;
		}
		while (rand() % 3)
			take(&q, &pool, (size_t)rand() % 9000, &got);
		assert_int_equal(q.bytes, put - got);
	}
	while (q.bytes)
		take(&q, &pool, SIZE_MAX, &got);
	assert_int_equal(got, put);
	assert_int_equal(given_back, owners);
	assert_int_equal(pool.n_used, 0);
	assert_null(q.head);
	outq_pool_fini(&pool);
}

static void test_outq_clear_gives_back(void **state)
{
	static uint8_t data[8192];
	struct iovec iov = {data, sizeof(data)};
	struct outq_pool pool;
	struct outq q;

	(void)state;
	given_back = 0;
	outq_pool_init(&pool, give_back);
	outq_init(&q);
	for (int i = 0; i < 1000; i++)
		assert_true(outq_add_pieces(&q, &pool, &iov, 1, sizeof(data), &q));
	outq_sent(&q, &pool, 5 * sizeof(data) + 1);
	assert_int_equal(given_back, 5);
	outq_clear(&q, &pool);
	assert_int_equal(given_back, 1000);
	assert_int_equal(q.bytes, 0);
	assert_int_equal(pool.n_used, 0);
	outq_pool_fini(&pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outq_any_split_keeps_order_and_owners),
		cmocka_unit_test(test_outq_clear_gives_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
