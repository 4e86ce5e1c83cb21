/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "probe.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_SECONDS	 10
#define MAX_RECORD_BYTES (8u << 20)
#define LAST_FRAGMENT	 0x80000000u

static struct probe_conn *open_conns;

static struct addrinfo *resolve(int port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	char service[16];
	int rc;

	snprintf(service, sizeof(service), "%d", port);
	rc = getaddrinfo(probe.host, service, &hints, &list);
	if (rc)
		FAIL("%s: %s", probe.host, gai_strerror(rc));
	return list;
}

static struct probe_conn *conn_open_port(int port)
{
	struct timeval limit = {.tv_sec = ANSWER_SECONDS};
	struct addrinfo *list = resolve(port);
	struct probe_conn *c = calloc(1, sizeof(*c));
	int one = 1, rc;

	if (!c)
		abort();
	c->fd = socket(list->ai_family, SOCK_STREAM, 0);
	rc = connect(c->fd, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	if (rc) {
		int saved = errno;

		close(c->fd);
		free(c);
		FAIL("connect to port %d: %s", port, strerror(saved));
	}
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->next_xid = 0x10000000u + (uint32_t)c->fd * 0x10000u;
	c->next = open_conns;
	open_conns = c;
	conn_as(c, 0, 0);
	return c;
}

struct probe_conn *conn_open(void)
{
	return conn_open_port(probe.port);
}

struct probe_conn *conn_open_mount(void)
{
	return conn_open_port(probe.mount_port);
}

void conn_close(struct probe_conn *c)
{
	struct probe_conn **p = &open_conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	close(c->fd);
	free(c);
}

void conn_close_all(void)
{
	while (open_conns)
		conn_close(open_conns);
}

void conn_as(struct probe_conn *c, uint32_t uid, uint32_t gid)
{
	memset(&c->cred, 0, sizeof(c->cred));
	c->cred.flavor = AUTH_UNIX;
	c->cred.uid = uid;
	c->cred.gid = gid;
}

bool conn_send(struct probe_conn *c, const void *data, size_t bytes)
{
	const char *p = data;

	while (bytes) {
		ssize_t n = send(c->fd, p, bytes, MSG_NOSIGNAL);

		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return false;
		if (n < 0)
			FAIL("send: %s", strerror(errno));
		p += n;
		bytes -= (size_t)n;
	}
	return true;
}

bool conn_send_record(struct probe_conn *c, const char *data, uint32_t bytes,
	uint32_t fragment_bytes, bool every_empty, bool late_end)
{
	uint32_t fragments = bytes / fragment_bytes + 2;
	struct probe_out o;

	out_init(&o, bytes + 8 * fragments + 8);
	while (bytes) {
		uint32_t n = bytes < fragment_bytes ? bytes : fragment_bytes;
		bool last = n == bytes && !late_end;

		if (every_empty)
			out_u32(&o, 0);
		out_u32(&o, n | (last ? LAST_FRAGMENT : 0));
		memcpy(o.data + o.bytes, data, n);
		o.bytes += n;
		data += n;
		bytes -= n;
	}
	if (late_end)
		out_u32(&o, LAST_FRAGMENT);
	return conn_send(c, o.data, o.bytes);
}

static bool receive_bytes(struct probe_conn *c, char *to, uint32_t bytes)
{
	while (bytes) {
		ssize_t n = recv(c->fd, to, bytes, 0);

		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return false;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			FAIL("no answer in %d s", ANSWER_SECONDS);
		if (n < 0)
			FAIL("receive: %s", strerror(errno));
		to += n;
		bytes -= (uint32_t)n;
	}
	return true;
}

static uint32_t get_u32(const char *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return ntohl(v);
}

bool conn_receive(struct probe_conn *c, char **data, uint32_t *bytes)
{
	uint32_t marker;

	*data = NULL;
	*bytes = 0;
	do {
		char head[4], *grown;
		uint32_t n;

		if (!receive_bytes(c, head, 4))
			return false;
		marker = get_u32(head);
		n = marker & ~LAST_FRAGMENT;
		WANT(n <= MAX_RECORD_BYTES - *bytes, "reply record of %u bytes and more",
			*bytes + n);
		grown = probe_alloc(*bytes + n + 4);
		if (*bytes)
			memcpy(grown, *data, *bytes);
		*data = grown;
		if (!receive_bytes(c, *data + *bytes, n))
			return false;
		*bytes += n;
	} while (!(marker & LAST_FRAGMENT));
	return true;
}

void want_closed(struct probe_conn *c)
{
	char *data;
	uint32_t bytes;

	WANT(!conn_receive(c, &data, &bytes),
		"a reply of %u bytes where the connection must be closed", bytes);
}

void out_init(struct probe_out *o, uint32_t room)
{
	o->data = probe_alloc(room);
	o->bytes = 0;
	o->room = room;
}

void out_raw(struct probe_out *o, const void *data, uint32_t bytes)
{
	if (o->bytes + bytes > o->room)
		abort();
	if (bytes)
		memcpy(o->data + o->bytes, data, bytes);
	o->bytes += bytes;
}

void out_u32(struct probe_out *o, uint32_t v)
{
	v = htonl(v);
	out_raw(o, &v, 4);
}

void out_u64(struct probe_out *o, uint64_t v)
{
	out_u32(o, (uint32_t)(v >> 32));
	out_u32(o, (uint32_t)v);
}

void out_opaque(struct probe_out *o, const void *data, uint32_t bytes)
{
	static const char zeros[4];

	out_u32(o, bytes);
	out_raw(o, data, bytes);
	out_raw(o, zeros, (4 - bytes % 4) % 4);
}

void out_fh(struct probe_out *o, const struct probe_fh *fh)
{
	out_opaque(o, fh->data, fh->len);
}

static void out_cred(struct probe_out *o, const struct probe_cred *cred)
{
	static const char machine[] = "probe";

	out_u32(o, cred->flavor);
	if (cred->flavor != AUTH_UNIX) {
		out_u32(o, 0);
		return;
	}
	out_u32(o, 4 + 4 + 8 + 4 * 3 + 4 * cred->gid_count);
	out_u32(o, 1); /* stamp */
	out_opaque(o, machine, sizeof(machine) - 1);
	out_u32(o, cred->uid);
	out_u32(o, cred->gid);
	out_u32(o, cred->gid_count);
	for (uint32_t i = 0; i < cred->gid_count; i++)
		out_u32(o, cred->gids[i]);
}

uint32_t out_call(struct probe_out *o, struct probe_conn *c, uint32_t program, uint32_t version,
	uint32_t procedure)
{
	uint32_t xid = c->next_xid++;

	out_u32(o, xid);
	out_u32(o, CALL);
	out_u32(o, RPC_MSG_VERSION);
	out_u32(o, program);
	out_u32(o, version);
	out_u32(o, procedure);
	out_cred(o, &c->cred);
	out_u32(o, AUTH_NONE);
	out_u32(o, 0);
	return xid;
}

/* Takes one word off the front of a message. */
static uint32_t take_u32(const char **p, const char *end)
{
	uint32_t v;

	WANT(end - *p >= 4, "reply header cut short");
	v = get_u32(*p);
	*p += 4;
	return v;
}

static void parse_accepted(const char **p, const char *end, struct probe_reply *r)
{
	uint32_t verf_bytes;

	take_u32(p, end); /* flavor */
	verf_bytes = take_u32(p, end);
	WANT(verf_bytes <= 400 && end - *p >= verf_bytes, "bad reply verifier");
	*p += (verf_bytes + 3) & ~3u;
	r->stat = take_u32(p, end);
	if (r->stat == PROG_MISMATCH) {
		r->low = take_u32(p, end);
		r->high = take_u32(p, end);
	}
}

void reply_parse(const char *data, uint32_t bytes, struct probe_reply *r)
{
	const char *p = data, *end = data + bytes;

	memset(r, 0, sizeof(*r));
	r->xid = take_u32(&p, end);
	WANT(take_u32(&p, end) == REPLY, "not a reply");
	r->reply_stat = take_u32(&p, end);
	WANT(r->reply_stat <= MSG_DENIED, "reply_stat %u", r->reply_stat);
	if (r->reply_stat == MSG_ACCEPTED) {
		parse_accepted(&p, end, r);
	} else {
		r->stat = take_u32(&p, end);
		if (r->stat == RPC_MISMATCH) {
			r->low = take_u32(&p, end);
			r->high = take_u32(&p, end);
		} else {
			r->auth_stat = take_u32(&p, end);
		}
	}
	r->body_bytes = (uint32_t)(end - p);
	r->body = probe_alloc(r->body_bytes + 4);
	memcpy(r->body, p, r->body_bytes);
	if (r->reply_stat != MSG_ACCEPTED || r->stat != SUCCESS)
		WANT(r->body_bytes == 0, "%u bytes after an RPC error", r->body_bytes);
}

void conn_exchange(struct probe_conn *c, const struct probe_out *o, struct probe_reply *reply)
{
	uint32_t bytes;
	char *data;

	memset(reply, 0, sizeof(*reply));
	if (!conn_send_record(c, o->data, o->bytes, UINT32_MAX / 2, false, false) ||
		!conn_receive(c, &data, &bytes)) {
		reply->closed = true;
		return;
	}
	reply_parse(data, bytes, reply);
	WANT(reply->xid == get_u32(o->data), "reply to another xid");
}

/* libnfs's decoders keep what they allocate in a list at the ZDR: it must live as
 * long as the result, to the end of the case. */
struct kept_zdr {
	struct kept_zdr *next;
	ZDR zdr;
};

struct kept_block {
	struct kept_block *next;
};

static struct kept_zdr *kept_zdrs;
static struct kept_block *kept_blocks;

void *probe_alloc(size_t bytes)
{
	struct kept_block *b = calloc(1, sizeof(max_align_t) + bytes);

	if (!b)
		abort();
	b->next = kept_blocks;
	kept_blocks = b;
	return (char *)b + sizeof(max_align_t);
}

void probe_release(void)
{
	while (kept_zdrs) {
		struct kept_zdr *z = kept_zdrs;

		kept_zdrs = z->next;
		zdr_destroy(&z->zdr);
		free(z);
	}
	while (kept_blocks) {
		struct kept_block *b = kept_blocks;

		kept_blocks = b->next;
		free(b);
	}
}

static void fail_leftover(const struct probe_reply *reply, uint32_t decoded)
{
	char hex[2 * 32 + 1] = "";

	for (uint32_t i = decoded; i < reply->body_bytes && i < decoded + 32; i++)
		snprintf(hex + 2 * (i - decoded), 3, "%02x", (unsigned char)reply->body[i]);
	FAIL("%u bytes after the result (of %u, status %s): %s", reply->body_bytes - decoded,
		reply->body_bytes, stat_name(reply->body_bytes >= 4 ? get_u32(reply->body) : 0),
		hex);
}

void reply_decode(const struct probe_reply *reply, zdrproc_t decode, void *result)
{
	struct kept_zdr *z = calloc(1, sizeof(*z));

	if (!z)
		abort();
	z->next = kept_zdrs;
	kept_zdrs = z;
	zdrmem_create(&z->zdr, reply->body, reply->body_bytes, ZDR_DECODE);
	WANT(decode(&z->zdr, result), "cannot decode the result");
	if (zdr_getpos(&z->zdr) != reply->body_bytes)
		fail_leftover(reply, zdr_getpos(&z->zdr));
}

void conn_call(struct probe_conn *c, uint32_t program, uint32_t procedure, zdrproc_t encode,
	void *args, zdrproc_t decode, void *result)
{
	static char room[2 << 20];
	struct probe_out o = {.data = room, .room = sizeof(room)};
	struct probe_reply reply;
	ZDR zdr;

	out_call(&o, c, program, 3, procedure);
	zdrmem_create(&zdr, o.data + o.bytes, o.room - o.bytes, ZDR_ENCODE);
	if (!encode(&zdr, args))
		FAIL("cannot encode the arguments");
	o.bytes += zdr_getpos(&zdr);
	zdr_destroy(&zdr);
	conn_exchange(c, &o, &reply);
	WANT(!reply.closed, "procedure %u.%u: connection closed", program, procedure);
	WANT(reply.reply_stat == MSG_ACCEPTED && reply.stat == SUCCESS,
		"procedure %u.%u: RPC error %u/%u", program, procedure, reply.reply_stat,
		reply.stat);
	c->last_body_bytes = reply.body_bytes;
	reply_decode(&reply, decode, result);
}

void want_accept(struct probe_conn *c, const struct probe_out *o, uint32_t accept_stat,
	struct probe_reply *reply)
{
	conn_exchange(c, o, reply);
	WANT(!reply->closed, "connection closed, no reply");
	WANT(reply->reply_stat == MSG_ACCEPTED,
		"call denied (reject %u, auth %u), wanted accept_stat %u", reply->stat,
		reply->auth_stat, accept_stat);
	WANT(reply->stat == accept_stat, "accept_stat %u instead of %u", reply->stat, accept_stat);
}
