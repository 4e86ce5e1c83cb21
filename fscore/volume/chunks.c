/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/volume/chunks.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"

/* A chunk that has passed chunk_item_check(). */
static int add_chunk(
	struct fsc_volume *vol, const struct btrfs_key *key, const struct btrfs_chunk *item)
{
	const struct btrfs_stripe *stripes = &item->stripe;
	struct chunk chunk = {
		.logical = key->offset,
		.length_bytes = GET(item, length),
		.type = GET(item, type),
		.n_mirrors = GET(item, num_stripes),
	};
	int ret;

	for (unsigned i = 0; i < chunk.n_mirrors; i++) {
		if (GET(&stripes[i], devid) != GET(&vol->super.dev_item, devid)) {
			log_error("chunk %llu is on device %llu: volumes of several devices are "
				  "not supported",
				(unsigned long long)chunk.logical,
				(unsigned long long)GET(&stripes[i], devid));
			return -EOPNOTSUPP;
		}
		chunk.physical[i] = GET(&stripes[i], offset);
	}
	ret = chunk_map_add(&vol->chunks, &chunk);
	if (ret == -EEXIST) {
		log_error("chunk %llu overlaps another one", (unsigned long long)chunk.logical);
		return -EUCLEAN;
	}
	return ret;
}

static int bad_array(const char *why)
{
	log_error("superblock: system chunk array: %s", why);
	return -EUCLEAN;
}

int chunks_read_system(struct fsc_volume *vol)
{
	const uint8_t *at = vol->super.sys_chunk_array;
	size_t left = GET(&vol->super, sys_chunk_array_size);
	char why[160];

	while (left) {
		struct btrfs_chunk chunk;
		struct btrfs_disk_key disk_key;
		struct btrfs_key key;
		size_t n;
		int ret;

		if (left < sizeof(disk_key) + sizeof(chunk))
			return bad_array("an entry is cut off");
		memcpy(&disk_key, at, sizeof(disk_key));
		memcpy(&chunk, at + sizeof(disk_key), sizeof(chunk));
		key = key_from_disk(&disk_key);
		n = sizeof(chunk) - sizeof(struct btrfs_stripe) +
			GET(&chunk, num_stripes) * sizeof(struct btrfs_stripe);
		if (n > left - sizeof(disk_key))
			return bad_array("an entry is cut off");
		ret = chunk_item_check(&vol->geo, &key,
			(const struct btrfs_chunk *)(const void *)(at + sizeof(disk_key)), n, why,
			sizeof(why));
		if (ret)
			return bad_array(why);
		if (!(GET(&chunk, type) & BTRFS_BLOCK_GROUP_SYSTEM))
			return bad_array("a chunk that is not a system chunk");
		ret = add_chunk(vol, &key,
			(const struct btrfs_chunk *)(const void *)(at + sizeof(disk_key)));
		if (ret)
			return ret;
		at += sizeof(disk_key) + n;
		left -= sizeof(disk_key) + n;
	}
	return 0;
}

int chunks_read_tree(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	struct btrfs_key key = key_make(BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT_LIMIT(
		key_make(BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, UINT64_MAX));
	int ret = tree_search(ctx, &vol->chunk_tree, &key, &path);

	ret = MIN(ret, 0);
	while (!ret && path_is_at(&path, BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY)) {
		key = path_key(&path);
		ret = add_chunk(vol, &key, path_data(&path));
		if (!ret)
			ret = tree_next(ctx, &path);
	}
	path_release(&path);
	return ret;
}
