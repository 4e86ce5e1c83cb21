/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/piece.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/compress_prop.h"
#include "fscore/format/csum.h"
#include "fscore/tree/modify.h"

#define MAX_INLINE 2048u

static struct page_pool *pool_of(const struct piece *p)
{
	return &p->inode->subvol->vol->pages;
}

static uint64_t flags_of(struct fsc_inode *inode)
{
	uint64_t flags;

	short_lock(&inode->attr_lock);
	flags = inode->flags;
	short_unlock(&inode->attr_lock);
	return flags;
}

static unsigned max_compressed_pages(const struct page_pool *pool)
{
	return BTRFS_MAX_UNCOMPRESSED_BYTES >> pool->page_shift;
}

unsigned piece_max_pages(struct fsc_ctx *ctx, struct fsc_inode *inode)
{
	if (compress_type_of(ctx, inode) == BTRFS_COMPRESS_NONE)
		return PIECE_MAX_PAGES;
	return max_compressed_pages(&inode->subvol->vol->pages);
}

/* ------------------------------------------------------------------- compression */

/* The content in one piece; NULL: no memory. */
static char *gather(const struct piece *p)
{
	const struct page_pool *pool = pool_of(p);
	char *data = malloc((size_t)p->n_pages << pool->page_shift);

	for (unsigned i = 0; data && i < p->n_pages; i++)
		memcpy(data + ((size_t)i << pool->page_shift), page_data(pool, p->pages[i]),
			pool->page_bytes);
	return data;
}

/*
 * Compresses the content into no more than out_max bytes, with zeros up to the end of the sector
 * behind it. -E2BIG: it does not get so small; another error: it was not tried.
 */
static int try_compress(struct compressor *c, struct piece *p, uint8_t type, size_t out_max)
{
	uint32_t sector_bytes = pool_of(p)->page_bytes;
	size_t room = align_up(out_max, sector_bytes), n = 0;
	char *in = gather(p), *out = aligned_alloc(4096, room);
	int ret = c && in && out ? 0 : -ENOMEM;

	if (!ret && compress_looks_random(in, p->ram_bytes))
		ret = -ENODATA;
	if (!ret)
		ret = compress_extent(c, type, in, p->ram_bytes, out, out_max, sector_bytes, &n);
	free(in);
	if (ret) {
		free(out);
		return ret;
	}
	memset(out + n, 0, room - n);
	p->compressed = out;
	p->disk_bytes = n;
	p->compression = type;
	return 0;
}

void piece_compress(struct fsc_ctx *ctx, struct compressor *c, struct piece *p)
{
	const struct page_pool *pool = pool_of(p);
	uint8_t type = compress_type_of(ctx, p->inode);
	int ret;

	/* One sector does not get smaller. A longer piece was taken before this was asked for. */
	if (type == BTRFS_COMPRESS_NONE || p->n_pages < 2 ||
		p->n_pages > max_compressed_pages(pool))
		return;
	ret = try_compress(c, p, type, p->ram_bytes - pool->page_bytes);
	if (!ret)
		p->disk_bytes = align_up(p->disk_bytes, pool->page_bytes);
	/* Little pieces say nothing about the file. (The kernel gives up after any.) */
	else if (ret == -E2BIG && p->n_pages >= max_compressed_pages(pool) / 2)
		compress_gave_up(p->inode);
}

void piece_uncompress(struct piece *p)
{
	free(p->compressed);
	p->compressed = NULL;
	p->compression = BTRFS_COMPRESS_NONE;
	p->disk_bytes = p->ram_bytes;
}

/* -------------------------------------------------------------------------- form */

static bool has_more(const struct piece *p)
{
	struct fsc_inode *inode = p->inode;
	bool more;

	/* A truncation drops what is behind when this is in the trees. */
	short_lock(&inode->attr_lock);
	more = inode->disk_size > pool_of(p)->page_bytes;
	short_unlock(&inode->attr_lock);
	short_lock(&inode->owner.lock);
	more |= inode->grows;
	short_unlock(&inode->owner.lock);
	return more;
}

uint64_t piece_max_inline(const struct fsc_inode *inode)
{
	return MIN(MAX_INLINE, tree_max_item_bytes(&inode->subvol->root) / 2);
}

/* Whether the piece is a whole small file, to be stored inline, perhaps compressed. */
static bool choose_inline(struct fsc_ctx *ctx, struct compressor *c, struct piece *p)
{
	uint64_t size = inode_size(p->inode);
	uint64_t most = piece_max_inline(p->inode);
	uint8_t type = compress_type_of(ctx, p->inode);

	if (p->file_off || p->n_pages != 1 || !size || size >= pool_of(p)->page_bytes)
		return false;
	/* Nor has the file, or will it have soon, anything behind its first page. */
	if (has_more(p))
		return false;
	/* What is preallocated behind the end stays; an inline extent stands alone. */
	if (flags_of(p->inode) & BTRFS_INODE_PREALLOC)
		return false;
	p->ram_bytes = p->disk_bytes = size;
	if (type == BTRFS_COMPRESS_NONE || try_compress(c, p, type, MIN(most, size - 1)))
		return size <= most;
	return true;
}

static int choose_in_place(struct fsc_ctx *ctx, struct piece *p, unsigned *n_pages)
{
	unsigned shift = pool_of(p)->page_shift;
	uint64_t end = p->file_off + ((uint64_t)p->n_pages << shift), len;
	enum in_place how;
	int ret = in_place_find(ctx, p->inode, p->file_off, end, &how, &p->logical, &len);

	if (ret)
		return ret;
	*n_pages = (unsigned)(len >> shift);
	if (how == IN_PLACE_NOT)
		p->logical = 0;
	else
		p->form = how == IN_PLACE_OVER ? PIECE_OVER : PIECE_PREALLOC;
	return 0;
}

int piece_choose_form(struct fsc_ctx *ctx, struct compressor *c, struct piece *p, unsigned *n_pages)
{
	int ret = 0;

	p->form = PIECE_NEW;
	*n_pages = p->n_pages;
	if (flags_of(p->inode) & (BTRFS_INODE_NODATACOW | BTRFS_INODE_PREALLOC))
		ret = choose_in_place(ctx, p, n_pages);
	if (ret || p->form != PIECE_NEW)
		return ret;
	if (choose_inline(ctx, c, p))
		p->form = PIECE_INLINE;
	return 0;
}

/* ------------------------------------------------------------------ to the device */

static const void *sector_at(const struct piece *p, unsigned i)
{
	const struct page_pool *pool = pool_of(p);

	if (p->compressed)
		return p->compressed + ((size_t)i << pool->page_shift);
	return page_data(pool, p->pages[i]);
}

static int compute_csums(struct piece *p)
{
	const struct volume_geometry *geo = &p->inode->subvol->vol->geo;
	unsigned n = (unsigned)(p->disk_bytes / geo->sector_bytes);

	if (flags_of(p->inode) & BTRFS_INODE_NODATASUM)
		return 0;
	p->csums = malloc((size_t)n * geo->csum_bytes);
	if (!p->csums)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		uint8_t csum[BTRFS_CSUM_SIZE];

		csum_compute(geo->csum_type, sector_at(p, i), geo->sector_bytes, csum);
		memcpy(p->csums + (size_t)i * geo->csum_bytes, csum, geo->csum_bytes);
	}
	return 0;
}

static void set_iov(struct piece *p)
{
	struct page_pool *pool = pool_of(p);
	unsigned n_iov = 0;

	p->req.iov = p->iov;
	p->req.len_bytes = (size_t)p->disk_bytes;
	if (p->compressed) {
		p->iov[0] = (struct iovec){p->compressed, (size_t)p->disk_bytes};
		p->req.n_iov = 1;
		return;
	}
	for (unsigned i = 0; i < p->n_pages; i++) {
		char *data = page_data(pool, p->pages[i]);
		struct iovec *last = n_iov ? &p->iov[n_iov - 1] : NULL;

		if (last && (char *)last->iov_base + last->iov_len == data)
			last->iov_len += pool->page_bytes;
		else
			p->iov[n_iov++] = (struct iovec){data, pool->page_bytes};
	}
	p->req.n_iov = n_iov;
}

int piece_prepare(struct piece *p)
{
	set_iov(p);
	return compute_csums(p);
}

void piece_free(struct piece *p)
{
	free(p->compressed);
	free(p->csums);
	free(p);
}
