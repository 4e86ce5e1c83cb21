/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsc_read() of fscore.h.
 *
 *   look up    the pages that are cached (referenced, in whatever state)
 *   plan       for the others: which segments of the file, which checksums; all that
 *              may have to wait for metadata, and nothing that others can see
 *   take       the pages that the plan needs, all or none
 *   commit     under owner.lock: put them in the index, wait for those that others
 *              are filling; then start the I/O
 *   collect    when nothing is pending: the pages become the result
 *
 * If extents have changed since the look-up (inode->map_seq), pages that are still missing have
 * been written and evicted meanwhile, perhaps: the read, which runs beside that write, may have
 * what was there before, but must not cache it. If that is not there any more it begins again.
 *
 * If the file was cut meanwhile, what the trees said may be a hole that was never one of the
 * file: the read begins again, too. In what has lost its last name nothing is looked up.
 *
 * A read that finds all pages goes from the first step to the last.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/file/compress.h"
#include "fscore/file/data_io.h"
#include "fscore/file/file_extent.h"
#include "fscore/file/inode_write.h"
#include "fscore/format/csum.h"

#define SEGS_AT_ONCE	 32u
#define READ_TRIES	 8u /* when the file changes under a read, and what it looks for is gone */
#define READAHEAD_MAX	 (2u << 20)
#define SLOW_CSUM_INLINE (64u << 10) /* how much of that a loop thread does itself */

static const char zeros[BTRFS_MAX_METADATA_BLOCKSIZE] __attribute__((aligned(4096)));

/* Stands for a page of a hole. */
static struct page hole_page;

struct fsc_read_impl {
	struct fsc_read *rd; /* NULL: read-ahead */
	struct fsc_volume *vol;
	struct fsc_inode *inode; /* a reference */
	struct io_wait wait;
	bool done;		    /* set on the reading thread when nothing is pending any more */
	unsigned epoch;		    /* held while extents are looked up and I/O is begun */
	uint64_t map_seq;	    /* the inode's, at the look-up */
	uint64_t cut_seq;	    /* the inode's, when the read was clamped to its size */
	bool used_trees;	    /* not all pages were there */
	struct io_wait_link *links; /* one for each page */
	uint64_t first;		    /* index of the first page */
	unsigned n_pages;
	struct iovec *iov;
	struct page *pages[]; /* a reference to each; NULL: not there; or &hole_page */
};

/* A segment, and what is needed to read it. */
struct planned_seg {
	struct file_seg seg;
	uint8_t *csums;
	bool *have_csum;
};

struct plan {
	struct planned_seg *segs;
	unsigned n_segs, max_segs;
	unsigned n_new_pages;
	struct page **new_pages; /* not used yet: from next_page on */
	unsigned next_page;
};

/* --------------------------------------------------------------- life cycle */

static void put_pages(struct fsc_read_impl *r)
{
	for (unsigned i = 0; i < r->n_pages; i++)
		if (r->pages[i] == &hole_page)
			r->pages[i] = NULL;
	page_pool_put(&r->vol->pages, r->n_pages, r->pages);
}

static void impl_free(struct fsc_read_impl *r)
{
	if (!r)
		return;
	put_pages(r);
	fsc_inode_put(r->inode);
	free(r);
}

static struct fsc_read_impl *impl_create(struct fsc_inode *inode, uint64_t first, unsigned n_pages)
{
	size_t per_page =
		sizeof(struct page *) + sizeof(struct iovec) + sizeof(struct io_wait_link);
	struct fsc_read_impl *r = malloc(sizeof(*r) + n_pages * per_page);

	if (!r)
		return NULL;
	memset(r, 0, sizeof(*r) + n_pages * sizeof(struct page *));
	r->vol = inode->subvol->vol;
	r->inode = inode;
	fsc_inode_ref(inode);
	r->first = first;
	r->n_pages = n_pages;
	r->iov = (struct iovec *)(r->pages + n_pages);
	r->links = (struct io_wait_link *)(r->iov + n_pages);
	return r;
}

void fsc_read_release(struct fsc_read *rd)
{
	impl_free(rd->impl);
	rd->impl = NULL;
}

/* ------------------------------------------------------------------ look up */

/* References the cached pages. True: all are there and up to date. */
static bool look_up(struct fsc_read_impl *r)
{
	unsigned n_hits = 0;
	bool complete = true;

	short_lock(&r->inode->owner.lock);
	r->map_seq = r->inode->map_seq;
	page_index_lookup_range(&r->inode->index, r->first, r->n_pages, r->pages);
	for (unsigned i = 0; i < r->n_pages; i++) {
		struct page *page = r->pages[i];

		if (!page) {
			complete = false;
			continue;
		}
		n_hits++;
		atomic_fetch_add_explicit(&page->refs, 1, memory_order_relaxed);
		if (page->state != PAGE_UPTODATE)
			complete = false;
		else if (!atomic_load_explicit(&page->referenced, memory_order_relaxed))
			atomic_store_explicit(&page->referenced, true, memory_order_relaxed);
	}
	short_unlock(&r->inode->owner.lock);
	if (r->rd) {
		stat_add(&r->vol->stats.page_hits, n_hits);
		if (n_hits < r->n_pages)
			stat_add(&r->vol->stats.page_misses, r->n_pages - n_hits);
	}
	return complete;
}

/* --------------------------------------------------------------------- plan */

static void plan_free(struct fsc_read_impl *r, struct plan *plan)
{
	for (unsigned i = 0; i < plan->n_segs; i++) {
		free(plan->segs[i].seg.inline_data);
		free(plan->segs[i].csums);
	}
	free(plan->segs);
	if (plan->new_pages)
		page_pool_put(&r->vol->pages, plan->n_new_pages - plan->next_page,
			plan->new_pages + plan->next_page);
	free(plan->new_pages);
}

static bool has_data_csums(const struct fsc_inode *inode)
{
	return !(inode->flags & BTRFS_INODE_NODATASUM);
}

static int plan_csums(struct fsc_ctx *ctx, struct fsc_read_impl *r, struct planned_seg *p)
{
	const struct volume_geometry *geo = &r->vol->geo;
	unsigned n = (unsigned)(p->seg.len_bytes / geo->sector_bytes);

	if (!has_data_csums(r->inode))
		return 0;
	if ((ctx->flags & FSC_NOWAIT) && csum_is_slow(geo->csum_type) &&
		p->seg.len_bytes > SLOW_CSUM_INLINE) {
		ctx->blocked = FSC_BLOCKED_CPU;
		return -EAGAIN;
	}
	p->csums = malloc(n * (geo->csum_bytes + sizeof(bool)));
	if (!p->csums)
		return -ENOMEM;
	p->have_csum = (bool *)(p->csums + (size_t)n * geo->csum_bytes);
	return csum_lookup(ctx, r->vol, p->seg.logical, n, p->csums, p->have_csum);
}

/* Adds what one mapped segment needs. Takes over its inline_data. */
static int plan_add(
	struct fsc_ctx *ctx, struct fsc_read_impl *r, struct plan *plan, const struct file_seg *seg)
{
	unsigned shift = r->vol->pages.page_shift;
	struct planned_seg *p;

	if (plan->n_segs == plan->max_segs) {
		unsigned max = MAX(8u, plan->max_segs * 2);

		p = reallocarray(plan->segs, max, sizeof(*p));
		if (!p) {
			free(seg->inline_data);
			return -ENOMEM;
		}
		plan->segs = p;
		plan->max_segs = max;
	}
	p = &plan->segs[plan->n_segs++];
	*p = (struct planned_seg){.seg = *seg};
	switch (seg->kind) {
	case SEG_HOLE:
		return 0;
	case SEG_COMPRESSED:
		if (!(ctx->flags & FSC_NOWAIT))
			return 0;
		ctx->blocked = FSC_BLOCKED_CPU;
		return -EAGAIN;
	case SEG_INLINE:
		plan->n_new_pages++;
		return 0;
	case SEG_DISK:
		plan->n_new_pages += (unsigned)(seg->len_bytes >> shift);
		return plan_csums(ctx, r, p);
	}
	return -EUCLEAN;
}

/* Plans one run of missing pages. */
static int plan_run(
	struct fsc_ctx *ctx, struct fsc_read_impl *r, struct plan *plan, unsigned from, unsigned n)
{
	unsigned shift = r->vol->pages.page_shift;
	uint64_t pos = (r->first + from) << shift, end = pos + ((uint64_t)n << shift);
	struct file_seg segs[SEGS_AT_ONCE];
	int ret = 0;

	while (!ret && pos < end) {
		unsigned n_segs;

		ret = file_map(ctx, r->inode, pos, end, segs, SEGS_AT_ONCE, &n_segs);
		if (ret)
			return ret;
		for (unsigned i = 0; i < n_segs; i++) {
			pos += segs[i].len_bytes;
			if (!ret)
				ret = plan_add(ctx, r, plan, &segs[i]);
			else
				free(segs[i].inline_data);
		}
	}
	return ret;
}

static int plan_missing(struct fsc_ctx *ctx, struct fsc_read_impl *r, struct plan *plan)
{
	unsigned i = 0;

	while (i < r->n_pages) {
		unsigned n = 0;
		int ret;

		if (r->pages[i]) {
			i++;
			continue;
		}
		while (i + n < r->n_pages && !r->pages[i + n])
			n++;
		ret = plan_run(ctx, r, plan, i, n);
		if (ret)
			return ret;
		i += n;
	}
	return 0;
}

/* --------------------------------------------------------------------- take */

/* All n pages, or none and -EAGAIN. */
static int take_pages(struct fsc_ctx *ctx, struct page_pool *pool, unsigned n, struct page **pages)
{
	bool nowait = ctx->flags & FSC_NOWAIT;

	for (;;) {
		unsigned got = page_pool_take(pool, n, pages, !nowait);

		if (got == n)
			return 0;
		/* Two that each hold a part would wait for each other. */
		page_pool_put(pool, got, pages);
		if (nowait) {
			ctx->blocked = FSC_BLOCKED_PAGE;
			return -EAGAIN;
		}
		if (n > pool->n_pages)
			return -ENOMEM;
		page_pool_wait_sync(ctx, pool);
	}
}

static int plan_take_pages(struct fsc_ctx *ctx, struct fsc_read_impl *r, struct plan *plan)
{
	int ret;

	if (!plan->n_new_pages)
		return 0;
	plan->new_pages = calloc(plan->n_new_pages, sizeof(struct page *));
	if (!plan->new_pages)
		return -ENOMEM;
	ret = take_pages(ctx, &r->vol->pages, plan->n_new_pages, plan->new_pages);
	if (ret) {
		free(plan->new_pages);
		plan->new_pages = NULL;
	}
	return ret;
}

/* ------------------------------------------------------------------- commit */

/*
 * Puts pages in the index at `at`, as far as these places are empty. Returns how many.
 * The cache gets a reference of its own to each; but when the extents may be old the pages stay
 * the read's alone. owner.lock is held.
 */
static unsigned insert_pages_locked(const struct fsc_read_impl *r, uint64_t at, unsigned n,
	struct page *const *pages, enum page_state state)
{
	struct fsc_inode *inode = r->inode;
	bool cache = inode->map_seq == r->map_seq;
	unsigned done = 0;

	for (; done < n; done++) {
		if (page_index_lookup(&inode->index, at + done))
			break;
		if (cache && page_index_insert(&inode->index, at + done, pages[done]))
			break;
		if (cache)
			atomic_fetch_add_explicit(&pages[done]->refs, 1, memory_order_relaxed);
		pages[done]->state = (uint8_t)state;
	}
	if (done && cache)
		page_pool_adopt(&r->vol->pages, done, pages, &inode->owner, at);
	return done;
}

/* Takes the page that another thread has put at `at` since we looked. owner.lock is held. */
static int use_present_locked(struct fsc_read_impl *r, uint64_t at)
{
	struct page *page = page_index_lookup(&r->inode->index, at);

	if (!page)
		return -ENOMEM; /* the index could not grow */
	atomic_fetch_add_explicit(&page->refs, 1, memory_order_relaxed);
	r->pages[at - r->first] = page;
	return 0;
}

/* Makes one data_io of at most n new pages at index `at`; *done is how far it got. */
static int commit_io(struct fsc_read_impl *r, struct plan *plan, struct planned_seg *p, uint64_t at,
	unsigned n, unsigned *done, struct data_io **out)
{
	const struct volume_geometry *geo = &r->vol->geo;
	uint64_t within = at - (p->seg.file_off >> r->vol->pages.page_shift);
	struct page **pages = plan->new_pages + plan->next_page;
	struct data_io *io;
	unsigned inserted;
	int ret;

	*out = NULL;
	short_lock(&r->inode->owner.lock);
	inserted = insert_pages_locked(r, at, n, pages, PAGE_READING);
	if (!inserted) {
		ret = use_present_locked(r, at);
		short_unlock(&r->inode->owner.lock);
		*done = 1;
		return ret;
	}
	ret = data_io_create(r->inode, r->epoch, p->seg.logical + within * geo->sector_bytes,
		inserted, pages, p->csums ? p->have_csum + within : NULL,
		p->csums ? p->csums + within * geo->csum_bytes : NULL, &io);
	for (unsigned i = 0; i < inserted; i++) {
		if (ret) {
			pages[i]->state = PAGE_FAILED;
			if (page_index_lookup(&r->inode->index, at + i) == pages[i]) {
				page_index_remove(&r->inode->index, at + i);
				page_pool_drop(&r->vol->pages, pages[i]);
			}
			continue;
		}
		pages[i]->io = io;
		atomic_fetch_add_explicit(&pages[i]->refs, 1, memory_order_relaxed);
		r->pages[at + i - r->first] = pages[i];
	}
	short_unlock(&r->inode->owner.lock);
	if (ret)
		return ret;
	plan->next_page += inserted;
	*done = inserted;
	*out = io;
	return 0;
}

static int commit_disk(
	struct fsc_ctx *ctx, struct fsc_read_impl *r, struct plan *plan, struct planned_seg *p)
{
	unsigned shift = r->vol->pages.page_shift;
	uint64_t at = p->seg.file_off >> shift;
	unsigned left = (unsigned)(p->seg.len_bytes >> shift);

	while (left) {
		struct data_io *io;
		unsigned done;
		int ret = commit_io(r, plan, p, at, MIN(left, DATA_IO_MAX_PAGES), &done, &io);

		if (ret)
			return ret;
		if (io)
			data_io_start(io, ctx->thread);
		at += done;
		left -= done;
	}
	return 0;
}

/* The content of an inline extent, in one sector. */
static int fill_inline(const struct fsc_read_impl *r, const struct file_seg *seg, char *data)
{
	size_t page_bytes = r->vol->pages.page_bytes;
	size_t n;

	memset(data, 0, page_bytes);
	if (seg->extent.type != BTRFS_COMPRESS_NONE)
		return decompress_extent(seg->extent.type, seg->inline_data, seg->inline_bytes,
			data, MIN(seg->extent.ram_bytes, page_bytes), r->vol->geo.sector_bytes);
	n = MIN(seg->inline_bytes, page_bytes);
	memcpy(data, seg->inline_data, n);
	return 0;
}

static int commit_inline(struct fsc_read_impl *r, struct plan *plan, const struct file_seg *seg)
{
	struct page *page = plan->new_pages[plan->next_page];
	uint64_t at = seg->file_off >> r->vol->pages.page_shift;
	int ret = fill_inline(r, seg, page_data(&r->vol->pages, page));

	if (ret)
		return ret;
	short_lock(&r->inode->owner.lock);
	if (insert_pages_locked(r, at, 1, &page, PAGE_UPTODATE)) {
		r->pages[at - r->first] = page;
		plan->next_page++;
	} else {
		ret = use_present_locked(r, at);
	}
	short_unlock(&r->inode->owner.lock);
	return ret;
}

static void commit_hole(struct fsc_read_impl *r, const struct file_seg *seg)
{
	unsigned shift = r->vol->pages.page_shift;
	uint64_t first = (seg->file_off >> shift) - r->first;

	for (uint64_t i = 0; i < seg->len_bytes >> shift; i++)
		r->pages[first + i] = &hole_page;
}

/* --------------------------------------------------------------- compressed */

/* The copies before the good one, which is in buf, are bad. The epoch is held. */
static void repair_compressed(struct fsc_ctx *ctx, struct fsc_read_impl *r,
	const struct compressed_extent *ext, char *buf, const struct chunk_place *place,
	unsigned good)
{
	for (unsigned copy = 0; copy < good && fs_writable(r->vol); copy++) {
		int ret = dev_rw_sync(r->vol->dev, ctx->thread, IO_WRITE, place->physical[copy],
			buf, ext->disk_bytes);

		data_note_repair(r->vol, copy, ext->logical,
			(unsigned)(ext->disk_bytes / r->vol->geo.sector_bytes), ret);
	}
}

/* Reads the compressed bytes of an extent, from a copy whose checksums are right. */
static int read_compressed(struct fsc_ctx *ctx, struct fsc_read_impl *r,
	const struct compressed_extent *ext, char *buf)
{
	const struct volume_geometry *geo = &r->vol->geo;
	unsigned n = (unsigned)(ext->disk_bytes / geo->sector_bytes);
	uint8_t csums[BTRFS_MAX_COMPRESSED_BYTES / BTRFS_MIN_NODE_BYTES * BTRFS_CSUM_SIZE];
	bool have[BTRFS_MAX_COMPRESSED_BYTES / BTRFS_MIN_NODE_BYTES];
	struct chunk_place place;
	int ret = chunk_map_lookup(&r->vol->chunks, ext->logical, &place);

	if (ret || place.length_bytes < ext->disk_bytes)
		return -EUCLEAN;
	if (has_data_csums(r->inode)) {
		ret = csum_lookup(ctx, r->vol, ext->logical, n, csums, have);
		if (ret)
			return ret;
	}
	for (unsigned copy = 0; copy < place.n_mirrors; copy++) {
		bool good;

		ret = dev_rw_sync(r->vol->dev, ctx->thread, IO_READ, place.physical[copy], buf,
			ext->disk_bytes);
		good = !ret;
		for (unsigned i = 0; good && has_data_csums(r->inode) && i < n; i++) {
			uint64_t at = (uint64_t)i * geo->sector_bytes;

			good = data_verify(r->inode, ext->logical + at, ext->file_off, buf + at,
				have[i], csums + (size_t)i * geo->csum_bytes);
		}
		if (good) {
			if (copy)
				stat_add(&r->vol->stats.mirror_repairs, 1);
			if (copy && has_data_csums(r->inode))
				repair_compressed(ctx, r, ext, buf, &place, copy);
			return 0;
		}
	}
	return -EIO;
}

/* Puts the decompressed part that the file shows in the cache, and in the read. */
static int cache_decompressed(struct fsc_ctx *ctx, struct fsc_read_impl *r,
	const struct compressed_extent *ext, const char *data)
{
	struct page_pool *pool = &r->vol->pages;
	unsigned n = (unsigned)(ext->len_bytes >> pool->page_shift);
	uint64_t at = ext->file_off >> pool->page_shift;
	struct page *pages[BTRFS_MAX_UNCOMPRESSED_BYTES / BTRFS_MIN_NODE_BYTES];
	int ret = take_pages(ctx, pool, n, pages);

	if (ret)
		return ret;
	for (unsigned i = 0; i < n; i++)
		memcpy(page_data(pool, pages[i]), data + ((size_t)i << pool->page_shift),
			pool->page_bytes);
	short_lock(&r->inode->owner.lock);
	for (unsigned i = 0; i < n; i++) {
		bool wanted = at + i >= r->first && at + i - r->first < r->n_pages &&
			!r->pages[at + i - r->first];

		/* If it can't be cached, the read still has its own page. */
		if (!insert_pages_locked(r, at + i, 1, &pages[i], PAGE_UPTODATE))
			pages[i]->state = PAGE_UPTODATE;
		if (wanted) {
			r->pages[at + i - r->first] = pages[i];
			pages[i] = NULL;
		}
	}
	short_unlock(&r->inode->owner.lock);
	page_pool_put(pool, n, pages);
	return 0;
}

static bool compressed_extent_ok(const struct compressed_extent *ext, uint64_t sector_bytes)
{
	return ext->disk_bytes && ext->disk_bytes <= BTRFS_MAX_COMPRESSED_BYTES &&
		ext->disk_bytes % sector_bytes == 0 && ext->ram_bytes &&
		ext->ram_bytes <= BTRFS_MAX_UNCOMPRESSED_BYTES && ext->len_bytes &&
		ext->ram_off < ext->ram_bytes && ext->len_bytes <= ext->ram_bytes - ext->ram_off;
}

static int commit_compressed(
	struct fsc_ctx *ctx, struct fsc_read_impl *r, const struct compressed_extent *ext)
{
	uint64_t ram_bytes = align_up(ext->ram_bytes, r->vol->geo.sector_bytes);
	char *disk, *ram;
	int ret;

	if (!compressed_extent_ok(ext, r->vol->geo.sector_bytes)) {
		log_limited(LOG_LVL_ERROR, "inode %llu: a compressed extent of odd size",
			(unsigned long long)r->inode->ino);
		return -EUCLEAN;
	}
	disk = aligned_alloc(4096, ext->disk_bytes);
	ram = calloc(1, ram_bytes);
	ret = disk && ram ? read_compressed(ctx, r, ext, disk) : -ENOMEM;
	if (!ret)
		ret = decompress_extent(ext->type, disk, ext->disk_bytes, ram, ext->ram_bytes,
			r->vol->geo.sector_bytes);
	if (!ret)
		ret = cache_decompressed(ctx, r, ext, ram + ext->ram_off);
	free(disk);
	free(ram);
	return ret;
}

/* A later segment of the same extent may have been filled by an earlier one. */
static bool seg_is_filled(const struct fsc_read_impl *r, const struct file_seg *seg)
{
	unsigned shift = r->vol->pages.page_shift;
	uint64_t first = (seg->file_off >> shift) - r->first;

	for (uint64_t i = 0; i < seg->len_bytes >> shift; i++)
		if (!r->pages[first + i])
			return false;
	return true;
}

static int commit_plan(struct fsc_ctx *ctx, struct fsc_read_impl *r, struct plan *plan)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < plan->n_segs; i++) {
		struct planned_seg *p = &plan->segs[i];

		switch (p->seg.kind) {
		case SEG_HOLE:
			commit_hole(r, &p->seg);
			break;
		case SEG_DISK:
			ret = commit_disk(ctx, r, plan, p);
			break;
		case SEG_INLINE:
			ret = commit_inline(r, plan, &p->seg);
			break;
		case SEG_COMPRESSED:
			if (!seg_is_filled(r, &p->seg))
				ret = commit_compressed(ctx, r, &p->seg.extent);
			break;
		}
	}
	return ret;
}

/* For every page that is being read, by us or by others. */
static void link_waits(struct fsc_read_impl *r)
{
	struct data_io *last = NULL;
	unsigned n = 0;

	short_lock(&r->inode->owner.lock);
	for (unsigned i = 0; i < r->n_pages; i++) {
		struct page *page = r->pages[i];

		if (!page || page == &hole_page || page->state != PAGE_READING || page->io == last)
			continue;
		last = page->io;
		data_io_wait(last, &r->wait, &r->links[n++]);
	}
	short_unlock(&r->inode->owner.lock);
}

/* ------------------------------------------------------------------ collect */

static void add_iov(struct fsc_read *rd, char *data, size_t n)
{
	struct iovec *last = rd->n_iov ? &rd->iov[rd->n_iov - 1] : NULL;

	if (last && (char *)last->iov_base + last->iov_len == data)
		last->iov_len += n;
	else
		rd->iov[rd->n_iov++] = (struct iovec){data, n};
}

/* What an error means: if extents have changed, that what was looked up is not there any more. */
static int verdict(struct fsc_read_impl *r, int error)
{
	bool old;

	if (error != -EIO)
		return error;
	short_lock(&r->inode->owner.lock);
	old = r->inode->map_seq != r->map_seq;
	short_unlock(&r->inode->owner.lock);
	return old ? -EAGAIN : error;
}

/* The size, and how often the file was cut. */
static uint64_t size_and_cuts(struct fsc_inode *inode, uint64_t *cut_seq)
{
	uint64_t size;

	short_lock(&inode->attr_lock);
	size = inode->attr.size_bytes;
	*cut_seq = inode->cut_seq;
	short_unlock(&inode->attr_lock);
	return size;
}

/* The trees may have been looked at between a cut and what was written after it. */
static bool was_cut(const struct fsc_read_impl *r)
{
	uint64_t cut_seq;

	size_and_cuts(r->inode, &cut_seq);
	return r->used_trees && cut_seq != r->cut_seq;
}

/* Makes the result from the pages, which are all there or have failed. */
static void collect(struct fsc_read_impl *r)
{
	struct fsc_read *rd = r->rd;
	size_t page_bytes = r->vol->pages.page_bytes;
	size_t skip = rd->file_off & (page_bytes - 1), left = rd->result_bytes;

	if (rd->status)
		return;
	if (was_cut(r)) {
		rd->status = -EAGAIN;
		return;
	}
	rd->iov = r->iov;
	rd->n_iov = 0;
	for (unsigned i = 0; i < r->n_pages; i++) {
		struct page *page = r->pages[i];
		size_t n = MIN(page_bytes - skip, left);
		char *data;

		if (!page || (page != &hole_page && page->state != PAGE_UPTODATE)) {
			rd->status = verdict(r, -EIO);
			rd->n_iov = 0;
			return;
		}
		/* A hole's iovec entries do not melt into one: they all point to the same zeros. */
		data = page == &hole_page ? (char *)(uintptr_t)zeros
					  : page_data(&r->vol->pages, page);
		add_iov(rd, data + skip, n);
		skip = 0;
		left -= n;
	}
}

static void async_done(struct fsc_msg *msg)
{
	struct fsc_read_impl *r = container_of(msg, struct fsc_read_impl, wait.msg);

	collect(r);
	r->rd->done(r->rd);
}

static void sync_done(struct fsc_msg *msg)
{
	container_of(msg, struct fsc_read_impl, wait.msg)->done = true;
}

/* --------------------------------------------------------------------- read */

/*
 * Gets the missing pages under way. 0: they are in r->pages, in whatever state. After an error
 * some may be, and on their way.
 */
static int start_missing(struct fsc_ctx *ctx, struct fsc_read_impl *r)
{
	struct plan plan = {0};
	int ret;

	r->epoch = epoch_enter(r->vol);
	ret = plan_missing(ctx, r, &plan);
	/* It says so before anything of it goes: then what was found was all there is. */
	if (!ret && inode_is_unlinked(r->inode))
		ret = -ESTALE;
	if (!ret)
		ret = plan_take_pages(ctx, r, &plan);
	if (!ret)
		ret = commit_plan(ctx, r, &plan);
	epoch_exit(r->vol, r->epoch);
	plan_free(r, &plan);
	return ret;
}

/*
 * Starts to read the pages of [first, end) that are not in the cache, without
 * waiting for anything; best effort.
 */
static void read_ahead(
	const struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t start, uint64_t end)
{
	unsigned shift = inode->subvol->vol->pages.page_shift;
	uint64_t first = start >> shift, n = ((end + (1u << shift) - 1) >> shift) - first;
	struct fsc_ctx try = {.thread = ctx->thread, .flags = FSC_NOWAIT};
	struct fsc_read_impl *r = impl_create(inode, first, (unsigned)n);

	if (!r)
		return;
	if (!look_up(r) && !start_missing(&try, r))
		stat_add(&inode->subvol->vol->stats.readahead_bytes, end - start);
	impl_free(r);
}

/* Decides from the last reads what to read ahead. False: nothing. */
static bool plan_readahead(
	struct fsc_inode *inode, uint64_t off, size_t len, uint64_t *start, uint64_t *end)
{
	struct readahead *ra = &inode->ra;
	uint64_t size = inode_size(inode), after = off + len, window;
	bool want = false;

	short_lock(&inode->owner.lock);
	/* Requests that are in flight together arrive a little out of order. */
	if (off <= ra->next_off + len * 8 && after + len * 8 >= ra->next_off &&
		after > ra->next_off) {
		ra->streak++;
		ra->next_off = after;
	} else if (after < ra->next_off && after + len * 8 >= ra->next_off) {
		ra->streak++;
	} else {
		ra->streak = 0;
		ra->next_off = after;
		ra->ahead_off = 0;
	}
	window = MIN((uint64_t)len << MIN(ra->streak, 6u), READAHEAD_MAX);
	if (ra->streak >= 2 && ra->next_off < size && ra->ahead_off < ra->next_off + window / 2) {
		*start = MAX(ra->ahead_off, ra->next_off);
		*end = MIN(ra->next_off + window, size);
		want = *start < *end;
		if (want)
			ra->ahead_off = *end;
	}
	short_unlock(&inode->owner.lock);
	return want;
}

/* Clamps the read to the file. True: there is nothing to read. */
static bool clamp(struct fsc_inode *inode, struct fsc_read *rd, uint64_t *cut_seq)
{
	uint64_t size = size_and_cuts(inode, cut_seq);

	rd->status = 0;
	rd->iov = NULL;
	rd->n_iov = 0;
	rd->result_bytes = 0;
	if (rd->file_off < size)
		rd->result_bytes = (size_t)MIN((uint64_t)rd->len_bytes, size - rd->file_off);
	rd->eof = rd->file_off >= size || rd->result_bytes == size - rd->file_off;
	return rd->result_bytes == 0;
}

static int fail_read(struct fsc_read *rd, int error)
{
	fsc_read_release(rd);
	rd->status = error;
	rd->result_bytes = 0;
	return error;
}

/* Has r->wait count what is pending; fn is posted when it has ended. True: nothing is. */
static bool nothing_pending(
	struct fsc_ctx *ctx, struct fsc_read_impl *r, void (*fn)(struct fsc_msg *))
{
	r->wait.thread = ctx->thread;
	r->wait.msg.fn = fn;
	/* Held until all waits are linked, so that the last is seen once. */
	atomic_store_explicit(&r->wait.pending, 1, memory_order_relaxed);
	link_waits(r);
	return io_wait_drop(&r->wait);
}

static void wait_for_pages(struct fsc_ctx *ctx, struct fsc_read_impl *r)
{
	bool done = nothing_pending(ctx, r, sync_done);

	while (!done && !r->done)
		fsc_thread_wait(ctx->thread);
}

/* Waits for what start_missing() has begun, or leaves it to the completion. */
static int finish_read(struct fsc_ctx *ctx, struct fsc_read_impl *r)
{
	if (!(ctx->flags & FSC_NOWAIT))
		wait_for_pages(ctx, r);
	else if (!nothing_pending(ctx, r, async_done))
		return -EINPROGRESS;
	collect(r);
	return r->rd->status;
}

/* -EAGAIN also where it may wait: what was looked up is not there any more. */
static int read_once(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_read *rd)
{
	unsigned shift = inode->subvol->vol->pages.page_shift;
	uint64_t first = rd->file_off >> shift, cut_seq, ahead_start, ahead_end;
	struct fsc_read_impl *r;
	bool complete;
	int ret;

	rd->impl = NULL;
	if (clamp(inode, rd, &cut_seq))
		return 0;
	r = impl_create(inode, first,
		(unsigned)(((rd->file_off + rd->result_bytes - 1) >> shift) - first + 1));
	if (!r)
		return fail_read(rd, -ENOMEM);
	r->rd = rd;
	r->cut_seq = cut_seq;
	rd->impl = r;
	complete = look_up(r);
	r->used_trees = !complete;
	if (!complete) {
		ret = start_missing(ctx, r);
		/* What has begun must end here: this thread may block on a lock next (see below). */
		if (ret && !(ctx->flags & FSC_NOWAIT))
			wait_for_pages(ctx, r);
		if (ret)
			return fail_read(rd, verdict(r, ret));
	}
	/*
	 * Only where the completion is sure to be reaped: a thread that may wait could block on a
	 * lock next, whose holder waits for these very pages.
	 */
	if ((ctx->flags & FSC_NOWAIT) &&
		plan_readahead(inode, rd->file_off, rd->result_bytes, &ahead_start, &ahead_end))
		read_ahead(ctx, inode, ahead_start, ahead_end);
	if (!complete)
		return finish_read(ctx, r);
	collect(r);
	return rd->status;
}

int fsc_read(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_read *rd)
{
	int ret = -EAGAIN;

	rd->impl = NULL;
	if (S_ISDIR(inode->type))
		return fail_read(rd, -EISDIR);
	if (!S_ISREG(inode->type) || rd->len_bytes > FSC_READ_MAX)
		return fail_read(rd, -EINVAL);
	if (ctx->flags & FSC_NOWAIT) {
		ctx->blocked = FSC_BLOCKED_LOCK;
		return read_once(ctx, inode, rd);
	}
	for (unsigned i = 0; ret == -EAGAIN && i < READ_TRIES; i++) {
		fsc_read_release(rd);
		ret = read_once(ctx, inode, rd);
	}
	return ret == -EAGAIN ? fail_read(rd, -EIO) : ret;
}
