/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-model - random operations of many clients on one NFSv3 export, each answer
 * compared with a model of the tree in memory; see usage. Each client is a thread
 * with a connection of its own, one operation in flight, and a subtree where it is
 * mostly found; all of them also work in a shared one.
 */
#include "nfs-model-conn.h"
#include "walk-entry.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUF_BYTES     (2u << 20)
#define LARGE_OFFSET  (5ull << 30)
#define DEAD_HANDLES  16u
#define DEFAULT_BYTES (256ull << 20)
#define STATUS_GONE   3

static struct {
	const char *host, *dir, *manifest, *start_manifest, *log;
	char *export;
	int port, mount_port;
	uint64_t seed, ops, max_bytes, hash_limit;
	unsigned clients, max_files, sync_percent;
	bool full_ok, adopt, no_large, lenient;
} opt = {.port = 2049,
	.seed = 1,
	.ops = 2000,
	.clients = 4,
	.max_files = 200,
	.sync_percent = 30,
	.max_bytes = DEFAULT_BYTES,
	.hash_limit = WALK_HASH_LIMIT};

struct client {
	unsigned id;
	pthread_t thread;
	struct conn conn;
	uint64_t random;
	struct op op;
	bool busy; /* op is in flight */
	char *buf, *want;
	struct handle dead[DEAD_HANDLES];
	unsigned n_dead;
	bool gone; /* its connection is */
};

/* Guards everything in struct tree, and what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct client clients[AREAS];
static uint64_t next_seq, ops_left, done_ops, full_answers;
static uint64_t kind_counts[OP_KINDS], error_counts;
static bool failed, stop;
/* Another run with the same seed must not pass for this one's retransmission. */
static uint64_t nonce;
static int log_fd = -1;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfs-model: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(2);
}

static void fail_op(const struct op *op, const char *why)
{
	fputs("nfs-model: ", stderr);
	op_print(stderr, op);
	fprintf(stderr, ": %s\n", why);
	failed = stop = true;
}

__attribute__((format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfs-model: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	failed = stop = true;
}

/* ------------------------------------------------------------------ chance */

static uint64_t rnd(struct client *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random;
}

static uint64_t below(struct client *c, uint64_t n)
{
	return n ? (rnd(c) >> 11) % n : 0;
}

static bool chance(struct client *c, unsigned percent)
{
	return below(c, 100) < percent;
}

/* One of a few hundred names, so that they meet: short, long, UTF-8, and odd bytes. */
static void random_name(struct client *c, char *name)
{
	unsigned n = (unsigned)below(c, 300);

	if (n % 16 == 0)
		snprintf(name, MODEL_NAME_MAX + 1, "%03u%0*d", n, (int)(n * 37 % 252) + 1, 7);
	else if (n % 16 == 1)
		snprintf(name, MODEL_NAME_MAX + 1, "\303\244%u\342\202\254", n);
	else if (n % 16 == 2)
		snprintf(name, MODEL_NAME_MAX + 1, " %u\377\n-\\%%", n);
	else
		snprintf(name, MODEL_NAME_MAX + 1, "f%u", n);
}

static const unsigned area_own_percent = 75;

static uint32_t random_of(struct client *c, enum list_kind kind)
{
	for (unsigned i = 0; i < 8; i++) {
		unsigned area = chance(c, area_own_percent) ? c->id + 1 : 0;
		struct id_list *l = &tree.lists[area][kind];

		if (l->n)
			return l->ids[below(c, l->n)];
	}
	return NO_NODE;
}

static uint32_t random_dir(struct client *c)
{
	uint32_t d = random_of(c, LIST_DIRS);

	/* The top holds the subtrees of the clients, and rarely more. */
	return d == NO_NODE || (d == 0 && below(c, 20)) ? random_of(c, LIST_DIRS) : d;
}

static bool random_entry(struct client *c, struct op *op)
{
	for (unsigned i = 0; i < 4; i++) {
		uint32_t dir = random_dir(c);
		struct node *d;
		struct dirent_model *e;

		if (dir == NO_NODE)
			continue;
		d = node_at(dir);
		if (!d->n_entries)
			continue;
		e = &d->entries[below(c, d->n_entries)];
		if (e->foreign)
			continue;
		op->dir = dir;
		strcpy(op->name, e->name);
		return true;
	}
	return false;
}

static uint64_t random_size(struct client *c)
{
	switch (below(c, 8)) {
	case 0:
		return below(c, 64);
	case 1:
	case 2:
		return below(c, 3000);
	case 3:
		return 4096 * below(c, 64);
	case 4:
		return 4096 * below(c, 16) + below(c, 3);
	case 5:
		return below(c, 4u << 20);
	default:
		return below(c, 200000);
	}
}

/* ------------------------------------------------------------------ choosing */

static void random_attrs(struct client *c, struct op *op)
{
	op->set = SET_MODE;
	op->mode = (uint32_t)below(c, 01000);
	if (chance(c, 20)) {
		op->set |= SET_UID | SET_GID;
		op->uid = (uint32_t)below(c, 3000);
		op->gid = (uint32_t)below(c, 3000);
	}
	if (chance(c, 10)) {
		op->set |= SET_MTIME | SET_ATIME;
		op->mtime.s = (uint32_t)rnd(c);
		op->mtime.ns = (uint32_t)below(c, 1000000000);
		op->atime.s = (uint32_t)rnd(c);
		op->atime.ns = (uint32_t)below(c, 1000000000);
	}
}

static bool choose_new(struct client *c, struct op *op)
{
	static const uint32_t types[] = {TYPE_BLK, TYPE_CHR, TYPE_SOCK, TYPE_FIFO};
	struct dirent_model *there;

	op->dir = random_dir(c);
	if (op->dir == NO_NODE)
		return false;
	random_name(c, op->name);
	random_attrs(c, op);
	op->data = rnd(c);
	switch (op->kind) {
	case OP_CREATE:
		there = entry_find(node_at(op->dir), op->name);
		if (opt.lenient && there && !there->foreign &&
			node_at(there->node)->attr.type != TYPE_FILE)
			return false;
		op->type = TYPE_FILE;
		op->how = (uint32_t)below(c, 3);
		if (op->how == HOW_EXCLUSIVE) {
			op->set = 0;
			op->data ^= nonce;
		}
		/* What a server does with the attributes for a file that is there differs. */
		if (op->how == HOW_UNCHECKED && there)
			op->set = !opt.lenient && chance(c, 50) ? SET_SIZE : 0;
		return true;
	case OP_MKDIR:
		op->type = TYPE_DIR;
		return depth_of(op->dir) < 12;
	case OP_SYMLINK:
		op->type = TYPE_LINK;
		op->set &= ~(unsigned)(SET_MTIME | SET_ATIME);
		for (size_t i = 0, n = 1 + below(c, chance(c, 20) ? MODEL_TARGET_MAX : 60); i < n;
			i++)
			op->target[i] = (char)('a' + below(c, 26));
		return true;
	default:
		op->type = types[below(c, 4)];
		if (op->type == TYPE_BLK || op->type == TYPE_CHR) {
			op->rdev_major = (uint32_t)below(c, 4096);
			op->rdev_minor = (uint32_t)below(c, 1u << 20);
		}
		return true;
	}
}

static uint32_t random_object(struct client *c)
{
	switch (below(c, 10)) {
	case 0:
	case 1:
		return random_of(c, LIST_DIRS);
	case 2:
	case 3:
		return random_of(c, LIST_OTHERS);
	default:
		return random_of(c, LIST_FILES);
	}
}

static bool choose_setattr(struct client *c, struct op *op)
{
	struct node *n;

	op->node = random_object(c);
	if (op->node == NO_NODE || op->node == 0)
		return false;
	n = node_at(op->node);
	random_attrs(c, op);
	if (opt.lenient && n->attr.type != TYPE_FILE && n->attr.type != TYPE_DIR)
		return false;
	if (n->attr.type == TYPE_LINK) /* chmod of a symlink is no standard thing */
		op->set = SET_UID | SET_GID;
	if (chance(c, 20) && n->attr.type != TYPE_LINK)
		op->set = chance(c, 50) ? SET_MTIME_NOW : SET_MTIME_NOW | SET_ATIME_NOW;
	if (n->attr.type == TYPE_FILE && chance(c, 60)) {
		op->set = chance(c, 80) ? SET_SIZE : op->set | SET_SIZE;
		op->off = chance(c, 50) ? below(c, n->attr.size + 1) : random_size(c);
		if (chance(c, 10))
			op->off = 0;
		if (!opt.no_large && chance(c, 1))
			op->off = LARGE_OFFSET + below(c, 1u << 20);
	}
	return true;
}

static bool choose_write(struct client *c, struct op *op)
{
	struct node *n;

	op->node = random_of(c, LIST_FILES);
	if (op->node == NO_NODE)
		return false;
	n = node_at(op->node);
	op->how = chance(c, opt.sync_percent) ? 1 + (uint32_t)below(c, 2) : HOW_UNSTABLE;
	op->data = rnd(c);
	op->len = (uint32_t)(1 + random_size(c));
	if (op->len > max_write)
		op->len = max_write;
	switch (below(c, 6)) {
	case 0:
	case 1:
		op->off = n->attr.size;
		break;
	case 2: /* inside */
		op->off = below(c, n->attr.size + 1);
		if (op->len > n->attr.size - op->off)
			op->len = 1 + (uint32_t)below(c, n->attr.size - op->off);
		break;
	case 3:
		op->off = 4096 * below(c, n->attr.size / 4096 + 2);
		break;
	case 4:
		op->off = 0;
		break;
	default:
		op->off = random_size(c);
		break;
	}
	if (op->off > 16u << 20 && n->attr.size < LARGE_OFFSET)
		op->off = below(c, 16u << 20);
	if (tree.bytes > opt.max_bytes && op->off + op->len > n->attr.size)
		return false;
	return true;
}

static bool choose_rename(struct client *c, struct op *op)
{
	if (!random_entry(c, op))
		return false;
	op->dir2 = chance(c, 50) ? op->dir : random_dir(c);
	if (op->dir2 == NO_NODE || depth_of(op->dir2) >= 12)
		return false;
	random_name(c, op->name2);
	if (chance(c, 30) && node_at(op->dir2)->n_entries) /* onto something */
		strcpy(op->name2,
			node_at(op->dir2)->entries[below(c, node_at(op->dir2)->n_entries)].name);
	/* Not the subtrees of the clients; and what is not ours stays. */
	return op->dir != 0 && op->dir2 != 0;
}

static bool choose_removal(struct client *c, struct op *op)
{
	struct dirent_model *e;

	if (chance(c, 5)) { /* of what is hardly there */
		op->dir = random_dir(c);
		random_name(c, op->name);
		return op->dir != NO_NODE && op->dir != 0;
	}
	if (!random_entry(c, op) || op->dir == 0)
		return false;
	e = entry_find(node_at(op->dir), op->name);
	if (!chance(c, 5)) /* mostly the right one */
		op->kind = node_at(e->node)->attr.type == TYPE_DIR ? OP_RMDIR : OP_UNLINK;
	return true;
}

static bool choose_reader(struct client *c, struct op *op)
{
	switch (op->kind) {
	case OP_READ:
		op->node = random_of(c, LIST_FILES);
		if (op->node == NO_NODE)
			return false;
		op->off = below(c, node_at(op->node)->attr.size + 4097);
		op->len = 1 + (uint32_t)below(c, chance(c, 50) ? 20000 : max_read);
		return true;
	case OP_LIST:
		op->node = random_of(c, LIST_DIRS);
		return op->node != NO_NODE && op->node != 0;
	case OP_LOOKUP:
		if (chance(c, 70))
			return random_entry(c, op);
		op->dir = random_dir(c);
		random_name(c, op->name);
		return op->dir != NO_NODE;
	case OP_READLINK:
		op->node = random_of(c, LIST_OTHERS);
		return op->node != NO_NODE && node_at(op->node)->attr.type == TYPE_LINK;
	case OP_STALE:
		op->len = (uint32_t)below(c, DEAD_HANDLES);
		return op->len < c->n_dead;
	default:
		op->node = random_object(c);
		return op->node != NO_NODE && op->node != 0;
	}
}

static enum op_kind random_kind(struct client *c)
{
	static const unsigned char weights[OP_KINDS] = {
		[OP_CREATE] = 14,
		[OP_MKDIR] = 4,
		[OP_SYMLINK] = 3,
		[OP_MKNOD] = 2,
		[OP_LINK] = 4,
		[OP_UNLINK] = 9,
		[OP_RMDIR] = 2,
		[OP_RENAME] = 8,
		[OP_SETATTR] = 9,
		[OP_WRITE] = 26,
		[OP_COMMIT] = 5,
		[OP_READ] = 10,
		[OP_LIST] = 2,
		[OP_LOOKUP] = 4,
		[OP_GETATTR] = 3,
		[OP_READLINK] = 1,
		[OP_STALE] = 1,
	};
	unsigned total = 0, at;

	if (tree.lists[c->id + 1][LIST_FILES].n + tree.lists[0][LIST_FILES].n > opt.max_files &&
		chance(c, 25))
		return OP_UNLINK;
	if (tree.lists[c->id + 1][LIST_DIRS].n > opt.max_files / 4 && chance(c, 15))
		return OP_RMDIR;
	for (unsigned i = 0; i < OP_KINDS; i++)
		total += weights[i];
	at = (unsigned)below(c, total);
	for (unsigned i = 0;; i++) {
		if (at < weights[i])
			return (enum op_kind)i;
		at -= weights[i];
	}
}

static bool choose_op(struct client *c, struct op *op)
{
	memset(op, 0, sizeof(*op));
	op->client = c->id;
	op->kind = random_kind(c);
	op->node = NO_NODE;
	switch (op->kind) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_SYMLINK:
	case OP_MKNOD:
		return choose_new(c, op) && (op->dir || op->kind == OP_CREATE);
	case OP_LINK:
		op->node = chance(c, 80) ? random_of(c, LIST_FILES) : random_of(c, LIST_OTHERS);
		op->dir = random_dir(c);
		random_name(c, op->name);
		return op->node != NO_NODE && op->dir != NO_NODE && op->dir != 0;
	case OP_UNLINK:
	case OP_RMDIR:
		return choose_removal(c, op);
	case OP_RENAME:
		return choose_rename(c, op);
	case OP_SETATTR:
		return choose_setattr(c, op);
	case OP_WRITE:
		return choose_write(c, op);
	case OP_COMMIT:
		op->node = random_of(c, LIST_FILES);
		return op->node != NO_NODE;
	default:
		return choose_reader(c, op);
	}
}

static bool touches_foreign(const struct op *op)
{
	struct dirent_model *e = op->name[0] ? entry_find(node_at(op->dir), op->name) : NULL;
	struct dirent_model *e2 = op->name2[0] ? entry_find(node_at(op->dir2), op->name2) : NULL;

	return (e && e->foreign) || (e2 && e2->foreign);
}

static bool fits_others(const struct op *op)
{
	for (unsigned i = 0; i < opt.clients; i++)
		if (clients[i].busy && op_conflict(op, &clients[i].op))
			return false;
	return true;
}

/* ------------------------------------------------------------------ one operation */

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
	op->seq = ++next_seq;
	handles_of(c, op, fh);
	if (op->kind <= OP_MKNOD)
		op->node = op->hit == NO_NODE ? node_new() : op->hit;
	if (op->kind <= OP_COMMIT)
		log_begin_op(log_fd, op);
	if (op->kind == OP_READ) {
		struct node *n = node_at(op->node);
		uint64_t have = op->off < n->attr.size ? n->attr.size - op->off : 0;

		content_read(&n->content, op->off, c->want, have < op->len ? have : op->len);
	}
	kind_counts[op->kind]++;
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

static const char *check_read(struct client *c, const struct op *op, const struct result *res)
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

static const char *check_handle(const struct op *op, const struct result *res)
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
		log_end_op(log_fd, op, res);
	if (is_full(res)) {
		full_answers++;
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
	error_counts += res->status != ST_OK;
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

	pthread_mutex_lock(&lock);
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
	pthread_mutex_unlock(&lock);
	if (!wrong)
		return NULL;
	snprintf(text, sizeof(text), "%s: %s", name, wrong);
	return text;
}

static bool list_dir(struct client *c, uint32_t dir, const char **wrong, uint32_t *status)
{
	struct list_check lc = {.dir = dir};
	struct handle fh;
	size_t n;
	bool ok;

	pthread_mutex_lock(&lock);
	n = node_at(dir)->n_entries;
	fh = node_at(dir)->fh;
	pthread_mutex_unlock(&lock);
	lc.seen = calloc(n + 1, sizeof(*lc.seen));
	ok = conn_list(&c->conn, &fh, chance(c, 50),
		chance(c, 50) ? 1024 + (uint32_t)below(c, 4000) : 65536, list_entry, &lc, status,
		wrong);
	if (ok && !*wrong && *status == ST_OK && lc.n != n)
		*wrong = "names are missing";
	free(lc.seen);
	return ok;
}

/* The lock is held on entry and on return, not between. False: the connection is gone. */
static bool run_op(struct client *c, struct op *op)
{
	struct op_handles fh;
	struct result res = {0};
	const char *wrong = NULL, *wrong_by_model;
	bool ok;

	begin_op(c, op, &fh);
	pthread_mutex_unlock(&lock);
	if (op->kind == OP_LIST)
		ok = list_dir(c, op->node, &wrong, &res.status);
	else
		ok = conn_op(&c->conn, op, &fh, c->buf, &res, &wrong);
	if (ok && op->kind <= OP_MKNOD && res.status == ST_OK && (!res.has_fh || !res.has_attr))
		ok = look_up_new(c, &fh, op, &res);
	pthread_mutex_lock(&lock);
	if (!ok)
		return false;
	wrong_by_model = end_op(c, op, &res);
	if (!wrong)
		wrong = wrong_by_model;
	if (wrong)
		fail_op(op, wrong);
	done_ops++;
	return true;
}

static void *client_main(void *arg)
{
	struct client *c = arg;

	pthread_mutex_lock(&lock);
	while (!stop && ops_left) {
		struct op op;

		if (!choose_op(c, &op) || touches_foreign(&op))
			continue;
		op_predict(&op);
		if (!fits_others(&op)) {
			/* Let others end theirs. */
			pthread_mutex_unlock(&lock);
			pthread_mutex_lock(&lock);
			continue;
		}
		ops_left--;
		c->op = op;
		c->busy = true;
		if (!run_op(c, &c->op)) {
			/* Its operation stays in flight for ever: whether it took place nobody knows. */
			c->gone = true;
			break;
		}
		c->busy = false;
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ------------------------------------------------------------------ set-up */

static bool one_op(struct client *c, struct op *op)
{
	bool ok;

	pthread_mutex_lock(&lock);
	op_predict(op);
	ok = run_op(c, op) && !failed;
	pthread_mutex_unlock(&lock);
	return ok;
}

static void learn_attr(struct client *c, uint32_t id)
{
	struct op op = {.kind = OP_GETATTR, .node = id};
	struct op_handles fh = {.node = node_at(id)->fh};
	struct result res;
	const char *wrong;

	if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong) || res.status != ST_OK)
		die("GETATTR of node %u: %s", id, status_text(res.status));
	node_at(id)->attr = res.attr;
}

/* The top: the export itself, or a directory in it, made if it is not there. */
static void find_top(struct client *c, const struct handle *root)
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

static void make_subtrees(struct client *c)
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

struct adoption {
	uint32_t dir;
	unsigned area;
};

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

static void adopt_dir(struct client *c, uint32_t dir, unsigned area);

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

static void adopt_dir(struct client *c, uint32_t dir, unsigned area)
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

/* ------------------------------------------------------------------ the full check */

static void check_content(struct client *c, uint32_t id, const char *path)
{
	struct node *n = node_at(id);
	struct op_handles fh = {.node = n->fh};

	for (uint64_t off = 0; off < n->attr.size && !stop;) {
		uint64_t have = n->attr.size - off;
		struct op op = {.kind = OP_READ,
			.node = id,
			.off = off,
			.len = have < max_read ? (uint32_t)have : max_read};
		struct result res;
		const char *wrong;

		if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong)) {
			fail("READ %s: connection closed", path);
			return;
		}
		content_read(&n->content, off, c->want, op.len);
		if (!wrong && res.status != ST_OK)
			wrong = status_text(res.status);
		if (!wrong)
			wrong = check_read(c, &op, &res);
		if (wrong)
			fail("READ %s: %s", path, wrong);
		off += res.count ? res.count : 1;
	}
}

static void check_entry(
	struct client *c, uint32_t dir, const struct dirent_model *e, const char *path)
{
	struct op op = {.kind = OP_LOOKUP, .hit = e->node};
	struct op_handles fh = {.dir = node_at(dir)->fh};
	struct node *n = node_at(e->node);
	struct result res;
	const char *wrong;

	snprintf(op.name, sizeof(op.name), "%s", e->name);
	if (!conn_op(&c->conn, &op, &fh, c->buf, &res, &wrong)) {
		fail("LOOKUP %s: connection closed", path);
		return;
	}
	if (!wrong && res.status != ST_OK)
		wrong = status_text(res.status);
	if (!wrong)
		wrong = check_handle(&op, &res);
	if (!wrong && !res.has_attr)
		wrong = "no attributes";
	if (!wrong)
		wrong = attrs_differ(n, &res.attr, true);
	if (wrong) {
		fail("%s: %s", path, wrong);
		return;
	}
	n->attr = res.attr;
	n->mtime_unsure = false;
	if (n->seen)
		return;
	n->seen = true;
	if (n->attr.type == TYPE_FILE)
		check_content(c, e->node, path);
}

static void check_dir(struct client *c, uint32_t dir, const char *path)
{
	const char *wrong;
	uint32_t status;

	if (!list_dir(c, dir, &wrong, &status))
		wrong = "connection closed";
	else if (!wrong && status != ST_OK)
		wrong = status_text(status);
	if (wrong)
		fail("listing of %s: %s", path, wrong);
	for (size_t i = 0; i < node_at(dir)->n_entries && !stop; i++) {
		struct dirent_model *e = &node_at(dir)->entries[i];
		char *below_it;

		if (e->foreign)
			continue;
		if (asprintf(&below_it, "%s/%s", path, e->name) < 0)
			abort();
		check_entry(c, dir, e, below_it);
		if (!stop && node_at(e->node)->attr.type == TYPE_DIR)
			check_dir(c, e->node, below_it);
		free(below_it);
	}
}

/* ------------------------------------------------------------------ the manifest */

static void hash_content(const struct node *n, char text[WALK_HASH_SIZE])
{
	uint64_t size = n->attr.size;
	bool ends = size > opt.hash_limit;
	struct walk_hash *h = walk_hash_new();
	static char buf[CHUNK_BYTES];

	for (uint64_t off = 0; off < size;) {
		uint64_t part = size - off < sizeof(buf) ? size - off : sizeof(buf);

		if (ends && off == WALK_END_BYTES)
			off = size - WALK_END_BYTES;
		if (ends)
			part = WALK_END_BYTES;
		content_read(&n->content, off, buf, part);
		walk_hash_add(h, buf, part);
		off += part;
	}
	walk_hash_end(h, ends ? "ends:" : "", text);
}

static void print_node(struct walk_out *w, uint32_t id, const char *path)
{
	static const char letters[] = "?-dbclsp";
	struct node *n = node_at(id);
	const struct attrs *a = &n->attr;
	char hash[WALK_HASH_SIZE];
	struct walk_entry e = {.path = path,
		.fsid = a->fsid,
		.fileid = a->fileid,
		.size = a->size,
		.type = letters[a->type],
		.mode = a->mode,
		.uid = a->uid,
		.gid = a->gid,
		.nlink = a->nlink,
		.rdev_major = a->rdev_major,
		.rdev_minor = a->rdev_minor,
		.mtime_s = a->mtime.s,
		.mtime_ns = a->mtime.ns,
		.ctime_s = a->ctime.s,
		.ctime_ns = a->ctime.ns,
		.target = n->target};

	if (a->type == TYPE_FILE) {
		hash_content(n, hash);
		e.hash = hash;
	}
	walk_out_entry(w, &e);
	for (size_t i = 0; a->type == TYPE_DIR && i < n->n_entries; i++) {
		char *below_it;

		if (n->entries[i].foreign)
			continue;
		if (asprintf(&below_it, "%s%s%s", id ? path : "", id ? "/" : "",
			    n->entries[i].name) < 0)
			abort();
		print_node(w, n->entries[i].node, below_it);
		free(below_it);
	}
}

/* walk_out_end() prints to standard output, which is the file meanwhile. */
static void write_manifest(const char *file)
{
	struct walk_options wo = {.hash_limit_bytes = opt.hash_limit};
	struct walk_out w;
	int kept = dup(1), fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		die("%s: %s", file, strerror(errno));
	fflush(stdout);
	dup2(fd, 1);
	close(fd);
	walk_out_begin(&w, &wo);
	print_node(&w, 0, ".");
	if (!walk_out_end(&w))
		die("%s: cannot write the manifest", file);
	dup2(kept, 1);
	close(kept);
}

/* ------------------------------------------------------------------ main */

static const char usage[] =
	"usage: nfs-model [options] HOST EXPORT\n"
	"       nfs-model --verify SYNC-LOG DIR\n"
	"  Random operations on an export without root squash, against a model.\n"
	"  --port P            NFS port (2049)\n"
	"  --mount-port P      MOUNT port (the same as --port)\n"
	"  --dir NAME          work in this directory of the export, made if need be (the export)\n"
	"  --seed N, --ops N   what and how much (1, 2000; 0: until the server goes)\n"
	"  --clients N         so many at a time, at most 64 (4)\n"
	"  --files N           about so many files for each client (200)\n"
	"  --bytes N           about so many bytes in all files (256 MiB)\n"
	"  --sync-percent N    so many of the WRITEs are stable (30)\n"
	"  --adopt             there may be a tree already: read it first\n"
	"  --full-ok           NOSPC and DQUOT are answers like others\n"
	"  --lenient           without what nfs-ganesha 4.3 is known to do wrong\n"
	"  --no-large          no files of more than 4 GiB\n"
	"  --manifest FILE     afterwards, what a kernel mount must look like (see manifest)\n"
	"  --start-manifest F  the same before the first operation, with --adopt\n"
	"  --hash-limit N      in manifests: larger files by their two ends only (64 GiB)\n"
	"  --sync-log FILE     each operation and each answer, before the next one\n"
	"  --verify LOG DIR    does DIR, a mount of what --dir was, have all that was answered?\n"
	"Exit status: 0 all as the model says, 1 not so, 2 cannot run, 3 the server went away.\n";

enum {
	OPT_FIRST = 256,
	OPT_VERIFY
};

static void set_option(int o, char *arg)
{
	switch (o) {
	case 'p':
		opt.port = atoi(arg);
		break;
	case 'm':
		opt.mount_port = atoi(arg);
		break;
	case 'd':
		opt.dir = arg;
		break;
	case 's':
		opt.seed = strtoull(arg, NULL, 0);
		break;
	case 'n':
		opt.ops = strtoull(arg, NULL, 0);
		break;
	case 'c':
		opt.clients = (unsigned)atoi(arg);
		break;
	case 'f':
		opt.max_files = (unsigned)atoi(arg);
		break;
	case 'b':
		opt.max_bytes = strtoull(arg, NULL, 0);
		break;
	case 'y':
		opt.sync_percent = (unsigned)atoi(arg);
		break;
	case 'a':
		opt.adopt = true;
		break;
	case 'F':
		opt.full_ok = true;
		break;
	case 'P':
		opt.lenient = true;
		break;
	case 'L':
		opt.no_large = true;
		break;
	case 'M':
		opt.manifest = arg;
		break;
	case 'S':
		opt.start_manifest = arg;
		break;
	case 'l':
		opt.hash_limit = strtoull(arg, NULL, 0);
		break;
	case 'g':
		opt.log = arg;
		break;
	default:
		fputs(usage, o == 'h' ? stdout : stderr);
		exit(o == 'h' ? 0 : 2);
	}
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"port", required_argument, NULL, 'p'},
		{"mount-port", required_argument, NULL, 'm'},
		{"dir", required_argument, NULL, 'd'},
		{"seed", required_argument, NULL, 's'},
		{"ops", required_argument, NULL, 'n'},
		{"clients", required_argument, NULL, 'c'},
		{"files", required_argument, NULL, 'f'},
		{"bytes", required_argument, NULL, 'b'},
		{"sync-percent", required_argument, NULL, 'y'},
		{"adopt", no_argument, NULL, 'a'},
		{"full-ok", no_argument, NULL, 'F'},
		{"lenient", no_argument, NULL, 'P'},
		{"no-large", no_argument, NULL, 'L'},
		{"manifest", required_argument, NULL, 'M'},
		{"start-manifest", required_argument, NULL, 'S'},
		{"hash-limit", required_argument, NULL, 'l'},
		{"sync-log", required_argument, NULL, 'g'},
		{"verify", no_argument, NULL, OPT_VERIFY},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	bool verify = false;
	int o;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
		if (o == OPT_VERIFY)
			verify = true;
		else
			set_option(o, optarg);
	if (argc - optind != 2 || opt.clients < 1 || opt.clients > AREAS - 1) {
		fputs(usage, stderr);
		exit(2);
	}
	if (verify)
		exit(verify_main(argv[optind], argv[optind + 1]));
	opt.host = argv[optind];
	opt.export = argv[optind + 1];
	if (!opt.mount_port)
		opt.mount_port = opt.port;
}

static void open_clients(void)
{
	struct handle root;

	conn_mount(opt.host, opt.mount_port, opt.export, &root);
	for (unsigned i = 0; i < opt.clients; i++) {
		struct client *c = &clients[i];

		c->id = i;
		c->random = (opt.seed * 0x9e3779b97f4a7c15u + i) * 0xbf58476d1ce4e5b9u | 1;
		for (unsigned k = 0; k < 8; k++)
			rnd(c);
		c->buf = malloc(BUF_BYTES);
		c->want = malloc(BUF_BYTES);
		if (!c->buf || !c->want)
			die("out of memory");
		/* An answer to another run's call must not pass for one to this. */
		conn_open(&c->conn, opt.host, opt.port,
			(uint32_t)getpid() * 0x10001u + i * 0x1000000u);
	}
	conn_fsinfo(&clients[0].conn, &root);
	tree_init();
	find_top(&clients[0], &root);
}

static int summary(void)
{
	bool gone = false;

	for (unsigned i = 0; i < opt.clients; i++)
		gone |= clients[i].gone;
	printf("seed %lu: %lu operations (%lu refused, %lu full), %u nodes%s\n", opt.seed, done_ops,
		error_counts, full_answers, tree.n_nodes, gone ? ", the server went away" : "");
	return failed ? 1 : gone ? STATUS_GONE : 0;
}

int main(int argc, char **argv)
{
	struct client *first = &clients[0];
	int status;

	parse_options(argc, argv);
	if (opt.log) {
		log_fd = open(opt.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
		if (log_fd < 0)
			die("%s: %s", opt.log, strerror(errno));
	}
	nonce = (uint64_t)time(NULL) << 32 ^ (uint64_t)getpid();
	open_clients();
	if (opt.adopt)
		adopt_dir(first, 0, 0);
	if (opt.start_manifest)
		write_manifest(opt.start_manifest);
	make_subtrees(first);
	ops_left = opt.ops ? opt.ops : UINT64_MAX;
	for (unsigned i = 0; i < opt.clients; i++)
		if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]))
			die("cannot start a thread");
	for (unsigned i = 0; i < opt.clients; i++)
		pthread_join(clients[i].thread, NULL);
	status = summary();
	if (status)
		return status;
	learn_attr(first, 0);
	check_dir(first, 0, "");
	if (failed)
		return 1;
	if (opt.manifest)
		write_manifest(opt.manifest);
	return 0;
}
