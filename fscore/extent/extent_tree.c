/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/extent/extent_tree.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/tree/leaf.h"

/* An extent, and the reference to it that is being written. */
struct ref_job {
	struct tree_writer *w;
	struct extents *e;
	const struct delayed_head *head;
	struct ref_key key;
	int64_t count; /* > 0 comes, < 0 goes */
	uint8_t type;  /* of the reference */
};

static bool is_skinny(const struct extents *e)
{
	return e->geo->incompat_flags & BTRFS_FEATURE_INCOMPAT_SKINNY_METADATA;
}

static int damaged(uint64_t logical, const char *what)
{
	log_error("extent %llu: %s", (unsigned long long)logical, what);
	return -EUCLEAN;
}

/* ------------------------------------------------------------- extent items */

static struct btrfs_key extent_key(
	const struct extents *e, uint64_t logical, uint64_t bytes, bool is_data, uint8_t level)
{
	if (!is_data && is_skinny(e))
		return key_make(logical, BTRFS_METADATA_ITEM_KEY, level);
	return key_make(logical, BTRFS_EXTENT_ITEM_KEY, bytes);
}

static struct btrfs_key head_key(const struct ref_job *job)
{
	const struct delayed_head *h = job->head;

	return extent_key(job->e, h->logical, h->bytes, h->is_data, h->level);
}

static bool has_block_info(const struct tree_path *path, bool is_data)
{
	return !is_data && path_key(path).type == BTRFS_EXTENT_ITEM_KEY;
}

/* Finds the extent's item, to change it. A block may have the older kind of item. */
static int find_item(const struct ref_job *job, int ins_bytes, struct tree_path *path)
{
	struct btrfs_key key = head_key(job);
	int ret = tree_search_modify(job->w, job->e->extent_tree, &key, ins_bytes, path);

	if (ret == 1 && key.type == BTRFS_METADATA_ITEM_KEY) {
		path_release(path);
		key = key_make(job->head->logical, BTRFS_EXTENT_ITEM_KEY, job->head->bytes);
		ret = tree_search_modify(job->w, job->e->extent_tree, &key, ins_bytes, path);
	}
	if (ret == 1) {
		path_release(path);
		return damaged(job->head->logical, "has no item");
	}
	return ret;
}

static int find_inline(
	const struct ref_job *job, const struct tree_path *path, struct ref_place *place)
{
	int ret = ref_find_inline(path_data(path), path_data_bytes(path),
		has_block_info(path, job->head->is_data), job->type, &job->key, place);

	return ret ? damaged(job->head->logical, "inline references are damaged") : 0;
}

/* A new extent: its item, with its first reference. */
static int insert_item(const struct ref_job *job, uint64_t flags)
{
	const struct delayed_head *h = job->head;
	struct btrfs_key key = head_key(job);
	bool info = !h->is_data && key.type == BTRFS_EXTENT_ITEM_KEY;
	uint32_t bytes = (uint32_t)sizeof(struct btrfs_extent_item) +
		(info ? (uint32_t)sizeof(struct btrfs_tree_block_info) : 0) +
		ref_inline_bytes(job->type);
	struct tree_path path = PATH_INIT;
	struct btrfs_extent_item *item;
	int ret = tree_search_modify(job->w, job->e->extent_tree, &key, (int)bytes, &path);

	if (ret < 0)
		return ret;
	if (ret == 0) {
		path_release(&path);
		return damaged(h->logical, "is new, but has an item");
	}
	item = path_insert_item(job->w, &path, &key, bytes);
	PUT(item, refs, job->count);
	PUT(item, generation, job->w->generation);
	PUT(item, flags,
		flags | (h->is_data ? BTRFS_EXTENT_FLAG_DATA : BTRFS_EXTENT_FLAG_TREE_BLOCK));
	if (info) {
		struct btrfs_tree_block_info *bi = (void *)(item + 1);

		bi->key = h->first_key;
		bi->level = h->level;
	}
	ref_write_inline((char *)item + bytes - ref_inline_bytes(job->type), job->type, &job->key,
		job->count);
	path_release(&path);
	return space_tree_add(job->w, job->e->space, h->logical, h->bytes);
}

static int set_flags(const struct ref_job *job, uint64_t flags)
{
	struct tree_path path = PATH_INIT;
	struct btrfs_extent_item *item;
	int ret = find_item(job, TREE_IN_PLACE, &path);

	if (ret)
		return ret;
	item = path_data_mut(&path);
	PUT(item, flags, GET(item, flags) | flags);
	path_release(&path);
	return 0;
}

/* -------------------------------------------------- references in items of their own */

static struct btrfs_key keyed_ref_key(const struct ref_job *job)
{
	uint64_t offset = job->key.parent ? job->key.parent : job->key.root;

	if (job->type == BTRFS_EXTENT_DATA_REF_KEY)
		offset = extent_data_ref_hash(job->key.root, job->key.objectid, job->key.offset);
	return key_make(job->head->logical, job->type, offset);
}

static bool is_the_data_ref(const struct btrfs_extent_data_ref *d, const struct ref_key *key)
{
	return GET(d, root) == key->root && GET(d, objectid) == key->objectid &&
		GET(d, offset) == key->offset;
}

/*
 * Finds the item of a reference, to change it; names with the same hash take the next
 * places. 0 found; 1: it is not there, key is a free place.
 */
static int find_keyed(
	const struct ref_job *job, int ins_bytes, struct btrfs_key *key, struct tree_path *path)
{
	*key = keyed_ref_key(job);
	for (;; key->offset++) {
		int ret = tree_search_modify(job->w, job->e->extent_tree, key, ins_bytes, path);

		if (ret || job->type != BTRFS_EXTENT_DATA_REF_KEY ||
			is_the_data_ref(path_data(path), &job->key))
			return ret;
		path_release(path);
	}
}

static uint32_t keyed_bytes(uint8_t type)
{
	if (type == BTRFS_EXTENT_DATA_REF_KEY)
		return (uint32_t)sizeof(struct btrfs_extent_data_ref);
	if (type == BTRFS_SHARED_DATA_REF_KEY)
		return (uint32_t)sizeof(struct btrfs_shared_data_ref);
	return 0;
}

static int64_t keyed_count(const struct tree_path *path, uint8_t type)
{
	const void *data = path_data(path);

	if (type == BTRFS_EXTENT_DATA_REF_KEY)
		return GET((const struct btrfs_extent_data_ref *)data, count);
	if (type == BTRFS_SHARED_DATA_REF_KEY)
		return GET((const struct btrfs_shared_data_ref *)data, count);
	return 1;
}

static void set_keyed_count(struct tree_path *path, uint8_t type, int64_t count)
{
	void *data = path_data_mut(path);

	if (type == BTRFS_EXTENT_DATA_REF_KEY)
		PUT((struct btrfs_extent_data_ref *)data, count, count);
	else if (type == BTRFS_SHARED_DATA_REF_KEY)
		PUT((struct btrfs_shared_data_ref *)data, count, count);
}

static int add_keyed(const struct ref_job *job)
{
	struct tree_path path = PATH_INIT;
	struct btrfs_key key;
	uint32_t bytes = keyed_bytes(job->type);
	int ret = find_keyed(job, (int)bytes, &key, &path);

	if (ret < 0)
		return ret;
	if (ret == 0) {
		set_keyed_count(&path, job->type, keyed_count(&path, job->type) + job->count);
	} else {
		void *data = path_insert_item(job->w, &path, &key, bytes);

		if (job->type == BTRFS_EXTENT_DATA_REF_KEY) {
			struct btrfs_extent_data_ref *d = data;

			PUT(d, root, job->key.root);
			PUT(d, objectid, job->key.objectid);
			PUT(d, offset, job->key.offset);
		}
		set_keyed_count(&path, job->type, job->count);
	}
	path_release(&path);
	return 0;
}

static int drop_keyed(const struct ref_job *job)
{
	struct tree_path path = PATH_INIT;
	struct btrfs_key key;
	int64_t left;
	int ret = find_keyed(job, TREE_IN_PLACE, &key, &path);

	if (ret < 0)
		return ret;
	left = ret == 0 ? keyed_count(&path, job->type) + job->count : -1;
	ret = 0;
	if (left > 0)
		set_keyed_count(&path, job->type, left);
	else if (left == 0)
		ret = path_delete_items(job->w, &path, 1);
	else
		ret = damaged(job->head->logical, "a reference to drop is not there");
	path_release(&path);
	return ret;
}

/* Whether the extent has references in items of their own. The path is at its item. */
static int has_keyed(const struct ref_job *job, bool *out)
{
	struct btrfs_key key = key_make(job->head->logical, BTRFS_METADATA_ITEM_KEY + 1, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(job->w->ctx, job->e->extent_tree, &key, &path);

	if (ret < 0)
		return ret;
	*out = false;
	if (path_valid(&path)) {
		key = path_key(&path);
		*out = key.objectid == job->head->logical && key.type < BTRFS_BLOCK_GROUP_ITEM_KEY;
	}
	path_release(&path);
	return 0;
}

/* -------------------------------------------------------------- adding, dropping */

static void change_refs(struct tree_path *path, int64_t delta)
{
	struct btrfs_extent_item *item = path_data_mut(path);

	PUT(item, refs, (int64_t)GET(item, refs) + delta);
}

/* The largest extent item: references beyond it are items of their own. */
static uint32_t max_item_bytes(const struct extents *e)
{
	return (leaf_capacity_bytes(e->geo->node_bytes) >> 4) - (uint32_t)sizeof(struct btrfs_item);
}

/* Puts a new inline reference in the item at the path, which has room in its leaf. */
static void insert_inline(const struct ref_job *job, struct tree_path *path, uint32_t offset)
{
	uint32_t bytes = path_data_bytes(path), n = ref_inline_bytes(job->type);
	char *data = path_resize_item(path, bytes + n);

	memmove(data + offset + n, data + offset, bytes - offset);
	ref_write_inline(data + offset, job->type, &job->key, job->count);
	change_refs(path, job->count);
}

static int add_ref(const struct ref_job *job)
{
	uint32_t n = ref_inline_bytes(job->type);
	struct tree_path path = PATH_INIT;
	struct ref_place place;
	bool keyed;
	int ret = has_keyed(job, &keyed);

	if (!ret)
		ret = find_item(job, (int)n, &path);
	if (!ret)
		ret = find_inline(job, &path, &place);
	if (ret) {
		path_release(&path);
		return ret;
	}
	if (place.found) {
		ref_write_inline((char *)path_data_mut(&path) + place.offset, job->type, &job->key,
			place.count + job->count);
		change_refs(&path, job->count);
	} else if (!keyed && path_data_bytes(&path) + n < max_item_bytes(job->e)) {
		insert_inline(job, &path, place.offset);
	} else {
		change_refs(&path, job->count);
		path_release(&path);
		return add_keyed(job);
	}
	path_release(&path);
	return 0;
}

/* The item at the path, with its last reference, goes; and what belongs to the extent. */
static int free_extent(const struct ref_job *job, struct tree_path *path)
{
	const struct delayed_head *h = job->head;
	int ret = path_delete_items(job->w, path, 1);

	path_release(path);
	if (!ret && h->is_data)
		ret = csum_delete(job->w, job->e->csum_tree, job->e->geo, h->logical, h->bytes);
	return ret ? ret : space_tree_remove(job->w, job->e->space, h->logical, h->bytes);
}

static int drop_inline(
	const struct ref_job *job, struct tree_path *path, const struct ref_place *place)
{
	uint32_t n = ref_inline_bytes(job->type), bytes = path_data_bytes(path);
	int64_t left = place->count + job->count;
	char *data = path_data_mut(path);

	if (left < 0)
		return damaged(job->head->logical, "more references go than there are");
	if (left > 0) {
		ref_write_inline(data + place->offset, job->type, &job->key, left);
		return 0;
	}
	memmove(data + place->offset, data + place->offset + n, bytes - place->offset - n);
	path_resize_item(path, bytes - n);
	return 0;
}

static int drop_ref(const struct ref_job *job)
{
	struct tree_path path = PATH_INIT;
	struct ref_place place;
	uint64_t left;
	int ret = find_item(job, TREE_IN_PLACE, &path);

	if (ret)
		return ret;
	ret = find_inline(job, &path, &place);
	if (!ret && !place.found) {
		/* Its own item goes first, so that the extent's stays until the last. */
		path_release(&path);
		ret = drop_keyed(job);
		if (!ret)
			ret = find_item(job, TREE_IN_PLACE, &path);
	} else if (!ret) {
		ret = drop_inline(job, &path, &place);
	}
	if (!ret) {
		change_refs(&path, job->count);
		left = GET((const struct btrfs_extent_item *)path_data(&path), refs);
		if (left == 0)
			return free_extent(job, &path);
	}
	path_release(&path);
	return ret;
}

/* ------------------------------------------------------------------- running */

/*
 * What has come and gone in one transaction: no item; but data has checksums, and a read may have
 * looked it up.
 */
static int free_unborn(const struct ref_job *job)
{
	const struct delayed_head *h = job->head;
	struct space *space = job->e->space;
	int ret;

	if (!h->is_data) {
		space_free_unused(space, h->logical, h->bytes);
		return 0;
	}
	ret = csum_delete(job->w, job->e->csum_tree, job->e->geo, h->logical, h->bytes);
	return ret ? ret : space_pin_unused(space, job->w->generation, h->logical, h->bytes);
}

static int run_head(struct tree_writer *w, struct extents *e, struct delayed_head *head,
	size_t *budget, bool limited)
{
	struct ref_job job = {.w = w, .e = e, .head = head};
	uint64_t new_flags;
	bool is_new;
	/* Before the item goes: without a free-space tree it is made from the items. */
	int ret = space_load_group(w->ctx, e->space, head->logical);

	delayed_head_take(e->refs, head, &is_new, &new_flags);
	/* Before references go: the last of them takes the item along. */
	if (!ret && !is_new && new_flags)
		ret = set_flags(&job, new_flags);
	while (!ret && (!limited || *budget) &&
		delayed_ref_take(e->refs, head, &job.key, &job.count)) {
		job.type = ref_type(head->is_data, &job.key);
		if (is_new && job.count > 0)
			ret = insert_item(&job, new_flags);
		else if (is_new)
			ret = damaged(head->logical, "a new extent loses a reference first");
		else if (job.count > 0)
			ret = add_ref(&job);
		else
			ret = drop_ref(&job);
		is_new = false;
		*budget -= *budget > 0;
	}
	if (!ret && is_new)
		ret = free_unborn(&job);
	return ret;
}

int extent_run_refs(struct tree_writer *w, struct extents *e, size_t budget)
{
	bool limited = budget > 0;
	int ret = 0;

	while (!ret && (!limited || budget)) {
		struct delayed_head *head = delayed_head_start(e->refs);

		if (!head)
			break;
		ret = run_head(w, e, head, &budget, limited);
		delayed_head_stop(e->refs, head);
	}
	return ret;
}

/* ---------------------------------------------------------------- share info */

/* What the extent tree says of a block, from memory only. The tree is locked. */
static int peek_item(struct tree_writer *w, struct extents *e, uint64_t logical, uint8_t level,
	struct block_share *share)
{
	struct btrfs_key keys[] = {
		extent_key(e, logical, e->geo->node_bytes, false, level),
		key_make(logical, BTRFS_EXTENT_ITEM_KEY, e->geo->node_bytes),
	};
	int ret = 1;

	for (unsigned i = 0; ret == 1 && i < ARRAY_SIZE(keys); i++) {
		struct tree_path path = PATH_INIT;

		ret = tree_peek(e->extent_tree, &keys[i], &path);
		if (ret == 0) {
			const struct btrfs_extent_item *item = path_data(&path);

			share->refs = GET(item, refs);
			share->flags = GET(item, flags);
		} else if (ret == -EAGAIN) {
			w->need = path.need;
		}
		path_release(&path);
	}
	return ret;
}

int extent_share_info(struct tree_writer *w, struct extents *e, uint64_t logical, uint8_t level,
	struct block_share *share)
{
	bool is_new = false, running = false, owed;
	uint64_t new_flags = 0;
	int64_t net = 0;
	int ret = 0;

	*share = (struct block_share){0};
	if (w->ctx->flags & FSC_NOWAIT) {
		if (!long_trylock_read(&e->extent_tree->lock)) {
			w->need.logical = 0;
			return -EAGAIN;
		}
	} else {
		long_lock_read(&e->extent_tree->lock);
	}
	owed = delayed_head_peek(e->refs, logical, &is_new, &net, &new_flags, &running);
	if (running) {
		w->need.logical = 0;
		ret = -EAGAIN;
	} else if (!is_new) {
		ret = peek_item(w, e, logical, level, share);
		if (ret == 1)
			ret = damaged(logical, "a block in use has no extent item");
	}
	long_unlock(&e->extent_tree->lock);
	if (!ret && owed) {
		share->refs = (uint64_t)((int64_t)share->refs + net);
		share->flags |= new_flags;
	}
	if (!ret && !share->refs)
		ret = damaged(logical, "a block in use has no references");
	return ret;
}

struct running_wait {
	struct delayed_waiter waiter;
	bool done;
};

static void running_done(struct fsc_msg *msg)
{
	container_of(msg, struct running_wait, waiter.msg)->done = true;
}

int extent_wait_running(struct fsc_ctx *ctx, struct extents *e)
{
	struct running_wait w = {.waiter = {.thread = ctx->thread, .msg.fn = running_done}};

	if (!delayed_refs_wait(e->refs, &w.waiter))
		return 0;
	while (!w.done)
		fsc_thread_wait(ctx->thread);
	return 0;
}

/* ------------------------------------------------------------------ children */

int extent_ref_change(struct extents *e, const struct ref_change *change)
{
	bool cancelled;
	int ret = delayed_ref_add(e->refs, change, &cancelled);

	if (!ret && cancelled)
		space_free_unused(e->space, change->logical, change->bytes);
	return ret;
}

/* The data extent that an item of a leaf shows; false: none. */
static bool data_of_item(const void *leaf, uint32_t slot, struct ref_change *change)
{
	struct btrfs_key key = leaf_key(leaf, slot);
	const struct btrfs_file_extent_item *fi = leaf_data(leaf, slot);

	if (key.type != BTRFS_EXTENT_DATA_KEY || fi->type == BTRFS_FILE_EXTENT_INLINE ||
		!GET(fi, disk_bytenr))
		return false;
	change->logical = GET(fi, disk_bytenr);
	change->bytes = GET(fi, disk_num_bytes);
	change->is_data = true;
	change->key.objectid = key.objectid;
	change->key.offset = key.offset - GET(fi, offset);
	return true;
}

int extent_ref_children(
	struct tree_writer *w, struct extents *e, const void *block, bool full, int sign)
{
	uint8_t level = block_level(block);
	uint32_t n = block_nritems(block);
	uint64_t owner = GET(block_header(block), owner);
	int ret = 0;

	(void)w;
	for (uint32_t i = 0; !ret && i < n; i++) {
		struct ref_change change = {.count = sign};

		if (level) {
			change.logical = GET(node_ptr(block, i), blockptr);
			change.bytes = e->geo->node_bytes;
			change.level = (uint8_t)(level - 1);
		} else if (!data_of_item(block, i, &change)) {
			continue;
		}
		if (full) {
			change.key.parent = GET(block_header(block), bytenr);
			change.key.objectid = 0;
			change.key.offset = 0;
		} else {
			change.key.root = owner;
		}
		ret = extent_ref_change(e, &change);
	}
	return ret;
}
