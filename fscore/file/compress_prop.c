/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/compress_prop.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/subvol.h"
#include "fscore/tree/leaf.h"

/* Longer than any value, "zlib:9" and the like. */
#define PROP_MAX 16u

static const char *const names[] = {
	[BTRFS_COMPRESS_ZLIB] = "zlib",
	[BTRFS_COMPRESS_LZO] = "lzo",
	[BTRFS_COMPRESS_ZSTD] = "zstd",
};

bool compress_type_parse(const char *name, size_t len, uint8_t *type)
{
	for (unsigned i = BTRFS_COMPRESS_ZLIB; i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i]);

		if (len < n || memcmp(name, names[i], n) || (len > n && name[n] != ':'))
			continue;
		*type = (uint8_t)i;
		return true;
	}
	return false;
}

const char *compress_type_name(uint8_t type)
{
	return type < ARRAY_SIZE(names) ? names[type] : NULL;
}

static bool is_no_compression(const char *value, size_t len)
{
	return (len == 2 && !memcmp(value, "no", 2)) || (len == 4 && !memcmp(value, "none", 4));
}

/* ------------------------------------------------------------- what is to be done */

static bool can_compress(uint64_t flags)
{
	return !(flags & (BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM));
}

/* Reads the property, unless it is known. op_lock is not needed: whoever sets it sets what is known. */
static int read_prop(struct fsc_ctx *ctx, struct fsc_inode *inode)
{
	char value[PROP_MAX];
	uint8_t type = BTRFS_COMPRESS_NONE;
	size_t len = 0;
	bool known;
	int ret;

	short_lock(&inode->attr_lock);
	known = inode->compress_known;
	short_unlock(&inode->attr_lock);
	if (known)
		return 0;
	ret = fsc_getxattr(ctx, inode, COMPRESS_PROP, value, sizeof(value), &len);
	if (ret && ret != -ENODATA && ret != -ERANGE)
		return ret;
	if (!ret)
		compress_type_parse(value, len, &type);
	short_lock(&inode->attr_lock);
	if (!inode->compress_known) {
		inode->compress_known = true;
		inode->compress_prop = type;
	}
	short_unlock(&inode->attr_lock);
	return 0;
}

uint8_t compress_type_of(struct fsc_ctx *ctx, struct fsc_inode *inode)
{
	uint8_t general = atomic_load_explicit(&inode->subvol->compress, memory_order_relaxed);
	uint8_t type;
	uint64_t flags;

	short_lock(&inode->attr_lock);
	flags = inode->flags;
	short_unlock(&inode->attr_lock);
	if (!can_compress(flags) || (flags & BTRFS_INODE_NOCOMPRESS))
		return BTRFS_COMPRESS_NONE;
	/* The property never stands alone: without the flag it is not looked for. */
	if (!(flags & BTRFS_INODE_COMPRESS))
		return general;
	if (read_prop(ctx, inode))
		return BTRFS_COMPRESS_NONE;
	short_lock(&inode->attr_lock);
	type = inode->compress_prop;
	short_unlock(&inode->attr_lock);
	if (type == BTRFS_COMPRESS_NONE)
		type = general;
	return type == BTRFS_COMPRESS_NONE ? BTRFS_COMPRESS_ZLIB : type;
}

void compress_gave_up(struct fsc_inode *inode)
{
	short_lock(&inode->attr_lock);
	if (inode->compress_prop == BTRFS_COMPRESS_NONE)
		inode->flags |= BTRFS_INODE_NOCOMPRESS;
	short_unlock(&inode->attr_lock);
}

/* -------------------------------------------------------------------- the property */

int compress_prop_check(struct fsc_inode *inode, const char *value, size_t len)
{
	uint64_t flags;
	uint8_t type;

	if (!value || !len)
		return 0;
	short_lock(&inode->attr_lock);
	flags = inode->flags;
	short_unlock(&inode->attr_lock);
	if (!can_compress(flags))
		return -EINVAL;
	return is_no_compression(value, len) || compress_type_parse(value, len, &type) ? 0
										       : -EINVAL;
}

void compress_prop_changed(
	struct txn_handle *h, struct fsc_inode *inode, const char *value, size_t len)
{
	uint8_t type = BTRFS_COMPRESS_NONE;

	short_lock(&inode->attr_lock);
	inode->flags &= ~(BTRFS_INODE_COMPRESS | BTRFS_INODE_NOCOMPRESS);
	if (value && compress_type_parse(value, len, &type))
		inode->flags |= BTRFS_INODE_COMPRESS;
	else if (value && len)
		inode->flags |= BTRFS_INODE_NOCOMPRESS;
	inode->compress_known = true;
	inode->compress_prop = type;
	short_unlock(&inode->attr_lock);
	compress_note_used(h, inode->subvol->vol, type);
}

int compress_prop_inherited(
	struct fsc_ctx *ctx, struct fsc_inode *dir, const struct fsc_inode *inode, uint8_t *type)
{
	uint64_t dir_flags;
	int ret;

	*type = BTRFS_COMPRESS_NONE;
	short_lock(&dir->attr_lock);
	dir_flags = dir->flags;
	short_unlock(&dir->attr_lock);
	/* To others it means nothing. */
	if (!(dir_flags & BTRFS_INODE_COMPRESS) || !can_compress(inode->flags) ||
		!(S_ISREG(inode->type) || S_ISDIR(inode->type)))
		return 0;
	ret = read_prop(ctx, dir);
	short_lock(&dir->attr_lock);
	*type = dir->compress_prop;
	short_unlock(&dir->attr_lock);
	return ret;
}

void compress_note_used(struct txn_handle *h, struct fsc_volume *vol, uint8_t type)
{
	struct fs_writing *fw = vol->w;
	uint64_t flag = 0;
	bool has;

	if (type == BTRFS_COMPRESS_LZO)
		flag = BTRFS_FEATURE_INCOMPAT_COMPRESS_LZO;
	else if (type == BTRFS_COMPRESS_ZSTD)
		flag = BTRFS_FEATURE_INCOMPAT_COMPRESS_ZSTD;
	if (!flag)
		return;
	short_lock(&fw->lock);
	has = GET(&fw->super, incompat_flags) & flag;
	PUT(&fw->super, incompat_flags, GET(&fw->super, incompat_flags) | flag);
	short_unlock(&fw->lock);
	/* The superblock of the last commit, which the log goes with, does not say so. */
	if (!has)
		log_forbid(h);
}

/* ------------------------------------------------------------------- a subvolume's */

int fsc_subvol_set_compress(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, const char *type)
{
	uint8_t value = BTRFS_COMPRESS_NONE;
	struct subvol *sv;
	int ret;

	if (type && !is_no_compression(type, strlen(type)) &&
		!compress_type_parse(type, strlen(type), &value))
		return -EINVAL;
	ret = subvol_get(ctx, vol, id, &sv);
	if (!ret)
		atomic_store_explicit(&sv->compress, value, memory_order_relaxed);
	return ret;
}
