/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A record of any bytes through the dispatcher and every operation of NFSv3 and MOUNT, on a core in
 * memory. Whatever comes: no crash, replies are well-formed records, and all that was taken is
 * given back.
 */
#include <errno.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"
#include "tests/server/check.h"
#include "tests/server/rpc_client.h"

static struct world *w;

static void set_up(void)
{
	static const char *const exports[] = {"/e=/,rw,no_root_squash", "/s=/sub", NULL};
	static const uint8_t acl[] = {2, 0, 0, 0, 1, 0, 7, 0, 0, 0, 0, 0, 4, 0, 5, 0, 0, 0, 0, 0};
	static uint8_t data[20000];
	struct fsc_inode *top, *f;
	char name[] = "f00";

	w = world_begin(exports, 1);
	top = fake_root(FSC_SUBVOL_TOP);
	f = fake_make(top, "file", S_IFREG | 0644);
	fake_set_data(f, data, sizeof(data));
	fake_set_acl(f, acl, sizeof(acl));
	fake_set_data(fake_make(top, "link", S_IFLNK | 0777), "target", 6);
	fake_make(top, "dir", S_IFDIR | 01777);
	for (int i = 0; i < 20; i++) {
		name[1] = (char)('0' + i / 10);
		name[2] = (char)('0' + i % 10);
		fake_make(top, name, S_IFREG | 0600);
	}
}

static void check_given_back(void)
{
	CHECK(w->peer.n_requests == 0 && w->loop.request_bytes == 0);
	CHECK(w->loop.out_pool.n_used == 0);
	CHECK(atomic_load(&fake.inode_refs) == 0 && atomic_load(&fake.reads) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
	struct rpc_input in = {.data = input, .len = len};
	struct reply r;
	int ret;

	/* Inputs change the tree: each gets a new one. */
	set_up();
	atomic_store(&fake.async_reads, len % 2);
	atomic_store(&fake.async_syncs, len % 3);
	ret = rpc_dispatch(&w->peer, &in);
	CHECK(ret == 0 || ret == -EBADMSG);
	do {
		fsc_thread_reap(w->fsc); /* what ran on the worker */
		fake_end_reads(w->fsc, len % 4 == 3 ? -EIO : 0);
		fake_end_syncs(len % 8 == 7 ? -EIO : 0);
		while (reply_take(w, &r))
			reply_free(&r);
	} while (w->peer.n_requests);
	check_given_back();
	world_end(w);
	return 0;
}
