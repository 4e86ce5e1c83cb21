/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/crash_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"

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
	return crash_wrong(w,
		"name %u in directory %u: inode %lu, and that it never was from %lu to %lu", name,
		dir, ino, from, win->last);
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
		if (crash_name(i, text) == e->name_len && !memcmp(text, e->name, e->name_len)) {
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
		return crash_wrong(win->w, "listing of directory %u: %s", dir, strerror(-ret));
	if (l.unknown)
		return crash_wrong(win->w, "a name in directory %u that never was, or twice", dir);
	for (unsigned i = 0; i < CRASH_NAMES; i++)
		if (!check_name(win, dir, i, l.inos[i]))
			return false;
	return true;
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
			return crash_wrong(win->w,
				"inode %lu: byte 0x%02x at %lu, never there since %lu", n->ino,
				got[i], i, n->versions[from].seq);
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
		return crash_wrong(
			win->w, "inode %lu: size %lu, not %lu to %lu", n->ino, size, least, most);
	ret = crash_read_all(win->w, &win->ctx, inode, size);
	if (ret)
		return crash_wrong(win->w, "inode %lu: read: %s", n->ino, strerror(-ret));
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
		return crash_wrong(win->w, "inode %lu: getxattr: %s", n->ino, strerror(-ret));
	for (size_t v = from; v <= to; v++) {
		mode_fits |= n->versions[v].mode == attr->mode || n->type == S_IFLNK;
		xattr_fits |= n->versions[v].xattr == (ret ? 0 : xattr);
	}
	if (!mode_fits)
		return crash_wrong(win->w, "inode %lu: mode %o", n->ino, attr->mode);
	if (!xattr_fits)
		return crash_wrong(win->w, "inode %lu: extended attribute", n->ino);
	if (n->type != S_IFDIR && attr->nlink != n->found)
		return crash_wrong(
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
		return crash_wrong(win->w, "inode %lu has no name any more", n->ino);
	}
	ret = fsc_inode_get(&win->ctx, vol, FSC_SUBVOL_TOP, n->ino, 0, &inode);
	if (ret)
		return crash_wrong(win->w, "inode %lu: %s", n->ino, strerror(-ret));
	fsc_inode_attr(inode, &attr);
	ok = check_attrs(win, id, inode, &attr);
	if (ok && n->type == S_IFREG)
		ok = check_file(win, id, inode, attr.size_bytes);
	if (ok && n->type == S_IFLNK &&
		(fsc_readlink(&win->ctx, inode, target, sizeof(target), &len) || len != 14 ||
			memcmp(target, "where/it/leads", 14)))
		ok = crash_wrong(win->w, "inode %lu: link target", n->ino);
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
	ret = crash_find_dirs(thread, vol, false, dirs);
	if (ret)
		ok = crash_wrong(w, "directories: %s", strerror(-ret));
	for (unsigned i = 0; ok && i < CRASH_DIRS; i++)
		ok = check_dir(&win, i, dirs[i]);
	for (uint32_t i = 0; ok && i < w->n_nodes; i++)
		ok = check_node(&win, vol, i);
	crash_put_dirs(dirs);
	return ok;
}
