/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/file/log_note.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static struct log_note *create(
	struct txn_handle *h, enum log_kind kind, struct fsc_inode *inode, uint32_t bytes)
{
	return log_note_create(h, kind, &inode->subvol->root, inode->ino, bytes);
}

/* attr_lock is held: the order of versions is that of what they say. */
static void number_locked(struct fsc_inode *inode, struct log_note *note)
{
	note->slot = &inode->log;
	note->version = ++inode->log.version;
}

void log_inode(struct txn_handle *h, struct fsc_inode *inode, unsigned flags)
{
	struct log_note *note = create(h, LOG_INODE, inode, 0);
	bool unlinked, prealloc;

	if (!note)
		return;
	note->flags = flags;
	short_lock(&inode->attr_lock);
	unlinked = inode->unlinked;
	prealloc = inode->flags & BTRFS_INODE_PREALLOC;
	if (!unlinked) {
		inode_to_item(inode, h->txn->id, &note->item);
		number_locked(inode, note);
	}
	short_unlock(&inode->attr_lock);
	/* What is allocated behind the end would be lost, and what was written in place not known. */
	if (prealloc)
		log_forbid(h);
	if (unlinked || prealloc)
		free(note);
	else
		log_note_add(h, note);
}

void log_xattrs(struct txn_handle *h, struct fsc_inode *inode)
{
	struct log_note *note = create(h, LOG_XATTRS, inode, 0);

	if (note)
		log_note_add(h, note);
}

void log_gone(struct txn_handle *h, struct fsc_inode *inode)
{
	struct log_note *note = create(h, LOG_GONE, inode, 0);

	if (!note)
		return;
	short_lock(&inode->attr_lock);
	number_locked(inode, note);
	short_unlock(&inode->attr_lock);
	log_note_add(h, note);
}

void log_name(struct txn_handle *h, enum log_kind kind, struct subvol *sv, const struct name_ref *n)
{
	struct log_note *note = log_note_create(h, kind, &sv->root, n->ino, (uint32_t)n->len);

	if (!note)
		return;
	note->name.dir = n->dir;
	note->name.index = n->index;
	note->name.type = n->type;
	memcpy(note->data, n->name, n->len);
	log_note_add(h, note);
}

void log_extent(struct txn_handle *h, struct fsc_inode *inode, uint64_t start, uint64_t end,
	const void *item, uint32_t item_bytes, const void *more, uint32_t more_bytes)
{
	struct log_note *note = create(h, LOG_EXTENT, inode, item_bytes + more_bytes);

	if (!note)
		return;
	note->range.start = start;
	note->range.end = end;
	memcpy(note->data, item, item_bytes);
	if (more_bytes)
		memcpy(note->data + item_bytes, more, more_bytes);
	log_note_add(h, note);
}

void log_csums(struct txn_handle *h, struct fsc_inode *inode, uint64_t logical, const void *csums,
	unsigned n)
{
	uint32_t bytes = n * inode->subvol->vol->geo.csum_bytes;
	struct log_note *note = create(h, LOG_CSUMS, inode, bytes);

	if (!note)
		return;
	note->csums.logical = logical;
	note->csums.n = n;
	memcpy(note->data, csums, bytes);
	log_note_add(h, note);
}
