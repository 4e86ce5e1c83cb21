/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The phases on a local directory, with system calls: no depth, no network. */
#include "nfsload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool create_one(const char *path, const char *data, unsigned size)
{
	int flags = O_CREAT | O_WRONLY | (opt.stable == SYNC_EACH ? O_SYNC : 0);
	int fd = open(path, flags, 0644);
	bool ok = fd >= 0 && write(fd, data, size) == (ssize_t)size &&
		(opt.stable != COMMIT_EACH || fsync(fd) == 0);
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return ok;
}

static bool read_one(const char *path, int file, unsigned size)
{
	static char buf[MAX_SMALL];
	int fd = open(path, O_RDONLY);
	bool ok = fd >= 0 && read(fd, buf, sizeof(buf)) == (ssize_t)size;

	if (fd >= 0)
		close(fd);
	if (ok)
		check_data(buf, (uint64_t)file * 4096, size);
	return ok;
}

static void small_op(struct tally *t, const char *phase, int dir, int file)
{
	uint64_t start = now_ns();
	unsigned size = small_size(file);
	char path[64];
	struct stat st;
	bool ok;

	snprintf(path, sizeof(path), "d%04d/f%06d", dir, file);
	if (!strcmp(phase, "create")) {
		ok = create_one(path, data_at((uint64_t)file * 4096), size);
	} else if (!strcmp(phase, "read")) {
		ok = read_one(path, file, size);
	} else {
		ok = (phase[0] == 's' ? stat(path, &st) : unlink(path)) == 0;
		size = 0;
	}
	if (!ok)
		die("%s %s: %s", phase, path, strerror(errno));
	count_op(t, start, size);
}

static void local_small(int id, struct tally *t, const char *phase)
{
	for (int d = id; d < opt.dirs; d += opt.conns) {
		int first = d * files_per_dir(), last = first + files_per_dir();

		for (int f = first; f < last && f < opt.files; f++)
			small_op(t, phase, d, f);
	}
}

static void local_ls(int id, struct tally *t)
{
	char path[NAME_SIZE];

	for (int d = id; d < opt.dirs; d += opt.conns) {
		uint64_t start = now_ns();
		struct dirent *e;
		struct stat st;
		DIR *dir;

		dir_name(path, d);
		dir = opendir(path);
		if (!dir)
			die("%s: %s", path, strerror(errno));
		while ((e = readdir(dir)))
			if (e->d_name[0] != '.' &&
				!fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
				t->ops++;
		closedir(dir);
		count_op(t, start, 0);
		t->ops--;
	}
}

static void local_dirs(int id, struct tally *t, int make)
{
	char path[NAME_SIZE];

	for (int d = id; d < opt.dirs; d += opt.conns) {
		uint64_t start = now_ns();

		dir_name(path, d);
		if (make ? mkdir(path, 0755) && errno != EEXIST : rmdir(path))
			die("%s: %s", path, strerror(errno));
		count_op(t, start, 0);
	}
}

static void fill_dir(int id, struct tally *t, int dir)
{
	char path[64];
	bool full = false;

	snprintf(path, sizeof(path), "fill%d", dir);
	if (mkdir(path, 0755) && errno != EEXIST && errno != ENOSPC)
		die("%s: %s", path, strerror(errno));
	for (int i = 0; !full; i++) {
		uint64_t start = now_ns();

		snprintf(path, sizeof(path), "fill%d/c%03d-%07d", dir, id, i);
		full = !create_one(path, data_at(0), FILL_SIZE);
		if (full && errno != ENOSPC && errno != ENOENT)
			die("%s: %s", path, strerror(errno));
		if (!full)
			count_op(t, start, FILL_SIZE);
	}
}

static void local_fill(int id, struct tally *t)
{
	for (int d = 0; d < FILL_DIRS; d++) {
		uint64_t start = now_ns(), before = t->ops;

		fill_dir(id, t, d);
		t->dir_ops[d] = t->ops - before;
		t->dir_ns[d] = now_ns() - start;
	}
}

static void local_empty(int id, struct tally *t)
{
	char path[NAME_SIZE];

	for (int d = id; d < FILL_DIRS; d += opt.conns) {
		uint64_t start = now_ns(), before = t->ops;
		struct dirent *e;
		DIR *dir;

		snprintf(path, sizeof(path), "fill%d", d);
		dir = opendir(path);
		if (!dir)
			continue;
		while ((e = readdir(dir))) {
			uint64_t t0 = now_ns();

			if (e->d_name[0] == '.')
				continue;
			if (unlinkat(dirfd(dir), e->d_name, 0))
				die("unlink %s: %s", e->d_name, strerror(errno));
			count_op(t, t0, 0);
		}
		closedir(dir);
		rmdir(path);
		t->dir_ops[d] = t->ops - before;
		t->dir_ns[d] = now_ns() - start;
	}
}

static int open_big_file(int id, bool write)
{
	int flags = (write ? O_CREAT | O_RDWR : O_RDONLY) | (opt.direct ? O_DIRECT : 0) |
		(opt.stable == SYNC_EACH && write ? O_SYNC : 0);
	char path[NAME_SIZE];
	int fd;

	big_name(path, id);
	fd = open(path, flags, 0644);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static void big_op(struct tally *t, int fd, char *buf, uint64_t off, bool write)
{
	uint64_t start = now_ns();
	ssize_t n;

	if (write) {
		memcpy(buf, data_at(off), opt.block); /* aligned, for O_DIRECT */
		n = pwrite(fd, buf, opt.block, (off_t)off);
	} else {
		n = pread(fd, buf, opt.block, (off_t)off);
	}
	if (n != (ssize_t)opt.block)
		die("%s at %lu: %s", write ? "write" : "read", off,
			n < 0 ? strerror(errno) : "short");
	if (!write)
		check_data(buf, off, opt.block);
	count_op(t, start, opt.block);
}

static void local_big(int id, struct tally *t, bool write, bool sequential)
{
	uint64_t deadline = now_ns() + (uint64_t)opt.seconds * 1000000000;
	uint64_t seed = mix((uint64_t)id + now_ns()), off = 0;
	int fd = open_big_file(id, write);
	char *buf;

	if (posix_memalign((void **)&buf, 4096, opt.block))
		die("out of memory");
	while (sequential ? off + opt.block <= opt.size : now_ns() < deadline) {
		if (!sequential) {
			seed = mix(seed);
			off = seed % (opt.size / opt.block) * opt.block;
		}
		big_op(t, fd, buf, off, write);
		off += opt.block;
	}
	if (write && opt.stable == COMMIT_EACH && fsync(fd))
		die("fsync: %s", strerror(errno));
	close(fd);
	free(buf);
}

static bool is_one_of(const char *phase, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(phase, *names))
			return true;
	return false;
}

void run_local(int id, struct tally *t, const char *phase)
{
	static const char *const small[] = {"create", "stat", "read", "rm", NULL};
	static const char *const big[] = {"seqw", "seqr", "randw", "randr", NULL};

	if (!strcmp(phase, "mkdirs") || !strcmp(phase, "rmdirs"))
		local_dirs(id, t, phase[0] == 'm');
	else if (!strcmp(phase, "ls"))
		local_ls(id, t);
	else if (!strcmp(phase, "fill"))
		local_fill(id, t);
	else if (!strcmp(phase, "empty"))
		local_empty(id, t);
	else if (is_one_of(phase, small))
		local_small(id, t, phase);
	else if (is_one_of(phase, big))
		local_big(id, t, phase[strlen(phase) - 1] == 'w', phase[0] == 's');
	else
		die("unknown phase %s", phase);
}
