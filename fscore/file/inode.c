/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/inode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/subvol.h"
#include "fscore/file/xattr.h"
#include "fscore/tree/leaf.h"

static uint64_t hash_of(const struct subvol *sv, uint64_t ino)
{
	return hash_mix64(ino + hash_mix64(sv->id));
}

static struct inode_shard *shard_of(const struct subvol *sv, uint64_t ino)
{
	return &sv->vol->inodes[hash_of(sv, ino) % INODE_SHARDS];
}

static struct fsc_inode **bucket_of(
	struct inode_shard *shard, const struct subvol *sv, uint64_t ino)
{
	return &shard->buckets[(hash_of(sv, ino) / INODE_SHARDS) & (sv->vol->inode_buckets - 1)];
}

static void forget_page(struct page_owner *owner, struct page *page)
{
	page_index_remove(&container_of(owner, struct fsc_inode, owner)->index, page->index);
}

static void drop_pages(struct fsc_inode *inode)
{
	struct page *page;
	uint64_t at;

	short_lock(&inode->owner.lock);
	while ((page = page_index_any(&inode->index, &at))) {
		page_index_remove(&inode->index, at);
		page_pool_drop(&inode->subvol->vol->pages, page);
	}
	short_unlock(&inode->owner.lock);
}

static void free_inode(struct fsc_inode *inode)
{
	drop_pages(inode);
	short_lock_fini(&inode->owner.lock);
	short_lock_fini(&inode->attr_lock);
	long_lock_fini(&inode->op_lock);
	free(inode);
}

struct fsc_inode *inode_alloc(struct subvol *sv, uint64_t ino)
{
	struct fsc_inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->subvol = sv;
	inode->ino = ino;
	inode->refs = 1;
	inode->is_new = true;
	long_lock_init(&inode->op_lock, RANK_INODE_OP);
	short_lock_init(&inode->attr_lock, RANK_INODE_ATTR);
	short_lock_init(&inode->owner.lock, RANK_INODE_PAGES);
	inode->owner.forget = forget_page;
	return inode;
}

void inode_free_new(struct fsc_inode *inode)
{
	free_inode(inode);
}

static struct fsc_time time_from_disk(const struct btrfs_timespec *ts)
{
	return (struct fsc_time){(int64_t)GET(ts, sec), GET(ts, nsec)};
}

void inode_item_attr(const struct subvol *sv, uint64_t ino, const struct btrfs_inode_item *item,
	struct fsc_attr *attr)
{
	uint64_t rdev = GET(item, rdev);

	*attr = (struct fsc_attr){
		.subvol = sv->id,
		.ino = ino,
		.generation = GET(item, generation),
		.size_bytes = GET(item, size),
		.used_bytes = align_up(GET(item, nbytes), sv->vol->geo.sector_bytes),
		.change = GET(item, sequence),
		.atime = time_from_disk(&item->atime),
		.mtime = time_from_disk(&item->mtime),
		.ctime = time_from_disk(&item->ctime),
		.btime = time_from_disk(&item->otime),
		.mode = GET(item, mode),
		.nlink = GET(item, nlink),
		.uid = GET(item, uid),
		.gid = GET(item, gid),
		.has_acl = true,
	};
	/* As the kernel's new_encode_dev() packs it. */
	if (S_ISCHR(attr->mode) || S_ISBLK(attr->mode)) {
		attr->rdev_major = (uint32_t)(rdev >> 20);
		attr->rdev_minor = rdev & 0xfffff;
	}
}

void inode_stub_attr(const struct subvol *sv, struct fsc_attr *attr)
{
	*attr = (struct fsc_attr){
		.subvol = sv->id,
		.ino = FSC_INO_STUB,
		.mode = S_IFDIR | 0755,
		.nlink = 1,
		.atime = sv->otime,
		.mtime = sv->otime,
		.ctime = sv->otime,
		.btime = sv->otime,
	};
}

/*
 * Whether the items after an inode item show that it has no POSIX ACL; most often
 * they stand in the same leaf.
 */
static bool may_have_acl(const struct tree_path *path, uint64_t ino)
{
	const void *leaf = path->block[0]->data;
	uint32_t n = block_nritems(leaf);

	for (uint32_t i = path->slot[0] + 1; i < n; i++) {
		struct btrfs_key key = leaf_key(leaf, i);

		if (key.objectid != ino || key.type > BTRFS_XATTR_ITEM_KEY)
			return false;
		if (key.type == BTRFS_XATTR_ITEM_KEY && xattr_hash_is_acl(key.offset))
			return true;
	}
	return true;
}

static int read_inode(struct fsc_ctx *ctx, struct fsc_inode *inode)
{
	struct subvol *sv = inode->subvol;
	uint64_t ino = inode->ino;
	struct fsc_attr *attr = &inode->attr;
	struct btrfs_key key = key_make(ino, BTRFS_INODE_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT;
	int ret;

	if (ino == FSC_INO_STUB) {
		inode_stub_attr(sv, attr);
		inode->type = S_IFDIR;
		return 0;
	}
	/* What is below are the internal files of the free space cache and such. */
	if (ino < BTRFS_FIRST_FREE_OBJECTID || ino > BTRFS_LAST_FREE_OBJECTID)
		return -ENOENT;
	ret = tree_lookup(ctx, &sv->root, &key, &path);
	if (ret < 0)
		return ret;
	if (ret == 0) {
		const struct btrfs_inode_item *item = path_data(&path);

		inode_item_attr(sv, ino, item, attr);
		attr->has_acl = may_have_acl(&path, ino);
		inode->type = attr->mode & S_IFMT;
		inode->flags = GET(item, flags);
		/* It may not be on disk yet: the inode can have been evicted in between. */
		inode->last_txn = GET(item, transid);
		inode->disk_size = attr->size_bytes;
		inode->used_bytes = GET(item, nbytes);
		/* Unlinked, and waiting for the cleaner. */
		if (!attr->nlink)
			ret = -ENOENT;
	} else {
		ret = -ENOENT;
	}
	path_release(&path);
	return ret;
}

static struct fsc_inode *find_locked(
	struct inode_shard *shard, const struct subvol *sv, uint64_t ino)
{
	struct fsc_inode *inode = *bucket_of(shard, sv, ino);

	while (inode && (inode->ino != ino || inode->subvol != sv))
		inode = inode->next;
	if (inode) {
		atomic_fetch_add_explicit(&inode->refs, 1, memory_order_relaxed);
		if (!atomic_load_explicit(&inode->referenced, memory_order_relaxed))
			atomic_store_explicit(&inode->referenced, true, memory_order_relaxed);
	}
	return inode;
}

static void unlink_age_locked(struct inode_shard *shard, struct fsc_inode *inode)
{
	*(inode->newer ? &inode->newer->older : &shard->newest) = inode->older;
	*(inode->older ? &inode->older->newer : &shard->oldest) = inode->newer;
}

static void link_newest_locked(struct inode_shard *shard, struct fsc_inode *inode)
{
	inode->newer = NULL;
	inode->older = shard->newest;
	*(shard->newest ? &shard->newest->newer : &shard->oldest) = inode;
	shard->newest = inode;
}

static void add_locked(struct inode_shard *shard, struct fsc_inode *inode)
{
	struct fsc_inode **bucket = bucket_of(shard, inode->subvol, inode->ino);

	inode->next = *bucket;
	*bucket = inode;
	link_newest_locked(shard, inode);
	shard->n_inodes++;
}

static void remove_locked(struct inode_shard *shard, struct fsc_inode *inode)
{
	struct fsc_inode **at = bucket_of(shard, inode->subvol, inode->ino);

	while (*at != inode)
		at = &(*at)->next;
	*at = inode->next;
	unlink_age_locked(shard, inode);
	shard->n_inodes--;
}

/* Somebody may still come to ask whether what was written is durable, and must hear that it is lost. */
static bool has_to_tell(struct fsc_inode *inode)
{
	bool has;

	short_lock(&inode->owner.lock);
	has = inode->write_error;
	short_unlock(&inode->owner.lock);
	return has;
}

static bool can_go_locked(struct inode_shard *shard, struct fsc_inode *inode, size_t max_inodes)
{
	if (atomic_load_explicit(&inode->refs, memory_order_acquire) ||
		atomic_load_explicit(&inode->referenced, memory_order_relaxed))
		return false;
	/* Those that have to tell something may make the table larger, but not without end. */
	return shard->n_inodes > max_inodes + max_inodes / 4 || !has_to_tell(inode);
}

/* The oldest inode that nobody uses, out of the table; NULL when it is not full. */
static struct fsc_inode *evict_locked(struct inode_shard *shard, size_t max_inodes)
{
	for (unsigned tries = 8; tries > 0 && shard->n_inodes > max_inodes; tries--) {
		struct fsc_inode *inode = shard->oldest;

		if (can_go_locked(shard, inode, max_inodes)) {
			remove_locked(shard, inode);
			shard->evictions++;
			return inode;
		}
		atomic_store_explicit(&inode->referenced, false, memory_order_relaxed);
		unlink_age_locked(shard, inode);
		link_newest_locked(shard, inode);
	}
	return NULL;
}

int inode_get(struct fsc_ctx *ctx, struct subvol *sv, uint64_t ino, struct fsc_inode **out)
{
	struct inode_shard *shard = shard_of(sv, ino);
	struct fsc_inode *inode, *fresh, *victim = NULL;
	int ret;

	short_lock(&shard->lock);
	inode = find_locked(shard, sv, ino);
	if (inode)
		shard->hits++;
	short_unlock(&shard->lock);
	if (inode) {
		*out = inode;
		return 0;
	}
	fresh = inode_alloc(sv, ino);
	if (!fresh)
		return -ENOMEM;
	ret = read_inode(ctx, fresh);
	if (ret) {
		free_inode(fresh);
		return ret;
	}

	short_lock(&shard->lock);
	inode = find_locked(shard, sv, ino);
	if (!inode) {
		shard->misses++;
		fresh->is_new = false;
		add_locked(shard, fresh);
		inode = fresh;
		fresh = NULL;
		victim = evict_locked(shard, sv->vol->inodes_per_shard);
	}
	short_unlock(&shard->lock);
	if (fresh)
		free_inode(fresh);
	if (victim)
		free_inode(victim);
	*out = inode;
	return 0;
}

bool inode_peek_attr(struct subvol *sv, uint64_t ino, struct fsc_attr *attr)
{
	struct inode_shard *shard = shard_of(sv, ino);
	struct fsc_inode *inode;

	short_lock(&shard->lock);
	inode = *bucket_of(shard, sv, ino);
	while (inode && (inode->ino != ino || inode->subvol != sv))
		inode = inode->next;
	if (inode)
		fsc_inode_attr(inode, attr);
	short_unlock(&shard->lock);
	return inode;
}

static bool is_unlinked(struct fsc_inode *inode)
{
	bool unlinked;

	short_lock(&inode->attr_lock);
	unlinked = inode->unlinked;
	short_unlock(&inode->attr_lock);
	return unlinked;
}

void inode_add_new(struct fsc_inode *inode)
{
	struct inode_shard *shard = shard_of(inode->subvol, inode->ino);
	struct fsc_inode *victim;

	short_lock(&shard->lock);
	inode->is_new = false;
	add_locked(shard, inode);
	victim = evict_locked(shard, inode->subvol->vol->inodes_per_shard);
	short_unlock(&shard->lock);
	if (victim)
		free_inode(victim);
}

void inode_forget(struct fsc_inode *inode)
{
	struct inode_shard *shard = shard_of(inode->subvol, inode->ino);

	short_lock(&shard->lock);
	remove_locked(shard, inode);
	inode->is_new = true;
	short_unlock(&shard->lock);
}

int fsc_inode_get(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t subvol, uint64_t ino,
	uint64_t generation, struct fsc_inode **out)
{
	struct subvol *sv;
	int ret = subvol_get(ctx, vol, subvol, &sv);

	if (!ret)
		ret = inode_get(ctx, sv, ino, out);
	if (ret)
		return ret == -ENOENT ? -ESTALE : ret;
	if ((generation && (*out)->attr.generation != generation) || is_unlinked(*out)) {
		fsc_inode_put(*out);
		*out = NULL;
		return -ESTALE;
	}
	return 0;
}

void fsc_inode_ref(struct fsc_inode *inode)
{
	atomic_fetch_add_explicit(&inode->refs, 1, memory_order_relaxed);
}

void fsc_inode_put(struct fsc_inode *inode)
{
	if (!inode || atomic_fetch_sub_explicit(&inode->refs, 1, memory_order_acq_rel) != 1)
		return;
	/* Never was in the table: an orphan of an earlier life. */
	if (inode->is_new)
		free_inode(inode);
}

void fsc_inode_attr(struct fsc_inode *inode, struct fsc_attr *out)
{
	short_lock(&inode->attr_lock);
	*out = inode->attr;
	short_unlock(&inode->attr_lock);
}

static void time_to_disk(const struct fsc_time *t, struct btrfs_timespec *ts)
{
	PUT(ts, sec, t->sec);
	PUT(ts, nsec, t->nsec);
}

void inode_to_item(const struct fsc_inode *inode, uint64_t transid, struct btrfs_inode_item *item)
{
	const struct fsc_attr *a = &inode->attr;

	PUT(item, generation, a->generation);
	PUT(item, transid, transid);
	PUT(item, size, S_ISREG(a->mode) ? inode->disk_size : a->size_bytes);
	PUT(item, nbytes, inode->used_bytes);
	PUT(item, nlink, a->nlink);
	PUT(item, uid, a->uid);
	PUT(item, gid, a->gid);
	PUT(item, mode, a->mode);
	PUT(item, rdev, (uint64_t)a->rdev_major << 20 | a->rdev_minor);
	PUT(item, flags, inode->flags);
	PUT(item, sequence, a->change);
	time_to_disk(&a->atime, &item->atime);
	time_to_disk(&a->mtime, &item->mtime);
	time_to_disk(&a->ctime, &item->ctime);
	time_to_disk(&a->btime, &item->otime);
}

int inode_table_init(struct fsc_volume *vol, size_t bytes)
{
	/* Beside the inode itself: its pages' index and what malloc adds. */
	size_t per_inode = sizeof(struct fsc_inode) + 128;

	vol->inodes_per_shard = MAX(bytes / per_inode / INODE_SHARDS, 16u);
	vol->inode_buckets = 16;
	while (vol->inode_buckets < vol->inodes_per_shard)
		vol->inode_buckets *= 2;
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		struct inode_shard *shard = &vol->inodes[i];

		short_lock_init(&shard->lock, RANK_INODE_TABLE);
		shard->buckets = calloc(vol->inode_buckets, sizeof(struct fsc_inode *));
		if (!shard->buckets)
			return -ENOMEM;
	}
	return 0;
}

void inode_table_free(struct fsc_volume *vol)
{
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		struct inode_shard *shard = &vol->inodes[i];

		while (shard->oldest) {
			struct fsc_inode *inode = shard->oldest;

			remove_locked(shard, inode);
			free_inode(inode);
		}
		free(shard->buckets);
		shard->buckets = NULL;
	}
}
