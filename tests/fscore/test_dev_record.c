/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "fscore/io/dev.h"

#define DEV_BYTES (1u << 20)
#define SECTOR	  4096u

static struct fsc_thread *thread;
static struct dev *mem, *fault, *record;
static uint8_t buf[2 * SECTOR];

static int setup(void **state)
{
	(void)state;
	return fsc_thread_create(&thread) || dev_mem_create(NULL, DEV_BYTES, &mem) ||
		dev_fault_create(mem, &fault) || dev_record_create(fault, &record);
}

static int teardown(void **state)
{
	(void)state;
	dev_destroy(record); /* and fault, and mem */
	fsc_thread_destroy(thread);
	return 0;
}

static int write_at(uint64_t physical, uint8_t value)
{
	memset(buf, value, sizeof(buf));
	return dev_rw_sync(record, thread, IO_WRITE, physical, buf, sizeof(buf));
}

static struct record_entry entry(size_t i)
{
	struct record_entry e;

	dev_record_entry(record, i, &e);
	return e;
}

/* More than the first few, for which there is room from the start. */
static void test_writes_replayed_give_the_same_disk(void **state)
{
	static uint8_t replayed[DEV_BYTES];

	(void)state;
	for (unsigned i = 0; i < 500; i++)
		assert_int_equal(write_at(i * 37 % 250 * SECTOR, (uint8_t)i), 0);
	assert_int_equal(dev_rw_sync(record, thread, IO_READ, 0, buf, sizeof(buf)), 0);
	assert_int_equal(dev_record_count(record), 500);
	for (size_t i = 0; i < dev_record_count(record); i++) {
		struct record_entry e = entry(i);

		assert_int_equal(e.op, IO_WRITE);
		memcpy(replayed + e.physical, e.data, e.len_bytes);
	}
	assert_memory_equal(replayed, dev_mem_data(mem), DEV_BYTES);
}

static void test_failed_write_is_not_recorded(void **state)
{
	struct fault_rule rule = {.op[IO_WRITE] = true, .count = 1, .error = -EIO};

	(void)state;
	assert_int_equal(dev_fault_add(fault, &rule), 0);
	assert_int_equal(write_at(0, 1), -EIO);
	assert_int_equal(dev_record_count(record), 0);
	assert_int_equal(write_at(0, 2), 0);
	assert_int_equal(dev_record_count(record), 1);
}

static void ignore_done(struct io_req *req)
{
	(void)req;
}

static void test_durable_write_is_marked(void **state)
{
	struct iovec iov = {buf, SECTOR};
	struct io_req write = {.op = IO_WRITE,
		.iov = &iov,
		.n_iov = 1,
		.len_bytes = SECTOR,
		.fua = true,
		.done = ignore_done};

	(void)state;
	assert_int_equal(write_at(0, 1), 0);
	dev_submit(record, thread, &write);
	while (dev_record_count(record) < 2)
		fsc_thread_wait(thread);
	assert_false(entry(0).fua);
	assert_true(entry(1).fua);
}

/* A write that completes while the flush is under way is not made durable by it. */
static void test_flush_covers_what_was_complete_before(void **state)
{
	struct fault_rule rule = {.op[IO_FLUSH] = true, .action = FAULT_HOLD, .count = 1};
	struct io_req flush = {.op = IO_FLUSH, .done = ignore_done};

	(void)state;
	assert_int_equal(dev_fault_add(fault, &rule), 0);
	assert_int_equal(write_at(0, 1), 0);
	dev_submit(record, thread, &flush);
	assert_int_equal(write_at(SECTOR, 2), 0);
	dev_fault_release(fault);
	while (dev_record_count(record) < 3)
		fsc_thread_wait(thread);
	assert_int_equal(entry(2).op, IO_FLUSH);
	assert_int_equal(entry(2).covers, 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_writes_replayed_give_the_same_disk),
		CASE(test_failed_write_is_not_recorded),
		CASE(test_durable_write_is_marked),
		CASE(test_flush_covers_what_was_complete_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
