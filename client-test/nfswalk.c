/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfswalk - what manifest prints for a directory, for an NFSv3 export: walks it
 * with READDIRPLUS, LOOKUP of every directory (so that it crosses into nested
 * subvolumes as a client does), READLINK and READ, many requests in flight on one
 * connection. Replies of JUKEBOX are asked again.
 *
 * Work waits on a stack, the continuation of a directory below its entries, so
 * memory is bounded by the depth of the tree times a page.
 */
#include "walk-entry.h"

#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nfsc/libnfs.h>
/* The base header must come first. */
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw.h>

#define JUKEBOX_WAIT_MS 100
#define SILENCE_MS	60000

struct handle {
	uint32_t len;
	char data[NFS3_FHSIZE];
};

enum task_kind {
	LIST,
	LOOK,
	LINK,
	HASH
};

/* One thing that needs requests; owned by the stack, the delayed list or libnfs. */
struct task {
	struct task *next;
	enum task_kind kind;
	uint64_t not_before_ms; /* after a JUKEBOX */
	struct handle fh;	/* of the object; of its directory for LOOK */
	bool has_attr;
	fattr3 attr;
	/* LIST: where to go on. */
	uint64_t cookie;
	char verifier[NFS3_COOKIEVERFSIZE];
	/* HASH */
	struct walk_hash *hash;
	uint64_t file_off;
	size_t name_at; /* where the last component begins */
	char path[];	/* "" is the top */
};

static struct {
	const char *host;
	char *export;
	int port, mount_port, depth;
	bool look_all, bench;
} opt = {.port = 2049, .depth = 32};

static struct rpc_context *rpc;
static struct walk_out out;
static struct task *stack, *delayed;
static int in_flight;
static uint32_t read_bytes = 1 << 20, dir_bytes = 32768;
static unsigned long errors, requests, jukebox;
static uint64_t bytes_read;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfswalk: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(2);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void complain(const char *what, const struct task *t, nfsstat3 status)
{
	fprintf(stderr, "nfswalk: %s %s: %s\n", what, t->path[0] ? t->path : ".",
		nfsstat3_to_str((int)status));
	errors++;
}

/* -- tasks ------------------------------------------------------------------ */

static struct task *task_new(enum task_kind kind, const char *dir, const char *name)
{
	size_t n = strlen(dir);
	struct task *t = calloc(1, sizeof(*t) + n + strlen(name) + 2);

	if (!t)
		die("out of memory");
	t->kind = kind;
	t->name_at = n ? n + 1 : 0;
	sprintf(t->path, "%s%s%s", dir, n ? "/" : "", name);
	return t;
}

static void push(struct task *t)
{
	t->next = stack;
	stack = t;
}

static void task_done(struct task *t)
{
	in_flight--;
	free(t);
}

static void keep_fh(struct handle *to, const nfs_fh3 *from)
{
	if (from->data.data_len > NFS3_FHSIZE)
		die("file handle of %u bytes", from->data.data_len);
	to->len = from->data.data_len;
	memcpy(to->data, from->data.data_val, to->len);
}

static nfs_fh3 wire_fh(struct handle *fh)
{
	nfs_fh3 w;

	w.data.data_len = fh->len;
	w.data.data_val = fh->data;
	return w;
}

/* True when the reply says to come back later, and the task will. */
static bool again(struct task *t, int rpc_status, const void *result)
{
	nfsstat3 status;

	if (rpc_status != RPC_STATUS_SUCCESS)
		die("%s: %s", t->path, rpc_get_error(rpc));
	/* Every result begins with its status. */
	memcpy(&status, result, sizeof(status));
	if (status != NFS3ERR_JUKEBOX)
		return false;
	jukebox++;
	in_flight--;
	t->not_before_ms = now_ms() + JUKEBOX_WAIT_MS;
	t->next = delayed;
	delayed = t;
	return true;
}

/* -- entries ---------------------------------------------------------------- */

static void print_entry(const struct task *t, const char *target, const char *hash)
{
	static const char letters[] = "?-dbclsp";
	const fattr3 *a = &t->attr;
	struct walk_entry e = {
		.path = t->path[0] ? t->path : ".",
		.fsid = a->fsid,
		.fileid = a->fileid,
		.size = a->size,
		.type = a->type <= NF3FIFO ? letters[a->type] : '?',
		.mode = a->mode & 07777,
		.uid = a->uid,
		.gid = a->gid,
		.nlink = a->nlink,
		.rdev_major = a->rdev.specdata1,
		.rdev_minor = a->rdev.specdata2,
		.mtime_s = a->mtime.seconds,
		.mtime_ns = a->mtime.nseconds,
		.ctime_s = a->ctime.seconds,
		.ctime_ns = a->ctime.nseconds,
		.target = target,
		.hash = hash,
	};

	walk_out_entry(&out, &e);
}

/* Attributes and handle are known: print it, or do what that still needs. */
static void have_object(struct task *t)
{
	if (t->attr.type == NF3DIR) {
		print_entry(t, NULL, NULL);
		t->kind = LIST;
	} else if (t->attr.type == NF3LNK) {
		t->kind = LINK;
	} else if (t->attr.type == NF3REG && !out.options.no_hash) {
		t->kind = HASH;
		t->hash = walk_hash_new();
	} else {
		print_entry(t, NULL, NULL);
		free(t);
		return;
	}
	push(t);
}

static void on_list(struct rpc_context *r, int status, void *data, void *priv)
{
	READDIRPLUS3res *res = data;
	struct task *t = priv;
	uint64_t before = t->cookie;
	struct task *rest = NULL;
	READDIRPLUS3resok *ok;

	(void)r;
	if (again(t, status, data))
		return;
	if (res->status != NFS3_OK) {
		complain("READDIRPLUS", t, res->status);
		task_done(t);
		return;
	}
	ok = &res->READDIRPLUS3res_u.resok;
	for (entryplus3 *e = ok->reply.entries; e; e = e->nextentry)
		t->cookie = e->cookie;
	memcpy(t->verifier, ok->cookieverf, sizeof(t->verifier));
	if (!ok->reply.eof && t->cookie == before)
		die("READDIRPLUS %s: no entries, no eof", t->path);
	if (!ok->reply.eof) {
		rest = t;
		push(rest);
	}
	for (entryplus3 *e = ok->reply.entries; e; e = e->nextentry) {
		struct task *c;
		bool whole = e->name_attributes.attributes_follow && e->name_handle.handle_follows;

		if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
			continue;
		c = task_new(LOOK, t->path, e->name);
		if (whole) {
			c->has_attr = true;
			c->attr = e->name_attributes.post_op_attr_u.attributes;
		}
		if (whole && c->attr.type != NF3DIR && !opt.look_all) {
			keep_fh(&c->fh, &e->name_handle.post_op_fh3_u.handle);
			have_object(c);
		} else {
			c->fh = t->fh;
			push(c);
		}
	}
	in_flight--;
	if (!rest)
		free(t);
}

/* With --lookup-all: LOOKUP must say what READDIRPLUS said. */
static void compare_attr(const struct task *t, const fattr3 *now)
{
	const fattr3 *was = &t->attr;

	if (!t->has_attr || (now->type == NF3DIR && was->fsid != now->fsid))
		return;
	if (was->type == now->type && was->mode == now->mode && was->nlink == now->nlink &&
		was->uid == now->uid && was->gid == now->gid && was->size == now->size &&
		was->fileid == now->fileid && was->fsid == now->fsid &&
		was->mtime.seconds == now->mtime.seconds &&
		was->mtime.nseconds == now->mtime.nseconds)
		return;
	fprintf(stderr, "nfswalk: %s: READDIRPLUS and LOOKUP differ\n", t->path);
	errors++;
}

static void on_look(struct rpc_context *r, int status, void *data, void *priv)
{
	LOOKUP3res *res = data;
	struct task *t = priv;
	LOOKUP3resok *ok;

	(void)r;
	if (again(t, status, data))
		return;
	if (res->status != NFS3_OK) {
		complain("LOOKUP", t, res->status);
		task_done(t);
		return;
	}
	ok = &res->LOOKUP3res_u.resok;
	if (!ok->obj_attributes.attributes_follow)
		die("LOOKUP %s: no attributes", t->path);
	compare_attr(t, &ok->obj_attributes.post_op_attr_u.attributes);
	t->attr = ok->obj_attributes.post_op_attr_u.attributes;
	keep_fh(&t->fh, &ok->object);
	in_flight--;
	have_object(t);
}

static void on_link(struct rpc_context *r, int status, void *data, void *priv)
{
	READLINK3res *res = data;
	struct task *t = priv;

	(void)r;
	if (again(t, status, data))
		return;
	/* A link that can't be read is no entry, as a file that can't be read is none. */
	if (res->status != NFS3_OK)
		complain("READLINK", t, res->status);
	else
		print_entry(t, res->READLINK3res_u.resok.data, NULL);
	task_done(t);
}

static void hash_done(struct task *t, bool failed)
{
	bool ends = t->attr.size > out.options.hash_limit_bytes;
	char text[WALK_HASH_SIZE];

	walk_hash_end(t->hash, ends ? "ends:" : "", text);
	if (failed)
		strcpy(text, "!IO");
	print_entry(t, NULL, text);
	task_done(t);
}

static void on_read(struct rpc_context *r, int status, void *data, void *priv);

/* The next READ of a file; its hash is done when there is none. */
static void send_read(struct task *t)
{
	uint64_t size = t->attr.size, end = size;
	READ3args a = {.file = wire_fh(&t->fh)};

	if (size > out.options.hash_limit_bytes) {
		if (t->file_off == WALK_END_BYTES)
			t->file_off = size - WALK_END_BYTES;
		if (t->file_off < WALK_END_BYTES)
			end = WALK_END_BYTES;
	}
	if (t->file_off >= end) {
		hash_done(t, false);
		return;
	}
	a.offset = t->file_off;
	a.count = end - t->file_off < read_bytes ? (uint32_t)(end - t->file_off) : read_bytes;
	requests++;
	if (rpc_nfs3_read_async(rpc, on_read, &a, t))
		die("cannot queue READ");
}

static void on_read(struct rpc_context *r, int status, void *data, void *priv)
{
	READ3res *res = data;
	struct task *t = priv;
	READ3resok *ok;

	(void)r;
	if (again(t, status, data))
		return;
	if (res->status != NFS3_OK) {
		complain("READ", t, res->status);
		hash_done(t, true);
		return;
	}
	ok = &res->READ3res_u.resok;
	if (ok->count == 0) {
		fprintf(stderr, "nfswalk: %s: ends at %lu of %lu bytes\n", t->path,
			(unsigned long)t->file_off, (unsigned long)t->attr.size);
		errors++;
		hash_done(t, true);
		return;
	}
	walk_hash_add(t->hash, ok->data.data_val, ok->count);
	bytes_read += ok->count;
	t->file_off += ok->count;
	send_read(t);
}

static void start(struct task *t)
{
	int failed = 0;

	in_flight++;
	if (t->kind == HASH) {
		send_read(t);
		return;
	}
	requests++;
	if (t->kind == LIST) {
		READDIRPLUS3args a = {.dir = wire_fh(&t->fh),
			.cookie = t->cookie,
			.dircount = dir_bytes,
			.maxcount = dir_bytes};

		memcpy(a.cookieverf, t->verifier, sizeof(a.cookieverf));
		failed = rpc_nfs3_readdirplus_async(rpc, on_list, &a, t);
	} else if (t->kind == LOOK) {
		LOOKUP3args a = {.what = {wire_fh(&t->fh), t->path + t->name_at}};

		failed = rpc_nfs3_lookup_async(rpc, on_look, &a, t);
	} else {
		READLINK3args a = {.symlink = wire_fh(&t->fh)};

		failed = rpc_nfs3_readlink_async(rpc, on_link, &a, t);
	}
	if (failed)
		die("cannot queue a request");
}

/* -- the loop --------------------------------------------------------------- */

static void serve(struct rpc_context *r, int timeout_ms)
{
	struct pollfd p = {.fd = rpc_get_fd(r), .events = (short)rpc_which_events(r)};
	int n = poll(&p, 1, timeout_ms);

	if (n == 0 && timeout_ms == SILENCE_MS)
		die("no answer from the server in %d s", SILENCE_MS / 1000);
	if (n > 0 && rpc_service(r, p.revents) < 0)
		die("connection lost: %s", rpc_get_error(r));
}

/* Moves the delayed tasks whose time has come to the stack. */
static void wake_delayed(void)
{
	struct task **p = &delayed;
	uint64_t now = delayed ? now_ms() : 0;

	while (*p) {
		struct task *t = *p;

		if (t->not_before_ms > now) {
			p = &t->next;
			continue;
		}
		*p = t->next;
		push(t);
	}
}

static void run(void)
{
	while (stack || delayed || in_flight) {
		wake_delayed();
		while (stack && in_flight < opt.depth) {
			struct task *t = stack;

			stack = t->next;
			start(t);
		}
		if (in_flight || delayed)
			serve(rpc, delayed ? JUKEBOX_WAIT_MS : SILENCE_MS);
	}
}

/* -- set-up ----------------------------------------------------------------- */

struct wait {
	bool done, ok;
	int status;
	struct handle fh;
	fattr3 attr;
};

static void on_connect(struct rpc_context *r, int status, void *data, void *priv)
{
	struct wait *w = priv;

	(void)r;
	(void)data;
	w->done = true;
	w->ok = status == RPC_STATUS_SUCCESS;
}

static void on_mnt(struct rpc_context *r, int status, void *data, void *priv)
{
	struct wait *w = priv;
	mountres3 *res = data;

	on_connect(r, status, data, priv);
	if (!w->ok)
		return;
	w->status = (int)res->fhs_status;
	if (res->fhs_status == MNT3_OK) {
		nfs_fh3 fh;

		fh.data.data_len = res->mountres3_u.mountinfo.fhandle.fhandle3_len;
		fh.data.data_val = res->mountres3_u.mountinfo.fhandle.fhandle3_val;
		keep_fh(&w->fh, &fh);
	}
}

static void on_getattr(struct rpc_context *r, int status, void *data, void *priv)
{
	struct wait *w = priv;
	GETATTR3res *res = data;

	on_connect(r, status, data, priv);
	if (!w->ok)
		return;
	w->status = (int)res->status;
	if (res->status == NFS3_OK)
		w->attr = res->GETATTR3res_u.resok.obj_attributes;
}

static void on_fsinfo(struct rpc_context *r, int status, void *data, void *priv)
{
	FSINFO3res *res = data;

	on_connect(r, status, data, priv);
	if (status == RPC_STATUS_SUCCESS && res->status == NFS3_OK) {
		FSINFO3resok *ok = &res->FSINFO3res_u.resok;

		if (ok->rtmax < read_bytes)
			read_bytes = ok->rtmax;
		if (ok->dtpref > dir_bytes)
			dir_bytes = ok->dtpref < 65536 ? ok->dtpref : 65536;
	}
}

static void wait_for(struct rpc_context *r, struct wait *w, int failed, const char *what)
{
	while (!failed && !w->done)
		serve(r, SILENCE_MS);
	if (failed || !w->ok)
		die("%s: %s", what, rpc_get_error(r));
}

static struct rpc_context *dial(int port, int program)
{
	struct rpc_context *r = rpc_init_context();
	struct wait w = {0};

	if (!r)
		die("out of memory");
	wait_for(r, &w, rpc_connect_port_async(r, opt.host, port, program, 3, on_connect, &w),
		"connect");
	return r;
}

static void mount_export(void)
{
	struct rpc_context *m = dial(opt.mount_port, MOUNT_PROGRAM);
	struct wait mnt = {0}, attr = {0}, info = {0};
	struct task *top = task_new(LIST, "", "");
	GETATTR3args ga;
	FSINFO3args fa;

	wait_for(m, &mnt, rpc_mount3_mnt_async(m, on_mnt, opt.export, &mnt), "MNT");
	if (mnt.status != MNT3_OK)
		die("MNT %s: error %d", opt.export, mnt.status);
	rpc_destroy_context(m);
	rpc = dial(opt.port, NFS_PROGRAM);
	top->fh = mnt.fh;
	fa.fsroot = wire_fh(&top->fh);
	wait_for(rpc, &info, rpc_nfs3_fsinfo_async(rpc, on_fsinfo, &fa, &info), "FSINFO");
	ga.object = wire_fh(&top->fh);
	wait_for(rpc, &attr, rpc_nfs3_getattr_async(rpc, on_getattr, &ga, &attr), "GETATTR");
	if (attr.status != NFS3_OK)
		die("GETATTR: %s", nfsstat3_to_str(attr.status));
	top->attr = attr.attr;
	have_object(top);
}

static void parse_url(char *url)
{
	char *slash, *colon, *query;

	if (strncmp(url, "nfs://", 6) != 0)
		die("%s: not nfs://HOST[:PORT]/EXPORT", url);
	url = strdup(url + 6);
	if (!url || !(slash = strchr(url, '/')))
		die("no export in the URL");
	if ((query = strstr(slash, "?mountport=")) != NULL) {
		*query = '\0';
		opt.mount_port = atoi(query + 11);
	}
	opt.export = strdup(slash);
	*slash = '\0';
	if ((colon = strchr(url, ':')) != NULL) {
		*colon = '\0';
		opt.port = atoi(colon + 1);
	}
	opt.host = url;
	if (!opt.mount_port)
		opt.mount_port = opt.port;
}

static const char usage[] =
	"usage: nfswalk [options] nfs://HOST[:PORT]/EXPORT[?mountport=PORT]\n"
	"  --no-hash        leave out the SHA-256 of each file\n"
	"  --ctime          with the change time\n"
	"  --hash-limit N   larger files: hash of their two ends only (64 GiB)\n"
	"  --lookup-all     LOOKUP of every name, and compare with READDIRPLUS\n"
	"  --depth N        requests in flight (32)\n"
	"  --bench          figures on standard error at the end\n";

static void parse_options(int argc, char **argv, struct walk_options *wo)
{
	static const struct option options[] = {
		{"no-hash", no_argument, NULL, 'n'},
		{"ctime", no_argument, NULL, 'c'},
		{"hash-limit", required_argument, NULL, 'l'},
		{"lookup-all", no_argument, NULL, 'a'},
		{"depth", required_argument, NULL, 'd'},
		{"bench", no_argument, NULL, 'b'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (o) {
		case 'a':
			opt.look_all = true;
			break;
		case 'd':
			opt.depth = atoi(optarg);
			break;
		case 'b':
			opt.bench = true;
			break;
		default:
			if (walk_option(wo, o, optarg))
				break;
			fputs(usage, o == 'h' ? stdout : stderr);
			exit(o == 'h' ? 0 : 2);
		}
	if (argc - optind != 1 || opt.depth < 1) {
		fputs(usage, stderr);
		exit(2);
	}
	parse_url(argv[optind]);
}

int main(int argc, char **argv)
{
	struct walk_options wo = {.hash_limit_bytes = WALK_HASH_LIMIT};
	uint64_t began;
	double seconds;

	parse_options(argc, argv, &wo);
	walk_out_begin(&out, &wo);
	began = now_ms();
	mount_export();
	run();
	seconds = (double)(now_ms() - began + 1) / 1e3;
	if (opt.bench)
		fprintf(stderr,
			"entries=%lu seconds=%.3f entries_s=%.0f requests=%lu "
			"MiB=%.1f MiB_s=%.1f jukebox=%lu errors=%lu\n",
			(unsigned long)out.entries, seconds, (double)out.entries / seconds,
			requests, (double)bytes_read / 1048576,
			(double)bytes_read / 1048576 / seconds, jukebox, errors);
	rpc_destroy_context(rpc);
	if (!walk_out_end(&out))
		errors++;
	return errors ? 1 : 0;
}
