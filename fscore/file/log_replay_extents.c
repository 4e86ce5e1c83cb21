/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Replaying a log: the extents of files, and their checksums. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/extent_write.h"
#include "fscore/file/log_replay_private.h"
#include "fscore/tree/leaf.h"

#define DROP_ITEMS 200u

/* Stands for a file in calls that look no further than to its number and its subvolume. */
static int stand_in(struct replay *r, uint64_t ino, struct fsc_inode **out)
{
	*out = inode_alloc(r->sv, ino);
	return *out ? 0 : -ENOMEM;
}

int replay_drop_extents(
	struct replay *r, uint64_t ino, uint64_t from, uint64_t end, uint64_t *dropped)
{
	struct fsc_inode *inode;
	uint64_t left_end;
	bool done = false;
	int ret = stand_in(r, ino, &inode);

	if (ret)
		return ret;
	while (!ret && !done) {
		ret = replay_make_room(r);
		if (!ret)
			ret = extents_drop(
				&r->h, inode, from, end, DROP_ITEMS, dropped, &left_end, &done);
	}
	inode_free_new(inode);
	return ret;
}

static bool has_no_holes(const struct replay *r)
{
	return r->vol->geo.incompat_flags & BTRFS_FEATURE_INCOMPAT_NO_HOLES;
}

int replay_fill_holes(struct replay *r, uint64_t ino, uint64_t size)
{
	struct fsc_inode *inode;
	int ret;

	if (has_no_holes(r) || !size)
		return 0;
	ret = stand_in(r, ino, &inode);
	if (ret)
		return ret;
	ret = extents_fill_holes(&r->h, inode, 0, align_up(size, r->vol->geo.sector_bytes));
	inode_free_new(inode);
	return ret;
}

/* -------------------------------------------------------------------------- used bytes */

int replay_flush_used(struct replay *r)
{
	struct btrfs_inode_item item;
	int64_t by = r->grown_bytes;
	int ret;

	r->grown_bytes = 0;
	if (!by)
		return 0;
	ret = replay_read_inode(r, r->grown_ino, &item);
	if (ret)
		return ret;
	PUT(&item, nbytes, (uint64_t)((int64_t)GET(&item, nbytes) + by));
	return replay_write_inode(r, r->grown_ino, &item);
}

static int note_used(struct replay *r, uint64_t ino, int64_t by)
{
	int ret = r->grown_ino == ino ? 0 : replay_flush_used(r);

	r->grown_ino = ino;
	r->grown_bytes += by;
	return ret;
}

/* --------------------------------------------------------------------------- checksums */

/* The checksums that one item of the log has of a range go to the checksum tree. */
static int copy_csums(struct replay *r, const struct tree_path *path, uint64_t logical,
	uint64_t end, uint8_t **csums, uint64_t *from, unsigned *n)
{
	const struct volume_geometry *geo = &r->vol->geo;
	uint64_t item_from = path_key(path).offset;
	uint64_t item_end =
		item_from + (uint64_t)(path_data_bytes(path) / geo->csum_bytes) * geo->sector_bytes;
	uint64_t skip;

	*from = MAX(item_from, logical);
	end = MIN(item_end, end);
	*n = 0;
	if (*from >= end)
		return 0;
	skip = (*from - item_from) / geo->sector_bytes;
	*n = (unsigned)((end - *from) / geo->sector_bytes);
	*csums = malloc((size_t)*n * geo->csum_bytes);
	if (!*csums)
		return -ENOMEM;
	memcpy(*csums, (const uint8_t *)path_data(path) + skip * geo->csum_bytes,
		(size_t)*n * geo->csum_bytes);
	return 0;
}

/* Of the item that holds logical, or of the first one behind it. */
static int one_csum_item(struct replay *r, uint64_t logical, uint64_t end, uint8_t **csums,
	uint64_t *from, unsigned *n)
{
	struct btrfs_key key = key_make(BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY, logical);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_before(r->ctx, r->log, &key, &path);

	*n = 0;
	if (ret >= 0 && path_is_at(&path, BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY))
		ret = copy_csums(r, &path, logical, end, csums, from, n);
	else if (ret == -ENOENT)
		ret = 0;
	path_release(&path);
	if (ret < 0 || *n)
		return MIN(ret, 0);
	ret = tree_search(r->ctx, r->log, &key, &path);
	if (ret >= 0 && path_is_at(&path, BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM_KEY))
		ret = copy_csums(r, &path, logical, end, csums, from, n);
	path_release(&path);
	return MIN(ret, 0);
}

static int replay_csums(struct replay *r, uint64_t logical, uint64_t bytes)
{
	const struct volume_geometry *geo = &r->vol->geo;
	uint64_t end = logical + bytes;

	while (logical < end) {
		uint8_t *csums = NULL;
		uint64_t from = end;
		unsigned n;
		int ret = one_csum_item(r, logical, end, &csums, &from, &n);

		if (!ret && n)
			ret = csum_delete(&r->h.w, &r->vol->csum_tree, geo, from,
				(uint64_t)n * geo->sector_bytes);
		if (!ret && n)
			ret = csum_insert(&r->h.w, &r->vol->csum_tree, geo, from, csums, n);
		free(csums);
		if (ret)
			return ret;
		logical = n ? from + (uint64_t)n * geo->sector_bytes : end;
	}
	return 0;
}

/* ----------------------------------------------------------------------------- extents */

/* Whether the subvolume has exactly this item. 1: yes, 0: no. */
static int has_item(struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(r->ctx, &r->sv->root, key, &path);

	if (ret == 0)
		ret = path_data_bytes(&path) == bytes && !memcmp(path_data(&path), data, bytes);
	else if (ret == 1)
		ret = 0;
	path_release(&path);
	return ret;
}

/* The first reference to data that only the log knew makes its extent item. */
static bool first_use(struct replay *r, uint64_t logical, uint64_t bytes)
{
	size_t lo = 0, hi = r->n_extents;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->extents[mid].logical < logical)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == r->n_extents || r->extents[lo].logical != logical ||
		r->extents[lo].bytes != bytes || r->extents[lo].used)
		return false;
	r->extents[lo].used = true;
	return true;
}

static int refer(
	struct replay *r, const struct btrfs_key *key, const struct btrfs_file_extent_item *fi)
{
	struct ref_change change = {
		.logical = GET(fi, disk_bytenr),
		.bytes = GET(fi, disk_num_bytes),
		.is_data = true,
		.key = {.root = r->sv->id,
			.objectid = key->objectid,
			.offset = key->offset - GET(fi, offset)},
		.count = 1,
	};

	change.is_new = first_use(r, change.logical, change.bytes);
	return extent_ref_change(&r->h.txn->extents, &change);
}

/* What the item uses of the disk, and checksums. */
static int extent_comes(
	struct replay *r, const struct btrfs_key *key, const struct btrfs_file_extent_item *fi)
{
	uint64_t disk = GET(fi, disk_bytenr);
	int ret = refer(r, key, fi);

	if (ret || fi->type != BTRFS_FILE_EXTENT_REG)
		return ret;
	/* Of what is compressed all counts. */
	if (fi->compression)
		return replay_csums(r, disk, GET(fi, disk_num_bytes));
	return replay_csums(r, disk + GET(fi, offset), GET(fi, num_bytes));
}

int replay_extent(struct replay *r, const struct btrfs_key *key, const void *data, uint32_t bytes)
{
	const struct btrfs_file_extent_item *fi = data;
	bool is_inline = fi->type == BTRFS_FILE_EXTENT_INLINE;
	uint64_t used = is_inline ? GET(fi, ram_bytes) : GET(fi, num_bytes);
	uint64_t end = key->offset + align_up(MAX(used, 1u), r->vol->geo.sector_bytes);
	bool is_hole = !is_inline && !GET(fi, disk_bytenr);
	uint64_t dropped = 0;
	int ret = has_item(r, key, data, bytes);

	if (ret)
		return MIN(ret, 0);
	ret = replay_drop_extents(r, key->objectid, key->offset, end, &dropped);
	if (!ret)
		ret = note_used(r, key->objectid, (is_hole ? 0 : (int64_t)used) - (int64_t)dropped);
	if (ret || (is_hole && has_no_holes(r)))
		return ret;
	ret = replay_put_item(r, key, data, bytes);
	if (ret || is_inline || is_hole)
		return ret;
	return extent_comes(r, key, fi);
}
