/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What crash_work.c, which works and remembers, and crash_check.c, which compares, share. */
#ifndef TESTS_FSCORE_CRASH_PRIVATE_H
#define TESTS_FSCORE_CRASH_PRIVATE_H

#include "tests/fscore/crash_work.h"

#define MAX_NODES      4096u
#define MAX_FILE_BYTES (640u << 10)
#define NONE	       UINT32_MAX
#define XATTR_NAME     "user.version"

/* What a name stood for from an operation on. */
struct name_state {
	uint64_t seq;
	uint32_t node;
};

struct name_history {
	struct name_state *states; /* the first is "nothing" */
	size_t n;
};

/* Content and attributes of a file from an operation on. */
struct version {
	uint64_t seq;
	uint32_t mode, nlink, xattr; /* xattr 0: there is none */
	uint64_t size;
	uint8_t *content; /* shared with the version before when that did not change */
	bool own;	  /* it is not */
	bool truncation;
};

struct node {
	uint64_t ino;
	uint32_t type; /* S_IF* */
	struct fsc_inode *inode;
	struct version *versions;
	size_t n;
	bool tainted; /* a write of it was lost, and that was said */
	unsigned found;
};

enum ack_kind {
	ACK_INODE,
	ACK_NAMES,
	ACK_ALL
};

struct ack {
	enum ack_kind kind;
	uint32_t node;
	uint64_t seq;
	size_t count; /* records when it was known */
};

struct crash_work {
	struct fsc_thread *thread;
	struct fsc_volume *vol;
	struct dev *record;
	uint64_t random, seq;
	struct fsc_inode *dirs[CRASH_DIRS];
	uint64_t dir_inos[CRASH_DIRS];
	struct name_history names[CRASH_DIRS][CRASH_NAMES];
	struct node *nodes;
	uint32_t n_nodes;
	size_t *begins; /* by seq: records when it began */
	size_t begins_room;
	struct ack *acks;
	size_t n_acks;
	uint8_t *buf;
	bool may_fail; /* and so data may have been lost */
	char why[400];
};

/* The name with this number; returns its length. */
size_t crash_name(unsigned i, char text[FSC_NAME_MAX + 1]);
/* Says why something is wrong; returns false. */
__attribute__((format(printf, 2, 3))) bool crash_wrong(struct crash_work *w, const char *fmt, ...);
/* The directories, all of them or an error. */
int crash_find_dirs(struct fsc_thread *thread, struct fsc_volume *vol, bool make,
	struct fsc_inode *dirs[CRASH_DIRS]);
void crash_put_dirs(struct fsc_inode *dirs[CRASH_DIRS]);
/* All of a file into w->buf. */
int crash_read_all(
	struct crash_work *w, struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t size);

#endif
