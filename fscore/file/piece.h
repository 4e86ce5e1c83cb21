/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Consecutive dirty pages on their way to the disk, and the form in which they get there. Of the
 * flusher's thread alone.
 */
#ifndef FSCORE_FILE_PIECE_H
#define FSCORE_FILE_PIECE_H

#include <sys/queue.h>

#include "fscore/file/compressor.h"
#include "fscore/file/in_place.h"
#include "fscore/io/dev.h"

#define PIECE_MAX_PAGES IO_MAX_IOV

struct flusher;

enum piece_form {
	PIECE_NEW,    /* a new extent, as it is or compressed */
	PIECE_INLINE, /* the whole file, in its item, as it is or compressed */
	PIECE_OVER,   /* over what the file has there */
	PIECE_PREALLOC,
};

struct piece {
	TAILQ_ENTRY(piece) list;
	struct io_req req;
	struct flusher *f;
	struct fsc_inode *inode; /* a reference */
	uint64_t file_off;
	unsigned n_pages;
	enum piece_form form;
	bool has_space; /* data space is reserved for the pages, or allocated at logical */
	uint64_t logical;
	uint64_t ram_bytes;		     /* of content: the pages; inline, those of the file */
	uint64_t disk_bytes;		     /* what is stored of it */
	uint8_t compression;		     /* enum btrfs_compression */
	char *compressed;		     /* disk_bytes; NULL: the pages are stored */
	struct page *pages[PIECE_MAX_PAGES]; /* a reference to each */
	struct iovec iov[PIECE_MAX_PAGES];
	uint8_t *csums; /* of each sector of disk_bytes; NULL: none */
};

/* Up to what size a file is stored inline, compressed or not. */
uint64_t piece_max_inline(const struct fsc_inode *inode);

/* How many pages a piece of the file takes at most: compressed extents are short. Might wait. */
unsigned piece_max_pages(struct fsc_ctx *ctx, struct fsc_inode *inode);

/*
 * Chooses the form of a piece whose pages are taken. *n_pages: how many of them have it; the
 * others must be given back. Might wait.
 */
int piece_choose_form(
	struct fsc_ctx *ctx, struct compressor *c, struct piece *p, unsigned *n_pages);

/* PIECE_NEW: compresses the pages, if that saves a sector. */
void piece_compress(struct fsc_ctx *ctx, struct compressor *c, struct piece *p);

/* Stores the pages as they are, after all. */
void piece_uncompress(struct piece *p);

/* The piece has its address: sets iov and n_iov of its request, and csums. -ENOMEM. */
int piece_prepare(struct piece *p);

/* Frees what the piece has allocated, and the piece. */
void piece_free(struct piece *p);

#endif
