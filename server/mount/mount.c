/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MOUNT version 3: from a path to the handle at which a client begins. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/util.h"
#include "server/errors.h"
#include "server/fh.h"
#include "server/mount/mount_list.h"
#include "server/rpc/dispatch.h"

/* ------------------------------------------------------------------- MNT */

/* The path as a string without doubled or final slashes. */
static int clean_path(const struct wire_blob *in, char out[MOUNT3_PATH_MAX + 1])
{
	if (!in->len || in->data[0] != '/')
		return -ENOENT;
	if (memchr(in->data, '\0', in->len))
		return -EINVAL;
	export_clean_path(in->data, in->len, out);
	return 0;
}

/* Replaces object[0] by what a name in it means. */
static int walk_one(struct request *req, const char *name, size_t len)
{
	struct srv_object *o = &req->object[0];
	struct fsc_inode *found;
	int ret;

	if (len > FSC_NAME_MAX)
		return -ENAMETOOLONG;
	if (!S_ISDIR(o->attr.mode))
		return -ENOTDIR;
	if (len == 1 && name[0] == '.')
		return 0;
	/* Nothing above an export can be mounted through it. */
	if (len == 2 && !memcmp(name, "..", 2))
		return -EACCES;
	ret = fsc_lookup(&req->ctx, o->inode, name, len, &found);
	if (ret)
		return ret;
	fsc_inode_put(o->inode);
	o->inode = found;
	fsc_inode_attr(found, &o->attr);
	return 0;
}

static int walk(struct request *req, const char *rest)
{
	int ret = 0;

	while (*rest && !ret) {
		const char *name = rest + 1;
		size_t len = strcspn(name, "/");

		ret = walk_one(req, name, len);
		rest = name + len;
	}
	if (!ret && !S_ISDIR(req->object[0].attr.mode))
		ret = -ENOTDIR;
	return ret;
}

/* The walk may have crossed into a subvolume that is exported to others. */
static int check_client(struct request *req, const char *path)
{
	struct srv_subvol sv;
	char text[NET_ADDR_TEXT];
	int ret;

	ret = srv_subvol_get(req->thread, &req->ctx, req->object[0].attr.subvol, &sv);
	if (ret)
		return ret;
	if (sv.export && rpc_peer_rules(req->peer, sv.export))
		return 0;
	net_addr_text(&req->peer->addr, text);
	log_limited(LOG_LVL_NOTICE, "%s: refused to mount %s", text, path);
	return -EACCES;
}

static int mount_path(struct request *req, const char *path)
{
	struct server *srv = req->thread->srv;
	struct srv_object *o = &req->object[0];
	const struct export *e;
	const char *rest;
	int ret;

	e = exports_by_path(srv->exports, path, &rest);
	if (!e)
		return -ENOENT;
	req->tenant = e->subvol;
	/* Who may not use the export learns nothing of what is in it. */
	if (!rpc_peer_rules(req->peer, e->alias_of ? e->alias_of : e))
		rest = "";
	ret = fsc_inode_get(&req->ctx, srv->vol, e->subvol, FSC_INO_ROOT, 0, &o->inode);
	if (ret) {
		o->inode = NULL;
		return ret;
	}
	fsc_inode_attr(o->inode, &o->attr);
	ret = walk(req, rest);
	return ret ? ret : check_client(req, path);
}

static int run_mnt(struct request *req)
{
	struct mount3_mnt_res *res = &req->res.mnt;
	const struct fsc_attr *attr = &req->object[0].attr;
	struct server *srv = req->thread->srv;
	char path[MOUNT3_PATH_MAX + 1];
	struct fh_id id;
	int ret;

	ret = clean_path(&req->args.mount_path.path, path);
	if (!ret)
		ret = mount_path(req, path);
	if (ret)
		return ret;
	id = (struct fh_id){attr->subvol, attr->ino, attr->generation};
	fh_encode(srv->vol_info.uuid, &id, res->fh);
	res->fh_len = FH_BYTES;
	mount_list_add(srv->mounts, &req->peer->addr, *path ? path : "/");
	return 0;
}

static int run_umnt(struct request *req)
{
	char path[MOUNT3_PATH_MAX + 1];

	if (!clean_path(&req->args.mount_path.path, path))
		mount_list_remove(req->thread->srv->mounts, &req->peer->addr, *path ? path : "/");
	return 0;
}

static int run_umntall(struct request *req)
{
	mount_list_remove(req->thread->srv->mounts, &req->peer->addr, NULL);
	return 0;
}

/* ----------------------------------------------------------------- lists */

static void list_dump_entry(void *arg, const char *host, const char *path)
{
	mount3_put_dump_entry(arg, host, path);
}

static void put_exports(struct wire_out *out, const struct exports *x)
{
	for (size_t i = 0; i < x->n; i++) {
		const struct export *e = &x->list[i];

		mount3_put_export_begin(out, e->name);
		for (size_t c = 0; c < e->n_clients; c++)
			mount3_put_export_group(out, e->clients[c].text);
		mount3_put_list_end(out);
	}
}

static size_t exports_bytes(const struct exports *x)
{
	size_t n = 4;

	for (size_t i = 0; i < x->n; i++) {
		const struct export *e = &x->list[i];

		n += 12 + wire_padded(strlen(e->name));
		for (size_t c = 0; c < e->n_clients; c++)
			n += 8 + wire_padded(strlen(e->clients[c].text));
	}
	return n;
}

static int end_list(struct request *req, struct wire_out *out)
{
	mount3_put_list_end(out);
	if (out->bad)
		return -ENOMEM;
	req->body_len = (size_t)(out->p - req->body);
	return 0;
}

static int run_export(struct request *req)
{
	const struct exports *x = req->thread->srv->exports;
	size_t size = exports_bytes(x);
	struct wire_out out;

	if (!request_body(req, size))
		return -ENOMEM;
	wire_out_init(&out, req->body, size);
	put_exports(&out, x);
	return end_list(req, &out);
}

static int run_dump(struct request *req)
{
	size_t size = 4 + MOUNT_LIST_MAX * (12 + NET_ADDR_TEXT + MOUNT_LIST_PATH);
	struct wire_out out;

	if (!request_body(req, size))
		return -ENOMEM;
	wire_out_init(&out, req->body, size);
	mount_list_each(req->thread->srv->mounts, list_dump_entry, &out);
	return end_list(req, &out);
}

/* ----------------------------------------------------------------- table */

static bool decode_path(struct wire_in *in, union request_args *a)
{
	return mount3_decode_path(in, &a->mount_path);
}

static void encode_mnt(struct wire_out *out, uint32_t status, const union request_res *r)
{
	mount3_put_mnt(out, (enum mount3_stat)status, &r->mnt);
}

static uint32_t charge_list(const union request_args *a)
{
	(void)a;
	return REQUEST_BODY_BYTES;
}

static const struct srv_op ops[MOUNT3_PROCS] = {
	[MOUNT3_NULL] = {.name = "null"},
	[MOUNT3_MNT] = {"mnt", decode_path, run_mnt, encode_mnt, NULL, 0, NULL},
	[MOUNT3_DUMP] = {"dump", NULL, run_dump, NULL, charge_list, OP_BODY, NULL},
	[MOUNT3_UMNT] = {"umnt", decode_path, run_umnt, NULL, NULL, 0, NULL},
	[MOUNT3_UMNTALL] = {"umntall", NULL, run_umntall, NULL, NULL, 0, NULL},
	[MOUNT3_EXPORT] = {"export", NULL, run_export, NULL, charge_list, OP_BODY, NULL},
};

_Static_assert(
	COUNTER_MOUNT3_FIRST + MOUNT3_PROCS == COUNTER_OPS, "every operation has its counters");

const struct srv_program mount3_program = {
	.name = "mount3",
	.number = MOUNT3_PROGRAM,
	.version = MOUNT3_VERSION,
	.ops = ops,
	.n_ops = MOUNT3_PROCS,
	.first_counter = COUNTER_MOUNT3_FIRST,
	.status = errors_mount3,
};
