/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-put - writes its standard input to a file of an NFSv3 export, at an offset, and has it
 * committed; or sets the size of the file.
 *
 *   nfs-put URL PATH OFFSET <data        nfs-put --size URL PATH SIZE
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

static int run(struct nfs_context *nfs, char **arg, int set_size)
{
	uint64_t number = strtoull(arg[2], NULL, 0);
	struct nfsfh *fh;
	int ret = mount_url(nfs, arg[0]);

	if (ret)
		return ret;
	if (set_size)
		return nfs_truncate(nfs, arg[1], number) ? failed(nfs, arg[1]) : 0;
	if (nfs_open(nfs, arg[1], O_RDWR, &fh) && nfs_creat(nfs, arg[1], 0644, &fh))
		return failed(nfs, arg[1]);
	ret = put(nfs, fh, number);
	if (nfs_close(nfs, fh) && !ret)
		ret = failed(nfs, "close");
	return ret;
}

int main(int argc, char **argv)
{
	int set_size = argc > 1 && !strcmp(argv[1], "--size"), ret;
	struct nfs_context *nfs;

	if (argc != 4 + set_size) {
		fputs("usage: nfs-put URL PATH OFFSET <data; nfs-put --size URL PATH SIZE\n",
			stderr);
		return 2;
	}
	nfs = nfs_init_context();
	if (!nfs) {
		perror("nfs-put");
		return 1;
	}
	ret = run(nfs, argv + 1 + set_size, set_size);
	nfs_destroy_context(nfs);
	return ret;
}
