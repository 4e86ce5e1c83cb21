/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/in_place.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "fscore/file/file_extent.h"

/* What an extent item says, or the gap before it. */
struct extent_view {
	bool is_item;
	struct btrfs_file_extent_item fi;
	uint64_t start, end; /* in the file */
};

static uint64_t flags_of(struct fsc_inode *inode)
{
	uint64_t flags;

	short_lock(&inode->attr_lock);
	flags = inode->flags;
	short_unlock(&inode->attr_lock);
	return flags;
}

/* False: the path is at no extent item of the file. */
static bool view_item(
	const struct tree_path *path, const struct fsc_inode *inode, struct extent_view *v)
{
	const struct btrfs_file_extent_item *fi;

	if (!path_is_at(path, inode->ino, BTRFS_EXTENT_DATA_KEY))
		return false;
	fi = path_data(path);
	*v = (struct extent_view){.is_item = true, .start = path_key(path).offset};
	if (fi->type == BTRFS_FILE_EXTENT_INLINE) {
		v->fi.type = fi->type;
		v->end = v->start + inode->subvol->vol->geo.sector_bytes;
	} else {
		v->fi = *fi;
		v->end = v->start + GET(fi, num_bytes);
	}
	return true;
}

/* What the file has at start: an item, or a gap that ends at the next one, or at end. */
static int look_at(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t start, uint64_t end,
	struct extent_view *v)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, start);
	struct tree_path path =
		PATH_INIT_LIMIT(key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, end - 1));
	int ret = tree_search_before(ctx, &inode->subvol->root, &key, &path);
	bool is_item;

	if (ret < 0)
		return ret == -ENOENT ? -EUCLEAN : ret;
	is_item = view_item(&path, inode, v);
	if (!is_item || v->end <= start) {
		ret = tree_next(ctx, &path);
		is_item = ret >= 0 && view_item(&path, inode, v);
	}
	path_release(&path);
	if (!is_item || v->start > start)
		*v = (struct extent_view){.start = start, .end = is_item ? v->start : end};
	return MIN(ret, 0);
}

static enum in_place candidate(struct fsc_inode *inode, const struct extent_view *v)
{
	const uint64_t nocow = BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM;
	const struct btrfs_file_extent_item *fi = &v->fi;

	if (!v->is_item || fi->type == BTRFS_FILE_EXTENT_INLINE || !GET(fi, disk_bytenr) ||
		fi->compression || fi->encryption || GET(fi, other_encoding))
		return IN_PLACE_NOT;
	/* A snapshot may have the leaf, and so the item. */
	if (GET(fi, generation) <= inode->subvol->root.last_snapshot)
		return IN_PLACE_NOT;
	if (fi->type == BTRFS_FILE_EXTENT_PREALLOC)
		return IN_PLACE_PREALLOC;
	return (flags_of(inode) & nocow) == nocow ? IN_PLACE_OVER : IN_PLACE_NOT;
}

/* No other file, nor another place in this one, refers to the extent. */
static int is_sole(
	struct fsc_ctx *ctx, struct fsc_inode *inode, const struct extent_view *v, bool *sole)
{
	struct txn_handle h;
	struct ref_key key = {.root = inode->subvol->id,
		.objectid = inode->ino,
		.offset = v->start - GET(&v->fi, offset)};
	/* Only so that no commit comes between: nothing is changed. */
	int ret = txn_join_reserved(ctx, &inode->subvol->vol->w->txns, 0, &h);

	if (ret)
		return ret;
	ret = extent_is_sole(ctx, &h.txn->extents, GET(&v->fi, disk_bytenr),
		GET(&v->fi, disk_num_bytes), &key, inode->subvol->root.last_snapshot, sole);
	txn_end(&h);
	return ret;
}

/*
 * Whether some of it has a checksum: of content that was there when the file was another. What
 * is written in place would not match.
 */
static int has_csums(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t logical, uint64_t bytes, bool *has)
{
	unsigned n = (unsigned)(bytes / vol->geo.sector_bytes);
	uint8_t *csums = malloc(n * (vol->geo.csum_bytes + sizeof(bool)));
	bool *have = (bool *)(csums + (size_t)n * vol->geo.csum_bytes);
	int ret = csums ? csum_lookup(ctx, vol, logical, n, csums, have) : -ENOMEM;

	*has = false;
	for (unsigned i = 0; !ret && i < n; i++)
		*has |= have[i];
	free(csums);
	return ret;
}

int in_place_find(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t start, uint64_t end,
	enum in_place *how, uint64_t *logical, uint64_t *len_bytes)
{
	struct fsc_volume *vol = inode->subvol->vol;
	struct extent_view v;
	bool sole = false, has = false;
	int ret = look_at(ctx, inode, start, end, &v);

	*how = IN_PLACE_NOT;
	if (ret)
		return ret;
	*len_bytes = MIN(v.end, end) - start;
	*how = candidate(inode, &v);
	if (*how == IN_PLACE_NOT)
		return 0;
	*logical = GET(&v.fi, disk_bytenr) + GET(&v.fi, offset) + (start - v.start);
	ret = is_sole(ctx, inode, &v, &sole);
	if (!ret && sole)
		ret = has_csums(ctx, vol, *logical, *len_bytes, &has);
	if (ret || !sole || has || space_is_read_only(&vol->w->space, *logical))
		*how = IN_PLACE_NOT;
	return ret;
}
