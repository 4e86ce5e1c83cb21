/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replaying the log trees that a crash has left, our own and the kernel's, in one transaction.
 *
 *   take the space of the log's blocks, and of the data that only the log refers to
 *   for each subvolume: inodes (and the names that directories have lost) -> names of directories
 *     -> xattrs, references, extents -> numbers of links, orphans
 *   commit: its superblock has no log any more
 *   give back what was taken and is in no tree
 *
 * What an item of a log means (documentation of btrfs, "On-disk format"; the kernel's behaviour):
 *
 *   INODE_ITEM       replaces the one in the subvolume. Generation 0: it says only that the inode
 *                    exists (a regular file's size, if not 0, counts). No links: the inode is
 *                    ignored. Extents behind the end of a file go; xattrs that the log lacks go
 *   DIR_LOG_INDEX    from one index to another the log knows all entries of the directory: those
 *                    that it lacks go
 *   DIR_INDEX        an entry, which comes if its inode exists, in place of what stands in its way
 *   INODE_REF/EXTREF all names of the inode in that directory: others go, in both places
 *   XATTR_ITEM       replaces the one in the subvolume
 *   EXTENT_DATA      replaces what the file has in its range
 *   EXTENT_CSUM      the checksums of the data in these extents
 *
 * A crash meanwhile leaves the volume as it was, with its log: it is replayed again. Nobody else uses
 * the volume yet: there are no inodes in memory.
 */
#ifndef FSCORE_FILE_LOG_REPLAY_H
#define FSCORE_FILE_LOG_REPLAY_H

#include "fscore/file/fs.h"

/*
 * Replays the log that vol->super names, and waits until that is on disk. Transactions run, the
 * flusher does not. On an error the transaction is aborted: the disk is as it was, and the
 * volume must be closed. -EUCLEAN: the log is damaged; -ENOSPC, -ENOMEM.
 */
int log_replay(struct fsc_ctx *ctx, struct fsc_volume *vol);

#endif
