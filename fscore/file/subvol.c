/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/subvol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/writeback.h"

int root_item_read(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t objectid, struct btrfs_root_item *out)
{
	struct btrfs_key key = key_make(objectid, BTRFS_ROOT_ITEM_KEY, UINT64_MAX);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_before(ctx, &vol->root_tree, &key, &path);

	if (ret < 0)
		return ret;
	ret = -ENOENT;
	if (path_is_at(&path, objectid, BTRFS_ROOT_ITEM_KEY)) {
		/* Old kernels wrote a shorter item: what it lacks is zero. */
		memset(out, 0, sizeof(*out));
		memcpy(out, path_data(&path), MIN(path_data_bytes(&path), sizeof(*out)));
		ret = 0;
	}
	path_release(&path);
	return ret;
}

/* The place of a subvolume's name, from its back reference. */
static int read_parent(struct fsc_ctx *ctx, struct subvol *sv)
{
	struct btrfs_key key = key_make(sv->id, BTRFS_ROOT_BACKREF_KEY, 0);
	struct tree_path path =
		PATH_INIT_LIMIT(key_make(sv->id, BTRFS_ROOT_BACKREF_KEY, UINT64_MAX));
	int ret;

	if (sv->id == BTRFS_FS_TREE_OBJECTID)
		return 0;
	ret = tree_search(ctx, &sv->vol->root_tree, &key, &path);
	if (ret < 0)
		return ret;
	if (path_is_at(&path, sv->id, BTRFS_ROOT_BACKREF_KEY)) {
		const struct btrfs_root_ref *ref = path_data(&path);

		sv->parent_id = path_key(&path).offset;
		sv->parent_dirid = GET(ref, dirid);
	}
	path_release(&path);
	return 0;
}

static void set_uuid(struct subvol *sv, const struct btrfs_root_item *item)
{
	static const uint8_t none[FSC_UUID_BYTES];
	bool valid = GET(item, generation) == GET(item, generation_v2);

	if (valid && memcmp(item->uuid, none, sizeof(none))) {
		memcpy(sv->uuid, item->uuid, sizeof(sv->uuid));
		return;
	}
	/* Made by a kernel without subvolume UUIDs: unique in the volume all the same. */
	memcpy(sv->uuid, sv->vol->super.fsid, sizeof(sv->uuid));
	for (unsigned i = 0; i < 8; i++)
		sv->uuid[8 + i] ^= (uint8_t)(sv->id >> (8 * i));
}

static void free_subvol(struct subvol *sv)
{
	long_lock_fini(&sv->rename_lock);
	tree_root_fini(&sv->root);
	free(sv);
}

static struct subvol *find_locked(struct fsc_volume *vol, uint64_t id)
{
	struct subvol *sv = vol->subvols[hash_mix64(id) % SUBVOL_BUCKETS];

	while (sv && sv->id != id)
		sv = sv->next;
	return sv;
}

static bool is_subvol_id(uint64_t id)
{
	return id == BTRFS_FS_TREE_OBJECTID ||
		(id >= BTRFS_FIRST_FREE_OBJECTID && id <= BTRFS_LAST_FREE_OBJECTID);
}

static int read_subvol(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, struct subvol **out)
{
	struct btrfs_root_item item;
	struct subvol *sv;
	int ret;

	if (!is_subvol_id(id))
		return -ENOENT;
	ret = root_item_read(ctx, vol, id, &item);
	if (ret)
		return ret;
	/* No references: deleted, and waiting for the cleaner. */
	if (!GET(&item, refs))
		return -ENOENT;
	sv = calloc(1, sizeof(*sv));
	if (!sv)
		return -ENOMEM;
	sv->vol = vol;
	sv->id = id;
	sv->root_dirid = GET(&item, root_dirid);
	sv->flags = GET(&item, flags);
	sv->generation = GET(&item, generation);
	sv->otime = (struct fsc_time){(int64_t)GET(&item.otime, sec), GET(&item.otime, nsec)};
	set_uuid(sv, &item);
	ret = read_parent(ctx, sv);
	if (ret) {
		free(sv);
		return ret;
	}
	tree_root_init(
		&sv->root, &vol->meta, id, GET(&item, bytenr), GET(&item, generation), item.level);
	sv->root.last_snapshot = GET(&item, last_snapshot);
	long_lock_init(&sv->rename_lock, RANK_RENAME);
	*out = sv;
	return 0;
}

int subvol_get(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, struct subvol **out)
{
	struct subvol *fresh, *sv;
	int ret;

	short_lock(&vol->subvol_lock);
	sv = find_locked(vol, id);
	short_unlock(&vol->subvol_lock);
	if (sv) {
		*out = sv;
		return 0;
	}
	ret = read_subvol(ctx, vol, id, &fresh);
	if (ret)
		return ret;
	short_lock(&vol->subvol_lock);
	sv = find_locked(vol, id);
	if (!sv) {
		struct subvol **bucket = &vol->subvols[hash_mix64(id) % SUBVOL_BUCKETS];

		sv = fresh;
		sv->next = *bucket;
		*bucket = sv;
		fresh = NULL;
	}
	short_unlock(&vol->subvol_lock);
	if (fresh) {
		free_subvol(fresh);
	} else if (vol->w) {
		space_note_level(&vol->w->space, sv->root.level);
		flusher_new_subvol(sv);
	}
	*out = sv;
	return 0;
}

int subvol_check_ref(struct fsc_ctx *ctx, const struct subvol *parent, uint64_t dirid,
	const char *name, size_t name_len, uint64_t child)
{
	struct btrfs_key key = key_make(parent->id, BTRFS_ROOT_REF_KEY, child);
	struct tree_path path = PATH_INIT;
	int ret = tree_lookup(ctx, &parent->vol->root_tree, &key, &path);

	if (ret < 0)
		return ret;
	if (ret == 0) {
		const struct btrfs_root_ref *ref = path_data(&path);

		if (GET(ref, dirid) != dirid || GET(ref, name_len) != name_len ||
			memcmp(ref + 1, name, name_len))
			ret = -ENOENT;
	} else {
		ret = -ENOENT;
	}
	path_release(&path);
	return ret;
}

void subvol_table_free(struct fsc_volume *vol)
{
	for (unsigned i = 0; i < SUBVOL_BUCKETS; i++)
		while (vol->subvols[i]) {
			struct subvol *sv = vol->subvols[i];

			vol->subvols[i] = sv->next;
			free_subvol(sv);
		}
}
