/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A device that lets requests fail. Each request that goes on to the inner device
 * gets a request of its own there, so that these devices can be stacked.
 */
#include "fscore/io/dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/util.h"

struct rule {
	struct rule *next;
	struct fault_rule r; /* skip and count count down */
	bool counted;	     /* count was not 0: unlimited */
};

struct dev_fault {
	struct dev dev;
	struct dev *inner;
	_Atomic uint64_t seen[IO_OPS];

	struct short_lock lock; /* RANK_DEVICE; guards the rest */
	struct rule *rules;
	struct fsc_msg *held; /* the msg of the requests */
	struct fsc_msg **held_last;
};

/* A request on its way through the inner device. */
struct inner_req {
	struct io_req req;
	struct io_req *outer;
	struct fault_rule rule; /* what to do when it is back */
	bool have_rule;
	struct iovec iov[]; /* for a torn one */
};

static struct dev_fault *fault_of(struct dev *dev)
{
	return container_of(dev, struct dev_fault, dev);
}

/* ------------------------------------------------------------- requests */

static void invert_byte(const struct io_req *req, size_t at)
{
	for (unsigned i = 0; i < req->n_iov; i++) {
		if (at < req->iov[i].iov_len) {
			((uint8_t *)req->iov[i].iov_base)[at] ^= 0xff;
			return;
		}
		at -= req->iov[i].iov_len;
	}
}

static void inner_done(struct io_req *req)
{
	struct inner_req *ir = container_of(req, struct inner_req, req);
	struct io_req *outer = ir->outer;
	int status = req->status;

	if (ir->have_rule && status == 0) {
		if (ir->rule.action == FAULT_TORN)
			status = ir->rule.error;
		if (ir->rule.action == FAULT_CORRUPT && req->op == IO_READ)
			invert_byte(outer, ir->rule.bytes);
	}
	free(ir);
	dev_complete(outer, status);
}

/* Only the first bytes, of which there are fewer than in the whole. */
static void cut(struct inner_req *ir, size_t bytes)
{
	struct io_req *req = &ir->req;
	unsigned n = 0;

	req->len_bytes = bytes;
	for (; bytes; n++) {
		ir->iov[n] = ir->outer->iov[n];
		ir->iov[n].iov_len = MIN(ir->iov[n].iov_len, bytes);
		bytes -= ir->iov[n].iov_len;
	}
	req->iov = ir->iov;
	req->n_iov = n;
}

/* rule: TORN, CORRUPT, or NULL. */
static void pass_on(struct io_req *outer, const struct fault_rule *rule)
{
	struct inner_req *ir = calloc(1, sizeof(*ir) + outer->n_iov * sizeof(ir->iov[0]));

	if (!ir) {
		dev_complete_later(outer, -ENOMEM);
		return;
	}
	ir->outer = outer;
	ir->req = (struct io_req){
		.op = outer->op,
		.physical = outer->physical,
		.iov = outer->iov,
		.n_iov = outer->n_iov,
		.len_bytes = outer->len_bytes,
		.fua = outer->fua,
		.done = inner_done,
	};
	if (rule) {
		ir->rule = *rule;
		ir->have_rule = true;
		if (rule->action == FAULT_TORN && rule->bytes < outer->len_bytes)
			cut(ir, rule->bytes);
	}
	dev_submit(fault_of(outer->dev)->inner, outer->thread, &ir->req);
}

static void run_held(struct fsc_msg *msg)
{
	pass_on(container_of(msg, struct io_req, msg), NULL);
}

static bool matches(const struct fault_rule *r, const struct io_req *req)
{
	if (!r->op[req->op])
		return false;
	if (!r->first && !r->end)
		return true;
	return req->op != IO_FLUSH && req->physical < r->end &&
		req->physical + req->len_bytes > r->first;
}

/* The first rule that wants the request, or NULL; holding the lock. */
static const struct fault_rule *find_rule(struct dev_fault *f, const struct io_req *req)
{
	for (struct rule *rule = f->rules; rule; rule = rule->next) {
		struct fault_rule *r = &rule->r;

		if (!matches(r, req))
			continue;
		if (r->skip) {
			r->skip--;
			continue;
		}
		if (rule->counted && !r->count)
			continue;
		if (rule->counted)
			r->count--;
		return r;
	}
	return NULL;
}

static void hold(struct dev_fault *f, struct io_req *req)
{
	req->msg.next = NULL;
	*f->held_last = &req->msg;
	f->held_last = &req->msg.next;
}

static void fault_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req)
{
	struct dev_fault *f = fault_of(dev);
	const struct fault_rule *found;
	struct fault_rule rule;

	(void)t;
	atomic_fetch_add(&f->seen[req->op], 1);
	short_lock(&f->lock);
	found = find_rule(f, req);
	if (found)
		rule = *found;
	if (found && rule.action == FAULT_HOLD)
		hold(f, req);
	short_unlock(&f->lock);
	if (!found)
		pass_on(req, NULL);
	else if (rule.action == FAULT_ERROR || (rule.action == FAULT_TORN && !rule.bytes))
		dev_complete_later(req, rule.error);
	else if (rule.action != FAULT_HOLD)
		pass_on(req, &rule);
}

/* ------------------------------------------------------------- control */

int dev_fault_add(struct dev *dev, const struct fault_rule *rule)
{
	struct dev_fault *f = fault_of(dev);
	struct rule *r = calloc(1, sizeof(*r));
	struct rule **last;

	if (!r)
		return -ENOMEM;
	r->r = *rule;
	r->counted = rule->count != 0;
	short_lock(&f->lock);
	for (last = &f->rules; *last;)
		last = &(*last)->next;
	*last = r;
	short_unlock(&f->lock);
	return 0;
}

void dev_fault_release(struct dev *dev)
{
	struct dev_fault *f = fault_of(dev);
	struct fsc_msg *msg, *next;

	short_lock(&f->lock);
	msg = f->held;
	f->held = NULL;
	f->held_last = &f->held;
	short_unlock(&f->lock);
	for (; msg; msg = next) {
		next = msg->next;
		msg->fn = run_held;
		fsc_thread_post(container_of(msg, struct io_req, msg)->thread, msg);
	}
}

void dev_fault_clear(struct dev *dev)
{
	struct dev_fault *f = fault_of(dev);
	struct rule *rule, *next;

	short_lock(&f->lock);
	rule = f->rules;
	f->rules = NULL;
	short_unlock(&f->lock);
	for (; rule; rule = next) {
		next = rule->next;
		free(rule);
	}
	dev_fault_release(dev);
}

uint64_t dev_fault_seen(struct dev *dev, enum io_op op)
{
	return atomic_load(&fault_of(dev)->seen[op]);
}

static void fault_destroy(struct dev *dev)
{
	struct dev_fault *f = fault_of(dev);

	dev_fault_clear(dev);
	dev_destroy(f->inner);
	short_lock_fini(&f->lock);
	free(f);
}

static const struct dev_ops fault_ops = {
	.submit = fault_submit,
	.destroy = fault_destroy,
};

int dev_fault_create(struct dev *inner, struct dev **out)
{
	struct dev_fault *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->dev.ops = &fault_ops;
	f->dev.size_bytes = inner->size_bytes;
	f->dev.align_bytes = inner->align_bytes;
	f->dev.read_only = inner->read_only;
	f->inner = inner;
	f->held_last = &f->held;
	short_lock_init(&f->lock, RANK_DEVICE);
	*out = &f->dev;
	return 0;
}
