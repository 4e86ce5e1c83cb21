/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing a frozen transaction: its blocks, a flush, the superblocks. The first of these is
 * durable when it is written; the copies become so with the next flush.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/tree/leaf.h"
#include "fscore/txn/txn_private.h"

/* How much is on its way to the device at once. */
#define MAX_IN_FLIGHT 64u

/* Neighbouring blocks that go to the disk together, to one copy. */
struct write_run {
	struct io_req req;
	struct write_out *wo;
	struct iovec iov[IO_MAX_IOV];
};

struct write_out {
	struct fsc_ctx *ctx;
	struct txns *txns;
	unsigned in_flight;
	int error; /* the first */
};

static void run_done(struct io_req *req)
{
	struct write_run *run = container_of(req, struct write_run, req);

	if (req->status && !run->wo->error)
		run->wo->error = req->status;
	run->wo->in_flight--;
	free(run);
}

static void wait_below(struct write_out *wo, unsigned max)
{
	while (wo->in_flight > max)
		fsc_thread_wait(wo->ctx->thread);
}

static int submit_run(
	struct write_out *wo, struct mblock *const *blocks, unsigned n, uint64_t physical)
{
	uint32_t node_bytes = wo->txns->config.geo->node_bytes;
	struct write_run *run = calloc(1, sizeof(*run));

	if (!run)
		return -ENOMEM;
	run->wo = wo;
	for (unsigned i = 0; i < n; i++)
		run->iov[i] = (struct iovec){blocks[i]->data, node_bytes};
	run->req.op = IO_WRITE;
	run->req.physical = physical;
	run->req.iov = run->iov;
	run->req.n_iov = n;
	run->req.len_bytes = (size_t)n * node_bytes;
	run->req.done = run_done;
	wo->in_flight++;
	dev_submit(wo->txns->config.dev, wo->ctx->thread, &run->req);
	wait_below(wo, MAX_IN_FLIGHT);
	return 0;
}

static void seal(const struct volume_geometry *geo, struct mblock *b)
{
	struct btrfs_header *h = block_header_mut(b->data);

	/* Others may copy the block meanwhile; they make a header of their own. */
	memset(h->csum, 0, sizeof(h->csum));
	csum_compute(geo->csum_type, b->data + BTRFS_CSUM_SIZE, geo->node_bytes - BTRFS_CSUM_SIZE,
		h->csum);
}

/* How many of the blocks, ascending, lie in one piece from the first on. */
static unsigned run_length(
	const struct write_out *wo, struct mblock *const *blocks, size_t n, uint64_t room_bytes)
{
	uint32_t node_bytes = wo->txns->config.geo->node_bytes;
	unsigned len = 1;

	while (len < n && len < IO_MAX_IOV && (len + 1) * (uint64_t)node_bytes <= room_bytes &&
		blocks[len]->logical == blocks[len - 1]->logical + node_bytes)
		len++;
	return len;
}

static int write_blocks(struct write_out *wo, struct mblock **blocks, size_t n)
{
	for (size_t i = 0; i < n;) {
		struct chunk_place place;
		unsigned len;
		int ret = chunk_map_lookup(wo->txns->config.chunks, blocks[i]->logical, &place);

		if (ret)
			return -EUCLEAN;
		len = run_length(wo, blocks + i, n - i, place.length_bytes);
		for (unsigned k = 0; k < len; k++)
			seal(wo->txns->config.geo, blocks[i + k]);
		for (unsigned m = 0; m < place.n_mirrors && !ret; m++)
			ret = submit_run(wo, blocks + i, len, place.physical[m]);
		if (ret)
			return ret;
		i += len;
	}
	return 0;
}

static int by_logical(const void *a, const void *b)
{
	uint64_t x = (*(struct mblock *const *)a)->logical,
		 y = (*(struct mblock *const *)b)->logical;

	return x < y ? -1 : x > y;
}

/* The blocks that are still in use, ascending; the others are let go of. */
static size_t live_blocks(struct mblock **blocks, size_t n_blocks)
{
	size_t n = 0;

	for (size_t i = 0; i < n_blocks; i++) {
		if (atomic_load_explicit(&blocks[i]->doomed, memory_order_acquire))
			meta_put(blocks[i]);
		else
			blocks[n++] = blocks[i];
	}
	if (n)
		qsort(blocks, n, sizeof(*blocks), by_logical);
	return n;
}

static int flush(struct write_out *wo)
{
	return dev_rw_sync(wo->txns->config.dev, wo->ctx->thread, IO_FLUSH, 0, NULL, 0);
}

/* The copies of the superblock on their way, all at once. */
struct super_write {
	struct io_req req;
	struct iovec iov;
	struct write_out *wo;
};

static void super_done(struct io_req *req)
{
	struct super_write *sw = container_of(req, struct super_write, req);

	if (req->status && !sw->wo->error)
		sw->wo->error = req->status;
	sw->wo->in_flight--;
}

/* How many copies the device has room for. */
static unsigned super_copies(const struct txn_config *c, const struct btrfs_super_block *super)
{
	uint64_t end = MIN(c->dev->size_bytes, GET(&super->dev_item, total_bytes));
	unsigned n = 0;

	while (n < BTRFS_SUPER_MIRRORS && super_mirror_physical(n) + sizeof(*super) <= end)
		n++;
	return n;
}

static int write_supers(struct write_out *wo, const struct btrfs_super_block *super)
{
	const struct txn_config *c = &wo->txns->config;
	struct super_write copies[BTRFS_SUPER_MIRRORS];
	unsigned n = super_copies(c, super);
	struct btrfs_super_block *sb = aligned_alloc(4096, n * sizeof(*sb));

	if (!sb)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		struct super_write *sw = &copies[i];

		sb[i] = *super;
		PUT(&sb[i], bytenr, super_mirror_physical(i));
		memset(sb[i].csum, 0, sizeof(sb[i].csum));
		csum_compute(c->geo->csum_type, (char *)&sb[i] + BTRFS_CSUM_SIZE,
			sizeof(*sb) - BTRFS_CSUM_SIZE, sb[i].csum);
		*sw = (struct super_write){
			.req = {.op = IO_WRITE,
				.physical = super_mirror_physical(i),
				.n_iov = 1,
				.len_bytes = sizeof(*sb),
				.fua = i == 0,
				.done = super_done},
			.iov = {&sb[i], sizeof(*sb)},
			.wo = wo,
		};
		sw->req.iov = &sw->iov;
		wo->in_flight++;
		dev_submit(c->dev, wo->ctx->thread, &sw->req);
	}
	wait_below(wo, 0);
	free(sb);
	return wo->error;
}

int txn_write_blocks(struct fsc_ctx *ctx, struct txns *txns, struct mblock **blocks, size_t *n,
	const struct btrfs_super_block *super)
{
	struct write_out wo = {.ctx = ctx, .txns = txns};
	int ret;

	*n = live_blocks(blocks, *n);
	ret = write_blocks(&wo, blocks, *n);
	wait_below(&wo, 0);
	if (!ret)
		ret = wo.error;
	if (!ret) {
		ret = flush(&wo);
		/* Nobody knows what the device has lost: data, too, which no other flush brings back. */
		if (ret)
			txn_set_error(txns, ret);
	}
	if (!ret)
		ret = write_supers(&wo, super);
	return ret;
}

int txn_write_out(struct fsc_ctx *ctx, struct txns *txns, struct txn *txn,
	const struct btrfs_super_block *super)
{
	/* The list does not change any more; others look at its length. */
	size_t n = txn->n_dirty;
	int ret = txn_write_blocks(ctx, txns, txn->dirty, &n, super);

	short_lock(&txns->lock);
	txn->n_dirty = n;
	short_unlock(&txns->lock);
	if (ret)
		return ret;
	/* They can be evicted from now on: those who wait for room get it. */
	for (size_t i = 0; i < n; i++) {
		meta_clean(txns->config.meta, txn->dirty[i]);
		meta_put(txn->dirty[i]);
	}
	short_lock(&txns->lock);
	txn->n_dirty = 0;
	txns->stats.blocks_written += n;
	short_unlock(&txns->lock);
	return 0;
}
