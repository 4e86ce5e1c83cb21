/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A client of nfs-model: its operations, and each answer against the model. */
#include "nfs-model-run.h"

#include <stdlib.h>
#include <string.h>

static void handles_of(const struct client *c, const struct op *op, struct op_handles *fh)
{
	memset(fh, 0, sizeof(*fh));
	if (op->kind == OP_STALE)
		fh->node = c->dead[op->len];
	else if (op->kind >= OP_LINK && op->node != NO_NODE)
		fh->node = node_at(op->node)->fh;
	if (op->name[0])
		fh->dir = node_at(op->dir)->fh;
	if (op->name2[0])
		fh->dir2 = node_at(op->dir2)->fh;
}

/* Reserves what the operation uses. The lock is held. */
static void begin_op(struct client *c, struct op *op, struct op_handles *fh)
{
	op->seq = ++run.next_seq;
	handles_of(c, op, fh);
	if (op->kind <= OP_MKNOD)
		op->node = op->hit == NO_NODE ? node_new() : op->hit;
	if (op->kind <= OP_COMMIT)
		log_begin_op(run.log_fd, op);
	if (op->kind == OP_READ) {
		struct node *n = node_at(op->node);
		uint64_t have = op->off < n->attr.size ? n->attr.size - op->off : 0;

		content_read(&n->content, op->off, c->want, have < op->len ? have : op->len);
	}
}

/* What becomes stale when this succeeds is tried later. */
static uint32_t dies(const struct op *op)
{
	uint32_t id = op->kind == OP_UNLINK || op->kind == OP_RMDIR ? op->hit
		: op->kind == OP_RENAME && op->hit != op->replaced  ? op->replaced
								    : NO_NODE;

	if (id == NO_NODE)
		return NO_NODE;
	return node_at(id)->attr.type == TYPE_DIR || node_at(id)->attr.nlink == 1 ? id : NO_NODE;
}

const char *check_read(struct client *c, const struct op *op, const struct result *res)
{
	static __thread char text[100];
	uint64_t size = node_at(op->node)->attr.size;
	uint64_t have = op->off < size ? size - op->off : 0;

	if (have < op->len ? res->count > have : res->count > op->len)
		return "more bytes than there are";
	if (have && op->len && !res->count)
		return "no bytes";
	if (!memcmp(c->buf, c->want, res->count))
		return NULL;
	for (uint32_t i = 0; i < res->count; i++)
		if (c->buf[i] != c->want[i]) {
			snprintf(text, sizeof(text), "byte 0x%02x instead of 0x%02x at %lu",
				(uint8_t)c->buf[i], (uint8_t)c->want[i], op->off + i);
			break;
		}
	return text;
}

const char *check_handle(const struct op *op, const struct result *res)
{
	const struct handle *know;

	if (op->kind != OP_LOOKUP || res->status != ST_OK)
		return NULL;
	know = &node_at(op->hit)->fh;
	return know->len == res->fh.len && !memcmp(know->data, res->fh.data, know->len)
		? NULL
		: "another handle than at its creation";
}

static bool is_full(const struct result *res)
{
	return res->status == ST_NOSPC || res->status == ST_DQUOT;
}

static const char *end_op(struct client *c, const struct op *op, const struct result *res)
{
	uint32_t dead = dies(op);
	struct handle fh = {0};
	const char *wrong;

	if (dead != NO_NODE)
		fh = node_at(dead)->fh;
	if (op->kind <= OP_COMMIT)
		log_end_op(run.log_fd, op, res);
	if (is_full(res)) {
		run.full_answers++;
		if (opt.lenient && op->kind == OP_WRITE)
			node_at(op->node)->mtime_unsure = true;
		return opt.full_ok && op->kind <= OP_COMMIT ? NULL : status_text(res->status);
	}
	wrong = op_apply(op, res);
	if (!wrong)
		wrong = check_handle(op, res);
	if (!wrong && op->kind == OP_READ && res->status == ST_OK)
		wrong = check_read(c, op, res);
	if (!wrong && op->kind == OP_READLINK && strcmp(c->buf, node_at(op->node)->target))
		wrong = "another target";
	if (!wrong && dead != NO_NODE && res->status == ST_OK) {
		c->dead[c->n_dead < DEAD_HANDLES ? c->n_dead++ : below(c, DEAD_HANDLES)] = fh;
	}
	run.error_counts += res->status != ST_OK;
	return wrong;
}

/* A handle that CREATE and the like did not give. */
static bool look_up_new(
	struct client *c, const struct op_handles *fh, const struct op *op, struct result *res)
{
	struct op look = {.kind = OP_LOOKUP};
	struct result r;
	const char *wrong;

	strcpy(look.name, op->name);
	if (!conn_op(&c->conn, &look, fh, c->buf, &r, &wrong))
		return false;
	res->fh = r.fh;
	res->has_attr = r.has_attr;
	res->attr = r.attr;
	return true;
}

/* -- a listing against the model -- */

struct list_check {
	uint32_t dir;
	size_t n;
	bool *seen;
};

static const char *list_entry(void *arg, const char *name, uint64_t fileid, const struct handle *fh,
	const struct attrs *attr)
{
	struct list_check *lc = arg;
	static __thread char text[MODEL_NAME_MAX + 64];
	struct node *d, *n;
	struct dirent_model *e;
	const char *wrong = NULL;

	pthread_mutex_lock(&run.lock);
	d = node_at(lc->dir);
	e = entry_find(d, name);
	if (!e) {
		wrong = "a name that is not there";
	} else if (lc->seen[e - d->entries]) {
		wrong = "a name that comes twice";
	} else {
		lc->seen[e - d->entries] = true;
		lc->n++;
	}
	if (!wrong && !e->foreign) {
		n = node_at(e->node);
		if (fileid != n->attr.fileid || (attr && attr->fileid != fileid))
			wrong = "another fileid";
		else if (attr && attr->type != n->attr.type)
			wrong = "another type";
		else if (fh && (fh->len != n->fh.len || memcmp(fh->data, n->fh.data, fh->len)))
			wrong = "another handle";
	}
	pthread_mutex_unlock(&run.lock);
	if (!wrong)
		return NULL;
	snprintf(text, sizeof(text), "%s: %s", name, wrong);
	return text;
}

bool list_dir(struct client *c, uint32_t dir, const char **wrong, uint32_t *status)
{
	struct list_check lc = {.dir = dir};
	struct handle fh;
	size_t n;
	bool ok;

	pthread_mutex_lock(&run.lock);
	n = node_at(dir)->n_entries;
	fh = node_at(dir)->fh;
	pthread_mutex_unlock(&run.lock);
	lc.seen = calloc(n + 1, sizeof(*lc.seen));
	ok = conn_list(&c->conn, &fh, chance(c, 50),
		chance(c, 50) ? 1024 + (uint32_t)below(c, 4000) : 65536, list_entry, &lc, status,
		wrong);
	if (ok && !*wrong && *status == ST_OK && lc.n != n)
		*wrong = "names are missing";
	free(lc.seen);
	return ok;
}

bool run_op(struct client *c, struct op *op)
{
	struct op_handles fh;
	struct result res = {0};
	const char *wrong = NULL, *wrong_by_model;
	bool ok;

	begin_op(c, op, &fh);
	pthread_mutex_unlock(&run.lock);
	if (op->kind == OP_LIST)
		ok = list_dir(c, op->node, &wrong, &res.status);
	else
		ok = conn_op(&c->conn, op, &fh, c->buf, &res, &wrong);
	if (ok && op->kind <= OP_MKNOD && res.status == ST_OK && (!res.has_fh || !res.has_attr))
		ok = look_up_new(c, &fh, op, &res);
	pthread_mutex_lock(&run.lock);
	if (!ok)
		return false;
	wrong_by_model = end_op(c, op, &res);
	if (!wrong)
		wrong = wrong_by_model;
	if (wrong)
		fail_op(op, wrong);
	run.done_ops++;
	return true;
}

void *client_main(void *arg)
{
	struct client *c = arg;

	pthread_mutex_lock(&run.lock);
	while (!run.stop && run.ops_left) {
		struct op op;

		if (!choose_op(c, &op) || touches_foreign(&op))
			continue;
		op_predict(&op);
		if (!fits_others(&op)) {
			/* Let others end theirs. */
			pthread_mutex_unlock(&run.lock);
			pthread_mutex_lock(&run.lock);
			continue;
		}
		run.ops_left--;
		c->op = op;
		c->busy = true;
		if (!run_op(c, &c->op)) {
			/* Its operation stays in flight for ever: whether it took place nobody knows. */
			c->gone = true;
			break;
		}
		c->busy = false;
	}
	pthread_mutex_unlock(&run.lock);
	return NULL;
}
