/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/data_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/format/csum.h"

int data_io_create(struct fsc_inode *inode, unsigned epoch, uint64_t logical, unsigned n,
	struct page *const *pages, const bool *have_csum, const uint8_t *csums,
	struct data_io **out)
{
	struct fsc_volume *vol = inode->subvol->vol;
	size_t per_page = sizeof(struct iovec) + sizeof(struct page *) + 2 * sizeof(bool) + 1u +
		(csums ? vol->geo.csum_bytes : 0u);
	struct data_io *io = calloc(1, sizeof(*io) + n * per_page);
	int ret;

	if (!io)
		return -ENOMEM;
	ret = chunk_map_lookup(&vol->chunks, logical, &io->place);
	if (ret || io->place.length_bytes < (uint64_t)n * vol->geo.sector_bytes) {
		log_limited(LOG_LVL_ERROR, "data at %llu: no chunk holds it",
			(unsigned long long)logical);
		free(io);
		return -EUCLEAN;
	}
	io->iov = (struct iovec *)(io + 1);
	io->pages = (struct page **)(io->iov + n);
	io->good = (bool *)(io->pages + n);
	io->have_csum = io->good + n;
	io->bad_copies = (uint8_t *)(io->have_csum + n);
	io->csums = io->bad_copies + n;
	io->inode = inode;
	fsc_inode_ref(inode);
	io->epoch = epoch;
	epoch_ref(vol, epoch);
	io->logical = logical;
	io->n_pages = n;
	memcpy(io->pages, pages, n * sizeof(*pages));
	if (csums) {
		io->verify = true;
		memcpy(io->have_csum, have_csum, n * sizeof(*have_csum));
		memcpy(io->csums, csums, (size_t)n * vol->geo.csum_bytes);
	}
	*out = io;
	return 0;
}

bool data_verify(struct fsc_inode *inode, uint64_t logical, uint64_t file_off, const void *data,
	bool have_csum, const uint8_t *csum)
{
	struct fsc_volume *vol = inode->subvol->vol;
	uint8_t computed[BTRFS_CSUM_SIZE];
	const char *what = "has no checksum";

	if (have_csum) {
		csum_compute(vol->geo.csum_type, data, vol->geo.sector_bytes, computed);
		if (!memcmp(computed, csum, vol->geo.csum_bytes))
			return true;
		what = "does not match its checksum";
	}
	stat_add(&vol->stats.csum_errors, 1);
	log_limited(LOG_LVL_ERROR, "data at %llu (subvolume %llu, inode %llu, offset %llu) %s",
		(unsigned long long)logical, (unsigned long long)inode->subvol->id,
		(unsigned long long)inode->ino, (unsigned long long)file_off, what);
	return false;
}

void data_io_wait(struct data_io *io, struct io_wait *wait, struct io_wait_link *link)
{
	atomic_fetch_add_explicit(&wait->pending, 1, memory_order_relaxed);
	link->wait = wait;
	link->next = io->waiters;
	io->waiters = link;
}

/* Good pages can be used from now on; the others are not the file's any more. */
static struct io_wait_link *publish_pages(struct data_io *io)
{
	struct fsc_inode *inode = io->inode;
	struct page_pool *pool = &inode->subvol->vol->pages;
	struct io_wait_link *waiters;

	short_lock(&inode->owner.lock);
	for (unsigned i = 0; i < io->n_pages; i++) {
		struct page *page = io->pages[i];

		page->io = NULL;
		if (io->good[i]) {
			page->state = PAGE_UPTODATE;
			continue;
		}
		page->state = PAGE_FAILED;
		/* A write may have put another page in its place meanwhile. */
		if (page_index_lookup(&inode->index, page->index) != page)
			continue;
		page_index_remove(&inode->index, page->index);
		page_pool_drop(pool, page);
	}
	waiters = io->waiters;
	io->waiters = NULL;
	short_unlock(&inode->owner.lock);
	return waiters;
}

static void finish(struct data_io *io)
{
	struct io_wait_link *link = publish_pages(io);

	while (link) {
		/* The link belongs to the waiter, which may go when it is told. */
		struct io_wait *wait = link->wait;

		link = link->next;
		if (io_wait_drop(wait))
			fsc_thread_post(wait->thread, &wait->msg);
	}
	page_pool_put(&io->inode->subvol->vol->pages, io->n_pages, io->pages);
	epoch_exit(io->inode->subvol->vol, io->epoch);
	fsc_inode_put(io->inode);
	free(io);
}

/* Reads pages [first, first + len) from the current copy, or writes them to it. */
static void submit_run(struct data_io *io, struct fsc_thread *t, unsigned first, unsigned len)
{
	struct fsc_volume *vol = io->inode->subvol->vol;
	unsigned n_iov = 0;

	io->run_first = first;
	io->run_len = len;
	for (unsigned i = first; i < first + len; i++) {
		char *data = page_data(&vol->pages, io->pages[i]);
		struct iovec *last = n_iov ? &io->iov[n_iov - 1] : NULL;

		if (last && (char *)last->iov_base + last->iov_len == data)
			last->iov_len += vol->geo.sector_bytes;
		else
			io->iov[n_iov++] = (struct iovec){data, vol->geo.sector_bytes};
	}
	io->req.physical = io->place.physical[io->copy] + (uint64_t)first * vol->geo.sector_bytes;
	io->req.iov = io->iov;
	io->req.n_iov = n_iov;
	io->req.len_bytes = (size_t)len * vol->geo.sector_bytes;
	dev_submit(vol->dev, t, &io->req);
}

/* The next pages, from `from` on, that are not good; len 0: there are none. */
static unsigned next_bad_run(const struct data_io *io, unsigned from, unsigned *len)
{
	unsigned first = from, end;

	while (first < io->n_pages && io->good[first])
		first++;
	end = first;
	while (end < io->n_pages && !io->good[end])
		end++;
	*len = end - first;
	return first;
}

/* ----------------------------------------------------------------------- repair */

static bool is_to_be_repaired(const struct data_io *io, unsigned i)
{
	return io->good[i] && io->bad_copies[i] & 1u << io->copy;
}

/* The next pages, from `from` on, of which the current copy is bad; len 0: there are none. */
static unsigned next_repair_run(const struct data_io *io, unsigned from, unsigned *len)
{
	unsigned first = from, end;

	while (first < io->n_pages && !is_to_be_repaired(io, first))
		first++;
	end = first;
	while (end < io->n_pages && is_to_be_repaired(io, end))
		end++;
	*len = end - first;
	return first;
}

/* Writes the next run of bad sectors, or finishes. */
static void repair_from(struct data_io *io, struct fsc_thread *t, unsigned from)
{
	unsigned first, len = 0;

	while (io->copy < io->place.n_mirrors && fs_writable(io->inode->subvol->vol)) {
		first = next_repair_run(io, from, &len);
		if (len)
			break;
		io->copy++;
		from = 0;
	}
	if (len)
		submit_run(io, t, first, len);
	else
		finish(io);
}

static void repair_done(struct io_req *req)
{
	struct data_io *io = container_of(req, struct data_io, req);

	data_note_repair(io->inode->subvol->vol, io->copy,
		io->logical + (uint64_t)io->run_first * io->inode->subvol->vol->geo.sector_bytes,
		io->run_len, req->status);
	repair_from(io, req->thread, io->run_first + io->run_len);
}

static void repair(struct data_io *io, struct fsc_thread *t)
{
	io->copy = 0;
	io->req.op = IO_WRITE;
	io->req.done = repair_done;
	repair_from(io, t, 0);
}

void data_note_repair(
	struct fsc_volume *vol, unsigned copy, uint64_t logical, unsigned n_sectors, int status)
{
	if (!status)
		stat_add(&vol->stats.repaired, n_sectors);
	log_limited(status ? LOG_LVL_ERROR : LOG_LVL_NOTICE, "data at %llu: copy %u %s%s",
		(unsigned long long)logical, copy + 1,
		status ? "can't be repaired: " : "repaired from another one",
		status ? strerror(-status) : "");
}

static void note_bad(struct data_io *io, unsigned i)
{
	io->bad_copies[i] |= (uint8_t)(1u << io->copy);
	io->is_bad = true;
}

/* ------------------------------------------------------------------------- read */

static void check_run(struct data_io *io)
{
	struct fsc_volume *vol = io->inode->subvol->vol;

	for (unsigned i = io->run_first; i < io->run_first + io->run_len; i++) {
		uint64_t at = (uint64_t)i * vol->geo.sector_bytes;

		io->good[i] = !io->req.status &&
			(!io->verify ||
				data_verify(io->inode, io->logical + at,
					io->pages[i]->index * vol->geo.sector_bytes,
					page_data(&vol->pages, io->pages[i]), io->have_csum[i],
					io->csums + (size_t)i * vol->geo.csum_bytes));
		/* Without a checksum nobody knows which of two is right. */
		if (!io->good[i] && io->verify && io->have_csum[i])
			note_bad(io, i);
		if (io->good[i] && io->copy)
			stat_add(&vol->stats.mirror_repairs, 1);
	}
}

static void run_done(struct io_req *req)
{
	struct data_io *io = container_of(req, struct data_io, req);
	unsigned first, len;

	check_run(io);
	first = next_bad_run(io, io->run_first + io->run_len, &len);
	/* In the first pass one run covers all, so nothing is left behind it. */
	if (!len && io->copy + 1 < io->place.n_mirrors) {
		io->copy++;
		first = next_bad_run(io, 0, &len);
	}
	if (len)
		submit_run(io, req->thread, first, len);
	else if (io->is_bad)
		repair(io, req->thread);
	else
		finish(io);
}

void data_io_start(struct data_io *io, struct fsc_thread *t)
{
	io->req.op = IO_READ;
	io->req.done = run_done;
	submit_run(io, t, 0, io->n_pages);
}
