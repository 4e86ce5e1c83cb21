/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * walk-entry.h - what manifest (a local directory) and nfswalk (an NFSv3 export)
 * print for each path, so that their outputs can be compared as text. One thread.
 *
 * One line per path, fields separated by tabs: path, fsid ordinal, fileid, type,
 * mode, uid, gid, link count, size, rdev, mtime, ctime, link target, SHA-256.
 * A field that doesn't apply or wasn't asked for is "-". Bytes outside printable
 * ASCII, blanks and backslashes are \xHH. Lines are sorted by path; the fsid is
 * replaced by the order in which it is first seen in the sorted output, so that
 * two walks of one tree agree whatever numbers the systems use.
 */
#ifndef BYRE_CLIENT_TEST_WALK_ENTRY_H
#define BYRE_CLIENT_TEST_WALK_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define WALK_HASH_SIZE 80 /* room for a hash or an error as text */

struct walk_entry {
	const char *path; /* below the top, "." for the top itself */
	uint64_t fsid, fileid, size;
	char type; /* as in ls -l: - d l c b p s */
	uint32_t mode, uid, gid, nlink;
	uint32_t rdev_major, rdev_minor;
	uint32_t mtime_s, mtime_ns, ctime_s, ctime_ns; /* seconds as NFSv3 has them */
	const char *target;			       /* NULL if not a symlink */
	const char *hash; /* NULL if not hashed; "!WHY" after an error */
};

struct walk_options {
	bool no_hash, with_ctime;
	/* Larger files are hashed by their first and last 64 KiB only. */
	uint64_t hash_limit_bytes;
};
#define WALK_HASH_LIMIT ((uint64_t)64 << 30)
#define WALK_END_BYTES	65536u

/* Sets what one of --no-hash (n), --ctime (c), --hash-limit (l) says; false: o is none of them. */
bool walk_option(struct walk_options *options, int o, const char *arg);

struct walk_out {
	struct walk_options options;
	FILE *to_sort, *from_sort;
	pid_t sort;
	uint64_t entries;
};

/* Starts sort(1). */
void walk_out_begin(struct walk_out *w, const struct walk_options *options);
void walk_out_entry(struct walk_out *w, const struct walk_entry *e);
/* Prints everything to standard output; false if sorting or printing failed. */
bool walk_out_end(struct walk_out *w);

/* Hashing in pieces; fails never, or ends the program. */
struct walk_hash;
struct walk_hash *walk_hash_new(void);
void walk_hash_add(struct walk_hash *h, const void *data, size_t bytes);
/* Writes the hex digest after the prefix, and frees h. */
void walk_hash_end(struct walk_hash *h, const char *prefix, char text[WALK_HASH_SIZE]);

#endif
