/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What fscore.h tells about a volume, its subvolumes and its counters. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/inode.h"
#include "fscore/file/subvol.h"
#include "fscore/file/writeback.h"

const char *fsc_blocked_name(enum fsc_blocked why)
{
	static const char *const names[FSC_BLOCKED_REASONS] = {
		[FSC_BLOCKED_NOT] = "none",
		[FSC_BLOCKED_LOCK] = "lock",
		[FSC_BLOCKED_CACHE] = "cache",
		[FSC_BLOCKED_SPACE] = "space",
		[FSC_BLOCKED_QUOTA] = "quota",
		[FSC_BLOCKED_PAGE] = "page",
		[FSC_BLOCKED_TXN] = "txn",
		[FSC_BLOCKED_CPU] = "cpu",
	};

	return (unsigned)why < FSC_BLOCKED_REASONS ? names[why] : "unknown";
}

void fsc_volume_info(const struct fsc_volume *vol, struct fsc_volume_info *out)
{
	const struct btrfs_super_block *sb = &vol->super;

	memset(out, 0, sizeof(*out));
	memcpy(out->uuid, sb->fsid, sizeof(out->uuid));
	memcpy(out->label, sb->label, sizeof(out->label) - 1);
	out->read_only = vol->read_only;
	out->sector_bytes = vol->geo.sector_bytes;
	out->node_bytes = vol->geo.node_bytes;
	out->generation = vol->geo.generation;
	out->total_bytes = GET(sb, total_bytes);
	out->used_bytes = GET(sb, bytes_used);
	out->default_subvol = vol->default_subvol;
}

int fsc_statfs(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t subvol, struct fsc_statfs *out)
{
	uint64_t total = GET(&vol->super, total_bytes), used = GET(&vol->super, bytes_used);
	struct subvol *sv;
	int ret = subvol_get(ctx, vol, subvol, &sv);

	if (ret)
		return ret;
	out->total_bytes = total;
	out->free_bytes = total - MIN(used, total);
	out->avail_bytes = out->free_bytes;
	return 0;
}

int fsc_subvol_info(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, struct fsc_subvol_info *out)
{
	struct subvol *sv;
	int ret = subvol_get(ctx, vol, id, &sv);

	if (ret)
		return ret;
	*out = (struct fsc_subvol_info){
		.id = sv->id,
		.parent_id = sv->parent_id,
		.read_only = vol->read_only || (sv->flags & BTRFS_ROOT_SUBVOL_RDONLY),
		.generation = sv->generation,
	};
	memcpy(out->uuid, sv->uuid, sizeof(out->uuid));
	return 0;
}

/* Follows one component of a path. Takes over dir, and leaves in it what was found. */
static int step(struct fsc_ctx *ctx, struct fsc_inode **dir, const char *name, size_t len)
{
	struct fsc_inode *found;
	int ret = fsc_lookup(ctx, *dir, name, len, &found);

	fsc_inode_put(*dir);
	*dir = ret ? NULL : found;
	return ret;
}

int fsc_subvol_find(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *path, uint64_t *id)
{
	struct fsc_inode *at;
	struct subvol *top;
	int ret = subvol_get(ctx, vol, FSC_SUBVOL_TOP, &top);

	if (!ret)
		ret = inode_get(ctx, top, top->root_dirid, &at);
	if (ret)
		return ret;
	while (!ret && *path) {
		size_t len = strcspn(path, "/");

		if (len)
			ret = step(ctx, &at, path, len);
		path += len + (path[len] == '/');
	}
	if (ret)
		return ret;
	if (at->ino == at->subvol->root_dirid)
		*id = at->subvol->id;
	else
		ret = -EINVAL;
	fsc_inode_put(at);
	return ret;
}

static void meta_stats(struct fsc_volume *vol, struct fsc_cache_stats *out)
{
	struct meta_cache *mc = &vol->meta;

	out->capacity_bytes = (uint64_t)mc->n_blocks * mc->geo.node_bytes;
	short_lock(&mc->alloc_lock);
	out->used_bytes = (uint64_t)mc->n_used * mc->geo.node_bytes;
	out->evictions = mc->evictions;
	short_unlock(&mc->alloc_lock);
	for (unsigned i = 0; i < META_SHARDS; i++) {
		struct meta_shard *shard = &mc->shards[i];

		short_lock(&shard->lock);
		out->hits += shard->hits;
		out->misses += shard->misses;
		short_unlock(&shard->lock);
	}
}

static void inode_stats(struct fsc_volume *vol, struct fsc_cache_stats *out)
{
	out->capacity_bytes =
		(uint64_t)vol->inodes_per_shard * INODE_SHARDS * sizeof(struct fsc_inode);
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		struct inode_shard *shard = &vol->inodes[i];

		short_lock(&shard->lock);
		out->used_bytes += shard->n_inodes * sizeof(struct fsc_inode);
		out->hits += shard->hits;
		out->misses += shard->misses;
		out->evictions += shard->evictions;
		short_unlock(&shard->lock);
	}
}

static void page_stats(struct fsc_volume *vol, struct fsc_cache_stats *out)
{
	struct page_pool *pool = &vol->pages;

	out->capacity_bytes = (uint64_t)pool->n_pages * pool->page_bytes;
	out->hits = atomic_load(&vol->stats.page_hits);
	out->misses = atomic_load(&vol->stats.page_misses);
	short_lock(&pool->lock);
	out->used_bytes = (uint64_t)(pool->n_pages - pool->n_free) * pool->page_bytes;
	out->evictions = pool->evictions;
	short_unlock(&pool->lock);
}

static void commit_stats(struct fsc_volume *vol, struct fsc_stats *out)
{
	struct txn_stats st;

	txn_stats_get(&vol->w->txns, &st);
	out->commits = st.commits;
	out->commit_syncs = st.waiters;
	out->commit_blocks = st.blocks_written;
	out->commit_refs_max = st.refs_max;
	out->commit_ns_sum = st.commit_ns_sum;
	out->commit_ns_max = st.commit_ns_max;
	out->commit_closed_ns_sum = st.closed_ns_sum;
	out->commit_closed_ns_max = st.closed_ns_max;
	out->log_writes = st.log_writes;
	out->log_syncs = st.log_waiters;
	out->log_blocks = st.log_blocks_written;
	out->log_ns_sum = st.log_ns_sum;
}

void fsc_stats(struct fsc_volume *vol, struct fsc_stats *out)
{
	const struct dev_stats *dev = &vol->dev->stats;

	memset(out, 0, sizeof(*out));
	meta_stats(vol, &out->metadata);
	page_stats(vol, &out->pages);
	inode_stats(vol, &out->inodes);
	out->dev_reads = atomic_load(&dev->reads);
	out->dev_read_bytes = atomic_load(&dev->read_bytes);
	out->dev_read_errors = atomic_load(&dev->read_errors);
	out->dev_writes = atomic_load(&dev->writes);
	out->dev_write_bytes = atomic_load(&dev->write_bytes);
	out->dev_write_errors = atomic_load(&dev->write_errors);
	out->dev_flushes = atomic_load(&dev->flushes);
	out->dev_discards = atomic_load(&dev->discards);
	out->dev_discard_bytes = atomic_load(&dev->discard_bytes);
	out->csum_errors = atomic_load(&vol->stats.csum_errors);
	out->meta_errors = atomic_load(&vol->meta.bad_copies);
	out->repaired = atomic_load(&vol->stats.repaired) + atomic_load(&vol->meta.repaired);
	out->mirror_repairs =
		atomic_load(&vol->stats.mirror_repairs) + atomic_load(&vol->meta.mirror_repairs);
	out->readahead_bytes = atomic_load(&vol->stats.readahead_bytes);
	out->page_alloc_waits = atomic_load(&vol->pages.waits);
	if (vol->w)
		commit_stats(vol, out);
}
