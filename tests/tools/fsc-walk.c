/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsc-walk - one line for everything in a volume, read by libfscore without a
 * server, in the format of client-test/manifest. What can't be read is a line
 * `error PATH ERRNO` instead. The volume is not locked, so that a test may look at
 * one that is in use.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/util.h"
#include "client-test/walk-entry.h"
#include "fscore/fscore.h"

#define READ_BYTES     (1u << 20)
#define BATCH	       512u
#define HASH_LIMIT     (1ull << 30)
#define MAX_PATH_BYTES (1u << 20)

static struct walk_out out;
static struct fsc_thread *thread;
static struct fsc_volume *volume;
static unsigned long errors;
static bool try_first, with_xattrs;
static bool read_ended;

/* The path below the top, which grows and shrinks with the walk. */
static char path[MAX_PATH_BYTES];
static size_t path_bytes;

/* Directories that have been listed: a damaged volume may have loops. */
static struct {
	uint64_t (*ids)[2];
	size_t n, room;
} visited;

/* ------------------------------------------------------------------ running */

/*
 * Runs a call as the server does: without waiting, and if that can't be, again
 * with it. call is an expression that uses ctx.
 */
#define RUN(call)                                        \
	({                                               \
		struct fsc_ctx ctx = {.thread = thread}; \
		int ret_ = -EAGAIN;                      \
		if (try_first) {                         \
			ctx.flags = FSC_NOWAIT;          \
			might_wait_set_loop(true);       \
			ret_ = (call);                   \
			might_wait_set_loop(false);      \
		}                                        \
		if (ret_ == -EAGAIN) {                   \
			ctx.flags = 0;                   \
			ret_ = (call);                   \
		}                                        \
		ret_;                                    \
	})

static void complain(int error)
{
	static char escaped[4 * MAX_PATH_BYTES + 1];
	size_t n = 0;

	for (size_t i = 0; i < path_bytes; i++) {
		unsigned char c = (unsigned char)path[i];

		if (c <= ' ' || c >= 127 || c == '\\')
			n += (size_t)sprintf(escaped + n, "\\x%02x", c);
		else
			escaped[n++] = (char)c;
	}
	escaped[n] = '\0';
	printf("error %s %d\n", n ? escaped : ".", -error);
	errors++;
}

/* True: it had not been listed before. */
static bool visit(const struct fsc_attr *attr)
{
	size_t mask, at;

	if (visited.n * 2 >= visited.room) {
		size_t room = MAX(1024u, visited.room * 2);
		uint64_t(*old)[2] = visited.ids;
		size_t old_room = visited.room;

		visited.ids = calloc(room, sizeof(*visited.ids));
		if (!visited.ids)
			abort();
		visited.room = room;
		visited.n = 0;
		for (size_t i = 0; i < old_room; i++)
			if (old[i][0])
				visit(&(struct fsc_attr){.subvol = old[i][0], .ino = old[i][1]});
		free(old);
	}
	mask = visited.room - 1;
	at = hash_mix64(attr->ino + hash_mix64(attr->subvol)) & mask;
	for (; visited.ids[at][0]; at = (at + 1) & mask)
		if (visited.ids[at][0] == attr->subvol && visited.ids[at][1] == attr->ino)
			return false;
	visited.ids[at][0] = attr->subvol;
	visited.ids[at][1] = attr->ino;
	visited.n++;
	return true;
}

/* ------------------------------------------------------------------ reading */

static void on_read(struct fsc_read *rd)
{
	(void)rd;
	read_ended = true;
}

static int read_once(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_read *rd)
{
	int ret;

	read_ended = false;
	ret = fsc_read(ctx, inode, rd);
	if (ret != -EINPROGRESS)
		return ret;
	might_wait_set_loop(false);
	while (!read_ended)
		fsc_thread_wait(thread);
	if (rd->status)
		fsc_read_release(rd);
	return rd->status;
}

static int hash_range(struct walk_hash *h, struct fsc_inode *inode, uint64_t from, uint64_t to)
{
	while (from < to) {
		struct fsc_read rd = {
			.file_off = from, .len_bytes = MIN(to - from, READ_BYTES), .done = on_read};
		int ret = RUN(read_once(&ctx, inode, &rd));

		if (ret) {
			fsc_read_release(&rd);
			return ret;
		}
		for (unsigned i = 0; i < rd.n_iov; i++)
			walk_hash_add(h, rd.iov[i].iov_base, rd.iov[i].iov_len);
		from += rd.result_bytes;
		fsc_read_release(&rd);
		if (!rd.result_bytes)
			break;
	}
	return 0;
}

static int hash_file(struct fsc_inode *inode, uint64_t size, char *text)
{
	bool ends = size > out.options.hash_limit_bytes;
	struct walk_hash *h = walk_hash_new();
	int ret;

	if (ends) {
		ret = hash_range(h, inode, 0, WALK_END_BYTES);
		if (!ret)
			ret = hash_range(h, inode, size - WALK_END_BYTES, size);
	} else {
		ret = hash_range(h, inode, 0, size);
	}
	walk_hash_end(h, ends ? "ends:" : "", text);
	return ret;
}

static int print_xattrs(struct fsc_inode *inode)
{
	static char names[1 << 18], value[1 << 18];
	size_t len, value_len;
	int ret = RUN(fsc_listxattr(&ctx, inode, names, sizeof(names), &len));

	for (char *name = names; !ret && name < names + len; name += strlen(name) + 1) {
		ret = RUN(fsc_getxattr(&ctx, inode, name, value, sizeof(value), &value_len));
		if (ret || !with_xattrs)
			continue;
		printf("xattr\t%.*s\t%s\t", (int)path_bytes, path, name);
		for (size_t i = 0; i < value_len; i++)
			printf("%02x", (unsigned char)value[i]);
		putchar('\n');
	}
	return ret;
}

static char type_letter(uint32_t mode)
{
	static const char letters[] = "?pc?d?b?-?l?s???";

	return letters[(mode & S_IFMT) >> 12];
}

static int print_inode(struct fsc_inode *inode, const struct fsc_attr *a)
{
	char hash[WALK_HASH_SIZE], target[FSC_SYMLINK_MAX + 1];
	struct walk_entry e = {
		.path = path_bytes ? path : ".",
		.fsid = a->subvol,
		.fileid = a->ino,
		.size = a->size_bytes,
		.type = type_letter(a->mode),
		.mode = a->mode & 07777,
		.uid = a->uid,
		.gid = a->gid,
		.nlink = a->nlink,
		.rdev_major = a->rdev_major,
		.rdev_minor = a->rdev_minor,
		.mtime_s = (uint32_t)a->mtime.sec,
		.mtime_ns = a->mtime.nsec,
		.ctime_s = (uint32_t)a->ctime.sec,
		.ctime_ns = a->ctime.nsec,
	};
	size_t len = 0;
	int ret = print_xattrs(inode);

	if (!ret && S_ISLNK(a->mode)) {
		ret = RUN(fsc_readlink(&ctx, inode, target, FSC_SYMLINK_MAX, &len));
		target[len] = '\0';
		e.target = target;
	}
	if (!ret && S_ISREG(a->mode) && !out.options.no_hash) {
		ret = hash_file(inode, a->size_bytes, hash);
		e.hash = hash;
	}
	if (!ret)
		walk_out_entry(&out, &e);
	return ret;
}

/* ------------------------------------------------------------------ walking */

struct batch {
	struct {
		char name[FSC_NAME_MAX + 1];
		size_t len;
		uint64_t subvol, ino;
	} entry[BATCH];
	unsigned n;
	uint64_t next;
};

static bool take_entry(void *arg, const struct fsc_dirent *de)
{
	struct batch *b = arg;

	if (b->n == BATCH)
		return false;
	memcpy(b->entry[b->n].name, de->name, de->name_len);
	b->entry[b->n].len = de->name_len;
	b->entry[b->n].subvol = de->subvol;
	b->entry[b->n].ino = de->ino;
	b->n++;
	b->next = de->index + 1;
	return true;
}

static int list_batch(struct fsc_ctx *ctx, struct fsc_inode *dir, struct batch *b, bool *eof)
{
	b->n = 0;
	return fsc_readdir(ctx, dir, b->next, UINT64_MAX, FSC_READDIR_ATTR, take_entry, b, eof);
}

static void walk(struct fsc_inode *inode);

static void walk_entry(struct fsc_inode *dir, const char *name, size_t len, uint64_t ino)
{
	size_t before = path_bytes;
	struct fsc_inode *inode;
	struct fsc_attr attr;
	int ret;

	if (path_bytes + len + 2 > MAX_PATH_BYTES) {
		complain(-ENAMETOOLONG);
		return;
	}
	if (path_bytes)
		path[path_bytes++] = '/';
	memcpy(path + path_bytes, name, len);
	path_bytes += len;
	path[path_bytes] = '\0';

	ret = RUN(fsc_lookup(&ctx, dir, name, len, &inode));
	if (ret) {
		complain(ret);
	} else {
		fsc_inode_attr(inode, &attr);
		if (attr.ino != ino && attr.ino != FSC_INO_ROOT && attr.ino != FSC_INO_STUB)
			complain(-EUCLEAN);
		else
			walk(inode);
		fsc_inode_put(inode);
	}
	path_bytes = before;
	path[path_bytes] = '\0';
}

static void walk_dir(struct fsc_inode *dir)
{
	struct batch *b = calloc(1, sizeof(*b));
	bool eof = false;

	if (!b)
		abort();
	while (!eof) {
		int ret = RUN(list_batch(&ctx, dir, b, &eof));

		if (ret) {
			complain(ret);
			break;
		}
		for (unsigned i = 0; i < b->n; i++)
			walk_entry(dir, b->entry[i].name, b->entry[i].len, b->entry[i].ino);
	}
	free(b);
}

static void walk(struct fsc_inode *inode)
{
	struct fsc_attr attr;
	int ret;

	fsc_inode_attr(inode, &attr);
	ret = print_inode(inode, &attr);
	if (ret)
		complain(ret);
	if (!S_ISDIR(attr.mode))
		return;
	if (attr.ino != FSC_INO_STUB && !visit(&attr)) {
		complain(-ELOOP);
		return;
	}
	walk_dir(inode);
}

static int walk_volume(uint64_t subvol)
{
	struct fsc_inode *root;
	int ret = RUN(fsc_inode_get(&ctx, volume, subvol, FSC_INO_ROOT, 0, &root));

	if (ret) {
		complain(ret);
		return ret;
	}
	walk(root);
	fsc_inode_put(root);
	return 0;
}

/* --------------------------------------------------------------------- main */

static const char usage[] =
	"usage: fsc-walk [options] VOLUME\n"
	"  --no-hash        leave out the SHA-256 of each file\n"
	"  --ctime          with the change time\n"
	"  --hash-limit N   larger files: hash of their two ends only (1 GiB)\n"
	"  --cache N        bytes of memory for the caches\n"
	"  --subvol ID      begin there, not at the top\n"
	"  --nowait         try each call without waiting first, as a server does\n"
	"  --xattrs         print the extended attributes too\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"no-hash", no_argument, NULL, 'n'},
		{"ctime", no_argument, NULL, 'c'},
		{"hash-limit", required_argument, NULL, 'l'},
		{"cache", required_argument, NULL, 'm'},
		{"subvol", required_argument, NULL, 's'},
		{"nowait", no_argument, NULL, 'w'},
		{"xattrs", no_argument, NULL, 'x'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct walk_options wo = {.hash_limit_bytes = HASH_LIMIT};
	struct fsc_open_options oo = {.read_only = true, .no_lock = true};
	uint64_t subvol = FSC_SUBVOL_TOP;
	int o;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (o) {
		case 'm':
			oo.cache_bytes = strtoull(optarg, NULL, 0);
			break;
		case 's':
			subvol = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			try_first = true;
			break;
		case 'x':
			with_xattrs = true;
			break;
		default:
			if (walk_option(&wo, o, optarg))
				break;
			fputs(usage, o == 'h' ? stdout : stderr);
			return o == 'h' ? 0 : 2;
		}
	if (argc - optind != 1) {
		fputs(usage, stderr);
		return 2;
	}
	if (fsc_thread_create(&thread)) {
		fputs("fsc-walk: no io_uring\n", stderr);
		return 1;
	}
	if (fsc_volume_open(thread, argv[optind], &oo, &volume)) {
		fsc_thread_destroy(thread);
		return 1;
	}
	walk_out_begin(&out, &wo);
	walk_volume(subvol);
	if (!walk_out_end(&out))
		errors++;
	fsc_volume_close(thread, volume);
	fsc_thread_destroy(thread);
	free(visited.ids);
	return errors ? 1 : 0;
}
