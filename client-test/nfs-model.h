/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfs-model.h - what nfs-model knows of the tree that it changes: an operation
 * (struct op), what a server answered (struct result), and the tree in memory to
 * which acknowledged operations are applied. The same code runs beside a server
 * and, afterwards, over the log of such a run (--verify).
 *
 * Nodes are numbers that are never used twice; node 0 is the top. Everything here
 * is guarded by one lock, which the caller holds; while an operation is in flight
 * no other one that touches the same names, nodes or bytes is chosen, so what the
 * server must answer is known before it is asked.
 */
#ifndef BYRE_CLIENT_TEST_NFS_MODEL_H
#define BYRE_CLIENT_TEST_NFS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MODEL_NAME_MAX	 255u
#define MODEL_TARGET_MAX 1023u
#define MODEL_FH_MAX	 64u
#define CHUNK_BYTES	 65536u
#define NO_NODE		 UINT32_MAX

enum op_kind {
	OP_CREATE,
	OP_MKDIR,
	OP_SYMLINK,
	OP_MKNOD,
	OP_LINK,
	OP_UNLINK,
	OP_RMDIR,
	OP_RENAME,
	OP_SETATTR,
	OP_WRITE,
	OP_COMMIT,
	/* These change nothing. */
	OP_READ,
	OP_LIST,
	OP_LOOKUP,
	OP_GETATTR,
	OP_READLINK,
	OP_STALE, /* GETATTR of what is gone */
	OP_KINDS
};

/* Numbers as in RFC 1813: these files are also read by what knows no libnfs. */
enum model_type {
	TYPE_FILE = 1,
	TYPE_DIR,
	TYPE_BLK,
	TYPE_CHR,
	TYPE_LINK,
	TYPE_SOCK,
	TYPE_FIFO
};

enum {
	SET_MODE = 1,
	SET_UID = 2,
	SET_GID = 4,
	SET_SIZE = 8,
	SET_ATIME = 16,
	SET_MTIME = 32,
	SET_ATIME_NOW = 64,
	SET_MTIME_NOW = 128,
	SET_GUARD = 256
};

enum {
	HOW_UNSTABLE,
	HOW_DATA_SYNC,
	HOW_FILE_SYNC
};

enum {
	HOW_UNCHECKED,
	HOW_GUARDED,
	HOW_EXCLUSIVE
};

struct model_time {
	uint32_t s, ns;
};

/* Numbers of nfsstat3 that the model predicts. */
enum {
	ST_OK = 0,
	ST_NOENT = 2,
	ST_EXIST = 17,
	ST_NOTDIR = 20,
	ST_ISDIR = 21,
	ST_INVAL = 22,
	ST_NOSPC = 28,
	ST_NOTEMPTY = 66,
	ST_DQUOT = 69,
	ST_STALE = 70
};

struct op {
	uint64_t seq;
	unsigned client;
	enum op_kind kind;
	uint32_t node; /* the object; for the creating ones, the number of the new node */
	uint32_t dir, dir2;
	char name[MODEL_NAME_MAX + 1], name2[MODEL_NAME_MAX + 1];
	unsigned set;
	uint32_t mode, uid, gid, rdev_major, rdev_minor;
	uint32_t how; /* of CREATE and WRITE */
	uint32_t type;
	uint64_t off, data; /* off: also the size of SETATTR; data: what bytes, see data_fill() */
	uint32_t len;
	struct model_time atime, mtime;
	uint32_t expect; /* the status that the model predicts */
	char target[MODEL_TARGET_MAX + 1];
	uint32_t hit, replaced; /* nodes that the names had when it was chosen */
	bool done;		/* in a log: it was answered */
};

struct attrs {
	uint32_t type, mode, nlink, uid, gid, rdev_major, rdev_minor;
	uint64_t size, fileid, fsid;
	struct model_time mtime, ctime;
};

struct handle {
	uint32_t len;
	char data[MODEL_FH_MAX];
};

struct result {
	uint32_t status;
	uint32_t count, committed; /* of WRITE */
	bool has_attr, has_fh;
	struct attrs attr;
	struct handle fh;
};

/* One WRITE that may be lost. */
struct loose_write {
	uint64_t off, data;
	uint32_t len, skip; /* skip: bytes of the data that were cut off at its begin */
};

/* Bytes in pieces; what is not there is zeros. */
struct content {
	uint8_t **chunks;
	size_t n;
};

struct dirent_model {
	uint32_t node;
	bool foreign; /* not ours: a subvolume, say. It is there and nothing more is known. */
	char *name;
};

struct node {
	bool live;
	unsigned area;
	size_t at; /* in the list of its kind and area */
	struct attrs attr;
	bool mtime_unsure;
	struct handle fh;
	uint32_t parent; /* of a directory */
	char *target;
	struct dirent_model *entries; /* unordered */
	size_t n_entries, room;
	struct content content;
	bool dirty; /* has writes that are not stable */
	/* With tree.keep_stable: what is stable, and what may come on top of it. */
	struct content stable;
	uint64_t stable_size;
	struct loose_write *loose;
	size_t n_loose;
	/* --verify: an operation that was never answered touched it. */
	bool unsure;
	bool seen; /* while comparing */
};

#define AREAS 65u /* one for each client, and the shared one, which is the first */
enum list_kind {
	LIST_DIRS,
	LIST_FILES,
	LIST_OTHERS,
	LISTS
};

struct id_list {
	uint32_t *ids;
	size_t n, room;
};

struct tree {
	struct node *nodes;
	uint32_t n_nodes, room;
	struct id_list lists[AREAS][LISTS];
	bool keep_stable;
	uint64_t bytes; /* of all contents */
};
extern struct tree tree;

void tree_init(void);
struct node *node_at(uint32_t id);
uint32_t node_new(void); /* reserves a number */
/* Makes it live; attr.type says what it is. */
void node_begin(uint32_t id, unsigned area, const struct attrs *attr);
void node_gone(uint32_t id);

struct dirent_model *entry_find(struct node *dir, const char *name);
void entry_add(uint32_t dir, const char *name, uint32_t node, bool foreign);
void entry_remove(uint32_t dir, const char *name);
/* dir is `of` or below it. */
bool is_below(uint32_t dir, uint32_t of);
unsigned depth_of(uint32_t dir);

/* Byte i of data d, from byte `at` on. */
void data_fill(uint64_t data, uint64_t at, void *buf, size_t len);
void content_write(struct content *c, uint64_t off, const void *buf, size_t len);
void content_read(const struct content *c, uint64_t off, void *buf, size_t len);
void content_cut(struct content *c, uint64_t size); /* zeros from there on */
void content_free(struct content *c);

/* Fills in op->hit, op->replaced and op->expect. */
void op_predict(struct op *op);
/* Whether two operations may not be in flight together. */
bool op_conflict(const struct op *a, const struct op *b);
/* An answered operation. Returns NULL, or what is wrong with the answer. */
const char *op_apply(const struct op *op, const struct result *res);
/* What the server said of an object against what is known of it. */
const char *attrs_differ(const struct node *n, const struct attrs *got, bool mtime_too);

extern const char *const op_names[OP_KINDS];
void op_print(FILE *f, const struct op *op); /* for people */
const char *status_text(uint32_t status);

/* -- the log ------------------------------------------------------------------ */

/* Each is one write(2) to a file opened for appending. */
void log_begin_op(int fd, const struct op *op);
void log_end_op(int fd, const struct op *op, const struct result *res);

/* Reads a log and compares; the exit status of the program. */
int verify_main(const char *log_path, const char *dir);

#endif
