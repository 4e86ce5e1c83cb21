/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/rpc.h"

struct message {
	uint8_t data[1024];
	struct wire_out out;
};

static void begin(struct message *m, uint32_t flavor)
{
	static const uint32_t words[] = {77, RPC_CALL, 2, 100003, 3, 1};

	wire_out_init(&m->out, m->data, sizeof(m->data));
	for (int i = 0; i < 6; i++)
		wire_put_u32(&m->out, words[i]);
	wire_put_u32(&m->out, flavor);
}

static void put_sys(struct message *m, uint32_t body_len, uint32_t machine_len, uint32_t n_gids)
{
	begin(m, RPC_AUTH_SYS);
	wire_put_u32(&m->out, body_len);
	wire_put_u32(&m->out, 1);
	wire_put_u32(&m->out, machine_len);
	wire_put_u32(&m->out, 0x61626364);
	wire_put_u32(&m->out, 10);
	wire_put_u32(&m->out, 20);
	wire_put_u32(&m->out, n_gids);
	for (uint32_t i = 0; i < 17; i++)
		wire_put_u32(&m->out, 30 + i);
	wire_put_u64(&m->out, 0);
}

static enum rpc_decoded decode(const struct message *m, size_t len, struct rpc_call *call)
{
	struct wire_in in;

	wire_in_init(&in, m->data, len);
	return rpc_decode_call(&in, call);
}

static void test_rpc_auth_sys(void **state)
{
	struct rpc_call call;
	struct message m;

	(void)state;
	put_sys(&m, 24 + 17 * 4, 4, 16);
	assert_int_equal(decode(&m, sizeof(m.data), &call), RPC_IS_CALL);
	assert_int_equal(call.auth, RPC_AUTH_OK);
	assert_int_equal(call.xid, 77);
	assert_int_equal(call.program, 100003);
	assert_int_equal(call.cred.uid, 10);
	assert_int_equal(call.cred.gid, 20);
	assert_int_equal(call.cred.n_gids, 16);
	assert_int_equal(call.cred.gids[15], 45);
}

static void test_rpc_bad_credentials(void **state)
{
	static const uint32_t cases[][3] = {
		{24 + 17 * 4, 4, 17}, /* more groups than allowed */
		{24 + 17 * 4, 4, UINT32_MAX},
		{24, 4, 1}, /* fewer than promised */
		{24 + 17 * 4, 256, 0},
		{24 + 17 * 4, UINT32_MAX, 0},
		{0, 0, 0},
	};
	struct rpc_call call;
	struct message m;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_sys(&m, cases[i][0], cases[i][1], cases[i][2]);
		assert_int_equal(decode(&m, sizeof(m.data), &call), RPC_IS_CALL);
		assert_int_equal(call.auth, RPC_AUTH_BADCRED);
	}
	begin(&m, 6);
	wire_put_u64(&m.out, 0);
	wire_put_u32(&m.out, 0);
	assert_int_equal(decode(&m, sizeof(m.data), &call), RPC_IS_CALL);
	assert_int_equal(call.auth, RPC_AUTH_BADCRED);
}

static void test_rpc_cut_short_anywhere(void **state)
{
	struct rpc_call call;
	struct message m;
	size_t len;

	(void)state;
	put_sys(&m, 24 + 17 * 4, 4, 16);
	len = (size_t)(m.out.p - m.data);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(decode(&m, n, &call), RPC_BAD_HEADER);
	assert_int_equal(decode(&m, len, &call), RPC_IS_CALL);
	put_sys(&m, RPC_AUTH_BYTES_MAX + 1, 4, 16);
	assert_int_equal(decode(&m, len, &call), RPC_BAD_HEADER);
}

static void test_rpc_replies(void **state)
{
	static const uint8_t accepted[] = {0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
	static const uint8_t denied[] = {
		0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5};
	struct message m;

	(void)state;
	wire_out_init(&m.out, m.data, sizeof(m.data));
	rpc_put_prog_mismatch(&m.out, 5, 3, 4);
	assert_int_equal(m.out.p - m.data, sizeof(accepted));
	assert_memory_equal(m.data, accepted, sizeof(accepted));
	wire_out_init(&m.out, m.data, sizeof(m.data));
	rpc_put_auth_error(&m.out, 5, RPC_AUTH_TOOWEAK);
	assert_int_equal(m.out.p - m.data, sizeof(denied));
	assert_memory_equal(m.data, denied, sizeof(denied));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rpc_auth_sys),
		cmocka_unit_test(test_rpc_bad_credentials),
		cmocka_unit_test(test_rpc_cut_short_anywhere),
		cmocka_unit_test(test_rpc_replies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
