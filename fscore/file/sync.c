/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Durability without holding a thread: fsc_sync_inode(), fsc_sync_names(), fsc_sync_all().
 *
 *   dirty pages? --yes--> wait for the flusher (inode->syncs) --> wait for the transaction --> done
 *                --no-------------------------------------------->
 */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fscore/file/writeback.h"

/* In fsc_sync.impl. */
struct inode_sync {
	struct txn_waiter waiter;
	struct inode_sync *next;
	struct fsc_sync *sync;
};

_Static_assert(sizeof(struct inode_sync) <= sizeof(((struct fsc_sync *)0)->impl), "fsc_sync.impl");

static struct inode_sync *impl_of(struct fsc_sync *sync)
{
	return (struct inode_sync *)(void *)sync->impl;
}

static void on_durable(struct fsc_msg *msg)
{
	struct inode_sync *is = container_of(msg, struct inode_sync, waiter.msg);
	struct fsc_sync *sync = is->sync;

	sync->status = is->waiter.status;
	sync->done(sync);
}

static struct inode_sync *sync_init(struct fsc_sync *sync)
{
	struct inode_sync *is = impl_of(sync);

	*is = (struct inode_sync){
		.waiter = {.thread = sync->thread, .msg.fn = on_durable},
		.sync = sync,
	};
	return is;
}

/* Ends a sync that others have to hear of. */
static void end_sync(struct inode_sync *is, int status)
{
	is->waiter.status = status;
	fsc_thread_post(is->waiter.thread, &is->waiter.msg);
}

static uint64_t last_txn(struct fsc_inode *inode)
{
	uint64_t id;

	short_lock(&inode->attr_lock);
	id = inode->last_txn;
	short_unlock(&inode->attr_lock);
	return id;
}

void syncs_continue(struct fsc_inode *inode, struct inode_sync *syncs, int error)
{
	struct txns *txns = &inode->subvol->vol->w->txns;

	while (syncs) {
		struct inode_sync *is = syncs;

		syncs = is->next;
		if (error)
			end_sync(is, error);
		else if (!txn_wait_logged(txns, last_txn(inode), &is->waiter))
			end_sync(is, 0);
	}
}

int fsc_sync_inode(struct fsc_inode *inode, struct fsc_sync *sync)
{
	struct inode_sync *is;
	bool busy;
	int error;

	if (!inode->subvol->vol->w)
		return 0;
	if (!fs_writable(inode->subvol->vol))
		return -EIO;
	is = sync_init(sync);
	short_lock(&inode->owner.lock);
	busy = inode->n_dirty || inode->n_writing;
	error = inode->write_error;
	if (busy) {
		is->next = inode->syncs;
		inode->syncs = is;
	} else {
		inode->write_error = 0;
	}
	short_unlock(&inode->owner.lock);
	if (busy) {
		flusher_note(inode, true);
		return -EINPROGRESS;
	}
	if (error)
		return error;
	return txn_wait_logged(&inode->subvol->vol->w->txns, last_txn(inode), &is->waiter)
		? -EINPROGRESS
		: 0;
}

int fsc_sync_names(struct fsc_volume *vol, struct fsc_sync *sync)
{
	struct inode_sync *is;
	uint64_t id;

	if (!vol->w)
		return 0;
	/* What was changed in memory before an abort never comes to the disk. */
	if (!fs_writable(vol))
		return -EIO;
	is = sync_init(sync);
	id = txn_last_changed(&vol->w->txns);
	return id && txn_wait_logged(&vol->w->txns, id, &is->waiter) ? -EINPROGRESS : 0;
}

int fsc_sync_all(struct fsc_ctx *ctx, struct fsc_volume *vol)
{
	int lost, ret;

	if (!vol->w)
		return 0;
	flusher_write_all(ctx, vol);
	if (!fs_writable(vol))
		return -EIO;
	lost = atomic_exchange(&vol->w->lost_data, 0);
	ret = txn_commit(ctx, &vol->w->txns);
	return ret ? ret : lost;
}
