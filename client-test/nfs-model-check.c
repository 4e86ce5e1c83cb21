/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What nfs-model does after a run: the whole tree against the model, and the manifest. */
#include "nfs-model-run.h"
#include "walk-entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the full check */

static void check_content(struct client *c, uint32_t id, const char *path)
{
	struct node *n = node_at(id);
	struct op_handles fh = {.node = n->fh};

	for (uint64_t off = 0; off < n->attr.size && !run.stop;) {
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

void check_dir(struct client *c, uint32_t dir, const char *path)
{
	const char *wrong;
	uint32_t status;

	if (!list_dir(c, dir, &wrong, &status))
		wrong = "connection closed";
	else if (!wrong && status != ST_OK)
		wrong = status_text(status);
	if (wrong)
		fail("listing of %s: %s", path, wrong);
	for (size_t i = 0; i < node_at(dir)->n_entries && !run.stop; i++) {
		struct dirent_model *e = &node_at(dir)->entries[i];
		char *below_it;

		if (e->foreign)
			continue;
		if (asprintf(&below_it, "%s/%s", path, e->name) < 0)
			abort();
		check_entry(c, dir, e, below_it);
		if (!run.stop && node_at(e->node)->attr.type == TYPE_DIR)
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
void write_manifest(const char *file)
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
