/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/crash_work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "fscore/io/dev.h"

#define MAX_NODES      4096u
#define MAX_FILE_BYTES (640u << 10)
#define NONE	       UINT32_MAX
#define XATTR_NAME     "user.version"

/* What a name stood for from an operation on. */
struct name_state {
	uint64_t seq;
	uint32_t node;
};

struct name_history {
	struct name_state *states; /* the first is "nothing" */
	size_t n;
};

/* Content and attributes of a file from an operation on. */
struct version {
	uint64_t seq;
	uint32_t mode, nlink, xattr; /* xattr 0: there is none */
	uint64_t size;
	uint8_t *content; /* shared with the version before when that did not change */
	bool own;	  /* it is not */
	bool truncation;
};

struct node {
	uint64_t ino;
	uint32_t type; /* S_IF* */
	struct fsc_inode *inode;
	struct version *versions;
	size_t n;
	bool tainted; /* a write of it was lost, and that was said */
	unsigned found;
};

enum ack_kind {
	ACK_INODE,
	ACK_NAMES,
	ACK_ALL
};

struct ack {
	enum ack_kind kind;
	uint32_t node;
	uint64_t seq;
	size_t count; /* records when it was known */
};

struct crash_work {
	struct fsc_thread *thread;
	struct fsc_volume *vol;
	struct dev *record;
	uint64_t random, seq;
	struct fsc_inode *dirs[CRASH_DIRS];
	uint64_t dir_inos[CRASH_DIRS];
	struct name_history names[CRASH_DIRS][CRASH_NAMES];
	struct node *nodes;
	uint32_t n_nodes;
	size_t *begins; /* by seq: records when it began */
	size_t begins_room;
	struct ack *acks;
	size_t n_acks;
	uint8_t *buf;
	char why[400];
};

/* volatile: to the compiler, realloc() looks at nothing of ours. */
__thread volatile bool crash_work_allocates;

static void *grown(void *p, size_t n, size_t each)
{
	crash_work_allocates = true;
	p = realloc(p, n * each);
	crash_work_allocates = false;
	if (!p)
		abort();
	return p;
}

__attribute__((format(printf, 2, 3))) static bool wrong(struct crash_work *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	return false;
}

const char *crash_work_why(const struct crash_work *w)
{
	return w->why;
}

static uint64_t rnd(struct crash_work *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random >> 8;
}

static uint32_t below(struct crash_work *w, uint32_t n)
{
	return (uint32_t)(rnd(w) % n);
}

/* Short ones and some that are long. */
static size_t name_text(unsigned i, char *text)
{
	if (i % 8 == 7)
		return (size_t)sprintf(text, "%02u%0*d", i, (int)(100 + i * 6), 0);
	return (size_t)sprintf(text, "n%u", i);
}

/* ------------------------------------------------------------------ history */

static size_t records(const struct crash_work *w)
{
	return w->record ? dev_record_count(w->record) : 0;
}

static void op_begins(struct crash_work *w)
{
	w->seq++;
	if (w->seq >= w->begins_room) {
		w->begins_room = 2 * w->seq + 64;
		w->begins = grown(w->begins, w->begins_room, sizeof(*w->begins));
	}
	w->begins[w->seq] = records(w);
}

static uint32_t name_now(const struct crash_work *w, unsigned dir, unsigned name)
{
	const struct name_history *h = &w->names[dir][name];

	return h->n ? h->states[h->n - 1].node : NONE;
}

static void name_set(struct crash_work *w, unsigned dir, unsigned name, uint32_t node)
{
	struct name_history *h = &w->names[dir][name];

	h->states = grown(h->states, h->n + 2, sizeof(*h->states));
	if (!h->n)
		h->states[h->n++] = (struct name_state){.node = NONE};
	h->states[h->n++] = (struct name_state){w->seq, node};
}

static struct version *now(struct node *n)
{
	return &n->versions[n->n - 1];
}

/* A new version like the last one. */
static struct version *next_version(struct crash_work *w, uint32_t node)
{
	struct node *n = &w->nodes[node];
	struct version *v;

	n->versions = grown(n->versions, n->n + 1, sizeof(*n->versions));
	v = &n->versions[n->n++];
	if (n->n > 1)
		*v = v[-1];
	else
		memset(v, 0, sizeof(*v));
	v->seq = w->seq;
	v->own = v->truncation = false;
	return v;
}

static void new_content(struct version *v, uint64_t size)
{
	uint8_t *content = grown(NULL, size + 1, 1);

	memset(content, 0, size + 1);
	if (v->content)
		memcpy(content, v->content, MIN(size, v->size));
	v->content = content;
	v->own = true;
	v->size = size;
}

static void acked(struct crash_work *w, enum ack_kind kind, uint32_t node, uint64_t seq)
{
	w->acks = grown(w->acks, w->n_acks + 1, sizeof(*w->acks));
	w->acks[w->n_acks++] = (struct ack){kind, node, seq, records(w)};
	if (getenv("BYRE_CRASH_VERBOSE"))
		fprintf(stderr, "operation %lu is durable: kind %d, node %d\n", seq, (int)kind,
			(int)node);
}

/* ------------------------------------------------------------------ operations */

static struct fsc_ctx ctx_of(struct crash_work *w)
{
	return (struct fsc_ctx){.thread = w->thread};
}

static bool pick_name(struct crash_work *w, unsigned *dir, unsigned *name, bool taken)
{
	for (unsigned i = 0; i < 20; i++) {
		*dir = below(w, CRASH_DIRS);
		*name = below(w, CRASH_NAMES);
		if ((name_now(w, *dir, *name) != NONE) == taken)
			return true;
	}
	return false;
}

static uint32_t pick_node(struct crash_work *w, uint32_t type)
{
	unsigned dir, name;

	for (unsigned i = 0; i < 20; i++) {
		uint32_t node;

		if (!pick_name(w, &dir, &name, true))
			continue;
		node = name_now(w, dir, name);
		if (!type || w->nodes[node].type == type)
			return node;
	}
	return NONE;
}

static int do_create(struct crash_work *w)
{
	static const uint32_t types[] = {
		S_IFREG, S_IFREG, S_IFREG, S_IFREG, S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
	struct fsc_ctx ctx = ctx_of(w);
	struct fsc_new fn = {.mode = types[below(w, 8)] | 0600, .uid = 1, .gid = 2};
	struct fsc_inode *inode;
	struct fsc_attr attr;
	unsigned dir, name;
	char text[FSC_NAME_MAX + 1];
	struct version *v;
	int ret;

	if (w->n_nodes == MAX_NODES || !pick_name(w, &dir, &name, false))
		return 0;
	fn.target = S_ISLNK(fn.mode) ? "where/it/leads" : NULL;
	ret = fsc_create(&ctx, w->dirs[dir], text, name_text(name, text), &fn, &inode);
	if (ret)
		return ret;
	fsc_inode_attr(inode, &attr);
	w->nodes[w->n_nodes] =
		(struct node){.ino = attr.ino, .type = fn.mode & S_IFMT, .inode = inode};
	v = next_version(w, w->n_nodes);
	v->mode = fn.mode;
	v->nlink = 1;
	name_set(w, dir, name, w->n_nodes++);
	return 0;
}

static int do_write(struct crash_work *w)
{
	static const uint32_t lens[] = {10, 700, 3000, 4096, 5000, 20000, 65536, 200000};
	struct fsc_ctx ctx = ctx_of(w);
	uint32_t node = pick_node(w, S_IFREG), len = 1 + below(w, lens[below(w, 8)]);
	uint64_t off, fill = rnd(w);
	struct iovec iov = {.iov_base = w->buf, .iov_len = len};
	struct version *v;
	int ret;

	if (node == NONE)
		return 0;
	v = now(&w->nodes[node]);
	off = below(w, 3) ? below(w, (uint32_t)v->size + 1) : v->size + below(w, 10000);
	if (!below(w, 3))
		off &= ~(uint64_t)4095;
	if (off + len > MAX_FILE_BYTES)
		return 0;
	for (uint32_t i = 0; i < len; i++)
		w->buf[i] = (uint8_t)(hash_mix64(fill + (fill & 1 ? i / 64 : i)) | 1);
	ret = fsc_write(&ctx, w->nodes[node].inode, off, &iov, 1);
	if (ret)
		return ret;
	v = next_version(w, node);
	new_content(v, MAX(v->size, off + len));
	memcpy(v->content + off, w->buf, len);
	return 0;
}

static int do_setattr(struct crash_work *w)
{
	struct fsc_ctx ctx = ctx_of(w);
	bool cut = below(w, 2);
	uint32_t node = pick_node(w, cut ? S_IFREG : 0);
	struct fsc_setattr set = {
		.mask = cut ? FSC_SET_SIZE : FSC_SET_MODE, .mode = below(w, 01000)};
	struct version *v;
	int ret;

	if (node == NONE || w->nodes[node].type == S_IFLNK)
		return 0;
	v = now(&w->nodes[node]);
	if (cut)
		set.size_bytes =
			below(w, 3) ? below(w, (uint32_t)v->size + 1) : below(w, MAX_FILE_BYTES);
	ret = fsc_setattr(&ctx, w->nodes[node].inode, &set);
	if (ret)
		return ret;
	v = next_version(w, node);
	if (cut) {
		new_content(v, set.size_bytes);
		v->truncation = true;
	} else {
		v->mode = (v->mode & S_IFMT) | set.mode;
	}
	return 0;
}

static int do_xattr(struct crash_work *w)
{
	struct fsc_ctx ctx = ctx_of(w);
	uint32_t node = pick_node(w, S_IFREG), value = 1 + below(w, 1000000);
	int ret;

	if (node == NONE)
		return 0;
	if (now(&w->nodes[node])->xattr && !below(w, 4)) {
		value = 0;
		ret = fsc_removexattr(&ctx, w->nodes[node].inode, XATTR_NAME);
	} else {
		ret = fsc_setxattr(
			&ctx, w->nodes[node].inode, XATTR_NAME, &value, sizeof(value), 0);
	}
	if (!ret)
		next_version(w, node)->xattr = value;
	return ret;
}

static int do_link(struct crash_work *w)
{
	struct fsc_ctx ctx = ctx_of(w);
	uint32_t node = pick_node(w, S_IFREG);
	unsigned dir, name;
	char text[FSC_NAME_MAX + 1];
	int ret;

	if (node == NONE || !pick_name(w, &dir, &name, false))
		return 0;
	ret = fsc_link(&ctx, w->nodes[node].inode, w->dirs[dir], text, name_text(name, text));
	if (ret)
		return ret;
	next_version(w, node)->nlink++;
	name_set(w, dir, name, node);
	return 0;
}

static void lost_a_name(struct crash_work *w, uint32_t node)
{
	next_version(w, node)->nlink--;
	if (now(&w->nodes[node])->nlink == 0 && below(w, 4)) { /* some are held on to */
		fsc_inode_put(w->nodes[node].inode);
		w->nodes[node].inode = NULL;
	}
}

static int do_unlink(struct crash_work *w)
{
	struct fsc_ctx ctx = ctx_of(w);
	unsigned dir, name;
	char text[FSC_NAME_MAX + 1];
	uint32_t node;
	int ret;

	if (!pick_name(w, &dir, &name, true))
		return 0;
	node = name_now(w, dir, name);
	if (w->nodes[node].type == S_IFDIR)
		ret = fsc_rmdir(&ctx, w->dirs[dir], text, name_text(name, text));
	else
		ret = fsc_unlink(&ctx, w->dirs[dir], text, name_text(name, text));
	if (ret)
		return ret;
	name_set(w, dir, name, NONE);
	lost_a_name(w, node);
	return 0;
}

static int do_rename(struct crash_work *w)
{
	struct fsc_ctx ctx = ctx_of(w);
	unsigned dir, name, dir2 = below(w, CRASH_DIRS), name2 = below(w, CRASH_NAMES);
	char from[FSC_NAME_MAX + 1], to[FSC_NAME_MAX + 1];
	uint32_t node, old;
	int ret;

	if (!pick_name(w, &dir, &name, true))
		return 0;
	node = name_now(w, dir, name);
	old = name_now(w, dir2, name2);
	if (node == old ||
		(old != NONE &&
			(w->nodes[node].type == S_IFDIR) != (w->nodes[old].type == S_IFDIR)))
		return 0;
	ret = fsc_rename(&ctx, w->dirs[dir], from, name_text(name, from), w->dirs[dir2], to,
		name_text(name2, to));
	if (ret)
		return ret;
	name_set(w, dir, name, NONE);
	name_set(w, dir2, name2, node);
	if (old != NONE)
		lost_a_name(w, old);
	return 0;
}

struct waited_sync {
	struct fsc_sync sync;
	bool done;
};

static void on_sync(struct fsc_sync *sync)
{
	container_of(sync, struct waited_sync, sync)->done = true;
}

static int wait_sync(struct crash_work *w, struct waited_sync *s, int ret)
{
	if (ret != -EINPROGRESS)
		return ret;
	while (!s->done)
		fsc_thread_wait(w->thread);
	return s->sync.status;
}

static int do_sync_inode(struct crash_work *w)
{
	struct waited_sync s = {.sync = {.thread = w->thread, .done = on_sync}};
	uint32_t node = pick_node(w, S_IFREG);
	uint64_t seq = w->seq;
	int ret;

	if (node == NONE)
		return 0;
	ret = wait_sync(w, &s, fsc_sync_inode(w->nodes[node].inode, &s.sync));
	if (ret)
		w->nodes[node].tainted = true;
	else
		acked(w, ACK_INODE, node, seq);
	return ret;
}

static int do_sync_names(struct crash_work *w)
{
	struct waited_sync s = {.sync = {.thread = w->thread, .done = on_sync}};
	uint64_t seq = w->seq;
	int ret = wait_sync(w, &s, fsc_sync_names(w->vol, &s.sync));

	if (!ret)
		acked(w, ACK_NAMES, NONE, seq);
	return ret;
}

int crash_work_sync(struct crash_work *w)
{
	struct fsc_ctx ctx = ctx_of(w);
	uint64_t seq = w->seq;
	int ret = fsc_sync_all(&ctx, w->vol);

	if (!ret)
		acked(w, ACK_ALL, NONE, seq);
	else
		for (uint32_t i = 0; i < w->n_nodes; i++)
			w->nodes[i].tainted = true;
	return ret;
}

static const struct {
	const char *name;
	int (*run)(struct crash_work *w);
	unsigned weight;
} operations[] = {
	{"create", do_create, 18},
	{"write", do_write, 34},
	{"setattr", do_setattr, 8},
	{"xattr", do_xattr, 4},
	{"link", do_link, 5},
	{"unlink", do_unlink, 8},
	{"rename", do_rename, 9},
	{"sync of an inode", do_sync_inode, 8},
	{"sync of names", do_sync_names, 8},
	{"sync of all", crash_work_sync, 1},
};

static bool honest(int error)
{
	return error == -EIO || error == -ENOSPC || error == -EROFS || error == -ENOMEM;
}

int crash_work_run(struct crash_work *w, unsigned n, bool may_fail)
{
	unsigned total = 0;
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		total += operations[i].weight;
	while (n--) {
		unsigned at = below(w, total);
		size_t i = 0;
		int ret;

		while (at >= operations[i].weight)
			at -= operations[i++].weight;
		op_begins(w);
		ret = operations[i].run(w);
		if (!ret)
			continue;
		failed++;
		if (getenv("BYRE_CRASH_VERBOSE"))
			fprintf(stderr, "operation %lu, %s: %s\n", w->seq, operations[i].name,
				strerror(-ret));
		if (!may_fail || !honest(ret)) {
			wrong(w, "operation %lu, %s: %s", w->seq, operations[i].name,
				strerror(-ret));
			return -1;
		}
	}
	return failed;
}

/* ------------------------------------------------------------------ beginning and end */

static int find_dirs(struct fsc_thread *thread, struct fsc_volume *vol, bool make,
	struct fsc_inode *dirs[CRASH_DIRS])
{
	struct fsc_ctx ctx = {.thread = thread};
	struct fsc_new fn = {.mode = S_IFDIR | 0755};
	char name[] = "d0";
	int ret = fsc_inode_get(&ctx, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &dirs[0]);

	for (unsigned i = 1; !ret && i < CRASH_DIRS; i++) {
		name[1] = (char)('0' + i);
		ret = fsc_lookup(&ctx, dirs[0], name, 2, &dirs[i]);
		if (ret == -ENOENT && make)
			ret = fsc_create(&ctx, dirs[0], name, 2, &fn, &dirs[i]);
	}
	return ret;
}

static void put_dirs(struct fsc_inode *dirs[CRASH_DIRS])
{
	for (unsigned i = 0; i < CRASH_DIRS; i++) {
		fsc_inode_put(dirs[i]);
		dirs[i] = NULL;
	}
}

struct crash_work *crash_work_begin(struct fsc_thread *thread, struct fsc_volume *vol,
	struct dev *record, uint64_t seed, int *error)
{
	struct crash_work *w = calloc(1, sizeof(*w));
	struct fsc_attr attr;

	if (!w)
		abort();
	w->thread = thread;
	w->vol = vol;
	w->record = record;
	w->random = hash_mix64(seed + 1) | 1;
	w->buf = malloc(MAX_FILE_BYTES);
	w->nodes = calloc(MAX_NODES, sizeof(*w->nodes));
	if (!w->buf || !w->nodes)
		abort();
	*error = find_dirs(thread, vol, true, w->dirs);
	if (!*error)
		*error = crash_work_sync(w);
	for (unsigned i = 0; !*error && i < CRASH_DIRS; i++) {
		fsc_inode_attr(w->dirs[i], &attr);
		w->dir_inos[i] = attr.ino;
	}
	if (!*error)
		return w;
	crash_work_destroy(w);
	return NULL;
}

void crash_work_detach(struct crash_work *w)
{
	put_dirs(w->dirs);
	for (uint32_t i = 0; i < w->n_nodes; i++) {
		fsc_inode_put(w->nodes[i].inode);
		w->nodes[i].inode = NULL;
	}
	w->vol = NULL;
	w->record = NULL;
}

void crash_work_destroy(struct crash_work *w)
{
	if (!w)
		return;
	crash_work_detach(w);
	for (uint32_t i = 0; i < w->n_nodes; i++) {
		for (size_t v = 0; v < w->nodes[i].n; v++)
			if (w->nodes[i].versions[v].own)
				free(w->nodes[i].versions[v].content);
		free(w->nodes[i].versions);
	}
	for (unsigned d = 0; d < CRASH_DIRS; d++)
		for (unsigned n = 0; n < CRASH_NAMES; n++)
			free(w->names[d][n].states);
	free(w->nodes);
	free(w->begins);
	free(w->acks);
	free(w->buf);
	free(w);
}

/* ------------------------------------------------------------------ the check */

/* What bounds the past that may be seen. */
struct window {
	struct crash_work *w;
	size_t cut;
	uint64_t names_acked, last; /* seq */
	struct fsc_ctx ctx;
};

/* The last seq by which this file was said to be durable, content and all. */
static uint64_t file_acked(const struct window *win, uint32_t node)
{
	const struct crash_work *w = win->w;
	uint64_t seq = 0;

	for (size_t i = 0; i < w->n_acks; i++) {
		const struct ack *a = &w->acks[i];

		if (a->count <= win->cut &&
			(a->kind == ACK_ALL || (a->kind == ACK_INODE && a->node == node)))
			seq = MAX(seq, a->seq);
	}
	return seq;
}

/* Whether state i of n, with these seqs, may be seen in [from, to]. */
#define MAY_SEE(states, i, n, from, to) \
	((states)[i].seq <= (to) && ((i) + 1 == (n) || (states)[(i) + 1].seq > (from)))

static bool check_name(struct window *win, unsigned dir, unsigned name, uint64_t ino)
{
	struct crash_work *w = win->w;
	struct name_history *h = &w->names[dir][name];
	uint64_t from = win->names_acked;

	/* The sync of an inode makes its names durable as well. */
	for (size_t i = 0; i < h->n; i++)
		if (h->states[i].node != NONE) {
			uint64_t seq = file_acked(win, h->states[i].node);

			if (seq >= h->states[i].seq)
				from = MAX(from, h->states[i].seq);
		}
	if (!h->n && !ino)
		return true;
	for (size_t i = 0; i < h->n; i++) {
		uint32_t node = h->states[i].node;

		if (!MAY_SEE(h->states, i, h->n, from, win->last))
			continue;
		if (node == NONE ? !ino : w->nodes[node].ino == ino) {
			if (node != NONE)
				w->nodes[node].found++;
			return true;
		}
	}
	return wrong(w, "name %u in directory %u: inode %lu, and that it never was from %lu to %lu",
		name, dir, ino, from, win->last);
}

struct listing {
	uint64_t inos[CRASH_NAMES];
	bool unknown;
	char unknown_name[FSC_NAME_MAX + 1];
	unsigned dir;
};

static bool on_entry(void *arg, const struct fsc_dirent *e)
{
	struct listing *l = arg;
	char text[FSC_NAME_MAX + 1];

	if (l->dir == 0 && e->name_len == 2 && e->name[0] == 'd')
		return true;
	for (unsigned i = 0; i < CRASH_NAMES; i++)
		if (name_text(i, text) == e->name_len && !memcmp(text, e->name, e->name_len)) {
			l->unknown |= l->inos[i] != 0; /* twice */
			l->inos[i] = e->ino;
			return true;
		}
	l->unknown = true;
	return true;
}

static bool check_dir(struct window *win, unsigned dir, struct fsc_inode *inode)
{
	struct listing l = {.dir = dir};
	bool eof;
	int ret = fsc_readdir(&win->ctx, inode, 2, UINT64_MAX >> 2, 0, on_entry, &l, &eof);

	if (ret || !eof)
		return wrong(win->w, "listing of directory %u: %s", dir, strerror(-ret));
	if (l.unknown)
		return wrong(win->w, "a name in directory %u that never was, or twice", dir);
	for (unsigned i = 0; i < CRASH_NAMES; i++)
		if (!check_name(win, dir, i, l.inos[i]))
			return false;
	return true;
}

static int read_all(struct window *win, struct fsc_inode *inode, uint64_t size)
{
	for (uint64_t off = 0; off < size;) {
		struct fsc_read rd = {.file_off = off, .len_bytes = MIN(size - off, 256u << 10)};
		int ret = fsc_read(&win->ctx, inode, &rd);

		for (unsigned i = 0; !ret && i < rd.n_iov; i++) {
			memcpy(win->w->buf + off, rd.iov[i].iov_base, rd.iov[i].iov_len);
			off += rd.iov[i].iov_len;
		}
		if (!ret && !rd.result_bytes)
			ret = -ENODATA;
		fsc_read_release(&rd);
		if (ret)
			return ret;
	}
	return 0;
}

/* The version of a node at an operation. */
static size_t version_at(const struct node *n, uint64_t seq)
{
	size_t v = n->n - 1;

	while (v && n->versions[v].seq > seq)
		v--;
	return v;
}

/* Where a byte's past begins: what a durable truncation has cut off never comes back. */
static size_t past_of(const struct window *win, const struct node *n, size_t from, uint64_t off)
{
	for (size_t v = version_at(n, win->names_acked); v > from; v--)
		if (n->versions[v].truncation && n->versions[v].size <= off)
			return v;
	return from;
}

/* Each byte as in one of the versions [from, to]. */
static bool check_bytes(
	struct window *win, const struct node *n, size_t from, size_t to, uint64_t size)
{
	const uint8_t *got = win->w->buf;
	bool cut = false;

	for (size_t v = from; v <= to; v++)
		cut |= n->versions[v].truncation;
	for (size_t v = cut ? to : from; v <= to; v++)
		if (n->versions[v].size == size &&
			(!size || !memcmp(n->versions[v].content, got, size)))
			return true;
	for (uint64_t i = 0; i < size; i++) {
		bool fits = false;

		for (size_t v = cut ? past_of(win, n, from, i) : from; v <= to && !fits; v++)
			fits = got[i] == (i < n->versions[v].size ? n->versions[v].content[i] : 0);
		if (!fits)
			return wrong(win->w, "inode %lu: byte 0x%02x at %lu, never there since %lu",
				n->ino, got[i], i, n->versions[from].seq);
	}
	return true;
}

static bool check_file(struct window *win, uint32_t id, struct fsc_inode *inode, uint64_t size)
{
	struct node *n = &win->w->nodes[id];
	size_t from = version_at(n, file_acked(win, id)), to = version_at(n, win->last), sized;
	uint64_t least = UINT64_MAX, most = 0;
	int ret;

	if (n->tainted)
		return true;
	/* A size that was set is durable like a name. */
	sized = from;
	for (size_t v = from; v <= version_at(n, win->names_acked); v++)
		if (n->versions[v].truncation)
			sized = v;
	for (size_t v = sized; v <= to; v++) {
		least = MIN(least, n->versions[v].size);
		most = MAX(most, n->versions[v].size);
	}
	if ((size < least || size > most) && getenv("BYRE_CRASH_VERBOSE"))
		for (size_t v = 0; v < n->n; v++)
			fprintf(stderr, "version %zu of %zu: seq %lu, size %lu%s\n", v, to,
				n->versions[v].seq, n->versions[v].size,
				n->versions[v].truncation ? ", truncation" : "");
	if (size < least || size > most)
		return wrong(
			win->w, "inode %lu: size %lu, not %lu to %lu", n->ino, size, least, most);
	ret = read_all(win, inode, size);
	if (ret)
		return wrong(win->w, "inode %lu: read: %s", n->ino, strerror(-ret));
	return check_bytes(win, n, from, to, size);
}

static bool check_attrs(
	struct window *win, uint32_t id, struct fsc_inode *inode, const struct fsc_attr *attr)
{
	struct node *n = &win->w->nodes[id];
	uint64_t acked = MAX(win->names_acked, file_acked(win, id));
	size_t from = version_at(n, acked), to = version_at(n, win->last), len = 0;
	uint32_t xattr = 0;
	bool mode_fits = false, xattr_fits = false;
	int ret = fsc_getxattr(&win->ctx, inode, XATTR_NAME, &xattr, sizeof(xattr), &len);

	if (ret && ret != -ENODATA)
		return wrong(win->w, "inode %lu: getxattr: %s", n->ino, strerror(-ret));
	for (size_t v = from; v <= to; v++) {
		mode_fits |= n->versions[v].mode == attr->mode || n->type == S_IFLNK;
		xattr_fits |= n->versions[v].xattr == (ret ? 0 : xattr);
	}
	if (!mode_fits)
		return wrong(win->w, "inode %lu: mode %o", n->ino, attr->mode);
	if (!xattr_fits)
		return wrong(win->w, "inode %lu: extended attribute", n->ino);
	if (n->type != S_IFDIR && attr->nlink != n->found)
		return wrong(
			win->w, "inode %lu: %u links, %u names", n->ino, attr->nlink, n->found);
	return true;
}

static bool check_node(struct window *win, struct fsc_volume *vol, uint32_t id)
{
	struct node *n = &win->w->nodes[id];
	struct fsc_inode *inode;
	struct fsc_attr attr;
	char target[64];
	size_t len;
	bool ok;
	int ret;

	if (!n->found) {
		/* It had a name all the time, so it must have one. */
		size_t to = version_at(n, win->last);
		size_t from = version_at(n, win->names_acked);

		for (size_t v = from; v <= to; v++)
			if (n->versions[v].nlink == 0 || n->versions[v].seq > win->names_acked)
				return true;
		return wrong(win->w, "inode %lu has no name any more", n->ino);
	}
	ret = fsc_inode_get(&win->ctx, vol, FSC_SUBVOL_TOP, n->ino, 0, &inode);
	if (ret)
		return wrong(win->w, "inode %lu: %s", n->ino, strerror(-ret));
	fsc_inode_attr(inode, &attr);
	ok = check_attrs(win, id, inode, &attr);
	if (ok && n->type == S_IFREG)
		ok = check_file(win, id, inode, attr.size_bytes);
	if (ok && n->type == S_IFLNK &&
		(fsc_readlink(&win->ctx, inode, target, sizeof(target), &len) || len != 14 ||
			memcmp(target, "where/it/leads", 14)))
		ok = wrong(win->w, "inode %lu: link target", n->ino);
	fsc_inode_put(inode);
	return ok;
}

bool crash_work_check(struct crash_work *w, struct fsc_thread *thread, struct fsc_volume *vol,
	size_t cut, size_t began)
{
	struct window win = {.w = w, .cut = cut, .ctx = {.thread = thread}};
	struct fsc_inode *dirs[CRASH_DIRS] = {NULL};
	bool ok = true;
	int ret;

	for (uint64_t s = 1; s <= w->seq; s++)
		if (w->begins[s] <= began)
			win.last = s;
	for (size_t i = 0; i < w->n_acks; i++)
		if (w->acks[i].count <= cut && w->acks[i].kind != ACK_INODE)
			win.names_acked = MAX(win.names_acked, w->acks[i].seq);
	for (uint32_t i = 0; i < w->n_nodes; i++)
		w->nodes[i].found = 0;
	ret = find_dirs(thread, vol, false, dirs);
	if (ret)
		ok = wrong(w, "directories: %s", strerror(-ret));
	for (unsigned i = 0; ok && i < CRASH_DIRS; i++)
		ok = check_dir(&win, i, dirs[i]);
	for (uint32_t i = 0; ok && i < w->n_nodes; i++)
		ok = check_node(&win, vol, i);
	put_dirs(dirs);
	return ok;
}

/* ------------------------------------------------------------------ images */

/* A command, with a PATH where btrfs-progs are. */
__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...)
{
	char *command, *whole;
	va_list ap;
	int status;

	va_start(ap, fmt);
	if (vasprintf(&command, fmt, ap) < 0)
		abort();
	va_end(ap);
	if (asprintf(&whole, "PATH=$PATH:/usr/sbin:/sbin; %s", command) < 0)
		abort();
	status = system(whole);
	free(whole);
	free(command);
	return status;
}

bool crash_btrfs_check(const char *path)
{
	return run("out=$(btrfs check --readonly --check-data-csum '%s' 2>&1) || { echo \"$out\" >&2; false; }",
		       path) == 0;
}

void *crash_image(const char *mkfs_options, size_t bytes, char **path)
{
	const char *dir = getenv("TMPDIR");
	void *map;
	int fd;

	if (asprintf(path, "%s/byre-crash.XXXXXX", dir && *dir ? dir : "/var/tmp") < 0)
		abort();
	fd = mkstemp(*path);
	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		perror(*path);
		exit(1);
	}
	if (run("mkfs.btrfs -q %s '%s' >/dev/null", mkfs_options ? mkfs_options : "", *path)) {
		fprintf(stderr, "mkfs.btrfs %s failed\n", mkfs_options ? mkfs_options : "");
		exit(1);
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return map;
}
