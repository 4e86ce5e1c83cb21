/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/conn.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "proto/record.h"
#include "server/transport.h"

#define SECOND_NS 1000000000ull
/* A record that has begun must go on, and come to its end at some rate; replies must be taken. */
#define HALF_RECORD_NS	    (30 * SECOND_NS)
#define RECORD_BYTES_SECOND 65536u
#define SEND_STALL_NS	    (60 * SECOND_NS)
/* NFS clients come back by themselves when they have something to ask. */
#define IDLE_NS	    (600 * SECOND_NS)
#define SEND_PIECES 256u

enum conn_state {
	CONN_OPEN,
	CONN_PAUSED,  /* not read: a bound is reached */
	CONN_CLOSING, /* not read any more; closed when all is sent */
	CONN_DEAD,
};

struct conn {
	struct rpc_peer peer;
	struct loop *loop;
	const struct transport *transport;
	int fd;
	enum conn_state state;
	bool is_dirty, is_starved, wants_write;
	uint64_t in_ns, out_ns;	       /* last progress each way */
	uint64_t record_ns, paused_ns; /* since when; record_ns later by what it was paused */
	struct record record;
	size_t granted; /* bytes of a large record, that has all it needs */
	/* Input that was received but not handled when it was paused: from stash_at on. */
	uint8_t *stash;
	size_t stash_at, stash_len;
	struct event read_event, write_event;
	struct fsc_msg msg; /* on its way to the loop */
	TAILQ_ENTRY(conn) link, dirty_link, starved_link;
};

static void conn_flush(struct conn *c);

/* ------------------------------------------------------------ life and death */

static void set_partial(struct conn *c, size_t before)
{
	c->loop->partial_bytes += c->record.capacity;
	c->loop->partial_bytes -= before;
}

static void set_granted(struct conn *c, size_t bytes)
{
	c->loop->granted_bytes += bytes;
	c->loop->granted_bytes -= c->granted;
	c->granted = bytes;
}

static void drop_record(struct conn *c)
{
	size_t before = c->record.capacity;

	record_reset(&c->record);
	set_partial(c, before);
	set_granted(c, 0);
}

static void leave_starved(struct conn *c)
{
	if (c->is_starved)
		TAILQ_REMOVE(&c->loop->starved, c, starved_link);
	c->is_starved = false;
}

/* The memory follows in conn_free_dead(), once no request refers to it. */
static void conn_kill(struct conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	c->state = CONN_DEAD;
	event_del(&c->read_event);
	event_del(&c->write_event);
	close(c->fd);
	drop_record(c);
	free(c->stash);
	c->stash = NULL;
	leave_starved(c);
	TAILQ_REMOVE(&c->loop->conns, c, link);
	TAILQ_INSERT_TAIL(&c->loop->dead, c, link);
	c->loop->n_conns--;
	counter_add(&c->loop->counters.closed, 1);
	rpc_peer_close(&c->peer);
}

/* A peer that breaks the protocol is closed, and said once a second. */
static void conn_refuse(struct conn *c, const char *why)
{
	char text[NET_ADDR_TEXT];

	net_addr_text(&c->peer.addr, text);
	log_limited(
		LOG_LVL_NOTICE, "%s port %u: %s: connection closed", text, c->peer.addr.port, why);
	counter_add(&c->loop->counters.refused, 1);
	conn_kill(c);
}

void conn_free_dead(struct loop *l)
{
	struct conn *c = TAILQ_FIRST(&l->dead);

	while (c) {
		struct conn *next = TAILQ_NEXT(c, link);

		if (!c->peer.n_requests && !c->is_dirty) {
			TAILQ_REMOVE(&l->dead, c, link);
			free(c);
		}
		c = next;
	}
}

/* ------------------------------------------------------------------- bounds */

/*
 * True when a large record must wait for memory. Those that were granted theirs
 * need nothing more to end, and while there is none the next one may always go on.
 * Half of the limit is for them, so that they alone never stop requests.
 */
static bool conn_waits_for_room(const struct conn *c)
{
	const struct loop *l = c->loop;
	size_t want = record_wants(&c->record, SRV_RECORD_MAX);

	return want && l->granted_bytes && l->granted_bytes + want > l->limits.memory_bytes / 2;
}

/* True when another request must wait until some in flight have ended. */
static bool conn_is_full(const struct conn *c)
{
	const struct rpc_peer *p = &c->peer;

	if (conn_waits_for_room(c))
		return true;
	if (!p->n_requests && !p->out.bytes)
		return false;
	return p->n_requests >= CONN_REQUESTS_MAX || p->request_bytes >= CONN_BYTES_MAX ||
		p->out.bytes >= CONN_BYTES_MAX || loop_is_full(c->loop);
}

/* rest: what was not handled, at the end of the stash or of the loop's buffer. */
static void conn_pause(struct conn *c, const uint8_t *rest, size_t len)
{
	if (c->stash) {
		c->stash_at = c->stash_len - len;
	} else if (len) {
		c->stash = malloc(len);
		if (!c->stash) {
			conn_refuse(c, "out of memory");
			return;
		}
		memcpy(c->stash, rest, len);
		c->stash_at = 0;
		c->stash_len = len;
	}
	c->state = CONN_PAUSED;
	c->paused_ns = c->loop->rpc.now_ns;
	event_del(&c->read_event);
	counter_add(&c->loop->counters.paused, 1);
	if (!c->is_starved) {
		TAILQ_INSERT_TAIL(&c->loop->starved, c, starved_link);
		c->is_starved = true;
	}
}

/* -------------------------------------------------------------------- input */

static bool handle_record(struct conn *c, struct rpc_input *in)
{
	int ret = rpc_dispatch(&c->peer, in);

	if (ret == -EBADMSG)
		conn_refuse(c, "not an RPC call");
	else if (ret)
		conn_refuse(c, "out of memory");
	return !ret;
}

/* A record in memory of its own, which the request may take over. */
static bool handle_own_record(struct conn *c)
{
	size_t before = c->record.capacity, len = c->record.len;
	struct rpc_input in = {
		.len = len, .owned = record_detach(&c->record), .owned_bytes = before};
	bool ok;

	set_partial(c, before);
	set_granted(c, 0);
	in.data = in.owned;
	ok = handle_record(c, &in);
	free(in.owned);
	return ok;
}

/* Feeds a record that does not lie in the input as a whole. */
static bool feed(struct conn *c, const uint8_t **p, const uint8_t *end)
{
	size_t before = c->record.capacity;
	enum record_state st;

	if (!record_pending(&c->record))
		c->record_ns = c->loop->rpc.now_ns;
	st = record_feed(&c->record, p, end, SRV_RECORD_MAX);
	set_partial(c, before);
	switch (st) {
	case RECORD_MORE:
		if (c->loop->partial_bytes <= c->loop->limits.memory_bytes)
			return true;
		conn_refuse(c, "too much memory in unfinished records");
		return false;
	case RECORD_DONE:
		return handle_own_record(c);
	case RECORD_TOO_BIG:
		conn_refuse(c, "record is too long");
		return false;
	case RECORD_NO_MEMORY:
		break;
	}
	conn_refuse(c, "out of memory");
	return false;
}

/* Handles received bytes; what is past a bound is kept and the reading stops. */
static void conn_input(struct conn *c, const uint8_t *p, size_t len)
{
	const uint8_t *end = p + len;
	struct rpc_input in = {.data = NULL};

	while (p < end) {
		if (conn_is_full(c)) {
			conn_pause(c, p, (size_t)(end - p));
			return;
		}
		if (!record_pending(&c->record) &&
			record_whole(&p, end, SRV_RECORD_MAX, &in.data, &in.len)) {
			if (!handle_record(c, &in))
				return;
		} else if (!feed(c, &p, end)) {
			return;
		}
	}
	if (conn_is_full(c))
		conn_pause(c, NULL, 0);
}

/* Receives the rest of a large record where it will stay. *done false: there is none. */
static ssize_t receive_direct(struct conn *c, bool *done)
{
	size_t before = c->record.capacity, room;
	uint8_t *to;
	ssize_t n;

	room = record_room(&c->record, SRV_RECORD_MAX, &to);
	set_partial(c, before);
	if (c->record.capacity != before)
		set_granted(c, c->record.capacity);
	*done = room > 0;
	if (!room)
		return 0;
	n = c->transport->receive(c->fd, to, room);
	if (n <= 0)
		return n;
	c->in_ns = c->loop->rpc.now_ns;
	counter_add(&c->loop->counters.received_bytes, (uint64_t)n);
	if (record_filled(&c->record, (size_t)n) == RECORD_DONE && handle_own_record(c) &&
		conn_is_full(c))
		conn_pause(c, NULL, 0);
	return n;
}

/* The client has sent all, and everything that we sent has arrived there. */
static bool all_arrived(const struct conn *c)
{
	int unacknowledged;

	return !c->peer.n_requests && !c->peer.out.bytes &&
		!ioctl(c->fd, SIOCOUTQ, &unacknowledged) && !unacknowledged;
}

static void conn_eof(struct conn *c)
{
	c->state = CONN_CLOSING;
	event_del(&c->read_event);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	struct loop *l = c->loop;
	bool direct;
	ssize_t n;

	(void)what;
	loop_enter(l);
	if (conn_waits_for_room(c)) {
		conn_pause(c, NULL, 0);
		return;
	}
	n = receive_direct(c, &direct);
	if (!direct)
		n = c->transport->receive(fd, l->receive_buf, LOOP_RECEIVE_BYTES);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_kill(c);
		return;
	}
	if (!n) {
		c->peer.all_received = all_arrived(c);
		conn_eof(c);
	} else if (!direct) {
		c->in_ns = l->rpc.now_ns;
		counter_add(&l->counters.received_bytes, (uint64_t)n);
		conn_input(c, l->receive_buf, (size_t)n);
	}
	conn_flush(c);
}

/*
 * A client that has hung up while it was not read may long have sent the same calls on
 * another connection, had them answered, and gone on: what is left here must not run.
 * True when it has. What is in flight is still answered, if the client can receive.
 */
static bool conn_was_left(struct conn *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};

	if (poll(&p, 1, 0) <= 0)
		return false;
	leave_starved(c);
	drop_record(c);
	free(c->stash);
	c->stash = NULL;
	conn_eof(c);
	return true;
}

/* Goes on after a pause, if it can. True when something was handled. */
static bool conn_resume(struct conn *c)
{
	size_t len = c->stash ? c->stash_len - c->stash_at : 0;

	if (c->state != CONN_PAUSED || conn_is_full(c) || conn_was_left(c))
		return false;
	c->state = CONN_OPEN;
	/* That it was not read is not its fault. */
	c->in_ns = c->loop->rpc.now_ns;
	c->record_ns += c->in_ns - c->paused_ns;
	leave_starved(c);
	event_add(&c->read_event, NULL);
	if (len)
		conn_input(c, c->stash + c->stash_at, len);
	if (c->state == CONN_OPEN) {
		free(c->stash);
		c->stash = NULL;
	}
	return len > 0;
}

/* ------------------------------------------------------------------- output */

static void want_write(struct conn *c, bool want)
{
	if (c->wants_write == want)
		return;
	c->wants_write = want;
	if (want)
		event_add(&c->write_event, NULL);
	else
		event_del(&c->write_event);
}

/* Sends until all is sent or the socket is full. False: the connection died. */
static bool conn_send(struct conn *c)
{
	struct iovec iov[SEND_PIECES];
	struct outq *q = &c->peer.out;

	while (q->bytes) {
		unsigned n_iov = outq_front(q, iov, SEND_PIECES);
		ssize_t n = c->transport->send(c->fd, iov, n_iov);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			want_write(c, true);
			return true;
		}
		if (n < 0) {
			conn_kill(c);
			return false;
		}
		c->out_ns = c->loop->rpc.now_ns;
		counter_add(&c->loop->counters.sent_bytes, (uint64_t)n);
		outq_sent(q, &c->loop->rpc.out_pool, (size_t)n);
	}
	want_write(c, false);
	return true;
}

static void conn_flush(struct conn *c)
{
	if (c->peer.closed && c->state != CONN_DEAD)
		conn_kill(c);
	do {
		if (c->state == CONN_DEAD || !conn_send(c))
			return;
	} while (conn_resume(c));
	if (c->state == CONN_CLOSING && !c->peer.out.bytes && !c->peer.n_requests)
		conn_kill(c);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	loop_enter(c->loop);
	conn_flush(c);
}

static void on_ready(struct rpc_peer *peer)
{
	struct conn *c = container_of(peer, struct conn, peer);

	if (c->is_dirty)
		return;
	c->is_dirty = true;
	TAILQ_INSERT_TAIL(&c->loop->dirty, c, dirty_link);
}

void conn_flush_dirty(struct loop *l)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&l->dirty))) {
		TAILQ_REMOVE(&l->dirty, c, dirty_link);
		c->is_dirty = false;
		conn_flush(c);
	}
}

void conn_feed_starved(struct loop *l)
{
	struct conn *c = TAILQ_FIRST(&l->starved);

	while (c && (!loop_is_full(l) || !l->granted_bytes)) {
		struct conn *next = TAILQ_NEXT(c, starved_link);

		if (!conn_is_full(c))
			conn_flush(c);
		c = next;
	}
}

/* -------------------------------------------------------------- from outside */

static void on_adopted(struct fsc_msg *msg)
{
	struct conn *c = container_of(msg, struct conn, msg);
	struct loop *l = c->loop;

	if (l->stopping || l->n_conns >= l->limits.connections) {
		if (!l->stopping)
			log_limited(LOG_LVL_WARNING, "more than %u connections on a loop: refused",
				l->limits.connections);
		counter_add(&l->counters.refused, 1);
		close(c->fd);
		free(c);
		return;
	}
	c->in_ns = c->out_ns = l->rpc.now_ns;
	event_assign(&c->read_event, l->base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
	event_assign(&c->write_event, l->base, c->fd, EV_WRITE | EV_PERSIST, on_writable, c);
	TAILQ_INSERT_TAIL(&l->conns, c, link);
	l->n_conns++;
	counter_add(&l->counters.accepted, 1);
	if (event_add(&c->read_event, NULL))
		conn_kill(c);
}

void conn_adopt(struct loop *l, int fd, const struct net_addr *addr)
{
	struct conn *c = calloc(1, sizeof(*c));
	int one = 1;

	if (!c) {
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	rpc_peer_init(&c->peer, &l->rpc, addr, on_ready);
	c->loop = l;
	c->transport = &transport_plain;
	c->fd = fd;
	record_init(&c->record);
	c->msg.fn = on_adopted;
	fsc_thread_post(l->rpc.thread.fsc, &c->msg);
}

/* A trickle of bytes must not hold memory that others wait for. */
static bool record_is_late(const struct conn *c, uint64_t now)
{
	uint64_t may_take = HALF_RECORD_NS + c->record.capacity * SECOND_NS / RECORD_BYTES_SECOND;

	return record_pending(&c->record) && c->state == CONN_OPEN &&
		(now - c->in_ns > HALF_RECORD_NS || now - c->record_ns > may_take);
}

static const char *too_old(const struct conn *c, uint64_t now)
{
	if (record_is_late(c, now))
		return "unfinished record";
	if (c->peer.out.bytes && now - c->out_ns > SEND_STALL_NS && now - c->in_ns > SEND_STALL_NS)
		return "replies are not taken";
	if (!c->peer.out.bytes && !c->peer.n_requests && now - c->in_ns > IDLE_NS)
		return "idle";
	return NULL;
}

void conn_check_ages(struct loop *l)
{
	struct conn *c = TAILQ_FIRST(&l->conns);

	while (c) {
		struct conn *next = TAILQ_NEXT(c, link);
		const char *why = too_old(c, l->rpc.now_ns);

		if (why)
			conn_refuse(c, why);
		c = next;
	}
}

void conn_stop_all(struct loop *l)
{
	struct conn *c = TAILQ_FIRST(&l->conns);

	while (c) {
		struct conn *next = TAILQ_NEXT(c, link);

		conn_eof(c);
		conn_flush(c);
		c = next;
	}
}

void conn_close_all(struct loop *l)
{
	while (!TAILQ_EMPTY(&l->conns))
		conn_kill(TAILQ_FIRST(&l->conns));
}
