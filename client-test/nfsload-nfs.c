/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The phases over NFSv3: raw RPCs through libnfs, one connection. */
#include "nfsload-conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One request in flight, and the little program (a chain of RPCs) it runs. */
struct slot {
	struct conn *c;
	int file;
	unsigned size;
	struct fh fh;
	uint64_t start, seed, off;
};

/* Starts the next unit of work in a slot; returns 0 when there is none left. */
typedef int (*start_fn)(struct slot *s);
static start_fn phase_start;
static int repeats_left; /* of the small files of this connection */

/* The slot finished a unit of work: take up the next one, or fall idle. */
static void slot_next(struct slot *s)
{
	s->start = now_ns();
	if (!phase_start(s))
		s->c->busy--;
}

static void unit_done(struct slot *s, uint64_t bytes)
{
	count_op(s->c->tally, s->start, bytes);
	slot_next(s);
}

static void unit_failed(struct slot *s, const char *what, int status, nfsstat3 code)
{
	if (status != RPC_STATUS_SUCCESS)
		die("%s: RPC failed", what);
	if (s->c->tally->errors++ == 0)
		fprintf(stderr, "nfsload: %s: %s\n", what, nfsstat3_to_str(code));
	slot_next(s);
}

/* -- small files -- */

/* Hands out this connection's files in order. */
static int next_small_file(struct conn *c)
{
	while (c->next_file >= c->end_file) {
		int dir = c->phase_dir < 0 ? c->id : c->phase_dir + opt.conns;

		if (dir >= opt.dirs && --repeats_left > 0)
			dir = c->id;
		if (dir >= opt.dirs)
			return -1;
		c->phase_dir = dir;
		c->next_file = dir * files_per_dir();
		c->end_file = c->next_file + files_per_dir();
		if (c->end_file > opt.files)
			c->end_file = opt.files;
		if (!c->dir[dir].len)
			die("no directory %d: run mkdirs first", dir);
	}
	return c->next_file++;
}

static struct fh *file_dir(struct slot *s)
{
	return &s->c->dir[s->file / files_per_dir()];
}

static void on_commit(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	COMMIT3res *r = data;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK) {
		unit_failed(s, "COMMIT", status, r ? r->status : 0);
		return;
	}
	unit_done(s, s->size);
}

/* Writes s->size bytes at off of what the file has to hold at data_off. */
static int send_write(struct slot *s, uint64_t off, uint64_t data_off, rpc_cb cb)
{
	const char *data = data_at(data_off);

	WRITE3args a = {
		.file = wire_fh(&s->fh),
		.offset = off,
		.count = s->size,
		.stable = opt.stable == SYNC_EACH ? FILE_SYNC : UNSTABLE,
		.data = {s->size, (char *)(uintptr_t)data},
	};

	return rpc_nfs3_write_async(s->c->rpc, cb, &a, s);
}

static void on_small_write(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	WRITE3res *r = data;

	if (status == RPC_STATUS_SUCCESS && r->status == NFS3ERR_NOSPC)
		s->c->full = 1;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK) {
		unit_failed(s, "WRITE", status, r ? r->status : 0);
		return;
	}
	if (r->WRITE3res_u.resok.count != s->size)
		die("short WRITE");
	if (opt.stable == COMMIT_EACH) {
		COMMIT3args a = {.file = wire_fh(&s->fh)};

		if (rpc_nfs3_commit_async(rpc, on_commit, &a, s))
			die("cannot queue COMMIT");
		return;
	}
	unit_done(s, s->size);
}

static void on_create(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	CREATE3res *r = data;

	(void)rpc;
	if (status == RPC_STATUS_SUCCESS && r->status == NFS3ERR_NOSPC)
		s->c->full = 1;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK) {
		unit_failed(s, "CREATE", status, r ? r->status : 0);
		return;
	}
	if (!r->CREATE3res_u.resok.obj.handle_follows)
		die("CREATE gave no file handle");
	keep_fh(&s->fh, &r->CREATE3res_u.resok.obj.post_op_fh3_u.handle);
	if (send_write(s, 0, (uint64_t)s->file * 4096, on_small_write))
		die("cannot queue WRITE");
}

static int send_create(struct slot *s, struct fh *dir, char *name)
{
	CREATE3args a = {.where = {wire_fh(dir), name}, .how = {.mode = UNCHECKED}};

	set_mode(&a.how.createhow3_u.obj_attributes, 0644);
	return rpc_nfs3_create_async(s->c->rpc, on_create, &a, s);
}

static int start_create(struct slot *s)
{
	char name[NAME_SIZE];

	if ((s->file = next_small_file(s->c)) < 0)
		return 0;
	s->size = small_size(s->file);
	file_name(name, s->file);
	if (send_create(s, file_dir(s), name))
		die("cannot queue CREATE");
	return 1;
}

static void on_small_read(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	READ3res *r = data;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK) {
		unit_failed(s, "READ", status, r ? r->status : 0);
		return;
	}
	if (r->READ3res_u.resok.count != s->size)
		die("short READ: %u of %u", r->READ3res_u.resok.count, s->size);
	check_data(r->READ3res_u.resok.data.data_val, (uint64_t)s->file * 4096, s->size);
	unit_done(s, s->size);
}

static void on_lookup_then_read(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	LOOKUP3res *r = data;
	READ3args a;

	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK) {
		unit_failed(s, "LOOKUP", status, r ? r->status : 0);
		return;
	}
	a.file = r->LOOKUP3res_u.resok.object;
	a.offset = 0;
	a.count = s->size;
	if (rpc_nfs3_read_async(rpc, on_small_read, &a, s))
		die("cannot queue READ");
}

static void on_lookup(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	LOOKUP3res *r = data;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK)
		unit_failed(s, "LOOKUP", status, r ? r->status : 0);
	else
		unit_done(s, 0);
}

static int start_lookup(struct slot *s, rpc_cb cb)
{
	char name[NAME_SIZE];
	LOOKUP3args a;

	if ((s->file = next_small_file(s->c)) < 0)
		return 0;
	s->size = small_size(s->file);
	file_name(name, s->file);
	a.what.dir = wire_fh(file_dir(s));
	a.what.name = name;
	if (rpc_nfs3_lookup_async(s->c->rpc, cb, &a, s))
		die("cannot queue LOOKUP");
	return 1;
}

static int start_stat(struct slot *s)
{
	return start_lookup(s, on_lookup);
}
static int start_read(struct slot *s)
{
	return start_lookup(s, on_lookup_then_read);
}

static void on_remove(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	REMOVE3res *r = data;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK)
		unit_failed(s, "REMOVE", status, r ? r->status : 0);
	else
		unit_done(s, 0);
}

static void send_remove(struct slot *s, struct fh *dir, char *name)
{
	REMOVE3args a = {.object = {wire_fh(dir), name}};

	if (rpc_nfs3_remove_async(s->c->rpc, on_remove, &a, s))
		die("cannot queue REMOVE");
}

static int start_rm(struct slot *s)
{
	char name[NAME_SIZE];

	if ((s->file = next_small_file(s->c)) < 0)
		return 0;
	file_name(name, s->file);
	send_remove(s, file_dir(s), name);
	return 1;
}

static void ls_once(struct conn *c)
{
	for (int d = c->id; d < opt.dirs; d += opt.conns) {
		uint64_t start = now_ns();

		if (!c->dir[d].len)
			die("no directory %d: run mkdirs first", d);
		list_dir(c, &c->dir[d]);
		count_op(c->tally, start, 0);
		c->tally->ops += (uint64_t)c->nnames - 1; /* ops: entries seen */
	}
}

static void phase_ls(struct conn *c)
{
	for (int i = 0; i < opt.repeat; i++)
		ls_once(c);
}

static void phase_mkdirs(struct conn *c)
{
	char name[NAME_SIZE];

	for (int d = c->id; d < opt.dirs; d += opt.conns) {
		uint64_t start = now_ns();

		dir_name(name, d);
		if (make_dir(c, name, &c->dir[d]))
			die("MKDIR %s failed", name);
		count_op(c->tally, start, 0);
	}
}

static void phase_rmdirs(struct conn *c)
{
	char name[NAME_SIZE];

	for (int d = c->id; d < opt.dirs; d += opt.conns) {
		uint64_t start = now_ns();

		dir_name(name, d);
		remove_dir(c, name);
		c->dir[d].len = 0;
		count_op(c->tally, start, 0);
	}
}

/* Fills every slot of the connection with work and runs until all are idle. */
static void run_slots(struct conn *c, start_fn fn)
{
	struct slot *slots = calloc(opt.depth, sizeof(*slots));

	phase_start = fn;
	c->phase_dir = -1;
	repeats_left = opt.repeat;
	c->next_file = c->end_file = 0;
	c->next_off = c->next_name = 0;
	c->deadline = now_ns() + opt.seconds * 1000000000ull;
	for (int i = 0; i < opt.depth; i++) {
		slots[i].c = c;
		slots[i].seed = mix(c->id * 1000003ull + i + now_ns());
		c->busy++;
		slot_next(&slots[i]);
	}
	while (c->busy)
		serve(c);
	free(slots);
}

/* -- fill to ENOSPC, and empty -- */

static int start_fill(struct slot *s)
{
	char name[32];

	if (s->c->full)
		return 0;
	s->file = s->c->next_file++;
	s->size = FILL_SIZE;
	snprintf(name, sizeof(name), "c%03d-%07d", s->c->id, s->file);
	if (send_create(s, &s->c->list_dir, name))
		die("cannot queue CREATE");
	return 1;
}

static void phase_fill(struct conn *c)
{
	char name[NAME_SIZE];

	for (int d = 0; d < FILL_DIRS; d++) {
		uint64_t start = now_ns(), before = c->tally->ops;
		int code;

		snprintf(name, sizeof(name), "fill%d", d);
		code = make_dir(c, name, &c->list_dir);
		c->full = 0;
		if (code == NFS3_OK)
			run_slots(c, start_fill);
		else if (code != NFS3ERR_NOSPC)
			die("MKDIR %s: %s", name, nfsstat3_to_str(code));
		c->tally->dir_ops[d] = c->tally->ops - before;
		c->tally->dir_ns[d] = now_ns() - start;
	}
}

static int start_empty(struct slot *s)
{
	struct conn *c = s->c;

	if (c->next_name >= c->nnames)
		return 0;
	send_remove(s, &c->list_dir, c->names[c->next_name++]);
	return 1;
}

static void phase_empty(struct conn *c)
{
	char name[NAME_SIZE];

	for (int d = c->id; d < FILL_DIRS; d += opt.conns) {
		uint64_t start = now_ns(), before = c->tally->ops;

		snprintf(name, sizeof(name), "fill%d", d);
		if (lookup(c, &c->root, name, &c->list_dir) != NFS3_OK)
			continue;
		list_dir(c, &c->list_dir);
		run_slots(c, start_empty);
		remove_dir(c, name);
		c->tally->dir_ops[d] = c->tally->ops - before;
		c->tally->dir_ns[d] = now_ns() - start;
	}
}

/* -- one big file per connection -- */

/* A read-only export must do for the phases that only read. */
static void open_big(struct conn *c, int write)
{
	char name[NAME_SIZE];
	struct wait w = {0};
	CREATE3args a = {.where = {wire_fh(&c->root), name}, .how = {.mode = UNCHECKED}};
	int code;

	big_name(name, c->id);
	if (!write) {
		code = lookup(c, &c->root, name, &c->big);
		if (code != NFS3_OK)
			die("LOOKUP %s: %s (run seqw first)", name, nfsstat3_to_str(code));
		return;
	}
	set_mode(&a.how.createhow3_u.obj_attributes, 0644);
	wait_for(c, &w, rpc_nfs3_create_async(c->rpc, on_create_wait, &a, &w), "CREATE");
	if (!w.has_fh)
		die("CREATE %s: %s", name, nfsstat3_to_str(w.code));
	c->big = w.fh;
}

static void on_big_write(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	WRITE3res *r = data;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK)
		unit_failed(s, "WRITE", status, r ? r->status : 0);
	else if (r->WRITE3res_u.resok.count != s->size)
		die("short WRITE: %u of %u", r->WRITE3res_u.resok.count, s->size);
	else
		unit_done(s, s->size);
}

static void on_big_read(struct rpc_context *rpc, int status, void *data, void *priv)
{
	struct slot *s = priv;
	READ3res *r = data;

	(void)rpc;
	if (status != RPC_STATUS_SUCCESS || r->status != NFS3_OK)
		unit_failed(s, "READ", status, r ? r->status : 0);
	else if (r->READ3res_u.resok.count != s->size)
		die("short READ: %u of %u", r->READ3res_u.resok.count, s->size);
	else {
		check_data(r->READ3res_u.resok.data.data_val, s->off, s->size);
		unit_done(s, s->size);
	}
}

static int next_seq(struct slot *s, uint64_t *off)
{
	if (s->c->next_off + opt.block > opt.size)
		return 0;
	*off = s->c->next_off;
	s->c->next_off += opt.block;
	return 1;
}

static int next_rand(struct slot *s, uint64_t *off)
{
	if (s->start >= s->c->deadline)
		return 0;
	s->seed = mix(s->seed);
	*off = s->seed % (opt.size / opt.block) * opt.block;
	return 1;
}

static int start_big(struct slot *s, int (*next)(struct slot *, uint64_t *), int write)
{
	uint64_t off;

	if (!next(s, &off))
		return 0;
	s->size = (unsigned)opt.block;
	s->off = off;
	s->fh = s->c->big;
	if (write) {
		if (send_write(s, off, off, on_big_write))
			die("cannot queue WRITE");
	} else {
		READ3args a = {.file = wire_fh(&s->fh), .offset = off, .count = s->size};

		if (rpc_nfs3_read_async(s->c->rpc, on_big_read, &a, s))
			die("cannot queue READ");
	}
	return 1;
}

static int start_seqw(struct slot *s)
{
	return start_big(s, next_seq, 1);
}
static int start_seqr(struct slot *s)
{
	return start_big(s, next_seq, 0);
}
static int start_randw(struct slot *s)
{
	return start_big(s, next_rand, 1);
}
static int start_randr(struct slot *s)
{
	return start_big(s, next_rand, 0);
}

static void on_null(struct rpc_context *rpc, int status, void *data, void *priv)
{
	(void)rpc;
	(void)data;
	if (status != RPC_STATUS_SUCCESS)
		die("NULL failed");
	unit_done(priv, 0);
}

static int start_null(struct slot *s)
{
	if (s->start >= s->c->deadline)
		return 0;
	if (rpc_nfs3_null_async(s->c->rpc, on_null, s))
		die("cannot queue NULL");
	return 1;
}

static void run_nfs_phase(struct conn *c, const char *phase)
{
	static const struct {
		const char *name;
		start_fn fn;
	} small[] =
		{
			{"create", start_create},
			{"stat", start_stat},
			{"read", start_read},
			{"rm", start_rm},
			{"null", start_null},
		},
	  big[] = {
		  {"seqw", start_seqw},
		  {"seqr", start_seqr},
		  {"randw", start_randw},
		  {"randr", start_randr},
	  };

	for (unsigned i = 0; i < sizeof(small) / sizeof(*small); i++)
		if (!strcmp(phase, small[i].name)) {
			run_slots(c, small[i].fn);
			return;
		}
	for (unsigned i = 0; i < sizeof(big) / sizeof(*big); i++)
		if (!strcmp(phase, big[i].name)) {
			int write = phase[strlen(phase) - 1] == 'w';

			open_big(c, write);
			run_slots(c, big[i].fn);
			if (write && opt.stable == COMMIT_EACH)
				commit(c, &c->big);
			return;
		}
	if (!strcmp(phase, "mkdirs"))
		phase_mkdirs(c);
	else if (!strcmp(phase, "rmdirs"))
		phase_rmdirs(c);
	else if (!strcmp(phase, "ls"))
		phase_ls(c);
	else if (!strcmp(phase, "fill"))
		phase_fill(c);
	else if (!strcmp(phase, "empty"))
		phase_empty(c);
	else
		die("unknown phase %s", phase);
}

/* The directories that exist; before a phase, for within one a wait would run
 * other slots' callbacks. */
static void find_dirs(struct conn *c)
{
	char name[NAME_SIZE];

	for (int d = c->id; d < opt.dirs; d += opt.conns) {
		if (c->dir[d].len)
			continue;
		dir_name(name, d);
		if (lookup(c, &c->root, name, &c->dir[d]) != NFS3_OK)
			return;
	}
}

void run_nfs(int id, struct tally *t, char **phases, void (*before)(void), void (*after)(void))
{
	struct conn c = {.id = id, .tally = t};

	c.dir = calloc((size_t)opt.dirs, sizeof(*c.dir));
	if (!c.dir)
		die("out of memory");
	mount_export(&c);
	for (; *phases; phases++) {
		find_dirs(&c);
		before();
		memset(t, 0, sizeof(*t));
		run_nfs_phase(&c, *phases);
		after();
	}
	rpc_destroy_context(c.rpc);
	while (c.nnames)
		free(c.names[--c.nnames]);
	free(c.names);
	free(c.dir);
}
