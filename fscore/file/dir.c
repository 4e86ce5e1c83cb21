/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Directories: fsc_lookup(), fsc_readdir(), fsc_dir_last_index() of fscore.h. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "fscore/file/dir_item.h"
#include "fscore/file/inode.h"
#include "fscore/file/subvol.h"
#include "fscore/format/csum.h"

/* What the kernel starts with; entries come after "." and "..". */
#define FIRST_INDEX 2u
#define LAST_INDEX  ((1ull << 62) - 1)

static int check_dir(const struct fsc_inode *dir)
{
	return S_ISDIR(dir->type) ? 0 : -ENOTDIR;
}

/* ------------------------------------------------------------------ lookup */

/* The directory that holds dir, by its (only) name. */
static int lookup_parent(struct fsc_ctx *ctx, struct fsc_inode *dir, struct fsc_inode **out)
{
	struct subvol *sv = dir->subvol;
	struct btrfs_key key = key_make(dir->ino, BTRFS_INODE_REF_KEY, 0);
	struct tree_path path =
		PATH_INIT_LIMIT(key_make(dir->ino, BTRFS_INODE_EXTREF_KEY, UINT64_MAX));
	uint64_t parent = 0;
	int ret;

	if (dir->ino == sv->root_dirid) {
		if (!sv->parent_id) {
			fsc_inode_ref(dir);
			*out = dir;
			return 0;
		}
		parent = sv->parent_dirid;
		ret = subvol_get(ctx, sv->vol, sv->parent_id, &sv);
		return ret ? ret : inode_get(ctx, sv, parent, out);
	}
	ret = tree_search(ctx, &sv->root, &key, &path);
	if (ret < 0)
		return ret;
	if (path_is_at(&path, dir->ino, BTRFS_INODE_REF_KEY)) {
		parent = path_key(&path).offset;
	} else if (path_is_at(&path, dir->ino, BTRFS_INODE_EXTREF_KEY)) {
		const struct btrfs_inode_extref *ref = path_data(&path);

		parent = GET(ref, parent_objectid);
	}
	path_release(&path);
	return parent ? inode_get(ctx, sv, parent, out) : -ENOENT;
}

/* The inode at the location in a directory entry. */
static int follow_entry(struct fsc_ctx *ctx, struct fsc_inode *dir, const struct btrfs_key *at,
	const char *name, size_t name_len, struct fsc_inode **out)
{
	struct subvol *sv = dir->subvol;
	int ret;

	if (at->type == BTRFS_INODE_ITEM_KEY)
		return inode_get(ctx, sv, at->objectid, out);
	ret = subvol_check_ref(ctx, sv, dir->ino, name, name_len, at->objectid);
	if (ret == -ENOENT)
		return inode_get(ctx, sv, FSC_INO_STUB, out);
	if (!ret)
		ret = subvol_get(ctx, sv->vol, at->objectid, &sv);
	return ret ? ret : inode_get(ctx, sv, sv->root_dirid, out);
}

int fsc_lookup(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t name_len,
	struct fsc_inode **out)
{
	struct tree_path path = PATH_INIT;
	const struct btrfs_dir_item *di = NULL;
	struct btrfs_key key;
	int ret = check_dir(dir);

	if (ret)
		return ret;
	if (name_len == 0)
		return -ENOENT;
	if (name_len > FSC_NAME_MAX)
		return -ENAMETOOLONG;
	if (name_len == 2 && !memcmp(name, "..", 2))
		return lookup_parent(ctx, dir, out);
	if (name_len == 1 && name[0] == '.') {
		fsc_inode_ref(dir);
		*out = dir;
		return 0;
	}
	key = key_make(dir->ino, BTRFS_DIR_ITEM_KEY, name_hash(name, name_len));
	ret = tree_lookup(ctx, &dir->subvol->root, &key, &path);
	if (ret < 0)
		return ret;
	if (ret == 0)
		di = dir_item_find(path_data(&path), path_data_bytes(&path), name, name_len);
	if (di)
		key = key_from_disk(&di->location);
	path_release(&path);
	return di ? follow_entry(ctx, dir, &key, name, name_len, out) : -ENOENT;
}

/* ----------------------------------------------------------------- readdir */

struct listing {
	struct fsc_inode *dir;
	uint64_t from, to; /* from: the first that has not been delivered */
	unsigned flags;
	fsc_dirent_fn fn;
	void *arg;
	unsigned n_delivered;
	bool stopped;		 /* fn had no room */
	bool lacks_block;	 /* the attributes are in a block that is not in memory */
	uint64_t looked_for;	 /* the inode whose attributes those are */
	uint64_t unreadable;	 /* the inode whose attributes can't be read */
	struct tree_path inodes; /* where the attributes were found last */

	/* Whether the entry at this index leads to a subvolume: known when lacks_ref is false. */
	bool lacks_ref, is_stub;
	uint64_t ref_index, ref_child;
	size_t ref_name_len;
	char ref_name[FSC_NAME_MAX];
};

static uint8_t dt_of(uint8_t btrfs_type)
{
	static const uint8_t types[] = {
		[BTRFS_FT_UNKNOWN] = DT_UNKNOWN,
		[BTRFS_FT_REG_FILE] = DT_REG,
		[BTRFS_FT_DIR] = DT_DIR,
		[BTRFS_FT_CHRDEV] = DT_CHR,
		[BTRFS_FT_BLKDEV] = DT_BLK,
		[BTRFS_FT_FIFO] = DT_FIFO,
		[BTRFS_FT_SOCK] = DT_SOCK,
		[BTRFS_FT_SYMLINK] = DT_LNK,
	};

	btrfs_type &= (uint8_t)~BTRFS_FT_ENCRYPTED;
	return btrfs_type < sizeof(types) ? types[btrfs_type] : DT_UNKNOWN;
}

/*
 * The attributes of an entry of the same subvolume. 0; 1: the entry leads nowhere;
 * -EAGAIN: l->inodes needs a block that is not in memory; or an error.
 */
static int peek_attr(struct listing *l, uint64_t ino, struct fsc_attr *attr)
{
	struct btrfs_key key = key_make(ino, BTRFS_INODE_ITEM_KEY, 0);
	int ret;

	/* Items are written at commits. */
	if (l->dir->subvol->vol->w && inode_peek_attr(l->dir->subvol, ino, attr))
		return 0;
	l->looked_for = ino;
	if (ino == l->unreadable)
		return 1;
	ret = tree_peek(&l->dir->subvol->root, &key, &l->inodes);

	if (ret == 0)
		inode_item_attr(l->dir->subvol, ino, path_data(&l->inodes), attr);
	return ret;
}

/* Another tree knows, and is searched when this one is not locked. -EAGAIN: do that first. */
static int peek_ref(struct listing *l, const struct fsc_dirent *e, uint64_t child)
{
	if (l->ref_index == e->index)
		return 0;
	l->lacks_ref = true;
	l->ref_index = e->index;
	l->ref_child = child;
	l->ref_name_len = e->name_len;
	memcpy(l->ref_name, e->name, e->name_len);
	return -EAGAIN;
}

/* What peek_ref() lacked. As in follow_entry(), but an entry that can't be followed is listed. */
static int find_ref(struct fsc_ctx *ctx, struct listing *l)
{
	int ret = subvol_check_ref(
		ctx, l->dir->subvol, l->dir->ino, l->ref_name, l->ref_name_len, l->ref_child);

	l->is_stub = ret == -ENOENT;
	if (!ret || l->is_stub || ret == -EUCLEAN || ret == -EIO)
		return 0;
	l->ref_index = 0;
	return ret;
}

/*
 * A subvolume, or in a snapshot that it did not come along into its stand-in, which is
 * of this subvolume. As peek_ref().
 */
static int see_subvol(
	struct listing *l, uint64_t child, struct fsc_dirent *e, struct fsc_attr *attr)
{
	int ret = peek_ref(l, e, child);

	if (ret)
		return ret;
	if (!l->is_stub) {
		e->subvol = child;
		return 0;
	}
	e->ino = FSC_INO_STUB;
	inode_stub_attr(l->dir->subvol, attr);
	if (l->flags & FSC_READDIR_ATTR)
		e->attr = attr;
	return 0;
}

/* The attributes of an inode of this subvolume, if they are asked for. As peek_attr(). */
static int see_inode(struct listing *l, struct fsc_dirent *e, struct fsc_attr *attr)
{
	int ret = l->flags & FSC_READDIR_ATTR ? peek_attr(l, e->ino, attr) : 1;

	if (ret == -EAGAIN) {
		l->lacks_block = true;
		return ret;
	}
	/* An entry that can't be read does not hide the others. */
	if (ret == 0)
		e->attr = attr;
	return 0;
}

/* Delivers the entry that the path is at. 0, or -EAGAIN: what l lacks is to be found first. */
static int deliver(struct listing *l, const struct tree_path *path)
{
	const struct btrfs_dir_item *di = path_data(path);
	struct btrfs_key at = key_from_disk(&di->location);
	struct fsc_attr attr;
	struct fsc_dirent entry = {
		.name = dir_item_name(di),
		.name_len = GET(di, name_len),
		.index = path_key(path).offset,
		.subvol = l->dir->subvol->id,
		.ino = at.objectid,
		.type = dt_of(di->type),
	};
	int ret = at.type == BTRFS_ROOT_ITEM_KEY ? see_subvol(l, at.objectid, &entry, &attr)
						 : see_inode(l, &entry, &attr);

	if (ret)
		return ret;
	if (!l->fn(l->arg, &entry)) {
		l->stopped = true;
		return 0;
	}
	l->n_delivered++;
	l->from = entry.index + 1;
	return 0;
}

/* Lists with what is in memory. 0: l->stopped, or at the end; -EAGAIN as deliver(). */
static int list_some(struct fsc_ctx *ctx, struct listing *l)
{
	struct btrfs_key key = key_make(l->dir->ino, BTRFS_DIR_INDEX_KEY, l->from);
	struct tree_path path = PATH_INIT_LIMIT(key_make(l->dir->ino, BTRFS_DIR_INDEX_KEY, l->to));
	int ret = tree_search(ctx, &l->dir->subvol->root, &key, &path);

	while (ret >= 0 && path_is_at(&path, l->dir->ino, BTRFS_DIR_INDEX_KEY) &&
		path_key(&path).offset <= l->to) {
		ret = deliver(l, &path);
		if (ret < 0 || l->stopped)
			break;
		/* tree_next() may unlock: what was found under the lock is then void. */
		if (path.slot[0] + 1 >= block_nritems(path.block[0]->data))
			path_release(&l->inodes);
		ret = tree_next(ctx, &path);
	}
	path_release(&path);
	return ret < 0 ? ret : 0;
}

int fsc_readdir(struct fsc_ctx *ctx, struct fsc_inode *dir, uint64_t from, uint64_t to,
	unsigned flags, fsc_dirent_fn fn, void *arg, bool *eof)
{
	struct listing l = {
		.dir = dir,
		.from = from < FIRST_INDEX ? FIRST_INDEX : from,
		.to = to < LAST_INDEX ? to : LAST_INDEX,
		.flags = flags,
		.fn = fn,
		.arg = arg,
		.inodes = PATH_INIT,
	};
	int ret = check_dir(dir);

	*eof = false;
	if (ret)
		return ret;
	if (l.from > l.to || dir->ino == FSC_INO_STUB) {
		*eof = true;
		return 0;
	}
	do {
		l.lacks_block = l.lacks_ref = false;
		ret = list_some(ctx, &l);
		if (l.lacks_block)
			ret = tree_read_needed(ctx, &l.inodes);
		else if (l.lacks_ref)
			ret = find_ref(ctx, &l);
		path_release(&l.inodes);
		if (l.lacks_block && (ret == -EUCLEAN || ret == -EIO)) {
			/* The entry is listed without attributes. */
			l.unreadable = l.looked_for;
			ret = 0;
		}
	} while (!ret && (l.lacks_block || l.lacks_ref));
	if (ret == -EAGAIN && l.n_delivered)
		return 0;
	if (!ret)
		*eof = !l.stopped;
	return ret;
}

int fsc_dir_last_index(struct fsc_ctx *ctx, struct fsc_inode *dir, uint64_t *out)
{
	struct btrfs_key key = key_make(dir->ino, BTRFS_DIR_INDEX_KEY, UINT64_MAX);
	struct tree_path path = PATH_INIT;
	int ret = check_dir(dir);

	*out = FIRST_INDEX - 1;
	if (ret || dir->ino == FSC_INO_STUB)
		return ret;
	ret = tree_search_before(ctx, &dir->subvol->root, &key, &path);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (path_is_at(&path, dir->ino, BTRFS_DIR_INDEX_KEY))
		*out = path_key(&path).offset;
	path_release(&path);
	return 0;
}
