/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/nfs3.h"

typedef bool (*decode_fn)(struct wire_in *in, union nfs3_args *a);

static uint8_t msg[4096];

static struct wire_out begin(void)
{
	struct wire_out out;

	wire_out_init(&out, msg, sizeof(msg));
	wire_put_opaque(&out, "handle", 6);
	return out;
}

static void put_sattr(struct wire_out *out)
{
	for (int i = 0; i < 3; i++) {
		wire_put_bool(out, true);
		wire_put_u32(out, 40 + (uint32_t)i);
	}
	wire_put_bool(out, true);
	wire_put_u64(out, 1ull << 40);
	wire_put_u32(out, NFS3_CLIENT_TIME);
	wire_put_u64(out, 0x100000002);
	wire_put_u32(out, NFS3_SERVER_TIME);
}

/* A message is good as a whole and bad when cut anywhere. */
static void want(decode_fn decode, const struct wire_out *out, union nfs3_args *a)
{
	size_t len = (size_t)(out->p - msg);
	struct wire_in in;

	assert_false(out->bad);
	for (size_t n = 0; n < len; n++) {
		wire_in_init(&in, msg, n);
		assert_false(decode(&in, a));
	}
	wire_in_init(&in, msg, len);
	assert_true(decode(&in, a));
	assert_int_equal(wire_left(&in), 0);
}

static void test_nfs3_arguments_whole_and_cut(void **state)
{
	struct wire_out out = begin();
	union nfs3_args a;

	(void)state;
	want(nfs3_decode_fh, &out, &a);
	assert_int_equal(a.fh.fh.len, 6);
	wire_put_opaque(&out, "name", 4);
	want(nfs3_decode_dirop, &out, &a);
	assert_memory_equal(a.dirop.name.data, "name", 4);
	put_sattr(&out);
	want(nfs3_decode_mkdir, &out, &a);
	assert_int_equal(a.mkdir.attr.gid, 42);
	assert_int_equal(a.mkdir.attr.size, 1ull << 40);
	assert_int_equal(a.mkdir.attr.atime.sec, 1);
	assert_int_equal(a.mkdir.attr.mtime_how, NFS3_SERVER_TIME);
	wire_put_opaque(&out, "target", 6);
	want(nfs3_decode_symlink, &out, &a);
	assert_int_equal(a.symlink.target.len, 6);

	out = begin();
	put_sattr(&out);
	wire_put_bool(&out, true);
	wire_put_u64(&out, 7);
	want(nfs3_decode_setattr, &out, &a);
	assert_true(a.setattr.guarded);

	out = begin();
	wire_put_u64(&out, 1ull << 63);
	wire_put_u32(&out, 4096);
	want(nfs3_decode_read, &out, &a);
	want(nfs3_decode_commit, &out, &a);
	assert_int_equal(a.commit.file_off, 1ull << 63);
	out.p -= 4;
	wire_put_u32(&out, 3);
	wire_put_u32(&out, NFS3_FILE_SYNC);
	wire_put_opaque(&out, "abc", 3);
	want(nfs3_decode_write, &out, &a);
	assert_int_equal(a.write.data.len, 3);

	out = begin();
	wire_put_opaque(&out, "name", 4);
	wire_put_u32(&out, NFS3_EXCLUSIVE);
	wire_put_u64(&out, 0x0102030405060708);
	want(nfs3_decode_create, &out, &a);
	assert_int_equal(a.create.verf[7], 8);

	out = begin();
	wire_put_opaque(&out, "name", 4);
	wire_put_u32(&out, NFS3_BLK);
	put_sattr(&out);
	wire_put_u64(&out, 0x500000006);
	want(nfs3_decode_mknod, &out, &a);
	assert_int_equal(a.mknod.major, 5);

	out = begin();
	wire_put_opaque(&out, "name", 4);
	wire_put_opaque(&out, "other", 5);
	wire_put_opaque(&out, "to", 2);
	want(nfs3_decode_rename, &out, &a);
	assert_int_equal(a.rename.to.name.len, 2);

	out = begin();
	wire_put_u64(&out, 9);
	wire_put_u64(&out, 8);
	wire_put_u32(&out, 100);
	want(nfs3_decode_readdir, &out, &a);
	assert_int_equal(a.readdir.maxcount, 100);
	wire_put_u32(&out, 200);
	want(nfs3_decode_readdirplus, &out, &a);
	assert_int_equal(a.readdir.dircount, 100);
	assert_int_equal(a.readdir.maxcount, 200);
}

static void test_nfs3_impossible_values_are_bad(void **state)
{
	struct wire_out out;
	union nfs3_args a;
	struct wire_in in;

	(void)state;
	wire_out_init(&out, msg, sizeof(msg));
	wire_put_u32(&out, 65); /* a handle is 64 bytes at most */
	wire_in_init(&in, msg, sizeof(msg));
	assert_false(nfs3_decode_fh(&in, &a));

	out = begin(); /* WRITE whose count is more than its data */
	wire_put_u64(&out, 0);
	wire_put_u32(&out, 4);
	wire_put_u32(&out, 0);
	wire_put_opaque(&out, "abc", 3);
	wire_in_init(&in, msg, (size_t)(out.p - msg));
	assert_false(nfs3_decode_write(&in, &a));

	out = begin();
	wire_put_opaque(&out, "name", 4);
	wire_put_u32(&out, 3); /* createmode */
	wire_in_init(&in, msg, sizeof(msg));
	assert_false(nfs3_decode_create(&in, &a));
}

static const struct nfs3_fattr attr = {.type = NFS3_REG,
	.mode = 0644,
	.nlink = 2,
	.uid = 3,
	.gid = 4,
	.size = 5,
	.used = 6,
	.rdev_major = 7,
	.rdev_minor = 8,
	.fsid = 9,
	.fileid = 10,
	.atime = {11, 12},
	.mtime = {13, 14},
	.ctime = {15, 16}};

static void test_nfs3_attributes_round_trip(void **state)
{
	const struct nfs3_fh fh = {"ab", 2};
	struct nfs3_post_attr post;
	union nfs3_res res = {.lookup = {.fh = fh, .obj = {true, attr}, .dir = {false, attr}}};
	struct wire_blob got;
	struct wire_out out;
	struct wire_in in;

	(void)state;
	wire_out_init(&out, msg, NFS3_RES_BYTES_MAX);
	nfs3_encode_lookup(&out, NFS3_OK, &res);
	wire_in_init(&in, msg, (size_t)(out.p - msg));
	assert_int_equal(wire_get_u32(&in), NFS3_OK);
	wire_get_opaque(&in, 64, &got);
	assert_memory_equal(got.data, "ab", 2);
	nfs3_get_post_attr(&in, &post);
	assert_true(post.present);
	assert_int_equal(post.attr.type, NFS3_REG);
	assert_int_equal(post.attr.mode, 0644);
	assert_int_equal(post.attr.size, 5);
	assert_int_equal(post.attr.rdev_minor, 8);
	assert_int_equal(post.attr.fsid, 9);
	assert_int_equal(post.attr.fileid, 10);
	assert_int_equal(post.attr.ctime.nsec, 16);
	nfs3_get_post_attr(&in, &post);
	assert_false(post.present);
	assert_int_equal(wire_left(&in), 0);
}

typedef void (*encode_fn)(struct wire_out *out, enum nfs3_stat stat, const union nfs3_res *r);

/* The longest results fit where the server makes room for them. */
static void test_nfs3_results_have_a_bound(void **state)
{
	static const encode_fn all[] = {nfs3_encode_getattr, nfs3_encode_wcc, nfs3_encode_lookup,
		nfs3_encode_access, nfs3_encode_readlink, nfs3_encode_read, nfs3_encode_write,
		nfs3_encode_create, nfs3_encode_rename, nfs3_encode_link, nfs3_encode_readdir,
		nfs3_encode_fsstat, nfs3_encode_fsinfo, nfs3_encode_pathconf, nfs3_encode_commit};
	union nfs3_res res;
	struct wire_out out;

	(void)state;
	memset(&res, 1, sizeof(res)); /* everything present */
	res.lookup.fh.len = NFS3_FH_MAX;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		for (int stat = 0; stat < 2; stat++) {
			if (all[i] == nfs3_encode_create)
				res.create.fh.len = NFS3_FH_MAX;
			wire_out_init(&out, msg, NFS3_RES_BYTES_MAX);
			all[i](&out, (enum nfs3_stat)stat, &res);
			assert_false(out.bad);
		}
	}
}

static void test_nfs3_entries_have_the_size_they_say(void **state)
{
	struct nfs3_entry e = {.name = "0123456789", .cookie = 1};
	struct wire_out out;

	(void)state;
	for (e.name_len = 0; e.name_len <= 10; e.name_len++) {
		wire_out_init(&out, msg, sizeof(msg));
		nfs3_put_entry(&out, &e);
		assert_int_equal(out.p - msg, nfs3_entry_bytes(e.name_len));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nfs3_arguments_whole_and_cut),
		cmocka_unit_test(test_nfs3_impossible_values_are_bad),
		cmocka_unit_test(test_nfs3_attributes_round_trip),
		cmocka_unit_test(test_nfs3_results_have_a_bound),
		cmocka_unit_test(test_nfs3_entries_have_the_size_they_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
