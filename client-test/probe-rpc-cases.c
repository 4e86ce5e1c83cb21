/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ONC RPC over TCP: RFC 5531, and record marking (its section 11).
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define UNKNOWN_PROGRAM 400123u

static const struct {
	const char *name;
	uint32_t program;
	bool mount;
} programs[] = {
	{"NFS", NFS_PROGRAM, false},
	{"MOUNT", MOUNT_PROGRAM, true},
};
#define PROGRAMS (sizeof(programs) / sizeof(programs[0]))

static struct probe_conn *open_for(size_t i)
{
	return programs[i].mount ? conn_open_mount() : conn_open();
}

static void getattr_root(struct probe_conn *c)
{
	want_stat("GETATTR of the root", try_getattr(c, &probe.root, NULL), NFS3_OK);
}

/* A call without arguments. */
static struct probe_out bare_call(
	struct probe_conn *c, uint32_t program, uint32_t version, uint32_t procedure)
{
	struct probe_out o;

	out_init(&o, 1024);
	out_call(&o, c, program, version, procedure);
	return o;
}

static void null_each_program(void)
{
	for (size_t i = 0; i < PROGRAMS; i++) {
		struct probe_conn *c = open_for(i);
		struct probe_out o = bare_call(c, programs[i].program, 3, 0);
		struct probe_reply r;

		probe_trying("%s", programs[i].name);
		want_accept(c, &o, SUCCESS, &r);
		WANT(r.body_bytes == 0, "NULL returned %u bytes", r.body_bytes);
	}
}

static void null_auth_none(void)
{
	for (size_t i = 0; i < PROGRAMS; i++) {
		struct probe_conn *c = open_for(i);
		struct probe_out o;
		struct probe_reply r;

		probe_trying("%s", programs[i].name);
		c->cred.flavor = AUTH_NONE;
		o = bare_call(c, programs[i].program, 3, 0);
		want_accept(c, &o, SUCCESS, &r);
	}
}

static void prog_unavail(void)
{
	struct probe_conn *c = conn_open();
	struct probe_out o = bare_call(c, UNKNOWN_PROGRAM, 1, 0);
	struct probe_reply r;

	want_accept(c, &o, PROG_UNAVAIL, &r);
	getattr_root(c);
}

static void prog_mismatch(void)
{
	static const uint32_t versions[] = {0, 99, UINT32_MAX};

	for (size_t i = 0; i < PROGRAMS; i++)
		for (size_t v = 0; v < 3; v++) {
			struct probe_conn *c = open_for(i);
			struct probe_out o = bare_call(c, programs[i].program, versions[v], 0);
			struct probe_reply r;

			probe_trying("%s version %u", programs[i].name, versions[v]);
			want_accept(c, &o, PROG_MISMATCH, &r);
			WANT(r.low <= 3 && r.high >= 3 && r.low <= r.high,
				"offers versions %u to %u", r.low, r.high);
		}
}

static void proc_unavail(void)
{
	static const uint32_t procedures[] = {22, 23, 1000, UINT32_MAX};

	for (size_t i = 0; i < PROGRAMS; i++)
		for (size_t p = 0; p < 4; p++) {
			struct probe_conn *c = open_for(i);
			struct probe_out o = bare_call(c, programs[i].program, 3, procedures[p]);
			struct probe_reply r;

			probe_trying("%s procedure %u", programs[i].name, procedures[p]);
			want_accept(c, &o, PROC_UNAVAIL, &r);
		}
}

/* Arguments that end too early, for every procedure that has some. */
static void garbage_args_missing(void)
{
	struct probe_conn *c = conn_open();

	for (uint32_t p = 1; p <= 21; p++) {
		struct probe_out o = bare_call(c, NFS_PROGRAM, 3, p);
		struct probe_reply r;

		probe_trying("procedure %u", p);
		want_accept(c, &o, GARBAGE_ARGS, &r);
	}
	getattr_root(c);
}

static void garbage_args_cut(void)
{
	struct probe_conn *c = conn_open();
	struct probe_out o;
	struct probe_reply r;
	uint32_t before, after;

	out_init(&o, 1024);
	out_call(&o, c, NFS_PROGRAM, 3, NFS3_LOOKUP);
	before = o.bytes;
	out_fh(&o, &probe.root);
	out_opaque(&o, "hello", 5);
	after = o.bytes;
	for (o.bytes = before; o.bytes < after; o.bytes += 4) {
		probe_trying("cut to %u bytes", o.bytes - before);
		want_accept(c, &o, GARBAGE_ARGS, &r);
	}
	getattr_root(c);
}

/* A length field that promises more than the record holds. */
static void garbage_args_length_claims(void)
{
	static const uint32_t claims[] = {65, 128, 1024, 65536, 0x7fffffff, 0x80000000, UINT32_MAX};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		struct probe_out o = bare_call(c, NFS_PROGRAM, 3, NFS3_GETATTR);
		struct probe_reply r;

		probe_trying("handle of %u bytes", claims[i]);
		out_u32(&o, claims[i]);
		out_raw(&o, probe.root.data, probe.root.len);
		want_accept(c, &o, GARBAGE_ARGS, &r);

		probe_trying("name of %u bytes", claims[i]);
		o = bare_call(c, NFS_PROGRAM, 3, NFS3_LOOKUP);
		out_fh(&o, &probe.root);
		out_u32(&o, claims[i]);
		out_raw(&o, "hello\0\0\0", 8);
		want_accept(c, &o, GARBAGE_ARGS, &r);
	}
	getattr_root(c);
}

static void rpc_mismatch(void)
{
	struct probe_conn *c = conn_open();
	struct probe_out o = bare_call(c, NFS_PROGRAM, 3, 0);
	struct probe_reply r;

	o.data[11] = 3; /* the RPC version */
	conn_exchange(c, &o, &r);
	WANT(!r.closed, "connection closed, no reply");
	WANT(r.reply_stat == MSG_DENIED && r.stat == RPC_MISMATCH,
		"reply %u/%u instead of denied, RPC_MISMATCH", r.reply_stat, r.stat);
	WANT(r.low == 2 && r.high == 2, "offers RPC versions %u to %u", r.low, r.high);
}

static void want_auth_error(struct probe_conn *c, const struct probe_out *o)
{
	struct probe_reply r;

	conn_exchange(c, o, &r);
	WANT(!r.closed, "connection closed, no reply");
	WANT(r.reply_stat == MSG_DENIED && r.stat == AUTH_ERROR,
		"reply %u/%u instead of denied, AUTH_ERROR", r.reply_stat, r.stat);
	WANT(r.auth_stat >= AUTH_BADCRED && r.auth_stat <= 14, "auth_stat %u", r.auth_stat);
}

static void auth_unknown_flavor(void)
{
	static const uint32_t flavors[] = {2, 99, 390004, UINT32_MAX};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < 4; i++) {
		struct probe_out o;

		probe_trying("flavor %u", flavors[i]);
		c->cred.flavor = flavors[i];
		o = bare_call(c, NFS_PROGRAM, 3, NFS3_GETATTR);
		out_fh(&o, &probe.root);
		want_auth_error(c, &o);
	}
	conn_as(c, 0, 0);
	getattr_root(c);
}

/* More groups, a longer machine name or another length than AUTH_SYS allows. */
static void auth_sys_malformed(void)
{
	struct probe_conn *c = conn_open();
	struct probe_out o;
	uint32_t at_length = 28;

	c->cred.gid_count = 17;
	o = bare_call(c, NFS_PROGRAM, 3, NFS3_GETATTR);
	out_fh(&o, &probe.root);
	probe_trying("17 groups");
	want_auth_error(c, &o);

	conn_as(c, 0, 0);
	o = bare_call(c, NFS_PROGRAM, 3, NFS3_GETATTR);
	out_fh(&o, &probe.root);
	memset(o.data + at_length + 8, 0xff, 4); /* the machine name's length */
	probe_trying("machine name of 2^32-1 bytes");
	want_auth_error(c, &o);

	o = bare_call(c, NFS_PROGRAM, 3, NFS3_GETATTR);
	out_fh(&o, &probe.root);
	o.data[at_length + 4 + 4 + 4 + 8 + 8 + 3] = 9; /* groups that aren't there */
	probe_trying("9 groups promised, none there");
	want_auth_error(c, &o);
	getattr_root(c);
}

/* A credential of 401 bytes and more is not a legal message at all (RFC 5531, 8.2). */
static void auth_too_long(void)
{
	static const uint32_t claims[] = {404, 4096, 0x7fffffff, UINT32_MAX};

	for (size_t i = 0; i < 4; i++) {
		struct probe_conn *c = conn_open();
		struct probe_out o;
		struct probe_reply r;

		probe_trying("credential of %u bytes", claims[i]);
		out_init(&o, 8192);
		out_u32(&o, 77);
		out_u32(&o, CALL);
		out_u32(&o, 2);
		out_u32(&o, NFS_PROGRAM);
		out_u32(&o, 3);
		out_u32(&o, NFS3_NULL);
		out_u32(&o, AUTH_UNIX);
		out_u32(&o, claims[i]);
		for (int w = 0; w < 1100; w++)
			out_u32(&o, 0);
		conn_exchange(c, &o, &r);
		WANT(r.closed || r.reply_stat == MSG_DENIED || r.stat == GARBAGE_ARGS, "accepted");
	}
	getattr_root(conn_open());
}

/* Records that are no call: at worst the connection is closed; no answer. */
static void not_a_call(void)
{
	static const char noise[64] = {1, 2, 3, 4};
	struct probe_conn *other = conn_open();

	for (uint32_t bytes = 0; bytes <= 20; bytes += 4) {
		struct probe_conn *c = conn_open();
		char *data;
		uint32_t got;

		probe_trying("record of %u bytes", bytes);
		conn_send_record(c, noise, bytes, 4096, false, bytes == 0);
		shutdown(c->fd, SHUT_WR);
		if (conn_receive(c, &data, &got)) {
			struct probe_reply r;

			reply_parse(data, got, &r);
			WANT(r.reply_stat == MSG_DENIED || r.stat != SUCCESS,
				"answered as a success");
		}
		getattr_root(other);
	}
	probe_trying("a reply instead of a call");
	{
		struct probe_conn *c = conn_open();
		struct probe_out o = bare_call(c, NFS_PROGRAM, 3, 0);
		char *data;
		uint32_t got;

		o.data[7] = REPLY;
		conn_send_record(c, o.data, o.bytes, 4096, false, false);
		shutdown(c->fd, SHUT_WR);
		WANT(!conn_receive(c, &data, &got), "a reply got a reply of %u bytes", got);
	}
	getattr_root(other);
}

/* P49. Short requests, one with a long name, and one with 32 KiB of data. */
static struct probe_out fragment_request(
	struct probe_conn *c, int kind, const struct probe_fh *file)
{
	static const char name[255] = "x";
	struct probe_out o;

	out_init(&o, 40000);
	switch (kind) {
	case 0:
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_NULL);
		break;
	case 1:
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_GETATTR);
		out_fh(&o, &probe.root);
		break;
	case 2: /* GARBAGE_ARGS or INVAL: the name has NULs in it */
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_LOOKUP);
		out_fh(&o, &probe.root);
		out_opaque(&o, name, sizeof(name));
		break;
	case 3:
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_READDIRPLUS);
		out_fh(&o, &probe.root);
		out_u64(&o, 0);
		out_u64(&o, 0);
		out_u32(&o, 4096);
		out_u32(&o, 16384);
		break;
	case 4:
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_READ);
		out_fh(&o, file);
		out_u64(&o, 0);
		out_u32(&o, 4096);
		break;
	default: /* of no bytes on a writable export, so that nothing changes */
		out_call(&o, c, NFS_PROGRAM, 3, NFS3_WRITE);
		out_fh(&o, file);
		out_u64(&o, 0);
		out_u32(&o, probe.read_write ? 0 : 32768);
		out_u32(&o, UNSTABLE);
		out_u32(&o, probe.read_write ? 0 : 32768);
		if (!probe.read_write) {
			memset(o.data + o.bytes, 'w', 32768);
			o.bytes += 32768;
		}
		break;
	}
	return o;
}

static void fragments_reassembled(void)
{
	static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 61, 256, 1000, 1024, 4096};
	struct probe_conn *c = conn_open();
	struct probe_fh file = path_fh(c, "pattern");

	for (int kind = 0; kind < 6; kind++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (int how = 0; how < 4; how++) {
				struct probe_out o = fragment_request(c, kind, &file);
				struct probe_reply r;
				uint32_t bytes;
				char *data;

				probe_trying("request %d in fragments of %u, "
					     "empty ones %d, late end %d",
					kind, sizes[s], how & 1, how >> 1);
				WANT(conn_send_record(
					     c, o.data, o.bytes, sizes[s], how & 1, how >> 1),
					"connection closed");
				WANT(conn_receive(c, &data, &bytes), "connection closed");
				reply_parse(data, bytes, &r);
				WANT(r.xid == c->next_xid - 1, "wrong xid");
				WANT(r.reply_stat == MSG_ACCEPTED &&
						(r.stat == SUCCESS || kind == 2),
					"RPC error %u/%u", r.reply_stat, r.stat);
				if (how == 3)
					probe_release();
			}
	getattr_root(c);
}

/* Two records in one segment, then one record in two segments. */
static void records_share_a_segment(void)
{
	struct probe_conn *c = conn_open();
	struct probe_out both, o;
	char *data;
	uint32_t bytes;

	out_init(&both, 1024);
	for (int i = 0; i < 2; i++) {
		o = bare_call(c, NFS_PROGRAM, 3, 0);
		out_u32(&both, o.bytes | 0x80000000u);
		out_raw(&both, o.data, o.bytes);
	}
	WANT(conn_send(c, both.data, both.bytes - 10), "closed");
	WANT(conn_receive(c, &data, &bytes), "closed");
	WANT(conn_send(c, both.data + both.bytes - 10, 10), "closed");
	WANT(conn_receive(c, &data, &bytes), "closed");
}

static void fragment_claims_too_much(void)
{
	static const uint32_t claims[] = {0xffffffffu, 0x7fffffffu, 0xf0000000u, 0x90000000u};
	struct probe_conn *other = conn_open();

	for (size_t i = 0; i < 4; i++) {
		struct probe_conn *c = conn_open();
		struct probe_out o;

		probe_trying("fragment header %08x", claims[i]);
		out_init(&o, 64);
		out_u32(&o, claims[i]);
		for (int w = 0; w < 10; w++)
			out_u32(&o, 0);
		conn_send(c, o.data, o.bytes);
		want_closed(c);
		getattr_root(other);
	}
}

/* Every fragment is legal, the sum is not: it must not be buffered for ever. */
static void fragments_without_end(void)
{
	struct probe_conn *c = conn_open(), *other = conn_open();
	static char megabyte[1 << 20];
	struct probe_out head;

	out_init(&head, 4);
	out_u32(&head, sizeof(megabyte));
	for (int mib = 0; mib < 256; mib++) {
		if (!conn_send(c, head.data, 4) || !conn_send(c, megabyte, sizeof(megabyte))) {
			getattr_root(other);
			return;
		}
	}
	FAIL("256 MiB of one record were accepted");
}

static void pipelined(void)
{
	enum {
		REQUESTS = 256
	};
	struct probe_conn *c = conn_open();
	struct probe_fh file = path_fh(c, "pattern");
	struct probe_out all, o;
	bool seen[REQUESTS] = {false};
	uint32_t first = c->next_xid, bytes;
	char *data;

	out_init(&all, REQUESTS * 600);
	for (int i = 0; i < REQUESTS; i++) {
		o = fragment_request(c, i % 2 ? 1 : i % 4 ? 3 : 4, &file);
		out_u32(&all, o.bytes | 0x80000000u);
		out_raw(&all, o.data, o.bytes);
	}
	WANT(conn_send(c, all.data, all.bytes), "connection closed");
	for (int i = 0; i < REQUESTS; i++) {
		struct probe_reply r;

		WANT(conn_receive(c, &data, &bytes), "connection closed after %d replies", i);
		reply_parse(data, bytes, &r);
		WANT(r.reply_stat == MSG_ACCEPTED && r.stat == SUCCESS, "RPC error %u/%u",
			r.reply_stat, r.stat);
		WANT(r.xid - first < REQUESTS && !seen[r.xid - first],
			"xid %u twice or never asked", r.xid);
		seen[r.xid - first] = true;
	}
}

static void cut_connection_hurts_nobody(void)
{
	struct probe_conn *other = conn_open();
	struct probe_fh file = path_fh(other, "pattern");

	for (int i = 0; i < 64; i++) {
		struct probe_conn *c = conn_open();
		struct probe_out o = fragment_request(c, i % 6, &file), head;

		out_init(&head, 4);
		out_u32(&head, o.bytes | 0x80000000u);
		conn_send(c, head.data, i % 5);
		if (i % 5 == 4)
			conn_send(c, o.data, o.bytes * (uint32_t)i / 64);
		conn_close(c);
		getattr_root(other);
	}
}

/* Requests were sent, nobody waits for the answers. */
static void gone_before_the_answers(void)
{
	struct probe_conn *other = conn_open();
	struct probe_fh file = path_fh(other, "pattern");

	for (int i = 0; i < 16; i++) {
		struct probe_conn *c = conn_open();

		for (int n = 0; n < 64; n++) {
			struct probe_out o;

			out_init(&o, 1024);
			out_call(&o, c, NFS_PROGRAM, 3, NFS3_READ);
			out_fh(&o, &file);
			out_u64(&o, 0);
			out_u32(&o, 65536);
			conn_send_record(c, o.data, o.bytes, 4096, false, false);
		}
		conn_close(c);
		probe_release();
		getattr_root(other);
	}
}

static void slow_sender_delays_nobody(void)
{
	struct probe_conn *slow = conn_open(), *other = conn_open();
	struct probe_out o = bare_call(slow, NFS_PROGRAM, 3, 0), head;
	char *data;
	uint32_t bytes;

	out_init(&head, 4);
	out_u32(&head, o.bytes | 0x80000000u);
	conn_send(slow, head.data, 4);
	for (uint32_t i = 0; i < o.bytes; i++) {
		WANT(conn_send(slow, o.data + i, 1), "connection closed");
		getattr_root(other);
	}
	WANT(conn_receive(slow, &data, &bytes), "no answer in the end");
}

const struct probe_case probe_rpc_cases[] = {
	{"rpc_null_each_program", null_each_program},
	{"rpc_null_auth_none", null_auth_none},
	{"rpc_prog_unavail", prog_unavail},
	{"rpc_prog_mismatch_gives_versions", prog_mismatch},
	{"rpc_proc_unavail", proc_unavail},
	{"rpc_garbage_args_missing", garbage_args_missing},
	{"rpc_garbage_args_cut", garbage_args_cut},
	{"rpc_garbage_args_length_claims", garbage_args_length_claims},
	{"rpc_version_mismatch", rpc_mismatch},
	{"rpc_auth_unknown_flavor", auth_unknown_flavor},
	{"rpc_auth_sys_malformed", auth_sys_malformed},
	{"rpc_auth_too_long", auth_too_long},
	{"rpc_not_a_call", not_a_call},
	{"rpc_p49_fragments_reassembled", fragments_reassembled},
	{"rpc_records_share_a_segment", records_share_a_segment},
	{"rpc_p49_fragment_claims_too_much", fragment_claims_too_much},
	{"rpc_p49_fragments_without_end", fragments_without_end},
	{"rpc_256_pipelined", pipelined},
	{"rpc_cut_connection_hurts_nobody", cut_connection_hurts_nobody},
	{"rpc_gone_before_the_answers", gone_before_the_answers},
	{"rpc_slow_sender_delays_nobody", slow_sender_delays_nobody},
	{NULL, NULL},
};
