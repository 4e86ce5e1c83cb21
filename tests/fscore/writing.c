/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/writing.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/volume/open.h"

struct writing w;

static void open_volume(bool read_only, const struct fault_rule *rule)
{
	struct fsc_open_options opt = {.cache_bytes = w.cache_bytes ? w.cache_bytes : 64u << 20,
		.read_only = read_only,
		.discard = w.discard};
	struct dev *dev;

	assert_int_equal(fsc_thread_create(&w.thread), 0);
	w.ctx = (struct fsc_ctx){.thread = w.thread};
	assert_int_equal(dev_uring_open(w.path, read_only, false, &dev), 0);
	assert_int_equal(dev_fault_create(dev, &w.fault), 0);
	if (rule)
		assert_int_equal(dev_fault_add(w.fault, rule), 0);
	assert_int_equal(volume_open_dev(w.thread, w.fault, w.path, &opt, &w.vol), 0);
	assert_int_equal(fsc_inode_get(&w.ctx, w.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &w.root), 0);
}

void writing_load(void)
{
	open_volume(false, NULL);
}

void writing_load_read_only(void)
{
	open_volume(true, NULL);
}

void writing_load_with(const struct fault_rule *rule)
{
	open_volume(false, rule);
}

void writing_shut(void)
{
	fsc_inode_put(w.root);
	fsc_volume_close(w.thread, w.vol);
	fsc_thread_destroy(w.thread);
}

static int make_file(void)
{
	int fd;

	strcpy(w.path, "/tmp/byre-write-XXXXXX");
	fd = mkstemp(w.path);
	assert_true(fd >= 0);
	return fd;
}

void writing_make_of(const void *volume, size_t bytes)
{
	const char *data = volume;
	int fd = make_file();

	for (size_t done = 0; done < bytes;) {
		ssize_t n = write(fd, data + done, bytes - done);

		assert_true(n > 0);
		done += (size_t)n;
	}
	close(fd);
	writing_load();
}

void writing_make(const char *mkfs_options)
{
	char command[512];

	close(make_file());
	snprintf(command, sizeof(command),
		"PATH=$PATH:/sbin:/usr/sbin; truncate -s 512M %s && mkfs.btrfs -q %s %s >/dev/null",
		w.path, mkfs_options, w.path);
	assert_int_equal(system(command), 0);
	writing_load();
}

static void check_volume(void)
{
	char command[512];

	snprintf(command, sizeof(command),
		"PATH=$PATH:/sbin:/usr/sbin; btrfs check --readonly --check-data-csum %s >%s.log 2>&1 || "
		"{ tail -n 30 %s.log; exit 1; }",
		w.path, w.path, w.path);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s.log", w.path);
	unlink(command);
}

void writing_reopen(void)
{
	writing_shut();
	check_volume();
	writing_load();
}

void writing_end(void)
{
	writing_shut();
	check_volume();
	unlink(w.path);
}

static bool sync_ended;

static void on_sync(struct fsc_sync *sync)
{
	(void)sync;
	sync_ended = true;
}

int writing_sync(struct fsc_inode *inode)
{
	struct fsc_sync sync = {.thread = w.thread, .done = on_sync};
	int ret;

	sync_ended = false;
	ret = fsc_sync_inode(inode, &sync);
	if (ret != -EINPROGRESS)
		return ret;
	while (!sync_ended)
		fsc_thread_wait(w.thread);
	return sync.status;
}

/* ------------------------------------------------------------------------- files */

static uint8_t byte_at(enum bytes_kind kind, unsigned seed, uint64_t off)
{
	switch (kind) {
	case BYTES_TEXT:
		/* Lines that differ in a few places. */
		if (off % 61 < 6)
			return (uint8_t)('a' + hash_mix64(off / 61 + seed) % 26);
		return (uint8_t)("the quick brown cow jumps over the lazy byre "[off % 45]);
	case BYTES_RANDOM:
		return (uint8_t)hash_mix64(off + ((uint64_t)seed << 40));
	case BYTES_ZERO:
		break;
	}
	return 0;
}

void model_create(struct model *m, struct fsc_inode *dir, const char *name, size_t max)
{
	struct fsc_new n = {.mode = S_IFREG | 0644};

	*m = (struct model){.bytes = calloc(1, max), .max = max};
	assert_non_null(m->bytes);
	snprintf(m->name, sizeof(m->name), "%s", name);
	assert_int_equal(fsc_create(&w.ctx, dir, name, strlen(name), &n, &m->inode), 0);
}

void model_open(struct model *m)
{
	assert_int_equal(fsc_lookup(&w.ctx, w.root, m->name, strlen(m->name), &m->inode), 0);
}

void model_close(struct model *m)
{
	fsc_inode_put(m->inode);
	m->inode = NULL;
}

void model_free(struct model *m)
{
	model_close(m);
	free(m->bytes);
}

void model_write(struct model *m, uint64_t off, size_t len, enum bytes_kind kind, unsigned seed)
{
	struct iovec iov = {m->bytes + off, len};

	assert_true(off + len <= m->max);
	for (size_t i = 0; i < len; i++)
		m->bytes[off + i] = byte_at(kind, seed, off + i);
	assert_int_equal(fsc_write(&w.ctx, m->inode, off, &iov, 1), 0);
	m->size = MAX(m->size, off + len);
}

void model_truncate(struct model *m, uint64_t size)
{
	struct fsc_setattr set = {.mask = FSC_SET_SIZE, .size_bytes = size};

	assert_true(size <= m->max);
	assert_int_equal(fsc_setattr(&w.ctx, m->inode, &set), 0);
	if (size < m->size)
		memset(m->bytes + size, 0, m->size - size);
	m->size = size;
}

void model_sync(struct model *m)
{
	assert_int_equal(writing_sync(m->inode), 0);
}

static void compare_part(struct model *m, uint64_t off, size_t len)
{
	struct fsc_read rd = {.file_off = off, .len_bytes = len};
	size_t done = 0;

	assert_int_equal(fsc_read(&w.ctx, m->inode, &rd), 0);
	assert_int_equal(rd.result_bytes, len);
	for (unsigned k = 0; k < rd.n_iov; k++) {
		const uint8_t *got = rd.iov[k].iov_base;

		for (size_t i = 0; i < rd.iov[k].iov_len; i++, done++)
			if (got[i] != m->bytes[off + done])
				fail_msg("%s: wrong byte at %llu", m->name,
					(unsigned long long)(off + done));
	}
	fsc_read_release(&rd);
}

void model_compare(struct model *m)
{
	struct fsc_attr attr;

	fsc_inode_attr(m->inode, &attr);
	assert_int_equal(attr.size_bytes, m->size);
	for (uint64_t off = 0; off < m->size; off += 1u << 20)
		compare_part(m, off, MIN(m->size - off, 1u << 20));
}

/* ------------------------------------------------------------------------ extents */

static void see(const struct tree_path *path, struct extents_seen *seen)
{
	const struct btrfs_file_extent_item *fi = path_data(path);

	if (fi->type == BTRFS_FILE_EXTENT_INLINE) {
		seen->n_inline++;
		seen->n_of_type[fi->compression]++;
		return;
	}
	if (!GET(fi, disk_bytenr))
		return;
	if (fi->type == BTRFS_FILE_EXTENT_PREALLOC)
		seen->n_prealloc++;
	else
		seen->n_regular++;
	seen->n_of_type[fi->compression]++;
	seen->disk_bytes += GET(fi, disk_num_bytes);
	if (!path_key(path).offset)
		seen->first_logical = GET(fi, disk_bytenr) + GET(fi, offset);
}

void extents_see(struct fsc_inode *inode, struct extents_seen *seen)
{
	struct btrfs_key key = key_make(inode->ino, BTRFS_EXTENT_DATA_KEY, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(&w.ctx, &inode->subvol->root, &key, &path);

	*seen = (struct extents_seen){0};
	while (ret >= 0 && path_is_at(&path, inode->ino, BTRFS_EXTENT_DATA_KEY)) {
		see(&path, seen);
		ret = tree_next(&w.ctx, &path);
	}
	assert_true(ret >= 0);
	path_release(&path);
}
