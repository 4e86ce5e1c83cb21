/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fsc_readlink() of fscore.h: the target is the inline extent of the symlink's inode. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/compress.h"
#include "fscore/file/file_extent.h"

static int copy_target(
	struct fsc_inode *inode, const struct file_seg *seg, char *buf, size_t size, size_t *len)
{
	uint32_t sector_bytes = inode->subvol->vol->geo.sector_bytes;
	char target[FSC_SYMLINK_MAX + 1];
	size_t n = MIN(inode_size(inode), FSC_SYMLINK_MAX);

	if (seg->kind != SEG_INLINE)
		return -EUCLEAN;
	if (seg->extent.type != BTRFS_COMPRESS_NONE) {
		int ret = decompress_extent(seg->extent.type, seg->inline_data, seg->inline_bytes,
			target, n, sector_bytes);

		if (ret)
			return ret;
	} else {
		n = MIN(n, seg->inline_bytes);
		memcpy(target, seg->inline_data, n);
	}
	*len = MIN(n, size);
	memcpy(buf, target, *len);
	return 0;
}

int fsc_readlink(struct fsc_ctx *ctx, struct fsc_inode *inode, char *buf, size_t size, size_t *len)
{
	uint32_t sector_bytes = inode->subvol->vol->geo.sector_bytes;
	struct file_seg seg;
	unsigned n;
	int ret;

	if (!S_ISLNK(inode->type))
		return -EINVAL;
	ret = file_map(ctx, inode, 0, sector_bytes, &seg, 1, &n);
	if (ret)
		return ret;
	ret = n ? copy_target(inode, &seg, buf, size, len) : -EUCLEAN;
	if (n)
		free(seg.inline_data);
	return ret;
}
