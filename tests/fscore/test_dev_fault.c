/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/io/dev.h"

#define DEV_BYTES (1u << 20)
#define SECTOR	  4096u

static struct fsc_thread *thread;
static struct dev *mem, *fault;
static uint8_t buf[4 * SECTOR];

static int setup(void **state)
{
	(void)state;
	memset(buf, 1, sizeof(buf));
	return fsc_thread_create(&thread) || dev_mem_create(NULL, DEV_BYTES, &mem) ||
		dev_fault_create(mem, &fault);
}

static int teardown(void **state)
{
	(void)state;
	dev_destroy(fault); /* and mem */
	fsc_thread_destroy(thread);
	return 0;
}

static int write_at(uint64_t physical)
{
	return dev_rw_sync(fault, thread, IO_WRITE, physical, buf, sizeof(buf));
}

static int read_at(uint64_t physical)
{
	return dev_rw_sync(fault, thread, IO_READ, physical, buf, sizeof(buf));
}

static const uint8_t *data(void)
{
	return dev_mem_data(mem);
}

static void add(struct fault_rule rule)
{
	assert_int_equal(dev_fault_add(fault, &rule), 0);
}

static void test_no_rules_passes_all(void **state)
{
	(void)state;
	assert_int_equal(write_at(SECTOR), 0);
	assert_int_equal(data()[SECTOR], 1);
	assert_int_equal(data()[0], 0);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(read_at(SECTOR), 0);
	assert_int_equal(buf[sizeof(buf) - 1], 1);
	assert_int_equal(dev_rw_sync(fault, thread, IO_FLUSH, 0, NULL, 0), 0);
	assert_int_equal(dev_fault_seen(fault, IO_READ), 1);
	assert_int_equal(dev_fault_seen(fault, IO_WRITE), 1);
	assert_int_equal(dev_fault_seen(fault, IO_FLUSH), 1);
}

static void test_error_does_nothing_and_fails(void **state)
{
	(void)state;
	add((struct fault_rule){.op[IO_WRITE] = true, .action = FAULT_ERROR, .error = -ENOSPC});
	assert_int_equal(write_at(0), -ENOSPC);
	assert_int_equal(data()[0], 0);
	assert_int_equal(read_at(0), 0);
	assert_int_equal(fault->stats.write_errors, 1);
}

static void test_error_skip_and_count_hit_some(void **state)
{
	(void)state;
	add((struct fault_rule){.op[IO_READ] = true, .skip = 2, .count = 1, .error = -EIO});
	assert_int_equal(read_at(0), 0);
	assert_int_equal(read_at(0), 0);
	assert_int_equal(read_at(0), -EIO);
	assert_int_equal(read_at(0), 0);
}

static void test_error_range_hits_what_touches_it(void **state)
{
	(void)state;
	add((struct fault_rule){
		.op = {true, true, true}, .first = 8 * SECTOR, .end = 9 * SECTOR, .error = -EIO});
	assert_int_equal(read_at(4 * SECTOR), 0);
	assert_int_equal(read_at(5 * SECTOR), -EIO);
	assert_int_equal(read_at(8 * SECTOR), -EIO);
	assert_int_equal(read_at(9 * SECTOR), 0);
	assert_int_equal(dev_rw_sync(fault, thread, IO_FLUSH, 0, NULL, 0), 0);
}

static void test_rules_first_that_matches_applies(void **state)
{
	(void)state;
	add((struct fault_rule){.op[IO_READ] = true, .skip = 1, .error = -EIO});
	add((struct fault_rule){.op[IO_READ] = true, .error = -ENOMEM});
	assert_int_equal(read_at(0), -ENOMEM);
	assert_int_equal(read_at(0), -EIO);
	dev_fault_clear(fault);
	assert_int_equal(read_at(0), 0);
}

static void test_torn_write_keeps_the_front(void **state)
{
	(void)state;
	add((struct fault_rule){
		.op[IO_WRITE] = true, .action = FAULT_TORN, .bytes = 5000, .error = -EIO});
	assert_int_equal(write_at(0), -EIO);
	assert_int_equal(data()[4999], 1);
	assert_int_equal(data()[5000], 0);
}

static void test_torn_write_of_nothing_keeps_nothing(void **state)
{
	(void)state;
	add((struct fault_rule){.op[IO_WRITE] = true, .action = FAULT_TORN, .error = -EIO});
	assert_int_equal(write_at(0), -EIO);
	assert_int_equal(data()[0], 0);
}

static void test_corrupt_read_inverts_one_byte(void **state)
{
	(void)state;
	assert_int_equal(write_at(0), 0);
	add((struct fault_rule){.op = {true, true, false}, .action = FAULT_CORRUPT, .bytes = 6000});
	assert_int_equal(read_at(0), 0);
	assert_int_equal(buf[5999], 1);
	assert_int_equal(buf[6000], 0xfe);
	assert_int_equal(buf[6001], 1);
	assert_int_equal(data()[6000], 1);
}

static unsigned n_done;

static void count_done(struct io_req *req)
{
	(void)req;
	n_done++;
}

static void test_hold_completes_when_released(void **state)
{
	struct iovec iov = {buf, sizeof(buf)};
	struct io_req req = {
		.op = IO_WRITE,
		.iov = &iov,
		.n_iov = 1,
		.len_bytes = sizeof(buf),
		.done = count_done,
	};

	(void)state;
	n_done = 0;
	add((struct fault_rule){.op[IO_WRITE] = true, .action = FAULT_HOLD, .count = 1});
	dev_submit(fault, thread, &req);
	/* Others pass by. */
	assert_int_equal(read_at(0), 0);
	assert_int_equal(n_done, 0);
	assert_int_equal(data()[0], 0);
	memset(buf, 1, sizeof(buf));
	dev_fault_release(fault);
	while (!n_done)
		fsc_thread_wait(thread);
	assert_int_equal(req.status, 0);
	assert_int_equal(data()[0], 1);
}

static void test_two_stacked_both_apply(void **state)
{
	struct dev *outer;

	(void)state;
	assert_int_equal(dev_fault_create(fault, &outer), 0);
	add((struct fault_rule){.op[IO_WRITE] = true, .error = -EIO});
	assert_int_equal(dev_rw_sync(outer, thread, IO_WRITE, 0, buf, sizeof(buf)), -EIO);
	assert_int_equal(dev_rw_sync(outer, thread, IO_READ, 0, buf, sizeof(buf)), 0);
	dev_destroy(outer); /* and fault */
	fault = NULL;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_no_rules_passes_all),
		CASE(test_error_does_nothing_and_fails),
		CASE(test_error_skip_and_count_hit_some),
		CASE(test_error_range_hits_what_touches_it),
		CASE(test_rules_first_that_matches_applies),
		CASE(test_torn_write_keeps_the_front),
		CASE(test_torn_write_of_nothing_keeps_nothing),
		CASE(test_corrupt_read_inverts_one_byte),
		CASE(test_hold_completes_when_released),
		CASE(test_two_stacked_both_apply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
