/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file or block device, through the io_uring of the submitting thread. */
#include "fscore/io/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/util.h"
#include "fscore/io/thread.h"

#define MIN_ALIGN_BYTES 4096u
/* Of one request; after that it is the device that does not want. */
#define MAX_RETRIES 1000u

struct dev_uring {
	struct dev dev;
	int fd;
};

/* ------------------------------------------------------------- requests */

void dev_uring_prepare(struct io_req *req, struct io_uring_sqe *sqe)
{
	int fd = container_of(req->dev, struct dev_uring, dev)->fd;
	const struct iovec *iov = req->rest_iov ? req->rest_iov : req->iov;
	uint64_t physical = req->physical + req->done_bytes;

	switch (req->op) {
	case IO_READ:
		io_uring_prep_readv(sqe, fd, iov, req->n_iov, physical);
		break;
	case IO_WRITE:
		io_uring_prep_writev2(sqe, fd, iov, req->n_iov, physical, req->fua ? RWF_DSYNC : 0);
		break;
	case IO_FLUSH:
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
		break;
	case IO_DISCARD:
		/* Of a block device, too. */
		io_uring_prep_fallocate(sqe, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			req->physical, req->len_bytes);
		break;
	}
}

static void uring_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req)
{
	(void)dev;
	thread_queue(t, req);
}

/*
 * Empties the first bytes of rest_iov. Entries are kept in place, with length 0,
 * so that their number need not change.
 */
static void skip_bytes(struct iovec *iov, size_t bytes)
{
	for (; bytes; iov++) {
		size_t part = MIN(bytes, iov->iov_len);

		iov->iov_base = (char *)iov->iov_base + part;
		iov->iov_len -= part;
		bytes -= part;
	}
}

/* Only part of it was transferred: prepares to go on with the rest. */
static int advance(struct io_req *req, size_t bytes)
{
	if (!req->rest_iov) {
		req->rest_iov = malloc(req->n_iov * sizeof(*req->rest_iov));
		if (!req->rest_iov)
			return -ENOMEM;
		memcpy(req->rest_iov, req->iov, req->n_iov * sizeof(*req->rest_iov));
	}
	skip_bytes(req->rest_iov, bytes);
	req->done_bytes += bytes;
	return 0;
}

/* 0 or an error: it has ended; 1: it goes on. */
static int take_result(struct io_req *req, int res)
{
	if (res == -EINTR || res == -EAGAIN)
		return req->retries++ < MAX_RETRIES ? 1 : -EIO;
	if (res < 0 || req->op == IO_FLUSH || req->op == IO_DISCARD)
		return res;
	if (req->done_bytes + (size_t)res == req->len_bytes)
		return 0;
	/* Nothing at all: the file has become shorter, or is full. */
	if (res == 0)
		return -EIO;
	return advance(req, (size_t)res) ? -ENOMEM : 1;
}

bool dev_uring_result(struct io_req *req, int res)
{
	int status = take_result(req, res);

	if (status == 1) {
		thread_queue(req->thread, req);
		return false;
	}
	dev_complete(req, status);
	return true;
}

static void uring_destroy(struct dev *dev)
{
	struct dev_uring *u = container_of(dev, struct dev_uring, dev);

	close(u->fd); /* and with it the lock */
	free(u);
}

static const struct dev_ops uring_ops = {
	.submit = uring_submit,
	.destroy = uring_destroy,
};

/* ------------------------------------------------------------- locking */

/* Whether the loop device at loop_dir (/sys/block/loopN) is attached to the file. */
static bool loop_uses(const char *loop_dir, const struct stat *file)
{
	static const char deleted[] = " (deleted)";
	char name[4096];
	struct loop_info64 info;
	struct stat st;
	int fd, ret;

	snprintf(name, sizeof(name), "/dev/%s", strrchr(loop_dir, '/') + 1);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		ret = ioctl(fd, LOOP_GET_STATUS64, &info);
		close(fd);
		if (ret == 0)
			return info.lo_device == file->st_dev && info.lo_inode == file->st_ino;
	}
	/* No right to open it: its name has to do. */
	snprintf(name, sizeof(name), "%s/loop/backing_file", loop_dir);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t len = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (len <= 0)
		return false;
	name[len] = '\0';
	name[strcspn(name, "\n")] = '\0';
	size_t n = strlen(name), m = sizeof(deleted) - 1;
	if (n > m && strcmp(name + n - m, deleted) == 0)
		name[n - m] = '\0';
	return stat(name, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* The kernel does not lock a file that is attached to a loop device: look for it. */
static int check_loops(const char *path, const struct stat *file)
{
	glob_t found;
	int ret = 0;

	/* Only those that are attached have the directory "loop". */
	if (glob("/sys/block/loop*/loop", 0, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc && !ret; i++) {
		char *dir = found.gl_pathv[i];

		*strrchr(dir, '/') = '\0';
		if (!loop_uses(dir, file))
			continue;
		log_error("%s: in use: /dev/%s is attached to it", path, strrchr(dir, '/') + 1);
		ret = -EBUSY;
	}
	globfree(&found);
	return ret;
}

static int lock_file(int fd, const char *path, const struct stat *st)
{
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		int ret = errno == EWOULDBLOCK ? -EBUSY : -errno;

		if (ret == -EBUSY)
			log_error("%s: in use: another process has locked it", path);
		else
			log_error("%s: cannot be locked: %s", path, strerror(-ret));
		return ret;
	}
	return S_ISREG(st->st_mode) ? check_loops(path, st) : 0;
}

/* ------------------------------------------------------------- opening */

/* O_DIRECT: our caches are the only ones. Where a file system lacks it, it says EINVAL. */
static int open_direct(const char *path, int flags)
{
	int fd = open(path, flags | O_DIRECT | O_CLOEXEC);

	if (fd < 0 && errno == EINVAL)
		fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The descriptor or an error. */
static int open_path(const char *path, bool exclusive, bool *read_only)
{
	/* For a block device: fails while it is mounted or opened like this elsewhere. */
	int flags = exclusive ? O_EXCL : 0;
	int fd;

	if (!*read_only) {
		fd = open_direct(path, flags | O_RDWR);
		if (fd != -EACCES && fd != -EPERM && fd != -EROFS)
			return fd;
		*read_only = true;
	}
	return open_direct(path, flags | O_RDONLY);
}

static int find_size(struct dev_uring *u, const struct stat *st)
{
	int sector = 0;

	u->dev.align_bytes = MIN_ALIGN_BYTES;
	if (S_ISREG(st->st_mode)) {
		u->dev.size_bytes = (uint64_t)st->st_size;
		return 0;
	}
	if (!S_ISBLK(st->st_mode))
		return -ENOTBLK;
	if (ioctl(u->fd, BLKGETSIZE64, &u->dev.size_bytes) || ioctl(u->fd, BLKSSZGET, &sector))
		return -errno;
	u->dev.align_bytes = MAX(MIN_ALIGN_BYTES, (uint32_t)sector);
	return 0;
}

static int cannot_open(const char *path, int err)
{
	if (err == -EBUSY)
		log_error("%s: in use: mounted, or opened by another process", path);
	else if (err == -ENOTBLK)
		log_error("%s: neither a file nor a block device", path);
	else
		log_error("%s: %s", path, strerror(-err));
	return err;
}

static int open_and_lock(struct dev_uring *u, const char *path, bool no_lock)
{
	bool was_read_only = u->dev.read_only;
	struct stat st;
	int ret;

	if (stat(path, &st))
		return cannot_open(path, -errno);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return cannot_open(path, -ENOTBLK);
	u->fd = open_path(path, !no_lock && S_ISBLK(st.st_mode), &u->dev.read_only);
	if (u->fd < 0)
		return cannot_open(path, u->fd);
	/* Of what was opened: path may have changed. */
	ret = fstat(u->fd, &st) ? -errno : find_size(u, &st);
	if (ret)
		cannot_open(path, ret);
	else if (!no_lock)
		ret = lock_file(u->fd, path, &st);
	if (ret)
		close(u->fd);
	else if (u->dev.read_only && !was_read_only)
		log_notice("%s: opened read-only: there is no right to write it", path);
	return ret;
}

int dev_uring_open(const char *path, bool read_only, bool no_lock, struct dev **out)
{
	struct dev_uring *u = calloc(1, sizeof(*u));
	int ret;

	if (!u)
		return -ENOMEM;
	might_wait("dev_uring_open");
	u->dev.ops = &uring_ops;
	u->dev.read_only = read_only;
	ret = open_and_lock(u, path, no_lock);
	if (ret) {
		free(u);
		return ret;
	}
	*out = &u->dev;
	return 0;
}
