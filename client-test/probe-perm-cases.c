/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who may do what: AUTH_SYS, AUTH_NONE, root squash, ACCESS. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define ALL_BITS                                                                            \
	(ACCESS3_READ | ACCESS3_LOOKUP | ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE | \
		ACCESS3_EXECUTE)

static uint32_t read_status(struct probe_conn *c, const struct probe_fh *fh)
{
	READ3res r;

	fh_read(c, fh, 0, 100, &r);
	return r.status;
}

/* ACCESS and READ must agree on whether this connection's user may read. */
static void want_read(struct probe_conn *c, const struct probe_fh *fh, bool may)
{
	bool granted = fh_access(c, fh, ACCESS3_READ) & ACCESS3_READ;

	WANT(granted == may, "ACCESS READ is %sgranted", granted ? "" : "not ");
	want_stat("READ", read_status(c, fh), may ? NFS3_OK : NFS3ERR_ACCES);
}

static void read_by_class(void)
{
	static const struct {
		const char *file;
		uint32_t uid, gid;
		bool may;
	} tries[] = {
		{"perm/o0600", 1000, 1000, true},
		{"perm/o0600", 1001, 1000, false}, /* the group has no bits */
		{"perm/o0600", 1001, 1001, false},
		{"perm/g0640", 1000, 1, true},
		{"perm/g0640", 1001, 2000, true},
		{"perm/g0640", 1001, 1001, false},
		{"perm/t0604", 1001, 2000, false}, /* group goes before other */
		{"perm/t0604", 1001, 1001, true},
		{"perm/u0040", 1001, 2000, true},
		{"perm/a0666", 4711, 4711, true},
		{"perm/z0000", 1001, 1001, false},
		{"hello", 4711, 4711, true},
	};
	struct probe_conn *root = conn_open(), *c = conn_open();

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct probe_fh fh = path_fh(root, tries[i].file);

		probe_trying("%s by %u:%u", tries[i].file, tries[i].uid, tries[i].gid);
		conn_as(c, tries[i].uid, tries[i].gid);
		want_read(c, &fh, tries[i].may);
	}
}

/* The owner may READ whatever the mode (RFC 1813, 4.4); ACCESS tells the mode. */
static void owner_is_told_the_mode(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh fh = path_fh(root, "perm/u0040");
	uint32_t s;

	conn_as(c, 1000, 1000);
	WANT(!(fh_access(c, &fh, ACCESS3_READ) & ACCESS3_READ),
		"ACCESS READ granted to an owner without the bit");
	s = read_status(c, &fh);
	WANT(s == NFS3_OK || s == NFS3ERR_ACCES, "READ: %s", stat_name(s));
}

static void supplementary_groups(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();

	for (uint32_t count = 0; count <= 16; count++) {
		conn_as(c, 1001, 1001);
		c->cred.gid_count = count;
		for (uint32_t g = 0; g < count; g++)
			c->cred.gids[g] = 3001 + g;
		for (uint32_t f = 1; f <= 16; f++) {
			char path[32];
			struct probe_fh fh;

			snprintf(path, sizeof(path), "perm/s%u", f);
			fh = path_fh(root, path);
			probe_trying("%s with %u groups", path, count);
			want_read(c, &fh, f <= count);
		}
		probe_release();
	}
}

static void root_may_read_all(void)
{
	static const char *const names[] = {"perm/o0600", "perm/z0000", "perm/d0700/in"};
	struct probe_conn *c = conn_open();

	for (int i = 0; i < 3; i++) {
		struct probe_fh fh = path_fh(c, names[i]);

		probe_trying("%s", names[i]);
		want_read(c, &fh, true);
	}
}

/* No EXECUTE without any x bit, even for root; no LOOKUP on what isn't a directory. */
static void access_bits_by_type(void)
{
	static const struct {
		const char *name;
		uint32_t uid, must, must_not;
	} tries[] = {
		{"hello", 0, ACCESS3_READ, ACCESS3_LOOKUP | ACCESS3_EXECUTE},
		{"hello", 1001, ACCESS3_READ,
			ACCESS3_LOOKUP | ACCESS3_EXECUTE | ACCESS3_MODIFY | ACCESS3_EXTEND |
				ACCESS3_DELETE},
		{"perm/x0711", 1000, ACCESS3_READ | ACCESS3_EXECUTE, ACCESS3_LOOKUP},
		{"perm/x0711", 1001, ACCESS3_EXECUTE,
			ACCESS3_READ | ACCESS3_LOOKUP | ACCESS3_MODIFY},
		{"perm/z0000", 1001, 0, ALL_BITS},
		{"types", 1001, ACCESS3_READ | ACCESS3_LOOKUP,
			ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE},
		{"perm/d0700", 1000, ACCESS3_READ | ACCESS3_LOOKUP, 0},
		{"perm/d0700", 1001, 0, ALL_BITS},
		{"perm/d0711", 1001, ACCESS3_LOOKUP, ACCESS3_READ},
		{"perm/d0744", 1001, ACCESS3_READ, ACCESS3_LOOKUP},
		{"slink", 1001, ACCESS3_READ, ACCESS3_LOOKUP},
		{"types/fifo", 1001, ACCESS3_READ, ACCESS3_LOOKUP},
		{"types/chr", 0, ACCESS3_READ, ACCESS3_LOOKUP},
	};
	struct probe_conn *root = conn_open(), *c = conn_open();

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct probe_fh fh = path_fh(root, tries[i].name);
		uint32_t got;

		conn_as(c, tries[i].uid, tries[i].uid);
		got = fh_access(c, &fh, ALL_BITS);
		WANT((got & tries[i].must) == tries[i].must && !(got & tries[i].must_not),
			"%s by %u: granted 0x%02x, must have 0x%02x and not "
			"0x%02x",
			tries[i].name, tries[i].uid, got, tries[i].must, tries[i].must_not);
		/* One bit at a time says the same as all at once. */
		for (uint32_t bit = 1; bit <= ACCESS3_EXECUTE; bit <<= 1)
			WANT(fh_access(c, &fh, bit) == (got & bit), "%s: bit 0x%02x alone differs",
				tries[i].name, bit);
		WANT(fh_access(c, &fh, 0) == 0, "bits granted, none asked");
	}
}

static void access_ignores_unknown_bits(void)
{
	struct probe_conn *c = conn_open();
	uint32_t got = fh_access(c, &probe.root, UINT32_MAX);

	WANT((got & ~(uint32_t)ALL_BITS) == 0, "granted 0x%x", got);
}

static void read_only_grants_no_change(void)
{
	const uint32_t change = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "perm/a0666");
	uint32_t got;

	if (probe.read_write)
		probe_skip("the export is writable");
	got = fh_access(c, &fh, change) | fh_access(c, &probe.root, change);
	WANT(got == 0, "granted 0x%x on a read-only export", got);
}

static void directory_search(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh d0700 = path_fh(root, "perm/d0700"), d0711 = path_fh(root, "perm/d0711"),
			d0744 = path_fh(root, "perm/d0744"), d0750 = path_fh(root, "perm/d0750");

	conn_as(c, 1001, 1001);
	want_stat("LOOKUP in 0700", try_lookup(c, &d0700, "in", NULL), NFS3ERR_ACCES);
	want_stat("LOOKUP in 0711", try_lookup(c, &d0711, "in", NULL), NFS3_OK);
	want_stat("LOOKUP in 0744", try_lookup(c, &d0744, "in", NULL), NFS3ERR_ACCES);
	want_stat("LOOKUP of a missing name in 0700", try_lookup(c, &d0700, "nothing", NULL),
		NFS3ERR_ACCES);
	want_stat("LOOKUP in 0750", try_lookup(c, &d0750, "in", NULL), NFS3ERR_ACCES);
	c->cred.gid_count = 1;
	c->cred.gids[0] = 2000;
	want_stat("LOOKUP in 0750 by the group", try_lookup(c, &d0750, "in", NULL), NFS3_OK);
	conn_as(c, 1000, 1);
	want_stat("LOOKUP in 0700 by the owner", try_lookup(c, &d0700, "in", NULL), NFS3_OK);
}

static uint32_t readdir_status(struct probe_conn *c, const struct probe_fh *dir, bool plus)
{
	READDIR3args a = {.dir = fh_wire(dir), .count = 4096};
	READDIRPLUS3args ap = {.dir = fh_wire(dir), .dircount = 4096, .maxcount = 4096};
	READDIR3res r = {0};
	READDIRPLUS3res rp = {0};

	if (plus) {
		NFS_CALL(c, READDIRPLUS, &ap, &rp);
		return rp.status;
	}
	NFS_CALL(c, READDIR, &a, &r);
	return r.status;
}

static void directory_list(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh d0700 = path_fh(root, "perm/d0700"), d0711 = path_fh(root, "perm/d0711"),
			d0744 = path_fh(root, "perm/d0744");

	conn_as(c, 1001, 1001);
	for (int plus = 0; plus < 2; plus++) {
		want_stat("0700", readdir_status(c, &d0700, plus), NFS3ERR_ACCES);
		want_stat("0711", readdir_status(c, &d0711, plus), NFS3ERR_ACCES);
	}
	want_stat("READDIR 0744", readdir_status(c, &d0744, false), NFS3_OK);
	conn_as(c, 1000, 1000);
	want_stat("0700 by the owner", readdir_status(c, &d0700, true), NFS3_OK);
}

/* Attributes are for all who have the handle. */
static void getattr_needs_no_permission(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh a = path_fh(root, "perm/z0000"), b = path_fh(root, "perm/d0700"),
			in = path_fh(root, "perm/d0700/in");

	conn_as(c, 1001, 1001);
	fh_attr(c, &a);
	fh_attr(c, &b);
	fh_attr(c, &in);
	/* Nor does a handle need the path above it to be open. */
	want_read(c, &in, true);
}

/* AUTH_NONE is the anonymous user, or is turned away as too weak; never root. */
static void auth_none_is_nobody(void)
{
	static const char *const names[] = {"hello", "perm/o0600"};
	struct probe_conn *root = conn_open(), *c = conn_open();

	for (int i = 0; i < 2; i++) {
		struct probe_fh fh = path_fh(root, names[i]);
		struct probe_out o;
		struct probe_reply reply;
		READ3res r = {0};

		probe_trying("%s", names[i]);
		c->cred.flavor = AUTH_NONE;
		out_init(&o, 1024);
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_READ);
		out_fh(&o, &fh);
		out_u64(&o, 0);
		out_u32(&o, 100);
		conn_exchange(c, &o, &reply);
		WANT(!reply.closed, "connection closed");
		if (reply.reply_stat == MSG_DENIED) {
			WANT(reply.stat == AUTH_ERROR, "reject_stat %u", reply.stat);
			continue;
		}
		WANT(reply.stat == SUCCESS, "accept_stat %u", reply.stat);
		reply_decode(&reply, (zdrproc_t)zdr_READ3res, &r);
		want_stat("READ", r.status, i ? NFS3ERR_ACCES : NFS3_OK);
	}
}

static void root_squash(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh saved = probe.root, open_file, closed, dir;
	mountstat3 s;

	if (!probe.squash_export)
		probe_skip("no --squash-export");
	s = mount_path(conn_open_mount(), probe.squash_export, &dir);
	WANT(s == MNT3_OK, "MNT: mountstat %d", (int)s);
	want_stat("LOOKUP", try_lookup(c, &dir, "hello", &open_file), NFS3_OK);
	want_stat("LOOKUP", try_lookup(c, &dir, "perm", &dir), NFS3_OK);
	want_stat("LOOKUP", try_lookup(c, &dir, "o0600", &closed), NFS3_OK);
	probe_trying("world-readable file");
	want_read(c, &open_file, true);
	probe_trying("0600 file of 1000");
	want_read(c, &closed, false);
	conn_as(c, 1000, 1000);
	probe_trying("the same by 1000");
	want_read(c, &closed, true);
	probe.root = saved;
}

/* A user id that isn't root's but looks like it in fewer bits. */
static void large_user_ids(void)
{
	static const uint32_t uids[] = {65536, 0x10000000, 0xfffffffe};
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh fh = path_fh(root, "perm/o0600");

	for (int i = 0; i < 3; i++) {
		probe_trying("uid %u", uids[i]);
		conn_as(c, uids[i], uids[i]);
		want_read(c, &fh, false);
	}
}

/* Each request is judged by its own credential, not the connection's first. */
static void credentials_change_on_a_connection(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh fh = path_fh(c, "perm/o0600");

	for (int i = 0; i < 10; i++) {
		conn_as(c, i % 2 ? 1000 : 1001, 1001);
		want_read(c, &fh, i % 2);
	}
}

const struct probe_case probe_perm_cases[] = {
	{"perm_read_by_class", read_by_class},
	{"perm_owner_is_told_the_mode", owner_is_told_the_mode},
	{"perm_supplementary_groups", supplementary_groups},
	{"perm_root_may_read_all", root_may_read_all},
	{"access_bits_by_type", access_bits_by_type},
	{"access_ignores_unknown_bits", access_ignores_unknown_bits},
	{"access_read_only_grants_no_change", read_only_grants_no_change},
	{"perm_directory_search", directory_search},
	{"perm_directory_list", directory_list},
	{"perm_getattr_needs_no_permission", getattr_needs_no_permission},
	{"perm_auth_none_is_nobody", auth_none_is_nobody},
	{"perm_root_squash", root_squash},
	{"perm_large_user_ids", large_user_ids},
	{"perm_credentials_change", credentials_change_on_a_connection},
	{NULL, NULL},
};
