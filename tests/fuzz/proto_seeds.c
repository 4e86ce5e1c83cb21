/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proto_seeds DIR - writes the first inputs of fuzz_rpc, fuzz_nfs3_decode and fuzz_record to
 * DIR/<target>/: one valid message of every operation, with handles that the fake core knows.
 * The files are kept in tests/fuzz/corpus; what fuzzing finds is added beside them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/server/check.h"
#include "tests/server/rpc_client.h"

static const char *out_dir;
static struct world *w;
static struct fsc_inode *dir, *file, *link_inode;

static void write_seed(const char *target, const char *name, const void *data, size_t len)
{
	char path[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", out_dir, target);
	CHECK(!mkdir(path, 0777) || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/%s/seed-%s", out_dir, target, name);
	f = fopen(path, "wb");
	CHECK(f);
	CHECK(fwrite(data, 1, len, f) == len);
	CHECK(!fclose(f));
}

static void put_sattr(struct wire_out *out)
{
	wire_put_bool(out, true);
	wire_put_u32(out, 0644);
	wire_put_bool(out, false);
	wire_put_bool(out, false);
	wire_put_bool(out, true);
	wire_put_u64(out, 4096);
	wire_put_u32(out, NFS3_SERVER_TIME);
	wire_put_u32(out, NFS3_CLIENT_TIME);
	wire_put_u64(out, 0x123400000001);
}

static void put_name(struct wire_out *out, const char *name)
{
	wire_put_opaque(out, name, (uint32_t)strlen(name));
}

static void put_dirop(struct wire_out *out, const char *name)
{
	put_fh(out, dir);
	put_name(out, name);
}

static void put_args(struct wire_out *out, uint32_t proc)
{
	switch (proc) {
	case NFS3_GETATTR:
	case NFS3_FSSTAT:
	case NFS3_FSINFO:
	case NFS3_PATHCONF:
		put_fh(out, file);
		break;
	case NFS3_READLINK:
		put_fh(out, link_inode);
		break;
	case NFS3_SETATTR:
		put_fh(out, file);
		put_sattr(out);
		wire_put_bool(out, true);
		wire_put_u64(out, 0);
		break;
	case NFS3_LOOKUP:
	case NFS3_REMOVE:
	case NFS3_RMDIR:
		put_dirop(out, "file");
		break;
	case NFS3_ACCESS:
		put_fh(out, file);
		wire_put_u32(out, 0x3f);
		break;
	case NFS3_READ:
	case NFS3_COMMIT:
		put_fh(out, file);
		wire_put_u64(out, 100);
		wire_put_u32(out, 9000);
		break;
	case NFS3_WRITE:
		put_fh(out, file);
		wire_put_u64(out, 100);
		wire_put_u32(out, 5);
		wire_put_u32(out, NFS3_FILE_SYNC);
		put_name(out, "bytes");
		break;
	case NFS3_CREATE:
		put_dirop(out, "new");
		wire_put_u32(out, NFS3_GUARDED);
		put_sattr(out);
		break;
	case NFS3_MKDIR:
		put_dirop(out, "new");
		put_sattr(out);
		break;
	case NFS3_SYMLINK:
		put_dirop(out, "new");
		put_sattr(out);
		put_name(out, "target");
		break;
	case NFS3_MKNOD:
		put_dirop(out, "new");
		wire_put_u32(out, NFS3_BLK);
		put_sattr(out);
		wire_put_u64(out, 0x800000001);
		break;
	case NFS3_RENAME:
		put_dirop(out, "file");
		put_dirop(out, "other");
		break;
	case NFS3_LINK:
		put_fh(out, file);
		put_dirop(out, "other");
		break;
	case NFS3_READDIR:
	case NFS3_READDIRPLUS:
		put_fh(out, dir);
		wire_put_u64(out, 4);
		wire_put_u64(out, 22);
		wire_put_u32(out, 600);
		if (proc == NFS3_READDIRPLUS)
			wire_put_u32(out, 900);
		break;
	default:
		break;
	}
}

/* Which of fuzz_nfs3_decode's decoders an operation's arguments are for. */
static const uint8_t decoder_of[NFS3_PROCS] = {[NFS3_SETATTR] = 2,
	[NFS3_LOOKUP] = 1,
	[NFS3_ACCESS] = 3,
	[NFS3_READ] = 4,
	[NFS3_WRITE] = 5,
	[NFS3_CREATE] = 6,
	[NFS3_MKDIR] = 7,
	[NFS3_SYMLINK] = 8,
	[NFS3_MKNOD] = 9,
	[NFS3_REMOVE] = 1,
	[NFS3_RMDIR] = 1,
	[NFS3_RENAME] = 10,
	[NFS3_LINK] = 11,
	[NFS3_READDIR] = 12,
	[NFS3_READDIRPLUS] = 13,
	[NFS3_COMMIT] = 14};

/* Messages of the changing procedures beside the one of put_args(). */
static void put_more(struct wire_out *out, uint32_t proc)
{
	switch (proc) {
	case NFS3_SETATTR:
		put_fh(out, file);
		put_sattr(out);
		wire_put_bool(out, false);
		break;
	case NFS3_WRITE:
		put_fh(out, file);
		wire_put_u64(out, 19999);
		wire_put_u32(out, 3);
		wire_put_u32(out, NFS3_UNSTABLE);
		put_name(out, "more");
		break;
	case NFS3_CREATE:
		put_dirop(out, "file");
		wire_put_u32(out, NFS3_UNCHECKED);
		put_sattr(out);
		break;
	case NFS3_MKNOD:
		put_dirop(out, "pipe");
		wire_put_u32(out, NFS3_FIFO);
		put_sattr(out);
		break;
	case NFS3_REMOVE:
		put_dirop(out, "f00");
		break;
	case NFS3_RMDIR:
		put_dirop(out, "dir");
		break;
	case NFS3_RENAME:
		put_dirop(out, "f01");
		put_dirop(out, "f02");
		break;
	case NFS3_LINK:
		put_fh(out, link_inode);
		put_dirop(out, "f03");
		break;
	default:
		break;
	}
}

static void put_exclusive(struct wire_out *out)
{
	put_dirop(out, "new");
	wire_put_u32(out, NFS3_EXCLUSIVE);
	wire_put_u64(out, UINT64_MAX);
}

static void more_seeds(void)
{
	static const uint32_t procs[] = {NFS3_SETATTR, NFS3_WRITE, NFS3_CREATE, NFS3_MKNOD,
		NFS3_REMOVE, NFS3_RMDIR, NFS3_RENAME, NFS3_LINK};
	char name[32];
	struct call c;

	for (size_t i = 0; i < sizeof(procs) / sizeof(procs[0]); i++) {
		call_nfs3(w, &c, procs[i]);
		put_more(&c.out, procs[i]);
		snprintf(name, sizeof(name), "%s-2", nfs3_program.ops[procs[i]].name);
		write_seed("fuzz_rpc", name, c.data, (size_t)(c.out.p - c.data));
	}
	call_nfs3(w, &c, NFS3_CREATE);
	put_exclusive(&c.out);
	write_seed("fuzz_rpc", "create-3", c.data, (size_t)(c.out.p - c.data));
}

static void nfs3_seeds(void)
{
	for (uint32_t p = 0; p < NFS3_PROCS; p++) {
		const char *name = nfs3_program.ops[p].name;
		uint8_t args[1024];
		struct wire_out out;
		struct call c;

		call_nfs3(w, &c, p);
		put_args(&c.out, p);
		write_seed("fuzz_rpc", name, c.data, (size_t)(c.out.p - c.data));
		wire_out_init(&out, args, sizeof(args));
		*wire_reserve(&out, 1) = decoder_of[p];
		put_args(&out, p);
		write_seed("fuzz_nfs3_decode", name, args, (size_t)(out.p - args));
	}
}

static void mount_seeds(void)
{
	static const char *const paths[] = {"/e", "/e/sub/inner", "/s/..", "/"};
	char name[32];
	struct call c;

	for (uint32_t p = 0; p < MOUNT3_PROCS; p++) {
		call_begin(w, &c, MOUNT3_PROGRAM, p);
		if (p == MOUNT3_MNT || p == MOUNT3_UMNT)
			put_name(&c.out, "/e");
		snprintf(name, sizeof(name), "mount-%u", p);
		write_seed("fuzz_rpc", name, c.data, (size_t)(c.out.p - c.data));
	}
	for (unsigned i = 0; i < 4; i++) {
		call_begin(w, &c, MOUNT3_PROGRAM, MOUNT3_MNT);
		put_name(&c.out, paths[i]);
		snprintf(name, sizeof(name), "mnt-%u", i);
		write_seed("fuzz_rpc", name, c.data, (size_t)(c.out.p - c.data));
	}
}

/* Streams: whole records, fragments, empty ones, a late end, too long. */
static void record_seeds(void)
{
	static const uint32_t marks[][6] = {
		{0x80000008, 0x80000004, 0x80000000, 0x8000000c, 0, 0},
		{4, 4, 0, 0x80000004, 0x80000004, 0},
		{0, 0, 0, 1, 0x80000003, 0x80000000},
		{1000, 1000, 1000, 1000, 0x80000001, 0},
		{0x80000bb8, 0x7fffffff, 0, 0, 0, 0},
	};
	uint8_t data[8192];
	char name[32];

	for (unsigned i = 0; i < 5; i++) {
		struct wire_out out;

		wire_out_init(&out, data, sizeof(data));
		for (int m = 0; m < 6; m++) {
			size_t n = marks[i][m] & 0xffff;
			uint8_t *p;

			wire_put_u32(&out, marks[i][m]);
			p = wire_reserve(&out, n < 1200 ? n : 20);
			if (p)
				memset(p, 'a' + m, n < 1200 ? n : 20);
		}
		snprintf(name, sizeof(name), "%u", i);
		write_seed("fuzz_record", name, data, (size_t)(out.p - data));
	}
}

int main(int argc, char **argv)
{
	static const char *const exports[] = {"/e=/", NULL};

	if (argc != 2) {
		fprintf(stderr, "usage: proto_seeds DIR\n");
		return 2;
	}
	out_dir = argv[1];
	w = world_begin(exports, 0);
	dir = fake_root(FSC_SUBVOL_TOP);
	/* In the order of fuzz_rpc.c, so that the inode numbers are the same. */
	file = fake_make(dir, "file", S_IFREG | 0644);
	link_inode = fake_make(dir, "link", S_IFLNK | 0777);
	nfs3_seeds();
	more_seeds();
	mount_seeds();
	record_seeds();
	world_end(w);
	return 0;
}
