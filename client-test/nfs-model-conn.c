/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nfs-model-conn.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define OUT_BYTES	(5u << 20)
#define MAX_REPLY_BYTES (8u << 20)
#define LAST_FRAGMENT	0x80000000u
#define ANSWER_SECONDS	120

struct model_verf write_verf;
uint32_t max_write = 65536, max_read = 65536;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("nfs-model: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(2);
}

/* ------------------------------------------------------------------ messages */

void conn_open(struct conn *c, const char *host, int port, uint32_t first_xid)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	struct timeval limit = {.tv_sec = ANSWER_SECONDS};
	char service[16];
	int one = 1, rc;

	memset(c, 0, sizeof(*c));
	snprintf(service, sizeof(service), "%d", port);
	rc = getaddrinfo(host, service, &hints, &list);
	if (rc)
		die("%s: %s", host, gai_strerror(rc));
	c->fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(c->fd, list->ai_addr, list->ai_addrlen))
		die("%s:%d: %s", host, port, strerror(errno));
	freeaddrinfo(list);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->xid = first_xid;
	c->out = malloc(OUT_BYTES);
	if (!c->out)
		die("out of memory");
}

void conn_close(struct conn *c)
{
	if (c->has_zdr)
		zdr_destroy(&c->zdr);
	close(c->fd);
	free(c->out);
	free(c->in);
}

static bool all_sent(struct conn *c, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = send(c->fd, c->out + at, bytes - at, MSG_NOSIGNAL);

		if (n <= 0 && errno == EAGAIN)
			die("the server takes nothing for %d s", ANSWER_SECONDS);
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static bool all_received(struct conn *c, char *to, size_t bytes)
{
	while (bytes) {
		ssize_t n = recv(c->fd, to, bytes, 0);

		if (n < 0 && errno == EAGAIN)
			die("no answer for %d s", ANSWER_SECONDS);
		if (n <= 0)
			return false;
		to += n;
		bytes -= (size_t)n;
	}
	return true;
}

static uint32_t get_u32(const char *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return ntohl(v);
}

static void put_u32(char **p, uint32_t v)
{
	v = htonl(v);
	memcpy(*p, &v, 4);
	*p += 4;
}

/* One record; *bytes is its length. */
static bool receive(struct conn *c, size_t *bytes)
{
	uint32_t marker;

	*bytes = 0;
	do {
		char head[4];
		size_t part;

		if (!all_received(c, head, 4))
			return false;
		marker = get_u32(head);
		part = marker & ~LAST_FRAGMENT;
		if (*bytes + part > MAX_REPLY_BYTES)
			die("a reply of %zu bytes", *bytes + part);
		if (*bytes + part > c->in_room) {
			c->in_room = *bytes + part;
			c->in = realloc(c->in, c->in_room);
			if (!c->in)
				die("out of memory");
		}
		if (!all_received(c, c->in + *bytes, part))
			return false;
		*bytes += part;
	} while (!(marker & LAST_FRAGMENT));
	return true;
}

/* Call header with AUTH_SYS as root. */
static char *put_header(struct conn *c, uint32_t program, uint32_t procedure)
{
	char *p = c->out + 4;

	put_u32(&p, ++c->xid);
	put_u32(&p, 0); /* CALL */
	put_u32(&p, 2);
	put_u32(&p, program);
	put_u32(&p, 3);
	put_u32(&p, procedure);
	put_u32(&p, 1); /* AUTH_SYS: stamp, name "m", uid, gid, no groups */
	put_u32(&p, 24);
	put_u32(&p, 0);
	put_u32(&p, 1);
	memcpy(p, "m\0\0\0", 4);
	p += 4;
	put_u32(&p, 0);
	put_u32(&p, 0);
	put_u32(&p, 0);
	put_u32(&p, 0);
	put_u32(&p, 0);
	return p;
}

bool conn_call(struct conn *c, uint32_t program, uint32_t procedure, zdrproc_t encode, void *args,
	zdrproc_t decode, void *result)
{
	char *p = put_header(c, program, procedure), *head = c->out;
	size_t bytes;
	ZDR zdr;

	if (c->has_zdr)
		zdr_destroy(&c->zdr);
	c->has_zdr = false;
	zdrmem_create(&zdr, p, (uint32_t)(c->out + OUT_BYTES - p), ZDR_ENCODE);
	if (!encode(&zdr, args))
		die("cannot encode procedure %u", procedure);
	p += zdr_getpos(&zdr);
	zdr_destroy(&zdr);
	put_u32(&head, (uint32_t)(p - c->out - 4) | LAST_FRAGMENT);
	if (!all_sent(c, (size_t)(p - c->out)) || !receive(c, &bytes))
		return false;
	/* xid, REPLY, accepted, AUTH_NONE of no bytes, SUCCESS */
	if (bytes < 24 || get_u32(c->in) != c->xid || get_u32(c->in + 4) != 1 ||
		get_u32(c->in + 8) || get_u32(c->in + 16) || get_u32(c->in + 20))
		die("procedure %u: malformed or refused", procedure);
	zdrmem_create(&c->zdr, c->in + 24, (uint32_t)(bytes - 24), ZDR_DECODE);
	c->has_zdr = true;
	if (!decode(&c->zdr, result))
		die("procedure %u: cannot decode the result", procedure);
	if (zdr_getpos(&c->zdr) != bytes - 24)
		die("procedure %u: %zu bytes after the result", procedure,
			bytes - 24 - zdr_getpos(&c->zdr));
	return true;
}

#define CALL3(c, name, args, res)                                                  \
	conn_call(c, NFS_PROGRAM, NFS3_##name, (zdrproc_t)zdr_##name##3args, args, \
		(zdrproc_t)zdr_##name##3res, res)

void conn_mount(const char *host, int port, char *path, struct handle *root)
{
	mountres3 r = {0};
	struct conn c;

	conn_open(&c, host, port, 1);
	if (!conn_call(&c, MOUNT_PROGRAM, MOUNT3_MNT, (zdrproc_t)zdr_dirpath, &path,
		    (zdrproc_t)zdr_mountres3, &r))
		die("MNT: connection closed");
	if (r.fhs_status != MNT3_OK)
		die("MNT %s: %d", path, (int)r.fhs_status);
	root->len = r.mountres3_u.mountinfo.fhandle.fhandle3_len;
	memcpy(root->data, r.mountres3_u.mountinfo.fhandle.fhandle3_val, root->len);
	conn_close(&c);
}

/* ------------------------------------------------------------------ XDR and ours */

static nfs_fh3 wire_fh(const struct handle *fh)
{
	nfs_fh3 w;

	w.data.data_len = fh->len;
	memcpy(&w.data.data_val, &(const char *){fh->data}, sizeof(char *));
	return w;
}

static void keep_fh(const nfs_fh3 *from, struct handle *to)
{
	if (from->data.data_len > MODEL_FH_MAX)
		die("file handle of %u bytes", from->data.data_len);
	to->len = from->data.data_len;
	memcpy(to->data, from->data.data_val, to->len);
}

void wire_attrs(const fattr3 *a, struct attrs *to)
{
	*to = (struct attrs){.type = a->type,
		.mode = a->mode,
		.nlink = a->nlink,
		.uid = a->uid,
		.gid = a->gid,
		.rdev_major = a->rdev.specdata1,
		.rdev_minor = a->rdev.specdata2,
		.size = a->size,
		.fileid = a->fileid,
		.fsid = a->fsid,
		.mtime = {a->mtime.seconds, a->mtime.nseconds},
		.ctime = {a->ctime.seconds, a->ctime.nseconds}};
}

static void keep_post(const post_op_attr *a, struct result *res)
{
	res->has_attr = a->attributes_follow;
	if (res->has_attr)
		wire_attrs(&a->post_op_attr_u.attributes, &res->attr);
}

static void keep_new(const post_op_fh3 *fh, const post_op_attr *attr, struct result *res)
{
	keep_post(attr, res);
	res->has_fh = fh->handle_follows;
	if (res->has_fh)
		keep_fh(&fh->post_op_fh3_u.handle, &res->fh);
}

static sattr3 wire_sattr(const struct op *op)
{
	sattr3 s;

	memset(&s, 0, sizeof(s));
	s.mode.set_it = (op->set & SET_MODE) != 0;
	s.mode.set_mode3_u.mode = op->mode;
	s.uid.set_it = (op->set & SET_UID) != 0;
	s.uid.set_uid3_u.uid = op->uid;
	s.gid.set_it = (op->set & SET_GID) != 0;
	s.gid.set_gid3_u.gid = op->gid;
	s.size.set_it = (op->set & SET_SIZE) != 0;
	s.size.set_size3_u.size = op->off;
	if (op->set & SET_ATIME_NOW)
		s.atime.set_it = SET_TO_SERVER_TIME;
	if (op->set & SET_MTIME_NOW)
		s.mtime.set_it = SET_TO_SERVER_TIME;
	if (op->set & SET_ATIME) {
		s.atime.set_it = SET_TO_CLIENT_TIME;
		s.atime.set_atime_u.atime = (nfstime3){op->atime.s, op->atime.ns};
	}
	if (op->set & SET_MTIME) {
		s.mtime.set_it = SET_TO_CLIENT_TIME;
		s.mtime.set_mtime_u.mtime = (nfstime3){op->mtime.s, op->mtime.ns};
	}
	return s;
}

static diropargs3 wire_where(const struct handle *dir, const char *name)
{
	diropargs3 d = {.dir = wire_fh(dir)};

	memcpy(&d.name, &name, sizeof(d.name)); /* libnfs writes to no name */
	return d;
}

static const char *check_verf(const char verf[8])
{
	const char *wrong = NULL;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (!write_verf.known)
		memcpy(write_verf.bytes, verf, 8);
	else if (memcmp(write_verf.bytes, verf, 8))
		wrong = "the write verifier changed";
	write_verf.known = true;
	pthread_mutex_unlock(&lock);
	return wrong;
}

void conn_fsinfo(struct conn *c, const struct handle *root)
{
	FSINFO3args a = {.fsroot = wire_fh(root)};
	FSINFO3res r = {0};

	if (!CALL3(c, FSINFO, &a, &r) || r.status != NFS3_OK)
		die("FSINFO failed");
	max_write = r.FSINFO3res_u.resok.wtmax < 1u << 20 ? r.FSINFO3res_u.resok.wtmax : 1u << 20;
	max_read = r.FSINFO3res_u.resok.rtmax < 1u << 20 ? r.FSINFO3res_u.resok.rtmax : 1u << 20;
}

/* ------------------------------------------------------------------ operations */

/* What all results begin with that only say how directories changed. */
static const char *check_wcc(const wcc_data *w)
{
	return w->after.attributes_follow ? NULL : "no attributes after the operation";
}

static bool op_create(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	CREATE3args a = {.where = wire_where(&fh->dir, op->name)};
	CREATE3res r = {0};

	a.how.mode = (createmode3)op->how;
	if (op->how == HOW_EXCLUSIVE)
		memcpy(a.how.createhow3_u.verf, &op->data, 8);
	else
		a.how.createhow3_u.obj_attributes = wire_sattr(op);
	if (!CALL3(c, CREATE, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_new(&r.CREATE3res_u.resok.obj, &r.CREATE3res_u.resok.obj_attributes, res);
		*wrong = check_wcc(&r.CREATE3res_u.resok.dir_wcc);
	}
	return true;
}

static bool op_mkdir(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	MKDIR3args a = {.where = wire_where(&fh->dir, op->name), .attributes = wire_sattr(op)};
	MKDIR3res r = {0};

	if (!CALL3(c, MKDIR, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_new(&r.MKDIR3res_u.resok.obj, &r.MKDIR3res_u.resok.obj_attributes, res);
		*wrong = check_wcc(&r.MKDIR3res_u.resok.dir_wcc);
	}
	return true;
}

static bool op_symlink(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	SYMLINK3args a = {.where = wire_where(&fh->dir, op->name)};
	SYMLINK3res r = {0};
	const char *target = op->target;

	a.symlink.symlink_attributes = wire_sattr(op);
	memcpy(&a.symlink.symlink_data, &target, sizeof(target));
	if (!CALL3(c, SYMLINK, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_new(&r.SYMLINK3res_u.resok.obj, &r.SYMLINK3res_u.resok.obj_attributes, res);
		*wrong = check_wcc(&r.SYMLINK3res_u.resok.dir_wcc);
	}
	return true;
}

static bool op_mknod(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	MKNOD3args a = {.where = wire_where(&fh->dir, op->name)};
	MKNOD3res r = {0};

	a.what.type = (ftype3)op->type;
	if (op->type == TYPE_CHR || op->type == TYPE_BLK) {
		a.what.mknoddata3_u.chr_device.dev_attributes = wire_sattr(op);
		a.what.mknoddata3_u.chr_device.spec.specdata1 = op->rdev_major;
		a.what.mknoddata3_u.chr_device.spec.specdata2 = op->rdev_minor;
	} else {
		a.what.mknoddata3_u.pipe_attributes = wire_sattr(op);
	}
	if (!CALL3(c, MKNOD, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_new(&r.MKNOD3res_u.resok.obj, &r.MKNOD3res_u.resok.obj_attributes, res);
		*wrong = check_wcc(&r.MKNOD3res_u.resok.dir_wcc);
	}
	return true;
}

static bool op_link(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	LINK3args a = {.file = wire_fh(&fh->node), .link = wire_where(&fh->dir, op->name)};
	LINK3res r = {0};

	if (!CALL3(c, LINK, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_post(&r.LINK3res_u.resok.file_attributes, res);
		*wrong = check_wcc(&r.LINK3res_u.resok.linkdir_wcc);
	}
	return true;
}

static bool op_remove(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	/* REMOVE and RMDIR have the same shape. */
	REMOVE3args a = {.object = wire_where(&fh->dir, op->name)};
	REMOVE3res r = {0};

	if (!conn_call(c, NFS_PROGRAM, op->kind == OP_RMDIR ? NFS3_RMDIR : NFS3_REMOVE,
		    (zdrproc_t)zdr_REMOVE3args, &a, (zdrproc_t)zdr_REMOVE3res, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK)
		*wrong = check_wcc(&r.REMOVE3res_u.resok.dir_wcc);
	return true;
}

static bool op_rename(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	RENAME3args a = {
		.from = wire_where(&fh->dir, op->name), .to = wire_where(&fh->dir2, op->name2)};
	RENAME3res r = {0};

	if (!CALL3(c, RENAME, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		*wrong = check_wcc(&r.RENAME3res_u.resok.fromdir_wcc);
		if (!*wrong)
			*wrong = check_wcc(&r.RENAME3res_u.resok.todir_wcc);
	}
	return true;
}

static bool op_setattr(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	SETATTR3args a = {.object = wire_fh(&fh->node), .new_attributes = wire_sattr(op)};
	SETATTR3res r = {0};

	if (!CALL3(c, SETATTR, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_post(&r.SETATTR3res_u.resok.obj_wcc.after, res);
		*wrong = check_wcc(&r.SETATTR3res_u.resok.obj_wcc);
	}
	return true;
}

static bool op_write(struct conn *c, const struct op *op, const struct op_handles *fh, void *buf,
	struct result *res, const char **wrong)
{
	WRITE3args a = {.file = wire_fh(&fh->node),
		.offset = op->off,
		.count = op->len,
		.stable = (stable_how)op->how,
		.data = {op->len, buf}};
	WRITE3res r = {0};

	data_fill(op->data, 0, buf, op->len);
	if (!CALL3(c, WRITE, &a, &r))
		return false;
	res->status = r.status;
	if (r.status != NFS3_OK)
		return true;
	keep_post(&r.WRITE3res_u.resok.file_wcc.after, res);
	res->count = r.WRITE3res_u.resok.count;
	res->committed = r.WRITE3res_u.resok.committed;
	*wrong = check_wcc(&r.WRITE3res_u.resok.file_wcc);
	if (!*wrong)
		*wrong = check_verf(r.WRITE3res_u.resok.verf);
	if (res->committed < op->how)
		*wrong = "less stable than asked for";
	if (res->count > op->len || (op->len && !res->count))
		*wrong = "count of WRITE";
	return true;
}

static bool op_commit(struct conn *c, const struct op *op, const struct op_handles *fh,
	struct result *res, const char **wrong)
{
	COMMIT3args a = {.file = wire_fh(&fh->node)};
	COMMIT3res r = {0};

	(void)op;
	if (!CALL3(c, COMMIT, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_post(&r.COMMIT3res_u.resok.file_wcc.after, res);
		*wrong = check_wcc(&r.COMMIT3res_u.resok.file_wcc);
		if (!*wrong)
			*wrong = check_verf(r.COMMIT3res_u.resok.verf);
	}
	return true;
}

static bool op_read(struct conn *c, const struct op *op, const struct op_handles *fh, void *buf,
	struct result *res, const char **wrong)
{
	READ3args a = {.file = wire_fh(&fh->node), .offset = op->off, .count = op->len};
	READ3res r = {0};

	if (!CALL3(c, READ, &a, &r))
		return false;
	res->status = r.status;
	if (r.status != NFS3_OK)
		return true;
	keep_post(&r.READ3res_u.resok.file_attributes, res);
	res->count = r.READ3res_u.resok.count;
	if (res->count > op->len || res->count != r.READ3res_u.resok.data.data_len)
		*wrong = "count of READ";
	else
		memcpy(buf, r.READ3res_u.resok.data.data_val, res->count);
	if (!res->has_attr)
		*wrong = "no attributes after READ";
	else if (!*wrong && !r.READ3res_u.resok.eof != (op->off + res->count < res->attr.size))
		*wrong = "eof of READ";
	return true;
}

static bool op_lookup(
	struct conn *c, const struct op *op, const struct op_handles *fh, struct result *res)
{
	LOOKUP3args a = {.what = wire_where(&fh->dir, op->name)};
	LOOKUP3res r = {0};

	if (!CALL3(c, LOOKUP, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_post(&r.LOOKUP3res_u.resok.obj_attributes, res);
		res->has_fh = true;
		keep_fh(&r.LOOKUP3res_u.resok.object, &res->fh);
	}
	return true;
}

static bool op_getattr(struct conn *c, const struct op_handles *fh, struct result *res)
{
	GETATTR3args a = {.object = wire_fh(&fh->node)};
	GETATTR3res r = {0};

	if (!CALL3(c, GETATTR, &a, &r))
		return false;
	res->status = r.status;
	res->has_attr = r.status == NFS3_OK;
	if (res->has_attr)
		wire_attrs(&r.GETATTR3res_u.resok.obj_attributes, &res->attr);
	return true;
}

/* buf: the target, terminated. */
static bool op_readlink(struct conn *c, const struct op_handles *fh, char *buf, struct result *res)
{
	READLINK3args a = {.symlink = wire_fh(&fh->node)};
	READLINK3res r = {0};

	if (!CALL3(c, READLINK, &a, &r))
		return false;
	res->status = r.status;
	if (r.status == NFS3_OK) {
		keep_post(&r.READLINK3res_u.resok.symlink_attributes, res);
		snprintf(buf, 4096, "%s", r.READLINK3res_u.resok.data);
	}
	return true;
}

static bool send_op(struct conn *c, const struct op *op, const struct op_handles *fh, void *buf,
	struct result *res, const char **wrong)
{
	switch (op->kind) {
	case OP_CREATE:
		return op_create(c, op, fh, res, wrong);
	case OP_MKDIR:
		return op_mkdir(c, op, fh, res, wrong);
	case OP_SYMLINK:
		return op_symlink(c, op, fh, res, wrong);
	case OP_MKNOD:
		return op_mknod(c, op, fh, res, wrong);
	case OP_LINK:
		return op_link(c, op, fh, res, wrong);
	case OP_UNLINK:
	case OP_RMDIR:
		return op_remove(c, op, fh, res, wrong);
	case OP_RENAME:
		return op_rename(c, op, fh, res, wrong);
	case OP_SETATTR:
		return op_setattr(c, op, fh, res, wrong);
	case OP_WRITE:
		return op_write(c, op, fh, buf, res, wrong);
	case OP_COMMIT:
		return op_commit(c, op, fh, res, wrong);
	case OP_READ:
		return op_read(c, op, fh, buf, res, wrong);
	case OP_LOOKUP:
		return op_lookup(c, op, fh, res);
	case OP_READLINK:
		return op_readlink(c, fh, buf, res);
	default:
		return op_getattr(c, fh, res);
	}
}

bool conn_op(struct conn *c, const struct op *op, const struct op_handles *fh, void *buf,
	struct result *res, const char **wrong)
{
	do {
		memset(res, 0, sizeof(*res));
		*wrong = NULL;
		if (!send_op(c, op, fh, buf, res, wrong))
			return false;
	} while (res->status == NFS3ERR_JUKEBOX && usleep(20000) == 0);
	return true;
}

/* ------------------------------------------------------------------ directories */

struct listing {
	uint64_t cookie;
	char verf[8];
	bool eof;
	unsigned n;
};

static const char *one_entry(struct listing *l, const char *name, uint64_t cookie, uint64_t fileid,
	const post_op_attr *attr, const post_op_fh3 *fh, conn_entry_fn fn, void *arg)
{
	struct attrs a;
	struct handle h;
	bool has_attr = attr && attr->attributes_follow, has_fh = fh && fh->handle_follows;

	l->cookie = cookie;
	l->n++;
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return NULL;
	if (has_attr)
		wire_attrs(&attr->post_op_attr_u.attributes, &a);
	if (has_fh)
		keep_fh(&fh->post_op_fh3_u.handle, &h);
	return fn(arg, name, fileid, has_fh ? &h : NULL, has_attr ? &a : NULL);
}

static bool page_plus(struct conn *c, const struct handle *dir, uint32_t bytes, struct listing *l,
	conn_entry_fn fn, void *arg, uint32_t *status, const char **wrong)
{
	READDIRPLUS3args a = {
		.dir = wire_fh(dir), .cookie = l->cookie, .dircount = bytes, .maxcount = bytes};
	READDIRPLUS3res r = {0};

	memcpy(a.cookieverf, l->verf, 8);
	if (!CALL3(c, READDIRPLUS, &a, &r))
		return false;
	*status = r.status;
	if (r.status != NFS3_OK)
		return true;
	memcpy(l->verf, r.READDIRPLUS3res_u.resok.cookieverf, 8);
	l->eof = r.READDIRPLUS3res_u.resok.reply.eof;
	for (entryplus3 *e = r.READDIRPLUS3res_u.resok.reply.entries; e && !*wrong;
		e = e->nextentry)
		*wrong = one_entry(l, e->name, e->cookie, e->fileid, &e->name_attributes,
			&e->name_handle, fn, arg);
	return true;
}

static bool page_plain(struct conn *c, const struct handle *dir, uint32_t bytes, struct listing *l,
	conn_entry_fn fn, void *arg, uint32_t *status, const char **wrong)
{
	READDIR3args a = {.dir = wire_fh(dir), .cookie = l->cookie, .count = bytes};
	READDIR3res r = {0};

	memcpy(a.cookieverf, l->verf, 8);
	if (!CALL3(c, READDIR, &a, &r))
		return false;
	*status = r.status;
	if (r.status != NFS3_OK)
		return true;
	memcpy(l->verf, r.READDIR3res_u.resok.cookieverf, 8);
	l->eof = r.READDIR3res_u.resok.reply.eof;
	for (entry3 *e = r.READDIR3res_u.resok.reply.entries; e && !*wrong; e = e->nextentry)
		*wrong = one_entry(l, e->name, e->cookie, e->fileid, NULL, NULL, fn, arg);
	return true;
}

bool conn_list(struct conn *c, const struct handle *dir, bool plus, uint32_t page_bytes,
	conn_entry_fn fn, void *arg, uint32_t *status, const char **wrong)
{
	struct listing l = {0};

	*wrong = NULL;
	do {
		l.n = 0;
		if (!(plus ? page_plus : page_plain)(
			    c, dir, page_bytes, &l, fn, arg, status, wrong))
			return false;
		if (*status == NFS3ERR_JUKEBOX) {
			usleep(20000);
			continue;
		}
		if (*status != NFS3_OK || *wrong)
			return true;
		if (!l.n && !l.eof)
			*wrong = "no entry and no eof";
	} while (!l.eof && !*wrong);
	return true;
}
