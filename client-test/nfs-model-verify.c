/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log of a run, and what a local directory must look like after a run that
 * ended in the server's death:
 *
 *   - a name, an owner, a mode, a size by SETATTR: as the last answer said;
 *   - bytes behind COMMIT or a stable WRITE: there;
 *   - bytes of other WRITEs: there, or what was before;
 *   - operations that were never answered: done, or not at all.
 */
#include "nfs-model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the log */

static void escape(const char *s, char *to)
{
	if (!*s)
		*to++ = '-';
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c <= ' ' || c >= 127 || c == '%' || c == '-')
			to += sprintf(to, "%%%02x", c);
		else
			*to++ = (char)c;
	}
	*to = '\0';
}

static bool unescape(const char *s, char *to, size_t room)
{
	size_t n = 0;

	if (!strcmp(s, "-")) {
		*to = '\0';
		return true;
	}
	for (; *s && n + 1 < room; n++) {
		unsigned c = (unsigned char)*s++;

		if (c == '%' && sscanf(s, "%2x", &c) == 1)
			s += 2;
		to[n] = (char)c;
	}
	to[n] = '\0';
	return !*s;
}

static void log_line(int fd, const char *line, size_t bytes)
{
	if (write(fd, line, bytes) != (ssize_t)bytes) {
		fprintf(stderr, "nfs-model: log: %s\n", strerror(errno));
		exit(2);
	}
}

#define LINE_BYTES (8u * 1024)

void log_begin_op(int fd, const struct op *op)
{
	char line[LINE_BYTES], name[3 * MODEL_NAME_MAX + 2], name2[3 * MODEL_NAME_MAX + 2],
		target[3 * MODEL_TARGET_MAX + 2];
	int n;

	if (fd < 0)
		return;
	escape(op->name, name);
	escape(op->name2, name2);
	escape(op->target, target);
	n = snprintf(line, sizeof(line),
		"B %lu %u %u %u %u %s %u %s %u %u %u %u %u %u %u %u %lu %lu %u %u %u %s\n", op->seq,
		op->client, (unsigned)op->kind, op->node, op->dir, name, op->dir2, name2, op->set,
		op->mode, op->uid, op->gid, op->rdev_major, op->rdev_minor, op->how, op->type,
		op->off, op->data, op->len, op->mtime.s, op->mtime.ns, target);
	log_line(fd, line, (size_t)n);
}

void log_end_op(int fd, const struct op *op, const struct result *res)
{
	const struct attrs *a = &res->attr;
	char line[LINE_BYTES];
	int n;

	if (fd < 0)
		return;
	n = snprintf(line, sizeof(line),
		"A %lu %u %u %u %u %u %u %u %u %u %u %u %lu %lu %lu %u %u %u %u\n", op->seq,
		res->status, res->count, res->committed, res->has_attr, a->type, a->mode, a->nlink,
		a->uid, a->gid, a->rdev_major, a->rdev_minor, a->size, a->fileid, a->fsid,
		a->mtime.s, a->mtime.ns, a->ctime.s, a->ctime.ns);
	log_line(fd, line, (size_t)n);
}

static bool parse_begin(const char *line, struct op *op)
{
	char name[3 * MODEL_NAME_MAX + 2], name2[3 * MODEL_NAME_MAX + 2],
		target[3 * MODEL_TARGET_MAX + 2];
	unsigned kind;

	memset(op, 0, sizeof(*op));
	if (sscanf(line,
		    "B %lu %u %u %u %u %766s %u %766s %u %u %u %u %u %u %u %u %lu %lu %u %u %u "
		    "%3070s",
		    &op->seq, &op->client, &kind, &op->node, &op->dir, name, &op->dir2, name2,
		    &op->set, &op->mode, &op->uid, &op->gid, &op->rdev_major, &op->rdev_minor,
		    &op->how, &op->type, &op->off, &op->data, &op->len, &op->mtime.s, &op->mtime.ns,
		    target) != 22)
		return false;
	op->kind = (enum op_kind)kind;
	return kind < OP_KINDS && unescape(name, op->name, sizeof(op->name)) &&
		unescape(name2, op->name2, sizeof(op->name2)) &&
		unescape(target, op->target, sizeof(op->target));
}

static bool parse_end(const char *line, uint64_t *seq, struct result *res)
{
	struct attrs *a = &res->attr;
	unsigned has_attr;

	memset(res, 0, sizeof(*res));
	if (sscanf(line, "A %lu %u %u %u %u %u %u %u %u %u %u %u %lu %lu %lu %u %u %u %u", seq,
		    &res->status, &res->count, &res->committed, &has_attr, &a->type, &a->mode,
		    &a->nlink, &a->uid, &a->gid, &a->rdev_major, &a->rdev_minor, &a->size,
		    &a->fileid, &a->fsid, &a->mtime.s, &a->mtime.ns, &a->ctime.s,
		    &a->ctime.ns) != 19)
		return false;
	res->has_attr = has_attr;
	return true;
}

/* ------------------------------------------------------------------ replay */

#define MAX_CLIENTS AREAS

static struct op pending[MAX_CLIENTS];
static bool is_pending[MAX_CLIENTS];
static unsigned long problems, n_ops, n_answered;

__attribute__((format(printf, 1, 2))) static void problem(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfs-model: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	problems++;
}

static bool creates(const struct op *op)
{
	return op->kind <= OP_MKNOD;
}

static bool replay_begin(const char *line)
{
	struct op op;

	if (!parse_begin(line, &op) || op.client >= MAX_CLIENTS || is_pending[op.client])
		return false;
	n_ops++;
	if (creates(&op))
		while (tree.n_nodes <= op.node)
			node_new();
	op_predict(&op);
	pending[op.client] = op;
	is_pending[op.client] = true;
	return true;
}

static bool replay_end(const char *line)
{
	struct result res;
	const char *wrong;
	uint64_t seq;
	unsigned c = 0;

	if (!parse_end(line, &seq, &res))
		return false;
	while (c < MAX_CLIENTS && !(is_pending[c] && pending[c].seq == seq))
		c++;
	if (c == MAX_CLIENTS)
		return false;
	n_answered++;
	is_pending[c] = false;
	wrong = op_apply(&pending[c], &res);
	if (wrong)
		problem("log: op %lu: %s", seq, wrong);
	return true;
}

static bool replay(const char *path)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	unsigned long at = 0;
	bool ok = true;

	if (!f) {
		problem("%s: %s", path, strerror(errno));
		return false;
	}
	while (ok && getline(&line, &room, f) > 0) {
		at++;
		ok = line[0] == 'B'	 ? replay_begin(line)
			: line[0] == 'A' ? replay_end(line)
					 : line[0] == '#';
	}
	if (!ok)
		problem("%s: line %lu is not understood", path, at);
	free(line);
	fclose(f);
	return ok;
}

/* ------------------------------------------------------------------ what was in flight */

static int top_fd;

/* The path of a directory; the caller frees it. */
static char *dir_path(uint32_t dir)
{
	struct node *parent;
	char *above, *path;

	if (dir == 0)
		return strdup(".");
	above = dir_path(node_at(dir)->parent);
	parent = node_at(node_at(dir)->parent);
	for (size_t i = 0; i < parent->n_entries; i++)
		if (!parent->entries[i].foreign && parent->entries[i].node == dir) {
			if (asprintf(&path, "%s/%s", above, parent->entries[i].name) < 0)
				abort();
			free(above);
			return path;
		}
	abort();
}

/* How deep nothing of names limits, so through directories one by one. */
static int dir_open(uint32_t dir)
{
	char *path = dir_path(dir);
	int fd = openat(top_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

	if (fd < 0)
		problem("%s: %s", path, strerror(errno));
	free(path);
	return fd;
}

static bool stat_name(uint32_t dir, const char *name, struct stat *st)
{
	int fd = dir_open(dir);
	bool there;

	if (fd < 0)
		return false;
	there = fstatat(fd, name, st, AT_SYMLINK_NOFOLLOW) == 0;
	close(fd);
	return there;
}

static uint32_t type_of(mode_t mode)
{
	return S_ISREG(mode)	 ? TYPE_FILE
		: S_ISDIR(mode)	 ? TYPE_DIR
		: S_ISLNK(mode)	 ? TYPE_LINK
		: S_ISBLK(mode)	 ? TYPE_BLK
		: S_ISCHR(mode)	 ? TYPE_CHR
		: S_ISSOCK(mode) ? TYPE_SOCK
				 : TYPE_FIFO;
}

static void attrs_of(const struct stat *st, const struct attrs *like, struct attrs *a)
{
	*a = (struct attrs){.type = type_of(st->st_mode),
		.mode = st->st_mode & 07777,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.rdev_major = major(st->st_rdev),
		.rdev_minor = minor(st->st_rdev),
		.size = (uint64_t)st->st_size,
		.fileid = st->st_ino,
		.fsid = like->fsid, /* a mount has another */
		.mtime = {(uint32_t)st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec},
		.ctime = {(uint32_t)st->st_ctim.tv_sec, (uint32_t)st->st_ctim.tv_nsec}};
}

/* CREATE may have been asked for a size. */
static void set_size_of_new(uint32_t id, const struct attrs *a)
{
	node_at(id)->attr.size = a->size;
	node_at(id)->stable_size = a->size;
}

static void mark_unsure(uint32_t id)
{
	if (id == NO_NODE)
		return;
	node_at(id)->unsure = true;
	node_at(id)->mtime_unsure = true;
}

/* Looks whether it took place, and if so, takes it for answered. */
static void settle(struct op *op)
{
	struct result res = {.status = ST_OK, .has_attr = true, .count = op->len};
	struct stat st;
	bool there;

	op_predict(op);
	if (op->expect != ST_OK)
		return;
	mark_unsure(op->hit);
	switch (op->kind) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_SYMLINK:
	case OP_MKNOD:
		if (op->hit != NO_NODE || !stat_name(op->dir, op->name, &st))
			return;
		attrs_of(&st, &node_at(op->dir)->attr, &res.attr);
		op->set = 0;
		op_apply(op, &res);
		set_size_of_new(op->node, &res.attr);
		mark_unsure(op->node);
		return;
	case OP_LINK:
		mark_unsure(op->node);
		there = stat_name(op->dir, op->name, &st);
		if (there && st.st_ino != node_at(op->node)->attr.fileid)
			problem("%s: another file than the one that was being linked", op->name);
		if (there)
			op_apply(op, &res);
		return;
	case OP_UNLINK:
	case OP_RMDIR:
		if (!stat_name(op->dir, op->name, &st))
			op_apply(op, &res);
		return;
	case OP_RENAME:
		mark_unsure(op->replaced);
		if (stat_name(op->dir2, op->name2, &st) &&
			st.st_ino == node_at(op->hit)->attr.fileid)
			op_apply(op, &res);
		return;
	case OP_WRITE:
		res.has_attr = false;
		res.committed = HOW_UNSTABLE; /* any part of it */
		op_apply(op, &res);
		mark_unsure(op->node);
		return;
	default:
		mark_unsure(op->node);
		return;
	}
}

static unsigned depth_of_op(const struct op *op)
{
	return op->kind == OP_RENAME || op->name[0] ? depth_of(op->dir) : 0;
}

/* From the top down, for a directory on the way may be what was being renamed. */
static void settle_all(void)
{
	for (unsigned depth = 0; depth < 1000; depth++)
		for (unsigned c = 0; c < MAX_CLIENTS; c++)
			if (is_pending[c] && depth_of_op(&pending[c]) == depth) {
				is_pending[c] = false;
				settle(&pending[c]);
			}
}

/* ------------------------------------------------------------------ comparison */

struct path {
	const struct path *above;
	const char *name;
};

static const char *path_text(const struct path *p)
{
	static char text[4096];
	size_t at = sizeof(text) - 1;

	text[at] = '\0';
	for (; p && p->name; p = p->above) {
		size_t n = strlen(p->name);

		if (at < n + 1)
			break;
		at -= n;
		memcpy(text + at, p->name, n);
		text[--at] = '/';
	}
	return text + at;
}

/* Byte i at file offset off: stable, or of one of the writes that may be lost. */
static bool byte_fits(const struct node *n, uint64_t off, uint8_t got)
{
	for (size_t i = 0; i < n->n_loose; i++) {
		const struct loose_write *w = &n->loose[i];
		uint8_t byte;

		if (off < w->off || off - w->off >= w->len)
			continue;
		data_fill(w->data, w->skip + (off - w->off), &byte, 1);
		if (byte == got)
			return true;
	}
	return false;
}

static void compare_piece(const struct node *n, uint64_t off, const uint8_t *got, size_t len,
	const struct path *p, unsigned *wrong)
{
	static uint8_t want[CHUNK_BYTES];

	content_read(&n->stable, off, want, len);
	if (!memcmp(want, got, len))
		return;
	for (size_t i = 0; i < len && *wrong < 1; i++)
		if (got[i] != want[i] && !byte_fits(n, off + i, got[i])) {
			problem("%s: byte 0x%02x instead of 0x%02x at %lu (%zu loose writes)",
				path_text(p), got[i], want[i], off + i, n->n_loose);
			++*wrong;
		}
}

static bool size_fits(const struct node *n, uint64_t size)
{
	if (size == n->stable_size)
		return true;
	for (size_t i = 0; i < n->n_loose; i++)
		if (n->loose[i].len && size == n->loose[i].off + n->loose[i].len &&
			size > n->stable_size)
			return true;
	return false;
}

static void compare_file(const struct node *n, int dir, const struct path *p, uint64_t size)
{
	static uint8_t buf[CHUNK_BYTES];
	int fd = openat(dir, p->name, O_RDONLY | O_NOFOLLOW);
	unsigned wrong = 0;

	if (!n->unsure && !size_fits(n, size))
		problem("%s: size %lu instead of %lu", path_text(p), size, n->stable_size);
	if (fd < 0)
		problem("%s: %s", path_text(p), strerror(errno));
	for (uint64_t off = 0; fd >= 0 && off < size && !wrong;) {
		ssize_t got = pread(fd, buf, sizeof(buf), (off_t)off);

		if (got <= 0) {
			problem("%s: read at %lu: %s", path_text(p), off,
				got ? strerror(errno) : "end of the file");
			break;
		}
		compare_piece(n, off, buf, (size_t)got, p, &wrong);
		off += (uint64_t)got;
	}
	if (fd >= 0)
		close(fd);
}

static void compare_target(const struct node *n, int dir, const struct path *p)
{
	char target[MODEL_TARGET_MAX + 2];
	ssize_t len = readlinkat(dir, p->name, target, sizeof(target));

	if (len < 0 || (size_t)len != strlen(n->target) || memcmp(target, n->target, (size_t)len))
		problem("%s: another link target", path_text(p));
}

static void compare_node(struct node *n, int dir, const struct path *p, const struct stat *st)
{
	struct attrs got;
	const char *differ;

	attrs_of(st, &n->attr, &got);
	if (n->unsure && got.type != n->attr.type)
		problem("%s: another type", path_text(p));
	if (n->attr.type == TYPE_FILE) /* compare_file() knows what it may be */
		got.size = n->attr.size;
	differ = n->unsure ? NULL : attrs_differ(n, &got, !n->dirty && !n->n_loose);
	if (differ)
		problem("%s: %s", path_text(p), differ);
	if (got.fileid != n->attr.fileid)
		problem("%s: inode %lu instead of %lu", path_text(p), got.fileid, n->attr.fileid);
	if (n->seen)
		return;
	n->seen = true;
	if (n->attr.type == TYPE_FILE)
		compare_file(n, dir, p, (uint64_t)st->st_size);
	if (n->attr.type == TYPE_LINK && n->target)
		compare_target(n, dir, p);
}

static void compare_dir(uint32_t id, int fd, const struct path *p);

static void compare_entry(const struct dirent_model *e, int dir, const struct path *p)
{
	struct stat st;
	int fd;

	if (fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW)) {
		problem("%s: %s", path_text(p), strerror(errno));
		return;
	}
	compare_node(node_at(e->node), dir, p, &st);
	if (!S_ISDIR(st.st_mode) || node_at(e->node)->attr.type != TYPE_DIR)
		return;
	fd = openat(dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (fd < 0)
		problem("%s: %s", path_text(p), strerror(errno));
	else
		compare_dir(e->node, fd, p);
}

/* Takes over fd. */
static void compare_dir(uint32_t id, int fd, const struct path *p)
{
	struct node *n = node_at(id);
	DIR *d = fdopendir(fd);
	struct dirent *e;

	if (!d)
		abort();
	while ((e = readdir(d))) {
		struct path here = {p, e->d_name};

		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !entry_find(n, e->d_name))
			problem("%s: it should not be there", path_text(&here));
	}
	for (size_t i = 0; i < n->n_entries; i++) {
		struct path here = {p, n->entries[i].name};

		if (!n->entries[i].foreign)
			compare_entry(&n->entries[i], fd, &here);
	}
	closedir(d);
}

int verify_main(const char *log_path, const char *dir)
{
	unsigned in_flight = 0;
	uint32_t live = 0;

	tree_init();
	tree.keep_stable = true;
	if (!replay(log_path))
		return 2;
	for (unsigned c = 0; c < MAX_CLIENTS; c++)
		in_flight += is_pending[c];
	top_fd = open(dir, O_RDONLY | O_DIRECTORY);
	if (top_fd < 0) {
		problem("%s: %s", dir, strerror(errno));
		return 2;
	}
	settle_all();
	compare_dir(0, dup(top_fd), NULL);
	for (uint32_t i = 0; i < tree.n_nodes; i++)
		live += node_at(i)->live;
	printf("%lu operations, %lu answered, %u in flight, %u objects: %lu problems\n", n_ops,
		n_answered, in_flight, live, problems);
	close(top_fd);
	if (n_answered == 0)
		problem("the log has no answered operation");
	return problems != 0;
}
