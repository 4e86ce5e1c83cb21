/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changing names: fsc_create(), fsc_link(), fsc_unlink(), fsc_rmdir(), fsc_rename() of
 * fscore.h.
 *
 * Each one locks the directories, looks at what there is, joins a transaction, has all the
 * places prepared (nothing has changed up to there), and then changes the items under one
 * hold of the tree's lock, so that nobody sees a name half made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/file/compress_prop.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/log_note.h"
#include "fscore/file/name_items.h"
#include "fscore/file/orphan.h"
#include "fscore/file/subvol.h"
#include "fscore/file/writeback.h"
#include "fscore/file/xattr.h"
#include "fscore/format/csum.h"
#include "fscore/tree/leaf.h"

#define LINK_MAX 65535u

static uint8_t type_of(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return BTRFS_FT_REG_FILE;
	case S_IFDIR:
		return BTRFS_FT_DIR;
	case S_IFLNK:
		return BTRFS_FT_SYMLINK;
	case S_IFCHR:
		return BTRFS_FT_CHRDEV;
	case S_IFBLK:
		return BTRFS_FT_BLKDEV;
	case S_IFIFO:
		return BTRFS_FT_FIFO;
	case S_IFSOCK:
		return BTRFS_FT_SOCK;
	default:
		return BTRFS_FT_UNKNOWN;
	}
}

static int check_name(const char *name, size_t len)
{
	if (len > FSC_NAME_MAX)
		return -ENAMETOOLONG;
	if (!len || memchr(name, '/', len) || memchr(name, '\0', len))
		return -EINVAL;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return -EINVAL;
	return 0;
}

/* What can be said before anything is looked at or locked. */
static int check_change(const struct fsc_inode *dir, const char *name, size_t len)
{
	int ret = S_ISDIR(dir->type) ? 0 : -ENOTDIR;

	if (!ret)
		ret = check_name(name, len);
	return ret ? ret : inode_check_writable(dir);
}

static bool is_removed(struct fsc_inode *dir)
{
	bool removed;

	short_lock(&dir->attr_lock);
	removed = dir->unlinked;
	short_unlock(&dir->attr_lock);
	return removed;
}

/* Locks a directory for changes of its names; it still has its own. */
static int lock_dir(struct fsc_ctx *ctx, struct fsc_inode *dir)
{
	int ret = inode_lock(ctx, dir);

	if (!ret && is_removed(dir)) {
		inode_unlock(dir);
		ret = -ESTALE;
	}
	return ret;
}

/* The index for a new entry. op_lock is held. */
static int next_index(struct fsc_ctx *ctx, struct fsc_inode *dir, uint64_t *index)
{
	int ret = 0;

	if (!dir->next_index) {
		ret = fsc_dir_last_index(ctx, dir, index);
		if (!ret)
			dir->next_index = *index + 1;
	}
	*index = dir->next_index;
	return ret;
}

/* A directory has got (sign 1) or lost (-1) a name. */
static void dir_changed(
	struct txn_handle *h, struct fsc_inode *dir, size_t name_len, int sign, struct fsc_time now)
{
	short_lock(&dir->attr_lock);
	/* Each name counts twice: in DIR_ITEM and in DIR_INDEX. */
	dir->attr.size_bytes += (uint64_t)(2 * sign * (int64_t)name_len);
	inode_changed_locked(dir, now);
	dir->attr.mtime = dir->attr.ctime;
	short_unlock(&dir->attr_lock);
	inode_mark_dirty(h, dir);
}

/* ----------------------------------------------------------------------- create */

/* What goes on from the directory to a new inode. */
static void inherit(const struct fsc_inode *dir, struct fsc_inode *inode)
{
	struct fsc_attr *a = &inode->attr;

	if (dir->attr.mode & S_ISGID) {
		a->gid = dir->attr.gid;
		if (S_ISDIR(a->mode))
			a->mode |= S_ISGID;
	}
	inode->flags |= dir->flags &
		(BTRFS_INODE_COMPRESS | BTRFS_INODE_NOCOMPRESS | BTRFS_INODE_NODATACOW);
	if (S_ISREG(a->mode) && (inode->flags & BTRFS_INODE_NODATACOW))
		inode->flags |= BTRFS_INODE_NODATASUM;
}

static void fill_new(struct fsc_inode *inode, struct fsc_inode *dir, const struct fsc_new *n)
{
	struct fsc_time now = time_now();

	inode->attr = (struct fsc_attr){
		.subvol = inode->subvol->id,
		.ino = inode->ino,
		.mode = n->mode,
		.nlink = 1,
		.uid = n->uid,
		.gid = n->gid,
		.rdev_major = n->rdev_major,
		.rdev_minor = n->rdev_minor,
		.atime = now,
		.mtime = now,
		.ctime = now,
		.btime = now,
	};
	inode->type = n->mode & S_IFMT;
	if (S_ISDIR(n->mode))
		inode->next_index = 2;
	if (n->target) {
		inode->attr.size_bytes = strlen(n->target);
		inode->disk_size = inode->attr.size_bytes;
		inode->used_bytes = inode->attr.size_bytes;
		inode->attr.used_bytes =
			align_up(inode->used_bytes, inode->subvol->vol->geo.sector_bytes);
	}
	short_lock(&dir->attr_lock);
	inherit(dir, inode);
	short_unlock(&dir->attr_lock);
}

static int insert_inode_item(struct txn_handle *h, struct fsc_inode *inode)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_INODE_ITEM_KEY, 0);
	uint32_t bytes = (uint32_t)sizeof(struct btrfs_inode_item);
	struct tree_path path = PATH_INIT;
	struct btrfs_inode_item *item;
	int ret = tree_search_prepared(&h->w, &inode->subvol->root, &key, (int)bytes, &path);

	if (ret == 1) {
		item = path_insert_item(&h->w, &path, &key, bytes);
		memset(item, 0, bytes);
		inode->attr.generation = h->txn->id;
		inode_to_item(inode, h->txn->id, item);
		ret = 0;
	} else if (ret == 0) {
		ret = -EEXIST;
	}
	path_release(&path);
	return ret;
}

static int insert_target(struct txn_handle *h, struct fsc_inode *inode, const char *target)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, 0);
	size_t len = strlen(target);
	uint32_t bytes = (uint32_t)(FILE_EXTENT_INLINE_OFFSET + len);
	struct tree_path path = PATH_INIT;
	struct btrfs_file_extent_item *fi;
	int ret = tree_search_prepared(&h->w, &inode->subvol->root, &key, (int)bytes, &path);

	if (ret == 1) {
		fi = path_insert_item(&h->w, &path, &key, bytes);
		memset(fi, 0, FILE_EXTENT_INLINE_OFFSET);
		PUT(fi, generation, h->txn->id);
		PUT(fi, ram_bytes, len);
		fi->type = BTRFS_FILE_EXTENT_INLINE;
		memcpy((char *)fi + FILE_EXTENT_INLINE_OFFSET, target, len);
		log_extent(h, inode, 0, inode->subvol->vol->geo.sector_bytes, fi, bytes, NULL, 0);
		ret = 0;
	} else if (ret == 0) {
		ret = -EEXIST;
	}
	path_release(&path);
	return ret;
}

/* All the items of a new inode, under one lock. An error with *changed aborts. */
static int create_items(struct txn_handle *h, struct fsc_inode *inode, const struct fsc_new *n,
	const struct name_ref *name, bool *changed)
{
	struct subvol *sv = inode->subvol;
	const char *prop = compress_type_name(inode->compress_prop);
	struct btrfs_key places[NAME_PLACES + 3];
	unsigned n_places = NAME_PLACES;
	int ret;

	name_places(name, places);
	places[n_places++] = key_make(inode->ino, BTRFS_INODE_ITEM_KEY, 0);
	if (n->target)
		places[n_places++] = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, 0);
	if (prop)
		places[n_places++] = key_make(inode->ino, BTRFS_XATTR_ITEM_KEY,
			name_hash(COMPRESS_PROP, strlen(COMPRESS_PROP)));
	*changed = false;
	ret = tree_prepare(&h->w, &sv->root, places, n_places);
	if (ret)
		return ret;
	ret = name_check_room(&h->w, sv, name);
	if (!ret) {
		*changed = true;
		ret = insert_inode_item(h, inode);
		if (!ret && n->target)
			ret = insert_target(h, inode, n->target);
		if (!ret && prop)
			ret = xattr_insert_prepared(h, inode, COMPRESS_PROP, prop, strlen(prop));
		if (!ret)
			ret = name_add(&h->w, sv, name);
	}
	tree_unlock_write(&sv->root);
	return ret;
}

/* Ends a change that went wrong: without harm if nothing was changed. */
static int end_failed(struct txn_handle *h, int error, bool changed)
{
	if (changed)
		txn_abort(h, error);
	else
		txn_end(h);
	return changed ? -EIO : error;
}

/* With the directory locked, and the name free. */
static int create_locked(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t len,
	const struct fsc_new *n, struct fsc_inode *inode)
{
	struct name_ref ref = {.dir = dir->ino,
		.name = name,
		.len = len,
		.ino = inode->ino,
		.type = type_of(n->mode)};
	struct txn_handle h;
	bool changed;
	int ret = next_index(ctx, dir, &ref.index);

	if (!ret)
		ret = compress_prop_inherited(ctx, dir, inode, &inode->compress_prop);
	inode->compress_known = true;
	if (!ret)
		ret = txn_join(ctx, &dir->subvol->vol->w->txns, 8, 0, &h);
	if (ret)
		return ret;
	/* Before the name can be seen: who follows it must find this inode, not make another. */
	inode_add_new(inode);
	ret = create_items(&h, inode, n, &ref, &changed);
	if (!ret && n->has_verifier)
		ret = verifier_store(&h, inode, n->verifier);
	if (ret) {
		inode_forget(inode);
		return end_failed(&h, ret, changed);
	}
	dir->next_index++;
	short_lock(&inode->attr_lock);
	inode->last_txn = h.txn->id;
	short_unlock(&inode->attr_lock);
	log_inode(&h, inode, inode->compress_prop || n->has_verifier ? 0 : LOG_NEW);
	log_name(&h, LOG_NAME_ADDED, dir->subvol, &ref);
	dir_changed(&h, dir, len, 1, inode->attr.ctime);
	txn_end(&h);
	return 0;
}

/* Whether a new name is free: 0, or -EEXIST. */
static int check_free(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t len)
{
	struct btrfs_key location;
	uint8_t type;
	int ret = name_lookup(ctx, dir, name, len, &location, &type);

	return ret == -ENOENT ? 0 : ret ? ret : -EEXIST;
}

int fsc_create(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len,
	const struct fsc_new *new_inode, struct fsc_inode **out)
{
	struct subvol *sv = dir->subvol;
	struct fsc_inode *inode;
	uint64_t ino;
	int ret = check_change(dir, name, name_len);

	if (ret)
		return ret;
	if (new_inode->target &&
		(!*new_inode->target || strlen(new_inode->target) > FSC_SYMLINK_MAX ||
			strlen(new_inode->target) + FILE_EXTENT_INLINE_OFFSET >
				tree_max_item_bytes(&sv->root)))
		return *new_inode->target ? -ENAMETOOLONG : -EINVAL;
	/* The verifier is stored in a step of its own, which must not end half-way. */
	if (new_inode->has_verifier && (ctx->flags & FSC_NOWAIT)) {
		ctx->blocked = FSC_BLOCKED_TXN;
		return -EAGAIN;
	}
	ret = lock_dir(ctx, dir);
	if (ret)
		return ret;
	ret = check_free(ctx, dir, name, name_len);
	if (!ret)
		ret = inode_new_number(ctx, sv, &ino);
	if (!ret) {
		inode = inode_alloc(sv, ino);
		ret = inode ? 0 : -ENOMEM;
	}
	if (!ret) {
		fill_new(inode, dir, new_inode);
		ret = create_locked(ctx, dir, name, name_len, new_inode, inode);
		if (ret)
			fsc_inode_put(inode);
		else
			*out = inode;
	}
	inode_unlock(dir);
	return ret;
}

/* ------------------------------------------------------------------------- link */

static int link_locked(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_inode *dir,
	const char *name, size_t len)
{
	struct name_ref ref = {.dir = dir->ino,
		.name = name,
		.len = len,
		.ino = inode->ino,
		.type = type_of(inode->type)};
	struct btrfs_key places[NAME_PLACES];
	struct fsc_time now = time_now();
	struct txn_handle h;
	bool changed = false;
	int ret = next_index(ctx, dir, &ref.index);

	if (!ret)
		ret = txn_join(ctx, &dir->subvol->vol->w->txns, 6, 0, &h);
	if (ret)
		return ret;
	log_forbid(&h); /* of several names the log knows nothing */
	name_places(&ref, places);
	ret = tree_prepare(&h.w, &dir->subvol->root, places, NAME_PLACES);
	if (!ret) {
		ret = name_check_room(&h.w, dir->subvol, &ref);
		changed = !ret;
		if (!ret)
			ret = name_add(&h.w, dir->subvol, &ref);
		tree_unlock_write(&dir->subvol->root);
	}
	if (ret)
		return end_failed(&h, ret, changed);
	dir->next_index++;
	short_lock(&inode->attr_lock);
	inode->attr.nlink++;
	inode_changed_locked(inode, now);
	short_unlock(&inode->attr_lock);
	inode_mark_dirty(&h, inode);
	dir_changed(&h, dir, len, 1, now);
	txn_end(&h);
	return 0;
}

/* Takes two op_locks, in the order that all take them in. */
static int lock_two(struct fsc_ctx *ctx, struct fsc_inode *a, struct fsc_inode *b)
{
	struct fsc_inode *first = &a->op_lock < &b->op_lock ? a : b;
	struct fsc_inode *second = first == a ? b : a;
	int ret = inode_lock(ctx, first);

	if (ret || a == b)
		return ret;
	ret = inode_lock(ctx, second);
	if (ret)
		inode_unlock(first);
	return ret;
}

static void unlock_two(struct fsc_inode *a, struct fsc_inode *b)
{
	inode_unlock(a);
	if (a != b)
		inode_unlock(b);
}

static int check_linkable(struct fsc_inode *inode)
{
	int ret = 0;

	short_lock(&inode->attr_lock);
	if (inode->unlinked)
		ret = -ESTALE;
	else if (inode->attr.nlink >= LINK_MAX)
		ret = -EMLINK;
	short_unlock(&inode->attr_lock);
	return ret;
}

int fsc_link(struct fsc_ctx *ctx, struct fsc_inode *inode, struct fsc_inode *dir, const char *name,
	size_t name_len)
{
	int ret = check_change(dir, name, name_len);

	if (ret)
		return ret;
	if (S_ISDIR(inode->type))
		return -EPERM;
	if (inode->subvol != dir->subvol)
		return -EXDEV;
	/* The inode's lock keeps the number of its links below the limit. */
	ret = lock_two(ctx, dir, inode);
	if (ret)
		return ret;
	ret = is_removed(dir) ? -ESTALE : check_linkable(inode);
	if (!ret)
		ret = check_free(ctx, dir, name, name_len);
	if (!ret)
		ret = link_locked(ctx, inode, dir, name, name_len);
	unlock_two(dir, inode);
	return ret;
}

/* ---------------------------------------------------------------------- removal */

/* A name, and the inode that it leads to (referenced). */
struct found_name {
	struct name_ref ref;
	struct fsc_inode *inode;
};

static int find_name(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t len,
	struct found_name *out)
{
	struct btrfs_key location;
	int ret;

	*out = (struct found_name){.ref = {.dir = dir->ino, .name = name, .len = len}};
	ret = name_lookup(ctx, dir, name, len, &location, &out->ref.type);
	if (ret)
		return ret;
	if (location.type != BTRFS_INODE_ITEM_KEY)
		return -EPERM;
	out->ref.ino = location.objectid;
	ret = name_find_index(ctx, dir->subvol, &out->ref, &out->ref.index);
	if (ret)
		return ret == -ENOENT ? -EUCLEAN : ret;
	ret = inode_get(ctx, dir->subvol, location.objectid, &out->inode);
	return ret == -ENOENT ? -EUCLEAN : ret;
}

static bool has_other_names(struct fsc_inode *inode)
{
	bool has_others;

	short_lock(&inode->attr_lock);
	has_others = inode->attr.nlink != 1;
	short_unlock(&inode->attr_lock);
	return has_others;
}

/* What the log can't say of a name that goes: that its inode keeps another. */
static void check_loggable(struct txn_handle *h, struct fsc_inode *inode)
{
	if (has_other_names(inode))
		log_forbid(h);
}

/* An inode has lost a name: it may have been its last. */
static int name_lost(
	struct txn_handle *h, struct fsc_inode *inode, struct fsc_time now, bool has_orphan)
{
	bool last;

	short_lock(&inode->attr_lock);
	inode->attr.nlink--;
	last = inode->attr.nlink == 0;
	inode->unlinked = last;
	inode_changed_locked(inode, now);
	short_unlock(&inode->attr_lock);
	if (last) {
		log_gone(h, inode);
		if (!has_orphan)
			return inode_delete(h, inode);
		inode_leave_to_flusher(h, inode);
		return 0;
	}
	inode_mark_dirty(h, inode);
	return 0;
}

/*
 * Without waiting, what may delete an inode can't be done here: its items' places can't all be
 * prepared. It becomes an orphan, with its name's going, and is left to the flusher.
 */
static int remove_locked(struct fsc_ctx *ctx, struct fsc_inode *dir, const struct found_name *f)
{
	bool leaves = (ctx->flags & FSC_NOWAIT) && !has_other_names(f->inode);
	struct btrfs_key places[NAME_PLACES + 1];
	struct fsc_time now = time_now();
	struct txn_handle h;
	bool changed = false;
	int ret = txn_join(ctx, &dir->subvol->vol->w->txns, 8, TXN_USE_GLOBAL, &h);

	if (ret)
		return ret;
	check_loggable(&h, f->inode);
	name_places(&f->ref, places);
	places[NAME_PLACES] = orphan_key(f->inode->ino);
	ret = tree_prepare(&h.w, &dir->subvol->root, places, NAME_PLACES + leaves);
	if (!ret) {
		changed = true;
		ret = name_remove(&h.w, dir->subvol, &f->ref);
		if (!ret && leaves)
			ret = orphan_add_prepared(&h, dir->subvol, f->inode->ino);
		tree_unlock_write(&dir->subvol->root);
	}
	if (!ret) {
		log_name(&h, LOG_NAME_REMOVED, dir->subvol, &f->ref);
		dir_changed(&h, dir, f->ref.len, -1, now);
		ret = name_lost(&h, f->inode, now, leaves);
	}
	if (ret)
		return end_failed(&h, ret, changed);
	txn_end(&h);
	return 0;
}

/* It is not tried without waiting. */
static int needs_to_wait(struct fsc_ctx *ctx)
{
	if (!(ctx->flags & FSC_NOWAIT))
		return 0;
	ctx->blocked = FSC_BLOCKED_TXN;
	return -EAGAIN;
}

/* A directory without entries; with its lock held, so that none can come. */
static int check_empty(struct fsc_inode *dir)
{
	uint64_t size;

	short_lock(&dir->attr_lock);
	size = dir->attr.size_bytes;
	short_unlock(&dir->attr_lock);
	return size ? -ENOTEMPTY : 0;
}

/*
 * What goes is locked beside the directory that holds it, which is against the order at times:
 * so it is only tried. When another thread holds it, everything is let go, that lock waited for,
 * and all done again (with FSC_NOWAIT: -EAGAIN).
 */
static int wait_for_victim(struct fsc_ctx *ctx, struct fsc_inode *victim)
{
	if (ctx->flags & FSC_NOWAIT) {
		ctx->blocked = FSC_BLOCKED_LOCK;
		return -EAGAIN;
	}
	long_lock_write(&victim->op_lock);
	long_unlock(&victim->op_lock);
	return 0;
}

/*
 * Removes a name, with what it leads to locked, so that nothing is written to it or linked to it
 * meanwhile. -EBUSY: f->inode is locked by another thread.
 */
static int remove_once(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t len,
	bool directory, struct found_name *f)
{
	int ret = lock_dir(ctx, dir);

	if (ret)
		return ret;
	ret = find_name(ctx, dir, name, len, f);
	if (!ret && directory != !!S_ISDIR(f->inode->type))
		ret = directory ? -ENOTDIR : -EISDIR;
	if (!ret && !long_trylock_write(&f->inode->op_lock)) {
		ret = -EBUSY;
	} else if (!ret) {
		ret = directory ? check_empty(f->inode) : 0;
		if (!ret)
			ret = remove_locked(ctx, dir, f);
		long_unlock(&f->inode->op_lock);
	}
	inode_unlock(dir);
	return ret;
}

static int remove_name(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name,
	size_t name_len, bool directory)
{
	int ret = check_change(dir, name, name_len);
	bool again;

	/* The flusher, to which it would be left, has enough to do at times. */
	if (!ret && (ctx->flags & FSC_NOWAIT) && flusher_is_behind(dir->subvol->vol))
		ret = needs_to_wait(ctx);
	again = !ret;

	while (again) {
		struct found_name f = {0};

		ret = remove_once(ctx, dir, name, name_len, directory, &f);
		again = ret == -EBUSY;
		if (again)
			ret = wait_for_victim(ctx, f.inode);
		again = again && !ret;
		fsc_inode_put(f.inode);
	}
	return ret;
}

int fsc_unlink(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len)
{
	return remove_name(ctx, dir, name, name_len, false);
}

int fsc_rmdir(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len)
{
	return remove_name(ctx, dir, name, name_len, true);
}

/* ----------------------------------------------------------------------- rename */

struct rename {
	struct fsc_inode *from_dir, *to_dir;
	struct found_name from;
	struct found_name to; /* inode NULL: the name is free */
};

/* Whether dir is inode or lies below it. */
static int check_not_below(
	struct fsc_ctx *ctx, struct fsc_inode *dir, const struct fsc_inode *inode)
{
	struct fsc_inode *at = dir;
	int ret = 0;

	fsc_inode_ref(at);
	while (!ret) {
		struct fsc_inode *up;

		if (at == inode)
			ret = -EINVAL;
		else if (at->ino == at->subvol->root_dirid)
			break;
		if (!ret)
			ret = fsc_lookup(ctx, at, "..", 2, &up);
		if (!ret) {
			fsc_inode_put(at);
			at = up;
		}
	}
	fsc_inode_put(at);
	return ret;
}

/* Whether what is at the new name can be replaced by what is at the old one. */
static int check_replace(const struct rename *r)
{
	bool from_dir = S_ISDIR(r->from.inode->type), to_dir = S_ISDIR(r->to.inode->type);

	if (from_dir && !to_dir)
		return -ENOTDIR;
	if (!from_dir && to_dir)
		return -EISDIR;
	return to_dir ? check_empty(r->to.inode) : 0;
}

static int rename_items(struct txn_handle *h, const struct rename *r, bool *changed)
{
	struct subvol *sv = r->from_dir->subvol;
	struct btrfs_key places[3 * NAME_PLACES];
	struct name_ref new_name = r->to.ref;
	unsigned n = 2 * NAME_PLACES;
	int ret;

	new_name.ino = r->from.ref.ino;
	new_name.type = r->from.ref.type;
	new_name.index = r->to_dir->next_index;
	name_places(&r->from.ref, places);
	name_places(&new_name, places + NAME_PLACES);
	if (r->to.inode) {
		name_places(&r->to.ref, places + n);
		n += NAME_PLACES;
	}
	ret = tree_prepare(&h->w, &sv->root, places, n);
	if (ret)
		return ret;
	ret = name_check_room(&h->w, sv, &new_name);
	if (!ret) {
		*changed = true;
		if (r->to.inode)
			ret = name_remove(&h->w, sv, &r->to.ref);
		if (!ret)
			ret = name_remove(&h->w, sv, &r->from.ref);
		if (!ret)
			ret = name_add(&h->w, sv, &new_name);
	}
	tree_unlock_write(&sv->root);
	if (!ret && r->to.inode)
		log_name(h, LOG_NAME_REMOVED, sv, &r->to.ref);
	if (!ret) {
		log_name(h, LOG_NAME_REMOVED, sv, &r->from.ref);
		log_name(h, LOG_NAME_ADDED, sv, &new_name);
	}
	return ret;
}

/* The attributes of all who took part. */
static int rename_attrs(struct txn_handle *h, struct rename *r)
{
	struct fsc_time now = time_now();

	r->to_dir->next_index++;
	short_lock(&r->from.inode->attr_lock);
	inode_changed_locked(r->from.inode, now);
	short_unlock(&r->from.inode->attr_lock);
	inode_mark_dirty(h, r->from.inode);
	dir_changed(h, r->from_dir, r->from.ref.len, -1, now);
	if (!r->to.inode) {
		dir_changed(h, r->to_dir, r->to.ref.len, 1, now);
		return 0;
	}
	dir_changed(h, r->to_dir, 0, 1, now);
	return name_lost(h, r->to.inode, now, false);
}

static int rename_locked(struct fsc_ctx *ctx, struct rename *r)
{
	struct txn_handle h;
	bool changed = false;
	uint64_t index;
	int ret = next_index(ctx, r->to_dir, &index);

	if (!ret)
		ret = txn_join(ctx, &r->from_dir->subvol->vol->w->txns, 16, TXN_USE_GLOBAL, &h);
	if (ret)
		return ret;
	check_loggable(&h, r->from.inode);
	if (r->to.inode)
		check_loggable(&h, r->to.inode);
	if (S_ISDIR(r->from.inode->type))
		log_forbid(&h); /* it could end up below what the log does not have */
	ret = rename_items(&h, r, &changed);
	if (!ret)
		ret = rename_attrs(&h, r);
	if (ret)
		return end_failed(&h, ret, changed);
	txn_end(&h);
	return 0;
}

/* Looks at both names, with both directories locked, and renames. */
static int rename_found(struct fsc_ctx *ctx, struct rename *r)
{
	bool victim_locked = false;
	int ret = find_name(ctx, r->from_dir, r->from.ref.name, r->from.ref.len, &r->from);

	if (!ret) {
		ret = find_name(ctx, r->to_dir, r->to.ref.name, r->to.ref.len, &r->to);
		ret = ret == -ENOENT ? 0 : ret;
	}
	if (ret)
		return ret;
	if (r->to.inode == r->from.inode)
		return 0; /* two names of one file: nothing happens */
	if (S_ISDIR(r->from.inode->type) && r->from_dir != r->to_dir)
		ret = check_not_below(ctx, r->to_dir, r->from.inode);
	if (!ret && r->to.inode) {
		/* So that nothing comes into what is about to go. */
		victim_locked =
			r->to.inode != r->from_dir && long_trylock_write(&r->to.inode->op_lock);
		if (!victim_locked)
			ret = r->to.inode == r->from_dir ? -ENOTEMPTY : -EBUSY;
	}
	if (!ret && r->to.inode)
		ret = check_replace(r);
	if (!ret)
		ret = rename_locked(ctx, r);
	if (victim_locked)
		inode_unlock(r->to.inode);
	return ret;
}

static int rename_once(struct fsc_ctx *ctx, struct rename *r)
{
	int ret = lock_two(ctx, r->from_dir, r->to_dir);

	if (ret)
		return ret;
	ret = is_removed(r->from_dir) || is_removed(r->to_dir) ? -ESTALE : rename_found(ctx, r);
	unlock_two(r->from_dir, r->to_dir);
	return ret;
}

/* No two directories move at once: neither could know that it stays out of the other. */
static int lock_moving(struct fsc_ctx *ctx, struct subvol *sv)
{
	if (!(ctx->flags & FSC_NOWAIT)) {
		long_lock_write(&sv->rename_lock);
		return 0;
	}
	if (long_trylock_write(&sv->rename_lock))
		return 0;
	ctx->blocked = FSC_BLOCKED_LOCK;
	return -EAGAIN;
}

int fsc_rename(struct fsc_ctx *ctx, struct fsc_inode *from_dir, const char *from, size_t from_len,
	struct fsc_inode *to_dir, const char *to, size_t to_len)
{
	int ret = check_change(from_dir, from, from_len);
	bool again;

	if (!ret)
		ret = check_change(to_dir, to, to_len);
	if (!ret && from_dir->subvol != to_dir->subvol)
		ret = -EXDEV;
	if (!ret)
		ret = needs_to_wait(ctx);
	if (!ret && from_dir != to_dir)
		ret = lock_moving(ctx, from_dir->subvol);
	if (ret)
		return ret;
	do {
		struct rename r = {.from_dir = from_dir,
			.to_dir = to_dir,
			.from.ref = {.name = from, .len = from_len},
			.to.ref = {.name = to, .len = to_len}};

		ret = rename_once(ctx, &r);
		again = ret == -EBUSY;
		if (again)
			ret = wait_for_victim(ctx, r.to.inode);
		fsc_inode_put(r.from.inode);
		fsc_inode_put(r.to.inode);
	} while (again && !ret);
	if (from_dir != to_dir)
		long_unlock(&from_dir->subvol->rename_lock);
	return ret;
}
