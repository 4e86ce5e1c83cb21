/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For tests of writing: one volume in a file, checked by `btrfs check` whenever it has been closed;
 * files whose content is compared with a model of it in memory; what the trees have of a file.
 */
#ifndef TESTS_FSCORE_WRITING_H
#define TESTS_FSCORE_WRITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fscore/file/inode.h"
#include "fscore/io/dev.h"

struct writing {
	char path[64];
	struct fsc_thread *thread;
	uint64_t cache_bytes; /* 0: 64 MiB */
	bool discard;
	struct dev *fault; /* what the volume lies on: a dev_fault */
	struct fsc_volume *vol;
	struct fsc_ctx ctx;
	struct fsc_inode *root; /* of the top subvolume */
};

extern struct writing w;

/* A new volume, as mkfs.btrfs makes it with these options; opened. */
void writing_make(const char *mkfs_options);
/* One with these bytes; opened. */
void writing_make_of(const void *volume, size_t bytes);
/* Only that. */
void writing_shut(void);
void writing_load(void);
void writing_load_read_only(void);
/* With a fault from the beginning. */
void writing_load_with(const struct fault_rule *rule);
/* Closes it, checks it, opens it again. Inodes must have been put. */
void writing_reopen(void);
/* Closes, checks and removes it. */
void writing_end(void);

/* fsc_sync_inode(), and waits for its end. */
int writing_sync(struct fsc_inode *inode);

/* What bytes are like. */
enum bytes_kind {
	BYTES_TEXT, /* compressible */
	BYTES_RANDOM,
	BYTES_ZERO,
};

/* A file, and what must be in it. */
struct model {
	char name[32];
	struct fsc_inode *inode;
	uint8_t *bytes;
	size_t size, max;
};

/* A new, empty file in dir. */
void model_create(struct model *m, struct fsc_inode *dir, const char *name, size_t max);
/* After writing_reopen(), in the root directory; model_close() was before it. */
void model_open(struct model *m);
void model_close(struct model *m);
void model_free(struct model *m);
void model_write(struct model *m, uint64_t off, size_t len, enum bytes_kind kind, unsigned seed);
void model_truncate(struct model *m, uint64_t size);
void model_sync(struct model *m);
/* Reads all of the file. */
void model_compare(struct model *m);

/* The extent items of a file. */
struct extents_seen {
	unsigned n_inline, n_regular, n_prealloc;
	unsigned n_of_type[4];	/* by enum btrfs_compression, holes left out */
	uint64_t disk_bytes;	/* of all regular extents, each item counted */
	uint64_t first_logical; /* where the first byte lies; 0: nowhere */
};

void extents_see(struct fsc_inode *inode, struct extents_seen *seen);

#endif
