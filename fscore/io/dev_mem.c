/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A device in memory. It has no lock: as on a disk, what two requests for the
 * same place do at the same time is up to those who made them.
 */
#include "fscore/io/dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct dev_mem {
	struct dev dev;
	uint8_t *data;
};

static void copy(const struct dev_mem *m, const struct io_req *req)
{
	uint8_t *at = m->data + req->physical;

	if (req->op == IO_DISCARD)
		memset(at, 0, req->len_bytes);
	for (unsigned i = 0; i < req->n_iov; i++) {
		const struct iovec *iov = &req->iov[i];

		if (req->op == IO_READ)
			memcpy(iov->iov_base, at, iov->iov_len);
		else
			memcpy(at, iov->iov_base, iov->iov_len);
		at += iov->iov_len;
	}
}

static void mem_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req)
{
	(void)t;
	if (req->op != IO_FLUSH)
		copy(container_of(dev, struct dev_mem, dev), req);
	dev_complete_later(req, 0);
}

static void mem_destroy(struct dev *dev)
{
	struct dev_mem *m = container_of(dev, struct dev_mem, dev);

	free(m->data);
	free(m);
}

static const struct dev_ops mem_ops = {
	.submit = mem_submit,
	.destroy = mem_destroy,
};

/* Into memory that is all zero; what is zero in the image, too, isn't touched. */
static void fill(uint8_t *data, const uint8_t *image, size_t bytes)
{
	static const uint8_t zero[4096];

	for (size_t at = 0, n; at < bytes; at += n) {
		n = MIN(bytes - at, sizeof(zero));
		if (memcmp(image + at, zero, n))
			memcpy(data + at, image + at, n);
	}
}

int dev_mem_create(const void *image, size_t size_bytes, struct dev **out)
{
	struct dev_mem *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	/* What is never written takes no memory. */
	m->data = calloc(1, MAX(size_bytes, 1));
	if (!m->data) {
		free(m);
		return -ENOMEM;
	}
	if (image)
		fill(m->data, image, size_bytes);
	m->dev.ops = &mem_ops;
	m->dev.size_bytes = size_bytes;
	m->dev.align_bytes = 512;
	*out = &m->dev;
	return 0;
}

void *dev_mem_data(struct dev *dev)
{
	return container_of(dev, struct dev_mem, dev)->data;
}
