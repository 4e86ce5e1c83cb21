/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libfscore: a btrfs volume as a library, without a kernel mount.
 *
 * This is the only header of fscore that others include. It knows no network
 * and no protocol. Errors are negative errno values; those that every call may
 * return besides the ones it names:
 *
 *   -EAGAIN   only with FSC_NOWAIT: the call would have to wait. It has changed
 *             nothing. ctx->blocked says what for. Run it again without
 *             FSC_NOWAIT on a thread that may wait. See NOWAIT below.
 *   -EIO      the device failed, or no good copy of a data block was found.
 *   -EUCLEAN  a metadata block that the call needs is damaged in every copy.
 *   -ENOMEM   out of memory.
 *
 * Threads. Each thread that calls fscore has a struct fsc_thread, made and
 * used by that thread alone but for fsc_thread_post() and fsc_thread_wake().
 * It owns an io_uring ring and an inbox, and one eventfd for both. A loop thread
 * watches the eventfd and calls fsc_thread_reap(); other threads wait inside
 * the blocking calls, or in fsc_thread_wait().
 *
 * NOWAIT. Whatever a call with FSC_NOWAIT returns, also -EAGAIN or 0, it may have
 * started I/O on the calling thread's ring: to read a metadata block or file data,
 * ahead of need too. That goes to the kernel and completes on this thread alone, and
 * others may be waiting for the same block or pages, perhaps with a lock held. So a
 * thread that uses FSC_NOWAIT goes on serving its ring (fsc_thread_flush() and then
 * fsc_thread_reap() whenever fsc_thread_fd() is readable; or fsc_thread_wait()) and
 * blocks on nothing else while that is under way: not on a lock, and so not in a call
 * without FSC_NOWAIT either.
 */
#ifndef FSCORE_FSCORE_H
#define FSCORE_FSCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct fsc_volume;
struct fsc_inode;
struct fsc_thread;

#define FSC_NAME_MAX	255u
#define FSC_UUID_BYTES	16u
#define FSC_SYMLINK_MAX 4095u

/* The subvolume that every volume has, and the inode of each subvolume's root. */
#define FSC_SUBVOL_TOP 5u
#define FSC_INO_ROOT   256u
/* The stand-in for a subvolume that did not come along into a snapshot. */
#define FSC_INO_STUB 2u

/* -------------------------------------------------------------- threads */

/* A message to a thread; embed it. Free to use again once fn has been called. */
struct fsc_msg {
	struct fsc_msg *next;
	void (*fn)(struct fsc_msg *msg);
};

/* Returns -ENOSYS or -EPERM when the kernel gives no io_uring, -EMFILE, -ENOMEM. */
int fsc_thread_create(struct fsc_thread **out);

/* Waits for all I/O that this thread has started. NULL is allowed. */
void fsc_thread_destroy(struct fsc_thread *t);

/* Readable when fsc_thread_reap() has something to do. */
int fsc_thread_fd(const struct fsc_thread *t);

/* Hands queued I/O to the kernel. Loop threads: at the end of each iteration. */
void fsc_thread_flush(struct fsc_thread *t);

/*
 * Runs what has completed and arrived (fsc_read.done, fsc_msg.fn), without
 * waiting. Returns how many callbacks ran.
 */
unsigned fsc_thread_reap(struct fsc_thread *t);

/* Flushes, waits until there is something to reap or the thread is woken, reaps. Might wait. */
void fsc_thread_wait(struct fsc_thread *t);

/* Any thread: has msg->fn run on t, in order of posting. Never waits, never fails. */
void fsc_thread_post(struct fsc_thread *t, struct fsc_msg *msg);

/* Any thread: makes t's fsc_thread_wait() return. */
void fsc_thread_wake(struct fsc_thread *t);

/* -------------------------------------------------------------- context */

#define FSC_NOWAIT 1u

enum fsc_blocked {
	FSC_BLOCKED_NOT,
	FSC_BLOCKED_LOCK,  /* a lock was held by another thread */
	FSC_BLOCKED_CACHE, /* a metadata block is not in memory; its read was started */
	FSC_BLOCKED_SPACE, /* a space reservation would have to flush */
	FSC_BLOCKED_QUOTA, /* a qgroup reservation would have to flush; not in use yet */
	FSC_BLOCKED_PAGE,  /* no page is free */
	FSC_BLOCKED_TXN,   /* a transaction could not be joined */
	FSC_BLOCKED_CPU,   /* long work for the CPU: decompression, a slow checksum */
	FSC_BLOCKED_REASONS
};

/* "lock", "cache", ...: for counters. */
const char *fsc_blocked_name(enum fsc_blocked why);

/* What a call runs on; lives on the caller's stack or in its request. */
struct fsc_ctx {
	struct fsc_thread *thread; /* the calling thread's */
	unsigned flags;		   /* FSC_NOWAIT or 0 */
	enum fsc_blocked blocked;  /* set when a call returns -EAGAIN */
};

/* -------------------------------------------------------------- volume */

struct fsc_open_options {
	uint64_t cache_bytes; /* for data, metadata and inodes together; 0: 256 MiB */
	bool read_only;
	bool no_lock; /* tests: do not lock the volume against others */
	/* Tells the device (or punches holes in the file) what is freed, in pieces of 64 KiB and more. */
	bool discard;
	/*
	 * Data that fsc_write() took is lost (the device or memory failed, or a transaction was
	 * aborted), and no fsc_sync_*() had said that it is durable. Called before a sync can
	 * hear of it, on any thread; must not wait. May be NULL.
	 */
	void (*data_lost)(void *arg);
	void *data_lost_arg;
};

/*
 * Opens the btrfs volume in the file or block device at path. Might wait.
 * Problems are logged, one line each. Errors: those of open(2); -EBUSY in use by
 * another process or attached by the kernel; -EINVAL not a btrfs volume;
 * -EOPNOTSUPP an incompatible feature that is not implemented, or more than one
 * device; -EUCLEAN damaged.
 * Without opt->read_only it is opened for writing, and nevertheless read-only, with a
 * line that says why, if it has a compat_ro feature that is not implemented, a log tree
 * that can't be replayed, quota groups or simple quotas, no checksum tree, or the flag that
 * says it has errors, if it is a dump of metadata or a seed, or if the file may not be written. A
 * log tree is replayed on opening for writing, and a free-space tree that is not valid built anew;
 * opened read-only, the volume is as of its last commit.
 */
int fsc_volume_open(struct fsc_thread *t, const char *path, const struct fsc_open_options *opt,
	struct fsc_volume **out);

/*
 * Writes everything and closes it: the caller has put every inode and finished
 * every read. Might wait. NULL is allowed.
 */
void fsc_volume_close(struct fsc_thread *t, struct fsc_volume *vol);

struct fsc_volume_info {
	uint8_t uuid[FSC_UUID_BYTES];
	char label[256];
	bool read_only;
	uint32_t sector_bytes;
	uint32_t node_bytes;
	uint64_t generation;
	uint64_t total_bytes;
	uint64_t used_bytes;
	uint64_t default_subvol;
};

void fsc_volume_info(const struct fsc_volume *vol, struct fsc_volume_info *out);

struct fsc_statfs {
	uint64_t total_bytes;
	uint64_t free_bytes;  /* not in use */
	uint64_t avail_bytes; /* can be written by this subvolume's tenant */
};

int fsc_statfs(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t subvol, struct fsc_statfs *out);

/* -------------------------------------------------------------- subvolumes */

struct fsc_subvol_info {
	uint64_t id;
	uint64_t parent_id;	      /* the subvolume that holds its name; 0 for the top */
	uint8_t uuid[FSC_UUID_BYTES]; /* never zero: made from the volume's where btrfs has none */
	bool read_only;
	uint64_t generation;
};

/* -ENOENT: there is none. */
int fsc_subvol_info(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, struct fsc_subvol_info *out);

/*
 * The subvolume whose root is at path, from the top subvolume ("/" or "" is the
 * top itself). -ENOENT, -ENOTDIR as usual; -EINVAL: path is no subvolume.
 */
int fsc_subvol_find(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *path, uint64_t *id);

/*
 * By what new data in the subvolume is compressed where a file's own attributes say nothing:
 * "zlib", "lzo", "zstd" (a level after a colon is ignored); NULL, "no", "none": not at all, as it
 * is when the volume is opened. -EINVAL: another type; -ENOENT: no such subvolume.
 */
int fsc_subvol_set_compress(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, const char *type);

/* -------------------------------------------------------------- inodes */

struct fsc_time {
	int64_t sec;
	uint32_t nsec;
};

struct fsc_attr {
	uint64_t subvol;
	uint64_t ino;
	uint64_t generation;
	uint64_t size_bytes;
	uint64_t used_bytes; /* allocated, in whole sectors */
	uint64_t change;     /* grows with each change */
	struct fsc_time atime, mtime, ctime, btime;
	uint32_t mode; /* with the S_IFMT bits */
	uint32_t nlink;
	uint32_t uid, gid;
	uint32_t rdev_major, rdev_minor;
	bool has_acl; /* may have a POSIX ACL: fsc_getxattr() tells */
};

/*
 * A reference to an inode by number. generation: what the inode must have, or 0
 * for any. -ESTALE: no such subvolume or inode, another generation, or unlinked.
 */
int fsc_inode_get(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t subvol, uint64_t ino,
	uint64_t generation, struct fsc_inode **out);

/* Another reference. */
void fsc_inode_ref(struct fsc_inode *inode);

/* Gives a reference back. Never waits. NULL is allowed. */
void fsc_inode_put(struct fsc_inode *inode);

/* Never waits. */
void fsc_inode_attr(struct fsc_inode *inode, struct fsc_attr *out);

/*
 * Looks a name up in a directory, and takes a reference to what is found. A name
 * of a nested subvolume gives the root of that subvolume; ".." in the root of a
 * subvolume gives the directory that holds it. Names are bytes, not terminated.
 * -ENOENT, -ENOTDIR, -ENAMETOOLONG.
 */
int fsc_lookup(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len,
	struct fsc_inode **out);

struct fsc_dirent {
	const char *name; /* not terminated; valid during the callback only */
	size_t name_len;
	uint64_t index; /* place in the directory; unique, ascending, >= 2, < 2^62 */
	/*
	 * Of the entry's inode: another subvolume than the directory's for one that is nested
	 * here, whose root it is whatever ino says; for its stand-in FSC_INO_STUB of this one.
	 */
	uint64_t subvol;
	uint64_t ino;
	uint8_t type;		     /* DT_* of <dirent.h> */
	const struct fsc_attr *attr; /* with FSC_READDIR_ATTR; NULL: a subvolume, or not readable */
};

/*
 * Takes one entry. false: no room, stop before it. Called with the tree locked:
 * it must not call fscore.
 */
typedef bool (*fsc_dirent_fn)(void *arg, const struct fsc_dirent *entry);

#define FSC_READDIR_ATTR 1u

/*
 * Calls fn for the entries of a directory with from <= index <= to, ascending,
 * without "." and "..". *eof: there are no more up to `to`. With FSC_NOWAIT it
 * returns 0 with *eof false, not -EAGAIN, when it has delivered at least one
 * entry before it would have to wait. -ENOTDIR.
 */
int fsc_readdir(struct fsc_ctx *ctx, struct fsc_inode *dir, uint64_t from, uint64_t to,
	unsigned flags, fsc_dirent_fn fn, void *arg, bool *eof);

/* The highest index in use in a directory, 1 when it is empty. -ENOTDIR. */
int fsc_dir_last_index(struct fsc_ctx *ctx, struct fsc_inode *dir, uint64_t *out);

/* Copies the target, at most size bytes, no terminator; *len is its length. -EINVAL: no symlink. */
int fsc_readlink(struct fsc_ctx *ctx, struct fsc_inode *inode, char *buf, size_t size, size_t *len);

/*
 * Copies the value of an extended attribute. *len is its length. size 0 asks for
 * the length alone. -ENODATA: there is none; -ERANGE: size is too small.
 */
int fsc_getxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name, void *buf,
	size_t size, size_t *len);

/* The names, each with its terminator, as listxattr(2). -ERANGE. */
int fsc_listxattr(
	struct fsc_ctx *ctx, struct fsc_inode *inode, char *buf, size_t size, size_t *len);

/* -------------------------------------------------------------- reading */

struct fsc_read_impl;

/*
 * One read of a file. The caller sets the first group and calls fsc_read(); the
 * iovec points into the page cache (or at zeros) and stays valid until
 * fsc_read_release().
 */
struct fsc_read {
	/* Set by the caller. done may be NULL if FSC_NOWAIT is never used. */
	uint64_t file_off;
	size_t len_bytes;
	void (*done)(struct fsc_read *rd);

	/* Set when the read has ended. */
	int status;	     /* 0 or a negative errno */
	size_t result_bytes; /* less than len_bytes only at the end of the file */
	bool eof;	     /* the end of the result is at or beyond the end of the file */
	struct iovec *iov;
	unsigned n_iov;

	struct fsc_read_impl *impl; /* fscore's own */
};

#define FSC_READ_MAX (4u << 20)

/*
 * Reads from a regular file. len_bytes is at most FSC_READ_MAX. Checksums are
 * verified when data comes from the disk. Returns rd->status, or
 *   -EINPROGRESS (only with FSC_NOWAIT): I/O is under way; rd->done is called on
 *   this thread, from fsc_thread_reap(), and rd->status is then final. (It can
 *   then be -EAGAIN too: run it again without FSC_NOWAIT.)
 * -EISDIR, -EINVAL (not a regular file), -ESTALE (it has lost its last name meanwhile,
 * and is not all in the cache). Offsets up to 2^64-1 are fine and give an empty result
 * with eof at or beyond the end of the file.
 * After any other return than -EINPROGRESS, or after done: fsc_read_release().
 */
int fsc_read(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_read *rd);

/* Gives back the pages; any thread. Allowed for a read that failed, or twice. */
void fsc_read_release(struct fsc_read *rd);

/* -------------------------------------------------------------- changing */

/*
 * All of these return -EROFS on a read-only volume or subvolume, and after the volume has
 * turned read-only by an error; -ENOSPC, -EDQUOT only without FSC_NOWAIT. What they have
 * changed is seen by every later call at once, and is durable when an fsc_sync_*() that
 * began after them has ended. Permissions are the caller's. They may return -EAGAIN with
 * FSC_NOWAIT (every reason of enum fsc_blocked) and have then changed nothing.
 */

#define FSC_SET_MODE	  (1u << 0)
#define FSC_SET_UID	  (1u << 1)
#define FSC_SET_GID	  (1u << 2)
#define FSC_SET_SIZE	  (1u << 3)
#define FSC_SET_ATIME	  (1u << 4) /* to attr.atime */
#define FSC_SET_MTIME	  (1u << 5)
#define FSC_SET_ATIME_NOW (1u << 6)
#define FSC_SET_MTIME_NOW (1u << 7)

struct fsc_setattr {
	unsigned mask;
	uint32_t mode; /* without the S_IFMT bits */
	uint32_t uid, gid;
	uint64_t size_bytes;
	struct fsc_time atime, mtime;
	bool has_guard;
	struct fsc_time guard; /* the change time that the inode must have */
};

/*
 * Changes attributes; the change time moves with each call. -EREMCHG: the guard does not
 * match. -EISDIR, -EINVAL: size of what is no regular file; -EFBIG.
 */
int fsc_setattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct fsc_setattr *set);

#define FSC_VERIFIER_BYTES 8u

struct fsc_new {
	uint32_t mode; /* with the S_IFMT bits */
	uint32_t uid, gid;
	uint32_t rdev_major, rdev_minor;
	const char *target; /* of a symlink; terminated */
	/* Exclusive creation (RFC 1813, 3.3.8): kept with the file until its attributes are set. */
	bool has_verifier;
	uint8_t verifier[FSC_VERIFIER_BYTES];
};

/*
 * Creates a file of any type and takes a reference to it. -EEXIST, -ENAMETOOLONG,
 * -EINVAL (a name that can't be: empty, ".", "..", with '/' or NUL), -EOVERFLOW: too many
 * names with the same hash.
 */
int fsc_create(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len,
	const struct fsc_new *new_inode, struct fsc_inode **out);

/* Whether the file still has this verifier from its creation: 0 yes, -EEXIST no. */
int fsc_verifier_check(
	struct fsc_ctx *ctx, struct fsc_inode *inode, const uint8_t verifier[FSC_VERIFIER_BYTES]);

/* -EMLINK, -EPERM (a directory), -EXDEV (another subvolume), and as fsc_create(). */
int fsc_link(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_inode *dir, const char *name,
	size_t name_len);

/* Removes a name of anything but a directory: -EISDIR. -ENOENT, -EPERM (a subvolume). */
int fsc_unlink(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len);

/* -ENOTDIR, -ENOTEMPTY, -ENOENT, -EPERM (a subvolume), -EINVAL ("."). */
int fsc_rmdir(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len);

/*
 * Renames, replacing what has the new name. -EXDEV: another subvolume; -EINVAL: a directory
 * into itself; -EISDIR, -ENOTDIR, -ENOTEMPTY: what would be replaced does not fit.
 */
int fsc_rename(struct fsc_ctx *ctx, struct fsc_inode *from_dir, const char *from, size_t from_len,
	struct fsc_inode *to_dir, const char *to, size_t to_len);

#define FSC_XATTR_CREATE  1u /* -EEXIST when it is there */
#define FSC_XATTR_REPLACE 2u /* -ENODATA when it is not */

int fsc_setxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name, const void *value,
	size_t len, unsigned flags);
int fsc_removexattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name);

/*
 * Writes to a regular file: copies into the page cache, from where it goes to the disk in the
 * background or by fsc_sync_inode(). All or nothing. Clears setuid and setgid bits as
 * write(2) does. -EFBIG; -EINVAL, -EISDIR: not a regular file. At most FSC_READ_MAX bytes.
 */
int fsc_write(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t file_off,
	const struct iovec *iov, unsigned n_iov);

/* Waits for durability without holding a thread; embed it. */
struct fsc_sync {
	/* Set by the caller: where, and what, to call when status is final. */
	struct fsc_thread *thread;
	void (*done)(struct fsc_sync *sync);
	int status; /* 0; or -EIO, -ENOSPC: something was not written */

	void *impl[8]; /* fscore's own */
};

/*
 * Makes the content and attributes of an inode durable, and its names. Never waits. Returns 0:
 * they are; or -EINPROGRESS: done will be called. Any thread. The reference to the inode is
 * the caller's until then.
 */
int fsc_sync_inode(struct fsc_inode *inode, struct fsc_sync *sync);

/* The same for all calls that have changed names and attributes so far, without file data. */
int fsc_sync_names(struct fsc_volume *vol, struct fsc_sync *sync);

/*
 * Writes everything and waits. Might wait. -EIO, -ENOSPC, -ENOMEM: data of some file has been lost
 * since the last call; all else is durable if the volume is still writable.
 */
int fsc_sync_all(struct fsc_ctx *ctx, struct fsc_volume *vol);

/* -------------------------------------------------------------- statistics */

struct fsc_cache_stats {
	uint64_t capacity_bytes, used_bytes;
	uint64_t hits, misses, evictions;
};

struct fsc_stats {
	struct fsc_cache_stats metadata, pages, inodes; /* pages: hits and misses count pages */
	uint64_t dev_reads, dev_read_bytes, dev_read_errors;
	uint64_t dev_writes, dev_write_bytes, dev_write_errors, dev_flushes;
	uint64_t dev_discards, dev_discard_bytes;
	uint64_t csum_errors;	 /* data blocks that did not match their checksum */
	uint64_t meta_errors;	 /* copies of metadata blocks that did not pass */
	uint64_t mirror_repairs; /* reads that another copy satisfied */
	uint64_t repaired;	 /* bad copies of blocks and sectors that were written anew */
	uint64_t readahead_bytes;
	uint64_t page_alloc_waits;	       /* waits for pages, all with an incomplete batch */
	uint64_t commits, commit_syncs;	       /* and those for whom they made something durable */
	uint64_t commit_blocks;		       /* metadata blocks written, each copy not counted */
	uint64_t commit_refs_max;	       /* references to extents that one had to write */
	uint64_t commit_ns_sum, commit_ns_max; /* from the beginning until it was on disk */
	/* How long changes had to wait meanwhile: the next transaction could not be joined. */
	uint64_t commit_closed_ns_sum, commit_closed_ns_max;
	uint64_t log_writes, log_syncs; /* and those for whom they made something durable */
	uint64_t log_blocks;
	uint64_t log_ns_sum;
};

/* Never waits. */
void fsc_stats(struct fsc_volume *vol, struct fsc_stats *out);

#endif
