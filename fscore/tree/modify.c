/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/tree/modify.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/tree/leaf.h"
#include "fscore/tree/search_private.h"

/*
 * A node with fewer free places than this is split on the way down, so that there is
 * room for what the splits of one leaf add.
 */
#define NODE_RESERVE 3u

/* Below these shares a block is merged with a neighbour, if that is in memory. */
#define LEAF_LOW_SHARE 3u
#define NODE_LOW_SHARE 4u

static uint32_t node_bytes_of(const struct tree_root *root)
{
	return root->mc->geo.node_bytes;
}

uint32_t tree_max_item_bytes(const struct tree_root *root)
{
	return leaf_capacity_bytes(node_bytes_of(root)) - (uint32_t)sizeof(struct btrfs_item);
}

uint32_t path_free_bytes(const struct tree_path *path)
{
	return leaf_free_bytes(path->block[0]->data, node_bytes_of(path->root));
}

/* The level of the root, as the path has gone through it. */
static uint8_t top_level(const struct tree_path *path)
{
	return path->root->level;
}

/* ------------------------------------------------------------------- blocks */

static void init_header(struct tree_writer *w, struct tree_root *root, struct mblock *b)
{
	const struct volume_geometry *geo = &root->mc->geo;
	struct btrfs_header *h = block_header_mut(b->data);

	memset(h, 0, sizeof(*h));
	memcpy(h->fsid, geo->fsid, sizeof(h->fsid));
	memcpy(h->chunk_tree_uuid, geo->chunk_tree_uuid, sizeof(h->chunk_tree_uuid));
	PUT(h, bytenr, b->logical);
	PUT(h, flags,
		BTRFS_MIXED_BACKREF_REV << BTRFS_BACKREF_REV_SHIFT | BTRFS_HEADER_FLAG_WRITTEN);
	PUT(h, generation, w->generation);
	PUT(h, owner, root->id);
	h->level = b->level;
}

/* A new, empty, dirty block of root; the caller gets a reference. */
static int new_block(struct tree_writer *w, struct tree_root *root, uint8_t level,
	const struct btrfs_key *first_key, struct mblock **out)
{
	uint64_t logical;
	int ret = w->ops->alloc_block(w, root, level, first_key, &logical);

	if (ret)
		return ret;
	*out = meta_create(root->mc, logical, w->generation, level);
	if (!*out) {
		w->ops->broken(w, -ENOMEM);
		return -ENOMEM;
	}
	init_header(w, root, *out);
	w->ops->block_dirtied(w, *out);
	return 0;
}

static void set_root(struct tree_writer *w, struct tree_root *root, uint64_t logical,
	uint64_t generation, uint8_t level)
{
	root->bytenr = logical;
	root->generation = generation;
	root->level = level;
	w->ops->root_changed(w, root);
}

/* Whether the block was made in this transaction and is this root's own. */
static bool is_own(const struct tree_writer *w, const struct mblock *b)
{
	/* Only the log's own thread makes its blocks clean. */
	if (w->copies_written && b->state != MBLOCK_DIRTY)
		return false;
	return b->generation == w->generation &&
		!(GET(block_header(b->data), flags) & BTRFS_HEADER_FLAG_RELOC);
}

static struct btrfs_key first_key(const struct mblock *b)
{
	if (!block_nritems(b->data))
		return key_make(0, 0, 0);
	return b->level ? node_key(b->data, 0) : leaf_key(b->data, 0);
}

/*
 * Replaces the block by a copy of its own, in *at and in the parent (at parent_slot;
 * NULL: it is the root). SEARCH_MISSING: w->need.
 */
static int copy_block(struct tree_writer *w, struct tree_root *root, struct mblock *parent,
	uint32_t parent_slot, struct mblock **at)
{
	struct mblock *old = *at, *copy;
	struct btrfs_key key = first_key(old);
	struct block_share share;
	int ret;

	if (is_own(w, old))
		return 0;
	ret = w->ops->share_info(w, root, old, &share);
	if (ret)
		return ret == -EAGAIN ? SEARCH_MISSING : ret;
	ret = new_block(w, root, old->level, &key, &copy);
	if (ret)
		return ret;
	memcpy(copy->data + sizeof(struct btrfs_header), old->data + sizeof(struct btrfs_header),
		node_bytes_of(root) - sizeof(struct btrfs_header));
	PUT(block_header_mut(copy->data), nritems, block_nritems(old->data));
	ret = w->ops->block_copied(w, root, old, copy, &share);
	if (ret) {
		w->ops->broken(w, ret);
		meta_put(copy);
		return ret;
	}
	if (parent) {
		struct btrfs_key_ptr *ptr = node_ptr_mut(parent->data, parent_slot);

		PUT(ptr, blockptr, copy->logical);
		PUT(ptr, generation, w->generation);
	} else {
		set_root(w, root, copy->logical, w->generation, copy->level);
	}
	meta_put(old);
	*at = copy;
	return 0;
}

/* Copies the path's block at this level; those above are copied already. */
static int copy_path_block(struct tree_writer *w, struct tree_path *path, uint8_t level)
{
	bool is_root = level == top_level(path);
	int ret = copy_block(w, path->root, is_root ? NULL : path->block[level + 1],
		is_root ? 0 : path->slot[level + 1], &path->block[level]);

	if (ret == SEARCH_MISSING)
		path->need = w->need;
	return ret;
}

/* The first key of the path's block at `level` has changed: tells the parents. */
static void fix_low_keys(struct tree_path *path, uint8_t level, const struct btrfs_key *key)
{
	for (uint8_t l = level + 1; l < BTRFS_MAX_LEVEL && path->block[l]; l++) {
		key_to_disk(key, &node_ptr_mut(path->block[l]->data, path->slot[l])->key);
		if (path->slot[l])
			return;
	}
}

static void put_path_blocks(struct tree_path *path)
{
	for (unsigned i = 0; i < BTRFS_MAX_LEVEL; i++) {
		meta_put(path->block[i]);
		path->block[i] = NULL;
	}
}

/* ------------------------------------------------------------------ growing */

/* Puts a node with one pointer above the root. */
static int grow_root(struct tree_writer *w, struct tree_path *path)
{
	struct tree_root *root = path->root;
	uint8_t level = top_level(path);
	struct btrfs_key key = first_key(path->block[level]);
	struct mblock *top;
	int ret;

	if (level + 1u >= BTRFS_MAX_LEVEL)
		return -EUCLEAN;
	ret = new_block(w, root, (uint8_t)(level + 1), &key, &top);
	if (ret)
		return ret;
	node_insert(top->data, 0, &key, path->block[level]->logical, w->generation);
	path->block[level + 1] = top;
	path->slot[level + 1] = 0;
	set_root(w, root, top->logical, w->generation, top->level);
	return 0;
}

/*
 * Moves what is in the path's block at this level from `at` on to a new block on its
 * right. The path stays on the left.
 */
static int split_block(struct tree_writer *w, struct tree_path *path, uint8_t level, uint32_t at,
	const struct btrfs_key *right_key, struct mblock **out)
{
	struct tree_root *root = path->root;
	void *left;
	struct mblock *right;
	uint32_t n;
	int ret = level == top_level(path) ? grow_root(w, path) : 0;

	if (!ret)
		ret = new_block(w, root, level, right_key, &right);
	if (ret)
		return ret;
	left = path->block[level]->data;
	n = block_nritems(left) - at;
	if (n && level)
		node_move_right(left, right->data, n);
	else if (n)
		leaf_move_right(left, right->data, node_bytes_of(root), n);
	node_insert(path->block[level + 1]->data, path->slot[level + 1] + 1, right_key,
		right->logical, w->generation);
	*out = right;
	return 0;
}

/* Leads the path into the block on the right of the one at this level. Takes over right. */
static void go_right(struct tree_path *path, uint8_t level, struct mblock *right, uint32_t slot)
{
	meta_put(path->block[level]);
	path->block[level] = right;
	path->slot[level] = slot;
	path->slot[level + 1]++;
}

static int split_node(struct tree_writer *w, struct tree_path *path, uint8_t level)
{
	uint32_t n = block_nritems(path->block[level]->data), mid = n / 2;
	struct btrfs_key key = node_key(path->block[level]->data, mid);
	struct mblock *right;
	int ret = split_block(w, path, level, mid, &key, &right);

	if (ret)
		return ret;
	if (path->slot[level] >= mid)
		go_right(path, level, right, path->slot[level] - mid);
	else
		meta_put(right);
	return 0;
}

/* Splits the path's leaf before item `at`; slot `at` itself goes right if to_right. */
static int split_leaf_at(struct tree_writer *w, struct tree_path *path, uint32_t at, bool to_right,
	const struct btrfs_key *ins_key)
{
	const void *leaf = path->block[0]->data;
	uint32_t slot = path->slot[0];
	struct btrfs_key key = at < block_nritems(leaf) ? leaf_key(leaf, at) : *ins_key;
	struct mblock *right;
	int ret = split_block(w, path, 0, at, &key, &right);

	if (ret)
		return ret;
	if (slot > at || (slot == at && to_right))
		go_right(path, 0, right, slot - at);
	else
		meta_put(right);
	return 0;
}

/* The item with which the second half of a leaf's bytes begins. */
static uint32_t leaf_middle(const void *leaf)
{
	uint32_t n = block_nritems(leaf), half = leaf_items_bytes(leaf, 0, n) / 2, mid = 1;

	while (mid < n - 1 && leaf_items_bytes(leaf, 0, mid) < half)
		mid++;
	return mid;
}

/* The next item of an ascending order has no more than these between the last one and itself. */
#define ASCENDING_GAP 4u

/* The leaf beside the path's under the same parent (dir 1: right, -1: left); NULL as neighbour(). */
static struct mblock *peek_neighbour(const struct tree_path *path, int dir)
{
	struct block_expect expect;
	uint32_t slot = path->slot[1];
	int error;

	if (!top_level(path))
		return NULL;
	if (dir > 0 ? slot + 1 >= block_nritems(path->block[1]->data) : slot == 0)
		return NULL;
	search_expect_child(path->root, path->block[1]->data, slot + (uint32_t)dir, &expect);
	return meta_lookup(path->root->mc, &expect, &error);
}

static uint32_t neighbour_free_bytes(const struct tree_path *path, int dir)
{
	struct mblock *b = peek_neighbour(path, dir);
	uint32_t free = b ? leaf_free_bytes(b->data, node_bytes_of(path->root)) : 0;

	if (b)
		meta_put(b);
	return free;
}

/* Whether the left neighbour, if it is in memory, ends with this key. */
static bool left_ends_with(const struct tree_path *path, const struct btrfs_key *key)
{
	struct mblock *left = peek_neighbour(path, -1);
	struct btrfs_key last;

	if (!left)
		return false;
	last = leaf_key(left->data, block_nritems(left->data) - 1);
	meta_put(left);
	return key_cmp(&last, key) == 0;
}

/*
 * Whether the new item follows the last one of its kind, with items of other kinds between them:
 * as file extents do, when the inodes are there already.
 */
static bool is_ascending(const struct tree_path *path, const struct btrfs_key *key)
{
	const struct btrfs_key *last = &path->root->last_insert[TREE_KIND(key->type)];
	uint32_t slot = path->slot[0], behind;
	bool exact;

	if (last->type != key->type)
		return false;
	behind = search_keys_up_to(path->block[0]->data, last, &exact);
	if (behind > slot || slot - behind >= ASCENDING_GAP)
		return false;
	return exact || (!behind && left_ends_with(path, last));
}

/* Whether the leaf is the last one under its parent. */
static bool is_last_child(const struct tree_path *path)
{
	return !top_level(path) || path->slot[1] + 1 >= block_nritems(path->block[1]->data);
}

/* Splits until a new item at the path's slot, need bytes with its header, has room. */
static int split_for_insert(
	struct tree_writer *w, struct tree_path *path, uint32_t need, const struct btrfs_key *key)
{
	bool halved = is_ascending(path, key);

	while (path_free_bytes(path) < need) {
		const void *leaf = path->block[0]->data;
		uint32_t n = block_nritems(leaf), slot = path->slot[0];
		int ret;

		if (slot == n && (n == 1 || halved || is_last_child(path))) {
			/* At the end, as when keys ascend: the full leaf stays full. */
			ret = split_leaf_at(w, path, n, true, key);
		} else if (!halved && n > 1) {
			halved = true;
			ret = split_leaf_at(w, path, leaf_middle(leaf), true, key);
		} else {
			ret = split_leaf_at(w, path, slot, false, key);
		}
		if (ret)
			return ret;
	}
	return 0;
}

/* Splits until the item at the path's slot can grow by that much. */
static int split_for_growth(struct tree_writer *w, struct tree_path *path, uint32_t more)
{
	while (path_free_bytes(path) < more) {
		uint32_t n = block_nritems(path->block[0]->data), slot = path->slot[0];
		int ret;

		if (n == 1)
			return -EOVERFLOW;
		ret = split_leaf_at(w, path, slot ? slot : 1, slot > 0, NULL);
		if (ret)
			return ret;
	}
	return 0;
}

/* ---------------------------------------------------------------- neighbours */

/*
 * The block beside the path's at this level (dir 1: right, -1: left), under the same
 * parent, copied; NULL when there is none or it is not in memory.
 */
static struct mblock *neighbour(
	struct tree_writer *w, struct tree_path *path, uint8_t level, int dir)
{
	struct mblock *parent, *b;
	uint32_t slot;
	struct block_expect expect;
	int error;

	if (level == top_level(path))
		return NULL;
	parent = path->block[level + 1];
	slot = path->slot[level + 1];
	if (dir > 0 ? slot + 1 >= block_nritems(parent->data) : slot == 0)
		return NULL;
	slot += (uint32_t)dir;
	search_expect_child(path->root, parent->data, slot, &expect);
	b = meta_lookup(path->root->mc, &expect, &error);
	if (b && copy_block(w, path->root, parent, slot, &b)) {
		meta_put(b);
		b = NULL;
	}
	return b;
}

/* How many items must go so that need bytes are free in the leaf; none of keep and beyond it. */
static uint32_t items_to_move_left(const struct tree_path *path, uint32_t need)
{
	const void *leaf = path->block[0]->data;
	uint32_t n = 0, free = path_free_bytes(path);

	while (n < path->slot[0] && free + leaf_items_bytes(leaf, 0, n) < need)
		n++;
	return n;
}

/* The path's slot is the first of its leaf: a new item may as well be the last of the left one. */
static void go_left(struct tree_path *path, struct mblock *left)
{
	struct btrfs_key key = leaf_key(path->block[0]->data, 0);

	/* The key in the parent may be lower, and the new item's is not: it would not be found. */
	fix_low_keys(path, 0, &key);
	meta_put(path->block[0]);
	path->block[0] = left;
	path->slot[0] = block_nritems(left->data);
	path->slot[1]--;
}

/*
 * Makes room for need bytes by moving the first items to the left neighbour; when is_new, where
 * the new item itself may end up, at its end.
 */
static void push_left(struct tree_writer *w, struct tree_path *path, uint32_t need, bool is_new)
{
	uint32_t node_bytes = node_bytes_of(path->root), n = items_to_move_left(path, need);
	void *leaf = path->block[0]->data;
	struct btrfs_key key;
	struct mblock *left;

	/* The slot's own item must stay, or the key in the parent would be in question. */
	if ((!n && path->slot[0]) || n >= block_nritems(leaf) ||
		path->slot[0] >= block_nritems(leaf))
		return;
	left = neighbour(w, path, 0, -1);
	if (!left)
		return;
	if (n && leaf_free_bytes(left->data, node_bytes) >= leaf_items_bytes(leaf, 0, n)) {
		leaf_move_left(leaf, left->data, node_bytes, n);
		path->slot[0] -= n;
		key = leaf_key(leaf, 0);
		fix_low_keys(path, 0, &key);
	}
	if (is_new && !path->slot[0] && path_free_bytes(path) < need &&
		leaf_free_bytes(left->data, node_bytes) >= need)
		go_left(path, left);
	else
		meta_put(left);
}

/* Makes room for need bytes by moving the items behind the slot to the right neighbour. */
static void push_right(struct tree_writer *w, struct tree_path *path, uint32_t need)
{
	uint32_t node_bytes = node_bytes_of(path->root), free = path_free_bytes(path);
	void *leaf = path->block[0]->data;
	uint32_t all = block_nritems(leaf), n = 0;
	struct mblock *right;

	while (n < all && path->slot[0] + n + 1 < all &&
		free + leaf_items_bytes(leaf, all - n, all) < need)
		n++;
	if (!n || n >= all)
		return;
	right = neighbour(w, path, 0, 1);
	if (!right)
		return;
	if (leaf_free_bytes(right->data, node_bytes) >= leaf_items_bytes(leaf, all - n, all)) {
		leaf_move_right(leaf, right->data, node_bytes, n);
		path->slot[1]++;
		{
			struct btrfs_key key = leaf_key(right->data, 0);

			fix_low_keys(path, 0, &key);
		}
		path->slot[1]--;
	}
	meta_put(right);
}

/* ------------------------------------------------------------------ search */

static int lock_for_writing(struct fsc_ctx *ctx, struct tree_root *root)
{
	if (!(ctx->flags & FSC_NOWAIT)) {
		long_lock_write(&root->lock);
		return 0;
	}
	if (long_trylock_write(&root->lock))
		return 0;
	ctx->blocked = FSC_BLOCKED_LOCK;
	return -EAGAIN;
}

/* As descend() of search.c, copying on the way. 0, 1, SEARCH_MISSING or an error. */
static int descend_copying(
	struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key, int ins_bytes)
{
	uint32_t max_ptrs = node_max_ptrs(node_bytes_of(path->root));

	search_expect_root(path->root, &path->need);
	for (;;) {
		uint8_t level = path->need.level;
		int ret;
		uint32_t n;
		bool exact;

		ret = search_step_into(path);
		if (!ret)
			ret = copy_path_block(w, path, level);
		if (ret)
			return ret;
		n = search_keys_up_to(path->block[level]->data, key, &exact);
		if (level == 0) {
			path->slot[0] = exact ? n - 1 : n;
			return exact ? 0 : 1;
		}
		path->slot[level] = n ? n - 1 : 0;
		if (ins_bytes >= 0 &&
			block_nritems(path->block[level]->data) + NODE_RESERVE > max_ptrs) {
			ret = split_node(w, path, level);
			if (ret)
				return ret;
		}
		search_expect_child(
			path->root, path->block[level]->data, path->slot[level], &path->need);
	}
}

/* Makes room in the leaf that was found. found: 0 exact, 1 not. */
static int make_room(struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key,
	int ins_bytes, int found)
{
	uint32_t need = (uint32_t)ins_bytes + (found ? (uint32_t)sizeof(struct btrfs_item) : 0);

	if (need > leaf_capacity_bytes(node_bytes_of(path->root)))
		return -EOVERFLOW;
	/*
	 * In ascending order nothing comes any more before the slot: what is there fills the leaf
	 * on the left, and is not halved.
	 */
	if (found && path_free_bytes(path) < need &&
		(is_ascending(path, key) ||
			neighbour_free_bytes(path, -1) > neighbour_free_bytes(path, 1)))
		push_left(w, path, need, true);
	if (path_free_bytes(path) < need)
		push_right(w, path, need);
	if (path_free_bytes(path) < need)
		push_left(w, path, need, found);
	return found ? split_for_insert(w, path, need, key) : split_for_growth(w, path, need);
}

static int search_locked(
	struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key, int ins_bytes)
{
	int found = descend_copying(w, path, key, ins_bytes), ret;

	if ((found != 0 && found != 1) || ins_bytes < 0)
		return found;
	ret = make_room(w, path, key, ins_bytes, found);
	return ret ? ret : found;
}

/* Reads the block that a try has lacked; no lock is held. It stays in *pin until then. */
static int read_needed(struct tree_writer *w, struct tree_path *path)
{
	struct mblock *b;
	int ret;

	if (!path->need.logical) {
		if (!(w->ctx->flags & FSC_NOWAIT))
			return w->ops->wait(w);
		w->ctx->blocked = FSC_BLOCKED_LOCK;
		return -EAGAIN;
	}
	ret = meta_read(w->ctx, path->root->mc, &path->need, &b);
	if (!ret)
		path->pinned = b;
	return ret;
}

int tree_search_modify(struct tree_writer *w, struct tree_root *root, const struct btrfs_key *key,
	int ins_bytes, struct tree_path *path)
{
	path->root = root;
	for (;;) {
		int ret = lock_for_writing(w->ctx, root);

		if (!ret) {
			path->locked = true;
			ret = search_locked(w, path, key, ins_bytes);
		}
		if (ret == 0 || ret == 1)
			return ret;
		path_release(path);
		if (ret != SEARCH_MISSING)
			return ret;
		ret = read_needed(w, path);
		if (ret) {
			path_release(path);
			return ret;
		}
	}
}

int tree_search_prepared(struct tree_writer *w, struct tree_root *root, const struct btrfs_key *key,
	int ins_bytes, struct tree_path *path)
{
	int ret;

	path->root = root;
	ret = search_locked(w, path, key, ins_bytes);
	if (ret == 0 || ret == 1)
		return ret;
	path_release(path);
	/* The caller has not prepared this place. */
	return ret == SEARCH_MISSING ? -EUCLEAN : ret;
}

/* The largest key smaller than key; false: there is none. */
static bool key_predecessor(struct btrfs_key *key)
{
	if (key->offset--)
		return true;
	if (key->type--)
		return true;
	return key->objectid-- != 0;
}

/*
 * Whether a change at the path's place may move the border to the leaf on the left: what is put
 * there next could then belong into that one.
 */
static bool touches_left_border(const struct tree_path *path)
{
	const void *leaf = path->block[0]->data;
	uint32_t n = block_nritems(leaf);

	return path->slot[0] == 0 ||
		leaf_items_bytes(leaf, 0, n) < leaf_capacity_bytes(node_bytes_of(path->root)) / 2;
}

/* Has the way to one place in memory, copied. As descend_copying(). */
static int prepare_place(struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key)
{
	int ret = descend_copying(w, path, key, TREE_IN_PLACE);
	struct btrfs_key left;

	if ((ret != 0 && ret != 1) || !touches_left_border(path) ||
		!block_nritems(path->block[0]->data))
		return ret;
	left = leaf_key(path->block[0]->data, 0);
	if (!key_predecessor(&left))
		return ret;
	put_path_blocks(path);
	return descend_copying(w, path, &left, TREE_IN_PLACE);
}

int tree_prepare(
	struct tree_writer *w, struct tree_root *root, const struct btrfs_key *places, unsigned n)
{
	struct tree_path path = PATH_INIT;
	int ret;

	for (;;) {
		ret = lock_for_writing(w->ctx, root);
		if (ret)
			break;
		for (unsigned i = 0; i < n && ret >= 0 && ret != SEARCH_MISSING; i++) {
			path.root = root;
			ret = prepare_place(w, &path, &places[i]);
			if (ret != SEARCH_MISSING)
				path_release(&path);
		}
		if (ret == 0 || ret == 1)
			return 0;
		path_release(&path);
		tree_unlock_write(root);
		if (ret != SEARCH_MISSING)
			return ret;
		path.root = root;
		ret = read_needed(w, &path);
		if (ret)
			break;
	}
	path_release(&path);
	return ret;
}

void tree_unlock_write(struct tree_root *root)
{
	long_unlock(&root->lock);
}

/* ------------------------------------------------------------------- items */

void *path_data_mut(struct tree_path *path)
{
	char *leaf = path->block[0]->data;

	return leaf + sizeof(struct btrfs_header) + GET(leaf_item(leaf, path->slot[0]), offset);
}

void *path_insert_item(
	struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key, uint32_t bytes)
{
	(void)w;
	path->root->last_insert[TREE_KIND(key->type)] = *key;
	leaf_insert(path->block[0]->data, node_bytes_of(path->root), path->slot[0], key, bytes);
	if (path->slot[0] == 0)
		fix_low_keys(path, 0, key);
	return path_data_mut(path);
}

void *path_resize_item(struct tree_path *path, uint32_t bytes)
{
	leaf_resize(path->block[0]->data, node_bytes_of(path->root), path->slot[0], bytes);
	return path_data_mut(path);
}

void path_set_key(struct tree_writer *w, struct tree_path *path, const struct btrfs_key *key)
{
	(void)w;
	key_to_disk(key, &leaf_item_mut(path->block[0]->data, path->slot[0])->key);
	if (path->slot[0] == 0)
		fix_low_keys(path, 0, key);
}

/* ---------------------------------------------------------------- shrinking */

/* The path's block at this level is not used any more; its pointer is gone. */
static void free_path_block(struct tree_writer *w, struct tree_path *path, uint8_t level)
{
	w->ops->free_block(w, path->root, path->block[level]);
	meta_put(path->block[level]);
	path->block[level] = NULL;
}

/* The only child of the path's root, copied; NULL when it is not in memory. */
static struct mblock *only_child(struct tree_writer *w, struct tree_path *path, struct mblock *top)
{
	struct block_expect expect;
	struct mblock *child;
	int error;

	search_expect_child(path->root, top->data, 0, &expect);
	child = meta_lookup(path->root->mc, &expect, &error);
	if (child && copy_block(w, path->root, top, 0, &child)) {
		meta_put(child);
		child = NULL;
	}
	return child;
}

/*
 * A root with one child gives way to it. The child is copied first: a root must not be
 * shared. When that can't be had now, the tree stays as high as it is.
 */
static void lower_root(struct tree_writer *w, struct tree_path *path)
{
	uint8_t level = top_level(path);

	for (; level > 0 && block_nritems(path->block[level]->data) == 1; level--) {
		struct mblock *child = only_child(w, path, path->block[level]);

		if (!child)
			return;
		set_root(w, path->root, child->logical, w->generation, child->level);
		free_path_block(w, path, level);
		meta_put(path->block[level - 1]);
		path->block[level - 1] = child;
	}
}

static void shrink_from(struct tree_writer *w, struct tree_path *path, uint8_t level);

/* Takes the pointer to the path's block at level - 1 out of its parent. */
static void delete_ptr(struct tree_writer *w, struct tree_path *path, uint8_t level)
{
	void *node = path->block[level]->data;

	node_delete(node, path->slot[level]);
	if (path->slot[level] == 0 && block_nritems(node)) {
		struct btrfs_key key = node_key(node, 0);

		fix_low_keys(path, level, &key);
	}
	shrink_from(w, path, level);
}

/* Whether a block is so empty that it should go into another. */
static bool is_low(const struct tree_path *path, uint8_t level)
{
	uint32_t node_bytes = node_bytes_of(path->root);
	const void *block = path->block[level]->data;
	uint32_t n = block_nritems(block);

	if (level)
		return n < node_max_ptrs(node_bytes) / NODE_LOW_SHARE;
	return leaf_items_bytes(block, 0, n) < leaf_capacity_bytes(node_bytes) / LEAF_LOW_SHARE;
}

static bool has_room_for(const struct tree_path *path, uint8_t level, const void *other)
{
	uint32_t node_bytes = node_bytes_of(path->root);
	const void *block = path->block[level]->data;
	uint32_t n = block_nritems(block);

	if (level)
		return n + block_nritems(other) + NODE_RESERVE <= node_max_ptrs(node_bytes);
	return leaf_items_bytes(block, 0, n) <= leaf_free_bytes(other, node_bytes);
}

/* Moves all that the path's block has to a neighbour. True: it is empty now. */
static bool merge(struct tree_writer *w, struct tree_path *path, uint8_t level, int dir)
{
	uint32_t node_bytes = node_bytes_of(path->root);
	struct mblock *other = neighbour(w, path, level, dir);
	void *block = path->block[level]->data;
	uint32_t n = block_nritems(block);
	bool fits = other && has_room_for(path, level, other->data);

	if (fits && dir < 0) {
		if (level)
			node_move_left(block, other->data, n);
		else
			leaf_move_left(block, other->data, node_bytes, n);
	} else if (fits) {
		struct btrfs_key key;

		if (level)
			node_move_right(block, other->data, n);
		else
			leaf_move_right(block, other->data, node_bytes, n);
		key = first_key(other);
		path->slot[level + 1]++;
		fix_low_keys(path, level, &key);
		path->slot[level + 1]--;
	}
	meta_put(other);
	return fits;
}

/* Items or pointers have been deleted from the path's block at this level. */
static void shrink_from(struct tree_writer *w, struct tree_path *path, uint8_t level)
{
	bool is_root = level == top_level(path);

	if (is_root) {
		if (level && block_nritems(path->block[level]->data) == 0) {
			/* The tree is empty: its root becomes an empty leaf. */
			block_header_mut(path->block[level]->data)->level = 0;
			path->block[level]->level = 0;
			set_root(w, path->root, path->block[level]->logical, w->generation, 0);
		} else {
			lower_root(w, path);
		}
		return;
	}
	if (block_nritems(path->block[level]->data) == 0 ||
		(is_low(path, level) && (merge(w, path, level, -1) || merge(w, path, level, 1)))) {
		free_path_block(w, path, level);
		delete_ptr(w, path, (uint8_t)(level + 1));
	}
}

int path_delete_items(struct tree_writer *w, struct tree_path *path, uint32_t n)
{
	void *leaf = path->block[0]->data;

	leaf_delete(leaf, node_bytes_of(path->root), path->slot[0], n);
	if (path->slot[0] == 0 && block_nritems(leaf)) {
		struct btrfs_key key = leaf_key(leaf, 0);

		fix_low_keys(path, 0, &key);
	}
	shrink_from(w, path, 0);
	return 0;
}

int tree_create(struct tree_writer *w, struct meta_cache *mc, uint64_t id, struct tree_root *root)
{
	struct btrfs_key none = key_make(0, 0, 0);
	struct mblock *leaf;
	int ret;

	tree_root_init(root, mc, id, 0, 0, 0);
	ret = new_block(w, root, 0, &none, &leaf);
	if (ret) {
		tree_root_fini(root);
		return ret;
	}
	set_root(w, root, leaf->logical, w->generation, 0);
	meta_put(leaf);
	return 0;
}
