/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/server/fake_fscore.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/util.h"

struct fake_knobs fake = {.piece_bytes = 4096};

struct entry {
	char *name;
	size_t name_len;
	uint64_t index;
	struct fsc_inode *inode; /* NULL: removed */
};

struct fsc_inode {
	struct fsc_inode *all_next;
	struct fsc_inode *parent;
	struct fsc_attr attr;
	const uint8_t *data;
	size_t data_len;
	const void *acl;
	size_t acl_len;
	struct entry *entries;
	size_t n_entries;
};

struct fsc_volume {
	struct fsc_inode *all;
	uint64_t next_ino;
};

static struct fsc_volume volume;

struct fsc_read_impl {
	struct fsc_read_impl *next;
	struct fsc_read *rd;
	struct fsc_inode *inode;
};

struct fsc_thread {
	pthread_mutex_t mutex;
	int event_fd;
	/* guarded by mutex */
	struct fsc_msg *first, **last;

	/* owned by the thread */
	struct fsc_read_impl *reads;
};

/* ------------------------------------------------------------------ tree */

static struct fsc_inode *new_inode(uint64_t subvol, uint64_t ino, uint32_t mode)
{
	struct fsc_inode *i = calloc(1, sizeof(*i));

	if (!i)
		abort();
	i->attr = (struct fsc_attr){.subvol = subvol,
		.ino = ino,
		.generation = 7,
		.mode = mode,
		.nlink = 1,
		.mtime = {.sec = 1000, .nsec = 1},
		.ctime = {.sec = 1000, .nsec = 2}};
	i->all_next = volume.all;
	volume.all = i;
	return i;
}

struct fsc_volume *fake_volume(void)
{
	fake_volume_free();
	volume.next_ino = 257;
	new_inode(FSC_SUBVOL_TOP, FSC_INO_ROOT, S_IFDIR | 0755);
	return &volume;
}

void fake_volume_free(void)
{
	while (volume.all) {
		struct fsc_inode *i = volume.all;

		volume.all = i->all_next;
		for (size_t e = 0; e < i->n_entries; e++)
			free(i->entries[e].name);
		free(i->entries);
		free(i);
	}
}

static struct fsc_inode *find(uint64_t subvol, uint64_t ino)
{
	struct fsc_inode *i = volume.all;

	while (i && (i->attr.subvol != subvol || i->attr.ino != ino))
		i = i->all_next;
	return i;
}

struct fsc_inode *fake_root(uint64_t subvol)
{
	return find(subvol, FSC_INO_ROOT);
}

static struct fsc_inode *add(struct fsc_inode *dir, const char *name, struct fsc_inode *inode)
{
	struct entry *e;

	dir->entries = realloc(dir->entries, (dir->n_entries + 1) * sizeof(*e));
	if (!dir->entries)
		abort();
	e = &dir->entries[dir->n_entries];
	e->name = strdup(name);
	e->name_len = strlen(name);
	e->index = 2 + dir->n_entries++;
	e->inode = inode;
	inode->parent = dir;
	return inode;
}

struct fsc_inode *fake_make(struct fsc_inode *dir, const char *name, uint32_t mode)
{
	return add(dir, name, new_inode(dir->attr.subvol, volume.next_ino++, mode));
}

struct fsc_inode *fake_make_subvol(struct fsc_inode *dir, const char *name, uint64_t id)
{
	return add(dir, name, new_inode(id, FSC_INO_ROOT, S_IFDIR | 0755));
}

void fake_set_data(struct fsc_inode *file, const void *data, size_t len)
{
	file->data = data;
	file->data_len = file->attr.size_bytes = len;
}

void fake_set_acl(struct fsc_inode *inode, const void *value, size_t len)
{
	inode->acl = value;
	inode->acl_len = len;
	inode->attr.has_acl = true;
}

struct fsc_attr *fake_attr(struct fsc_inode *inode)
{
	return &inode->attr;
}

static struct entry *find_entry(struct fsc_inode *dir, const char *name, size_t len)
{
	for (size_t i = 0; i < dir->n_entries; i++) {
		struct entry *e = &dir->entries[i];

		if (e->inode && e->name_len == len && !memcmp(e->name, name, len))
			return e;
	}
	return NULL;
}

void fake_unlink(struct fsc_inode *dir, const char *name)
{
	struct entry *e = find_entry(dir, name, strlen(name));

	if (!e)
		abort();
	e->inode->attr.nlink = 0;
	e->inode = NULL;
}

/* --------------------------------------------------------------- threads */

int fsc_thread_create(struct fsc_thread **out)
{
	struct fsc_thread *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&t->mutex, NULL);
	t->last = &t->first;
	*out = t;
	return 0;
}

void fsc_thread_destroy(struct fsc_thread *t)
{
	if (!t)
		return;
	close(t->event_fd);
	pthread_mutex_destroy(&t->mutex);
	free(t);
}

int fsc_thread_fd(const struct fsc_thread *t)
{
	return t->event_fd;
}

void fsc_thread_flush(struct fsc_thread *t)
{
	(void)t;
}

unsigned fsc_thread_reap(struct fsc_thread *t)
{
	struct fsc_msg *m;
	uint64_t v;
	unsigned n = 0;

	if (read(t->event_fd, &v, sizeof(v)) < 0 && errno != EAGAIN)
		abort();
	pthread_mutex_lock(&t->mutex);
	m = t->first;
	t->first = NULL;
	t->last = &t->first;
	pthread_mutex_unlock(&t->mutex);
	while (m) {
		struct fsc_msg *next = m->next;

		m->fn(m);
		m = next;
		n++;
	}
	return n;
}

void fsc_thread_wait(struct fsc_thread *t)
{
	struct pollfd p = {.fd = t->event_fd, .events = POLLIN};

	might_wait("fsc_thread_wait");
	poll(&p, 1, -1);
	fsc_thread_reap(t);
}

void fsc_thread_wake(struct fsc_thread *t)
{
	uint64_t one = 1;

	if (write(t->event_fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

void fsc_thread_post(struct fsc_thread *t, struct fsc_msg *msg)
{
	msg->next = NULL;
	pthread_mutex_lock(&t->mutex);
	*t->last = msg;
	t->last = &msg->next;
	pthread_mutex_unlock(&t->mutex);
	fsc_thread_wake(t);
}

const char *fsc_blocked_name(enum fsc_blocked why)
{
	return why == FSC_BLOCKED_CACHE ? "cache" : "other";
}

/* ---------------------------------------------------------------- volume */

/* What every call that may wait or fail begins with. */
static int enter(struct fsc_ctx *ctx)
{
	int fail = atomic_exchange(&fake.fail, 0);

	if (fail)
		return fail;
	if (!(ctx->flags & FSC_NOWAIT)) {
		might_wait("fake fscore");
		return 0;
	}
	if (atomic_load(&fake.block) <= 0)
		return 0;
	if (atomic_load(&fake.block_skip) > 0) {
		atomic_fetch_sub(&fake.block_skip, 1);
		return 0;
	}
	atomic_fetch_sub(&fake.block, 1);
	ctx->blocked = FSC_BLOCKED_CACHE;
	return -EAGAIN;
}

void fsc_volume_info(const struct fsc_volume *vol, struct fsc_volume_info *out)
{
	(void)vol;
	memset(out, 0, sizeof(*out));
	memset(out->uuid, 0xab, sizeof(out->uuid));
	out->read_only = true;
}

void fsc_stats(struct fsc_volume *vol, struct fsc_stats *out)
{
	(void)vol;
	memset(out, 0, sizeof(*out));
	out->metadata.hits = 3;
	out->metadata.misses = 1;
	out->dev_read_bytes = 4096;
}

int fsc_statfs(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t subvol, struct fsc_statfs *out)
{
	(void)vol;
	(void)subvol;
	*out = (struct fsc_statfs){1000000, 500000, 400000};
	return enter(ctx);
}

int fsc_subvol_info(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, struct fsc_subvol_info *out)
{
	struct fsc_inode *root = fake_root(id);
	int ret = enter(ctx);

	(void)vol;
	if (ret)
		return ret;
	if (!root)
		return -ENOENT;
	memset(out, 0, sizeof(*out));
	out->id = id;
	out->parent_id = root->parent ? root->parent->attr.subvol : 0;
	memcpy(out->uuid, &id, sizeof(id));
	return 0;
}

int fsc_subvol_find(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *path, uint64_t *id)
{
	struct fsc_inode *at = fake_root(FSC_SUBVOL_TOP);

	(void)ctx;
	(void)vol;
	while (*path) {
		size_t len = strcspn(path, "/");
		struct entry *e = len ? find_entry(at, path, len) : NULL;

		if (len && !e)
			return -ENOENT;
		if (e)
			at = e->inode;
		path += len + (path[len] == '/');
	}
	*id = at->attr.subvol;
	return at->attr.ino == FSC_INO_ROOT ? 0 : -EINVAL;
}

/* ---------------------------------------------------------------- inodes */

static int give(struct fsc_inode *i, struct fsc_inode **out)
{
	atomic_fetch_add(&fake.inode_refs, 1);
	*out = i;
	return 0;
}

int fsc_inode_get(struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t subvol, uint64_t ino,
	uint64_t generation, struct fsc_inode **out)
{
	struct fsc_inode *i = find(subvol, ino);
	int ret = enter(ctx);

	(void)vol;
	if (ret)
		return ret;
	if (!i || !i->attr.nlink || (generation && generation != i->attr.generation))
		return -ESTALE;
	return give(i, out);
}

void fsc_inode_ref(struct fsc_inode *inode)
{
	(void)inode;
	atomic_fetch_add(&fake.inode_refs, 1);
}

void fsc_inode_put(struct fsc_inode *inode)
{
	if (inode)
		atomic_fetch_sub(&fake.inode_refs, 1);
}

void fsc_inode_attr(struct fsc_inode *inode, struct fsc_attr *out)
{
	*out = inode->attr;
}

int fsc_lookup(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len,
	struct fsc_inode **out)
{
	int ret = enter(ctx);
	struct entry *e;

	if (ret)
		return ret;
	if (!S_ISDIR(dir->attr.mode))
		return -ENOTDIR;
	if (name_len == 2 && !memcmp(name, "..", 2))
		return give(dir->parent ? dir->parent : dir, out);
	e = find_entry(dir, name, name_len);
	return e ? give(e->inode, out) : -ENOENT;
}

int fsc_dir_last_index(struct fsc_ctx *ctx, struct fsc_inode *dir, uint64_t *out)
{
	int ret = enter(ctx);

	*out = 1;
	for (size_t i = 0; i < dir->n_entries; i++)
		if (dir->entries[i].inode)
			*out = dir->entries[i].index;
	return ret;
}

static uint8_t type_of(const struct fsc_inode *i)
{
	return (uint8_t)((i->attr.mode & S_IFMT) >> 12); /* DT_* are these */
}

int fsc_readdir(struct fsc_ctx *ctx, struct fsc_inode *dir, uint64_t from, uint64_t to,
	unsigned flags, fsc_dirent_fn fn, void *arg, bool *eof)
{
	int ret = enter(ctx);

	*eof = false;
	if (ret)
		return ret;
	for (size_t i = 0; i < dir->n_entries; i++) {
		struct entry *e = &dir->entries[i];
		bool attr = flags & FSC_READDIR_ATTR;
		struct fsc_dirent d = {.name = e->name, .name_len = e->name_len, .index = e->index};

		if (!e->inode || e->index < from || e->index > to)
			continue;
		d.subvol = e->inode->attr.subvol;
		d.ino = e->inode->attr.ino;
		d.type = type_of(e->inode);
		d.attr = attr && d.subvol == dir->attr.subvol ? &e->inode->attr : NULL;
		if (!fn(arg, &d))
			return 0;
	}
	*eof = true;
	return 0;
}

int fsc_readlink(struct fsc_ctx *ctx, struct fsc_inode *inode, char *buf, size_t size, size_t *len)
{
	int ret = enter(ctx);

	if (ret)
		return ret;
	*len = MIN(size, inode->data_len);
	if (*len)
		memcpy(buf, inode->data, *len);
	return 0;
}

int fsc_getxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name, void *buf,
	size_t size, size_t *len)
{
	int ret = enter(ctx);

	if (ret)
		return ret;
	if (strcmp(name, "system.posix_acl_access") || !inode->acl)
		return -ENODATA;
	if (size < inode->acl_len)
		return -ERANGE;
	memcpy(buf, inode->acl, inode->acl_len);
	*len = inode->acl_len;
	return 0;
}

/* ----------------------------------------------------------------- reads */

/* The data are copied, so that a use after fsc_read_release() is found. */
static int fill(struct fsc_read *rd, struct fsc_inode *inode)
{
	size_t piece = atomic_load(&fake.piece_bytes), n = 0;

	if (rd->file_off < inode->data_len)
		n = MIN(rd->len_bytes, inode->data_len - rd->file_off);
	rd->result_bytes = n;
	rd->eof = rd->file_off + n >= inode->data_len || rd->file_off >= inode->data_len;
	rd->n_iov = (unsigned)((n + piece - 1) / piece);
	rd->iov = calloc(rd->n_iov + 1, sizeof(*rd->iov));
	for (unsigned i = 0; i < rd->n_iov; i++) {
		size_t len = MIN(piece, n - i * piece);

		rd->iov[i].iov_base = malloc(MAX(len, (size_t)1));
		rd->iov[i].iov_len = len;
		memcpy(rd->iov[i].iov_base, inode->data + rd->file_off + i * piece, len);
	}
	return rd->status = 0;
}

int fsc_read(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_read *rd)
{
	struct fsc_read_impl *impl = calloc(1, sizeof(*impl));
	int ret = atomic_exchange(&fake.fail, 0);

	rd->impl = impl;
	rd->iov = NULL;
	rd->n_iov = 0;
	rd->result_bytes = 0;
	impl->rd = rd;
	impl->inode = inode;
	atomic_fetch_add(&fake.reads, 1);
	if (ret)
		return rd->status = ret;
	if (!(ctx->flags & FSC_NOWAIT) || !atomic_load(&fake.async_reads))
		return fill(rd, inode);
	impl->next = ctx->thread->reads;
	ctx->thread->reads = impl;
	return -EINPROGRESS;
}

unsigned fake_end_reads(struct fsc_thread *t, int status)
{
	unsigned n = 0;

	while (t->reads) {
		struct fsc_read_impl *impl = t->reads;

		t->reads = impl->next;
		impl->rd->status = status;
		if (!status)
			fill(impl->rd, impl->inode);
		impl->rd->done(impl->rd);
		n++;
	}
	return n;
}

void fsc_read_release(struct fsc_read *rd)
{
	if (!rd->impl)
		return;
	for (unsigned i = 0; i < rd->n_iov; i++)
		free(rd->iov[i].iov_base);
	free(rd->iov);
	free(rd->impl);
	rd->impl = NULL;
	rd->iov = NULL;
	rd->n_iov = 0;
	atomic_fetch_sub(&fake.reads, 1);
}
