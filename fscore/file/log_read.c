/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/log_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* ------------------------------------------------------------------------- walking */

static int get_block(struct fsc_ctx *ctx, struct meta_cache *mc, const struct block_expect *expect,
	struct mblock **out)
{
	int error;

	*out = meta_lookup(mc, expect, &error);
	if (*out || error)
		return error;
	return meta_read(ctx, mc, expect, out);
}

static struct block_expect child_of(const void *node, uint32_t slot)
{
	const struct btrfs_key_ptr *ptr = node_ptr(node, slot);

	return (struct block_expect){
		.logical = GET(ptr, blockptr),
		.generation = GET(ptr, generation),
		.level = (uint8_t)(block_level(node) - 1),
		.have_first_key = true,
		.first_key = key_from_disk(&ptr->key),
		.owner = BTRFS_TREE_LOG_OBJECTID,
		.tree = BTRFS_TREE_LOG_OBJECTID,
	};
}

/* Levels descend, so it ends, whatever the blocks say. */
static int walk_block(struct fsc_ctx *ctx, struct meta_cache *mc, const struct block_expect *expect,
	log_block_fn fn, void *arg)
{
	struct mblock *b;
	int ret = get_block(ctx, mc, expect, &b);

	if (ret)
		return ret;
	ret = fn(arg, b);
	for (uint32_t i = 0; !ret && expect->level && i < block_nritems(b->data); i++) {
		struct block_expect child = child_of(b->data, i);

		ret = walk_block(ctx, mc, &child, fn, arg);
	}
	meta_put(b);
	return ret;
}

int log_walk(struct fsc_ctx *ctx, const struct tree_root *root, log_block_fn fn, void *arg)
{
	struct block_expect expect = {
		.logical = root->bytenr,
		.generation = root->generation,
		.level = root->level,
		.owner = root->id,
		.tree = root->id,
	};

	return walk_block(ctx, root->mc, &expect, fn, arg);
}

/* ------------------------------------------------------------------------- finding */

static int add_log(struct fsc_ctx *ctx, struct fsc_volume *vol, struct subvol_logs *logs,
	uint64_t subvol, const struct btrfs_root_item *item)
{
	struct subvol_log *log = calloc(1, sizeof(*log));
	int ret = log ? subvol_get(ctx, vol, subvol, &log->sv) : -ENOMEM;

	if (ret && ret != -ENOENT) {
		free(log);
		return ret;
	}
	tree_root_init(&log->root, &vol->meta, BTRFS_TREE_LOG_OBJECTID, GET(item, bytenr),
		GET(item, generation), item->level);
	log->next = logs->first;
	logs->first = log;
	return 0;
}

/* The root item at key or after it. 1: there is no more. */
static int next_log(struct fsc_ctx *ctx, struct subvol_logs *logs, struct btrfs_key *key,
	struct btrfs_root_item *item)
{
	struct tree_path path = PATH_INIT;
	int ret = tree_search(ctx, &logs->root, key, &path);

	if (ret < 0)
		return ret;
	ret = 1;
	if (path_is_at(&path, BTRFS_TREE_LOG_OBJECTID, BTRFS_ROOT_ITEM_KEY)) {
		*key = path_key(&path);
		memset(item, 0, sizeof(*item));
		memcpy(item, path_data(&path), MIN(path_data_bytes(&path), sizeof(*item)));
		ret = 0;
	}
	path_release(&path);
	return ret;
}

int logs_open(struct fsc_ctx *ctx, struct fsc_volume *vol, struct subvol_logs *logs)
{
	const struct btrfs_super_block *sb = &vol->super;
	struct btrfs_key key = key_make(BTRFS_TREE_LOG_OBJECTID, BTRFS_ROOT_ITEM_KEY, 0);
	struct btrfs_root_item item;
	int ret;

	*logs = (struct subvol_logs){.has_root = true};
	tree_root_init(&logs->root, &vol->meta, BTRFS_TREE_LOG_OBJECTID, GET(sb, log_root),
		GET(sb, generation) + 1, sb->log_root_level);
	while (!(ret = next_log(ctx, logs, &key, &item))) {
		ret = add_log(ctx, vol, logs, key.offset, &item);
		if (ret)
			return ret;
		key.offset++;
	}
	return MIN(ret, 0);
}

void logs_close(struct subvol_logs *logs)
{
	while (logs->first) {
		struct subvol_log *log = logs->first;

		logs->first = log->next;
		tree_root_fini(&log->root);
		free(log);
	}
	if (logs->has_root)
		tree_root_fini(&logs->root);
}
