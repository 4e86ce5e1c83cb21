/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fsc_setxattr(), fsc_removexattr() of fscore.h, and the verifier of exclusive creation. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/compress_prop.h"
#include "fscore/file/dir_item.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/log_note.h"
#include "fscore/file/xattr.h"
#include "fscore/format/csum.h"
#include "fscore/tree/leaf.h"

#define VERIFIER_NAME "trusted.byre.verifier"

struct xattr_change {
	const char *name;
	size_t name_len;
	const void *value; /* NULL: remove */
	size_t len;
	unsigned flags; /* FSC_XATTR_* */
};

static struct btrfs_key xattr_key(const struct fsc_inode *inode, const struct xattr_change *c)
{
	return key_make(inode->ino, BTRFS_XATTR_ITEM_KEY, name_hash(c->name, c->name_len));
}

static uint32_t entry_bytes(const struct xattr_change *c)
{
	return (uint32_t)(sizeof(struct btrfs_dir_item) + c->name_len + c->len);
}

static void fill_entry(char *at, const struct xattr_change *c, uint64_t transid)
{
	struct btrfs_dir_item *di = (struct btrfs_dir_item *)(void *)at;

	memset(di, 0, sizeof(*di));
	PUT(di, transid, transid);
	PUT(di, data_len, c->len);
	PUT(di, name_len, c->name_len);
	di->type = BTRFS_FT_XATTR;
	memcpy(at + sizeof(*di), c->name, c->name_len);
	if (c->len)
		memcpy(at + sizeof(*di) + c->name_len, c->value, c->len);
}

static uint32_t bytes_of(const struct btrfs_dir_item *di)
{
	return di ? (uint32_t)sizeof(*di) + GET(di, name_len) + GET(di, data_len) : 0;
}

/* The item has no other. */
static bool is_last_entry(const struct tree_path *path, const struct xattr_change *c)
{
	uint32_t bytes = path_data_bytes(path);

	return bytes == bytes_of(dir_item_find(path_data(path), bytes, c->name, c->name_len));
}

/* Takes the entry at `at`, n bytes, out of the item at the path, which has others. */
static void cut(struct tree_path *path, uint32_t at, uint32_t n)
{
	uint32_t bytes = path_data_bytes(path);
	char *data = path_data_mut(path);

	memmove(data + at, data + at + n, bytes - at - n);
	path_resize_item(path, bytes - n);
}

/*
 * Whether the change can be made, and by how much it makes its item grow (TREE_IN_PLACE: not at
 * all). What replaces an entry needs room only for what it has more: an item that is half a leaf
 * or full of others' entries still takes it.
 */
static int check_item(struct fsc_inode *inode, const struct tree_path *path,
	const struct xattr_change *c, int *grow)
{
	uint32_t bytes = path_data_bytes(path), add = c->value ? entry_bytes(c) : 0;
	const struct btrfs_dir_item *di =
		dir_item_find(path_data(path), bytes, c->name, c->name_len);
	uint32_t old = bytes_of(di);

	if (di ? c->flags & FSC_XATTR_CREATE : c->flags & FSC_XATTR_REPLACE || !c->value)
		return di ? -EEXIST : -ENODATA;
	if (bytes - old + add > tree_max_item_bytes(&inode->subvol->root))
		return -ENOSPC;
	*grow = add > old ? (int)(add - old) : TREE_IN_PLACE;
	return 0;
}

/* What is found stays so: nobody else changes this inode's attributes meanwhile. */
static int check_change(
	struct fsc_ctx *ctx, struct fsc_inode *inode, const struct xattr_change *c, int *grow)
{
	struct btrfs_key key = xattr_key(inode, c);
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(ctx, &inode->subvol->root, &key, &path);

	if (ret == 0) {
		ret = check_item(inode, &path, c, grow);
	} else if (ret > 0) {
		*grow = (int)entry_bytes(c);
		ret = c->flags & FSC_XATTR_REPLACE || !c->value ? -ENODATA : 0;
	}
	path_release(&path);
	return ret;
}

/* Changes the item that was found, with room for it to grow. */
static void change_item(struct txn_handle *h, struct tree_path *path, const struct xattr_change *c)
{
	const char *item = path_data(path);
	uint32_t bytes = path_data_bytes(path);
	const struct btrfs_dir_item *di = dir_item_find(item, bytes, c->name, c->name_len);
	uint32_t old = bytes_of(di);
	char *data;

	if (di && old < bytes)
		cut(path, (uint32_t)((const char *)di - item), old);
	bytes -= old;
	if (!c->value)
		return;
	data = path_resize_item(path, bytes + entry_bytes(c));
	fill_entry(data + bytes, c, h->w.generation);
}

static int apply(struct txn_handle *h, struct fsc_inode *inode, const struct xattr_change *c)
{
	struct btrfs_key key = xattr_key(inode, c);
	struct tree_path path = PATH_INIT;
	int grow, ret = check_change(h->w.ctx, inode, c, &grow);

	if (!ret)
		ret = tree_search_modify(&h->w, &inode->subvol->root, &key, grow, &path);
	if (ret < 0)
		return ret;
	if (ret == 1) {
		fill_entry(
			path_insert_item(&h->w, &path, &key, entry_bytes(c)), c, h->w.generation);
		ret = 0;
	} else if (!c->value && is_last_entry(&path, c)) {
		ret = path_delete_items(&h->w, &path, 1);
	} else {
		change_item(h, &path, c);
	}
	path_release(&path);
	return ret;
}

static bool is_compress_prop(const char *name)
{
	return !strcmp(name, COMPRESS_PROP);
}

static int change(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct xattr_change *c)
{
	struct txn_handle h;
	int ret = inode_check_writable(inode);

	if (!ret && (!c->name_len || c->name_len > FSC_NAME_MAX))
		ret = -ERANGE;
	if (!ret && entry_bytes(c) > tree_max_item_bytes(&inode->subvol->root))
		ret = -ENOSPC;
	if (!ret)
		ret = inode_lock(ctx, inode);
	if (ret)
		return ret;
	if (inode_is_unlinked(inode))
		ret = -ESTALE;
	else if (is_compress_prop(c->name))
		ret = compress_prop_check(inode, c->value, c->len);
	if (!ret)
		ret = txn_join(
			ctx, &inode->subvol->vol->w->txns, 2, c->value ? 0 : TXN_USE_GLOBAL, &h);
	if (!ret) {
		/* One item changes, or none. */
		ret = apply(&h, inode, c);
		if (!ret) {
			short_lock(&inode->attr_lock);
			inode_changed_locked(inode, time_now());
			if (xattr_hash_is_acl(xattr_key(inode, c).offset))
				inode->attr.has_acl = true;
			short_unlock(&inode->attr_lock);
			if (is_compress_prop(c->name))
				compress_prop_changed(&h, inode, c->value, c->len);
			inode_mark_dirty(&h, inode);
			log_xattrs(&h, inode);
		}
		txn_end(&h);
	}
	inode_unlock(inode);
	return ret;
}

int fsc_setxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name, const void *value,
	size_t len, unsigned flags)
{
	struct xattr_change c = {.name = name,
		.name_len = strlen(name),
		.value = value ? value : "",
		.len = len,
		.flags = flags};
	int ret;

	/* A property without a value is none. */
	if (!len && is_compress_prop(name))
		c.value = NULL;
	ret = change(ctx, inode, &c);
	return ret == -ENODATA && !c.value && !(flags & FSC_XATTR_REPLACE) ? 0 : ret;
}

int fsc_removexattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name)
{
	struct xattr_change c = {.name = name, .name_len = strlen(name)};

	return change(ctx, inode, &c);
}

int xattr_insert_prepared(struct txn_handle *h, struct fsc_inode *inode, const char *name,
	const void *value, size_t len)
{
	struct xattr_change c = {
		.name = name, .name_len = strlen(name), .value = value, .len = len};
	struct btrfs_key key = xattr_key(inode, &c);
	struct tree_path path = PATH_INIT;
	uint32_t bytes = entry_bytes(&c);
	int ret = tree_search_prepared(&h->w, &inode->subvol->root, &key, (int)bytes, &path);

	if (ret == 1) {
		fill_entry(path_insert_item(&h->w, &path, &key, bytes), &c, h->w.generation);
		ret = 0;
	} else if (ret == 0) {
		ret = -EEXIST;
	}
	path_release(&path);
	return ret;
}

int verifier_store(struct txn_handle *h, struct fsc_inode *inode, const uint8_t *verifier)
{
	struct xattr_change c = {.name = VERIFIER_NAME,
		.name_len = strlen(VERIFIER_NAME),
		.value = verifier,
		.len = FSC_VERIFIER_BYTES};

	return apply(h, inode, &c);
}

int verifier_drop(struct txn_handle *h, struct fsc_inode *inode)
{
	struct xattr_change c = {.name = VERIFIER_NAME, .name_len = strlen(VERIFIER_NAME)};
	int ret = apply(h, inode, &c);

	return ret == -ENODATA ? 0 : ret;
}

int verifier_exists(struct fsc_ctx *ctx, struct fsc_inode *inode, bool *exists)
{
	size_t len;
	int ret = fsc_getxattr(ctx, inode, VERIFIER_NAME, NULL, 0, &len);

	*exists = ret == 0;
	return ret == -ENODATA ? 0 : ret;
}

int fsc_verifier_check(
	struct fsc_ctx *ctx, struct fsc_inode *inode, const uint8_t verifier[FSC_VERIFIER_BYTES])
{
	uint8_t has[FSC_VERIFIER_BYTES];
	size_t len;
	int ret = fsc_getxattr(ctx, inode, VERIFIER_NAME, has, sizeof(has), &len);

	if (ret == -ENODATA || ret == -ERANGE)
		return -EEXIST;
	if (ret)
		return ret;
	return len == sizeof(has) && !memcmp(has, verifier, sizeof(has)) ? 0 : -EEXIST;
}
