/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens and walks a volume whose metadata the input has changed.
 *
 * The base is a small volume made by mkfs.btrfs when the program starts. The input is a list of
 * changes: which metadata block (or the superblock), at which offset, what bytes. Checksums are
 * made right again, so that what is tried lies behind them. Then everything is listed, looked up
 * and read: it may fail, but not crash, hang or use memory without bound.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/io/dev.h"
#include "fscore/volume/open.h"
#include "tests/fscore/image.h"

#define NODE_BYTES   4096u
#define MAX_TOUCHED  64u
#define MAX_INODES   60u
#define MAX_DEPTH    40u
#define READ_BYTES   65536u
#define RECORD_BYTES 5u /* block (2), offset (2), length (1) */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	uint8_t *image;
	size_t bytes;
	uint64_t blocks[4096]; /* where metadata is; the first is the superblock */
	unsigned n_blocks;
	struct fsc_thread *thread;
} base;

/* What the input has changed: whole blocks, instead of the base's. */
static struct {
	uint64_t at;
	uint8_t data[NODE_BYTES];
} touched[MAX_TOUCHED];
static unsigned n_touched;
static unsigned n_inodes;

/* ------------------------------------------------------------------- the device */

static const uint8_t *sector(uint64_t at)
{
	for (unsigned i = 0; i < n_touched; i++)
		if (touched[i].at == at)
			return touched[i].data;
	return base.image + at;
}

static void fuzz_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req)
{
	uint64_t at = req->physical;

	(void)dev;
	(void)t;
	for (unsigned i = 0; i < req->n_iov; i++)
		for (size_t done = 0; done < req->iov[i].iov_len; done += NODE_BYTES) {
			memcpy((char *)req->iov[i].iov_base + done, sector(at), NODE_BYTES);
			at += NODE_BYTES;
		}
	dev_complete_later(req, 0);
}

static void fuzz_destroy(struct dev *dev)
{
	free(dev);
}

static const struct dev_ops fuzz_ops = {.submit = fuzz_submit, .destroy = fuzz_destroy};

static struct dev *make_dev(void)
{
	struct dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		abort();
	dev->ops = &fuzz_ops;
	dev->size_bytes = base.bytes;
	dev->align_bytes = NODE_BYTES;
	dev->read_only = true;
	return dev;
}

/* ------------------------------------------------------------------- the changes */

static uint8_t *touch(uint64_t at)
{
	for (unsigned i = 0; i < n_touched; i++)
		if (touched[i].at == at)
			return touched[i].data;
	if (n_touched == MAX_TOUCHED)
		return NULL;
	touched[n_touched].at = at;
	memcpy(touched[n_touched].data, base.image + at, NODE_BYTES);
	return touched[n_touched++].data;
}

static void apply(const uint8_t *data, size_t size)
{
	n_touched = 0;
	while (size > RECORD_BYTES) {
		unsigned block = data[0] | data[1] << 8, off = data[2] | data[3] << 8;
		size_t n = MIN(MIN((size_t)data[4] % 32 + 1, size - RECORD_BYTES),
			NODE_BYTES - off % NODE_BYTES);
		uint8_t *to = touch(base.blocks[block % base.n_blocks]);

		if (!to)
			break;
		memcpy(to + off % NODE_BYTES, data + RECORD_BYTES, n);
		data += RECORD_BYTES + n;
		size -= RECORD_BYTES + n;
	}
	for (unsigned i = 0; i < n_touched; i++) {
		uint8_t *b = touched[i].data;

		csum_compute(BTRFS_CSUM_TYPE_CRC32, b + BTRFS_CSUM_SIZE,
			NODE_BYTES - BTRFS_CSUM_SIZE, b);
	}
}

/* ---------------------------------------------------------------------- the walk */

struct names {
	char name[64][FSC_NAME_MAX];
	size_t len[64];
	unsigned n;
	uint64_t next;
};

static bool take_name(void *arg, const struct fsc_dirent *e)
{
	struct names *l = arg;

	if (l->n == ARRAY_SIZE(l->len))
		return false;
	memcpy(l->name[l->n], e->name, e->name_len);
	l->len[l->n++] = e->name_len;
	l->next = e->index + 1;
	return true;
}

static void read_some(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t off)
{
	struct fsc_read rd = {.file_off = off, .len_bytes = READ_BYTES};
	static char content[READ_BYTES];
	size_t done = 0;

	/* Whether it all is memory that can be read. */
	if (!fsc_read(ctx, inode, &rd))
		for (unsigned i = 0; i < rd.n_iov; done += rd.iov[i++].iov_len)
			memcpy(content + done, rd.iov[i].iov_base, rd.iov[i].iov_len);
	fsc_read_release(&rd);
}

static void walk(struct fsc_ctx *ctx, struct fsc_inode *inode, unsigned depth);

static void walk_dir(struct fsc_ctx *ctx, struct fsc_inode *dir, unsigned depth)
{
	struct names *l = calloc(1, sizeof(*l));
	uint64_t last;
	bool eof = false;

	if (!l)
		abort();
	fsc_dir_last_index(ctx, dir, &last);
	while (!eof && n_inodes < MAX_INODES) {
		l->n = 0;
		if (fsc_readdir(
			    ctx, dir, l->next, UINT64_MAX, FSC_READDIR_ATTR, take_name, l, &eof) ||
			!l->n)
			break;
		for (unsigned i = 0; i < l->n; i++) {
			struct fsc_inode *child;

			if (fsc_lookup(ctx, dir, l->name[i], l->len[i], &child))
				continue;
			walk(ctx, child, depth + 1);
			fsc_inode_put(child);
		}
	}
	free(l);
}

static void walk(struct fsc_ctx *ctx, struct fsc_inode *inode, unsigned depth)
{
	static char buf[65536];
	struct fsc_inode *up;
	struct fsc_attr attr;
	size_t len;

	if (++n_inodes > MAX_INODES || depth > MAX_DEPTH)
		return;
	fsc_inode_attr(inode, &attr);
	fsc_readlink(ctx, inode, buf, sizeof(buf), &len);
	fsc_getxattr(ctx, inode, "user.test", buf, sizeof(buf), &len);
	fsc_listxattr(ctx, inode, buf, sizeof(buf), &len);
	if (S_ISREG(attr.mode)) {
		read_some(ctx, inode, 0);
		read_some(ctx, inode, attr.size_bytes / 2);
		read_some(ctx, inode, attr.size_bytes - 100);
	}
	if (!S_ISDIR(attr.mode))
		return;
	if (!fsc_lookup(ctx, inode, "..", 2, &up))
		fsc_inode_put(up);
	walk_dir(ctx, inode, depth);
}

static void walk_volume(struct fsc_volume *vol)
{
	struct fsc_ctx ctx = {.thread = base.thread};
	struct fsc_inode *root;
	struct fsc_statfs st;

	n_inodes = 0;
	fsc_statfs(&ctx, vol, FSC_SUBVOL_TOP, &st);
	if (fsc_inode_get(&ctx, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root))
		return;
	walk(&ctx, root, 0);
	fsc_inode_put(root);
}

/* -------------------------------------------------------------------------- main */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct btrfs_super_block *sb;

	(void)argc;
	(void)argv;
	log_set_level((enum log_level)0);
	base.image = image_make("-n 4096 -m single -d single", &base.bytes);
	sb = (const void *)(base.image + super_mirror_physical(0));
	base.blocks[base.n_blocks++] = super_mirror_physical(0);
	for (uint64_t at = 0; at + NODE_BYTES <= base.bytes; at += NODE_BYTES) {
		const struct btrfs_header *h = (const void *)(base.image + at);

		if (at != super_mirror_physical(0) && base.n_blocks < ARRAY_SIZE(base.blocks) &&
			!memcmp(h->fsid, sb->fsid, sizeof(h->fsid)) && h->level < BTRFS_MAX_LEVEL)
			base.blocks[base.n_blocks++] = at;
	}
	if (base.n_blocks < 20 || fsc_thread_create(&base.thread))
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsc_open_options opt = {.read_only = true, .cache_bytes = 1};
	struct fsc_volume *vol;

	apply(data, size);
	if (!volume_open_dev(base.thread, make_dev(), "fuzz", &opt, &vol)) {
		walk_volume(vol);
		fsc_volume_close(base.thread, vol);
	}
	return 0;
}
