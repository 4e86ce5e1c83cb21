/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/volume/writing.h"

#include "base/log.h"
#include "base/util.h"
#include "fscore/tree/leaf.h"

/* What one commit puts in the tree: at most 128 bitmaps for each, but for what is new. */
#define GROUPS_AT_ONCE 256u

#define LEAVES_AT_ONCE 16u
#define CLEAR_ITEMS    16u
#define WRITE_ITEMS    64u

static int clear_some(struct fsc_ctx *ctx, struct fsc_volume *vol, bool *done)
{
	struct txn_handle h;
	int ret = txn_join(ctx, &vol->w->txns, CLEAR_ITEMS, 0, &h);

	if (ret)
		return ret;
	*done = false;
	for (unsigned i = 0; !ret && !*done && i < LEAVES_AT_ONCE; i++)
		ret = space_clear_free_space(&h.w, &vol->w->free_space_tree, done);
	if (ret)
		txn_abort(&h, ret);
	else
		txn_end(&h);
	return ret;
}

/* Has a commit made. The handle has the commit find metadata for what it writes. */
static int commit_some(
	struct fsc_ctx *ctx, struct fsc_volume *vol, void (*change)(struct fsc_volume *vol))
{
	struct txn_handle h;
	int ret = txn_join(ctx, &vol->w->txns, WRITE_ITEMS, 0, &h);

	if (ret)
		return ret;
	change(vol);
	txn_end(&h);
	return txn_commit(ctx, &vol->w->txns);
}

static void set_tree(struct fsc_volume *vol)
{
	space_rebuild_free_space(&vol->w->space, &vol->w->free_space_tree);
}

static void set_valid(struct fsc_volume *vol)
{
	uint64_t flags = GET(&vol->w->super, compat_ro_flags);

	PUT(&vol->w->super, compat_ro_flags, flags | BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE_VALID);
}

int free_space_rebuild(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *name)
{
	bool empty = false;
	int ret = 0;

	log_notice("%s: its free-space tree is not valid, and is built anew", name);
	while (!ret && !empty)
		ret = clear_some(ctx, vol, &empty);
	if (!ret)
		ret = commit_some(ctx, vol, set_tree);
	while (!ret && space_rebuild_some(&vol->w->space, GROUPS_AT_ONCE))
		ret = commit_some(ctx, vol, set_tree);
	if (!ret)
		ret = commit_some(ctx, vol, set_valid);
	return ret;
}
