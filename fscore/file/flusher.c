/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The flusher: turns dirty pages into extents, in pieces.
 *
 *   pick a file -> take a run of its dirty pages -> allocate, checksum, write (several pieces are
 *   on their way at once) -> on disk: put the extent and its checksums in the trees
 *
 * A small file, whole, goes inline into the tree instead. When a file has nothing to be written
 * any more, those who wait for it go on.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "fscore/file/compress_prop.h"
#include "fscore/file/extent_write.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/log_note.h"
#include "fscore/file/orphan.h"
#include "fscore/file/piece.h"
#include "fscore/file/writeback.h"
#include "fscore/io/thread.h"

#define MAX_PIECES    16u /* on their way at once */
#define DIRTY_AGE_NS  5000000000u
#define DELETE_BATCH  200u /* items of a dead inode in one transaction */
#define DEAD_RETRY_NS 500000000u
#define MANY_DEAD     256u

/* What putting a piece in the trees may need; it takes far less, a few of PROMISED_LEAST. */
#define PIECE_ITEMS    8u
#define PREALLOC_ITEMS 24u
#define PROMISED_LEAST 2u

TAILQ_HEAD(piece_list, piece);

struct flusher {
	struct fsc_volume *vol;
	struct fs_writing *fw;
	struct fsc_ctx ctx;
	struct compressor *compressor; /* NULL: no memory for it, so nothing is compressed */
	unsigned n_pieces;
	/*
	 * Metadata that is promised ahead: what a full volume has accepted finds its way into the
	 * trees. What a piece has not used is for the next.
	 */
	uint64_t promised_bytes;
	uint64_t dead_due_ns;	    /* not before that are dead inodes tried again */
	struct txn_waiter deleting; /* posted when they may go on, if throttled */
	bool throttled;		    /* by txn_throttle() */
	struct piece_list written;  /* on disk, not in the trees yet */
};

/* ---------------------------------------------------------------- files to write */

void flusher_note(struct fsc_inode *inode, bool urgent)
{
	struct fs_writing *fw = inode->subvol->vol->w;
	bool wake;

	short_lock(&fw->lock);
	if (!inode->in_dirty_files) {
		inode->in_dirty_files = true;
		fsc_inode_ref(inode);
		if (urgent)
			TAILQ_INSERT_HEAD(&fw->dirty_files, inode, dirty_files_link);
		else
			TAILQ_INSERT_TAIL(&fw->dirty_files, inode, dirty_files_link);
	} else if (urgent && !inode->is_urgent) {
		TAILQ_REMOVE(&fw->dirty_files, inode, dirty_files_link);
		TAILQ_INSERT_HEAD(&fw->dirty_files, inode, dirty_files_link);
	}
	inode->is_urgent |= urgent;
	wake = urgent || fw->dirty_bytes > fw->dirty_limit_bytes / 2;
	short_unlock(&fw->lock);
	if (wake)
		fsc_thread_wake(fw->flusher_thread);
}

void flusher_delete(struct fsc_inode *inode)
{
	struct fs_writing *fw = inode->subvol->vol->w;
	bool first;

	short_lock(&fw->lock);
	first = TAILQ_EMPTY(&fw->dead_inodes);
	TAILQ_INSERT_TAIL(&fw->dead_inodes, inode, dead_link);
	fw->n_dead++;
	short_unlock(&fw->lock);
	if (first)
		fsc_thread_wake(fw->flusher_thread);
}

bool flusher_is_behind(struct fsc_volume *vol)
{
	bool behind;

	short_lock(&vol->w->lock);
	behind = vol->w->n_dead >= MANY_DEAD;
	short_unlock(&vol->w->lock);
	return behind;
}

/*
 * The next file that should be written now: one that somebody waits for, or any when there is
 * much to write, or when it is old. The caller gets the list's reference.
 */
static struct fsc_inode *pick_file(struct flusher *f, uint64_t *wait_ns)
{
	struct fs_writing *fw = f->fw;
	struct fsc_inode *inode;
	uint64_t now = clock_now_ns(), due;
	bool take;

	*wait_ns = 0;
	short_lock(&fw->lock);
	inode = TAILQ_FIRST(&fw->dirty_files);
	if (inode) {
		due = inode->first_dirty_ns + DIRTY_AGE_NS;
		take = inode->is_urgent || fw->stopping || fw->written_waiters || now >= due ||
			fw->dirty_bytes > fw->dirty_limit_bytes / 2;
		if (take) {
			TAILQ_REMOVE(&fw->dirty_files, inode, dirty_files_link);
			inode->in_dirty_files = false;
			inode->is_urgent = false;
		} else {
			*wait_ns = due - now;
			inode = NULL;
		}
	}
	short_unlock(&fw->lock);
	return inode;
}

/* ------------------------------------------------------------------- completion */

void data_lost(struct fsc_volume *vol, int error)
{
	atomic_store(&vol->w->lost_data, error);
	if (vol->data_lost)
		vol->data_lost(vol->data_lost_arg);
}

/* A piece is in the trees, or has failed. */
static void piece_end(struct piece *p, int error)
{
	struct fsc_inode *inode = p->inode;
	struct fsc_volume *vol = inode->subvol->vol;
	struct inode_waiter *waiters = NULL;
	struct inode_sync *syncs = NULL;
	int write_error = 0;
	bool again, urgent;

	/* While the file still has something to be written. */
	if (error)
		data_lost(vol, error);
	short_lock(&inode->owner.lock);
	inode->map_seq++;
	for (unsigned i = 0; i < p->n_pages; i++)
		page_index_remove(&inode->writing, (p->file_off >> vol->pages.page_shift) + i);
	again = inode->n_dirty > 0;
	urgent = inode->syncs;
	if (error && !inode->write_error)
		inode->write_error = error;
	if (--inode->n_writing == 0) {
		waiters = inode->write_waiters;
		inode->write_waiters = NULL;
		if (!inode->n_dirty) {
			syncs = inode->syncs;
			inode->syncs = NULL;
			write_error = inode->write_error;
			if (syncs)
				inode->write_error = 0;
		}
	}
	short_unlock(&inode->owner.lock);
	while (waiters) {
		struct inode_waiter *w = waiters;

		waiters = w->next;
		fsc_thread_post(w->thread, &w->msg);
	}
	page_pool_put(&vol->pages, p->n_pages, p->pages);
	dirty_done(vol, (uint64_t)p->n_pages << vol->pages.page_shift);
	/* There may be what could not be taken while this was on its way. */
	if (again)
		flusher_note(inode, urgent);
	syncs_continue(inode, syncs, write_error);
	fsc_inode_put(inode);
	p->f->n_pieces--;
	piece_free(p);
}

/* Up to where all of the file is in the trees, this piece included. */
static uint64_t written_up_to(const struct piece *p)
{
	struct fsc_inode *inode = p->inode;
	unsigned shift = inode->subvol->vol->pages.page_shift;
	uint64_t first = p->file_off >> shift, low = UINT64_MAX >> shift, at;
	struct page *other;

	short_lock(&inode->owner.lock);
	if (page_index_next(&inode->dirty, 0, &at))
		low = at;
	other = page_index_next(&inode->writing, 0, &at);
	if (other && at >= first && at < first + p->n_pages)
		other = page_index_next(&inode->writing, first + p->n_pages, &at);
	if (other)
		low = MIN(low, at);
	short_unlock(&inode->owner.lock);
	return low << shift;
}

/*
 * The size on disk grows with what has come there, but not past what is still to come: what lies
 * there is old. Without no-holes, what is between is an item, too.
 */
static int extent_written(struct txn_handle *h, struct piece *p, uint64_t added, uint64_t dropped)
{
	struct fsc_inode *inode = p->inode;
	const struct volume_geometry *geo = &inode->subvol->vol->geo;
	/* First the size: a write has dirty pages before it moves the end. */
	uint64_t size = inode_size(inode), end = MIN(written_up_to(p), size), old_end;
	int ret = 0;

	short_lock(&inode->attr_lock);
	old_end = inode->disk_size;
	inode->disk_size = MAX(inode->disk_size, MIN(end, inode->attr.size_bytes));
	end = inode->disk_size;
	inode->used_bytes += added - dropped;
	inode->attr.used_bytes = align_up(inode->used_bytes, geo->sector_bytes);
	short_unlock(&inode->attr_lock);
	if (!(geo->incompat_flags & BTRFS_FEATURE_INCOMPAT_NO_HOLES))
		ret = extents_fill_holes(h, inode, align_up(old_end, geo->sector_bytes),
			align_up(end, geo->sector_bytes));
	inode_mark_dirty(h, inode);
	return ret;
}

static int insert_new(struct txn_handle *h, struct piece *p)
{
	struct fsc_volume *vol = p->inode->subvol->vol;
	struct new_extent extent = {.logical = p->logical,
		.disk_bytes = p->disk_bytes,
		.ram_bytes = p->ram_bytes,
		.compression = p->compression};

	compress_note_used(h, vol, p->compression);
	if (p->form == PIECE_NEW)
		return extent_insert_new(h, p->inode, p->file_off, &extent);
	return extent_insert_inline(h, p->inode,
		p->compressed ? p->compressed : page_data(&vol->pages, p->pages[0]), &extent);
}

static int replace_extents(struct txn_handle *h, struct piece *p, uint64_t *dropped)
{
	struct fsc_volume *vol = p->inode->subvol->vol;
	uint64_t end = p->file_off + ((uint64_t)p->n_pages << vol->pages.page_shift);
	uint64_t dropped_from;
	bool done;
	int ret = 0;

	if (p->form == PIECE_NEW || p->form == PIECE_INLINE)
		ret = extents_drop(
			h, p->inode, p->file_off, end, UINT32_MAX, dropped, &dropped_from, &done);
	if (!ret && p->form == PIECE_PREALLOC)
		ret = extents_mark_written(h, p->inode, p->file_off, end, p->logical);
	else if (!ret && p->form != PIECE_OVER)
		ret = insert_new(h, p);
	if (!ret && p->csums) {
		unsigned n = (unsigned)(p->disk_bytes / vol->geo.sector_bytes);

		ret = csum_insert(&h->w, &vol->csum_tree, &vol->geo, p->logical, p->csums, n);
		log_csums(h, p->inode, p->logical, p->csums, n);
	}
	return ret;
}

/* It was not written: what it had in space goes back. */
static void give_space_back(struct flusher *f, struct piece *p)
{
	if (!p->has_space)
		return;
	if (p->logical)
		space_free_unused(&f->fw->space, p->logical, p->disk_bytes);
	else
		space_unreserve(&f->fw->space, SPACE_DATA,
			(uint64_t)p->n_pages << f->vol->pages.page_shift);
}

/* Fills up what is promised; on a full volume less is enough. */
static int get_promise(struct flusher *f, unsigned n_items)
{
	struct space *space = &f->fw->space;
	uint64_t full = space_items_bytes(space, n_items), more;
	int ret;

	if (f->promised_bytes >= full)
		return 0;
	if (!space_reserve(space, SPACE_METADATA, full - f->promised_bytes, true)) {
		f->promised_bytes = full;
		return 0;
	}
	if (f->promised_bytes >= space_items_bytes(space, PROMISED_LEAST))
		return 0;
	ret = txn_reserve(&f->ctx, &f->fw->txns, n_items, TXN_USE_GLOBAL, &more);
	f->promised_bytes += more;
	return ret;
}

/* What one needed more is not kept from others. */
static void keep_promise(struct flusher *f, uint64_t bytes)
{
	uint64_t most = space_items_bytes(&f->fw->space, PIECE_ITEMS);

	f->promised_bytes = MIN(bytes, most);
	txn_unreserve(&f->fw->txns, bytes - f->promised_bytes);
}

static int join_for_piece(struct flusher *f, const struct piece *p, struct txn_handle *h)
{
	int ret = get_promise(f, p->form == PIECE_PREALLOC ? PREALLOC_ITEMS : PIECE_ITEMS);

	if (ret)
		return ret;
	ret = txn_join_reserved(&f->ctx, &f->fw->txns, f->promised_bytes, h);
	f->promised_bytes = 0;
	return ret;
}

/* Puts what is on disk in the trees. */
static void piece_insert(struct flusher *f, struct piece *p)
{
	bool is_new = p->form == PIECE_NEW || p->form == PIECE_INLINE;
	uint64_t dropped = 0;
	struct txn_handle h;
	int ret = p->req.status;

	if (!ret)
		ret = join_for_piece(f, p, &h);
	if (ret) {
		log_limited(LOG_LVL_ERROR, "inode %llu: data at offset %llu was not written: %s",
			(unsigned long long)p->inode->ino, (unsigned long long)p->file_off,
			strerror(-ret));
		give_space_back(f, p);
		piece_end(p, ret);
		return;
	}
	short_lock(&p->inode->owner.lock);
	p->inode->map_seq++;
	short_unlock(&p->inode->owner.lock);
	ret = replace_extents(&h, p, &dropped);
	if (ret) {
		txn_abort(&h, ret);
		piece_end(p, ret);
		return;
	}
	ret = extent_written(&h, p, is_new ? p->ram_bytes : 0, dropped);
	if (ret)
		txn_abort(&h, ret);
	else
		keep_promise(f, txn_end_keeping(&h));
	piece_end(p, ret);
}

static void piece_written(struct io_req *req)
{
	struct piece *p = container_of(req, struct piece, req);

	TAILQ_INSERT_TAIL(&p->f->written, p, list);
}

static void insert_written(struct flusher *f)
{
	struct piece *p;

	while ((p = TAILQ_FIRST(&f->written))) {
		TAILQ_REMOVE(&f->written, p, list);
		piece_insert(f, p);
	}
}

/* ------------------------------------------------------------------- submission */

/* The first dirty page of which no older content is on its way. owner.lock is held. */
static struct page *next_to_write(struct fsc_inode *inode, uint64_t *at)
{
	struct page *page = page_index_next(&inode->dirty, 0, at);

	while (page && page_index_lookup(&inode->writing, *at))
		page = page_index_next(&inode->dirty, *at + 1, at);
	return page;
}

/* Takes the next run of dirty pages of a file. NULL: there is none, or no memory (*error). */
static struct piece *take_piece(struct flusher *f, struct fsc_inode *inode, int *error)
{
	struct piece *p = calloc(1, sizeof(*p));
	unsigned max_pages = piece_max_pages(&f->ctx, inode);
	struct page *page;
	uint64_t at;

	*error = p ? 0 : -ENOMEM;
	if (!p)
		return NULL;
	short_lock(&inode->owner.lock);
	page = inode->is_dead ? NULL : next_to_write(inode, &at);
	if (page) {
		p->file_off = at << f->vol->pages.page_shift;
		p->has_space = !page->in_place;
	}
	while (page && p->n_pages < max_pages) {
		if (page_index_insert(&inode->writing, at, page)) {
			*error = p->n_pages ? 0 : -ENOMEM;
			break;
		}
		/* The dirty index's reference is the piece's now. */
		page_index_remove(&inode->dirty, at);
		p->pages[p->n_pages++] = page;
		at++;
		page = page_index_lookup(&inode->writing, at)
			? NULL
			: page_index_lookup(&inode->dirty, at);
		if (page && page->in_place == p->has_space)
			page = NULL;
	}
	inode->n_dirty -= p->n_pages;
	if (p->n_pages)
		inode->n_writing++;
	short_unlock(&inode->owner.lock);
	if (!p->n_pages) {
		free(p);
		return NULL;
	}
	p->f = f;
	p->inode = inode;
	fsc_inode_ref(inode);
	f->n_pieces++;
	return p;
}

/* Gives the pages that the piece can't hold any more back to the dirty ones. */
static void shorten_piece(struct piece *p, unsigned n_pages)
{
	struct fsc_inode *inode = p->inode;
	struct page_pool *pool = &inode->subvol->vol->pages;
	uint64_t first = p->file_off >> pool->page_shift, lost = 0;
	bool no_memory = false;

	short_lock(&inode->owner.lock);
	for (unsigned i = n_pages; i < p->n_pages; i++) {
		page_index_remove(&inode->writing, first + i);
		/* Written anew meanwhile: that page counts, this one does not. */
		if (!inode->is_dead && !page_index_lookup(&inode->dirty, first + i)) {
			if (!page_index_insert(&inode->dirty, first + i, p->pages[i])) {
				inode->n_dirty++;
				continue;
			}
			inode->write_error = -ENOMEM;
			no_memory = true;
		}
		page_pool_put(pool, 1, &p->pages[i]);
		lost++;
	}
	short_unlock(&inode->owner.lock);
	if (no_memory)
		data_lost(inode->subvol->vol, -ENOMEM);
	p->n_pages = n_pages;
	if (lost && p->has_space)
		dirty_unreserve(inode->subvol->vol, lost << pool->page_shift);
	else if (lost)
		dirty_done(inode->subvol->vol, lost << pool->page_shift);
	flusher_note(inode, true);
}

static void submit_piece(struct piece *p, uint64_t physical)
{
	p->req.op = IO_WRITE;
	p->req.physical = physical;
	p->req.done = piece_written;
	dev_submit(p->inode->subvol->vol->dev, p->f->ctx.thread, &p->req);
}

/* The second copy, for data DUP; waits, since it is rare. */
static int write_other_copies(struct piece *p, const struct chunk_place *place)
{
	struct dev *dev = p->inode->subvol->vol->dev;
	int ret = 0;

	for (unsigned m = 1; m < place->n_mirrors; m++) {
		uint64_t at = place->physical[m];

		for (unsigned i = 0; i < p->req.n_iov && !ret; at += p->iov[i++].iov_len)
			ret = dev_rw_sync(dev, p->f->ctx.thread, IO_WRITE, at, p->iov[i].iov_base,
				p->iov[i].iov_len);
	}
	return ret;
}

/* An address for the compressed piece. False: there is no free range of that length. */
static bool allocate_compressed(struct flusher *f, struct piece *p)
{
	struct space *space = &f->fw->space;
	uint64_t got;

	if (!p->compressed)
		return false;
	if (space_alloc(&f->ctx, space, SPACE_DATA, p->disk_bytes, p->disk_bytes, 0, &p->logical,
		    &got)) {
		piece_uncompress(p);
		return false;
	}
	space_unreserve(space, SPACE_DATA, p->ram_bytes - p->disk_bytes);
	return true;
}

/* An address for the piece, or for the first part of it. */
static int allocate(struct flusher *f, struct piece *p)
{
	unsigned shift = f->vol->pages.page_shift;
	uint64_t got;
	int ret;

	p->ram_bytes = p->disk_bytes = (uint64_t)p->n_pages << shift;
	piece_compress(&f->ctx, f->compressor, p);
	if (allocate_compressed(f, p))
		return 0;
	ret = space_alloc(&f->ctx, &f->fw->space, SPACE_DATA, 1u << shift, p->ram_bytes, 0,
		&p->logical, &got);
	if (!ret && got < p->ram_bytes) {
		shorten_piece(p, (unsigned)(got >> shift));
		p->ram_bytes = p->disk_bytes = got;
	}
	return ret;
}

/* No new extent is needed: the reserved data space is not, either. */
static void do_without_space(struct flusher *f, struct piece *p)
{
	uint64_t bytes = (uint64_t)p->n_pages << f->vol->pages.page_shift;

	if (p->has_space)
		space_unreserve(&f->fw->space, SPACE_DATA, bytes);
	p->has_space = false;
	if (p->form != PIECE_INLINE)
		p->ram_bytes = p->disk_bytes = bytes;
}

/* It could have been written in place when it was accepted, and can't any more. */
static int get_space(struct flusher *f, struct piece *p)
{
	uint64_t bytes = (uint64_t)p->n_pages << f->vol->pages.page_shift;
	int ret = txn_reserve_space(&f->ctx, &f->fw->txns, SPACE_DATA, bytes, 0);

	if (ret)
		return ret;
	p->has_space = true;
	short_lock(&p->inode->owner.lock);
	for (unsigned i = 0; i < p->n_pages; i++)
		p->pages[i]->in_place = false;
	short_unlock(&p->inode->owner.lock);
	return 0;
}

/* Decides where and as what the piece goes. */
static int place_piece(struct flusher *f, struct piece *p)
{
	unsigned n_pages;
	int ret;

	ret = piece_choose_form(&f->ctx, f->compressor, p, &n_pages);
	if (ret)
		return ret;
	if (n_pages < p->n_pages)
		shorten_piece(p, n_pages);
	if (p->form == PIECE_NEW) {
		ret = p->has_space ? 0 : get_space(f, p);
		return ret ? ret : allocate(f, p);
	}
	do_without_space(f, p);
	return 0;
}

static void start_piece(struct flusher *f, struct piece *p)
{
	struct chunk_place place;
	int ret = fs_writable(f->vol) ? place_piece(f, p) : -EROFS;

	if (!ret && p->form != PIECE_INLINE) {
		ret = chunk_map_lookup(&f->vol->chunks, p->logical, &place);
		if (!ret)
			ret = piece_prepare(p);
		if (!ret)
			ret = write_other_copies(p, &place);
		if (!ret) {
			submit_piece(p, place.physical[0]);
			return;
		}
	}
	p->req.status = ret;
	TAILQ_INSERT_TAIL(&f->written, p, list);
}

/*
 * All that can be taken has been. When nothing is to be written any more, those who wait go on (a
 * piece's end does that otherwise, and sees to what has become dirty again).
 */
static void file_is_done(struct fsc_inode *inode)
{
	struct inode_sync *syncs = NULL;
	int error = 0;

	short_lock(&inode->owner.lock);
	if (!inode->n_dirty && !inode->n_writing) {
		syncs = inode->syncs;
		inode->syncs = NULL;
		error = inode->write_error;
		if (syncs)
			inode->write_error = 0;
	}
	short_unlock(&inode->owner.lock);
	syncs_continue(inode, syncs, error);
}

static void write_file(struct flusher *f, struct fsc_inode *inode)
{
	struct piece *p;
	int error;

	while ((p = take_piece(f, inode, &error))) {
		start_piece(f, p);
		while (f->n_pieces > MAX_PIECES) {
			insert_written(f);
			if (f->n_pieces > MAX_PIECES)
				fsc_thread_wait(f->ctx.thread);
		}
	}
	if (error)
		flusher_note(inode, false);
	else
		file_is_done(inode);
}

/* ------------------------------------------------------------------ dead inodes */

void flusher_new_subvol(struct subvol *sv)
{
	struct fs_writing *fw = sv->vol->w;

	short_lock(&fw->lock);
	sv->next_new = fw->new_subvols;
	fw->new_subvols = sv;
	/* Before the flusher has started, it finds the list when it starts. */
	if (fw->has_flusher)
		fsc_thread_wake(fw->flusher_thread);
	short_unlock(&fw->lock);
}

/* False: there is none. */
static bool resume_orphans(struct flusher *f)
{
	struct subvol *sv;
	int ret;

	short_lock(&f->fw->lock);
	sv = f->fw->new_subvols;
	if (sv)
		f->fw->new_subvols = sv->next_new;
	short_unlock(&f->fw->lock);
	if (!sv)
		return false;
	ret = sv->flags & BTRFS_ROOT_SUBVOL_RDONLY ? 0 : orphans_resume(&f->ctx, sv);
	if (ret)
		log_error("subvolume %llu: can't look for orphans: %s", (unsigned long long)sv->id,
			strerror(-ret));
	return true;
}

static struct fsc_inode *pick_dead(struct flusher *f)
{
	struct fsc_inode *inode;

	short_lock(&f->fw->lock);
	inode = TAILQ_FIRST(&f->fw->dead_inodes);
	if (inode) {
		TAILQ_REMOVE(&f->fw->dead_inodes, inode, dead_link);
		f->fw->n_dead--;
	}
	short_unlock(&f->fw->lock);
	return inode;
}

/* One batch of a dead inode's items. *done: it is gone, with its orphan item. */
static int delete_batch(struct flusher *f, struct fsc_inode *inode, bool *done)
{
	struct txn_handle h;
	int ret = txn_join(&f->ctx, &f->fw->txns, 4, TXN_USE_GLOBAL, &h);

	if (ret)
		return ret;
	ret = inode_items_delete(&h, inode, DELETE_BATCH, done);
	if (!ret && *done)
		ret = orphan_remove(&h, inode->subvol, inode->ino);
	if (ret)
		txn_abort(&h, ret);
	else
		txn_end(&h);
	return ret;
}

static void delete_dead(struct flusher *f)
{
	struct fsc_inode *inode = pick_dead(f);
	bool done = false;

	if (!inode)
		return;
	short_lock(&inode->owner.lock);
	inode->is_dead = true;
	short_unlock(&inode->owner.lock);
	dirty_discard(inode, 0);
	/* What is on its way would come back. */
	while (inode->n_writing) {
		insert_written(f);
		if (inode->n_writing)
			fsc_thread_wait(f->ctx.thread);
	}
	if (delete_batch(f, inode, &done)) {
		/* No space or memory now: later. After an abort, its orphan item is still there. */
		f->dead_due_ns = clock_now_ns() + DEAD_RETRY_NS;
		done = !fs_writable(f->vol);
	}
	if (done)
		fsc_inode_put(inode);
	else
		flusher_delete(inode);
	f->throttled = txn_throttle(&f->fw->txns, &f->deleting);
}

static void on_unthrottled(struct fsc_msg *msg)
{
	container_of(msg, struct flusher, deleting.msg)->throttled = false;
}

/* ------------------------------------------------------------------------- main */

/* Whether there are dead inodes to be deleted now; else *wait_ns may become shorter. */
static bool has_dead(struct flusher *f, uint64_t *wait_ns)
{
	uint64_t now = clock_now_ns();
	bool has;

	short_lock(&f->fw->lock);
	has = !f->throttled && !TAILQ_EMPTY(&f->fw->dead_inodes);
	short_unlock(&f->fw->lock);
	if (!has || now >= f->dead_due_ns)
		return has;
	if (!*wait_ns || *wait_ns > f->dead_due_ns - now)
		*wait_ns = f->dead_due_ns - now;
	return false;
}

/* One round. False: there is nothing to do for wait_ns (0: until it is woken). */
static bool work(struct flusher *f, uint64_t *wait_ns)
{
	struct fsc_inode *inode = pick_file(f, wait_ns);
	bool did = inode;

	if (inode) {
		write_file(f, inode);
		fsc_inode_put(inode);
	}
	if (!TAILQ_EMPTY(&f->written)) {
		insert_written(f);
		did = true;
	}
	if (has_dead(f, wait_ns)) {
		delete_dead(f);
		did = true;
	}
	return resume_orphans(f) || did;
}

/* All has been written: tells those who wait for that. False: nobody does. */
static bool tell_idle(struct flusher *f)
{
	struct dirty_waiter *waiters;
	bool any;

	short_lock(&f->fw->lock);
	waiters = f->fw->written_waiters;
	f->fw->written_waiters = NULL;
	short_unlock(&f->fw->lock);
	any = waiters;
	while (waiters) {
		struct dirty_waiter *w = waiters;

		waiters = w->next;
		fsc_thread_post(w->thread, &w->msg);
	}
	return any;
}

struct idle_wait {
	struct dirty_waiter waiter;
	bool done;
};

static void idle_done(struct fsc_msg *msg)
{
	container_of(msg, struct idle_wait, waiter.msg)->done = true;
}

static void add_written_waiter(struct fs_writing *fw, struct dirty_waiter *w, uint64_t bytes)
{
	short_lock(&fw->lock);
	w->until_bytes = bytes == UINT64_MAX ? bytes : fw->gone_bytes + bytes;
	w->next = fw->written_waiters;
	fw->written_waiters = w;
	short_unlock(&fw->lock);
	fsc_thread_wake(fw->flusher_thread);
}

static void wait_written(struct fsc_ctx *ctx, struct fs_writing *fw, uint64_t bytes)
{
	struct idle_wait w = {.waiter = {.thread = ctx->thread, .msg.fn = idle_done}};

	add_written_waiter(fw, &w.waiter, bytes);
	while (!w.done)
		fsc_thread_wait(ctx->thread);
}

void flusher_write_all(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	wait_written(ctx, vol->w, UINT64_MAX);
}

void flusher_write_some(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t bytes)
{
	struct fs_writing *fw = vol->w;
	bool runs;

	/* While the volume is being opened there is nothing to write. */
	short_lock(&fw->lock);
	runs = fw->has_flusher;
	short_unlock(&fw->lock);
	/* If there is less, it is told when all has been written. */
	if (runs && ctx->thread != fw->flusher_thread)
		wait_written(ctx, fw, bytes);
}

static bool is_stopping(struct flusher *f)
{
	bool stopping;

	short_lock(&f->fw->lock);
	stopping = f->fw->stopping;
	short_unlock(&f->fw->lock);
	return stopping;
}

static void *flusher_main(void *arg)
{
	struct fsc_volume *vol = arg;
	struct flusher f = {.vol = vol, .fw = vol->w};

	pthread_setname_np(pthread_self(), "flusher");
	TAILQ_INIT(&f.written);
	vol->w->start_error = fsc_thread_create(&vol->w->flusher_thread);
	sem_post(&vol->w->started);
	if (vol->w->start_error)
		return NULL;
	f.ctx.thread = vol->w->flusher_thread;
	f.deleting = (struct txn_waiter){.thread = f.ctx.thread, .msg.fn = on_unthrottled};
	f.compressor = compressor_create();
	/* If there is no room, the first piece sees to it. */
	if (!space_reserve(&f.fw->space, SPACE_METADATA,
		    space_items_bytes(&f.fw->space, PIECE_ITEMS), true))
		f.promised_bytes = space_items_bytes(&f.fw->space, PIECE_ITEMS);
	for (;;) {
		uint64_t wait_ns;
		bool stopping = is_stopping(&f);

		if (work(&f, &wait_ns) || (!f.n_pieces && !f.throttled && tell_idle(&f)))
			continue;
		if (stopping && !f.n_pieces && !f.throttled)
			break;
		if (wait_ns)
			thread_wait_for(f.ctx.thread, wait_ns);
		else
			fsc_thread_wait(f.ctx.thread);
	}
	txn_unreserve(&vol->w->txns, f.promised_bytes);
	compressor_destroy(f.compressor);
	fsc_thread_destroy(vol->w->flusher_thread);
	return NULL;
}

int flusher_start(struct fsc_volume *vol)
{
	struct fs_writing *fw = vol->w;
	int ret;

	sem_init(&fw->started, 0, 0);
	ret = -pthread_create(&fw->flusher, NULL, flusher_main, vol);
	if (ret)
		return ret;
	while (sem_wait(&fw->started))
		;
	if (fw->start_error) {
		pthread_join(fw->flusher, NULL);
		return fw->start_error;
	}
	short_lock(&fw->lock);
	fw->has_flusher = true;
	short_unlock(&fw->lock);
	return 0;
}

void flusher_stop(struct fsc_volume *vol)
{
	struct fs_writing *fw = vol->w;

	if (!fw->has_flusher)
		return;
	short_lock(&fw->lock);
	fw->stopping = true;
	short_unlock(&fw->lock);
	fsc_thread_wake(fw->flusher_thread);
	pthread_join(fw->flusher, NULL);
	sem_destroy(&fw->started);
	fw->has_flusher = false;
}
