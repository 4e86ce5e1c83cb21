/* SPDX-License-Identifier: GPL-2.0-or-later */
/* File handles that no server gave, or gave for something else. */
#include "probe.h"

#include <string.h>

#define MAX_HANDLES 8192

/* Every handle of the tree by READDIRPLUS and LOOKUP: a mangled handle may by
 * chance be the real one of another file, which is nobody's fault. */
static struct {
	bool complete;
	size_t count;
	struct {
		struct probe_fh fh;
		uint64_t fileid, fsid;
	} known[MAX_HANDLES];
} tree;

static void collect(struct probe_conn *c, struct probe_fh dir)
{
	size_t first = tree.count;
	READDIRPLUS3args a = {.dircount = 32768, .maxcount = 32768};
	bool eof = false;

	while (!eof) {
		READDIRPLUS3res r = {0};

		a.dir = fh_wire(&dir);
		NFS_CALL(c, READDIRPLUS, &a, &r);
		if (r.status == NFS3ERR_ACCES && probe.squash_export)
			return; /* root is nobody in the squashed tree */
		want_stat("READDIRPLUS", r.status, NFS3_OK);
		for (entryplus3 *e = r.READDIRPLUS3res_u.resok.reply.entries; e; e = e->nextentry) {
			struct probe_fh fh;
			uint32_t status;
			fattr3 attr;

			a.cookie = e->cookie;
			if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
				continue;
			status = try_lookup(c, &dir, e->name, &fh);
			if (status == NFS3ERR_ACCES && probe.squash_export)
				continue;
			want_stat(e->name, status, NFS3_OK);
			attr = fh_attr(c, &fh);
			WANT(tree.count < MAX_HANDLES, "too large a tree");
			tree.known[tree.count].fh = fh;
			tree.known[tree.count].fileid = attr.fileid;
			tree.known[tree.count].fsid = attr.fsid;
			tree.count++;
		}
		memcpy(a.cookieverf, r.READDIRPLUS3res_u.resok.cookieverf, sizeof(a.cookieverf));
		eof = r.READDIRPLUS3res_u.resok.reply.eof;
	}
	for (size_t i = first, end = tree.count; i < end; i++) {
		fattr3 attr = fh_attr(c, &tree.known[i].fh);

		probe_release();
		if (attr.type == NF3DIR)
			collect(c, tree.known[i].fh);
	}
}

static void collect_below(struct probe_conn *c, struct probe_fh root)
{
	fattr3 attr = fh_attr(c, &root);

	WANT(tree.count < MAX_HANDLES, "too large a tree");
	tree.known[tree.count].fh = root;
	tree.known[tree.count].fileid = attr.fileid;
	tree.known[tree.count].fsid = attr.fsid;
	tree.count++;
	collect(c, root);
}

static void collect_once(struct probe_conn *c)
{
	struct probe_fh squashed;

	if (tree.complete)
		return;
	tree.count = 0;
	collect_below(c, probe.root);
	if (probe.squash_export &&
		mount_path(conn_open_mount(), probe.squash_export, &squashed) == MNT3_OK)
		collect_below(c, squashed);
	tree.complete = true;
}

static bool same_fh(const struct probe_fh *a, const struct probe_fh *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

/* BADHANDLE, STALE, or the object whose true handle this is; ACCES when that is in
 * an export this client may not use. */
static void want_no_other_object(
	struct probe_conn *c, const struct probe_fh *mangled, const fattr3 *original)
{
	fattr3 attr;
	uint32_t s = try_getattr(c, mangled, &attr);

	if (s == NFS3ERR_BADHANDLE || s == NFS3ERR_STALE || s == NFS3ERR_ACCES)
		return;
	want_stat("GETATTR", s, NFS3_OK);
	if (original && attr.fileid == original->fileid && attr.fsid == original->fsid)
		return; /* a byte that isn't looked at */
	for (size_t i = 0; i < tree.count; i++)
		if (same_fh(&tree.known[i].fh, mangled) && tree.known[i].fileid == attr.fileid &&
			tree.known[i].fsid == attr.fsid)
			return;
	FAIL("led to another object, fileid %lu", attr.fileid);
}

static void every_byte_flipped(void)
{
	static const char *const names[] = {"hello", "types", "sub", "sub/inside"};
	static const unsigned char masks[] = {0x01, 0x80, 0xff, 0x55};
	struct probe_conn *c = conn_open();

	collect_once(c);
	for (int n = 0; n < 4; n++) {
		struct probe_fh fh = path_fh(c, names[n]);
		fattr3 attr = fh_attr(c, &fh);

		for (uint32_t i = 0; i < fh.len; i++)
			for (int m = 0; m < 4; m++) {
				struct probe_fh bad = fh;

				probe_trying("%s, byte %u ^ %02x", names[n], i, masks[m]);
				bad.data[i] = (char)(bad.data[i] ^ masks[m]);
				want_no_other_object(c, &bad, &attr);
			}
		WANT(fh_attr(c, &fh).fileid == attr.fileid, "the true handle stopped working");
	}
}

static void flipped_handles_in_every_procedure(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "types");

	for (uint32_t p = 1; p <= 21; p++)
		for (uint32_t i = 0; i < fh.len; i++) {
			struct probe_fh bad = fh;
			struct probe_out o;
			struct probe_reply r;

			if (probe.read_write && p != NFS3_GETATTR)
				continue;
			probe_trying("procedure %u, byte %u", p, i);
			bad.data[i] = (char)(bad.data[i] ^ 0x80);
			out_init(&o, 1024);
			out_call(&o, c, NFS_PROGRAM, 3, p);
			out_fh(&o, &bad);
			/* Zeros are decent arguments to most, garbage to some. */
			for (int w = 0; w < 24; w++)
				out_u32(&o, 0);
			conn_exchange(c, &o, &r);
			WANT(!r.closed, "connection closed");
			WANT(r.reply_stat == MSG_ACCEPTED &&
					(r.stat == SUCCESS || r.stat == GARBAGE_ARGS),
				"RPC error %u/%u", r.reply_stat, r.stat);
		}
	fh_attr(c, &fh);
}

/* Noise of each length, then the true handle cut and lengthened. */
static void every_length(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "hello"), bad;
	fattr3 attr = fh_attr(c, &fh);

	collect_once(c);
	for (int fill = 0; fill < 4; fill++)
		for (uint32_t len = 0; len <= NFS3_FHSIZE; len++) {
			static const int fills[] = {0, 0xff, 0x5a, 1};

			probe_trying("%u bytes of %02x", len, fills[fill]);
			bad.len = len;
			memset(bad.data, fills[fill], sizeof(bad.data));
			want_no_other_object(c, &bad, NULL);
		}
	for (uint32_t len = 0; len <= NFS3_FHSIZE; len++) {
		if (len == fh.len)
			continue;
		probe_trying("true handle of %u bytes as %u", fh.len, len);
		memset(&bad, 0, sizeof(bad));
		memcpy(bad.data, fh.data, fh.len);
		bad.len = len;
		want_no_other_object(c, &bad, &attr);
	}
}

static void length_65_is_garbage(void)
{
	struct probe_conn *c = conn_open();
	struct probe_out o;
	struct probe_reply r;

	out_init(&o, 1024);
	out_call(&o, c, NFS_PROGRAM, 3, NFS3_GETATTR);
	out_u32(&o, NFS3_FHSIZE + 1);
	for (int w = 0; w < 17; w++)
		out_u32(&o, 0);
	want_accept(c, &o, GARBAGE_ARGS, &r);
}

/* One name, one handle: clients compare them as bytes. */
static void handles_are_stable(void)
{
	static const char *const names[] = {"hello", "types", "sub", "sub/sub2/inside", "links/f0"};
	struct probe_conn *c = conn_open();

	for (int i = 0; i < 5; i++) {
		struct probe_fh a = path_fh(c, names[i]), b = path_fh(conn_open(), names[i]);

		WANT(same_fh(&a, &b), "%s: two handles", names[i]);
	}
	{
		struct probe_fh a = path_fh(c, "links/f0"), b = path_fh(c, "links/zlink");

		WANT(same_fh(&a, &b), "two handles of one hard-linked file");
	}
}

static void handles_are_different(void)
{
	struct probe_conn *c = conn_open();

	collect_once(c);
	for (size_t i = 0; i < tree.count; i++)
		for (size_t k = i + 1; k < tree.count; k++)
			WANT(!same_fh(&tree.known[i].fh, &tree.known[k].fh) ||
					tree.known[i].fileid == tree.known[k].fileid,
				"fileids %lu and %lu have one handle", tree.known[i].fileid,
				tree.known[k].fileid);
}

/* Two subvolumes both have inode 257: their handles and fsids must differ. */
static void fileids_are_unique_per_fsid(void)
{
	struct probe_conn *c = conn_open();

	collect_once(c);
	for (size_t i = 0; i < tree.count; i++)
		for (size_t k = i + 1; k < tree.count; k++)
			WANT(tree.known[i].fileid != tree.known[k].fileid ||
					tree.known[i].fsid != tree.known[k].fsid ||
					same_fh(&tree.known[i].fh, &tree.known[k].fh),
				"fileid %lu twice in one fsid", tree.known[i].fileid);
}

const struct probe_case probe_fh_cases[] = {
	{"fh_every_byte_flipped", every_byte_flipped},
	{"fh_flipped_in_every_procedure", flipped_handles_in_every_procedure},
	{"fh_every_length", every_length},
	{"fh_length_65_is_garbage", length_65_is_garbage},
	{"fh_handles_are_stable", handles_are_stable},
	{"fh_handles_are_different", handles_are_different},
	{"fh_fileids_are_unique_per_fsid", fileids_are_unique_per_fsid},
	{NULL, NULL},
};
