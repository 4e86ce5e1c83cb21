/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conn.c and loop.c over a socket pair, on the fake core: input in pieces, bounds, the ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "proto/record.h"
#include "server/conn.h"
#include "server/jobs.h"
#include "tests/server/rpc_client.h"

/* What takes longer does not happen, and the test fails. */
#define LIMIT_SECONDS 10

static const char *const exports[] = {"/e=/,rw,no_root_squash", NULL};

/* In place of the C library's, for the loop and its libevent: a test has time pass. */
static _Atomic int64_t passed_seconds;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int ret = (int)syscall(SYS_clock_gettime, id, ts);

	if (!ret && id != CLOCK_REALTIME)
		ts->tv_sec += atomic_load(&passed_seconds);
	return ret;
}

/* The world's own loop is not used: a real one on the same server is. */
struct rig {
	struct world *w;
	struct loop *loop;
	int fd; /* the client's end of the connection of rig_begin_one(); or -1 */
	struct fsc_inode *file;
};

static uint8_t content[1 << 20];

static void rig_begin(struct rig *r, size_t memory_bytes)
{
	const struct loop_limits limits = {.connections = 4, .memory_bytes = memory_bytes};

	r->w = world_begin(exports, 2);
	r->fd = -1;
	r->file = fake_make(fake_root(5), "file", S_IFREG | 0644);
	fake_set_data(r->file, content, sizeof(content));
	assert_int_equal(loop_create(&r->w->srv, 0, &limits, &r->loop), 0);
	assert_int_equal(loop_start(r->loop), 0);
}

static int rig_connect(struct rig *r)
{
	struct timeval limit = {LIMIT_SECONDS, 0};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	conn_adopt(r->loop, pair[1], &r->w->peer.addr);
	return pair[0];
}

/* The same over TCP, which knows more ends of a connection. */
static int rig_connect_tcp(struct rig *r)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr *sa = (struct sockaddr *)&addr;
	struct timeval limit = {LIMIT_SECONDS, 0};
	socklen_t len = sizeof(addr);
	int server;

	assert_int_equal(bind(listener, sa, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, sa, &len), 0);
	assert_int_equal(connect(fd, sa, len), 0);
	server = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert_true(server >= 0);
	close(listener);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	conn_adopt(r->loop, server, &r->w->peer.addr);
	return fd;
}

static void rig_begin_one(struct rig *r, size_t memory_bytes)
{
	rig_begin(r, memory_bytes);
	r->fd = rig_connect(r);
}

static void rig_end(struct rig *r)
{
	if (r->fd >= 0)
		close(r->fd);
	loop_stop(r->loop);
	loop_join(r->loop);
	assert_int_equal(r->loop->n_conns, 0);
	assert_int_equal(r->loop->partial_bytes, 0);
	assert_int_equal(r->loop->rpc.n_requests, 0);
	assert_int_equal(r->loop->rpc.out_pool.n_used, 0);
	loop_destroy(r->loop);
	world_end(r->w);
}

struct turn {
	struct fsc_msg msg;
	sem_t handled;
};

static void on_turn(struct fsc_msg *msg)
{
	sem_post(&container_of(msg, struct turn, msg)->handled);
}

/* Has the loop's thread handle a message, which it does among its other events. */
static void take_turn(struct rig *r)
{
	struct turn t = {.msg.fn = on_turn};
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LIMIT_SECONDS;
	sem_init(&t.handled, 0, 0);
	fsc_thread_post(r->loop->rpc.thread.fsc, &t.msg);
	assert_int_equal(sem_timedwait(&t.handled, &end), 0);
	sem_destroy(&t.handled);
}

/* Turns of the loop, until it has counted so much. */
static void want_counted(struct rig *r, const _Atomic uint64_t *counter, uint64_t at_least)
{
	time_t end = time(NULL) + LIMIT_SECONDS;

	while (counter_get(counter) < at_least) {
		assert_true(time(NULL) <= end);
		take_turn(r);
	}
}

/* A call as a record; returns its length. */
static size_t null_record(struct rig *r, uint8_t *to)
{
	struct call c;
	size_t len;

	call_nfs3(r->w, &c, NFS3_NULL);
	len = (size_t)(c.out.p - c.data);
	wire_set_u32(to, (uint32_t)len | RECORD_LAST);
	memcpy(to + 4, c.data, len);
	return len + 4;
}

static size_t read_record(struct rig *r, uint8_t *to, uint32_t count)
{
	struct call c;
	size_t len;

	call_nfs3(r->w, &c, NFS3_READ);
	put_fh(&c.out, r->file);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, count);
	len = (size_t)(c.out.p - c.data);
	wire_set_u32(to, (uint32_t)len | RECORD_LAST);
	memcpy(to + 4, c.data, len);
	return len + 4;
}

static bool get(int fd, void *to, size_t len)
{
	uint8_t *p = to;

	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* The xid of the next reply; 0: the connection was closed. */
static uint32_t next_reply(int fd, size_t *len)
{
	static uint8_t buf[2 << 20];
	uint32_t mark, xid;

	if (!get(fd, &mark, 4))
		return 0;
	*len = be32toh(mark) & ~RECORD_LAST;
	assert_true(*len <= sizeof(buf));
	assert_true(get(fd, buf, *len));
	memcpy(&xid, buf, 4);
	return be32toh(xid);
}

static void put(int fd, const void *data, size_t len)
{
	assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

static void test_conn_byte_by_byte(void **state)
{
	uint8_t rec[256];
	struct rig r;
	size_t len, got;

	(void)state;
	rig_begin_one(&r, 64 << 20);
	for (int i = 0; i < 3; i++) {
		len = null_record(&r, rec);
		for (size_t b = 0; b < len; b++)
			put(r.fd, rec + b, 1);
		assert_int_equal(next_reply(r.fd, &got), r.w->xid);
	}
	rig_end(&r);
}

static void test_conn_many_in_one_piece(void **state)
{
	static uint8_t recs[100000];
	struct rig r;
	size_t len = 0, got;

	(void)state;
	rig_begin_one(&r, 64 << 20);
	for (int i = 0; i < 900; i++)
		len += null_record(&r, recs + len);
	put(r.fd, recs, len);
	for (uint32_t i = 1; i <= 900; i++)
		assert_int_equal(next_reply(r.fd, &got), i);
	rig_end(&r);
}

/* More replies than the bounds allow at once: all come, in time, and memory stays bounded. */
static void test_conn_client_reads_late(void **state)
{
	static uint8_t recs[100000];
	struct rig r;
	size_t len = 0, got;

	(void)state;
	rig_begin_one(&r, 16 << 20);
	for (int i = 0; i < 300; i++)
		len += read_record(&r, recs + len, 1 << 20);
	put(r.fd, recs, len);
	assert_int_equal(next_reply(r.fd, &got), 1);
	assert_true(atomic_load(&fake.reads) <= 10);
	assert_true(counter_get(&r.loop->counters.paused) > 0);
	for (uint32_t i = 2; i <= 300; i++) {
		assert_int_equal(next_reply(r.fd, &got), i);
		assert_true(got > 1 << 20);
		assert_true(atomic_load(&fake.reads) <= 10);
	}
	rig_end(&r);
}

static void test_conn_answers_after_half_close(void **state)
{
	uint8_t rec[256];
	struct rig r;
	size_t len, got;

	(void)state;
	rig_begin_one(&r, 64 << 20);
	atomic_store(&fake.block, 1); /* the answer comes from a worker */
	len = read_record(&r, rec, 100000);
	put(r.fd, rec, len);
	shutdown(r.fd, SHUT_WR);
	assert_int_equal(next_reply(r.fd, &got), r.w->xid);
	assert_int_equal(next_reply(r.fd, &got), 0);
	rig_end(&r);
}

static void test_conn_bad_records_close(void **state)
{
	static const uint8_t too_long[] = {0xff, 0xff, 0xff, 0xff, 0, 0};
	static const uint8_t no_call[] = {0x80, 0, 0, 4, 1, 2, 3, 4};
	struct rig r;
	size_t got;
	int fd;

	(void)state;
	rig_begin(&r, 64 << 20);
	fd = rig_connect(&r);
	put(fd, too_long, sizeof(too_long));
	assert_int_equal(next_reply(fd, &got), 0);
	close(fd);
	fd = rig_connect(&r);
	put(fd, no_call, sizeof(no_call));
	assert_int_equal(next_reply(fd, &got), 0);
	close(fd);
	rig_end(&r);
}

/* Sends what the socket takes; false: the connection was closed. */
static bool send_some(int fd, const uint8_t *data, size_t len, size_t *at)
{
	ssize_t n = send(fd, data + *at, len - *at, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0)
		*at += (size_t)n;
	return n >= 0 || errno == EAGAIN;
}

static void test_conn_unfinished_records_are_bounded(void **state)
{
	static uint8_t data[100000];
	struct rig r;
	size_t got;
	int fd[3];

	(void)state;
	rig_begin(&r, 256 << 10);
	for (size_t at = 0; at + 2004 <= sizeof(data); at += 2004)
		wire_set_u32(data + at, 2000);
	for (int i = 0; i < 3; i++)
		fd[i] = rig_connect(&r);
	/* Each sends small fragments of a record that never ends. */
	for (int i = 0; i < 3; i++)
		for (size_t at = 0; at < sizeof(data);)
			if (!send_some(fd[i], data, sizeof(data), &at))
				break;
	assert_int_equal(next_reply(fd[2], &got), 0);
	assert_int_equal(counter_get(&r.loop->counters.refused), 1);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	rig_end(&r);
}

#define LARGE	     (1u << 20)
#define LARGE_RECORD (LARGE + 8192)

static size_t write_of(struct rig *r, struct fsc_inode *f, uint32_t bytes, uint8_t *to)
{
	struct call c;
	size_t len;

	call_nfs3(r->w, &c, NFS3_WRITE);
	put_fh(&c.out, f);
	wire_put_u64(&c.out, 0);
	wire_put_u32(&c.out, bytes);
	wire_put_u32(&c.out, NFS3_UNSTABLE);
	wire_put_u32(&c.out, bytes);
	len = (size_t)(c.out.p - c.data);
	wire_set_u32(to, (uint32_t)(len + bytes) | RECORD_LAST);
	memcpy(to + 4, c.data, len);
	for (size_t i = 0; i < bytes; i++)
		to[4 + len + i] = (uint8_t)(i * 7 >> 3);
	return 4 + len + bytes;
}

static size_t write_record(struct rig *r, struct fsc_inode *f, uint8_t *to)
{
	return write_of(r, f, LARGE, to);
}

static void want_written(struct fsc_inode *f)
{
	const uint8_t *data;
	size_t len;

	data = fake_data(f, &len);
	assert_int_equal(len, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(data[i], (uint8_t)(i * 7 >> 3));
}

/* Large records come right in pieces of any size, and also when a worker takes them over. */
static void test_conn_large_write_in_pieces(void **state)
{
	static const size_t piece[] = {1000, 4096, 70000, 300001, 2 << 20};
	static uint8_t rec[LARGE_RECORD];
	struct rig r;
	size_t got;

	(void)state;
	rig_begin_one(&r, 64 << 20);
	for (size_t i = 0; i < 2 * sizeof(piece) / sizeof(piece[0]); i++) {
		struct fsc_inode *f = fake_make(fake_root(5), "w", S_IFREG | 0666);
		size_t len = write_record(&r, f, rec), step = piece[i / 2];

		atomic_store(&fake.block, i % 2);
		for (size_t at = 0; at < len; at += step)
			put(r.fd, rec + at, len - at < step ? len - at : step);
		assert_int_equal(next_reply(r.fd, &got), r.w->xid);
		want_written(f);
		fake_unlink(fake_root(5), "w");
	}
	rig_end(&r);
}

/* Sends until the socket takes no more or all is sent. */
static void fill(int fd, const uint8_t *data, size_t len, size_t *at)
{
	size_t before;

	do {
		before = *at;
		assert_true(send_some(fd, data, len, at));
	} while (*at > before);
}

/* Sends what is left of each, in the order in which they are read. */
static void send_rest(
	int n, const int *fd, uint8_t rec[][LARGE_RECORD], const size_t *len, size_t *at)
{
	for (;;) {
		struct pollfd ready[3];
		nfds_t n_left = 0;

		for (int i = 0; i < n; i++) {
			fill(fd[i], rec[i], len[i], &at[i]);
			if (at[i] < len[i])
				ready[n_left++] = (struct pollfd){.fd = fd[i], .events = POLLOUT};
		}
		if (!n_left)
			return;
		assert_true(poll(ready, n_left, LIMIT_SECONDS * 1000) > 0);
	}
}

/* There is memory for one large record: the others wait for it, and come through. */
static void test_conn_large_writes_take_turns(void **state)
{
	static uint8_t rec[3][LARGE_RECORD];
	size_t len[3], at[3] = {0, 0, 0}, got;
	struct fsc_inode *f[3];
	uint64_t received;
	struct rig r;
	int fd[3];

	(void)state;
	rig_begin(&r, 2 << 20);
	for (int i = 0; i < 3; i++) {
		char name[2] = {(char)('0' + i), '\0'};

		fd[i] = rig_connect(&r);
		f[i] = fake_make(fake_root(5), name, S_IFREG | 0666);
		len[i] = write_record(&r, f[i], rec[i]);
	}
	/* The first stops short of its end, until the others can't go on. */
	at[0] = len[0] - 5000;
	put(fd[0], rec[0], at[0]);
	want_counted(&r, &r.loop->counters.received_bytes, at[0]);
	for (int i = 1; i < 3; i++) {
		assert_true(send_some(fd[i], rec[i], len[i], &at[i]));
		want_counted(&r, &r.loop->counters.paused, (uint64_t)i);
	}
	received = counter_get(&r.loop->counters.received_bytes);
	for (int i = 1; i < 3; i++)
		fill(fd[i], rec[i], len[i], &at[i]);
	take_turn(&r);
	assert_int_equal(counter_get(&r.loop->counters.received_bytes), received);
	assert_true(at[1] < len[1] && at[2] < len[2]);
	send_rest(3, fd, rec, len, at);
	for (int i = 0; i < 3; i++) {
		assert_true(next_reply(fd[i], &got) > 0);
		want_written(f[i]);
		close(fd[i]);
	}
	assert_int_equal(counter_get(&r.loop->counters.refused), 0);
	rig_end(&r);
}

/* Puts bytes and waits until the loop has them. */
static void put_counted(struct rig *r, int fd, const uint8_t *data, size_t len)
{
	uint64_t before = counter_get(&r->loop->counters.received_bytes);

	put(fd, data, len);
	want_counted(r, &r->loop->counters.received_bytes, before + len);
}

static void hang_up(int fd, bool reset)
{
	const struct linger at_once = {1, 0};

	if (!reset) {
		shutdown(fd, SHUT_WR);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

/*
 * A WRITE that waits for memory, in part in the socket: its client hangs up, and may long
 * have sent it again elsewhere when there is memory.
 */
static void test_conn_left_while_waiting_for_room_is_not_read(void **state)
{
	static uint8_t rec[2][LARGE_RECORD];
	struct fsc_inode *f[2];
	size_t len[2], sent, got;
	struct rig r;
	int fd[2];

	(void)state;
	for (int reset = 0; reset < 2; reset++) {
		rig_begin(&r, 2 << 20);
		for (int i = 0; i < 2; i++) {
			char name[2] = {(char)('0' + i), '\0'};

			fd[i] = rig_connect_tcp(&r);
			f[i] = fake_make(fake_root(5), name, S_IFREG | 0666);
			len[i] = write_of(&r, f[i], i ? 40000 : LARGE, rec[i]);
		}
		sent = len[0] - 5000;
		put_counted(&r, fd[0], rec[0], sent);
		put_counted(&r, fd[1], rec[1], 20000);
		put(fd[1], rec[1] + 20000, len[1] - 20000);
		want_counted(&r, &r.loop->counters.paused, 1);
		hang_up(fd[1], reset);
		put(fd[0], rec[0] + sent, len[0] - sent);
		assert_true(next_reply(fd[0], &got) > 0);
		want_written(f[0]);
		want_counted(&r, &r.loop->counters.closed, 1);
		assert_int_equal(counter_get(&r.loop->counters.op[NFS3_WRITE].calls), 1);
		assert_int_equal(fake_attr(f[1])->size_bytes, 0);
		close(fd[0]);
		if (!reset)
			close(fd[1]);
		rig_end(&r);
	}
}

/* The bound of requests in flight: these are answered, what comes after them does not run. */
static void test_conn_left_with_requests_in_flight_runs_no_more(void **state)
{
	static uint8_t recs[2 * CONN_REQUESTS_MAX * 256];
	struct fsc_inode *f;
	size_t len = 0, got;
	struct rig r;

	(void)state;
	rig_begin_one(&r, 64 << 20);
	f = fake_make(fake_root(5), "late", S_IFREG | 0666);
	hold_worker(r.w);
	hold_worker(r.w);
	atomic_store(&fake.block, CONN_REQUESTS_MAX);
	for (unsigned i = 0; i < CONN_REQUESTS_MAX; i++)
		len += read_record(&r, recs + len, 4);
	len += write_of(&r, f, 100, recs + len);
	put(r.fd, recs, len);
	want_counted(&r, &r.loop->counters.paused, 1);
	hang_up(r.fd, false);
	let_workers_go(r.w);
	for (unsigned i = 0; i < CONN_REQUESTS_MAX; i++)
		assert_true(next_reply(r.fd, &got) > 0);
	assert_int_equal(next_reply(r.fd, &got), 0);
	assert_int_equal(counter_get(&r.loop->counters.op[NFS3_WRITE].calls), 0);
	rig_end(&r);
}

/* The loop's tick, every 5 s, comes with the turn. */
static void pass_time(struct rig *r, int seconds)
{
	atomic_fetch_add(&passed_seconds, seconds);
	take_turn(r);
	take_turn(r);
}

/* A byte now and then is progress, but does not keep the memory that another waits for. */
static void test_conn_trickle_of_a_large_record_is_closed(void **state)
{
	static uint8_t rec[2][LARGE_RECORD];
	size_t len[2], at[2] = {0, 0}, got;
	struct fsc_inode *f[2];
	int fd[2], seconds = 0;
	struct rig r;

	(void)state;
	rig_begin(&r, 2 << 20);
	for (int i = 0; i < 2; i++) {
		char name[2] = {(char)('0' + i), '\0'};

		fd[i] = rig_connect(&r);
		f[i] = fake_make(fake_root(5), name, S_IFREG | 0666);
		len[i] = write_record(&r, f[i], rec[i]);
	}
	put_counted(&r, fd[0], rec[0], 20000);
	put_counted(&r, fd[0], rec[0] + 20000, 1);
	at[0] = 20001;
	assert_true(send_some(fd[1], rec[1], len[1], &at[1]));
	want_counted(&r, &r.loop->counters.paused, 1);
	while (!counter_get(&r.loop->counters.refused)) {
		assert_true(seconds < 60);
		put_counted(&r, fd[0], rec[0] + at[0]++, 1);
		pass_time(&r, 6);
		seconds += 6;
	}
	assert_true(seconds > 40);
	send_rest(1, &fd[1], &rec[1], &len[1], &at[1]);
	assert_true(next_reply(fd[1], &got) > 0);
	want_written(f[1]);
	assert_int_equal(next_reply(fd[0], &got), 0);
	close(fd[0]);
	close(fd[1]);
	rig_end(&r);
}

static void test_conn_trickle_of_a_small_record_is_closed(void **state)
{
	uint8_t rec[256];
	struct rig r;
	size_t at = 0, got;

	(void)state;
	rig_begin_one(&r, 64 << 20);
	null_record(&r, rec);
	while (!counter_get(&r.loop->counters.refused)) {
		assert_true(at < 10);
		put_counted(&r, r.fd, rec + at++, 1);
		pass_time(&r, 6);
	}
	assert_true(at > 4);
	assert_int_equal(next_reply(r.fd, &got), 0);
	rig_end(&r);
}

/* Slow, but not too slow: longer than a record may be without progress. */
static void test_conn_slow_record_comes_through(void **state)
{
	static uint8_t rec[LARGE_RECORD];
	struct fsc_inode *f;
	struct rig r;
	size_t got;

	(void)state;
	rig_begin_one(&r, 64 << 20);
	f = fake_make(fake_root(5), "slow", S_IFREG | 0666);
	for (size_t at = 0, len = write_record(&r, f, rec), n; at < len; at += n) {
		n = MIN(len - at, (size_t)120000);
		put_counted(&r, r.fd, rec + at, n);
		if (at + n < len)
			pass_time(&r, 5);
	}
	assert_int_equal(next_reply(r.fd, &got), r.w->xid);
	want_written(f);
	rig_end(&r);
}

static void test_conn_too_many_are_refused(void **state)
{
	uint8_t rec[256];
	struct rig r;
	size_t len, got;
	int fd[5];

	(void)state;
	rig_begin(&r, 64 << 20);
	for (int i = 0; i < 5; i++)
		fd[i] = rig_connect(&r);
	for (int i = 0; i < 4; i++) {
		len = null_record(&r, rec);
		put(fd[i], rec, len);
		assert_int_equal(next_reply(fd[i], &got), r.w->xid);
	}
	assert_int_equal(next_reply(fd[4], &got), 0);
	for (int i = 0; i < 5; i++)
		close(fd[i]);
	rig_end(&r);
}

/* A stop while requests are with the workers: they are answered first. */
static void test_conn_stop_answers_what_is_in_flight(void **state)
{
	uint8_t rec[256];
	struct rig r;
	size_t len, got;
	int fd;

	(void)state;
	rig_begin(&r, 64 << 20);
	fd = rig_connect(&r);
	atomic_store(&fake.block, 1);
	len = read_record(&r, rec, 1 << 20);
	put(fd, rec, len);
	want_counted(&r, &r.loop->counters.op[NFS3_READ].calls, 1);
	loop_stop(r.loop);
	assert_int_equal(next_reply(fd, &got), r.w->xid);
	assert_int_equal(next_reply(fd, &got), 0);
	loop_join(r.loop);
	loop_destroy(r.loop);
	close(fd);
	world_end(r.w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conn_byte_by_byte),
		cmocka_unit_test(test_conn_many_in_one_piece),
		cmocka_unit_test(test_conn_client_reads_late),
		cmocka_unit_test(test_conn_answers_after_half_close),
		cmocka_unit_test(test_conn_bad_records_close),
		cmocka_unit_test(test_conn_unfinished_records_are_bounded),
		cmocka_unit_test(test_conn_large_write_in_pieces),
		cmocka_unit_test(test_conn_large_writes_take_turns),
		cmocka_unit_test(test_conn_left_while_waiting_for_room_is_not_read),
		cmocka_unit_test(test_conn_left_with_requests_in_flight_runs_no_more),
		cmocka_unit_test(test_conn_trickle_of_a_large_record_is_closed),
		cmocka_unit_test(test_conn_trickle_of_a_small_record_is_closed),
		cmocka_unit_test(test_conn_slow_record_comes_through),
		cmocka_unit_test(test_conn_too_many_are_refused),
		cmocka_unit_test(test_conn_stop_answers_what_is_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
