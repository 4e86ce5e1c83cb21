/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/xattr.h"

#include <errno.h>
#include <string.h>

#include "fscore/file/dir_item.h"
#include "fscore/file/inode.h"
#include "fscore/format/csum.h"

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

bool xattr_hash_is_acl(uint64_t hash)
{
	return hash == name_hash(ACL_ACCESS, strlen(ACL_ACCESS)) ||
		hash == name_hash(ACL_DEFAULT, strlen(ACL_DEFAULT));
}

static int copy_value(const struct btrfs_dir_item *di, void *buf, size_t size, size_t *len)
{
	*len = GET(di, data_len);
	if (!size)
		return 0;
	if (*len > size)
		return -ERANGE;
	memcpy(buf, dir_item_data(di), *len);
	return 0;
}

int fsc_getxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name, void *buf,
	size_t size, size_t *len)
{
	size_t name_len = strlen(name);
	struct btrfs_key key =
		key_make(inode->ino, BTRFS_XATTR_ITEM_KEY, name_hash(name, name_len));
	const struct btrfs_dir_item *di = NULL;
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(ctx, &inode->subvol->root, &key, &path);

	if (ret < 0)
		return ret;
	if (ret == 0)
		di = dir_item_find(path_data(&path), path_data_bytes(&path), name, name_len);
	ret = di ? copy_value(di, buf, size, len) : -ENODATA;
	path_release(&path);
	return ret;
}

/* Appends the names in one item; *len counts them all, also without room. */
static void copy_names(const struct tree_path *path, char *buf, size_t size, size_t *len)
{
	const void *item = path_data(path);
	const struct btrfs_dir_item *di = item;

	for (; di; di = dir_item_next(item, path_data_bytes(path), di)) {
		size_t n = GET(di, name_len);

		if (*len + n + 1 <= size) {
			memcpy(buf + *len, dir_item_name(di), n);
			buf[*len + n] = '\0';
		}
		*len += n + 1;
	}
}

int fsc_listxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, char *buf, size_t size, size_t *len)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_XATTR_ITEM_KEY, 0);
	struct tree_path path =
		PATH_INIT_LIMIT(key_make(inode->ino, BTRFS_XATTR_ITEM_KEY, UINT64_MAX));
	int ret = tree_search(ctx, &inode->subvol->root, &key, &path);

	*len = 0;
	while (ret >= 0 && path_is_at(&path, inode->ino, BTRFS_XATTR_ITEM_KEY)) {
		copy_names(&path, buf, size, len);
		ret = tree_next(ctx, &path);
	}
	path_release(&path);
	if (ret < 0)
		return ret;
	return size && *len > size ? -ERANGE : 0;
}
