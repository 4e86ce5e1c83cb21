/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The items that a name consists of: DIR_ITEM and DIR_INDEX in the directory, INODE_REF (or,
 * when that is full, INODE_EXTREF) at the inode. These work on a tree that is locked, with the
 * places prepared (tree_prepare()); name_places() says which.
 */
#ifndef FSCORE_FILE_NAME_ITEMS_H
#define FSCORE_FILE_NAME_ITEMS_H

#include "fscore/file/inode.h"

struct name_ref {
	uint64_t dir;
	const char *name;
	size_t len;
	uint64_t ino; /* what the name leads to */
	uint64_t index;
	uint8_t type; /* BTRFS_FT_* */
};

#define NAME_PLACES 4u

/* The places that adding or removing this name changes. */
void name_places(const struct name_ref *n, struct btrfs_key places[NAME_PLACES]);

/*
 * Whether the name can be added: 0; -EOVERFLOW: the item of its hash is full; -EMLINK: there is
 * no room for another back reference.
 */
int name_check_room(struct tree_writer *w, struct subvol *sv, const struct name_ref *n);

/* The name is not there, and there is room. An error aborts the transaction. */
int name_add(struct tree_writer *w, struct subvol *sv, const struct name_ref *n);

/* The name is there; index is looked up. -EUCLEAN: a part of it is missing. */
int name_remove(struct tree_writer *w, struct subvol *sv, const struct name_ref *n);

/*
 * The index of a name in its directory, from the back reference. It works without locks held.
 * -ENOENT.
 */
int name_find_index(
	struct fsc_ctx *ctx, struct subvol *sv, const struct name_ref *n, uint64_t *index);

/* Looks a name up: its location and type. -ENOENT. */
int name_lookup(struct fsc_ctx *ctx, struct fsc_inode *dir, const char *name, size_t len,
	struct btrfs_key *location, uint8_t *type);

#endif
