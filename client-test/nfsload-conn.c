/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nfsload-conn.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nfs_fh3 wire_fh(struct fh *fh)
{
	nfs_fh3 w;

	w.data.data_len = fh->len;
	w.data.data_val = fh->data;
	return w;
}

void keep_fh(struct fh *to, const nfs_fh3 *from)
{
	to->len = from->data.data_len;
	memcpy(to->data, from->data.data_val, to->len);
}

void serve(struct conn *c) /* one round of the event loop */
{
	struct pollfd p = {.fd = rpc_get_fd(c->rpc), .events = (short)rpc_which_events(c->rpc)};

	if (poll(&p, 1, 60000) <= 0)
		die("no answer from the server for 60 s");
	if (rpc_service(c->rpc, p.revents) < 0)
		die("connection lost: %s", rpc_get_error(c->rpc));
}

/* -- requests that are waited for one at a time (set-up, mkdirs) -- */

void wait_for(struct conn *c, struct wait *w, int queued, const char *what)
{
	if (queued)
		die("%s: cannot queue", what);
	while (!w->done)
		serve(c);
	if (w->status != RPC_STATUS_SUCCESS)
		die("%s: %s", what, rpc_get_error(c->rpc));
}

static void on_simple(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct wait *w = priv;

	w->done = 1;
	w->status = status;
	(void)rpc;
	(void)data;
}

static void on_mnt(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct wait *w = priv;
	mountres3 *r = data;

	on_simple(rpc, status, data, priv);
	if (status != RPC_STATUS_SUCCESS)
		return;
	w->code = r->fhs_status;
	if (w->code == MNT3_OK) {
		w->fh.len = r->mountres3_u.mountinfo.fhandle.fhandle3_len;
		memcpy(w->fh.data, r->mountres3_u.mountinfo.fhandle.fhandle3_val, w->fh.len);
	}
}

static void on_lookup_wait(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct wait *w = priv;
	LOOKUP3res *r = data;

	on_simple(rpc, status, data, priv);
	if (status != RPC_STATUS_SUCCESS)
		return;
	w->code = r->status;
	if (w->code == NFS3_OK)
		keep_fh(&w->fh, &r->LOOKUP3res_u.resok.object);
}

void on_create_wait(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct wait *w = priv;
	CREATE3res *r = data; /* MKDIR3res has the same shape */

	on_simple(rpc, status, data, priv);
	if (status != RPC_STATUS_SUCCESS)
		return;
	w->code = r->status;
	w->has_fh = w->code == NFS3_OK && r->CREATE3res_u.resok.obj.handle_follows;
	if (w->has_fh)
		keep_fh(&w->fh, &r->CREATE3res_u.resok.obj.post_op_fh3_u.handle);
}

void on_status(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct wait *w = priv;

	on_simple(rpc, status, data, priv);
	if (status == RPC_STATUS_SUCCESS)
		w->code = ((REMOVE3res *)data)->status;
}

int lookup(struct conn *c, struct fh *dir, char *name, struct fh *out)
{
	struct wait w = {0};
	LOOKUP3args a = {.what = {wire_fh(dir), name}};

	wait_for(c, &w, rpc_nfs3_lookup_async(c->rpc, on_lookup_wait, &a, &w), "LOOKUP");
	*out = w.fh;
	return w.code;
}

void set_mode(sattr3 *a, int mode)
{
	memset(a, 0, sizeof(*a));
	a->mode.set_it = 1;
	a->mode.set_mode3_u.mode = mode;
}

int make_dir(struct conn *c, char *name, struct fh *out)
{
	struct wait w = {0};
	MKDIR3args a = {.where = {wire_fh(&c->root), name}};

	set_mode(&a.attributes, 0755);
	wait_for(c, &w, rpc_nfs3_mkdir_async(c->rpc, on_create_wait, &a, &w), "MKDIR");
	if (w.code == NFS3_OK && w.has_fh) {
		*out = w.fh;
		return 0;
	}
	if (w.code != NFS3_OK && w.code != NFS3ERR_EXIST)
		return w.code;
	return lookup(c, &c->root, name, out);
}

void remove_dir(struct conn *c, char *name)
{
	struct wait w = {0};
	RMDIR3args a = {.object = {wire_fh(&c->root), name}};

	wait_for(c, &w, rpc_nfs3_rmdir_async(c->rpc, on_status, &a, &w), "RMDIR");
	if (w.code != NFS3_OK)
		die("RMDIR %s: %s", name, nfsstat3_to_str(w.code));
}

void commit(struct conn *c, struct fh *fh)
{
	struct wait w = {0};
	COMMIT3args a = {.file = wire_fh(fh)};

	wait_for(c, &w, rpc_nfs3_commit_async(c->rpc, on_status, &a, &w), "COMMIT");
	if (w.code != NFS3_OK)
		die("COMMIT: %s", nfsstat3_to_str(w.code));
}

static struct rpc_context *dial(int port, int program, int version)
{
	struct conn tmp = {.rpc = rpc_init_context()};
	struct wait w = {0};
	int q;

	if (port)
		q = rpc_connect_port_async(
			tmp.rpc, opt.host, port, program, version, on_simple, &w);
	else
		q = rpc_connect_program_async(tmp.rpc, opt.host, program, version, on_simple, &w);
	wait_for(&tmp, &w, q, "connect");
	return tmp.rpc;
}

void mount_export(struct conn *c)
{
	struct conn m = {.rpc = dial(opt.mount_port, MOUNT_PROGRAM, MOUNT_V3)};
	struct wait w = {0};

	wait_for(&m, &w, rpc_mount3_mnt_async(m.rpc, on_mnt, opt.path, &w), "MNT");
	if (w.code != MNT3_OK)
		die("MNT %s: error %d", opt.path, w.code);
	c->root = w.fh;
	rpc_destroy_context(m.rpc);
	c->rpc = dial(opt.port, NFS_PROGRAM, NFS_V3);
}

/* READDIRPLUS is sequential: each page needs the cookie of the one before. */
static void on_page(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct conn *c = ((struct wait *)priv)->c;
	READDIRPLUS3res *r = data;
	entryplus3 *e;

	on_simple(rpc, status, data, priv);
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK)
		die("READDIRPLUS failed");
	for (e = r->READDIRPLUS3res_u.resok.reply.entries; e; e = e->nextentry) {
		c->cookie = e->cookie;
		if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
			continue;
		if (c->nnames % 4096 == 0)
			c->names = realloc(c->names, (c->nnames + 4096) * sizeof(char *));
		c->names[c->nnames++] = strdup(e->name);
	}
	memcpy(c->cookieverf, r->READDIRPLUS3res_u.resok.cookieverf, NFS3_COOKIEVERFSIZE);
	c->list_eof = r->READDIRPLUS3res_u.resok.reply.eof;
}

void list_dir(struct conn *c, struct fh *dir)
{
	while (c->nnames)
		free(c->names[--c->nnames]);
	c->cookie = 0;
	c->list_eof = 0;
	memset(c->cookieverf, 0, sizeof(c->cookieverf));
	while (!c->list_eof) {
		struct wait w = {.c = c};
		READDIRPLUS3args a = {.dir = wire_fh(dir),
			.cookie = c->cookie,
			.dircount = 8192,
			.maxcount = 65536};

		memcpy(a.cookieverf, c->cookieverf, sizeof(a.cookieverf));
		wait_for(c, &w, rpc_nfs3_readdirplus_async(c->rpc, on_page, &a, &w), "READDIRPLUS");
	}
}
