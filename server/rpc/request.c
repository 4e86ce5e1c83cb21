/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/rpc/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "server/rpc/dispatch.h"

/* What is kept for the next burst: about 2 MiB a loop each. */
#define FREE_REQUESTS_MAX 1024u
#define FREE_BODIES_MAX	  32u

/* ---------------------------------------------------------------- bodies */

static void *pool_body(struct rpc_loop *loop)
{
	struct free_body *body = loop->free_bodies;

	if (!body)
		return malloc(REQUEST_BODY_BYTES);
	loop->free_bodies = body->next;
	loop->n_free_bodies--;
	return body;
}

static void free_body(struct request *req)
{
	struct rpc_loop *loop = req->loop;

	if (!req->body)
		return;
	if (req->body_capacity == REQUEST_BODY_BYTES && loop->n_free_bodies < FREE_BODIES_MAX) {
		struct free_body *body = (struct free_body *)(void *)req->body;

		body->next = loop->free_bodies;
		loop->free_bodies = body;
		loop->n_free_bodies++;
	} else {
		free(req->body);
	}
	req->body = NULL;
}

uint8_t *request_body(struct request *req, size_t size)
{
	bool on_loop = req->thread == &req->loop->thread;

	if (req->body && req->body_capacity >= size)
		return req->body;
	free(req->body);
	req->body_capacity = MAX(size, REQUEST_BODY_BYTES);
	req->body = on_loop && req->body_capacity == REQUEST_BODY_BYTES
		? pool_body(req->loop)
		: malloc(req->body_capacity);
	return req->body;
}

/* -------------------------------------------------------------- requests */

struct request *request_get(struct rpc_peer *peer)
{
	struct rpc_loop *loop = peer->loop;
	struct request *req = loop->free;

	if (req) {
		loop->free = req->next;
		loop->n_free--;
	} else {
		req = malloc(sizeof(*req));
		if (!req)
			return NULL;
	}
	req->state = REQUEST_RECEIVED;
	req->peer = peer;
	req->loop = loop;
	req->start_ns = loop->now_ns;
	req->charge = 0;
	req->object[0].inode = req->object[1].inode = NULL;
	req->read_ended = req->args_lost = false;
	req->durable = DURABLE_NOTHING;
	req->replay = NULL;
	req->rd.impl = NULL;
	req->rd.iov = NULL;
	req->rd.n_iov = 0;
	req->body = NULL;
	req->body_len = 0;
	req->tenant = 0;
	req->record.data = NULL;
	peer->n_requests++;
	loop->n_requests++;
	return req;
}

void request_reset(struct request *req)
{
	for (unsigned i = 0; i < ARRAY_SIZE(req->object); i++) {
		fsc_inode_put(req->object[i].inode);
		req->object[i].inode = NULL;
	}
	if (req->rd.impl)
		fsc_read_release(&req->rd);
	req->rd.impl = NULL;
	req->read_ended = false;
	req->durable = DURABLE_NOTHING;
	req->body_len = 0;
}

void request_drop_record(struct request *req)
{
	if (req->record.data != req->record.small)
		free(req->record.data);
	req->record.data = NULL;
}

void request_put(struct request *req)
{
	struct rpc_loop *loop = req->loop;
	struct rpc_peer *peer = req->peer;

	request_reset(req);
	free_body(req);
	request_drop_record(req);
	peer->n_requests--;
	peer->request_bytes -= req->charge;
	loop->n_requests--;
	loop->request_bytes -= req->charge;
	req->state = REQUEST_FREE;
	if (loop->n_free >= FREE_REQUESTS_MAX) {
		free(req);
		return;
	}
	req->next = loop->free;
	loop->free = req;
	loop->n_free++;
}
