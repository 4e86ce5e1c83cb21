/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading file data from the disk into pages, with verification (struct data_io),
 * and who waits for it.
 *
 * A data_io fills consecutive pages of one file from consecutive sectors of one
 * chunk. Its pages are in the file's index as PAGE_READING and point back to it.
 * When all copies have been tried as far as needed, the good pages become
 * PAGE_UPTODATE, the others leave the index and become PAGE_FAILED, and whoever
 * waits is told.
 *
 *   planned -> data_io_start() -> reading copy 0 -> (bad pages: copy 1 -> repairing copy 0)
 *           -> finished, freed
 *
 * A copy that is bad (by its checksum; or it can't be read) is written anew from a good one, on a
 * volume that can be written. The epoch, which is held until that has ended, keeps the extent
 * from being another's; what has checksums is never written over in place.
 *
 * Locks: inode->owner.lock guards waiters, and the link from its pages.
 */
#ifndef FSCORE_FILE_DATA_IO_H
#define FSCORE_FILE_DATA_IO_H

#include "fscore/file/inode.h"

#define DATA_IO_MAX_PAGES IO_MAX_IOV

/* Something that waits for one or more data_ios; counted down by each. */
struct io_wait {
	_Atomic unsigned pending;
	struct fsc_thread *thread; /* gets msg when pending comes to zero */
	struct fsc_msg msg;
};

/* One link from a data_io to an io_wait; the waiting side owns it. */
struct io_wait_link {
	struct io_wait_link *next;
	struct io_wait *wait;
};

struct data_io {
	struct io_req req;
	struct fsc_inode *inode; /* a reference */
	unsigned epoch;		 /* held until it is finished */
	uint64_t logical;
	unsigned n_pages;
	struct chunk_place place;
	unsigned copy;		     /* the mirror being read, or repaired */
	unsigned run_first, run_len; /* pages that the I/O in flight covers */
	bool verify;
	bool is_bad;		      /* some copy is */
	struct io_wait_link *waiters; /* guarded by inode->owner.lock */
	/* n_pages of each, behind the structure */
	struct iovec *iov;
	struct page **pages; /* a reference to each */
	bool *good;
	bool *have_csum;
	uint8_t *bad_copies; /* a bit for each mirror */
	uint8_t *csums;
};

/*
 * Makes a data_io for n pages at logical, in an epoch that the caller holds; takes over a reference to each page and
 * takes one to the inode. have_csum, csums: NULL, or what is known of each sector. The
 * caller then puts the pages in the index (owner.lock) before data_io_start(). Returns
 * -ENOMEM, or -EUCLEAN: no chunk holds the range; then the pages are still the caller's.
 */
int data_io_create(struct fsc_inode *inode, unsigned epoch, uint64_t logical, unsigned n,
	struct page *const *pages, const bool *have_csum, const uint8_t *csums,
	struct data_io **out);

void data_io_start(struct data_io *io, struct fsc_thread *t);

/* Adds a waiter. inode->owner.lock is held and io is not finished. */
void data_io_wait(struct data_io *io, struct io_wait *wait, struct io_wait_link *link);

/* One less to wait for. True: it was the last, and the caller must go on itself. */
static inline bool io_wait_drop(struct io_wait *wait)
{
	return atomic_fetch_sub_explicit(&wait->pending, 1, memory_order_acq_rel) == 1;
}

/* Whether len bytes at data are what the checksum says; counts and logs if not. */
bool data_verify(struct fsc_inode *inode, uint64_t logical, uint64_t file_off, const void *data,
	bool have_csum, const uint8_t *csum);

/* A copy of some sectors has been written anew (0), or could not be. */
void data_note_repair(
	struct fsc_volume *vol, unsigned copy, uint64_t logical, unsigned n_sectors, int status);

#endif
