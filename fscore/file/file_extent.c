/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/file_extent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"

/* What the item at the path says about the file from pos on, no further than end. */
static int map_item(const struct tree_path *path, uint64_t sector_bytes, uint64_t pos, uint64_t end,
	struct file_seg *seg)
{
	const struct btrfs_file_extent_item *fi = path_data(path);
	uint64_t item_off = path_key(path).offset, within = pos - item_off;

	*seg = (struct file_seg){.file_off = pos};
	seg->extent.type = fi->compression;
	seg->extent.ram_bytes = GET(fi, ram_bytes);
	if (fi->type == BTRFS_FILE_EXTENT_INLINE) {
		size_t n = path_data_bytes(path) - FILE_EXTENT_INLINE_OFFSET;

		seg->kind = SEG_INLINE;
		seg->len_bytes = sector_bytes;
		seg->inline_bytes = n;
		seg->inline_data = malloc(MAX(n, 1u));
		if (!seg->inline_data)
			return -ENOMEM;
		memcpy(seg->inline_data, (const char *)fi + FILE_EXTENT_INLINE_OFFSET, n);
		return 0;
	}
	seg->len_bytes = MIN(end - pos, GET(fi, num_bytes) - within);
	if (fi->type == BTRFS_FILE_EXTENT_PREALLOC || !GET(fi, disk_bytenr)) {
		seg->kind = SEG_HOLE;
	} else if (fi->compression == BTRFS_COMPRESS_NONE) {
		seg->kind = SEG_DISK;
		seg->logical = GET(fi, disk_bytenr) + GET(fi, offset) + within;
	} else {
		seg->kind = SEG_COMPRESSED;
		seg->extent.logical = GET(fi, disk_bytenr);
		seg->extent.disk_bytes = GET(fi, disk_num_bytes);
		seg->extent.ram_off = GET(fi, offset);
		seg->extent.file_off = item_off;
		seg->extent.len_bytes = GET(fi, num_bytes);
	}
	return 0;
}

/* Where the part of the file that the item shows ends. */
static uint64_t item_end(const struct tree_path *path, uint64_t sector_bytes)
{
	const struct btrfs_file_extent_item *fi = path_data(path);
	uint64_t off = path_key(path).offset;

	if (fi->type == BTRFS_FILE_EXTENT_INLINE)
		return off + sector_bytes;
	return off + GET(fi, num_bytes);
}

/* Puts the path at the item that holds start, or the one after it. */
static int find_first(
	struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t start, struct tree_path *path)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, start);
	int ret = tree_search_before(ctx, &inode->subvol->root, &key, path);

	if (ret < 0)
		return ret == -ENOENT ? -EUCLEAN : ret;
	if (!path_is_at(path, inode->ino, BTRFS_EXTENT_DATA_KEY))
		return tree_next(ctx, path);
	return 0;
}

int file_map(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t start, uint64_t end,
	struct file_seg *segs, unsigned max, unsigned *n)
{
	uint64_t sector_bytes = inode->subvol->vol->geo.sector_bytes;
	struct tree_path path =
		PATH_INIT_LIMIT(key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, end - 1));
	uint64_t pos = start;
	int ret = find_first(ctx, inode, start, &path);

	*n = 0;
	while (!ret && pos < end && *n < max) {
		struct file_seg *seg = &segs[*n];
		bool at = path_is_at(&path, inode->ino, BTRFS_EXTENT_DATA_KEY);

		if (at && item_end(&path, sector_bytes) <= pos) {
			ret = tree_next(ctx, &path);
			continue;
		}
		if (!at || path_key(&path).offset > pos) {
			uint64_t next = at ? MIN(path_key(&path).offset, end) : end;

			*seg = (struct file_seg){
				.kind = SEG_HOLE, .file_off = pos, .len_bytes = next - pos};
		} else {
			ret = map_item(&path, sector_bytes, pos, end, seg);
			if (ret)
				break;
		}
		pos += seg->len_bytes;
		++*n;
	}
	path_release(&path);
	for (unsigned i = 0; ret && i < *n; i++)
		free(segs[i].inline_data);
	return ret;
}

/* Copies from the checksum item at the path what it has of the n sectors from logical. */
static void copy_csums(const struct volume_geometry *geo, const struct tree_path *path,
	uint64_t logical, unsigned n, uint8_t *csums, bool *have)
{
	uint64_t item_logical = path_key(path).offset;
	uint64_t in_item = path_data_bytes(path) / geo->csum_bytes;
	const uint8_t *from = path_data(path);
	uint64_t skip, first = 0;

	if (item_logical >= logical) {
		first = (item_logical - logical) / geo->sector_bytes;
		skip = 0;
	} else {
		skip = (logical - item_logical) / geo->sector_bytes;
	}
	if (first >= n || skip >= in_item)
		return;
	for (uint64_t i = first; i < n && skip < in_item; i++, skip++) {
		memcpy(csums + i * geo->csum_bytes, from + skip * geo->csum_bytes, geo->csum_bytes);
		have[i] = true;
	}
}

int csum_lookup(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t logical, unsigned n,
	uint8_t *csums, bool *have)
{
	struct btrfs_key key = key_make(BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY, logical);
	uint64_t end = logical + (uint64_t)n * vol->geo.sector_bytes;
	struct tree_path path = PATH_INIT_LIMIT(
		key_make(BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY, end - 1));
	int ret;

	memset(have, 0, n * sizeof(*have));
	if (!vol->has_csum_tree)
		return 0;
	ret = tree_search_before(ctx, &vol->csum_tree, &key, &path);
	if (ret == -ENOENT)
		ret = tree_search(ctx, &vol->csum_tree, &key, &path);
	while (ret >= 0 && path_is_at(&path, BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY) &&
		path_key(&path).offset < end) {
		copy_csums(&vol->geo, &path, logical, n, csums, have);
		ret = tree_next(ctx, &path);
	}
	path_release(&path);
	return ret < 0 ? ret : 0;
}
