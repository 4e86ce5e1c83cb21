/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trees of a log: their blocks' addresses, copying, writing (log.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/tree/leaf.h"
#include "fscore/txn/log_private.h"

/* --------------------------------------------------------------------------- addresses */

static size_t place_of(const struct log_set *set, uint64_t logical)
{
	return hash_mix64(logical) & (set->n_places - 1);
}

static void set_put(struct log_set *set, uint64_t logical)
{
	size_t at = place_of(set, logical);

	while (set->places[at])
		at = (at + 1) & (set->n_places - 1);
	set->places[at] = logical;
}

static int set_add(struct log_set *set, uint64_t logical)
{
	if (2 * set->n >= set->n_places) {
		struct log_set grown = {.n_places = MAX(256u, 2 * set->n_places)};

		grown.places = calloc(grown.n_places, sizeof(*grown.places));
		if (!grown.places)
			return -ENOMEM;
		for (size_t i = 0; i < set->n_places; i++)
			if (set->places[i])
				set_put(&grown, set->places[i]);
		grown.n = set->n;
		free(set->places);
		*set = grown;
	}
	set_put(set, logical);
	set->n++;
	return 0;
}

/* What stands behind the hole moves up, so that no search ends too early. It is there. */
static void set_remove(struct log_set *set, uint64_t logical)
{
	size_t mask = set->n_places - 1, hole = place_of(set, logical), at;

	while (set->places[hole] != logical)
		hole = (hole + 1) & mask;
	for (at = (hole + 1) & mask; set->places[at]; at = (at + 1) & mask) {
		size_t home = place_of(set, set->places[at]);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		set->places[hole] = set->places[at];
		hole = at;
	}
	set->places[hole] = 0;
	set->n--;
}

static int addresses_add(struct log_addresses *a, uint64_t logical)
{
	if (a->n == a->max) {
		size_t max = MAX(256u, 2 * a->max);
		uint64_t *grown = reallocarray(a->list, max, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		a->list = grown;
		a->max = max;
	}
	a->list[a->n++] = logical;
	return 0;
}

/* -------------------------------------------------------------------------- the writer */

static struct log_trees *trees_of(struct tree_writer *w)
{
	return container_of(w, struct log_trees, w);
}

static void note_error(struct log_trees *l, int error)
{
	if (error && !l->error)
		l->error = error;
}

static uint32_t node_bytes(const struct log_trees *l)
{
	return l->txns->config.geo->node_bytes;
}

/* A place for one more dirty block. */
static int make_place(struct log_trees *l)
{
	size_t max = MAX(64u, 2 * l->max_dirty);
	struct mblock **grown;

	if (l->n_dirty < l->max_dirty)
		return 0;
	grown = reallocarray(l->dirty, max, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->dirty = grown;
	l->max_dirty = max;
	return 0;
}

static int op_alloc_block(struct tree_writer *w, struct tree_root *root, uint8_t level,
	const struct btrfs_key *first_key, uint64_t *logical)
{
	struct log_trees *l = trees_of(w);
	struct space *space = l->txns->config.space;
	uint64_t n = MIN(l->reserved_bytes, node_bytes(l));
	int ret = make_place(l);

	(void)root;
	(void)level;
	(void)first_key;
	if (!ret)
		ret = space_alloc_metadata(w, space, SPACE_METADATA, logical);
	if (ret)
		return ret;
	l->reserved_bytes -= n;
	if (n)
		space_unreserve(space, SPACE_METADATA, n);
	ret = set_add(&l->live, *logical);
	if (ret)
		space_free_unused(space, *logical, node_bytes(l));
	return ret;
}

static int op_share_info(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct block_share *share)
{
	(void)w;
	(void)root;
	(void)old;
	*share = (struct block_share){.refs = 1};
	return 0;
}

/* The log on disk refers to it until the next write; without memory for that, for good. */
static void replaced(struct log_trees *l, uint64_t logical)
{
	int ret = addresses_add(&l->dead, logical);

	if (!ret)
		set_remove(&l->live, logical);
	note_error(l, ret);
}

static int op_block_copied(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct mblock *copy, const struct block_share *share)
{
	(void)root;
	(void)copy;
	(void)share;
	replaced(trees_of(w), old->logical);
	return 0;
}

static void op_free_block(struct tree_writer *w, struct tree_root *root, struct mblock *block)
{
	struct log_trees *l = trees_of(w);
	uint64_t logical = block->logical;
	bool on_disk = block->state != MBLOCK_DIRTY;

	(void)root;
	meta_discard(block->mc, block);
	if (on_disk) {
		replaced(l, logical);
	} else {
		set_remove(&l->live, logical);
		space_free_unused(l->txns->config.space, logical, node_bytes(l));
	}
}

/* There is a place: op_alloc_block() has made it. */
static void op_block_dirtied(struct tree_writer *w, struct mblock *block)
{
	struct log_trees *l = trees_of(w);

	atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
	l->dirty[l->n_dirty++] = block;
}

static int op_wait(struct tree_writer *w)
{
	(void)w;
	return 0;
}

static void op_broken(struct tree_writer *w, int error)
{
	note_error(trees_of(w), error);
}

static void op_root_changed(struct tree_writer *w, struct tree_root *root)
{
	(void)w;
	(void)root;
}

static const struct tree_writer_ops log_tree_ops = {
	.alloc_block = op_alloc_block,
	.share_info = op_share_info,
	.block_copied = op_block_copied,
	.free_block = op_free_block,
	.block_dirtied = op_block_dirtied,
	.wait = op_wait,
	.broken = op_broken,
	.root_changed = op_root_changed,
};

/* --------------------------------------------------------------------------- the trees */

struct log_trees *log_trees_create(struct txns *txns, struct txn *txn)
{
	struct log_trees *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->txns = txns;
	l->txn = txn;
	l->w = (struct tree_writer){
		.ops = &log_tree_ops, .generation = txn->id, .copies_written = true};
	return l;
}

/* What has not been written never will be. */
static void drop_dirty(struct log_trees *l)
{
	for (size_t i = 0; i < l->n_dirty; i++) {
		meta_discard(l->txns->config.meta, l->dirty[i]);
		meta_put(l->dirty[i]);
	}
	l->n_dirty = 0;
}

static void free_dead(struct log_trees *l)
{
	for (size_t i = 0; i < l->dead.n; i++)
		space_free_unused(l->txns->config.space, l->dead.list[i], node_bytes(l));
	l->dead.n = 0;
}

void log_trees_destroy(struct log_trees *l)
{
	bool failed;

	if (!l)
		return;
	short_lock(&l->txns->lock);
	failed = l->txns->error;
	short_unlock(&l->txns->lock);
	drop_dirty(l);
	/* After an abort the log is what the disk has: nothing may come to its place. */
	if (!failed)
		free_dead(l);
	for (size_t i = 0; i < l->live.n_places && !failed; i++)
		if (l->live.places[i])
			space_free_unused(l->txns->config.space, l->live.places[i], node_bytes(l));
	while (l->trees) {
		struct log_tree *tree = l->trees;

		l->trees = tree->next;
		tree_root_fini(&tree->root);
		free(tree);
	}
	if (l->root.mc)
		tree_root_fini(&l->root);
	free(l->live.places);
	free(l->dead.list);
	free(l->dirty);
	free(l);
}

int log_tree_get(struct log_trees *l, uint64_t subvol, struct log_tree **out)
{
	struct log_tree *tree = l->trees;
	int ret;

	while (tree && tree->subvol != subvol)
		tree = tree->next;
	*out = tree;
	if (tree)
		return 0;
	tree = calloc(1, sizeof(*tree));
	if (!tree)
		return -ENOMEM;
	tree->subvol = subvol;
	ret = tree_create(&l->w, l->txns->config.meta, BTRFS_TREE_LOG_OBJECTID, &tree->root);
	if (ret) {
		free(tree);
		return ret;
	}
	tree->next = l->trees;
	l->trees = tree;
	*out = tree;
	return 0;
}

/* As the kernel fills it in. */
static void fill_root_item(
	const struct log_trees *l, const struct log_tree *tree, struct btrfs_root_item *item)
{
	memset(item, 0, sizeof(*item));
	PUT(&item->inode, generation, 1);
	PUT(&item->inode, size, 3);
	PUT(&item->inode, nlink, 1);
	PUT(&item->inode, nbytes, node_bytes(l));
	PUT(&item->inode, mode, S_IFDIR | 0755);
	PUT(item, generation, tree->root.generation);
	PUT(item, bytenr, tree->root.bytenr);
	PUT(item, refs, 1);
	item->level = tree->root.level;
}

static int name_tree(struct log_trees *l, struct log_tree *tree)
{
	struct btrfs_key key = key_make(BTRFS_TREE_LOG_OBJECTID, BTRFS_ROOT_ITEM_KEY, tree->subvol);
	uint32_t bytes = (uint32_t)sizeof(struct btrfs_root_item);
	struct tree_path path = PATH_INIT;
	int ret = tree_search_modify(&l->w, &l->root, &key, (int)bytes, &path);

	if (ret < 0)
		return ret;
	fill_root_item(
		l, tree, ret ? path_insert_item(&l->w, &path, &key, bytes) : path_data_mut(&path));
	path_release(&path);
	tree->named = tree->root.bytenr;
	return 0;
}

int log_trees_settle(struct log_trees *l)
{
	int ret = 0;

	if (!l->root.mc)
		ret = tree_create(&l->w, l->txns->config.meta, BTRFS_TREE_LOG_OBJECTID, &l->root);
	for (struct log_tree *tree = l->trees; !ret && tree; tree = tree->next)
		if (tree->named != tree->root.bytenr)
			ret = name_tree(l, tree);
	return ret ? ret : l->error;
}

/* ----------------------------------------------------------------------------- writing */

static int write_all(struct log_trees *l, struct fsc_ctx *ctx, struct btrfs_super_block *super)
{
	struct txns *txns = l->txns;
	size_t n = l->n_dirty;
	int ret;

	*super = txns->last_super;
	PUT(super, log_root, l->root.bytenr);
	super->log_root_level = l->root.level;
	ret = txn_write_blocks(ctx, txns, l->dirty, &n, super);
	/* Those that were freed have been let go of. */
	l->n_dirty = n;
	if (ret)
		return ret;
	for (size_t i = 0; i < n; i++) {
		meta_clean(txns->config.meta, l->dirty[i]);
		meta_put(l->dirty[i]);
	}
	l->n_dirty = 0;
	free_dead(l);
	short_lock(&txns->lock);
	txns->stats.log_writes++;
	txns->stats.log_blocks_written += n;
	/* It does not grow without end, nor does what is to be replayed. */
	if (l->live.n > LOG_MAX_BLOCKS)
		l->txn->wanted = l->txn->urgent = true;
	short_unlock(&txns->lock);
	return 0;
}

int log_trees_write(struct log_trees *l, struct fsc_ctx *ctx)
{
	struct btrfs_super_block *super = malloc(sizeof(*super));
	int ret = super ? write_all(l, ctx, super) : -ENOMEM;

	free(super);
	return ret;
}

/* -------------------------------------------------------------------------- one round */

/*
 * What the notes may need: each changes a few places, and of a tree no more than all blocks; what they
 * bring fills blocks at least by halves.
 */
static uint64_t wanted_bytes(
	const struct log_trees *l, const struct log_note *notes, size_t notes_bytes)
{
	uint64_t n = 0, changed;

	for (const struct log_note *note = notes; note; note = note->next)
		n++;
	changed = MIN(8 * n, 2 * (uint64_t)l->live.n);
	return (16 + changed + 4 * (notes_bytes + n * 256) / node_bytes(l)) * node_bytes(l);
}

static int reserve(struct log_trees *l, struct fsc_ctx *ctx, uint64_t bytes)
{
	struct space *space = l->txns->config.space;
	int ret = space_reserve(space, SPACE_METADATA, bytes, false);

	if (ret)
		return ret;
	l->reserved_bytes = bytes;
	return space_prepare_metadata(ctx, space, bytes);
}

int log_write(struct txns *txns, struct txn *txn, struct log_note *notes, size_t notes_bytes)
{
	struct fsc_ctx ctx = {.thread = txns->thread};
	struct log_trees *l = txn->log.trees;
	int ret;

	if (!l)
		l = txn->log.trees = log_trees_create(txns, txn);
	if (!l)
		return -ENOMEM;
	l->w.ctx = &ctx;
	ret = reserve(l, &ctx, wanted_bytes(l, notes, notes_bytes));
	if (!ret)
		ret = log_apply(l, notes);
	if (!ret)
		ret = log_trees_settle(l);
	/* Blocks may have come from a chunk that has been made meanwhile. */
	if (!ret && log_is_forbidden(txns, txn))
		ret = -EAGAIN;
	if (!ret)
		ret = log_trees_write(l, &ctx);
	if (l->reserved_bytes)
		space_unreserve(txns->config.space, SPACE_METADATA, l->reserved_bytes);
	l->reserved_bytes = 0;
	if (ret)
		drop_dirty(l);
	return ret;
}
