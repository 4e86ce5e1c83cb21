/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The decoders of NFSv3 and MOUNT alone: the first byte picks one. What a decoder accepts lies
 * within the message.
 */
#include "proto/mount3.h"
#include "proto/nfs3.h"
#include "tests/fuzz/fuzz.h"
#include "tests/server/check.h"

typedef bool (*decode_fn)(struct wire_in *in, union nfs3_args *a);

static const decode_fn decoders[] = {nfs3_decode_fh, nfs3_decode_dirop, nfs3_decode_setattr,
	nfs3_decode_access, nfs3_decode_read, nfs3_decode_write, nfs3_decode_create,
	nfs3_decode_mkdir, nfs3_decode_symlink, nfs3_decode_mknod, nfs3_decode_rename,
	nfs3_decode_link, nfs3_decode_readdir, nfs3_decode_readdirplus, nfs3_decode_commit};

#define N_DECODERS (sizeof(decoders) / sizeof(decoders[0]))

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
	struct mount3_path_args mount;
	struct nfs3_post_attr attr;
	union nfs3_args args;
	struct wire_in in;
	unsigned which;

	if (!len)
		return 0;
	which = input[0] % (N_DECODERS + 2);
	wire_in_init(&in, input + 1, len - 1);
	if (which == N_DECODERS) {
		mount3_decode_path(&in, &mount);
	} else if (which == N_DECODERS + 1) {
		nfs3_get_post_attr(&in, &attr);
	} else if (decoders[which](&in, &args)) {
		/* Every argument begins with a handle. */
		CHECK(args.fh.fh.len <= NFS3_FH_MAX);
		CHECK(args.fh.fh.data >= input && args.fh.fh.data + args.fh.fh.len <= input + len);
	}
	CHECK(in.p <= input + len);
	return 0;
}
