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
	uint8_t *own_data; /* data, when it was written */
	bool has_verifier;
	uint8_t verifier[FSC_VERIFIER_BYTES];
	struct fake_xattr {
		uint8_t *value; /* NULL: there is none */
		size_t len;
	} acl, default_acl;
	struct entry *entries;
	size_t n_entries;
};

struct fsc_volume {
	struct fsc_inode *all;
	uint64_t next_ino;

	pthread_mutex_t mutex;
	/* guarded by mutex */
	struct fsc_sync *syncs; /* linked by impl[0] */
};

static struct fsc_volume volume = {.mutex = PTHREAD_MUTEX_INITIALIZER};
char fake_target[FSC_SYMLINK_MAX + 1];

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
		free(i->own_data);
		free(i->acl.value);
		free(i->default_acl.value);
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

static struct fsc_inode *add_bytes(
	struct fsc_inode *dir, const char *name, size_t len, struct fsc_inode *inode)
{
	struct entry *e;

	dir->entries = realloc(dir->entries, (dir->n_entries + 1) * sizeof(*e));
	if (!dir->entries)
		abort();
	e = &dir->entries[dir->n_entries];
	e->name = malloc(len + 1);
	if (!e->name)
		abort();
	memcpy(e->name, name, len);
	e->name[len] = '\0';
	e->name_len = len;
	e->index = 2 + dir->n_entries++;
	e->inode = inode;
	inode->parent = dir;
	return inode;
}

static struct fsc_inode *add(struct fsc_inode *dir, const char *name, struct fsc_inode *inode)
{
	return add_bytes(dir, name, strlen(name), inode);
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

static void set_xattr(struct fake_xattr *x, const void *value, size_t len)
{
	uint8_t *copy = malloc(len + 1);

	if (!copy)
		abort();
	memcpy(copy, value, len);
	free(x->value);
	x->value = copy;
	x->len = len;
}

void fake_set_acl(struct fsc_inode *inode, const void *value, size_t len)
{
	set_xattr(&inode->acl, value, len);
	inode->attr.has_acl = true;
}

void fake_set_default_acl(struct fsc_inode *inode, const void *value, size_t len)
{
	set_xattr(&inode->default_acl, value, len);
	inode->attr.has_acl = true;
}

static struct fake_xattr *find_xattr(struct fsc_inode *inode, const char *name)
{
	if (!strcmp(name, "system.posix_acl_access"))
		return &inode->acl;
	if (!strcmp(name, "system.posix_acl_default"))
		return &inode->default_acl;
	abort();
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

struct fsc_inode *fake_find(struct fsc_inode *dir, const char *name)
{
	struct entry *e = find_entry(dir, name, strlen(name));

	return e ? e->inode : NULL;
}

const uint8_t *fake_data(struct fsc_inode *file, size_t *len)
{
	*len = file->data_len;
	return file->data;
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
static int injected(void)
{
	if (!atomic_load(&fake.fail))
		return 0;
	if (atomic_load(&fake.fail_skip) > 0) {
		atomic_fetch_sub(&fake.fail_skip, 1);
		return 0;
	}
	return atomic_exchange(&fake.fail, 0);
}

static int enter(struct fsc_ctx *ctx)
{
	int fail = injected();

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
	out->read_only = atomic_load(&fake.read_only);
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

char fake_compress[16];

int fsc_subvol_set_compress(
	struct fsc_ctx *ctx, struct fsc_volume *vol, uint64_t id, const char *type)
{
	(void)ctx;
	(void)vol;
	(void)id;
	strcpy(fake_compress, type);
	return 0;
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
	if (*len && inode->data)
		memcpy(buf, inode->data, *len);
	return 0;
}

int fsc_getxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name, void *buf,
	size_t size, size_t *len)
{
	int ret = enter(ctx);
	struct fake_xattr *x;

	if (ret)
		return ret;
	x = find_xattr(inode, name);
	if (!x->value)
		return -ENODATA;
	if (size < x->len)
		return -ERANGE;
	memcpy(buf, x->value, x->len);
	*len = x->len;
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
	int ret = injected();

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

/* -------------------------------------------------------------- changing */

/* One change of an inode, and sometimes another one by somebody else. */
static void touch(struct fsc_inode *i)
{
	unsigned n = atomic_load(&fake.rivals) ? 2 : 1;

	i->attr.change += n;
	i->attr.ctime.nsec += n;
	atomic_fetch_add(&fake.changes, 1);
}

static void touch_content(struct fsc_inode *i)
{
	touch(i);
	i->attr.mtime.nsec++;
}

static void set_size(struct fsc_inode *i, uint64_t size)
{
	uint8_t *data = NULL;

	/* The fake holds little; what is larger is not there. */
	if (size <= 16u << 20) {
		data = calloc(1, size + 1);
		if (!data)
			abort();
		if (i->data_len)
			memcpy(data, i->data, MIN((size_t)size, i->data_len));
	}
	free(i->own_data);
	i->data = i->own_data = data;
	i->data_len = data ? size : 0;
	i->attr.size_bytes = size;
}

static void set_times(struct fsc_inode *i, const struct fsc_setattr *set)
{
	static const struct fsc_time now = {2000, 5};

	if (set->mask & FSC_SET_ATIME)
		i->attr.atime = set->atime;
	if (set->mask & FSC_SET_MTIME)
		i->attr.mtime = set->mtime;
	if (set->mask & FSC_SET_ATIME_NOW)
		i->attr.atime = now;
	if (set->mask & FSC_SET_MTIME_NOW)
		i->attr.mtime = now;
}

int fsc_setattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const struct fsc_setattr *set)
{
	struct fsc_attr *a = &inode->attr;
	int ret = enter(ctx);

	if (ret)
		return ret;
	if (set->has_guard && memcmp(&set->guard.nsec, &a->ctime.nsec, 4))
		return -EREMCHG;
	if (set->mask & FSC_SET_SIZE && !S_ISREG(a->mode))
		return -EINVAL;
	if (set->mask & FSC_SET_SIZE)
		set_size(inode, set->size_bytes);
	if (set->mask & FSC_SET_MODE)
		a->mode = (a->mode & S_IFMT) | set->mode;
	if (set->mask & FSC_SET_UID)
		a->uid = set->uid;
	if (set->mask & FSC_SET_GID)
		a->gid = set->gid;
	set_times(inode, set);
	inode->has_verifier = false;
	touch(inode);
	return 0;
}

int fsc_create(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len,
	const struct fsc_new *n, struct fsc_inode **out)
{
	int ret = enter(ctx);
	struct fsc_inode *i;

	if (ret)
		return ret;
	if (find_entry(dir, name, name_len))
		return -EEXIST;
	i = add_bytes(dir, name, name_len, new_inode(dir->attr.subvol, volume.next_ino++, n->mode));
	i->attr.uid = n->uid;
	i->attr.gid = n->gid;
	i->attr.rdev_major = n->rdev_major;
	i->attr.rdev_minor = n->rdev_minor;
	i->has_verifier = n->has_verifier;
	memcpy(i->verifier, n->verifier, sizeof(i->verifier));
	if (n->target)
		strcpy(fake_target, n->target);
	touch_content(dir);
	return give(i, out);
}

int fsc_verifier_check(
	struct fsc_ctx *ctx, struct fsc_inode *inode, const uint8_t verifier[FSC_VERIFIER_BYTES])
{
	int ret = enter(ctx);

	if (ret)
		return ret;
	return inode->has_verifier && !memcmp(inode->verifier, verifier, FSC_VERIFIER_BYTES)
		? 0
		: -EEXIST;
}

int fsc_link(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_inode *dir, const char *name,
	size_t name_len)
{
	int ret = enter(ctx);

	if (ret)
		return ret;
	if (S_ISDIR(inode->attr.mode))
		return -EPERM;
	if (find_entry(dir, name, name_len))
		return -EEXIST;
	add_bytes(dir, name, name_len, inode);
	inode->attr.nlink++;
	touch(inode);
	touch_content(dir);
	return 0;
}

static bool is_empty(const struct fsc_inode *dir)
{
	for (size_t i = 0; i < dir->n_entries; i++)
		if (dir->entries[i].inode)
			return false;
	return true;
}

static int remove_entry(
	struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t len, bool is_dir)
{
	struct entry *e = find_entry(dir, name, len);
	int ret = enter(ctx);

	if (ret)
		return ret;
	if (!e)
		return -ENOENT;
	if (S_ISDIR(e->inode->attr.mode) != is_dir)
		return is_dir ? -ENOTDIR : -EISDIR;
	if (e->inode->attr.subvol != dir->attr.subvol)
		return -EPERM;
	if (is_dir && !is_empty(e->inode))
		return -ENOTEMPTY;
	e->inode->attr.nlink--;
	e->inode = NULL;
	touch_content(dir);
	return 0;
}

int fsc_unlink(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len)
{
	return remove_entry(ctx, dir, name, name_len, false);
}

int fsc_rmdir(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len)
{
	return remove_entry(ctx, dir, name, name_len, true);
}

static bool is_above(const struct fsc_inode *dir, const struct fsc_inode *in)
{
	while (in && in != dir)
		in = in->parent;
	return in != NULL;
}

int fsc_rename(struct fsc_ctx *ctx, struct fsc_inode *from_dir, const char *from, size_t from_len,
	struct fsc_inode *to_dir, const char *to, size_t to_len)
{
	struct entry *e = find_entry(from_dir, from, from_len), *old;
	int ret = enter(ctx);
	struct fsc_inode *i;

	if (ret)
		return ret;
	if (!e)
		return -ENOENT;
	i = e->inode;
	if (S_ISDIR(i->attr.mode) && is_above(i, to_dir))
		return -EINVAL;
	old = find_entry(to_dir, to, to_len);
	if (old && old->inode == i)
		return 0;
	if (old && S_ISDIR(old->inode->attr.mode) != S_ISDIR(i->attr.mode))
		return S_ISDIR(i->attr.mode) ? -ENOTDIR : -EISDIR;
	if (old && !is_empty(old->inode))
		return -ENOTEMPTY;
	if (old) {
		old->inode->attr.nlink--;
		old->inode = NULL;
	}
	e->inode = NULL;
	add_bytes(to_dir, to, to_len, i);
	touch_content(from_dir);
	touch_content(to_dir);
	return 0;
}

int fsc_setxattr(struct fsc_ctx *ctx, struct fsc_inode *inode, const char *name, const void *value,
	size_t len, unsigned flags)
{
	struct fake_xattr *x = find_xattr(inode, name);
	int ret = enter(ctx);

	if (ret)
		return ret;
	if (flags & FSC_XATTR_REPLACE && !x->value)
		return -ENODATA;
	set_xattr(x, value, len);
	inode->attr.has_acl = true;
	touch(inode);
	return 0;
}

int fsc_write(struct fsc_ctx *ctx, struct fsc_inode *inode, uint64_t file_off,
	const struct iovec *iov, unsigned n_iov)
{
	int ret = enter(ctx);

	if (ret)
		return ret;
	for (unsigned i = 0; i < n_iov; i++) {
		size_t len = iov[i].iov_len;

		if (file_off + len > inode->attr.size_bytes || inode->data != inode->own_data)
			set_size(inode, MAX(file_off + len, inode->attr.size_bytes));
		if (inode->own_data)
			memcpy(inode->own_data + file_off, iov[i].iov_base, len);
		file_off += len;
	}
	touch_content(inode);
	return 0;
}

static int begin_sync(struct fsc_sync *sync)
{
	if (!atomic_load(&fake.async_syncs))
		return atomic_exchange(&fake.sync_status, 0);
	pthread_mutex_lock(&volume.mutex);
	sync->impl[0] = volume.syncs;
	volume.syncs = sync;
	pthread_mutex_unlock(&volume.mutex);
	return -EINPROGRESS;
}

int fsc_sync_inode(struct fsc_inode *inode, struct fsc_sync *sync)
{
	(void)inode;
	atomic_fetch_add(&fake.syncs_inode, 1);
	return begin_sync(sync);
}

int fsc_sync_names(struct fsc_volume *vol, struct fsc_sync *sync)
{
	(void)vol;
	atomic_fetch_add(&fake.syncs_names, 1);
	return begin_sync(sync);
}

unsigned fake_end_syncs(int status)
{
	struct fsc_sync *s;
	unsigned n = 0;

	pthread_mutex_lock(&volume.mutex);
	s = volume.syncs;
	volume.syncs = NULL;
	pthread_mutex_unlock(&volume.mutex);
	for (; s; n++) {
		struct fsc_sync *next = s->impl[0];

		s->status = status;
		s->done(s);
		s = next;
	}
	return n;
}
