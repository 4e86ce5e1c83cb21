/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "server/exports.h"
#include "tests/server/fake_fscore.h"

static struct net_addr addr(const char *text, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct net_addr a = {.port = 0};

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		assert_true(net_addr_from((struct sockaddr *)&v4, &a));
	else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
		assert_true(net_addr_from((struct sockaddr *)&v6, &a));
	else
		fail();
	return a;
}

static const struct export_rules *match(const struct exports *x, const char *text)
{
	struct net_addr a = addr(text, 40000);

	return export_match(&x->list[0], &a);
}

static struct exports *one(const char *spec)
{
	struct exports *x = exports_create();
	char error[EXPORT_ERROR_MAX];

	if (exports_add_spec(x, spec, error))
		fail_msg("%s: %s", spec, error);
	return x;
}

static void test_exports_defaults_are_careful(void **state)
{
	struct exports *x = one("/home=/@home");
	const struct export_rules *r = match(x, "192.0.2.7");

	(void)state;
	assert_string_equal(x->list[0].name, "/home");
	assert_string_equal(x->list[0].subvol_path, "/@home");
	assert_non_null(r);
	assert_false(r->writable);
	assert_int_equal(r->squash, SQUASH_ROOT);
	assert_int_equal(r->anon_uid, 65534);
	assert_false(exports_any_writable(x));
	exports_destroy(x);
}

static void test_exports_options_and_clients(void **state)
{
	struct exports *x = one("/a=/,rw,all_squash,anonuid=5,anongid=6,"
				"client=10.0.0.0/8(ro,no_root_squash),client=10.1.0.0/16,"
				"client=2001:db8::/32(secure),client=10.1.2.3(anonuid=9)");

	(void)state;
	assert_null(match(x, "11.0.0.1"));
	assert_null(match(x, "2001:db8::1")); /* secure, from a high port */
	assert_null(match(x, "2001:db9::1"));
	assert_false(match(x, "10.200.0.1")->writable);
	assert_int_equal(match(x, "10.200.0.1")->squash, SQUASH_NONE);
	assert_true(match(x, "10.1.0.1")->writable);
	assert_int_equal(match(x, "10.1.0.1")->squash, SQUASH_ALL);
	assert_int_equal(match(x, "10.1.0.1")->anon_uid, 5);
	assert_int_equal(match(x, "10.1.0.1")->anon_gid, 6);
	assert_int_equal(match(x, "10.1.2.3")->anon_uid, 9);
	/* The same client by a socket that is IPv6. */
	assert_int_equal(match(x, "::ffff:10.1.2.3")->anon_uid, 9);
	assert_true(exports_any_writable(x));
	exports_destroy(x);
}

static void test_exports_sync_and_compress(void **state)
{
	struct exports *x = one("/a=/,rw,async,compress=zstd:3,client=10.0.0.1(sync),client=*");

	(void)state;
	assert_string_equal(x->list[0].compress, "zstd:3");
	assert_false(match(x, "10.0.0.1")->async);
	assert_true(match(x, "10.0.0.2")->async);
	exports_destroy(x);
	x = one("/a=/,rw");
	assert_string_equal(x->list[0].compress, "");
	assert_false(match(x, "10.0.0.1")->async);
	exports_destroy(x);
}

static void test_exports_mistakes_are_said(void **state)
{
	static const struct {
		const char *spec, *says;
	} cases[] = {
		{"/a", "expected /NAME=SUBVOLUME"},
		{"a=/", "absolute path"},
		{"/a=/,rq", "unknown option \"rq\""},
		{"/a=/,anonuid", "needs a value"},
		{"/a=/,anonuid=x", "\"x\" is not a number"},
		{"/a=/,anonuid=4294967296", "is not a number"},
		{"/a=/,ro=1", "takes no value"},
		{"/a=/,client=10.0.0.0/33", "expected an address"},
		{"/a=/,client=10.0.0", "expected an address"},
		{"/a=/,client=::1/129", "expected an address"},
		{"/a=/,client=", "empty"},
		{"/a=/,client=*(rw", "expected ADDRESS(OPTION"},
		{"/a=/,client=*(bogus)", "unknown option \"bogus\""},
		{"/a=/,sync=1", "takes no value"},
		{"/a=/,compress", "expected zlib, lzo, zstd"},
		{"/a=/,compress=zst", "expected zlib, lzo, zstd"},
		{"/a=/,compress=zstd:1234567890123", "expected zlib, lzo, zstd"},
		{"/a=/,client=*(compress=zlib)", "not of a client"},
	};
	struct exports *x = exports_create();
	char error[EXPORT_ERROR_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		error[0] = '\0';
		assert_int_equal(exports_add_spec(x, cases[i].spec, error), -EINVAL);
		if (!strstr(error, cases[i].says))
			fail_msg("%s: \"%s\"", cases[i].spec, error);
	}
	assert_int_equal(x->n, 0);
	assert_int_equal(exports_add_spec(x, "/a//b/=/", error), 0);
	assert_int_equal(exports_add_spec(x, "/a/b=/x", error), -EEXIST);
	exports_destroy(x);
}

static void test_exports_by_path_takes_the_longest(void **state)
{
	struct exports *x = one("/a=/");
	char error[EXPORT_ERROR_MAX];
	const char *rest;

	(void)state;
	assert_null(exports_by_path(x, "/", &rest));
	assert_int_equal(exports_add_spec(x, "/a/b=/b", error), 0);
	assert_int_equal(exports_add_spec(x, "/=/c", error), 0);
	assert_string_equal(exports_by_path(x, "/a", &rest)->name, "/a");
	assert_string_equal(rest, "");
	assert_string_equal(exports_by_path(x, "/a/bc", &rest)->name, "/a");
	assert_string_equal(rest, "/bc");
	assert_string_equal(exports_by_path(x, "/a/b/c/d", &rest)->name, "/a/b");
	assert_string_equal(rest, "/c/d");
	assert_string_equal(exports_by_path(x, "/ab", &rest)->name, "/");
	assert_string_equal(rest, "/ab");
	exports_destroy(x);
}

static void test_exports_resolve_finds_subvolumes(void **state)
{
	struct exports *x = one("/a=/sub");
	struct fsc_thread *t;
	char error[EXPORT_ERROR_MAX];

	(void)state;
	fake_volume();
	fake_make_subvol(fake_root(5), "sub", 300);
	assert_int_equal(fsc_thread_create(&t), 0);
	assert_int_equal(exports_add_spec(x, "/b=sub", error), 0);
	assert_int_equal(exports_resolve(x, t, NULL), 0);
	assert_ptr_equal(exports_by_subvol(x, 300), &x->list[0]);
	assert_ptr_equal(x->list[1].alias_of, &x->list[0]);
	assert_null(exports_by_subvol(x, 5));
	/* One subvolume cannot have two sets of rules. */
	assert_int_equal(exports_add_spec(x, "/c=/sub,rw", error), 0);
	assert_int_equal(exports_resolve(x, t, NULL), -EINVAL);
	exports_destroy(x);
	fsc_thread_destroy(t);
	fake_volume_free();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exports_defaults_are_careful),
		cmocka_unit_test(test_exports_options_and_clients),
		cmocka_unit_test(test_exports_sync_and_compress),
		cmocka_unit_test(test_exports_mistakes_are_said),
		cmocka_unit_test(test_exports_by_path_takes_the_longest),
		cmocka_unit_test(test_exports_resolve_finds_subvolumes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
