/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a client of nfs-model does next, at random. */
#include "nfs-model-run.h"

#include <stdio.h>
#include <string.h>

#define LARGE_OFFSET (5ull << 30)

/* ------------------------------------------------------------------ chance */

uint64_t rnd(struct client *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random;
}

uint64_t below(struct client *c, uint64_t n)
{
	return n ? (rnd(c) >> 11) % n : 0;
}

bool chance(struct client *c, unsigned percent)
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
			op->data ^= run.nonce;
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

bool choose_op(struct client *c, struct op *op)
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

bool touches_foreign(const struct op *op)
{
	struct dirent_model *e = op->name[0] ? entry_find(node_at(op->dir), op->name) : NULL;
	struct dirent_model *e2 = op->name2[0] ? entry_find(node_at(op->dir2), op->name2) : NULL;

	return (e && e->foreign) || (e2 && e2->foreign);
}

bool fits_others(const struct op *op)
{
	for (unsigned i = 0; i < opt.clients; i++)
		if (run.clients[i].busy && op_conflict(op, &run.clients[i].op))
			return false;
	return true;
}
