/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fscore.h on a tree in memory, for tests of the server: calls can be made to block, to fail, and
 * reads and syncs to be asynchronous. What is not given back is counted.
 *
 * One volume, one tree. Built by one thread before others look at it; the knobs are atomic.
 */
#ifndef TESTS_SERVER_FAKE_FSCORE_H
#define TESTS_SERVER_FAKE_FSCORE_H

#include <stdatomic.h>

#include "fscore/fscore.h"

struct fake_knobs {
	/* After block_skip more calls with FSC_NOWAIT (fsc_read() apart), so many return -EAGAIN. */
	_Atomic int block, block_skip;
	/* After fail_skip more calls that can fail, the next one does, with this negative errno. */
	_Atomic int fail, fail_skip;
	/* Reads with FSC_NOWAIT return -EINPROGRESS and end in fake_end_reads(). */
	atomic_bool async_reads;
	/* Syncs return -EINPROGRESS and end in fake_end_syncs(). */
	atomic_bool async_syncs;
	/* What the next sync that is not asynchronous returns. */
	_Atomic int sync_status;
	/* Syncs that were begun, and changes that were made. */
	_Atomic int syncs_names, syncs_inode, changes;
	/* Others change whatever is changed, too. */
	atomic_bool rivals;
	atomic_bool read_only;
	/* Bytes in each piece of the iovec of a read. */
	_Atomic unsigned piece_bytes;

	/* What is held: references to inodes, reads that were not released. */
	_Atomic int inode_refs, reads;
};
extern struct fake_knobs fake;

/* A new, empty tree with the top subvolume; its volume. */
struct fsc_volume *fake_volume(void);
void fake_volume_free(void);

/* The root of a subvolume, as the parent of what is made next. */
struct fsc_inode *fake_root(uint64_t subvol);
/* Makes an entry; the attributes may be changed with fake_attr(). */
struct fsc_inode *fake_make(struct fsc_inode *dir, const char *name, uint32_t mode);
struct fsc_inode *fake_make_subvol(struct fsc_inode *dir, const char *name, uint64_t id);
/* Content of a file, target of a symbolic link; not copied. */
void fake_set_data(struct fsc_inode *file, const void *data, size_t len);
/* The xattrs system.posix_acl_access and _default; of the tree's own are only these. */
void fake_set_acl(struct fsc_inode *inode, const void *value, size_t len);
void fake_set_default_acl(struct fsc_inode *inode, const void *value, size_t len);
struct fsc_attr *fake_attr(struct fsc_inode *inode);
void fake_unlink(struct fsc_inode *dir, const char *name);

/* What a name means; NULL: nothing. */
struct fsc_inode *fake_find(struct fsc_inode *dir, const char *name);
/* The content of a file, and its length. */
const uint8_t *fake_data(struct fsc_inode *file, size_t *len);
/* How the last subvolume was to be compressed. */
extern char fake_compress[16];
/* The target of the last symlink that was made. */
extern char fake_target[FSC_SYMLINK_MAX + 1];

/* Ends the syncs that are under way with this status. Returns how many. */
unsigned fake_end_syncs(int status);

/* Ends the reads that are under way on a thread with this status. Returns how many. */
unsigned fake_end_reads(struct fsc_thread *t, int status);

#endif
