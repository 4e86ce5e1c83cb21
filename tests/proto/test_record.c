/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "proto/record.h"
#include "proto/wire.h"

#define MAX_BYTES 5000u

static uint8_t wire[1 << 16];

/* Cuts a message of len bytes into fragments; how: 0 plain, 1 empty ones between, 2 late end. */
static size_t cut(size_t len, size_t fragment, int how)
{
	uint8_t *p = wire;
	size_t at = 0;

	while (at < len || !len) {
		size_t n = len - at < fragment ? len - at : fragment;
		bool last = at + n == len && how != 2;

		if (how == 1) {
			wire_set_u32(p, 0);
			p += 4;
		}
		wire_set_u32(p, (uint32_t)n | (last ? RECORD_LAST : 0));
		p += 4;
		for (size_t i = 0; i < n; i++)
			*p++ = (uint8_t)(at++ * 7);
		if (!len)
			break;
	}
	if (how == 2) {
		wire_set_u32(p, RECORD_LAST);
		p += 4;
	}
	return (size_t)(p - wire);
}

/* Feeds the wire in pieces; true when the record came out right at its very end. */
static bool feed(size_t bytes, size_t piece, size_t len)
{
	struct record r;
	bool ok = false;

	record_init(&r);
	for (size_t at = 0; at < bytes; at += piece) {
		size_t n = bytes - at < piece ? bytes - at : piece;
		const uint8_t *p = wire + at, *end = p + n;
		enum record_state st = record_feed(&r, &p, end, MAX_BYTES);

		if (p != end)
			break;
		if (st == RECORD_MORE) {
			/* Behind an empty fragment at the start nothing has begun yet. */
			assert_true(record_pending(&r) || !r.len);
			continue;
		}
		ok = st == RECORD_DONE && at + n == bytes && r.len == len;
		for (size_t i = 0; ok && i < len; i++)
			ok = r.data[i] == (uint8_t)(i * 7);
		break;
	}
	record_reset(&r);
	assert_false(record_pending(&r));
	return ok;
}

static void test_record_any_fragments_in_any_pieces(void **state)
{
	static const size_t lens[] = {0, 1, 3, 4, 40, 511, 512, 513, 4999, 5000};
	static const size_t fragments[] = {1, 2, 3, 4, 5, 100, 1000, 4096, 5000};
	static const size_t pieces[] = {1, 2, 3, 5, 17, 1000, 1 << 16};

	(void)state;
	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++)
		for (size_t f = 0; f < sizeof(fragments) / sizeof(fragments[0]); f++)
			for (size_t p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++)
				for (int how = 0; how < 3; how++)
					assert_true(feed(cut(lens[l], fragments[f], how), pieces[p],
						lens[l]));
}

static void test_record_two_in_a_row(void **state)
{
	size_t first = cut(10, 4, 0);
	const uint8_t *p = wire;
	struct record r;

	(void)state;
	record_init(&r);
	assert_int_equal(record_feed(&r, &p, wire + sizeof(wire), MAX_BYTES), RECORD_DONE);
	assert_ptr_equal(p, wire + first);
	record_reset(&r);
}

static void test_record_too_big_is_found_at_its_header(void **state)
{
	static const uint32_t marks[] = {
		0xffffffff, 0x7fffffff, MAX_BYTES + 1, (MAX_BYTES + 1) | RECORD_LAST};
	struct record r;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const uint8_t *p = wire;

		record_init(&r);
		wire_set_u32(wire, marks[i]);
		assert_int_equal(record_feed(&r, &p, wire + 8, MAX_BYTES), RECORD_TOO_BIG);
		assert_int_equal(r.capacity, 0);
		record_reset(&r);
	}
	/* Each fragment is allowed, their sum is not. */
	record_init(&r);
	for (int i = 0; i < 6; i++) {
		const uint8_t *p = wire;
		enum record_state st;

		wire_set_u32(wire, 1000);
		st = record_feed(&r, &p, wire + 1004, MAX_BYTES);
		assert_int_equal(st, i < 5 ? RECORD_MORE : RECORD_TOO_BIG);
	}
	record_reset(&r);
}

static void test_record_memory_follows_what_arrived(void **state)
{
	const uint8_t *p = wire;
	struct record r;

	(void)state;
	record_init(&r);
	wire_set_u32(wire, 1 << 20);
	assert_int_equal(record_feed(&r, &p, wire + 104, 1 << 20), RECORD_MORE);
	assert_true(r.capacity <= 1024);
	record_reset(&r);
}

static void test_record_whole_only_when_it_is(void **state)
{
	size_t bytes = cut(100, 100, 0);
	const uint8_t *data;
	size_t len;

	(void)state;
	for (size_t n = 0; n <= bytes; n++) {
		const uint8_t *p = wire;

		assert_int_equal(record_whole(&p, wire + n, MAX_BYTES, &data, &len), n == bytes);
		assert_ptr_equal(p, n == bytes ? wire + bytes : wire);
	}
	assert_ptr_equal(data, wire + 4);
	assert_int_equal(len, 100);
	bytes = cut(100, 50, 0);
	data = wire;
	assert_false(record_whole(&data, wire + bytes, MAX_BYTES, &data, &len));
}

/* Receives as a connection does: the rest of a large fragment directly, all else by feeding. */
static size_t receive_all(size_t bytes, size_t piece, size_t len, unsigned *moves)
{
	const uint8_t *at = wire, *end = wire + bytes;
	enum record_state st = RECORD_MORE;
	const uint8_t *data = NULL;
	size_t direct = 0;
	struct record r;

	record_init(&r);
	*moves = 0;
	while (st == RECORD_MORE && at < end) {
		size_t want = record_wants(&r, 60000), before = r.capacity, n;
		uint8_t *to;

		n = record_room(&r, 60000, &to);
		assert_int_equal(r.capacity, before + want);
		*moves += want > 0;
		if (n) {
			if (n > piece)
				n = piece;
			memcpy(to, at, n);
			at += n;
			direct += n;
			st = record_filled(&r, n);
		} else {
			const uint8_t *stop = (size_t)(end - at) < piece ? end : at + piece;

			st = record_feed(&r, &at, stop, 60000);
		}
	}
	assert_int_equal(st, RECORD_DONE);
	assert_ptr_equal(at, end);
	assert_int_equal(r.len, len);
	assert_true(r.capacity <= 2 * len);
	data = record_detach(&r);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(data[i], (uint8_t)(i * 7));
	assert_false(record_pending(&r));
	free((void *)(uintptr_t)data);
	return direct;
}

static void test_record_large_is_received_in_place(void **state)
{
	unsigned moves;

	(void)state;
	/* 16 KiB are fed, the rest is direct, into memory that is there at once. */
	assert_int_equal(receive_all(cut(50000, 50000, 0), 17000, 50000, &moves), 50000 - 16996);
	assert_int_equal(moves, 1);
	for (size_t piece = 1000; piece < 60000; piece += 1777)
		for (int how = 0; how < 3; how++) {
			receive_all(cut(50000, 50000, how), piece, 50000, &moves);
			assert_true(moves <= 1);
			receive_all(cut(50000, 20000, how), piece, 50000, &moves);
			assert_true(moves <= 1);
			receive_all(cut(50000, 3000, how), piece, 50000, &moves);
			assert_int_equal(moves, 0);
		}
}

static void test_record_header_is_not_believed_before_its_data(void **state)
{
	const uint8_t *p = wire;
	struct record r;
	uint8_t *to;

	(void)state;
	record_init(&r);
	cut(50000, 50000, 0);
	assert_int_equal(
		record_feed(&r, &p, wire + 4 + RECORD_TRUST_BYTES - 1, 60000), RECORD_MORE);
	assert_int_equal(record_wants(&r, 60000), 0);
	assert_int_equal(record_room(&r, 60000, &to), 0);
	assert_int_equal(record_feed(&r, &p, p + 1, 60000), RECORD_MORE);
	assert_true(record_wants(&r, 60000) > 0);
	record_reset(&r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record_any_fragments_in_any_pieces),
		cmocka_unit_test(test_record_two_in_a_row),
		cmocka_unit_test(test_record_too_big_is_found_at_its_header),
		cmocka_unit_test(test_record_memory_follows_what_arrived),
		cmocka_unit_test(test_record_whole_only_when_it_is),
		cmocka_unit_test(test_record_large_is_received_in_place),
		cmocka_unit_test(test_record_header_is_not_believed_before_its_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
