/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * manifest - one line for everything below a local directory, sorted, as nfswalk
 * prints it for an export. Memory is bounded by the depth of the tree.
 */
#include "walk-entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define READ_BYTES (1u << 20)

static struct walk_out out;
static unsigned long errors;
static char *read_buffer;

/* The path below the top, which grows and shrinks with the walk. */
static struct {
	char *text;
	size_t bytes, room;
} path;

static size_t path_push(const char *name)
{
	size_t before = path.bytes, n = strlen(name);

	if (path.bytes + n + 2 > path.room) {
		path.room = 2 * (path.bytes + n + 2);
		path.text = realloc(path.text, path.room);
		if (!path.text)
			abort();
	}
	if (path.bytes)
		path.text[path.bytes++] = '/';
	memcpy(path.text + path.bytes, name, n + 1);
	path.bytes += n;
	return before;
}

static void path_pop(size_t before)
{
	path.bytes = before;
	path.text[before] = '\0';
}

static void complain(const char *what)
{
	fprintf(stderr, "manifest: %s %s: %s\n", what, path.bytes ? path.text : ".",
		strerror(errno));
	errors++;
}

static char type_letter(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return '-';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	case S_IFIFO:
		return 'p';
	default:
		return 's';
	}
}

static bool hash_range(struct walk_hash *h, int fd, uint64_t from, uint64_t to)
{
	while (from < to) {
		size_t want = to - from < READ_BYTES ? to - from : READ_BYTES;
		ssize_t n = pread(fd, read_buffer, want, (off_t)from);

		if (n < 0)
			return false;
		if (n == 0)
			break;
		walk_hash_add(h, read_buffer, (size_t)n);
		from += (uint64_t)n;
	}
	return true;
}

static void hash_file(int dir, const char *name, uint64_t size, char *text)
{
	bool ends = size > out.options.hash_limit_bytes, ok;
	struct walk_hash *h = walk_hash_new();
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (ends)
		ok = fd >= 0 && hash_range(h, fd, 0, WALK_END_BYTES) &&
			hash_range(h, fd, size - WALK_END_BYTES, size);
	else
		ok = fd >= 0 && hash_range(h, fd, 0, size);
	if (!ok)
		complain("read");
	walk_hash_end(h, ends ? "ends:" : "", text);
	if (!ok)
		strcpy(text, "!IO");
	if (fd >= 0)
		close(fd);
}

static void print_entry(int dir, const char *name, const struct stat *st)
{
	char hash[WALK_HASH_SIZE], target[4097];
	struct walk_entry e = {
		.path = path.bytes ? path.text : ".",
		.fsid = st->st_dev,
		.fileid = st->st_ino,
		.size = (uint64_t)st->st_size,
		.type = type_letter(st->st_mode),
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.nlink = (uint32_t)st->st_nlink,
		.rdev_major = major(st->st_rdev),
		.rdev_minor = minor(st->st_rdev),
		.mtime_s = (uint32_t)st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
		.ctime_s = (uint32_t)st->st_ctim.tv_sec,
		.ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
	};

	if (e.type == 'l') {
		ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

		if (n < 0)
			complain("readlink");
		target[n < 0 ? 0 : n] = '\0';
		e.target = target;
	}
	if (e.type == '-' && !out.options.no_hash) {
		hash_file(dir, name, e.size, hash);
		e.hash = hash;
	}
	walk_out_entry(&out, &e);
}

static void walk_dir(int fd);

/* A directory is opened before it is looked at: that is what crosses into an
 * automounted subvolume of an NFS mount. */
static void walk_child_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0) {
		complain("open");
		if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
			print_entry(dir, name, &st);
		return;
	}
	if (fstat(fd, &st)) {
		complain("stat");
		close(fd);
		return;
	}
	print_entry(fd, name, &st);
	walk_dir(fd);
}

static void walk_child(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		complain("stat");
	else if (S_ISDIR(st.st_mode))
		walk_child_dir(dir, name);
	else
		print_entry(dir, name, &st);
}

/* Takes over fd. */
static void walk_dir(int fd)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;

	if (!d) {
		complain("open");
		close(fd);
		return;
	}
	while (errno = 0, (e = readdir(d))) {
		size_t before;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		before = path_push(e->d_name);
		walk_child(fd, e->d_name);
		path_pop(before);
	}
	if (errno)
		complain("readdir");
	closedir(d);
}

static const char usage[] =
	"usage: manifest [options] DIR\n"
	"  --no-hash        leave out the SHA-256 of each file\n"
	"  --ctime          with the change time\n"
	"  --hash-limit N   larger files: hash of their two ends only (64 GiB)\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"no-hash", no_argument, NULL, 'n'},
		{"ctime", no_argument, NULL, 'c'},
		{"hash-limit", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct walk_options wo = {.hash_limit_bytes = WALK_HASH_LIMIT};
	struct rlimit files;
	struct stat st;
	int o, fd;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
		if (!walk_option(&wo, o, optarg)) {
			fputs(usage, o == 'h' ? stdout : stderr);
			return o == 'h' ? 0 : 2;
		}
	if (argc - optind != 1) {
		fputs(usage, stderr);
		return 2;
	}
	/* One open directory for each level. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	path_push("");
	read_buffer = malloc(READ_BYTES);
	fd = open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!read_buffer || fd < 0 || fstat(fd, &st)) {
		fprintf(stderr, "manifest: %s: %s\n", argv[optind], strerror(errno));
		return 2;
	}
	walk_out_begin(&out, &wo);
	print_entry(fd, ".", &st);
	walk_dir(fd);
	if (!walk_out_end(&out))
		errors++;
	free(read_buffer);
	free(path.text);
	return errors ? 1 : 0;
}
