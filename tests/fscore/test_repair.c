/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One copy of everything is damaged: what is read is repaired on disk. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/io/chunk_map.h"
#include "tests/fscore/writing.h"

#define FILES	   40u
#define MAX_CHUNKS 16u
#define SECTOR	   4096u
#define MAX_PASSES 10u

static struct {
	struct model models[FILES];
	struct chunk chunks[MAX_CHUNKS];
	unsigned n_chunks;
} t;

/* Large ones, small ones, compressed ones, in place. */
static void make_files(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		struct model *m = &t.models[i];
		char name[32];

		snprintf(name, sizeof(name), "file-%u", i);
		model_create(m, w.root, name, 600000);
		if (i % 4 == 1)
			assert_int_equal(
				fsc_setxattr(&w.ctx, m->inode, "btrfs.compression", "zlib", 4, 0),
				0);
		model_write(m, 0, i % 4 ? i * 13000 + 100 : i + 1,
			i % 4 == 1 ? BYTES_TEXT : BYTES_RANDOM, i);
		model_close(m);
	}
}

static void find_chunks(void)
{
	struct chunk chunk;

	t.n_chunks = 0;
	for (uint64_t at = 0; chunk_map_next(&w.vol->chunks, at, &chunk);
		at = chunk.logical + chunk.length_bytes) {
		assert_true(t.n_chunks < MAX_CHUNKS);
		assert_int_equal(chunk.n_mirrors, 2);
		t.chunks[t.n_chunks++] = chunk;
	}
}

static bool is_zero(const uint8_t *data, size_t n)
{
	return !data[0] && !memcmp(data, data + 1, n - 1);
}

/* Calls fn for each sector of the data (or metadata) chunks that has anything in it, in copy 1. */
static unsigned for_each_sector(
	bool data, void (*fn)(int fd, uint64_t first, const uint8_t *second))
{
	int fd = open(w.path, O_RDWR | O_CLOEXEC);
	uint8_t buf[SECTOR];
	unsigned n = 0;

	assert_true(fd >= 0);
	for (unsigned i = 0; i < t.n_chunks; i++) {
		const struct chunk *c = &t.chunks[i];

		if (!(c->type & BTRFS_BLOCK_GROUP_DATA) == data)
			continue;
		for (uint64_t at = 0; at < c->length_bytes; at += SECTOR) {
			assert_int_equal(
				pread(fd, buf, SECTOR, (off_t)(c->physical[1] + at)), SECTOR);
			if (is_zero(buf, SECTOR))
				continue;
			fn(fd, c->physical[0] + at, buf);
			n++;
		}
	}
	close(fd);
	return n;
}

static void damage(int fd, uint64_t first, const uint8_t *second)
{
	uint8_t bad[SECTOR];

	memcpy(bad, second, SECTOR);
	bad[first / SECTOR % SECTOR] ^= 0x55;
	assert_int_equal(pwrite(fd, bad, SECTOR, (off_t)first), SECTOR);
}

static void expect_equal(int fd, uint64_t first, const uint8_t *second)
{
	uint8_t buf[SECTOR];

	assert_int_equal(pread(fd, buf, SECTOR, (off_t)first), SECTOR);
	assert_memory_equal(buf, second, SECTOR);
}

static void read_all(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		model_open(&t.models[i]);
		model_compare(&t.models[i]);
		model_close(&t.models[i]);
	}
}

/* Returns how many sectors of data had a copy damaged. */
static unsigned make_damaged(void)
{
	unsigned n;

	writing_make("-n 4096 -m dup -d dup");
	make_files();
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	find_chunks();
	writing_shut();
	n = for_each_sector(true, damage);
	assert_true(n > 500);
	return n;
}

static void test_what_is_read_is_repaired(void **state)
{
	struct fsc_stats stats;
	unsigned passes = 0, n;

	(void)state;
	n = make_damaged();
	assert_true(for_each_sector(false, damage) > 20);
	/* What the queue of blocks to be repaired does not hold is found in the next pass. */
	do {
		assert_true(passes++ < MAX_PASSES);
		writing_load();
		read_all();
		fsc_stats(w.vol, &stats);
		if (passes == 1) {
			assert_true(stats.meta_errors > 0);
			assert_true(stats.csum_errors > n / 2);
		}
		printf("# pass %u: %llu bad copies, %llu repaired\n", passes,
			(unsigned long long)stats.meta_errors + stats.csum_errors,
			(unsigned long long)stats.repaired);
		writing_shut();
	} while (stats.meta_errors + stats.csum_errors);
	assert_true(passes > 1);
	for_each_sector(true, expect_equal);
	writing_load();
	read_all();
	writing_end();
	for (unsigned i = 0; i < FILES; i++)
		free(t.models[i].bytes);
}

/* What is on disk stays as it is where nothing may be written. */
static void test_nothing_is_repaired_read_only(void **state)
{
	struct fsc_stats stats;
	unsigned n;

	(void)state;
	n = make_damaged();
	writing_load_read_only();
	read_all();
	fsc_stats(w.vol, &stats);
	assert_true(stats.csum_errors > n / 2);
	assert_int_equal(stats.repaired, 0);
	assert_int_equal(stats.dev_writes, 0);
	writing_shut();
	unlink(w.path);
	for (unsigned i = 0; i < FILES; i++)
		free(t.models[i].bytes);
}

/* The device takes no write: the read is good all the same. */
static void test_a_repair_that_fails_harms_no_read(void **state)
{
	struct fault_rule rule = {
		.op[IO_WRITE] = true, .action = FAULT_ERROR, .error = -EIO, .count = 0};
	struct fsc_stats stats;

	(void)state;
	writing_make("-n 4096 -m dup -d dup");
	make_files();
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	find_chunks();
	writing_shut();
	for_each_sector(true, damage);
	writing_load();
	assert_int_equal(dev_fault_add(w.fault, &rule), 0);
	read_all();
	fsc_stats(w.vol, &stats);
	assert_int_equal(stats.repaired, 0);
	assert_true(stats.dev_write_errors > 0);
	writing_shut();
	/* Without that fault it is done. */
	writing_load();
	read_all();
	writing_end();
	for (unsigned i = 0; i < FILES; i++)
		free(t.models[i].bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_read_is_repaired),
		cmocka_unit_test(test_nothing_is_repaired_read_only),
		cmocka_unit_test(test_a_repair_that_fails_harms_no_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
