/* SPDX-License-Identifier: GPL-2.0-or-later */
/* WRITE, COMMIT and SETATTR on a writable export. */
#include "probe-write.h"

#include <stdio.h>
#include <string.h>

static const uint32_t not_a_file[] = {NFS3ERR_INVAL, NFS3ERR_ISDIR, UINT32_MAX};
static const uint32_t too_far[] = {NFS3ERR_FBIG, NFS3ERR_INVAL, UINT32_MAX};

/* ------------------------------------------------------------------ WRITE */

static void write_stable(void)
{
	struct probe_conn *c = conn_open(), *other = conn_open();
	struct probe_fh dir = work_dir(c, "stable"), fh = make_file(c, &dir, "f", "");

	for (int how = UNSTABLE; how <= FILE_SYNC; how++) {
		struct change ch = do_write(c, &fh, (uint64_t)how * 5, "hello", 5, (stable_how)how);

		probe_trying("stable_how %d", how);
		want_change("WRITE", &ch, NFS3_OK);
		WANT(ch.count == 5, "count %u", ch.count);
		WANT(ch.committed >= (uint32_t)how && ch.committed <= FILE_SYNC, "committed %u",
			ch.committed);
		/* Another connection sees it at once, durable or not. */
		want_bytes(other, &fh, "hellohellohello", 5 * ((uint64_t)how + 1));
	}
}

static void write_of_nothing(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "nothing"), fh = make_file(c, &dir, "f", "abc");
	struct change ch = do_write(c, &fh, 1000, "", 0, FILE_SYNC);

	want_change("WRITE of no bytes", &ch, NFS3_OK);
	WANT(ch.count == 0, "count %u", ch.count);
	want_bytes(c, &fh, "abc", 3);
}

/* As bytes: the codec can't say it. */
static void write_count_and_length(void)
{
	static const struct {
		uint32_t count, length;
	} tries[] = {{3, 5}, {5, 3}, {0, 4}, {4, 0}, {0x80000000u, 4}, {UINT32_MAX, 4}};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "count"), fh;
	char name[16];

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct probe_out o;
		struct probe_reply reply;
		WRITE3res r = {0};
		uint64_t size;

		probe_trying("count %u, %u bytes", tries[i].count, tries[i].length);
		snprintf(name, sizeof(name), "f%zu", i);
		fh = make_file(c, &dir, name, "");
		out_init(&o, 1024);
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_WRITE);
		out_fh(&o, &fh);
		out_u64(&o, 0);
		out_u32(&o, tries[i].count);
		out_u32(&o, FILE_SYNC);
		out_opaque(&o, "abcde", tries[i].length);
		conn_exchange(c, &o, &reply);
		if (reply.closed) {
			c = conn_open();
			WANT(fh_attr(c, &fh).size == 0, "written all the same");
			continue;
		}
		size = fh_attr(c, &fh).size;
		if (reply.stat == GARBAGE_ARGS) {
			WANT(size == 0, "written all the same");
			continue;
		}
		reply_decode(&reply, (zdrproc_t)zdr_WRITE3res, &r);
		if (r.status == NFS3_OK)
			WANT(tries[i].count <= tries[i].length &&
					r.WRITE3res_u.resok.count == size && size <= tries[i].count,
				"OK, count %u, %lu bytes in the file", r.WRITE3res_u.resok.count,
				size);
		else
			WANT(r.status == NFS3ERR_INVAL && size == 0, "%s, %lu bytes in the file",
				stat_name(r.status), size);
	}
}

static void write_makes_holes(void)
{
	static const uint64_t offs[] = {1, 4095, 4096, 4097, 70000, 1 << 20};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "holes");
	char *want = probe_alloc((1 << 20) + 16), name[16];

	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		struct probe_fh fh;
		struct change ch;

		probe_trying("offset %lu", offs[i]);
		snprintf(name, sizeof(name), "f%zu", i);
		fh = make_file(c, &dir, name, "begin");
		ch = do_write(c, &fh, offs[i], "end", 3, UNSTABLE);
		want_change("WRITE", &ch, NFS3_OK);
		memset(want, 0, (1 << 20) + 16);
		memcpy(want, "begin", 5);
		memcpy(want + offs[i], "end", 3);
		want_bytes(c, &fh, want, offs[i] + 3 > 5 ? offs[i] + 3 : 5);
	}
}

static void write_largest(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "largest"), fh = make_file(c, &dir, "f", "");
	uint32_t bytes = probe.wtmax < 1u << 20 ? probe.wtmax : 1u << 20;
	char *data = probe_alloc(bytes);
	struct change ch;

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (char)(i * 7 + i / 256);
	ch = do_write(c, &fh, 3, data, bytes, UNSTABLE);
	want_change("WRITE", &ch, NFS3_OK);
	WANT(ch.count == bytes, "WRITE of wtmax %u wrote %u", bytes, ch.count);
	ch = do_write(c, &fh, 0, data, bytes, FILE_SYNC);
	want_change("WRITE", &ch, NFS3_OK);
	ch = do_size(c, &fh, bytes);
	want_change("SETATTR", &ch, NFS3_OK);
	want_bytes(c, &fh, data, bytes);
}

static void write_in_fragments(void)
{
	static const uint32_t fragments[] = {1, 4, 13, 1000, 4096, 65536};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "fragments");
	char data[5000], name[16];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)('a' + i % 26);
	for (size_t i = 0; i < sizeof(fragments) / sizeof(fragments[0]); i++) {
		struct probe_fh fh;
		struct probe_out o;
		char *reply;
		uint32_t bytes;

		probe_trying("fragments of %u", fragments[i]);
		snprintf(name, sizeof(name), "f%zu", i);
		fh = make_file(c, &dir, name, "");
		out_init(&o, 8192);
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_WRITE);
		out_fh(&o, &fh);
		out_u64(&o, 0);
		out_u32(&o, sizeof(data));
		out_u32(&o, UNSTABLE);
		out_opaque(&o, data, sizeof(data));
		WANT(conn_send_record(c, o.data, o.bytes, fragments[i], i % 2, i % 3 == 0) &&
				conn_receive(c, &reply, &bytes),
			"connection closed");
		want_bytes(c, &fh, data, sizeof(data));
	}
}

static void write_wcc(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "wcc"), fh = make_file(c, &dir, "f", "0123456789");

	for (int i = 0; i < 20; i++) {
		fattr3 before = fh_attr(c, &fh), after;
		struct change ch =
			do_write(c, &fh, (uint64_t)i * 3, "xyz", 3, i % 2 ? UNSTABLE : FILE_SYNC);

		want_stat("WRITE", ch.status, NFS3_OK);
		want_wcc_exact(c, "WRITE", &ch.wcc, &fh, &before);
		WANT(later(&ch.wcc.after.post_op_attr_u.attributes.mtime, &before.mtime),
			"WRITE %d did not move the mtime", i);
		before = fh_attr(c, &fh);
		ch = do_commit(c, &fh, 0, 0);
		want_stat("COMMIT", ch.status, NFS3_OK);
		want_wcc_exact(c, "COMMIT", &ch.wcc, &fh, &before);
		after = fh_attr(c, &fh);
		WANT(same_time(&before.mtime, &after.mtime), "COMMIT moved the mtime");
	}
}

static void write_verifier(void)
{
	struct probe_conn *c = conn_open(), *other = conn_open();
	struct probe_fh dir = work_dir(c, "verifier"), fh = make_file(c, &dir, "f", ""),
			fh2 = make_file(c, &dir, "g", "");
	struct change first = do_write(c, &fh, 0, "a", 1, UNSTABLE);
	static const char zero[NFS3_WRITEVERFSIZE];

	want_change("WRITE", &first, NFS3_OK);
	WANT(memcmp(first.verf, zero, sizeof(zero)), "a verifier of zeros");
	for (int i = 0; i < 50; i++) {
		struct change ch = do_write(i % 2 ? c : other, i % 3 ? &fh : &fh2, (uint64_t)i, "b",
			1, (stable_how)(i % 3));

		WANT(!memcmp(ch.verf, first.verf, sizeof(ch.verf)), "the verifier changed");
		ch = do_commit(i % 2 ? other : c, &fh, 0, 0);
		want_change("COMMIT", &ch, NFS3_OK);
		WANT(!memcmp(ch.verf, first.verf, sizeof(ch.verf)), "COMMIT has another verifier");
	}
}

static void write_to_other_types(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "types");
	struct change link = do_symlink(c, &dir, "l", "x"),
		      fifo = do_mknod(c, &dir, "p", NF3FIFO, 0, 0);
	struct change ch;

	want_change("SYMLINK", &link, NFS3_OK);
	want_change("MKNOD", &fifo, NFS3_OK);
	ch = do_write(c, &dir, 0, "x", 1, UNSTABLE);
	want_one_of("WRITE to a directory", ch.status, not_a_file);
	ch = do_write(c, &link.fh, 0, "x", 1, UNSTABLE);
	want_stat("WRITE to a symlink", ch.status, NFS3ERR_INVAL);
	ch = do_write(c, &fifo.fh, 0, "x", 1, UNSTABLE);
	want_stat("WRITE to a fifo", ch.status, NFS3ERR_INVAL);
	ch = do_size(c, &dir, 0);
	want_one_of("size of a directory", ch.status, not_a_file);
}

static void write_past_the_end_of_all(void)
{
	static const uint64_t offs[] = {
		INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX, UINT64_MAX - 3};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "far"), fh = make_file(c, &dir, "f", "abc");

	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		struct change ch = do_write(c, &fh, offs[i], "xyzw", 4, UNSTABLE);

		probe_trying("offset 0x%lx", offs[i]);
		want_one_of("WRITE", ch.status, too_far);
		if (offs[i] > INT64_MAX) {
			ch = do_size(c, &fh, offs[i]);
			want_one_of("SETATTR", ch.status, too_far);
		}
	}
	want_bytes(c, &fh, "abc", 3);
}

/*
 * P14: as large as a file can be. What lies at its very end is written, read and committed, and
 * a read there ends without an error.
 */
static void largest_file(void)
{
	const uint64_t max = INT64_MAX;
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "largest"), fh = make_file(c, &dir, "f", "abc");
	struct change ch = do_size(c, &fh, max);
	READ3res r;

	want_change("SETATTR", &ch, NFS3_OK);
	WANT(fh_attr(c, &fh).size == max, "size %lx", fh_attr(c, &fh).size);
	ch = do_write(c, &fh, max - 5000, "near", 4, UNSTABLE);
	want_change("WRITE near the end", &ch, NFS3_OK);
	ch = do_write(c, &fh, max - 3, "end", 3, FILE_SYNC);
	want_change("WRITE at the end", &ch, NFS3_OK);
	ch = do_commit(c, &fh, max - 8192, 8192);
	want_change("COMMIT", &ch, NFS3_OK);
	fh_read(c, &fh, max - 3, 4096, &r);
	want_stat("READ across the end", r.status, NFS3_OK);
	WANT(r.READ3res_u.resok.count == 3 && r.READ3res_u.resok.eof &&
			!memcmp(r.READ3res_u.resok.data.data_val, "end", 3),
		"%u bytes, eof %d", r.READ3res_u.resok.count, (int)r.READ3res_u.resok.eof);
	fh_read(c, &fh, max - 5000, 4, &r);
	want_stat("READ", r.status, NFS3_OK);
	WANT(r.READ3res_u.resok.count == 4 && !memcmp(r.READ3res_u.resok.data.data_val, "near", 4),
		"other bytes");
	ch = do_size(c, &fh, max - 4999);
	want_change("SETATTR", &ch, NFS3_OK);
	fh_read(c, &fh, max - 5000, 4096, &r);
	WANT(r.status == NFS3_OK && r.READ3res_u.resok.count == 1 && r.READ3res_u.resok.eof,
		"after it was cut: status %d, %u bytes", (int)r.status, r.READ3res_u.resok.count);
	ch = do_size(c, &fh, 3);
	want_change("SETATTR", &ch, NFS3_OK);
	want_bytes(c, &fh, "abc", 3);
}

/* ------------------------------------------------------------------ COMMIT */

/* P16. */
static void commit_ranges(void)
{
	static const struct {
		uint64_t file_off;
		uint32_t count;
	} ranges[] = {{UINT64_MAX, 4096}, {0, 0}, {1ull << 63, UINT32_MAX}, {1, 1}, {5000, 0},
		{UINT64_MAX, UINT32_MAX}};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "commit"), fh = make_file(c, &dir, "f", "");

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct change ch = do_write(c, &fh, i * 4096, "unstable", 8, UNSTABLE);

		probe_trying("offset 0x%lx, count %u", ranges[i].file_off, ranges[i].count);
		want_change("WRITE", &ch, NFS3_OK);
		ch = do_commit(c, &fh, ranges[i].file_off, ranges[i].count);
		want_change("COMMIT", &ch, NFS3_OK);
	}
}

static void commit_of_other_types(void)
{
	static const uint32_t fine[] = {NFS3_OK, NFS3ERR_INVAL, NFS3ERR_ISDIR, UINT32_MAX};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "commit-types");
	struct change ch = do_commit(c, &dir, 0, 0);

	want_one_of("COMMIT of a directory", ch.status, fine);
}

/* ------------------------------------------------------------------ SETATTR */

static void size_zeroes(void)
{
	static const uint64_t cuts[] = {0, 1, 100, 2047, 2048, 4095, 4096, 4097, 8192, 9999};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "size");
	char full[10000], want[20000], name[16];

	memset(full, 'x', sizeof(full));
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct probe_fh fh;
		struct change ch;

		probe_trying("cut to %lu", cuts[i]);
		snprintf(name, sizeof(name), "f%zu", i);
		fh = make_file(c, &dir, name, "");
		ch = do_write(c, &fh, 0, full, sizeof(full), i % 2 ? FILE_SYNC : UNSTABLE);
		want_change("WRITE", &ch, NFS3_OK);
		ch = do_size(c, &fh, cuts[i]);
		want_change("SETATTR", &ch, NFS3_OK);
		memset(want, 0, sizeof(want));
		memset(want, 'x', cuts[i]);
		want_bytes(c, &fh, want, cuts[i]);
		/* What comes back must be zeros: by SETATTR, and by a WRITE behind it. */
		ch = do_size(c, &fh, cuts[i] + 5000);
		want_change("SETATTR", &ch, NFS3_OK);
		want_bytes(c, &fh, want, cuts[i] + 5000);
		ch = do_size(c, &fh, cuts[i]);
		want_change("SETATTR", &ch, NFS3_OK);
		ch = do_write(c, &fh, 15000, "end", 3, UNSTABLE);
		want_change("WRITE", &ch, NFS3_OK);
		memcpy(want + 15000, "end", 3);
		want_bytes(c, &fh, want, 15003);
	}
}

static void size_moves_times(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "size-times"), fh = make_file(c, &dir, "f", "0123456789");

	for (uint64_t size = 9; size > 3; size -= 2) {
		fattr3 before = fh_attr(c, &fh);
		struct change ch = do_size(c, &fh, size);
		const fattr3 *after = &ch.wcc.after.post_op_attr_u.attributes;

		want_stat("SETATTR", ch.status, NFS3_OK);
		want_wcc_exact(c, "SETATTR", &ch.wcc, &fh, &before);
		WANT(later(&after->mtime, &before.mtime), "the mtime did not move");
		WANT(later(&after->ctime, &before.ctime), "the ctime did not move");
	}
}

static void times_of_client_and_server(void)
{
	static const nfstime3 times[] = {{0, 0}, {1, 999999999}, {981173106, 123456789},
		{0x7fffffff, 1}, {0x80000000u, 2}, {UINT32_MAX, 999999999}};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "times"), fh = make_file(c, &dir, "f", "x");

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		sattr3 s;
		struct change ch;
		fattr3 a;

		probe_trying("%u.%09u", times[i].seconds, times[i].nseconds);
		memset(&s, 0, sizeof(s));
		s.mtime.set_it = SET_TO_CLIENT_TIME;
		s.mtime.set_mtime_u.mtime = times[i];
		s.atime.set_it = SET_TO_CLIENT_TIME;
		s.atime.set_atime_u.atime = times[(i + 1) % 6];
		ch = do_setattr(c, &fh, &s, NULL);
		want_change("SETATTR", &ch, NFS3_OK);
		a = fh_attr(c, &fh);
		WANT(same_time(&a.mtime, &times[i]), "mtime %u.%09u", a.mtime.seconds,
			a.mtime.nseconds);
		WANT(same_time(&a.atime, &times[(i + 1) % 6]), "atime %u.%09u", a.atime.seconds,
			a.atime.nseconds);
		/* The server's time is about that of the ctime, which it always sets. */
		memset(&s, 0, sizeof(s));
		s.mtime.set_it = SET_TO_SERVER_TIME;
		ch = do_setattr(c, &fh, &s, NULL);
		want_change("SETATTR", &ch, NFS3_OK);
		a = fh_attr(c, &fh);
		WANT(a.mtime.seconds + 2 > a.ctime.seconds && a.mtime.seconds < a.ctime.seconds + 2,
			"mtime %u, ctime %u", a.mtime.seconds, a.ctime.seconds);
		WANT(same_time(&a.atime, &times[(i + 1) % 6]), "the atime moved");
	}
}

static void bad_nanoseconds(void)
{
	static const uint32_t fine[] = {NFS3ERR_INVAL, NFS3_OK, UINT32_MAX};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "nanoseconds"), fh = make_file(c, &dir, "f", "x");
	sattr3 s;
	struct change ch;

	memset(&s, 0, sizeof(s));
	s.mtime.set_it = SET_TO_CLIENT_TIME;
	s.mtime.set_mtime_u.mtime = (nfstime3){5, 1000000000};
	ch = do_setattr(c, &fh, &s, NULL);
	want_one_of("SETATTR", ch.status, fine);
	fh_attr(c, &fh); /* is well formed */
}

static void mode_alone(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "mode"), fh = make_file(c, &dir, "f", "x");

	for (uint32_t mode = 0; mode <= 07777; mode += 73) {
		fattr3 before = fh_attr(c, &fh);
		sattr3 s = sattr_mode(mode);
		struct change ch = do_setattr(c, &fh, &s, NULL);
		fattr3 a = fh_attr(c, &fh);

		want_stat("SETATTR", ch.status, NFS3_OK);
		want_wcc_exact(c, "SETATTR", &ch.wcc, &fh, &before);
		WANT(a.mode == mode, "mode 0%o instead of 0%o", a.mode, mode);
		WANT(same_time(&a.mtime, &before.mtime), "the mtime moved");
		WANT(later(&a.ctime, &before.ctime), "the ctime did not move");
		WANT(a.size == 1 && a.uid == before.uid && a.gid == before.gid, "more has changed");
	}
}

/* P20. */
static void guard(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "guard"), fh = make_file(c, &dir, "f", "x");
	sattr3 s = sattr_mode(0600), s2 = sattr_mode(0640);

	for (int i = 0; i < 50; i++) {
		nfstime3 was = fh_attr(c, &fh).ctime, off = was, first;
		struct change ch;

		probe_trying("round %d", i);
		off.nseconds = off.nseconds ? off.nseconds - 1 : 1;
		ch = do_setattr(c, &fh, &s, &off);
		want_change("guard 1 ns off", &ch, NFS3ERR_NOT_SYNC);
		ch = do_setattr(c, &fh, &s, &was);
		want_change("guard equal", &ch, NFS3_OK);
		first = ch.wcc.after.post_op_attr_u.attributes.ctime;
		/* Another change right away: its time must be another one. */
		ch = do_setattr(c, &fh, &s2, NULL);
		want_change("SETATTR", &ch, NFS3_OK);
		WANT(later(&ch.wcc.after.post_op_attr_u.attributes.ctime, &first),
			"two changes have one ctime");
		ch = do_setattr(c, &fh, &s, &first);
		want_change("guard of the change before", &ch, NFS3ERR_NOT_SYNC);
		WANT(fh_attr(c, &fh).mode == 0640, "changed all the same");
	}
}

/* Each change of a file or of its links moves its ctime, within a tick, too. */
static void ctime_always_moves(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "ctime"), fh = make_file(c, &dir, "f", "x");
	nfstime3 last = fh_attr(c, &fh).ctime;
	char name[16] = "f", next[16];

	for (int i = 0; i < 60; i++) {
		struct change ch;
		nfstime3 now;

		probe_trying("change %d", i);
		switch (i % 4) {
		case 0:
			ch = do_write(c, &fh, 0, "y", 1, UNSTABLE);
			break;
		case 1:
			snprintf(next, sizeof(next), "link%d", i);
			ch = do_link(c, &fh, &dir, next);
			break;
		case 2:
			snprintf(next, sizeof(next), "f%d", i);
			ch = do_rename(c, &dir, name, &dir, next);
			strcpy(name, next);
			break;
		default:
			snprintf(next, sizeof(next), "link%d", i - 2);
			ch = do_remove(c, &dir, next);
			break;
		}
		want_change("change", &ch, NFS3_OK);
		now = fh_attr(c, &fh).ctime;
		WANT(later(&now, &last), "the ctime did not move (kind %d)", i % 4);
		last = now;
	}
}

static void setuid_goes(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh dir = work_dir(root, "setuid"), fh = make_file(root, &dir, "f", "x");
	sattr3 s = sattr_mode(06777);
	struct change ch = do_setattr(root, &fh, &s, NULL);

	want_change("SETATTR", &ch, NFS3_OK);
	WANT(fh_attr(root, &fh).mode == 06777, "mode 0%o", fh_attr(root, &fh).mode);
	conn_as(c, 1001, 1001);
	ch = do_write(c, &fh, 0, "y", 1, FILE_SYNC);
	want_change("WRITE by another", &ch, NFS3_OK);
	WANT((fh_attr(root, &fh).mode & 06000) == 0, "mode 0%o after a write by another",
		fh_attr(root, &fh).mode);
}

/* What has lost its last name is gone for NFSv3, whoever has its handle. */
static void stale_after_removal(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "stale"), fh = make_file(c, &dir, "f", "abc"),
			sub = make_subdir(c, &dir, "d", 0755),
			over = make_file(c, &dir, "g", "old");
	struct change ch;
	READ3res r;
	fattr3 a;

	make_file(c, &dir, "h", "new");
	ch = do_remove(c, &dir, "f");
	want_change("REMOVE", &ch, NFS3_OK);
	ch = do_rmdir(c, &dir, "d");
	want_change("RMDIR", &ch, NFS3_OK);
	ch = do_rename(c, &dir, "h", &dir, "g");
	want_change("RENAME", &ch, NFS3_OK);
	want_stat("GETATTR of what was removed", try_getattr(c, &fh, &a), NFS3ERR_STALE);
	want_stat("GETATTR of the directory", try_getattr(c, &sub, &a), NFS3ERR_STALE);
	want_stat("GETATTR of what was replaced", try_getattr(c, &over, &a), NFS3ERR_STALE);
	fh_read(c, &fh, 0, 3, &r);
	want_stat("READ", r.status, NFS3ERR_STALE);
	want_stat("WRITE", do_write(c, &fh, 0, "x", 1, UNSTABLE).status, NFS3ERR_STALE);
	want_stat("COMMIT", do_commit(c, &fh, 0, 0).status, NFS3ERR_STALE);
	want_stat("SETATTR", do_size(c, &fh, 0).status, NFS3ERR_STALE);
	want_stat("LINK", do_link(c, &fh, &dir, "again").status, NFS3ERR_STALE);
	want_stat("CREATE in it", do_create(c, &sub, "x", UNCHECKED, NULL, NULL).status,
		NFS3ERR_STALE);
	/* O06: the names again are other files. */
	make_file(c, &dir, "f", "another");
	want_stat("GETATTR after the name came back", try_getattr(c, &fh, &a), NFS3ERR_STALE);
}

const struct probe_case probe_write_data_cases[] = {
	{"write_stable_how", write_stable},
	{"write_no_bytes", write_of_nothing},
	{"write_count_and_length", write_count_and_length},
	{"write_holes", write_makes_holes},
	{"write_wtmax", write_largest},
	{"write_p49_fragments", write_in_fragments},
	{"write_wcc_exact", write_wcc},
	{"write_verifier_constant", write_verifier},
	{"write_other_types", write_to_other_types},
	{"write_offset_limits", write_past_the_end_of_all},
	{"write_p14_largest_file", largest_file},
	{"write_p16_commit_ranges", commit_ranges},
	{"write_commit_other_types", commit_of_other_types},
	{"setattr_size_zeroes", size_zeroes},
	{"setattr_size_times_wcc", size_moves_times},
	{"setattr_times", times_of_client_and_server},
	{"setattr_nanoseconds", bad_nanoseconds},
	{"setattr_mode", mode_alone},
	{"setattr_p20_guard", guard},
	{"setattr_p20_ctime_moves", ctime_always_moves},
	{"write_clears_setuid", setuid_goes},
	{"write_stale_after_removal", stale_after_removal},
	{NULL, NULL},
};
