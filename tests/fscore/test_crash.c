/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Power cuts. A workload runs on a volume on a recording device; then the disk is
 * made as a cut would have left it, at a thousand places and more: what a flush has
 * made durable is there; of what came after, everything, a part in any order, or
 * nothing, the last write perhaps torn. Each such disk must open, pass btrfs check
 * and hold everything that was acknowledged.
 *
 * BYRE_CRASH_CUTS      how many cuts for each volume (1,000)
 * BYRE_CRASH_CHECKS    how many of these btrfs check sees, beside those around
 *                      superblocks and flushes (100)
 * BYRE_CRASH_SECONDS   the most that one volume may take (240); too few cuts fail
 * BYRE_CRASH_SEED      another workload
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/util.h"
#include "fscore/io/dev.h"
#include "fscore/volume/open.h"
#include "tests/fscore/crash_work.h"

#define IMAGE_BYTES ((size_t)128 << 20)
#define SECTOR	    4096u
#define OPERATIONS  400u

/* ------------------------------------------------------------------ a disk to cut */

/* What a write replaced. */
struct undo {
	uint64_t at;
	size_t bytes;
	uint8_t *old;
};

/* The image in its file, with what undoes the latest writes to it. */
struct disk {
	uint8_t *bytes;
	char *path;
	struct short_lock lock; /* guards the rest: the volume's threads write, too */
	struct undo *undos;
	size_t n, room;
};

static void disk_write(struct disk *d, uint64_t at, const void *data, size_t bytes)
{
	struct undo *u;

	if (at + bytes > IMAGE_BYTES)
		abort();
	if (d->n == d->room) {
		d->room = d->room ? 2 * d->room : 256;
		d->undos = reallocarray(d->undos, d->room, sizeof(*d->undos));
		if (!d->undos)
			abort();
	}
	u = &d->undos[d->n++];
	*u = (struct undo){at, bytes, malloc(bytes)};
	if (!u->old)
		abort();
	memcpy(u->old, d->bytes + at, bytes);
	memcpy(d->bytes + at, data, bytes);
}

static void disk_forget(struct disk *d)
{
	while (d->n)
		free(d->undos[--d->n].old);
}

static void disk_undo(struct disk *d)
{
	while (d->n) {
		struct undo *u = &d->undos[--d->n];

		memcpy(d->bytes + u->at, u->old, u->bytes);
		free(u->old);
	}
}

/* A device on the disk: a volume that is opened for writing changes it, and that is undone. */
struct dev_view {
	struct dev dev;
	struct disk *disk;
};

static void view_submit(struct dev *dev, struct fsc_thread *t, struct io_req *req)
{
	struct disk *d = container_of(dev, struct dev_view, dev)->disk;
	uint64_t at = req->physical;

	(void)t;
	short_lock(&d->lock);
	for (unsigned i = 0; req->op != IO_FLUSH && i < req->n_iov; i++) {
		if (req->op == IO_WRITE)
			disk_write(d, at, req->iov[i].iov_base, req->iov[i].iov_len);
		else
			memcpy(req->iov[i].iov_base, d->bytes + at, req->iov[i].iov_len);
		at += req->iov[i].iov_len;
	}
	short_unlock(&d->lock);
	dev_complete_later(req, 0);
}

static void view_destroy(struct dev *dev)
{
	free(container_of(dev, struct dev_view, dev));
}

static const struct dev_ops view_ops = {view_submit, view_destroy};

static struct dev *view_create(struct disk *d)
{
	struct dev_view *v = calloc(1, sizeof(*v));

	if (!v)
		abort();
	v->dev.ops = &view_ops;
	v->dev.size_bytes = IMAGE_BYTES;
	v->dev.align_bytes = SECTOR;
	v->disk = d;
	return &v->dev;
}

/* ------------------------------------------------------------------ cutting */

static struct {
	struct disk disk;
	struct fsc_thread *thread;
	struct dev *record; /* with the volume that was worked on, kept for its records */
	struct fsc_volume *vol;
	struct crash_work *work;
	uint64_t random;
	size_t first, n_records; /* cuts begin at the first */
	uint8_t *base;		 /* the disk at that time */
	/* the cut that is being looked at, for messages */
	size_t cut;
	const char *how;
	unsigned cuts, opened_rw, with_log, checked;
} t;

static uint64_t rnd(void)
{
	t.random ^= t.random << 13;
	t.random ^= t.random >> 7;
	t.random ^= t.random << 17;
	return t.random >> 8;
}

static struct record_entry entry(size_t i)
{
	struct record_entry e;

	dev_record_entry(t.record, i, &e);
	return e;
}

static bool is_super(const struct record_entry *e)
{
	return e->op == IO_WRITE && e->physical <= 65536 && e->physical + e->len_bytes > 65536;
}

static void replay(size_t i)
{
	struct record_entry e = entry(i);

	if (e.op == IO_WRITE)
		disk_write(&t.disk, e.physical, e.data, e.len_bytes);
}

/* Any of its sectors, each whole. */
static void replay_torn(size_t i)
{
	struct record_entry e = entry(i);
	bool prefix = rnd() % 2;
	size_t sectors = e.op == IO_WRITE ? e.len_bytes / SECTOR : 0;
	size_t keep = sectors ? rnd() % sectors : 0;

	for (size_t s = 0; s < sectors; s++)
		if (prefix ? s < keep : rnd() % 2)
			disk_write(&t.disk, e.physical + s * SECTOR,
				(const uint8_t *)e.data + s * SECTOR, SECTOR);
}

enum how {
	CUT_ALL,     /* everything that had completed */
	CUT_DURABLE, /* only what a flush covers */
	CUT_SOME,    /* any of the rest */
	CUT_AHEAD,   /* and any of what completed later, up to the next barrier */
	CUT_TORN,
	CUT_HOWS
};

static const char *const how_names[CUT_HOWS] = {
	"all that was written", "nothing unflushed", "some", "some that ended later", "torn"};

/* Makes the disk of this cut on top of the durable one. Returns up to where records may show. */
static size_t make_cut(size_t durable, size_t cut, size_t barrier, enum how how)
{
	bool torn = how == CUT_TORN && cut > durable;
	size_t last = cut;

	for (size_t i = durable; i < cut - torn; i++)
		if (how == CUT_ALL || entry(i).fua || how == CUT_TORN ||
			((how == CUT_SOME || how == CUT_AHEAD) && rnd() % 2))
			replay(i);
	if (torn)
		replay_torn(cut - 1);
	for (size_t i = cut; how == CUT_AHEAD && i < barrier; i++)
		if (rnd() % 4 == 0) {
			replay(i);
			last = i + 1;
		}
	return last;
}

static void broken(const char *what, const char *why)
{
	char *keep;

	if (asprintf(&keep, "%s.cut-%zu", t.disk.path, t.cut) >= 0) {
		FILE *f = fopen(keep, "w");

		if (f && fwrite(t.disk.bytes, 1, IMAGE_BYTES, f) == IMAGE_BYTES && !fclose(f))
			fprintf(stderr, "the disk is kept: %s\n", keep);
		free(keep);
	}
	fail_msg("cut at record %zu of %zu (%s): %s: %s", t.cut, t.n_records, t.how, what, why);
}

/* Whether a copy of the superblock names a log, whose content counts. */
static bool has_log(void)
{
	for (unsigned i = 0; super_mirror_physical(i) < IMAGE_BYTES; i++) {
		const struct btrfs_super_block *sb =
			(const void *)(t.disk.bytes + super_mirror_physical(i));

		if (GET(sb, magic) == BTRFS_MAGIC && GET(sb, log_root))
			return true;
	}
	return false;
}

static void look(size_t began, bool with_check)
{
	bool log = has_log(), rw = log || t.cuts % 4 == 0;
	struct fsc_open_options opt = {.read_only = !rw, .cache_bytes = 8u << 20};
	struct fsc_volume *vol;
	int ret;

	if (with_check) {
		t.checked++;
		if (!crash_btrfs_check(t.disk.path))
			broken("btrfs check", "see above");
	}
	ret = volume_open_dev(t.thread, view_create(&t.disk), "cut", &opt, &vol);
	if (ret)
		broken("open", strerror(-ret));
	if (!crash_work_check(t.work, t.thread, vol, t.cut, began))
		broken("content", crash_work_why(t.work));
	fsc_volume_close(t.thread, vol);
	t.opened_rw += rw;
	t.with_log += log;
	/* What it did to the disk when it was opened for writing must be right as well. */
	if (rw && with_check && !crash_btrfs_check(t.disk.path))
		broken("btrfs check after it was opened for writing", "see above");
}

static void try_cut(size_t durable, size_t cut, size_t barrier, enum how how, bool with_check)
{
	size_t began;

	/* What was torn had not completed: nobody has been told yet that it is durable. */
	t.cut = how == CUT_TORN && cut > durable && entry(cut - 1).fua ? cut - 1 : cut;
	t.how = how_names[how];
	began = make_cut(durable, cut, barrier, how);
	look(began, with_check);
	disk_undo(&t.disk);
	t.cuts++;
}

static unsigned long setting(const char *name, unsigned long otherwise)
{
	const char *value = getenv(name);

	return value ? strtoul(value, NULL, 0) : otherwise;
}

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* Around one record: those that matter in every way, others by chance. */
static void cuts_at(
	size_t durable, size_t cut, size_t barrier, unsigned percent, unsigned check_percent)
{
	struct record_entry before = cut ? entry(cut - 1) : (struct record_entry){0};
	bool matters = cut == barrier || before.op == IO_FLUSH || is_super(&before);

	if (matters)
		for (int how = 0; how < CUT_HOWS; how++)
			try_cut(durable, cut, barrier, (enum how)how, how == CUT_ALL);
	else if (rnd() % 100 < percent)
		try_cut(durable, cut, barrier, (enum how)(rnd() % CUT_HOWS),
			rnd() % 100 < check_percent);
}

/* What comes later can't have been on its way at i: a flush, or what was durable at once. */
static size_t barrier_after(size_t i)
{
	while (i < t.n_records && entry(i).op != IO_FLUSH) {
		if (entry(i).fua)
			return i + 1;
		i++;
	}
	return i;
}

static void make_durable(size_t *durable, size_t upto)
{
	for (; *durable < upto; ++*durable)
		replay(*durable);
	disk_forget(&t.disk);
}

/* From the first record to the last. */
static void one_pass(unsigned percent, unsigned check_percent, time_t end)
{
	size_t durable = t.first;

	memcpy(t.disk.bytes, t.base, IMAGE_BYTES);
	for (size_t cut = t.first; cut <= t.n_records && now() < end; cut++) {
		if (cut > t.first && entry(cut - 1).op == IO_FLUSH)
			make_durable(&durable, entry(cut - 1).covers);
		cuts_at(durable, cut, barrier_after(cut), percent, check_percent);
	}
}

static void all_cuts(void)
{
	unsigned long want = setting("BYRE_CRASH_CUTS", 1000);
	unsigned long checks = setting("BYRE_CRASH_CHECKS", 100);
	time_t end = now() + (time_t)setting("BYRE_CRASH_SECONDS", 240);
	unsigned percent = (unsigned)MIN(100, 1 + want * 100 / (t.n_records - t.first + 1));
	unsigned check_percent = (unsigned)MIN(100, checks * 100 / (want + 1));

	do
		one_pass(percent, check_percent, end);
	while (t.cuts < want && now() < end);
	printf("# %zu records, %u cuts, %u opened for writing, %u with a log, %u checked\n",
		t.n_records - t.first, t.cuts, t.opened_rw, t.with_log, t.checked);
	assert_true(t.cuts >= want);
}

/* ------------------------------------------------------------------ the workload */

static void open_recorded(void)
{
	struct fsc_open_options opt = {.cache_bytes = 32u << 20, .discard = true};
	struct dev *mem;

	assert_int_equal(dev_mem_create(t.disk.bytes, IMAGE_BYTES, &mem), 0);
	assert_int_equal(dev_record_create(mem, &t.record), 0);
	assert_int_equal(volume_open_dev(t.thread, t.record, "crash", &opt, &t.vol), 0);
}

static void work(void)
{
	uint64_t seed = setting("BYRE_CRASH_SEED", 1);
	int error;

	t.work = crash_work_begin(t.thread, t.vol, t.record, seed, &error);
	if (!t.work)
		fail_msg("the directories: %s", strerror(-error));
	/* Cuts begin where the directories are there. */
	t.first = dev_record_count(t.record);
	for (size_t i = 0; i < t.first; i++)
		replay(i);
	disk_forget(&t.disk);
	t.base = malloc(IMAGE_BYTES);
	assert_non_null(t.base);
	memcpy(t.base, t.disk.bytes, IMAGE_BYTES);
	if (crash_work_run(t.work, OPERATIONS, false) < 0)
		fail_msg("%s", crash_work_why(t.work));
	assert_int_equal(crash_work_sync(t.work), 0);
	t.n_records = dev_record_count(t.record);
	crash_work_detach(t.work);
}

static void set_up(const char *mkfs_options)
{
	memset(&t, 0, sizeof(t));
	t.random = hash_mix64(setting("BYRE_CRASH_SEED", 1)) | 1;
	short_lock_init(&t.disk.lock, RANK_DEVICE);
	assert_int_equal(fsc_thread_create(&t.thread), 0);
	t.disk.bytes = crash_image(mkfs_options, IMAGE_BYTES, &t.disk.path);
	open_recorded();
}

static void clean_up(void)
{
	fsc_volume_close(t.thread, t.vol); /* and the records */
	munmap(t.disk.bytes, IMAGE_BYTES);
	unlink(t.disk.path);
	free(t.disk.path);
	free(t.disk.undos);
	free(t.base);
	fsc_thread_destroy(t.thread);
}

static void crash_volume(const char *mkfs_options)
{
	set_up(mkfs_options);
	work();
	all_cuts();
	crash_work_destroy(t.work);
	clean_up();
}

static void test_crash_default_volume_loses_nothing_acknowledged(void **state)
{
	(void)state;
	crash_volume(NULL);
}

static void test_crash_small_nodes_loses_nothing_acknowledged(void **state)
{
	(void)state;
	crash_volume("-n 4096 -O ^no-holes --csum xxhash -m single");
}

static void test_crash_small_nodes_with_a_log_loses_nothing_acknowledged(void **state)
{
	(void)state;
	crash_volume("-n 4096 --csum xxhash -m single");
}

static void test_crash_mixed_volume_loses_nothing_acknowledged(void **state)
{
	(void)state;
	crash_volume("-M");
}

/* ------------------------------------------------------------------ one long truncation */

#define TRUNCATE_EXTENTS 1500u
#define TRUNCATE_TRIES	 20u

static atomic_bool commits_end;

/* Commits as often as it can, so that some of it falls between the truncation's transactions. */
static void *commits_main(void *arg)
{
	struct fsc_ctx ctx = {0};

	(void)arg;
	if (fsc_thread_create(&ctx.thread))
		abort();
	while (!atomic_load(&commits_end))
		if (fsc_sync_all(&ctx, t.vol))
			abort();
	fsc_thread_destroy(ctx.thread);
	return NULL;
}

/* A file of which every other sector is written, and then none is left. Ends on the disk. */
static void truncate_long(const char *name)
{
	struct fsc_ctx ctx = {.thread = t.thread};
	struct fsc_new new_inode = {.mode = S_IFREG | 0644};
	struct fsc_setattr set = {.mask = FSC_SET_SIZE, .size_bytes = 100};
	struct fsc_inode *root, *file;
	struct iovec iov = {t.base, SECTOR};
	pthread_t id;

	assert_int_equal(fsc_inode_get(&ctx, t.vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	assert_int_equal(fsc_create(&ctx, root, name, strlen(name), &new_inode, &file), 0);
	for (unsigned i = 0; i < TRUNCATE_EXTENTS; i++)
		assert_int_equal(fsc_write(&ctx, file, (uint64_t)i * 2 * SECTOR, &iov, 1), 0);
	assert_int_equal(fsc_sync_all(&ctx, t.vol), 0);
	t.first = dev_record_count(t.record);
	atomic_store(&commits_end, false);
	assert_int_equal(pthread_create(&id, NULL, commits_main, NULL), 0);
	assert_int_equal(fsc_setattr(&ctx, file, &set), 0);
	atomic_store(&commits_end, true);
	assert_int_equal(pthread_join(id, NULL), 0);
	assert_int_equal(fsc_sync_all(&ctx, t.vol), 0);
	t.n_records = dev_record_count(t.record);
	fsc_inode_put(file);
	fsc_inode_put(root);
}

/* The file's size on the disk as it is. */
static uint64_t size_on_disk(const char *name)
{
	struct fsc_open_options opt = {.read_only = true, .cache_bytes = 8u << 20};
	struct fsc_ctx ctx = {.thread = t.thread};
	struct fsc_inode *root, *file;
	struct fsc_attr attr;
	struct fsc_volume *vol;

	assert_int_equal(volume_open_dev(t.thread, view_create(&t.disk), "cut", &opt, &vol), 0);
	assert_int_equal(fsc_inode_get(&ctx, vol, FSC_SUBVOL_TOP, FSC_INO_ROOT, 0, &root), 0);
	assert_int_equal(fsc_lookup(&ctx, root, name, strlen(name), &file), 0);
	fsc_inode_attr(file, &attr);
	fsc_inode_put(file);
	fsc_inode_put(root);
	fsc_volume_close(t.thread, vol);
	return attr.size_bytes;
}

/* Whether a commit had only a part of the truncation; each commit must be a volume. */
static bool look_at_commits(size_t from, const char *name)
{
	bool part = false;

	for (size_t i = from; i < t.n_records; i++) {
		struct record_entry e = entry(i);
		uint64_t size;

		replay(i);
		disk_forget(&t.disk);
		if (i < t.first || !is_super(&e))
			continue;
		t.cut = i + 1;
		t.how = "a commit in a truncation";
		size = size_on_disk(name);
		part |= size > 100 && size < (TRUNCATE_EXTENTS - 1) * 2 * SECTOR;
		t.checked++;
		if (!crash_btrfs_check(t.disk.path))
			broken("btrfs check", "see above");
	}
	return part;
}

static void test_crash_in_a_long_truncation_leaves_a_file_without_gaps(void **state)
{
	bool part = false;
	size_t from = 0;

	(void)state;
	set_up("-n 4096 -O ^no-holes -m single");
	t.base = calloc(1, SECTOR);
	assert_non_null(t.base);
	for (unsigned i = 0; i < TRUNCATE_TRIES && !part; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		truncate_long(name);
		part = look_at_commits(from, name);
		from = t.n_records;
	}
	printf("# %u commits checked\n", t.checked);
	assert_true(part);
	clean_up();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crash_default_volume_loses_nothing_acknowledged),
		cmocka_unit_test(test_crash_small_nodes_loses_nothing_acknowledged),
		cmocka_unit_test(test_crash_small_nodes_with_a_log_loses_nothing_acknowledged),
		cmocka_unit_test(test_crash_mixed_volume_loses_nothing_acknowledged),
		cmocka_unit_test(test_crash_in_a_long_truncation_leaves_a_file_without_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
