/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nfs-model.h"

#include <stdlib.h>
#include <string.h>

struct tree tree;

static void *grown(void *p, size_t n, size_t each)
{
	p = reallocarray(p, n, each);
	if (!p)
		abort();
	return p;
}

/* ------------------------------------------------------------------ nodes */

struct node *node_at(uint32_t id)
{
	if (id >= tree.n_nodes)
		abort();
	return &tree.nodes[id];
}

uint32_t node_new(void)
{
	if (tree.n_nodes == tree.room) {
		tree.room = tree.room ? 2 * tree.room : 1024;
		tree.nodes = grown(tree.nodes, tree.room, sizeof(*tree.nodes));
	}
	memset(&tree.nodes[tree.n_nodes], 0, sizeof(*tree.nodes));
	return tree.n_nodes++;
}

static struct id_list *list_of(const struct node *n)
{
	enum list_kind kind = n->attr.type == TYPE_DIR ? LIST_DIRS
		: n->attr.type == TYPE_FILE	       ? LIST_FILES
						       : LIST_OTHERS;

	return &tree.lists[n->area][kind];
}

void node_begin(uint32_t id, unsigned area, const struct attrs *attr)
{
	struct node *n = node_at(id);
	struct id_list *l;

	n->live = true;
	n->area = area;
	n->attr = *attr;
	n->parent = NO_NODE;
	n->stable_size = attr->size;
	l = list_of(n);
	if (l->n == l->room) {
		l->room = l->room ? 2 * l->room : 64;
		l->ids = grown(l->ids, l->room, sizeof(*l->ids));
	}
	n->at = l->n;
	l->ids[l->n++] = id;
}

void node_gone(uint32_t id)
{
	struct node *n = node_at(id);
	struct id_list *l = list_of(n);

	n->live = false;
	l->ids[n->at] = l->ids[--l->n];
	node_at(l->ids[n->at])->at = n->at;
	content_free(&n->content);
	content_free(&n->stable);
	free(n->loose);
	free(n->target);
	free(n->entries);
	n->loose = NULL;
	n->target = NULL;
	n->entries = NULL;
	n->n_entries = n->room = n->n_loose = 0;
	n->dirty = false;
}

void tree_init(void)
{
	struct attrs top = {.type = TYPE_DIR};

	memset(&tree, 0, sizeof(tree));
	node_begin(node_new(), 0, &top);
}

/* ------------------------------------------------------------------ directories */

struct dirent_model *entry_find(struct node *dir, const char *name)
{
	for (size_t i = 0; i < dir->n_entries; i++)
		if (!strcmp(dir->entries[i].name, name))
			return &dir->entries[i];
	return NULL;
}

void entry_add(uint32_t dir, const char *name, uint32_t node, bool foreign)
{
	struct node *d = node_at(dir);

	if (d->n_entries == d->room) {
		d->room = d->room ? 2 * d->room : 16;
		d->entries = grown(d->entries, d->room, sizeof(*d->entries));
	}
	d->entries[d->n_entries].name = strdup(name);
	d->entries[d->n_entries].foreign = foreign;
	d->entries[d->n_entries++].node = node;
	if (!foreign && node_at(node)->attr.type == TYPE_DIR)
		node_at(node)->parent = dir;
}

void entry_remove(uint32_t dir, const char *name)
{
	struct node *d = node_at(dir);
	struct dirent_model *e = entry_find(d, name);

	if (!e)
		abort();
	free(e->name);
	*e = d->entries[--d->n_entries];
}

bool is_below(uint32_t dir, uint32_t of)
{
	for (; dir != NO_NODE; dir = node_at(dir)->parent)
		if (dir == of)
			return true;
	return false;
}

unsigned depth_of(uint32_t dir)
{
	unsigned depth = 0;

	for (; dir != NO_NODE; dir = node_at(dir)->parent)
		depth++;
	return depth;
}

/* ------------------------------------------------------------------ bytes */

static uint64_t mixed(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* A quarter of all data compresses well, and some is zeros. */
void data_fill(uint64_t data, uint64_t at, void *buf, size_t len)
{
	uint8_t *out = buf;
	unsigned shift = data % 4 == 1 ? 9 : 3;
	uint64_t word = 0;

	if (data % 16 == 2) {
		memset(buf, 0, len);
		return;
	}
	for (size_t i = 0; i < len; i++, at++) {
		if (i == 0 || at % 8 == 0)
			word = mixed(data * 0x9e3779b97f4a7c15u + (at >> shift));
		out[i] = (uint8_t)(word >> (at % 8 * 8));
	}
}

void content_write(struct content *c, uint64_t off, const void *buf, size_t len)
{
	const uint8_t *from = buf;

	while (len) {
		size_t i = off / CHUNK_BYTES, in = off % CHUNK_BYTES;
		size_t part = CHUNK_BYTES - in < len ? CHUNK_BYTES - in : len;

		if (i >= c->n) {
			c->chunks = grown(c->chunks, i + 1, sizeof(*c->chunks));
			memset(c->chunks + c->n, 0, (i + 1 - c->n) * sizeof(*c->chunks));
			c->n = i + 1;
		}
		if (!c->chunks[i]) {
			c->chunks[i] = calloc(1, CHUNK_BYTES);
			tree.bytes += CHUNK_BYTES;
		}
		if (!c->chunks[i])
			abort();
		memcpy(c->chunks[i] + in, from, part);
		from += part;
		off += part;
		len -= part;
	}
}

void content_read(const struct content *c, uint64_t off, void *buf, size_t len)
{
	uint8_t *to = buf;

	while (len) {
		size_t i = off / CHUNK_BYTES, in = off % CHUNK_BYTES;
		size_t part = CHUNK_BYTES - in < len ? CHUNK_BYTES - in : len;

		if (i < c->n && c->chunks[i])
			memcpy(to, c->chunks[i] + in, part);
		else
			memset(to, 0, part);
		to += part;
		off += part;
		len -= part;
	}
}

void content_cut(struct content *c, uint64_t size)
{
	for (size_t i = size / CHUNK_BYTES; i < c->n; i++) {
		size_t from = i == size / CHUNK_BYTES ? size % CHUNK_BYTES : 0;

		if (!c->chunks[i])
			continue;
		if (from) {
			memset(c->chunks[i] + from, 0, CHUNK_BYTES - from);
			continue;
		}
		free(c->chunks[i]);
		c->chunks[i] = NULL;
		tree.bytes -= CHUNK_BYTES;
	}
}

void content_free(struct content *c)
{
	content_cut(c, 0);
	free(c->chunks);
	memset(c, 0, sizeof(*c));
}

static void write_data(struct content *c, uint64_t off, uint64_t data, uint32_t skip, uint32_t len)
{
	uint8_t buf[CHUNK_BYTES];

	for (uint32_t at = 0; at < len;) {
		uint32_t part = len - at < sizeof(buf) ? len - at : (uint32_t)sizeof(buf);

		data_fill(data, skip + at, buf, part);
		content_write(c, off + at, buf, part);
		at += part;
	}
}

/* ------------------------------------------------------------------ what is stable */

/* Forgets loose bytes in [from, to): something newer is known of them. */
static void loose_clip(struct node *n, uint64_t from, uint64_t to)
{
	size_t count = n->n_loose;

	for (size_t i = 0; i < count; i++) {
		struct loose_write w = n->loose[i];
		uint64_t end = w.off + w.len;

		if (end <= from || w.off >= to)
			continue;
		if (end > to) { /* what is behind the range becomes one of its own */
			n->loose = grown(n->loose, n->n_loose + 1, sizeof(*n->loose));
			n->loose[n->n_loose++] = (struct loose_write){.off = to,
				.data = w.data,
				.skip = w.skip + (uint32_t)(to - w.off),
				.len = (uint32_t)(end - to)};
		}
		n->loose[i].len = w.off < from ? (uint32_t)(from - w.off) : 0;
	}
}

static void stable_write(struct node *n, uint64_t off, uint64_t data, uint32_t len)
{
	loose_clip(n, off, off + len);
	write_data(&n->stable, off, data, 0, len);
	if (off + len > n->stable_size)
		n->stable_size = off + len;
}

static void stable_cut(struct node *n, uint64_t size)
{
	loose_clip(n, size, UINT64_MAX);
	content_cut(&n->stable, size);
	n->stable_size = size;
}

static void loose_add(struct node *n, uint64_t off, uint64_t data, uint32_t len)
{
	n->loose = grown(n->loose, n->n_loose + 1, sizeof(*n->loose));
	n->loose[n->n_loose++] = (struct loose_write){.off = off, .data = data, .len = len};
}

/* Behind COMMIT: in the order of the writes. What was split is disjoint from the rest of it. */
static void stable_all(struct node *n)
{
	content_free(&n->stable);
	for (size_t i = 0; i < n->content.n; i++)
		if (n->content.chunks[i])
			content_write(&n->stable, (uint64_t)i * CHUNK_BYTES, n->content.chunks[i],
				CHUNK_BYTES);
	n->stable_size = n->attr.size;
	n->n_loose = 0;
}

/* ------------------------------------------------------------------ prediction */

static uint32_t node_named(uint32_t dir, const char *name, bool *foreign)
{
	struct dirent_model *e = entry_find(node_at(dir), name);

	*foreign = e && e->foreign;
	return e ? e->node : NO_NODE;
}

static uint32_t predict_rename(const struct op *op)
{
	bool moves_dir, onto_dir;

	if (op->hit == NO_NODE)
		return ST_NOENT;
	moves_dir = node_at(op->hit)->attr.type == TYPE_DIR;
	if (moves_dir && is_below(op->dir2, op->hit))
		return ST_INVAL;
	if (op->replaced == NO_NODE || op->replaced == op->hit)
		return ST_OK;
	onto_dir = node_at(op->replaced)->attr.type == TYPE_DIR;
	if (onto_dir && !moves_dir)
		return ST_ISDIR;
	if (!onto_dir && moves_dir)
		return ST_NOTDIR;
	if (onto_dir && is_below(op->dir, op->replaced))
		return ST_NOTEMPTY;
	return onto_dir && node_at(op->replaced)->n_entries ? ST_NOTEMPTY : ST_OK;
}

static uint32_t predict(const struct op *op)
{
	bool there = op->hit != NO_NODE;
	uint32_t type = there ? node_at(op->hit)->attr.type : 0;

	switch (op->kind) {
	case OP_CREATE:
		if (!there)
			return ST_OK;
		return op->how == HOW_UNCHECKED && type == TYPE_FILE ? ST_OK : ST_EXIST;
	case OP_MKDIR:
	case OP_SYMLINK:
	case OP_MKNOD:
	case OP_LINK:
		return there ? ST_EXIST : ST_OK;
	case OP_UNLINK:
		return !there ? ST_NOENT : type == TYPE_DIR ? ST_ISDIR : ST_OK;
	case OP_RMDIR:
		if (!there)
			return ST_NOENT;
		if (type != TYPE_DIR)
			return ST_NOTDIR;
		return node_at(op->hit)->n_entries ? ST_NOTEMPTY : ST_OK;
	case OP_RENAME:
		return predict_rename(op);
	case OP_LOOKUP:
		return there ? ST_OK : ST_NOENT;
	case OP_STALE:
		return ST_STALE;
	default:
		return ST_OK;
	}
}

void op_predict(struct op *op)
{
	bool foreign;

	op->hit = op->replaced = NO_NODE;
	if (op->name[0])
		op->hit = node_named(op->dir, op->name, &foreign);
	if (op->name2[0])
		op->replaced = node_named(op->dir2, op->name2, &foreign);
	op->expect = predict(op);
}

/* ------------------------------------------------------------------ conflicts */

/* A use of a node: alone, or with others that only need it to stay, or by ranges of bytes. */
struct use {
	uint32_t node;
	enum {
		USE_ALONE,
		USE_STAYS,
		USE_RANGE
	} how;
};

static size_t uses_of(const struct op *op, struct use uses[5])
{
	size_t n = 0;
	bool by_name = op->name[0] != '\0';
	bool ranged = (op->kind == OP_READ || op->kind == OP_WRITE) &&
		op->off + op->len <= node_at(op->node)->attr.size;

	if (by_name)
		uses[n++] = (struct use){op->dir, USE_STAYS};
	if (op->name2[0])
		uses[n++] = (struct use){op->dir2, USE_STAYS};
	if (by_name && op->hit != NO_NODE)
		uses[n++] = (struct use){op->hit, USE_ALONE};
	if (op->name2[0] && op->replaced != NO_NODE)
		uses[n++] = (struct use){op->replaced, USE_ALONE};
	if (!by_name || op->kind == OP_LINK)
		uses[n++] = (struct use){op->node, ranged ? USE_RANGE : USE_ALONE};
	return n;
}

static bool names_clash(uint32_t dir, const char *name, const struct op *b)
{
	if (!name[0])
		return false;
	return (b->name[0] && dir == b->dir && !strcmp(name, b->name)) ||
		(b->name2[0] && dir == b->dir2 && !strcmp(name, b->name2));
}

static bool moves_dir(const struct op *op)
{
	return op->kind == OP_RENAME && op->dir != op->dir2 && op->hit != NO_NODE &&
		node_at(op->hit)->attr.type == TYPE_DIR;
}

bool op_conflict(const struct op *a, const struct op *b)
{
	struct use ua[5], ub[5];
	size_t na = uses_of(a, ua), nb = uses_of(b, ub);

	if (names_clash(a->dir, a->name, b) || names_clash(a->dir2, a->name2, b))
		return true;
	/* One at a time, or two could make a ring. */
	if (moves_dir(a) && moves_dir(b))
		return true;
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb; k++) {
			if (ua[i].node != ub[k].node)
				continue;
			if (ua[i].how == USE_STAYS && ub[k].how == USE_STAYS)
				continue;
			if (ua[i].how == USE_RANGE && ub[k].how == USE_RANGE &&
				(a->off + a->len <= b->off || b->off + b->len <= a->off))
				continue;
			return true;
		}
	return false;
}

/* ------------------------------------------------------------------ application */

const char *attrs_differ(const struct node *n, const struct attrs *got, bool mtime_too)
{
	const struct attrs *know = &n->attr;
	static __thread char text[200];

	if (know->type != got->type)
		return "type";
	if (know->fileid != got->fileid)
		return "fileid";
	if (know->fsid != got->fsid)
		return "fsid";
	if (know->mode != got->mode) {
		snprintf(text, sizeof(text), "mode %o instead of %o", got->mode, know->mode);
		return text;
	}
	if (know->uid != got->uid || know->gid != got->gid) {
		snprintf(text, sizeof(text), "owner %u:%u instead of %u:%u", got->uid, got->gid,
			know->uid, know->gid);
		return text;
	}
	if (know->type == TYPE_DIR)
		return NULL;
	if (know->nlink != got->nlink) {
		snprintf(text, sizeof(text), "%u links instead of %u", got->nlink, know->nlink);
		return text;
	}
	if (know->size != got->size) {
		snprintf(text, sizeof(text), "size %lu instead of %lu", got->size, know->size);
		return text;
	}
	if ((know->type == TYPE_BLK || know->type == TYPE_CHR) &&
		(know->rdev_major != got->rdev_major || know->rdev_minor != got->rdev_minor))
		return "device number";
	if (mtime_too && !n->mtime_unsure &&
		(know->mtime.s != got->mtime.s || know->mtime.ns != got->mtime.ns)) {
		snprintf(text, sizeof(text), "mtime %u.%09u instead of %u.%09u", got->mtime.s,
			got->mtime.ns, know->mtime.s, know->mtime.ns);
		return text;
	}
	return NULL;
}

static void learn_times(struct node *n, const struct result *res)
{
	if (!res->has_attr)
		return;
	n->attr.mtime = res->attr.mtime;
	n->attr.ctime = res->attr.ctime;
	n->mtime_unsure = false;
}

static void set_size(struct node *n, uint64_t size)
{
	content_cut(&n->content, size);
	n->attr.size = size;
	if (tree.keep_stable)
		stable_cut(n, size);
}

/* What the server had to choose is learnt from its answer. */
static const char *apply_new(const struct op *op, const struct result *res)
{
	struct attrs a = res->attr;
	struct node *n;

	if (!res->has_attr)
		return "no attributes of the new object";
	a.nlink = a.type == TYPE_DIR ? res->attr.nlink : 1;
	a.size = 0;
	if (op->kind == OP_SYMLINK)
		a.size = strlen(op->target);
	if (op->kind == OP_MKDIR)
		a.size = res->attr.size;
	a.type = op->type;
	/* Those of a symlink and of EXCLUSIVE are the server's affair. */
	if (op->set & SET_MODE && op->kind != OP_SYMLINK)
		a.mode = op->mode;
	if (op->set & SET_UID)
		a.uid = op->uid;
	if (op->set & SET_GID)
		a.gid = op->gid;
	if (op->kind == OP_MKNOD) {
		a.rdev_major = op->rdev_major;
		a.rdev_minor = op->rdev_minor;
	}
	if (op->set & SET_MTIME)
		a.mtime = op->mtime;
	if (op->set & SET_SIZE)
		a.size = op->off;
	node_begin(op->node, node_at(op->dir)->area, &a);
	n = node_at(op->node);
	n->fh = res->fh;
	if (op->kind == OP_SYMLINK)
		n->target = strdup(op->target);
	entry_add(op->dir, op->name, op->node, false);
	return attrs_differ(n, &res->attr, true);
}

static void unlinked(uint32_t id)
{
	struct node *n = node_at(id);

	if (n->attr.type == TYPE_DIR || --n->attr.nlink == 0)
		node_gone(id);
}

static void apply_setattr(struct node *n, const struct op *op, const struct result *res)
{
	if (op->set & SET_MODE)
		n->attr.mode = op->mode;
	if (op->set & SET_UID)
		n->attr.uid = op->uid;
	if (op->set & SET_GID)
		n->attr.gid = op->gid;
	if (op->set & SET_SIZE)
		set_size(n, op->off);
	if (op->set & SET_MTIME) {
		n->attr.mtime = op->mtime;
		n->mtime_unsure = false;
	}
	if (!(op->set & SET_MTIME) && op->set & (SET_MTIME_NOW | SET_SIZE))
		learn_times(n, res);
	if (res->has_attr)
		n->attr.ctime = res->attr.ctime;
}

static void apply_write(struct node *n, const struct op *op, const struct result *res)
{
	uint64_t end = op->off + res->count;
	struct model_time was = n->attr.mtime;

	write_data(&n->content, op->off, op->data, 0, res->count);
	if (end > n->attr.size)
		n->attr.size = end;
	if (tree.keep_stable && res->committed == HOW_UNSTABLE)
		loose_add(n, op->off, op->data, res->count);
	else if (tree.keep_stable)
		stable_write(n, op->off, op->data, res->count);
	if (res->committed == HOW_UNSTABLE)
		n->dirty = true;
	learn_times(n, res);
	/* Answers of writes beside each other come in any order. */
	if (n->attr.mtime.s < was.s || (n->attr.mtime.s == was.s && n->attr.mtime.ns < was.ns))
		n->mtime_unsure = true;
}

static const char *apply_rename(const struct op *op, const struct result *res)
{
	(void)res;
	if (op->hit == op->replaced)
		return NULL; /* two names of one file: nothing happens */
	if (op->replaced != NO_NODE) {
		entry_remove(op->dir2, op->name2);
		unlinked(op->replaced);
	}
	entry_remove(op->dir, op->name);
	entry_add(op->dir2, op->name2, op->hit, false);
	return NULL;
}

static const char *apply_ok(const struct op *op, const struct result *res)
{
	bool is_new = op->hit == NO_NODE;
	struct node *n;

	switch (op->kind) {
	case OP_CREATE:
		if (is_new)
			return apply_new(op, res);
		n = node_at(op->hit);
		if (n->attr.type != TYPE_FILE) /* a pipe, say, may be opened so */
			return attrs_differ(n, &res->attr, true);
		/* UNCHECKED: of the attributes only a size of 0 is sure to be taken. */
		if (op->set & SET_SIZE)
			set_size(n, op->off);
		learn_times(n, res);
		return attrs_differ(n, &res->attr, false);
	case OP_MKDIR:
	case OP_SYMLINK:
	case OP_MKNOD:
		return apply_new(op, res);
	case OP_LINK:
		n = node_at(op->node);
		n->attr.nlink++;
		entry_add(op->dir, op->name, op->node, false);
		break;
	case OP_UNLINK:
	case OP_RMDIR:
		entry_remove(op->dir, op->name);
		unlinked(op->hit);
		return NULL;
	case OP_RENAME:
		return apply_rename(op, res);
	case OP_SETATTR:
		n = node_at(op->node);
		apply_setattr(n, op, res);
		break;
	case OP_WRITE:
		n = node_at(op->node);
		apply_write(n, op, res);
		/* Another one beside it may have come between. */
		return res->has_attr ? attrs_differ(n, &res->attr, false) : NULL;
	case OP_COMMIT:
		n = node_at(op->node);
		n->dirty = false;
		if (tree.keep_stable)
			stable_all(n);
		break;
	case OP_LOOKUP:
		n = node_at(op->hit);
		break;
	default:
		n = node_at(op->node);
		break;
	}
	return res->has_attr
		? attrs_differ(n, &res->attr, op->kind != OP_READ && n->attr.type != TYPE_DIR)
		: NULL;
}

/* Where the model and RFC 1813 leave a choice. */
static bool status_fits(const struct op *op, uint32_t status)
{
	if (status == op->expect)
		return true;
	/* rename(2) has two names for it, RFC 1813 has EXIST, too. */
	if (op->kind == OP_RENAME && op->expect != ST_OK && op->expect != ST_NOENT)
		return status == ST_EXIST || status == ST_ISDIR || status == ST_NOTDIR ||
			status == ST_NOTEMPTY || status == ST_INVAL;
	if (op->kind != OP_CREATE || op->expect != ST_EXIST)
		return false;
	if (node_at(op->hit)->attr.type == TYPE_DIR)
		return status == ST_ISDIR;
	return op->how == HOW_UNCHECKED && status == ST_OK;
}

const char *op_apply(const struct op *op, const struct result *res)
{
	static __thread char text[100];

	if (res->status == ST_NOSPC || res->status == ST_DQUOT)
		return NULL; /* the caller knows whether it may be full */
	if (!status_fits(op, res->status)) {
		snprintf(text, sizeof(text), "%s instead of %s", status_text(res->status),
			status_text(op->expect));
		return text;
	}
	return res->status == ST_OK ? apply_ok(op, res) : NULL;
}

/* ------------------------------------------------------------------ names */

const char *const op_names[OP_KINDS] = {"CREATE", "MKDIR", "SYMLINK", "MKNOD", "LINK", "UNLINK",
	"RMDIR", "RENAME", "SETATTR", "WRITE", "COMMIT", "READ", "LIST", "LOOKUP", "GETATTR",
	"READLINK", "STALE"};

const char *status_text(uint32_t status)
{
	static const struct {
		uint32_t status;
		const char *name;
	} names[] = {{ST_OK, "OK"}, {ST_NOENT, "NOENT"}, {ST_EXIST, "EXIST"}, {ST_NOTDIR, "NOTDIR"},
		{ST_ISDIR, "ISDIR"}, {ST_INVAL, "INVAL"}, {ST_NOSPC, "NOSPC"},
		{ST_NOTEMPTY, "NOTEMPTY"}, {ST_DQUOT, "DQUOT"}, {ST_STALE, "STALE"}, {5, "IO"},
		{13, "ACCES"}, {1, "PERM"}, {30, "ROFS"}, {10006, "SERVERFAULT"},
		{10008, "JUKEBOX"}, {18, "XDEV"}, {27, "FBIG"}};
	static __thread char other[2][32];
	static __thread unsigned turn;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].status == status)
			return names[i].name;
	turn = !turn;
	snprintf(other[turn], sizeof(other[turn]), "status %u", status);
	return other[turn];
}

void op_print(FILE *f, const struct op *op)
{
	fprintf(f, "op %lu of client %u: %s node %u", op->seq, op->client, op_names[op->kind],
		op->node);
	if (op->node < tree.n_nodes && tree.nodes[op->node].live)
		fprintf(f, " (type %u)", tree.nodes[op->node].attr.type);
	if (op->name[0])
		fprintf(f, " %u/%s (node %d)", op->dir, op->name, (int)op->hit);
	if (op->name2[0])
		fprintf(f, " to %u/%s (node %d)", op->dir2, op->name2, (int)op->replaced);
	if (op->kind == OP_READ || op->kind == OP_WRITE || op->set & SET_SIZE)
		fprintf(f, " at %lu, %u bytes, how %u", op->off, op->len, op->how);
	if (op->set)
		fprintf(f, " set 0x%x mode %o owner %u:%u mtime %u.%09u", op->set, op->mode,
			op->uid, op->gid, op->mtime.s, op->mtime.ns);
}
