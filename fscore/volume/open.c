/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/volume/open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/file/dir_item.h"
#include "fscore/file/inode.h"
#include "fscore/file/subvol.h"
#include "fscore/format/csum.h"
#include "fscore/format/super.h"
#include "fscore/io/thread.h"
#include "fscore/volume/chunks.h"
#include "fscore/volume/writing.h"

#define DEFAULT_CACHE_BYTES (256ull << 20)
#define MIN_CACHE_BYTES	    (16ull << 20)

/* -------------------------------------------------------------- superblock */

/*
 * Reads the copies of the superblock, and takes the newest good one. Says so when
 * the first one, which the kernel relies on, is not good.
 */
static int read_super(struct fsc_thread *t, struct fsc_volume *vol, const char *name)
{
	struct btrfs_super_block *sb = aligned_alloc(4096, BTRFS_SUPER_BYTES);
	char why[160] = "the device is too small", first_why[160] = "";
	bool found = false;
	int first_ret = -EINVAL;

	if (!sb)
		return -ENOMEM;
	for (unsigned i = 0; i < BTRFS_SUPER_MIRRORS; i++) {
		uint64_t at = super_mirror_physical(i);
		int ret = -EINVAL;

		if (at + BTRFS_SUPER_BYTES <= vol->dev->size_bytes) {
			ret = dev_rw_sync(vol->dev, t, IO_READ, at, sb, BTRFS_SUPER_BYTES);
			if (ret)
				snprintf(why, sizeof(why), "%s", strerror(-ret));
			else
				ret = super_check(sb, at, vol->dev->size_bytes, why, sizeof(why));
		}
		if (i == 0 && ret) {
			first_ret = ret;
			memcpy(first_why, why, sizeof(why));
		}
		if (ret || (found && GET(sb, generation) <= GET(&vol->super, generation)))
			continue;
		/* Copies of another, older volume may have survived a new mkfs. */
		if (found && memcmp(sb->fsid, vol->super.fsid, sizeof(sb->fsid)))
			continue;
		vol->super = *sb;
		found = true;
		/* As the kernel does: the first one is written durably, the copies are for when it is bad. */
		if (i == 0)
			break;
	}
	free(sb);
	/*
	 * No magic where the first one should be: wipefs or another mkfs has been there, and the
	 * copies are what they have left.
	 */
	if (first_ret == -EINVAL && first_why[0])
		found = false;
	if (!found) {
		log_error("%s: %s%s", name, first_ret == -EINVAL ? "not a btrfs volume: " : "",
			first_why);
		return first_ret;
	}
	if (first_why[0])
		log_warning("%s: the first %s; using another copy", name, first_why);
	return 0;
}

static int check_features(struct fsc_volume *vol, const char *name)
{
	char names[256];

	if (super_unknown_incompat(&vol->super, names, sizeof(names))) {
		log_error("%s: unsupported incompatible features: %s", name, names);
		return -EOPNOTSUPP;
	}
	if (GET(&vol->super, num_devices) != 1) {
		log_error("%s: volumes of several devices are not supported (this has %llu)", name,
			(unsigned long long)GET(&vol->super, num_devices));
		return -EOPNOTSUPP;
	}
	if (super_unknown_compat_ro(&vol->super, names, sizeof(names))) {
		log_notice("%s: opened read-only: unsupported features: %s", name, names);
		vol->read_only = true;
	}
	if (GET(&vol->super, flags) & BTRFS_SUPER_FLAG_SEEDING) {
		log_notice("%s: opened read-only: a seed", name);
		vol->read_only = true;
	}
	if (GET(&vol->super, flags) & (BTRFS_SUPER_FLAG_METADUMP | BTRFS_SUPER_FLAG_METADUMP_V2)) {
		log_notice("%s: opened read-only: a dump of metadata, without data", name);
		vol->read_only = true;
	}
	return 0;
}

static void set_geometry(struct fsc_volume *vol)
{
	const struct btrfs_super_block *sb = &vol->super;

	vol->geo = (struct volume_geometry){
		.sector_bytes = GET(sb, sectorsize),
		.node_bytes = GET(sb, nodesize),
		.csum_type = GET(sb, csum_type),
		.csum_bytes = (uint16_t)csum_bytes(GET(sb, csum_type)),
		.generation = GET(sb, generation),
		.incompat_flags = GET(sb, incompat_flags),
	};
	memcpy(vol->geo.fsid, super_metadata_fsid(sb), sizeof(vol->geo.fsid));
}

/* ------------------------------------------------------------------- trees */

static int open_csum_tree(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *name)
{
	struct btrfs_root_item item;
	int ret = root_item_read(ctx, vol, BTRFS_CSUM_TREE_OBJECTID, &item);

	if (ret == -ENOENT || ret == -EUCLEAN || ret == -EIO) {
		log_error("%s: no checksum tree: files with checksums can't be read", name);
		vol->read_only = true;
		return 0;
	}
	if (ret)
		return ret;
	tree_root_init(&vol->csum_tree, &vol->meta, BTRFS_CSUM_TREE_OBJECTID, GET(&item, bytenr),
		GET(&item, generation), item.level);
	vol->has_csum_tree = true;
	return 0;
}

/* The default subvolume has an entry in the root tree's own directory. */
static int read_default_subvol(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	static const char name[] = "default";
	size_t name_len = sizeof(name) - 1;
	struct btrfs_key key = key_make(
		GET(&vol->super, root_dir_objectid), BTRFS_DIR_ITEM_KEY, name_hash(name, name_len));
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(ctx, &vol->root_tree, &key, &path);

	vol->default_subvol = FSC_SUBVOL_TOP;
	if (ret == 0) {
		const struct btrfs_dir_item *di =
			dir_item_find(path_data(&path), path_data_bytes(&path), name, name_len);

		if (di)
			vol->default_subvol = key_from_disk(&di->location).objectid;
	}
	path_release(&path);
	return MIN(ret, 0);
}

static int open_trees(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *name)
{
	const struct btrfs_super_block *sb = &vol->super;
	int ret;

	tree_root_init(&vol->chunk_tree, &vol->meta, BTRFS_CHUNK_TREE_OBJECTID, GET(sb, chunk_root),
		GET(sb, chunk_root_generation), sb->chunk_root_level);
	tree_root_init(&vol->root_tree, &vol->meta, BTRFS_ROOT_TREE_OBJECTID, GET(sb, root),
		GET(sb, generation), sb->root_level);
	ret = chunks_read_tree(ctx, vol);
	if (!ret)
		ret = open_csum_tree(ctx, vol, name);
	if (!ret)
		ret = read_default_subvol(ctx, vol);
	return ret;
}

/* -------------------------------------------------------------- open, close */

static int init_caches(struct fsc_volume *vol, const struct fsc_open_options *opt)
{
	uint64_t bytes = opt->cache_bytes ? opt->cache_bytes : DEFAULT_CACHE_BYTES;
	int ret;

	bytes = MAX(bytes, MIN_CACHE_BYTES);
	/* Metadata 3/8, data 1/2, inodes 1/8. */
	ret = meta_cache_init(&vol->meta, &vol->geo, vol->dev, &vol->chunks, bytes / 8 * 3);
	if (!ret)
		ret = page_pool_init(&vol->pages, bytes / 2, vol->geo.sector_bytes);
	if (!ret)
		ret = inode_table_init(vol, bytes / 8);
	return ret;
}

static void free_volume(struct fsc_volume *vol)
{
	inode_table_free(vol);
	subvol_table_free(vol);
	page_pool_fini(&vol->pages);
	meta_cache_fini(&vol->meta);
	chunk_map_fini(&vol->chunks);
	free(vol);
}

/* All but the device. */
static void close_volume(struct fsc_thread *t, struct fsc_volume *vol)
{
	if (!vol)
		return;
	writing_close(t, vol);
	/* What was started ahead of need may still be on its way. */
	while (t->in_flight)
		fsc_thread_wait(t);
	fsc_thread_reap(t);
	free_volume(vol);
}

static int open_volume(struct fsc_thread *t, struct fsc_volume *vol, const char *name,
	const struct fsc_open_options *opt)
{
	struct fsc_ctx ctx = {.thread = t};
	int ret = read_super(t, vol, name);

	if (!ret)
		ret = check_features(vol, name);
	if (ret)
		return ret;
	set_geometry(vol);
	ret = init_caches(vol, opt);
	if (!ret)
		ret = chunks_read_system(vol);
	if (!ret)
		ret = open_trees(&ctx, vol, name);
	if (!ret && !vol->read_only)
		ret = writing_open(&ctx, vol, name);
	if (!ret && vol->read_only && GET(&vol->super, log_root))
		log_notice("%s: opened read-only, as of the last commit: its log tree has not "
			   "been replayed",
			name);
	return ret;
}

/* One try. *failed: what could not be made right before writing; it may still be read. */
static int try_open(struct fsc_thread *t, struct dev *dev, const char *name,
	const struct fsc_open_options *opt, const char **failed, struct fsc_volume **out)
{
	struct fsc_volume *vol = calloc(1, sizeof(*vol));
	int ret;

	*failed = NULL;
	if (!vol)
		return -ENOMEM;
	vol->dev = dev;
	vol->read_only = opt->read_only || dev->read_only;
	vol->discard = opt->discard;
	vol->data_lost = opt->data_lost;
	vol->data_lost_arg = opt->data_lost_arg;
	short_lock_init(&vol->subvol_lock, RANK_SUBVOL_TABLE);
	chunk_map_init(&vol->chunks);
	ret = open_volume(t, vol, name, opt);
	if (ret) {
		*failed = vol->w ? vol->w->failing : NULL;
		close_volume(t, vol);
	} else {
		*out = vol;
	}
	return ret;
}

int volume_open_dev(struct fsc_thread *t, struct dev *dev, const char *name,
	const struct fsc_open_options *opt, struct fsc_volume **out)
{
	uint64_t said = log_error_count();
	const char *failed;
	int ret = try_open(t, dev, name, opt, &failed, out);

	if (ret && failed) {
		struct fsc_open_options again = *opt;

		log_error("%s: %s: %s", name, failed, strerror(-ret));
		again.read_only = true;
		ret = try_open(t, dev, name, &again, &failed, out);
	}
	if (!ret)
		return 0;
	/* One line is enough, and most of what fails says more than this. */
	if (log_error_count() == said)
		log_error("%s: can't open the volume: %s", name, strerror(-ret));
	dev_destroy(dev);
	return ret;
}

int fsc_volume_open(struct fsc_thread *t, const char *path, const struct fsc_open_options *opt,
	struct fsc_volume **out)
{
	struct dev *dev;
	int ret = dev_uring_open(path, opt->read_only, opt->no_lock, &dev);

	return ret ? ret : volume_open_dev(t, dev, path, opt, out);
}

void fsc_volume_close(struct fsc_thread *t, struct fsc_volume *vol)
{
	struct dev *dev = vol ? vol->dev : NULL;

	close_volume(t, vol);
	dev_destroy(dev);
}
