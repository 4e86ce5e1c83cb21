/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "server/acl.h"
#include "tests/server/fake_fscore.h"

static struct export_rules rules_of(enum squash s)
{
	return (struct export_rules){.squash = s, .anon_uid = 99, .anon_gid = 98};
}

static void test_squash_root_maps_ids_of_zero(void **state)
{
	const struct rpc_cred from = {RPC_AUTH_SYS, 0, 0, 3, {5, 0, 6}};
	struct export_rules r = rules_of(SQUASH_ROOT);
	struct cred c;

	(void)state;
	cred_squash(&from, &r, &c);
	assert_int_equal(c.uid, 99);
	assert_int_equal(c.gid, 98);
	assert_true(cred_in_group(&c, 5) && cred_in_group(&c, 6) && cred_in_group(&c, 98));
	assert_false(cred_in_group(&c, 0));
	r = rules_of(SQUASH_NONE);
	cred_squash(&from, &r, &c);
	assert_int_equal(c.uid, 0);
	assert_true(cred_in_group(&c, 0));
	r = rules_of(SQUASH_ALL);
	cred_squash(&from, &r, &c);
	assert_int_equal(c.uid, 99);
	assert_false(cred_in_group(&c, 5));
}

static void test_squash_auth_none_is_anonymous(void **state)
{
	const struct rpc_cred from = {.flavor = RPC_AUTH_NONE, .uid = 0};
	struct export_rules r = rules_of(SQUASH_NONE);
	struct cred c;

	(void)state;
	cred_squash(&from, &r, &c);
	assert_int_equal(c.uid, 99);
	assert_int_equal(c.gid, 98);
	assert_int_equal(c.n_gids, 0);
}

/* user::rw- user:7:r-x group::r-- group:8:-wx mask::rwx/limited other::--x */
#define ACL(mask)                                                                               \
	{                                                                                       \
		2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 5, 0, 7, 0, 0, 0, 4, 0, 4, 0, \
			255, 255, 255, 255, 8, 0, 3, 0, 8, 0, 0, 0, 0x10, 0, mask, 0, 255, 255, \
			255, 255, 0x20, 0, 1, 0, 255, 255, 255, 255                             \
	}

static unsigned granted(const uint8_t *acl, size_t len, uint32_t uid, uint32_t gid)
{
	const struct fsc_attr attr = {.uid = 1, .gid = 2, .mode = S_IFREG | 0671};
	const struct cred c = {.uid = uid, .gid = gid};
	unsigned g = 100;

	assert_int_equal(acl_granted(acl, len, &attr, &c, &g), 0);
	return g;
}

static void test_acl_entries_in_order(void **state)
{
	static const uint8_t acl[] = ACL(7), masked[] = ACL(4);

	(void)state;
	assert_int_equal(granted(acl, sizeof(acl), 1, 2), 6);
	assert_int_equal(granted(acl, sizeof(acl), 7, 2), 5);
	assert_int_equal(granted(acl, sizeof(acl), 3, 2), 4);
	assert_int_equal(granted(acl, sizeof(acl), 3, 8), 3);
	assert_int_equal(granted(acl, sizeof(acl), 3, 3), 1);
	/* The mask limits named ones and groups, not the owner and others. */
	assert_int_equal(granted(masked, sizeof(masked), 1, 2), 6);
	assert_int_equal(granted(masked, sizeof(masked), 7, 2), 4);
	assert_int_equal(granted(masked, sizeof(masked), 3, 8), 0);
	assert_int_equal(granted(masked, sizeof(masked), 3, 3), 1);
}

static void test_acl_malformed_is_refused(void **state)
{
	static const uint8_t acl[] = ACL(7), wrong[] = {3, 0, 0, 0};
	const struct fsc_attr attr = {.uid = 1};
	const struct cred c = {.uid = 7};
	unsigned g;

	(void)state;
	for (size_t len = 0; len < sizeof(acl); len++)
		if (len % 8 != 4)
			assert_int_equal(acl_granted(acl, len, &attr, &c, &g), -EINVAL);
	assert_int_equal(acl_granted(wrong, sizeof(wrong), &attr, &c, &g), -EINVAL);
}

static void test_access_uses_the_acl(void **state)
{
	static const uint8_t acl[] = ACL(7);
	struct fsc_inode *f;
	struct fsc_ctx ctx = {.flags = FSC_NOWAIT};
	const struct cred user = {.uid = 7, .gid = 50}, owner = {.uid = 1}, root = {.uid = 0};
	unsigned g;

	(void)state;
	fake_volume();
	f = fake_make(fake_root(5), "f", S_IFREG | 0671);
	fake_attr(f)->uid = 1;
	fake_set_acl(f, acl, sizeof(acl));
	assert_int_equal(access_check(&ctx, f, fake_attr(f), &user, 7, &g), 0);
	assert_int_equal(g, MAY_READ | MAY_EXEC);
	assert_int_equal(access_need(&ctx, f, fake_attr(f), &user, MAY_WRITE), -EACCES);
	/* Without reading it, where the mode says the same. */
	atomic_store(&fake.block, 1);
	assert_int_equal(access_check(&ctx, f, fake_attr(f), &owner, 7, &g), 0);
	assert_int_equal(g, 6);
	assert_int_equal(access_check(&ctx, f, fake_attr(f), &root, 7, &g), 0);
	assert_int_equal(g, 7);
	assert_int_equal(access_check(&ctx, f, fake_attr(f), &user, 7, &g), -EAGAIN);
	fake_volume_free();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_squash_root_maps_ids_of_zero),
		cmocka_unit_test(test_squash_auth_none_is_anonymous),
		cmocka_unit_test(test_acl_entries_in_order),
		cmocka_unit_test(test_acl_malformed_is_refused),
		cmocka_unit_test(test_access_uses_the_acl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
