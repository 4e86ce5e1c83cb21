/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/crash_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/io/dev.h"

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

bool crash_wrong(struct crash_work *w, const char *fmt, ...)
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
size_t crash_name(unsigned i, char text[FSC_NAME_MAX + 1])
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
	ret = fsc_create(&ctx, w->dirs[dir], text, crash_name(name, text), &fn, &inode);
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
	/* A truncation that fails half-way leaves the rest. */
	w->nodes[node].tainted |= ret && cut;
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
	uint32_t node = pick_node(w, below(w, 4) ? S_IFREG : S_IFLNK);
	unsigned dir, name;
	char text[FSC_NAME_MAX + 1];
	int ret;

	if (node == NONE || !pick_name(w, &dir, &name, false))
		return 0;
	ret = fsc_link(&ctx, w->nodes[node].inode, w->dirs[dir], text, crash_name(name, text));
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
		ret = fsc_rmdir(&ctx, w->dirs[dir], text, crash_name(name, text));
	else
		ret = fsc_unlink(&ctx, w->dirs[dir], text, crash_name(name, text));
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
	ret = fsc_rename(&ctx, w->dirs[dir], from, crash_name(name, from), w->dirs[dir2], to,
		crash_name(name2, to));
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

/* One that has lost its last name and is still held: it may have data on its way. */
static uint32_t pick_unlinked(struct crash_work *w)
{
	for (unsigned i = 0; w->n_nodes && i < 20; i++) {
		uint32_t node = below(w, w->n_nodes);

		if (w->nodes[node].inode && !now(&w->nodes[node])->nlink)
			return node;
	}
	return NONE;
}

static int do_sync_inode(struct crash_work *w)
{
	struct waited_sync s = {.sync = {.thread = w->thread, .done = on_sync}};
	uint32_t node = below(w, 5) ? pick_node(w, S_IFREG) : pick_unlinked(w);
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

int crash_read_all(
	struct crash_work *w, struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t size)
{
	for (uint64_t off = 0; off < size;) {
		struct fsc_read rd = {.file_off = off, .len_bytes = MIN(size - off, 256u << 10)};
		int ret = fsc_read(ctx, inode, &rd);

		for (unsigned i = 0; !ret && i < rd.n_iov; i++) {
			memcpy(w->buf + off, rd.iov[i].iov_base, rd.iov[i].iov_len);
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

/* What nothing was lost of reads as it was written. */
static int do_read(struct crash_work *w)
{
	struct fsc_ctx ctx = ctx_of(w);
	uint32_t node = pick_node(w, S_IFREG);
	struct version *v;
	int ret;

	if (node == NONE || w->nodes[node].tainted)
		return 0;
	v = now(&w->nodes[node]);
	ret = crash_read_all(w, &ctx, w->nodes[node].inode, v->size);
	if (!ret && !w->may_fail && memcmp(w->buf, v->content, v->size))
		ret = -EILSEQ;
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
	{"read", do_read, 8},
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

	w->may_fail = may_fail;
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
			crash_wrong(w, "operation %lu, %s: %s", w->seq, operations[i].name,
				strerror(-ret));
			return -1;
		}
	}
	return failed;
}

/* ------------------------------------------------------------------ beginning and end */

/* What is in the first is compressed. */
static int make_dir(struct fsc_ctx *ctx, struct fsc_inode *root, unsigned i, struct fsc_inode **out)
{
	const struct fsc_new fn = {.mode = S_IFDIR | 0755};
	const char name[] = {'d', (char)('0' + i)};
	int ret = fsc_create(ctx, root, name, sizeof(name), &fn, out);

	if (!ret && i == 1)
		ret = fsc_setxattr(ctx, *out, "btrfs.compression", "zstd", 4, 0);
	return ret;
}

int crash_find_dirs(struct fsc_thread *thread, struct fsc_volume *vol, bool make,
	struct fsc_inode *dirs[CRASH_DIRS])
{
	struct fsc_ctx ctx = {.thread = thread};
	char name[] = "d0";
	int ret = fsc_inode_get(&ctx, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &dirs[0]);

	for (unsigned i = 1; !ret && i < CRASH_DIRS; i++) {
		name[1] = (char)('0' + i);
		ret = fsc_lookup(&ctx, dirs[0], name, 2, &dirs[i]);
		if (ret == -ENOENT && make)
			ret = make_dir(&ctx, dirs[0], i, &dirs[i]);
	}
	return ret;
}

void crash_put_dirs(struct fsc_inode *dirs[CRASH_DIRS])
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
	*error = crash_find_dirs(thread, vol, true, w->dirs);
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

int crash_work_attach(struct crash_work *w, struct fsc_volume *vol)
{
	struct fsc_ctx ctx = ctx_of(w);
	int ret = crash_find_dirs(w->thread, vol, false, w->dirs);

	w->vol = vol;
	for (uint32_t i = 0; !ret && i < w->n_nodes; i++)
		if (now(&w->nodes[i])->nlink)
			ret = fsc_inode_get(
				&ctx, vol, FSC_SUBVOL_TOP, w->nodes[i].ino, 0, &w->nodes[i].inode);
	return ret;
}

void crash_work_detach(struct crash_work *w)
{
	crash_put_dirs(w->dirs);
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
