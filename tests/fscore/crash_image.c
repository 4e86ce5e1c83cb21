/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/crash_work.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A command, with a PATH where btrfs-progs are. */
__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...)
{
	char *command, *whole;
	va_list ap;
	int status;

	va_start(ap, fmt);
	if (vasprintf(&command, fmt, ap) < 0)
		abort();
	va_end(ap);
	if (asprintf(&whole, "PATH=$PATH:/usr/sbin:/sbin; %s", command) < 0)
		abort();
	status = system(whole);
	free(whole);
	free(command);
	return status;
}

bool crash_btrfs_check(const char *path)
{
	return run("out=$(btrfs check --readonly --check-data-csum '%s' 2>&1) || { echo \"$out\" >&2; false; }",
		       path) == 0;
}

void *crash_image(const char *mkfs_options, size_t bytes, char **path)
{
	const char *dir = getenv("TMPDIR");
	void *map;
	int fd;

	if (asprintf(path, "%s/byre-crash.XXXXXX", dir && *dir ? dir : "/var/tmp") < 0)
		abort();
	fd = mkstemp(*path);
	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		perror(*path);
		exit(1);
	}
	if (run("mkfs.btrfs -q %s '%s' >/dev/null", mkfs_options ? mkfs_options : "", *path)) {
		fprintf(stderr, "mkfs.btrfs %s failed\n", mkfs_options ? mkfs_options : "");
		exit(1);
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return map;
}
