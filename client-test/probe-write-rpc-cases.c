/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests that come twice (same xid, same body: the answer of the first time, on any
 * connection, and nothing is done again), who may change what, and what a restart
 * of the server must not lose.
 */
#include "probe-write.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------ replays */

/* A call as bytes, to send as often as one likes. */
static void begin_call(struct probe_out *o, struct probe_conn *c, uint32_t procedure)
{
	out_init(o, 2048);
	out_call(o, c, NFS_PROGRAM, 3, procedure);
}

static void out_name(struct probe_out *o, const struct probe_fh *dir, const char *name)
{
	out_fh(o, dir);
	out_opaque(o, name, (uint32_t)strlen(name));
}

static void out_no_attributes(struct probe_out *o)
{
	for (int i = 0; i < 6; i++)
		out_u32(o, 0);
}

struct raw_reply {
	char *data;
	uint32_t bytes, status;
};

static struct raw_reply send_raw(struct probe_conn *c, const struct probe_out *o)
{
	struct raw_reply r;
	struct probe_reply parsed;

	WANT(conn_send_record(c, o->data, o->bytes, UINT32_MAX / 2, false, false) &&
			conn_receive(c, &r.data, &r.bytes),
		"connection closed");
	reply_parse(r.data, r.bytes, &parsed);
	WANT(parsed.stat == SUCCESS && parsed.body_bytes >= 4, "RPC error %u", parsed.stat);
	memcpy(&r.status, parsed.body, 4);
	r.status = ntohl(r.status);
	return r;
}

static void want_same_reply(const char *what, const struct raw_reply *a, const struct raw_reply *b)
{
	WANT(a->status == b->status, "%s: %s the second time", what, stat_name(b->status));
	WANT(a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes),
		"%s: another answer the second time", what);
}

/* Sends it, again on the same connection, and on a new one. */
static void replay(
	struct probe_conn *c, const char *what, const struct probe_out *o, uint32_t status)
{
	struct raw_reply first = send_raw(c, o), again;
	struct probe_conn *other;

	probe_trying("%s", what);
	want_stat(what, first.status, status);
	again = send_raw(c, o);
	want_same_reply("on the same connection", &first, &again);
	other = conn_open();
	again = send_raw(other, o);
	want_same_reply("on another connection", &first, &again);
	conn_close(other);
}

static void replay_of_each(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "replay"), f, found;
	struct probe_out o;
	nfstime3 ctime;

	c->next_xid = 0x70000000u + ((uint32_t)getpid() << 8);
	begin_call(&o, c, NFS3_CREATE);
	out_name(&o, &dir, "f");
	out_u32(&o, GUARDED);
	out_no_attributes(&o);
	replay(c, "CREATE", &o, NFS3_OK);
	want_stat("LOOKUP", try_lookup(c, &dir, "f", &f), NFS3_OK);
	begin_call(&o, c, NFS3_MKDIR);
	out_name(&o, &dir, "d");
	out_no_attributes(&o);
	replay(c, "MKDIR", &o, NFS3_OK);
	begin_call(&o, c, NFS3_SYMLINK);
	out_name(&o, &dir, "s");
	out_no_attributes(&o);
	out_opaque(&o, "target", 6);
	replay(c, "SYMLINK", &o, NFS3_OK);
	begin_call(&o, c, NFS3_MKNOD);
	out_name(&o, &dir, "p");
	out_u32(&o, NF3FIFO);
	out_no_attributes(&o);
	replay(c, "MKNOD", &o, NFS3_OK);
	begin_call(&o, c, NFS3_LINK);
	out_fh(&o, &f);
	out_name(&o, &dir, "l");
	replay(c, "LINK", &o, NFS3_OK);
	WANT(fh_attr(c, &f).nlink == 2, "%u links", fh_attr(c, &f).nlink);
	begin_call(&o, c, NFS3_RENAME);
	out_name(&o, &dir, "l");
	out_name(&o, &dir, "r");
	replay(c, "RENAME", &o, NFS3_OK);
	ctime = fh_attr(c, &f).ctime;
	begin_call(&o, c, NFS3_SETATTR);
	out_fh(&o, &f);
	out_u32(&o, 1);
	out_u32(&o, 0600);
	for (int i = 0; i < 5; i++)
		out_u32(&o, 0);
	out_u32(&o, 1);
	out_u32(&o, ctime.seconds);
	out_u32(&o, ctime.nseconds);
	replay(c, "SETATTR with a guard", &o, NFS3_OK);
	begin_call(&o, c, NFS3_REMOVE);
	out_name(&o, &dir, "r");
	replay(c, "REMOVE", &o, NFS3_OK);
	begin_call(&o, c, NFS3_RMDIR);
	out_name(&o, &dir, "d");
	replay(c, "RMDIR", &o, NFS3_OK);
	/* What was refused is refused again, whatever has happened meanwhile. */
	begin_call(&o, c, NFS3_REMOVE);
	out_name(&o, &dir, "later");
	want_stat("REMOVE of nothing", send_raw(c, &o).status, NFS3ERR_NOENT);
	make_file(c, &dir, "later", "x");
	send_raw(c, &o);
	want_stat("LOOKUP", try_lookup(c, &dir, "later", &found), NFS3_OK);
}

/* The second comes while the first is perhaps still at work. */
static void replay_at_once(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = work_dir(c, "at-once");
	char name[16];

	c->next_xid = 0x71000000u + ((uint32_t)getpid() << 8);
	for (int i = 0; i < 50; i++) {
		struct probe_out o, null;
		struct raw_reply r;
		struct probe_reply parsed;
		uint32_t answers = 0, null_xid, status;

		snprintf(name, sizeof(name), "f%d", i);
		begin_call(&o, c, NFS3_MKDIR);
		out_name(&o, &dir, name);
		out_no_attributes(&o);
		out_init(&null, 256);
		null_xid = out_call(&null, c, NFS_PROGRAM, 3, 0);
		for (int k = 0; k < 3; k++)
			WANT(conn_send_record(c, o.data, o.bytes, UINT32_MAX / 2, false, false),
				"connection closed");
		/* Those in flight may be answered once or each: the same way. */
		WANT(conn_receive(c, &r.data, &r.bytes), "connection closed");
		for (;;) {
			reply_parse(r.data, r.bytes, &parsed);
			if (parsed.xid == null_xid)
				break;
			memcpy(&status, parsed.body, 4);
			want_stat("MKDIR", ntohl(status), NFS3_OK);
			if (++answers == 1)
				WANT(conn_send_record(c, null.data, null.bytes, UINT32_MAX / 2,
					     false, false),
					"connection closed");
			WANT(conn_receive(c, &r.data, &r.bytes), "connection closed");
		}
		WANT(answers >= 1 && answers <= 3, "%u answers", answers);
	}
}

/* An xid by itself means nothing. */
static void same_xid_other_call(void)
{
	struct probe_conn *c = conn_open(), *user = conn_open();
	struct probe_fh dir = work_dir(c, "xid");
	struct probe_out o;
	uint32_t xid = c->next_xid = 0x72000000u + ((uint32_t)getpid() << 8);

	begin_call(&o, c, NFS3_MKDIR);
	out_name(&o, &dir, "one");
	out_no_attributes(&o);
	want_stat("MKDIR", send_raw(c, &o).status, NFS3_OK);
	/* Another body of the same length, on the same connection and on another one. */
	c->next_xid = xid;
	begin_call(&o, c, NFS3_MKDIR);
	out_name(&o, &dir, "two");
	out_no_attributes(&o);
	want_stat("MKDIR of another name with the same xid", send_raw(c, &o).status, NFS3_OK);
	want_stat("LOOKUP", try_lookup(c, &dir, "two", NULL), NFS3_OK);
	/* Another user. */
	conn_as(user, 1001, 1001);
	user->next_xid = xid;
	begin_call(&o, user, NFS3_MKDIR);
	out_name(&o, &dir, "two");
	out_no_attributes(&o);
	want_stat("the same call of another user", send_raw(user, &o).status, NFS3ERR_EXIST);
	/* Another procedure. */
	c->next_xid = xid;
	begin_call(&o, c, NFS3_RMDIR);
	out_name(&o, &dir, "two");
	want_stat("another procedure with the same xid", send_raw(c, &o).status, NFS3_OK);
}

/* ------------------------------------------------------------------ who may */

static const uint32_t refused[] = {NFS3ERR_ACCES, NFS3ERR_PERM, UINT32_MAX};

static void others_may_not(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh top = work_dir(root, "perm"), dir = make_subdir(root, &top, "d", 0755),
			open_dir = make_subdir(root, &top, "open", 0777),
			f = make_file(root, &dir, "f", "abc");
	sattr3 s;

	make_subdir(root, &dir, "sub", 0755);
	conn_as(c, 1001, 1001);
	make_file(c, &open_dir, "mine", "x");
	want_stat("CREATE", do_create(c, &dir, "x", GUARDED, NULL, NULL).status, NFS3ERR_ACCES);
	want_stat("CREATE", do_create(c, &dir, "x", EXCLUSIVE, NULL, "verifier").status,
		NFS3ERR_ACCES);
	want_stat("MKDIR", do_mkdir(c, &dir, "x", NULL).status, NFS3ERR_ACCES);
	want_stat("SYMLINK", do_symlink(c, &dir, "x", "y").status, NFS3ERR_ACCES);
	want_stat("MKNOD", do_mknod(c, &dir, "x", NF3FIFO, 0, 0).status, NFS3ERR_ACCES);
	want_stat("LINK", do_link(c, &f, &dir, "x").status, NFS3ERR_ACCES);
	want_stat("REMOVE", do_remove(c, &dir, "f").status, NFS3ERR_ACCES);
	want_stat("RMDIR", do_rmdir(c, &dir, "sub").status, NFS3ERR_ACCES);
	want_stat("RENAME from", do_rename(c, &dir, "f", &open_dir, "x").status, NFS3ERR_ACCES);
	want_stat("RENAME to", do_rename(c, &open_dir, "mine", &dir, "x").status, NFS3ERR_ACCES);
	want_stat("WRITE", do_write(c, &f, 0, "x", 1, UNSTABLE).status, NFS3ERR_ACCES);
	want_stat("size", do_size(c, &f, 0).status, NFS3ERR_ACCES);
	s = sattr_mode(0777);
	want_one_of("mode", do_setattr(c, &f, &s, NULL).status, refused);
	memset(&s, 0, sizeof(s));
	s.uid.set_it = 1;
	s.uid.set_uid3_u.uid = 1001;
	want_one_of("owner", do_setattr(c, &f, &s, NULL).status, refused);
	memset(&s, 0, sizeof(s));
	s.mtime.set_it = SET_TO_CLIENT_TIME;
	want_one_of("mtime", do_setattr(c, &f, &s, NULL).status, refused);
	s.mtime.set_it = SET_TO_SERVER_TIME;
	want_one_of("mtime to now", do_setattr(c, &f, &s, NULL).status, refused);
	want_one_of(
		"MKNOD of a device", do_mknod(c, &open_dir, "dev", NF3CHR, 1, 3).status, refused);
	want_bytes(root, &f, "abc", 3);
	WANT(fh_attr(root, &f).mode == 0644 && fh_attr(root, &f).uid == 0, "attributes changed");
}

static void owners_may(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh dir = work_dir(root, "owner"), f;
	struct change ch;
	sattr3 s = sattr_mode(0400);

	conn_as(c, 1001, 1001);
	f = make_file(c, &dir, "f", "abc");
	WANT(fh_attr(root, &f).uid == 1001 && fh_attr(root, &f).gid == 1001, "owner %u:%u",
		fh_attr(root, &f).uid, fh_attr(root, &f).gid);
	ch = do_setattr(c, &f, &s, NULL);
	want_change("mode by the owner", &ch, NFS3_OK);
	/* RFC 1813, 4.4: the owner of an open file goes on, whatever the mode. */
	ch = do_write(c, &f, 0, "x", 1, FILE_SYNC);
	want_change("WRITE by the owner without permission", &ch, NFS3_OK);
	memset(&s, 0, sizeof(s));
	s.uid.set_it = 1;
	s.uid.set_uid3_u.uid = 1002;
	want_one_of("giving it away", do_setattr(c, &f, &s, NULL).status, refused);
	memset(&s, 0, sizeof(s));
	s.gid.set_it = 1;
	s.gid.set_gid3_u.gid = 3333;
	want_one_of("to a group of others", do_setattr(c, &f, &s, NULL).status, refused);
	c->cred.gid_count = 1;
	c->cred.gids[0] = 3333;
	ch = do_setattr(c, &f, &s, NULL);
	want_change("to a group of one's own", &ch, NFS3_OK);
	/* Not a member of the file's group: no setgid bit. */
	conn_as(c, 1001, 1001);
	s = sattr_mode(02755);
	ch = do_setattr(c, &f, &s, NULL);
	want_change("setgid by a stranger to the group", &ch, NFS3_OK);
	WANT((fh_attr(root, &f).mode & 02000) == 0, "mode 0%o", fh_attr(root, &f).mode);
	/* Who may write may set the times to now, as touch(1) does. */
	s = sattr_mode(0666);
	do_setattr(root, &f, &s, NULL);
	conn_as(c, 2002, 2002);
	memset(&s, 0, sizeof(s));
	s.mtime.set_it = s.atime.set_it = SET_TO_SERVER_TIME;
	ch = do_setattr(c, &f, &s, NULL);
	want_change("times to now by who may write", &ch, NFS3_OK);
}

static void sticky_directories(void)
{
	struct probe_conn *root = conn_open(), *a = conn_open(), *b = conn_open();
	struct probe_fh top = work_dir(root, "sticky"), dir = make_subdir(root, &top, "d", 01777);

	conn_as(a, 1001, 1001);
	conn_as(b, 1002, 1002);
	make_file(a, &dir, "f", "x");
	make_file(b, &dir, "g", "x");
	want_one_of("REMOVE", do_remove(b, &dir, "f").status, refused);
	want_one_of("RENAME", do_rename(b, &dir, "f", &dir, "x").status, refused);
	want_one_of("RENAME onto", do_rename(b, &dir, "g", &dir, "f").status, refused);
	want_stat("REMOVE by the owner", do_remove(a, &dir, "f").status, NFS3_OK);
	want_stat("REMOVE by root", do_remove(root, &dir, "g").status, NFS3_OK);
}

/* P30: as rofs_p30, and what needs a directory's permission is refused. */
static void create_of_existing(void)
{
	struct probe_conn *root = conn_open(), *c = conn_open();
	struct probe_fh top = work_dir(root, "p30"), dir = make_subdir(root, &top, "d", 0755),
			f = make_file(root, &dir, "f", "abc");
	sattr3 s = sattr_mode(0666);
	struct change ch = do_setattr(root, &f, &s, NULL);

	want_change("SETATTR", &ch, NFS3_OK);
	conn_as(c, 1001, 1001);
	memset(&s, 0, sizeof(s));
	ch = do_create(c, &dir, "f", UNCHECKED, &s, NULL);
	want_change("CREATE of what is there", &ch, NFS3_OK);
	want_bytes(root, &f, "abc", 3);
	s.size.set_it = 1;
	ch = do_create(c, &dir, "f", UNCHECKED, &s, NULL);
	want_change("with size 0", &ch, NFS3_OK);
	want_bytes(root, &f, "", 0);
	s = sattr_mode(0644);
	do_setattr(root, &f, &s, NULL);
	do_write(root, &f, 0, "abc", 3, FILE_SYNC);
	memset(&s, 0, sizeof(s));
	s.size.set_it = 1;
	want_stat("with size 0 and no permission",
		do_create(c, &dir, "f", UNCHECKED, &s, NULL).status, NFS3ERR_ACCES);
	want_bytes(root, &f, "abc", 3);
	want_stat("what is not there", do_create(c, &dir, "g", UNCHECKED, NULL, NULL).status,
		NFS3ERR_ACCES);
}

static void squashed_root(void)
{
	struct probe_conn *m = conn_open_mount(), *c = conn_open();
	struct probe_fh root;
	struct probe_fh hello;

	if (!probe.squash_export)
		probe_skip("no --squash-export");
	WANT(mount_path(m, probe.squash_export, &root) == MNT3_OK, "MNT");
	want_stat("CREATE", do_create(c, &root, "x", GUARDED, NULL, NULL).status, NFS3ERR_ACCES);
	want_stat("LOOKUP", try_lookup(c, &root, "hello", &hello), NFS3_OK);
	want_stat("WRITE", do_write(c, &hello, 0, "x", 1, FILE_SYNC).status, NFS3ERR_ACCES);
	want_stat("REMOVE", do_remove(c, &root, "hello").status, NFS3ERR_ACCES);
}

/* ------------------------------------------------------------------ restarts */

/*
 * Kills the server, does something with its volume (nothing: NULL), and starts it again;
 * connections of before are gone.
 */
static void restart_with(const char *what)
{
	char command[1000];

	if (!probe.restart_command)
		probe_skip("no --restart-command");
	snprintf(command, sizeof(command), "%s %s", probe.restart_command, what ? what : "");
	conn_close_all();
	fflush(NULL);
	if (system(command))
		FAIL("the restart command failed");
}

static void restart(void)
{
	restart_with(NULL);
}

/* P51. */
static void restart_verifier(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir, files[100];
	char seen[4][NFS3_WRITEVERFSIZE];

	if (!probe.restart_command)
		probe_skip("no --restart-command");
	dir = work_dir(c, "p51");
	for (int round = 0; round < 3; round++) {
		char name[16];
		struct change ch;

		probe_trying("restart %d", round);
		for (int i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "f%d-%d", round, i);
			files[i] = make_file(c, &dir, name, "stable");
			ch = do_write(c, &files[i], 0, "loose!", 6, UNSTABLE);
			want_change("WRITE", &ch, NFS3_OK);
			memcpy(seen[round], ch.verf, NFS3_WRITEVERFSIZE);
		}
		for (int k = 0; k < round; k++)
			WANT(memcmp(seen[k], seen[round], NFS3_WRITEVERFSIZE),
				"a verifier came again");
		restart();
		c = conn_open();
		for (int i = 0; i < 100; i++) {
			READ3res r;

			ch = do_commit(c, &files[i], 0, 0);
			want_change("COMMIT after the restart", &ch, NFS3_OK);
			WANT(memcmp(ch.verf, seen[round], NFS3_WRITEVERFSIZE),
				"COMMIT after a restart has the verifier of before");
			fh_read(c, &files[i], 0, 100, &r);
			want_stat("READ", r.status, NFS3_OK);
			WANT(r.READ3res_u.resok.count == 6, "%u bytes", r.READ3res_u.resok.count);
			/* Either, byte for byte: what was unstable may be partly there. */
			for (int b = 0; b < 6; b++)
				WANT(r.READ3res_u.resok.data.data_val[b] == "stable"[b] ||
						r.READ3res_u.resok.data.data_val[b] == "loose!"[b],
					"byte 0x%02x",
					(uint8_t)r.READ3res_u.resok.data.data_val[b]);
		}
	}
}

/* P17, P51: what was answered is there, with the same handles. */
static void restart_keeps(void)
{
	static const char verf[] = "\377\377\377\377\377\377\377\377";
	struct probe_conn *c = conn_open();
	struct probe_fh dir, sub, f, cut, found;
	struct change ch, excl;
	sattr3 s = sattr_mode(0640);
	char data[5000];

	if (!probe.restart_command)
		probe_skip("no --restart-command");
	dir = work_dir(c, "kept");
	memset(data, 'd', sizeof(data));
	sub = make_subdir(c, &dir, "sub", 0711);
	f = make_file(c, &sub, "f", "");
	cut = make_file(c, &sub, "cut", "0123456789");
	ch = do_write(c, &f, 0, data, sizeof(data), UNSTABLE);
	want_change("WRITE", &ch, NFS3_OK);
	ch = do_commit(c, &f, 0, 0);
	want_change("COMMIT", &ch, NFS3_OK);
	want_stat("LINK", do_link(c, &f, &dir, "l").status, NFS3_OK);
	want_stat("RENAME", do_rename(c, &dir, "l", &sub, "m").status, NFS3_OK);
	want_stat("SYMLINK", do_symlink(c, &dir, "s", "target").status, NFS3_OK);
	want_stat("MKNOD", do_mknod(c, &dir, "n", NF3BLK, 7, 3).status, NFS3_OK);
	make_file(c, &dir, "gone", "x");
	want_stat("REMOVE", do_remove(c, &dir, "gone").status, NFS3_OK);
	want_stat("SETATTR", do_setattr(c, &f, &s, NULL).status, NFS3_OK);
	want_stat("size", do_size(c, &cut, 4).status, NFS3_OK);
	excl = do_create(c, &dir, "exclusive", EXCLUSIVE, NULL, verf);
	want_change("CREATE", &excl, NFS3_OK);
	restart();
	c = conn_open();
	ch = do_create(c, &dir, "exclusive", EXCLUSIVE, NULL, verf);
	want_change("EXCLUSIVE again after the restart", &ch, NFS3_OK);
	WANT(same_fh(&ch.fh, &excl.fh), "another handle");
	want_stat("EXCLUSIVE with another verifier",
		do_create(c, &dir, "exclusive", EXCLUSIVE, NULL, "\377\377\377\377\377\377\377\376")
			.status,
		NFS3ERR_EXIST);
	want_bytes(c, &f, data, sizeof(data));
	want_bytes(c, &cut, "0123", 4);
	WANT(fh_attr(c, &f).mode == 0640 && fh_attr(c, &f).nlink == 2, "mode 0%o, %u links",
		fh_attr(c, &f).mode, fh_attr(c, &f).nlink);
	want_stat("LOOKUP", try_lookup(c, &sub, "m", &found), NFS3_OK);
	WANT(same_fh(&found, &f), "another handle");
	want_stat("the name before RENAME", try_lookup(c, &dir, "l", NULL), NFS3ERR_NOENT);
	want_stat("what was removed", try_lookup(c, &dir, "gone", NULL), NFS3ERR_NOENT);
	want_stat("the symlink", try_lookup(c, &dir, "s", NULL), NFS3_OK);
	want_stat("the device", try_lookup(c, &dir, "n", NULL), NFS3_OK);
	WANT(fh_attr(c, &sub).mode == 0711, "mode 0%o", fh_attr(c, &sub).mode);
}

/* B13: what was removed while data of it was on its way is gone, and nothing of it comes back. */
static void restart_after_removal(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir, files[20];
	char data[50000], name[16];
	struct change ch;

	if (!probe.restart_command)
		probe_skip("no --restart-command");
	dir = work_dir(c, "b13");
	memset(data, 'd', sizeof(data));
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		files[i] = make_file(c, &dir, name, "");
		ch = do_write(c, &files[i], 0, data, sizeof(data), i % 2 ? FILE_SYNC : UNSTABLE);
		want_change("WRITE", &ch, NFS3_OK);
		ch = do_write(c, &files[i], 100000, data, sizeof(data), UNSTABLE);
		want_change("WRITE", &ch, NFS3_OK);
	}
	for (int i = 0; i < 19; i++) { /* by REMOVE, or by a RENAME of the last one */
		snprintf(name, sizeof(name), "f%d", i);
		if (i % 4 < 2)
			ch = do_remove(c, &dir, name);
		else
			ch = do_rename(c, &dir, "f19", &dir, name);
		want_change("its end", &ch, NFS3_OK);
		if (i % 4 >= 2)
			make_file(c, &dir, "f19", "the last");
		want_stat("COMMIT", do_commit(c, &files[i], 0, 0).status, NFS3ERR_STALE);
	}
	restart();
	c = conn_open();
	for (int i = 0; i < 19; i++) {
		fattr3 a;

		snprintf(name, sizeof(name), "f%d", i);
		want_stat("GETATTR", try_getattr(c, &files[i], &a), NFS3ERR_STALE);
		want_stat(
			name, try_lookup(c, &dir, name, NULL), i % 4 < 2 ? NFS3ERR_NOENT : NFS3_OK);
	}
}

/* O02: the volume is another file on another path, as on another machine; handles go on. */
static void restart_elsewhere(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir, f, sub;
	fattr3 before, after;
	struct change ch;

	if (!probe.restart_command)
		probe_skip("no --restart-command");
	dir = work_dir(c, "o02");
	f = make_file(c, &dir, "f", "here");
	sub = path_fh(c, "sub/inside");
	before = fh_attr(c, &sub);
	restart_with("elsewhere");
	c = conn_open();
	want_bytes(c, &f, "here", 4);
	ch = do_write(c, &f, 4, " and there", 10, FILE_SYNC);
	want_change("WRITE", &ch, NFS3_OK);
	want_bytes(c, &f, "here and there", 14);
	after = fh_attr(c, &sub);
	WANT(after.fsid == before.fsid && after.fileid == before.fileid,
		"another fsid or fileid: %lx.%lu, %lx.%lu", before.fsid, before.fileid, after.fsid,
		after.fileid);
	want_stat("CREATE", do_create(c, &dir, "g", GUARDED, NULL, NULL).status, NFS3_OK);
}

/*
 * O04, O06: a subvolume was deleted, and a snapshot of it, with the same inode numbers, has
 * taken its name. What had handles of the old one must not get at the new one.
 */
static void restart_rolled_back(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh old, in, now;
	struct change ch;
	fattr3 a, b;

	if (!probe.restart_command || !probe.has_subvolumes)
		probe_skip("no --restart-command, or no subvolumes");
	old = path_fh(c, "before");
	in = path_fh(c, "before/inside");
	b = fh_attr(c, &in);
	restart_with("rolled-back");
	c = conn_open();
	want_stat("GETATTR", try_getattr(c, &old, &a), NFS3ERR_STALE);
	want_stat("GETATTR", try_getattr(c, &in, &a), NFS3ERR_STALE);
	want_stat("LOOKUP", try_lookup(c, &old, "inside", NULL), NFS3ERR_STALE);
	want_stat("WRITE", do_write(c, &in, 0, "wrong", 5, FILE_SYNC).status, NFS3ERR_STALE);
	want_stat("CREATE", do_create(c, &old, "f", UNCHECKED, NULL, NULL).status, NFS3ERR_STALE);
	now = path_fh(c, "before/inside");
	want_bytes(c, &now, "the new one\n", 12);
	WANT(!same_fh(&now, &in), "the same handle");
	a = fh_attr(c, &now);
	WANT(a.fileid == b.fileid && a.fsid != b.fsid, "fileid %lu, was %lu; fsid %lx, was %lx",
		a.fileid, b.fileid, a.fsid, b.fsid);
	ch = do_write(c, &now, 0, "THE", 3, FILE_SYNC);
	want_change("WRITE to the new one", &ch, NFS3_OK);
}

const struct probe_case probe_write_rpc_cases[] = {
	{"replay_each", replay_of_each},
	{"replay_in_flight", replay_at_once},
	{"replay_other_call", same_xid_other_call},
	{"perm_write_others", others_may_not},
	{"perm_write_owner", owners_may},
	{"perm_write_sticky", sticky_directories},
	{"perm_write_p30_create", create_of_existing},
	{"perm_write_squashed", squashed_root},
	{"restart_p51_verifier", restart_verifier},
	{"restart_p17_keeps", restart_keeps},
	{"restart_b13_after_removal", restart_after_removal},
	{"restart_o02_elsewhere", restart_elsewhere},
	{"restart_o06_rolled_back", restart_rolled_back},
	{NULL, NULL},
};
