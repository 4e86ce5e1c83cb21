/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-put - writes its standard input to a file of an NFSv3 export, at an offset, and has it
 * committed; or sets the size of the file; or removes it.
 *
 *   nfs-put URL PATH OFFSET <data        nfs-put --size URL PATH SIZE
 *   nfs-put --remove URL PATH
 *
 * URL: nfs://HOST/EXPORT?nfsport=PORT&mountport=PORT. PATH is in the export; the file is made
 * when it is not there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nfsc/libnfs.h>

static int failed(struct nfs_context *nfs, const char *what)
{
	fprintf(stderr, "nfs-put: %s: %s\n", what, nfs_get_error(nfs));
	return 1;
}

static int mount_url(struct nfs_context *nfs, const char *text)
{
	struct nfs_url *url = nfs_parse_url_dir(nfs, text);
	int ret;

	if (!url)
		return failed(nfs, text);
	ret = nfs_mount(nfs, url->server, url->path) ? failed(nfs, text) : 0;
	nfs_destroy_url(url);
	return ret;
}

static int put(struct nfs_context *nfs, struct nfsfh *fh, uint64_t off)
{
	static char buf[256 << 10];
	ssize_t n;

	while ((n = read(0, buf, sizeof(buf))) > 0) {
		for (ssize_t done = 0; done < n;) {
			int part = nfs_pwrite(nfs, fh, off, (uint64_t)(n - done), buf + done);

			if (part <= 0)
				return failed(nfs, "write");
			done += part;
			off += (uint64_t)part;
		}
	}
	if (n < 0 || nfs_fsync(nfs, fh))
		return failed(nfs, "commit");
	return 0;
}

static int write_file(struct nfs_context *nfs, const char *path, uint64_t off)
{
	struct nfsfh *fh;
	int ret;

	if (nfs_open(nfs, path, O_RDWR, &fh) && nfs_creat(nfs, path, 0644, &fh))
		return failed(nfs, path);
	ret = put(nfs, fh, off);
	if (nfs_close(nfs, fh) && !ret)
		ret = failed(nfs, "close");
	return ret;
}

static int set_size(struct nfs_context *nfs, const char *path, uint64_t size)
{
	return nfs_truncate(nfs, path, size) ? failed(nfs, path) : 0;
}

static int remove_file(struct nfs_context *nfs, const char *path, uint64_t unused)
{
	(void)unused;
	return nfs_unlink(nfs, path) ? failed(nfs, path) : 0;
}

static const struct action {
	const char *option; /* NULL: none */
	int args;
	int (*run)(struct nfs_context *nfs, const char *path, uint64_t number);
} actions[] = {{"--size", 3, set_size}, {"--remove", 2, remove_file}, {NULL, 3, write_file}};

int main(int argc, char **argv)
{
	const struct action *a = actions;
	struct nfs_context *nfs;
	int ret;

	while (a->option && (argc < 2 || strcmp(argv[1], a->option)))
		a++;
	argv += a->option ? 2 : 1;
	argc -= a->option ? 2 : 1;
	if (argc != a->args) {
		fputs("usage: nfs-put URL PATH OFFSET <data; nfs-put --size URL PATH SIZE; "
		      "nfs-put --remove URL PATH\n",
			stderr);
		return 2;
	}
	nfs = nfs_init_context();
	if (!nfs) {
		perror("nfs-put");
		return 1;
	}
	ret = mount_url(nfs, argv[0]);
	if (!ret)
		ret = a->run(nfs, argv[1], argc > 2 ? strtoull(argv[2], NULL, 0) : 0);
	nfs_destroy_context(nfs);
	return ret;
}
