/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The procedures that read: attributes, names, data, the file system's figures. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define PATTERN_BYTES (1u << 20)
#define HUGE_BYTES    0x7fffffffffffffffull

static void getattr_times(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "hello");
	fattr3 a = fh_attr(c, &fh);

	WANT(a.mtime.seconds == 981173106 && a.mtime.nseconds == 123456789, "mtime %u.%09u",
		a.mtime.seconds, a.mtime.nseconds);
	WANT(a.ctime.seconds > a.mtime.seconds, "ctime not after mtime");
	WANT(a.size == 13 && a.type == NF3REG && a.mode == 0644 && a.uid == 0 && a.gid == 0,
		"size %lu type %d mode 0%o owner %u:%u", a.size, (int)a.type, a.mode, a.uid, a.gid);
}

static void getattr_every_type(void)
{
	static const struct {
		const char *name;
		ftype3 type;
		uint32_t major, minor;
	} want[] = {
		{"types/file", NF3REG, 0, 0},
		{"types/dir", NF3DIR, 0, 0},
		{"types/symlink", NF3LNK, 0, 0},
		{"types/fifo", NF3FIFO, 0, 0},
		{"types/sock", NF3SOCK, 0, 0},
		{"types/chr", NF3CHR, 1, 3},
		{"types/blk", NF3BLK, 7, 200},
	};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct probe_fh fh = path_fh(c, want[i].name);
		fattr3 a = fh_attr(c, &fh);

		WANT(a.type == want[i].type, "%s: type %d", want[i].name, (int)a.type);
		if (want[i].major)
			WANT(a.rdev.specdata1 == want[i].major && a.rdev.specdata2 == want[i].minor,
				"%s: rdev %u,%u", want[i].name, a.rdev.specdata1, a.rdev.specdata2);
	}
}

static void getattr_sizes(void)
{
	static const struct {
		const char *name;
		uint64_t size;
	} want[] = {
		{"empty", 0},
		{"pattern", PATTERN_BYTES},
		{"holes", 1 << 20},
		{"huge", HUGE_BYTES},
		{"slink", 5},
		{"longlink", 1000},
	};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct probe_fh fh = path_fh(c, want[i].name);
		fattr3 a = fh_attr(c, &fh);

		WANT(a.size == want[i].size, "%s: size %lu", want[i].name, a.size);
		if (!strcmp(want[i].name, "holes"))
			WANT(a.used < a.size, "used %lu of a file of holes", a.used);
	}
}

static void hard_links_are_one_file(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh one = path_fh(c, "links/f0"), two = path_fh(c, "links/zlink");
	fattr3 a = fh_attr(c, &one), b = fh_attr(c, &two);

	WANT(a.fileid == b.fileid && a.fsid == b.fsid, "different fileids");
	WANT(a.nlink == 2 && b.nlink == 2, "link counts %u and %u", a.nlink, b.nlink);
}

static void lookup_missing(void)
{
	want_stat("LOOKUP", try_lookup(conn_open(), &probe.root, "no-such-name", NULL),
		NFS3ERR_NOENT);
}

static void lookup_in_non_directory(void)
{
	static const char *const names[] = {
		"hello", "slink", "types/fifo", "types/sock", "types/chr", "huge"};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct probe_fh fh = path_fh(c, names[i]);

		want_stat(names[i], try_lookup(c, &fh, "x", NULL), NFS3ERR_NOTDIR);
	}
}

static void want_same(
	struct probe_conn *c, const char *what, const struct probe_fh *a, const struct probe_fh *b)
{
	fattr3 x = fh_attr(c, a), y = fh_attr(c, b);

	WANT(x.fileid == y.fileid && x.fsid == y.fsid, "%s: another object", what);
}

static void lookup_dots(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh types = path_fh(c, "types"), fh;
	uint32_t s;

	want_stat("LOOKUP .", try_lookup(c, &types, ".", &fh), NFS3_OK);
	want_same(c, ".", &fh, &types);
	want_stat("LOOKUP ..", try_lookup(c, &types, "..", &fh), NFS3_OK);
	want_same(c, "..", &fh, &probe.root);
	s = try_lookup(c, &probe.root, "..", &fh);
	if (s == NFS3_OK)
		want_same(c, ".. of the export's root", &fh, &probe.root);
	else
		WANT(s == NFS3ERR_NOENT || s == NFS3ERR_ACCES, ".. of the export's root: %s",
			stat_name(s));
}

static void lookup_deep(void)
{
	struct probe_conn *c = conn_open();
	char path[32 * 5 + 32] = "deep";
	struct probe_fh fh;
	READ3res r;

	for (int i = 1; i < 32; i++) {
		size_t n = strlen(path);

		snprintf(path + n, sizeof(path) - n, "/d%d", i);
	}
	strcat(path, "/bottom");
	fh = path_fh(c, path);
	fh_read(c, &fh, 0, 100, &r);
	want_stat("READ", r.status, NFS3_OK);
	WANT(r.READ3res_u.resok.count == 7 &&
			!memcmp(r.READ3res_u.resok.data.data_val, "bottom\n", 7),
		"wrong data");
}

/* P13. */
static void names_of_255_bytes(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "names");
	char ascii[256], utf8[256];

	memset(ascii, 'n', 255);
	ascii[255] = '\0';
	for (int i = 0; i < 127; i++)
		memcpy(utf8 + 2 * i, "\303\251", 2);
	strcpy(utf8 + 254, "x");
	want_stat("255 bytes", try_lookup(c, &dir, ascii, NULL), NFS3_OK);
	want_stat("255 bytes of UTF-8", try_lookup(c, &dir, utf8, NULL), NFS3_OK);
}

static void names_odd_but_legal(void)
{
	static const char *const names[] = {
		"bad\377\376utf8", "new\nline", "back\\slash", " space ", "-dash", "..."};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "names");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		want_stat(names[i], try_lookup(c, &dir, names[i], NULL), NFS3_OK);
	want_stat("another case", try_lookup(c, &dir, "-DASH", NULL), NFS3ERR_NOENT);
}

static void names_too_long(void)
{
	static const size_t lengths[] = {256, 257, 300, 1024, 4096};
	struct probe_conn *c = conn_open();
	char name[4097];

	for (size_t i = 0; i < 5; i++) {
		memset(name, 'n', lengths[i]);
		name[lengths[i]] = '\0';
		probe_trying("%zu bytes", lengths[i]);
		want_stat("LOOKUP", try_lookup(c, &probe.root, name, NULL), NFS3ERR_NAMETOOLONG);
	}
}

/* Names that can't exist: an error of NFS, or arguments that don't decode. */
static void names_illegal(void)
{
	static const struct {
		const char *name;
		uint32_t bytes;
	} names[] = {
		{"", 0}, {"/", 1}, {"types/file", 10}, {"hello\0x", 7}, {"\0", 1}, {"hello\0", 6}};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct probe_out o;
		struct probe_reply r;
		LOOKUP3res l = {0};

		probe_trying("name %zu", i);
		out_init(&o, 1024);
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_LOOKUP);
		out_fh(&o, &probe.root);
		out_opaque(&o, names[i].name, names[i].bytes);
		conn_exchange(c, &o, &r);
		WANT(!r.closed, "connection closed");
		if (r.reply_stat == MSG_ACCEPTED && r.stat == GARBAGE_ARGS)
			continue;
		WANT(r.reply_stat == MSG_ACCEPTED && r.stat == SUCCESS, "RPC error %u/%u",
			r.reply_stat, r.stat);
		reply_decode(&r, (zdrproc_t)zdr_LOOKUP3res, &l);
		WANT(l.status == NFS3ERR_INVAL || l.status == NFS3ERR_ACCES ||
				l.status == NFS3ERR_NOENT,
			"%s", stat_name(l.status));
	}
}

static void want_readlink(struct probe_conn *c, const char *path, const char *target)
{
	struct probe_fh fh = path_fh(c, path);
	READLINK3args a = {.symlink = fh_wire(&fh)};
	READLINK3res r = {0};

	NFS_CALL(c, READLINK, &a, &r);
	want_stat(path, r.status, NFS3_OK);
	want_attr("READLINK", &r.READLINK3res_u.resok.symlink_attributes);
	WANT(!strcmp(r.READLINK3res_u.resok.data, target), "%s -> \"%s\"", path,
		r.READLINK3res_u.resok.data);
}

static void readlink_targets(void)
{
	struct probe_conn *c = conn_open();
	char target[1001];

	memset(target, 'x', 1000);
	target[1000] = '\0';
	want_readlink(c, "slink", "hello");
	want_readlink(c, "dangling", "nowhere/at/all");
	want_readlink(c, "longlink", target);
}

/* P20. */
static void readlink_non_link(void)
{
	static const char *const names[] = {
		"hello", "types", "types/fifo", "types/chr", "types/sock"};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct probe_fh fh = path_fh(c, names[i]);
		READLINK3args a = {.symlink = fh_wire(&fh)};
		READLINK3res r = {0};

		NFS_CALL(c, READLINK, &a, &r);
		want_stat(names[i], r.status, NFS3ERR_INVAL);
		want_attr("READLINK", &r.READLINK3res_u.resfail.symlink_attributes);
	}
}

/* What "pattern" holds at an offset: lines of seven digits. */
static char pattern_at(uint64_t file_off)
{
	char line[24];

	snprintf(line, sizeof(line), "%07u\n", (unsigned)(file_off / 8));
	return line[file_off % 8];
}

static void want_pattern(
	struct probe_conn *c, const struct probe_fh *fh, uint64_t file_off, uint32_t count)
{
	uint64_t left = file_off < PATTERN_BYTES ? PATTERN_BYTES - file_off : 0;
	uint32_t limit = count < probe.rtmax ? count : probe.rtmax;
	uint32_t want = left < limit ? (uint32_t)left : limit;
	READ3resok *ok;
	READ3res r;

	probe_trying("offset %lu, count %u", file_off, count);
	fh_read(c, fh, file_off, count, &r);
	want_stat("READ", r.status, NFS3_OK);
	ok = &r.READ3res_u.resok;
	if (count <= probe.rtmax)
		WANT(ok->count == want, "%u bytes instead of %u", ok->count, want);
	else
		WANT(ok->count <= left && (ok->count > 0 || left == 0), "%u bytes", ok->count);
	WANT(!ok->eof == (file_off + ok->count < PATTERN_BYTES), "eof is %u after %u bytes",
		ok->eof, ok->count);
	for (uint32_t i = 0; i < ok->count; i++)
		WANT(ok->data.data_val[i] == pattern_at(file_off + i), "wrong byte at %lu",
			file_off + i);
}

static void read_every_alignment(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "pattern");
	uint64_t seed = 1;

	for (int i = 0; i < 300; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		want_pattern(c, &fh, (seed >> 33) % PATTERN_BYTES, (uint32_t)(seed >> 20) % 9000);
		if (i % 50 == 49)
			probe_release();
	}
	want_pattern(c, &fh, 4095, 2);
	want_pattern(c, &fh, 131071, 131074);
}

static void read_around_eof(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "pattern");

	want_pattern(c, &fh, PATTERN_BYTES - 4096, 4096);
	want_pattern(c, &fh, PATTERN_BYTES - 4096, 4095);
	want_pattern(c, &fh, PATTERN_BYTES - 4096, 8192);
	want_pattern(c, &fh, PATTERN_BYTES - 1, 1);
	want_pattern(c, &fh, PATTERN_BYTES - 1, 100);
	want_pattern(c, &fh, PATTERN_BYTES, 1);
	want_pattern(c, &fh, PATTERN_BYTES, 4096);
	want_pattern(c, &fh, PATTERN_BYTES + 1, 4096);
	want_pattern(c, &fh, 1ull << 40, 4096);
}

static void read_nothing(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "pattern");

	want_pattern(c, &fh, 0, 0);
	want_pattern(c, &fh, 100, 0);
	want_pattern(c, &fh, PATTERN_BYTES, 0);
	want_pattern(c, &fh, PATTERN_BYTES + 100, 0);
}

static void read_over_rtmax(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "pattern");

	want_pattern(c, &fh, 0, probe.rtmax);
	if (probe.rtmax < UINT32_MAX)
		want_pattern(c, &fh, 0, probe.rtmax + 1);
	want_pattern(c, &fh, 0, 0x7fffffff);
	want_pattern(c, &fh, 5, UINT32_MAX);
}

static void read_holes(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "holes");

	for (uint64_t at = 0; at < 1 << 20; at += 8192) {
		READ3res r;

		fh_read(c, &fh, at, 8192, &r);
		want_stat("READ", r.status, NFS3_OK);
		WANT(r.READ3res_u.resok.count == 8192, "short read at %lu", at);
		for (uint32_t i = 0; i < 8192; i++) {
			bool data = at + i >= 128 * 4096 && at + i < 129 * 4096;
			char want = data ? pattern_at(at + i) : '\0';

			WANT(r.READ3res_u.resok.data.data_val[i] == want, "wrong byte at %lu",
				at + i);
		}
	}
}

/* P14. */
static void read_near_2_63(void)
{
	static const struct {
		uint64_t file_off;
		uint32_t count, want;
	} reads[] = {
		{(1ull << 63) - 4096, 4096, 4095},
		{(1ull << 63) - 4096, 8192, 4095},
		{(1ull << 63) - 2, 1, 1},
		{(1ull << 63) - 1, 1, 0},
		{(1ull << 63) - 1, 4096, 0},
		{1ull << 63, 4096, 0},
		{UINT64_MAX - 4095, 8192, 0},
		{UINT64_MAX, 1, 0},
		{UINT64_MAX, 4096, 0},
	};
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "huge");

	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		READ3res r;

		probe_trying("offset 0x%lx, count %u", reads[i].file_off, reads[i].count);
		fh_read(c, &fh, reads[i].file_off, reads[i].count, &r);
		want_stat("READ", r.status, NFS3_OK);
		WANT(r.READ3res_u.resok.count == reads[i].want, "%u bytes instead of %u",
			r.READ3res_u.resok.count, reads[i].want);
		WANT(r.READ3res_u.resok.eof, "no eof");
		for (uint32_t b = 0; b < reads[i].want; b++)
			WANT(!r.READ3res_u.resok.data.data_val[b], "a hole that isn't zero");
	}
}

/* RFC 1813 gives INVAL for all; knfsd's ISDIR for a directory is common. */
static void read_non_file(void)
{
	static const char *const names[] = {
		"types", "slink", "types/fifo", "types/sock", "types/chr", "types/blk"};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct probe_fh fh = path_fh(c, names[i]);
		READ3res r;

		fh_read(c, &fh, 0, 100, &r);
		WANT(r.status == NFS3ERR_INVAL || (i == 0 && r.status == NFS3ERR_ISDIR), "%s: %s",
			names[i], stat_name(r.status));
	}
}

static void fsinfo_sane(void)
{
	struct probe_conn *c = conn_open();
	FSINFO3args a = {.fsroot = fh_wire(&probe.root)};
	const uint32_t need = FSF3_LINK | FSF3_SYMLINK | FSF3_CANSETTIME;
	FSINFO3res r = {0};
	FSINFO3resok *ok = &r.FSINFO3res_u.resok;

	NFS_CALL(c, FSINFO, &a, &r);
	want_stat("FSINFO", r.status, NFS3_OK);
	want_attr("FSINFO", &ok->obj_attributes);
	WANT(ok->rtmax >= 65536 && ok->rtpref <= ok->rtmax && ok->rtpref > 0, "rtmax %u, rtpref %u",
		ok->rtmax, ok->rtpref);
	WANT(ok->wtmax >= 65536 && ok->wtpref <= ok->wtmax && ok->wtpref > 0, "wtmax %u, wtpref %u",
		ok->wtmax, ok->wtpref);
	WANT(ok->rtmult > 0 && ok->wtmult > 0, "rtmult %u, wtmult %u", ok->rtmult, ok->wtmult);
	WANT(ok->dtpref >= 512, "dtpref %u", ok->dtpref);
	WANT(ok->maxfilesize == HUGE_BYTES, "maxfilesize %lu", ok->maxfilesize);
	WANT(ok->time_delta.seconds == 0 && ok->time_delta.nseconds < 1000000000,
		"time_delta %u.%09u", ok->time_delta.seconds, ok->time_delta.nseconds);
	WANT((ok->properties & need) == need, "properties 0x%x", ok->properties);
}

static void pathconf_sane(void)
{
	struct probe_conn *c = conn_open();
	PATHCONF3args a = {.object = fh_wire(&probe.root)};
	PATHCONF3res r = {0};
	PATHCONF3resok *ok = &r.PATHCONF3res_u.resok;

	NFS_CALL(c, PATHCONF, &a, &r);
	want_stat("PATHCONF", r.status, NFS3_OK);
	want_attr("PATHCONF", &ok->obj_attributes);
	WANT(ok->name_max == 255, "name_max %u", ok->name_max);
	WANT(ok->linkmax >= 1024, "linkmax %u", ok->linkmax);
	WANT(ok->no_trunc && ok->chown_restricted && !ok->case_insensitive && ok->case_preserving,
		"no_trunc %u chown_restricted %u case_insensitive %u "
		"case_preserving %u",
		ok->no_trunc, ok->chown_restricted, ok->case_insensitive, ok->case_preserving);
}

static void want_fsstat(struct probe_conn *c, const char *what, const struct probe_fh *fh)
{
	FSSTAT3args a = {.fsroot = fh_wire(fh)};
	FSSTAT3res r = {0};
	FSSTAT3resok *ok = &r.FSSTAT3res_u.resok;

	NFS_CALL(c, FSSTAT, &a, &r);
	want_stat(what, r.status, NFS3_OK);
	want_attr(what, &ok->obj_attributes);
	WANT(ok->tbytes > 0 && ok->fbytes <= ok->tbytes && ok->abytes <= ok->fbytes,
		"%s: bytes %lu total, %lu free, %lu available", what, ok->tbytes, ok->fbytes,
		ok->abytes);
	WANT(ok->ffiles <= ok->tfiles && ok->afiles <= ok->ffiles,
		"%s: files %lu total, %lu free, %lu available", what, ok->tfiles, ok->ffiles,
		ok->afiles);
}

/* P20: also on handles that aren't the root's. */
static void fsstat_sane(void)
{
	static const char *const names[] = {"hello", "slink", "types", "types/fifo", "types/chr"};
	struct probe_conn *c = conn_open();

	want_fsstat(c, "root", &probe.root);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct probe_fh fh = path_fh(c, names[i]);
		FSINFO3args fa = {.fsroot = fh_wire(&fh)};
		PATHCONF3args pa = {.object = fh_wire(&fh)};
		FSINFO3res fr = {0};
		PATHCONF3res pr = {0};

		want_fsstat(c, names[i], &fh);
		NFS_CALL(c, FSINFO, &fa, &fr);
		want_stat("FSINFO", fr.status, NFS3_OK);
		NFS_CALL(c, PATHCONF, &pa, &pr);
		want_stat("PATHCONF", pr.status, NFS3_OK);
	}
}

static void subvolumes_have_their_own_fsid(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh sub = path_fh(c, "sub"), sub2 = path_fh(c, "sub/sub2"), up;
	fattr3 r = fh_attr(c, &probe.root), a = fh_attr(c, &sub), b = fh_attr(c, &sub2), u;

	if (!probe.has_subvolumes)
		probe_skip("the tree isn't on btrfs");
	WANT(r.fsid != a.fsid && a.fsid != b.fsid && r.fsid != b.fsid, "fsids %lx %lx %lx", r.fsid,
		a.fsid, b.fsid);
	WANT(a.type == NF3DIR && b.type == NF3DIR, "not directories");
	want_stat("LOOKUP ..", try_lookup(c, &sub2, "..", &up), NFS3_OK);
	u = fh_attr(c, &up);
	WANT(u.fsid == a.fsid && u.fileid == a.fileid, ".. of a subvolume is another directory");
	want_stat("LOOKUP ..", try_lookup(c, &sub, "..", &up), NFS3_OK);
	u = fh_attr(c, &up);
	WANT(u.fsid == r.fsid && u.fileid == r.fileid, ".. of a subvolume is another directory");
}

static void subvolumes_are_crossed(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh in = path_fh(c, "sub/inside"), in2 = path_fh(c, "sub/sub2/inside");
	READ3res r;

	fh_read(c, &in, 0, 100, &r);
	want_stat("READ", r.status, NFS3_OK);
	WANT(r.READ3res_u.resok.count == 7, "sub/inside: %u bytes", r.READ3res_u.resok.count);
	fh_read(c, &in2, 0, 100, &r);
	want_stat("READ", r.status, NFS3_OK);
	WANT(r.READ3res_u.resok.count == 14, "sub/sub2/inside: %u bytes", r.READ3res_u.resok.count);
}

/*
 * A snapshot has a subvolume's name, but not the subvolume: it is an empty directory, which
 * a walk, or a copy of the tree, passes without an error.
 */
static void snapshot_has_a_stub(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh snap, stub;
	READDIR3args a = {.count = 4096};
	READDIR3res r = {0};
	fattr3 attr;

	if (!probe.has_subvolumes)
		probe_skip("the tree isn't on btrfs");
	snap = path_fh(c, "snap");
	stub = path_fh(c, "snap/sub2");
	attr = fh_attr(c, &stub);
	WANT(attr.type == NF3DIR && attr.nlink >= 1 && (attr.mode & 0777) == 0755,
		"type %d, %u links, mode 0%o", (int)attr.type, attr.nlink, attr.mode);
	WANT(attr.fsid == fh_attr(c, &snap).fsid, "another file system");
	want_stat("LOOKUP", try_lookup(c, &stub, "inside", NULL), NFS3ERR_NOENT);
	a.dir = fh_wire(&stub);
	NFS_CALL(c, READDIR, &a, &r);
	want_stat("READDIR", r.status, NFS3_OK);
	WANT(r.READDIR3res_u.resok.reply.eof, "no end");
	for (entry3 *e = r.READDIR3res_u.resok.reply.entries; e; e = e->nextentry)
		WANT(e->name[0] == '.', "an entry %s", e->name);
}

/* A server restarted or under load may answer on any connection. */
static void handles_work_on_every_connection(void)
{
	struct probe_fh fh = path_fh(conn_open(), "hello");

	for (int i = 0; i < 8; i++)
		fh_attr(conn_open(), &fh);
}

const struct probe_case probe_proc_cases[] = {
	{"getattr_times_modes_owner", getattr_times},
	{"getattr_every_type", getattr_every_type},
	{"getattr_sizes", getattr_sizes},
	{"getattr_hard_links_are_one_file", hard_links_are_one_file},
	{"lookup_missing_noent", lookup_missing},
	{"lookup_in_non_directory_notdir", lookup_in_non_directory},
	{"lookup_dots", lookup_dots},
	{"lookup_deep", lookup_deep},
	{"lookup_p13_names_of_255_bytes", names_of_255_bytes},
	{"lookup_p13_names_odd_but_legal", names_odd_but_legal},
	{"lookup_p13_names_too_long", names_too_long},
	{"lookup_p13_names_illegal", names_illegal},
	{"readlink_targets", readlink_targets},
	{"readlink_p20_non_link_inval", readlink_non_link},
	{"read_every_alignment", read_every_alignment},
	{"read_around_eof", read_around_eof},
	{"read_nothing", read_nothing},
	{"read_over_rtmax", read_over_rtmax},
	{"read_holes", read_holes},
	{"read_p14_near_2_63", read_near_2_63},
	{"read_non_file", read_non_file},
	{"fsinfo_sane", fsinfo_sane},
	{"pathconf_sane", pathconf_sane},
	{"fsstat_p20_any_handle", fsstat_sane},
	{"subvolumes_have_their_own_fsid", subvolumes_have_their_own_fsid},
	{"subvolumes_are_crossed", subvolumes_are_crossed},
	{"subvolumes_b31_stub_in_snapshot", snapshot_has_a_stub},
	{"handles_work_on_every_connection", handles_work_on_every_connection},
	{NULL, NULL},
};
