/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "image: %s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t image_size(unsigned file)
{
	/* Most are small (inline), some are large and not whole sectors. */
	return file % 4 ? file * 7 % 1900 : (uint64_t)file * 1777 + 4096;
}

/* A formatted string, to be freed. */
__attribute__((format(printf, 1, 2))) static char *text(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		die("memory");
	return s;
}

static void make_file(const char *dir, unsigned file)
{
	uint64_t size = image_size(file);
	char *path = text("%s/dir/file-%04u", dir, file);
	FILE *f = fopen(path, "w");

	if (!f)
		die(path);
	for (uint64_t off = 0; off < size; off++)
		putc(image_byte(file, off), f);
	if (fclose(f))
		die(path);
	free(path);
}

static void make_dir(const char *dir, const char *name)
{
	char *path = text("%s%s", dir, name);

	if (mkdir(path, 0755))
		die(path);
	free(path);
}

static void make_tree(const char *dir)
{
	char *link = text("%s/link", dir);

	make_dir(dir, "");
	make_dir(dir, "/dir");
	for (unsigned i = 0; i < IMAGE_FILES; i++)
		make_file(dir, i);
	make_dir(dir, "/empty");
	if (symlink("dir/file-0000", link))
		die(link);
	free(link);
}

/* Takes over the command. */
static void run(char *command)
{
	if (system(command)) {
		fprintf(stderr, "image: failed: %s\n", command);
		exit(1);
	}
	free(command);
}

static void *load(const char *path, size_t *size_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t done = 0;
	char *data;

	if (fd < 0 || fstat(fd, &st))
		die(path);
	data = malloc((size_t)st.st_size);
	if (!data)
		die("memory");
	while (done < (size_t)st.st_size) {
		ssize_t n = read(fd, data + done, (size_t)st.st_size - done);

		if (n <= 0)
			die(path);
		done += (size_t)n;
	}
	close(fd);
	*size_bytes = done;
	return data;
}

void *image_make(const char *mkfs_options, size_t *size_bytes)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = text("%s/byre-image-XXXXXX", tmp ? tmp : "/tmp"), *path;
	void *data;

	if (!mkdtemp(dir))
		die(dir);
	path = text("%s/tree", dir);
	make_tree(path);
	free(path);
	run(text("PATH=$PATH:/sbin:/usr/sbin; truncate -s 160M %s/volume && "
		 "mkfs.btrfs -q %s --rootdir %s/tree %s/volume >/dev/null",
		dir, mkfs_options ? mkfs_options : "", dir, dir));
	path = text("%s/volume", dir);
	data = load(path, size_bytes);
	free(path);
	run(text("rm -rf %s", dir));
	free(dir);
	return data;
}
