/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tree that a run of nfs-model begins with: made, or read from the export. */
#include "nfs-model-run.h"

#include <stdlib.h>
#include <string.h>

static bool one_op(struct client *c, struct op *op)
{
	bool ok;

	pthread_mutex_lock(&run.lock);
	op_predict(op);
	ok = run_op(c, op) && !run.failed;
	pthread_mutex_unlock(&run.lock);
	return ok;
}

void learn_attr(struct client *c, uint32_t id)
{
	struct op op = {.kind = OP_GETATTR, .node = id};
	struct op_handles fh = {.node = node_at(id)->fh};
	struct result res;
	const char *wrong;

	if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong) || res.status != ST_OK)
		die("GETATTR of node %u: %s", id, status_text(res.status));
	node_at(id)->attr = res.attr;
}

void find_top(struct client *c, const struct handle *root)
{
	struct op op = {.kind = OP_LOOKUP, .set = SET_MODE, .mode = 0755};
	struct op_handles fh = {.dir = *root};
	struct result res = {0};
	const char *wrong;

	node_at(0)->fh = *root;
	if (opt.dir) {
		snprintf(op.name, sizeof(op.name), "%s", opt.dir);
		if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong))
			die("connection closed");
		if (res.status == ST_NOENT) {
			op.kind = OP_MKDIR;
			if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong))
				die("connection closed");
		}
		if (res.status != ST_OK || !res.has_fh)
			die("%s: %s", opt.dir, status_text(res.status));
		node_at(0)->fh = res.fh;
	}
	learn_attr(c, 0);
}

void make_subtrees(struct client *c)
{
	for (unsigned i = 0; i <= opt.clients; i++) {
		struct op op = {.kind = OP_MKDIR, .type = TYPE_DIR, .set = SET_MODE, .mode = 0755};
		struct dirent_model *e;
		struct node *n;

		if (i)
			snprintf(op.name, sizeof(op.name), "client-%u", i);
		else
			strcpy(op.name, "shared");
		e = entry_find(node_at(0), op.name);
		if (!e && !one_op(c, &op))
			die("cannot make %s", op.name);
		e = entry_find(node_at(0), op.name);
		if (!e || e->foreign)
			continue;
		/* Into the list of its client. */
		n = node_at(e->node);
		if (n->attr.type == TYPE_DIR && n->area != i) {
			struct node kept = *n;
			struct id_list *l = &tree.lists[kept.area][LIST_DIRS];

			l->ids[kept.at] = l->ids[--l->n];
			node_at(l->ids[kept.at])->at = kept.at;
			node_begin(e->node, i, &kept.attr);
			kept.area = i;
			kept.at = n->at;
			*n = kept;
		}
	}
}

/* -- adopting what is there -- */

struct found {
	char *name;
	uint64_t fileid;
	struct found *next;
};

static const char *adopt_entry(void *arg, const char *name, uint64_t fileid,
	const struct handle *fh, const struct attrs *attr)
{
	struct found **list = arg, *f = calloc(1, sizeof(*f));

	(void)fh;
	(void)attr;
	f->name = strdup(name);
	f->fileid = fileid;
	f->next = *list;
	*list = f;
	return NULL;
}

static uint32_t node_with_fileid(uint64_t fileid)
{
	for (uint32_t i = 1; i < tree.n_nodes; i++)
		if (node_at(i)->live && node_at(i)->attr.fileid == fileid &&
			node_at(i)->attr.type != TYPE_DIR)
			return i;
	return NO_NODE;
}

static void adopt_content(struct client *c, uint32_t id)
{
	struct node *n = node_at(id);
	struct op_handles fh = {.node = n->fh};
	uint64_t size = n->attr.size;

	for (uint64_t off = 0; off < size;) {
		struct op op = {.kind = OP_READ, .off = off, .len = max_read};
		struct result res;
		const char *wrong;

		if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong) || res.status != ST_OK ||
			!res.count)
			die("READ of node %u at %lu: %s", id, off, status_text(res.status));
		for (uint32_t i = 0; i < res.count; i++)
			if (c->buf[i]) {
				content_write(&node_at(id)->content, off, c->buf, res.count);
				break;
			}
		off += res.count;
	}
}

static void adopt_one(struct client *c, uint32_t dir, unsigned area, const char *name)
{
	struct op op = {.kind = OP_LOOKUP};
	struct op_handles fh = {.dir = node_at(dir)->fh};
	struct result res;
	const char *wrong;
	uint32_t id;

	snprintf(op.name, sizeof(op.name), "%s", name);
	if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong) || res.status != ST_OK)
		die("LOOKUP %s: %s", name, status_text(res.status));
	if (dir == 0 && !strncmp(name, "client-", 7))
		area = (unsigned)atoi(name + 7) <= opt.clients ? (unsigned)atoi(name + 7) : 0;
	if (res.attr.fsid != node_at(0)->attr.fsid) {
		entry_add(dir, name, NO_NODE, true);
		return;
	}
	id = res.attr.type != TYPE_DIR && res.attr.nlink > 1 ? node_with_fileid(res.attr.fileid)
							     : NO_NODE;
	if (id == NO_NODE) {
		id = node_new();
		node_begin(id, area, &res.attr);
		node_at(id)->fh = res.fh;
		if (res.attr.type == TYPE_FILE)
			adopt_content(c, id);
		if (res.attr.type == TYPE_LINK) {
			fh.node = res.fh;
			op.kind = OP_READLINK;
			if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong))
				die("READLINK %s", name);
			node_at(id)->target = strdup(c->buf);
		}
	}
	entry_add(dir, name, id, false);
	if (node_at(id)->attr.type == TYPE_DIR)
		adopt_dir(c, id, area);
}

void adopt_dir(struct client *c, uint32_t dir, unsigned area)
{
	struct found *list = NULL;
	struct handle fh = node_at(dir)->fh;
	const char *wrong;
	uint32_t status;

	if (!conn_list(&c->conn, &fh, false, 65536, adopt_entry, &list, &status, &wrong) || wrong ||
		status != ST_OK)
		die("READDIR of node %u: %s", dir, wrong ? wrong : status_text(status));
	while (list) {
		struct found *f = list;

		list = f->next;
		adopt_one(c, dir, area, f->name);
		free(f->name);
		free(f);
	}
}
