/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/space_volume.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/file/subvol.h"
#include "fscore/format/csum.h"
#include "fscore/space/space_private.h"
#include "fscore/tree/leaf.h"
#include "tests/fscore/fake_writer.h"

#define FREE_SPACE_TREE_FLAGS \
	(BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE | BTRFS_FEATURE_COMPAT_RO_FREE_SPACE_TREE_VALID)

#define BLOCK_GROUP_TREE_ID   11u
#define BLOCK_GROUP_TREE_FLAG (1ull << 3)

/* There is one at a time; its writers may belong to several threads. */
static struct space_volume *the_volume;
static pthread_mutex_t ops_mutex = PTHREAD_MUTEX_INITIALIZER;

static struct space_volume *lock_volume(void)
{
	pthread_mutex_lock(&ops_mutex);
	return the_volume;
}

static void unlock_volume(void)
{
	pthread_mutex_unlock(&ops_mutex);
}

static uint32_t sector_of(const struct space_volume *sv)
{
	return sv->vol->geo.sector_bytes;
}

static uint32_t node_of(const struct space_volume *sv)
{
	return sv->vol->geo.node_bytes;
}

void sv_mark(struct space_volume *sv, uint64_t logical, uint64_t bytes, enum sector_state from,
	enum sector_state to)
{
	uint64_t first = logical / sector_of(sv), n = bytes / sector_of(sv);

	assert_true(first + n <= SV_MAX_SECTORS);
	for (uint64_t i = first; i < first + n; i++) {
		assert_int_equal(sv->state[i], from);
		sv->state[i] = (uint8_t)to;
	}
}

/* ------------------------------------------------------------- transactions */

static void owe(struct space_volume *sv, const struct owed *o)
{
	if (sv->n_owed == sv->max_owed) {
		sv->max_owed = MAX(64u, sv->max_owed * 2);
		sv->owed = reallocarray(sv->owed, sv->max_owed, sizeof(*o));
		assert_non_null(sv->owed);
	}
	sv->owed[sv->n_owed++] = *o;
}

static void owe_block(
	struct space_volume *sv, uint64_t logical, uint64_t root, uint8_t level, bool is_add)
{
	const struct owed o = {.logical = logical,
		.bytes = node_of(sv),
		.root = root,
		.level = level,
		.is_add = is_add};

	owe(sv, &o);
}

static int fake_alloc(struct tree_writer *w, struct tree_root *root, uint8_t level,
	const struct btrfs_key *first_key, uint64_t *logical)
{
	bool is_system = root->id == BTRFS_CHUNK_TREE_OBJECTID;
	struct space_volume *sv = lock_volume();
	int ret = space_alloc_metadata(
		w, &sv->space, is_system ? SPACE_SYSTEM : SPACE_METADATA, logical);

	(void)first_key;
	if (!ret) {
		assert_int_equal(*logical % node_of(sv), 0);
		sv_mark(sv, *logical, node_of(sv), SECTOR_FREE, SECTOR_ALLOCATED);
		owe_block(sv, *logical, root->id, level, true);
	}
	unlock_volume();
	return ret;
}

static int fake_copied(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct mblock *copy, const struct block_share *share)
{
	(void)w;
	(void)copy;
	(void)share;
	owe_block(lock_volume(), old->logical, root->id, old->level, false);
	unlock_volume();
	return 0;
}

/* True: the block was not in the extent tree yet. */
static bool cancel_add(struct space_volume *sv, uint64_t logical)
{
	for (size_t i = 0; i < sv->n_owed; i++)
		if (sv->owed[i].is_add && sv->owed[i].logical == logical) {
			sv->owed[i] = sv->owed[--sv->n_owed];
			return true;
		}
	return false;
}

static void fake_free(struct tree_writer *w, struct tree_root *root, struct mblock *block)
{
	struct space_volume *sv = lock_volume();
	size_t i = 0;

	(void)w;
	while (i < sv->n_dirty && sv->dirty[i] != block)
		i++;
	assert_true(i < sv->n_dirty);
	sv->dirty[i] = sv->dirty[--sv->n_dirty];
	if (cancel_add(sv, block->logical)) {
		sv_mark(sv, block->logical, node_of(sv), SECTOR_ALLOCATED, SECTOR_FREE);
		space_free_unused(&sv->space, block->logical, node_of(sv));
	} else {
		owe_block(sv, block->logical, root->id, block->level, false);
	}
	unlock_volume();
	meta_discard(root->mc, block);
	meta_put(block);
}

static void fake_dirtied(struct tree_writer *w, struct mblock *block)
{
	struct space_volume *sv = lock_volume();

	(void)w;
	if (sv->n_dirty == sv->max_dirty) {
		sv->max_dirty = MAX(64u, sv->max_dirty * 2);
		sv->dirty = reallocarray(sv->dirty, sv->max_dirty, sizeof(block));
		assert_non_null(sv->dirty);
	}
	atomic_fetch_add(&block->refs, 1);
	sv->dirty[sv->n_dirty++] = block;
	unlock_volume();
}

static const struct tree_writer_ops fake_ops = {
	.alloc_block = fake_alloc,
	.share_info = fake_share,
	.block_copied = fake_copied,
	.free_block = fake_free,
	.block_dirtied = fake_dirtied,
	.broken = fake_broken,
	.root_changed = fake_root_changed,
};

/* ------------------------------------------------------------- the extent tree */

static struct btrfs_key extent_key(const struct owed *o)
{
	if (o->root)
		return key_make(o->logical, BTRFS_METADATA_ITEM_KEY, o->level);
	return key_make(o->logical, BTRFS_EXTENT_ITEM_KEY, o->bytes);
}

static void put_extent_item(struct space_volume *sv, const struct owed *o)
{
	struct {
		struct btrfs_extent_item item;
		uint8_t ref_type;
		__le64 ref_root;
	} __attribute__((packed)) block = {.ref_type = BTRFS_TREE_BLOCK_REF_KEY};
	uint32_t bytes = o->root ? sizeof(block) : sizeof(block.item);
	struct btrfs_key key = extent_key(o);
	struct tree_path path = PATH_INIT;

	PUT(&block.item, refs, 1);
	PUT(&block.item, generation, sv->w.generation);
	PUT(&block.item, flags, o->root ? BTRFS_EXTENT_FLAG_TREE_BLOCK : BTRFS_EXTENT_FLAG_DATA);
	PUT(&block, ref_root, o->root);
	assert_int_equal(tree_search_modify(&sv->w, &sv->extent_tree, &key, (int)bytes, &path), 1);
	memcpy(path_insert_item(&sv->w, &path, &key, bytes), &block, bytes);
	path_release(&path);
}

static void drop_extent_item(struct space_volume *sv, const struct owed *o)
{
	struct btrfs_key key = extent_key(o);
	struct tree_path path = PATH_INIT;

	assert_int_equal(
		tree_search_modify(&sv->w, &sv->extent_tree, &key, TREE_IN_PLACE, &path), 0);
	assert_int_equal(path_delete_items(&sv->w, &path, 1), 0);
	path_release(&path);
}

static void run_one(struct space_volume *sv, const struct owed *o)
{
	if (o->is_add) {
		put_extent_item(sv, o);
		assert_int_equal(space_tree_add(&sv->w, &sv->space, o->logical, o->bytes), 0);
		sv_mark(sv, o->logical, o->bytes, SECTOR_ALLOCATED, SECTOR_IN_TREE);
		return;
	}
	assert_int_equal(space_load_group(&sv->ctx, &sv->space, o->logical), 0);
	drop_extent_item(sv, o);
	assert_int_equal(space_tree_remove(&sv->w, &sv->space, o->logical, o->bytes), 0);
	sv_mark(sv, o->logical, o->bytes, SECTOR_IN_TREE, SECTOR_PINNED);
}

static void run_owed(struct space_volume *sv)
{
	while (sv->n_owed) {
		struct owed o = sv->owed[--sv->n_owed];

		run_one(sv, &o);
	}
}

/* ------------------------------------------------------------------- commit */

static void write_root_item(struct space_volume *sv, const struct tree_root *root)
{
	struct btrfs_key key = key_make(root->id, BTRFS_ROOT_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT;
	struct btrfs_root_item *item;

	assert_int_equal(tree_search(&sv->ctx, &sv->vol->root_tree, &key, &path), 0);
	item = (struct btrfs_root_item *)(uintptr_t)path_data(&path);
	if (GET(item, bytenr) == root->bytenr) {
		path_release(&path);
		return;
	}
	path_release(&path);
	assert_int_equal(
		tree_search_modify(&sv->w, &sv->vol->root_tree, &key, TREE_IN_PLACE, &path), 0);
	item = path_data_mut(&path);
	PUT(item, bytenr, root->bytenr);
	PUT(item, generation, root->generation);
	PUT(item, generation_v2, root->generation);
	item->level = root->level;
	path_release(&path);
}

static void write_root_items(struct space_volume *sv)
{
	write_root_item(sv, &sv->extent_tree);
	write_root_item(sv, &sv->dev_tree);
	if (sv->has_free_space_tree)
		write_root_item(sv, &sv->free_space_tree);
	if (sv->has_block_group_tree)
		write_root_item(sv, &sv->block_group_tree);
}

static void settle(struct space_volume *sv, unsigned most_rounds)
{
	bool more = true;

	for (unsigned round = 0; more && round < most_rounds; round++) {
		assert_int_equal(
			space_prepare_metadata(&sv->ctx, &sv->space, 32ull * node_of(sv)), 0);
		run_owed(sv);
		assert_int_equal(space_write_groups(&sv->w, &sv->space, &more), 0);
		write_root_items(sv);
		more = more || sv->n_owed;
	}
	sv->settled = !more;
}

void sv_settle(struct space_volume *sv)
{
	settle(sv, 50);
	assert_true(sv->settled);
}

static void write_at(struct space_volume *sv, uint64_t physical, const void *data, size_t bytes)
{
	int fd = open(sv->file, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(pwrite(fd, data, bytes, (off_t)physical) == (ssize_t)bytes);
	close(fd);
	memcpy((char *)dev_mem_data(sv->mem) + physical, data, bytes);
}

static void write_block(struct space_volume *sv, struct mblock *b)
{
	struct btrfs_header *h = block_header_mut(b->data);
	struct chunk_place place;

	PUT(h, flags, GET(h, flags) | BTRFS_HEADER_FLAG_WRITTEN);
	memset(h->csum, 0, sizeof(h->csum));
	csum_compute(sv->vol->geo.csum_type, b->data + BTRFS_CSUM_SIZE,
		node_of(sv) - BTRFS_CSUM_SIZE, h->csum);
	assert_int_equal(chunk_map_lookup(&sv->vol->chunks, b->logical, &place), 0);
	for (unsigned i = 0; i < place.n_mirrors; i++)
		write_at(sv, place.physical[i], b->data, node_of(sv));
}

static void write_super(struct space_volume *sv)
{
	struct btrfs_super_block *sb = &sv->super;

	PUT(sb, generation, sv->w.generation);
	PUT(sb, root, sv->vol->root_tree.bytenr);
	sb->root_level = sv->vol->root_tree.level;
	PUT(sb, chunk_root, sv->vol->chunk_tree.bytenr);
	PUT(sb, chunk_root_generation, sv->vol->chunk_tree.generation);
	sb->chunk_root_level = sv->vol->chunk_tree.level;
	PUT(sb, bytes_used, space_used_on_disk(&sv->space));
	if (!sv->has_free_space_tree)
		PUT(sb, cache_generation, 0);
	for (unsigned i = 0; i < BTRFS_SUPER_MIRRORS; i++) {
		uint64_t at = super_mirror_physical(i);

		if (at + sizeof(*sb) > GET(&sb->dev_item, total_bytes))
			break;
		PUT(sb, bytenr, at);
		memset(sb->csum, 0, sizeof(sb->csum));
		csum_compute(GET(sb, csum_type), (const char *)sb + BTRFS_CSUM_SIZE,
			sizeof(*sb) - BTRFS_CSUM_SIZE, sb->csum);
		write_at(sv, at, sb, sizeof(*sb));
	}
}

/* The root tree's generation is the superblock's: it is copied in each transaction. */
static void touch_root_tree(struct space_volume *sv)
{
	struct btrfs_key key = key_make(BTRFS_EXTENT_TREE_OBJECTID, BTRFS_ROOT_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT;

	assert_int_equal(
		tree_search_modify(&sv->w, &sv->vol->root_tree, &key, TREE_IN_PLACE, &path), 0);
	path_release(&path);
}

static void unpin_model(struct space_volume *sv)
{
	for (size_t i = 0; i < SV_MAX_SECTORS; i++)
		if (sv->state[i] == SECTOR_PINNED)
			sv->state[i] = SECTOR_FREE;
}

static void write_transaction(struct space_volume *sv)
{
	for (size_t i = 0; i < sv->n_dirty; i++) {
		write_block(sv, sv->dirty[i]);
		meta_clean(&sv->vol->meta, sv->dirty[i]);
		meta_put(sv->dirty[i]);
	}
	sv->n_dirty = 0;
	write_super(sv);
	space_unpin(&sv->space, sv->w.generation);
	unpin_model(sv);
	sv->vol->geo.generation = sv->vol->meta.geo.generation = sv->w.generation;
	sv->w.generation++;
}

void sv_commit(struct space_volume *sv)
{
	touch_root_tree(sv);
	sv_settle(sv);
	write_transaction(sv);
}

void sv_commit_meanwhile(struct space_volume *sv)
{
	touch_root_tree(sv);
	/* Others change block groups all the time: it never settles. */
	settle(sv, 10);
	run_owed(sv);
	write_root_items(sv);
	write_transaction(sv);
}

/* ------------------------------------------------------------- data, chunks */

int sv_alloc_data(struct space_volume *sv, uint64_t min_bytes, uint64_t want_bytes,
	uint64_t *logical, uint64_t *bytes)
{
	int ret = space_alloc(
		&sv->ctx, &sv->space, SPACE_DATA, min_bytes, want_bytes, 0, logical, bytes);

	if (ret)
		return ret;
	assert_true(*bytes >= min_bytes && *bytes <= want_bytes);
	sv_mark(sv, *logical, *bytes, SECTOR_FREE, SECTOR_ALLOCATED);
	return 0;
}

void sv_free_unused(struct space_volume *sv, uint64_t logical, uint64_t bytes)
{
	sv_mark(sv, logical, bytes, SECTOR_ALLOCATED, SECTOR_FREE);
	space_free_unused(&sv->space, logical, bytes);
}

void sv_owe_data(struct space_volume *sv, uint64_t logical, uint64_t bytes, bool is_add)
{
	const struct owed o = {.logical = logical, .bytes = bytes, .is_add = is_add};

	owe(sv, &o);
}

int sv_alloc_chunk(struct space_volume *sv, enum space_type type)
{
	int ret = space_alloc_chunk(&sv->w, &sv->space, type);

	if (!ret)
		sv->new_chunks++;
	else
		assert_int_equal(ret, -ENOSPC);
	return ret;
}

/* ------------------------------------------------------------------- checks */

/* Sectors in a state, within a block group. */
static uint64_t count_state(
	const struct space_volume *sv, const struct block_group *bg, enum sector_state state)
{
	uint64_t n = 0;

	for (uint64_t i = bg->logical / sector_of(sv), end = i + bg->length_bytes / sector_of(sv);
		i < end; i++)
		n += sv->state[i] == state;
	return n * sector_of(sv);
}

static bool under_super(struct space_volume *sv, const struct block_group *bg, uint64_t sector)
{
	uint64_t from, to;

	for (unsigned i = 0; group_super_range(&sv->space, bg, i, &from, &to); i++)
		if (sector >= from && sector < to)
			return true;
	return false;
}

static void check_group(struct space_volume *sv, const struct block_group *bg)
{
	uint64_t first = bg->logical / sector_of(sv), n = bg->length_bytes / sector_of(sv);
	uint64_t n_free = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint8_t state = sv->state[first + i];
		bool is_free = state == SECTOR_FREE && !under_super(sv, bg, i);

		n_free += is_free;
		assert_int_equal(bits_all_set(bg->free.words, i, i + 1), is_free);
		assert_int_equal(bits_all_set(bg->unused, i, i + 1), state != SECTOR_IN_TREE);
	}
	assert_int_equal(bg->free.n_set, n_free);
	assert_int_equal(bg->used_bytes, count_state(sv, bg, SECTOR_IN_TREE));
}

void sv_check_memory(struct space_volume *sv)
{
	struct space_info want[SPACE_TYPES] = {{0}};
	uint64_t loaded_free[SPACE_TYPES] = {0};

	for (size_t i = 0; i < sv->space.n_groups; i++) {
		const struct block_group *bg = sv->space.groups[i];
		enum space_type type = group_info_type(&sv->space, bg);

		if (bg->loaded) {
			check_group(sv, bg);
			loaded_free[type] += bg->free.n_set * sector_of(sv);
		}
		want[type].total_bytes += bg->length_bytes;
		want[type].used_bytes +=
			count_state(sv, bg, SECTOR_IN_TREE) + count_state(sv, bg, SECTOR_ALLOCATED);
		want[type].pinned_bytes += count_state(sv, bg, SECTOR_PINNED);
		want[type].readonly_bytes += bg->super_bytes;
	}
	for (unsigned i = 0; i < SPACE_TYPES; i++) {
		struct space_info *is = &sv->space.info[i];

		assert_int_equal(is->total_bytes, want[i].total_bytes);
		assert_int_equal(is->used_bytes, want[i].used_bytes);
		assert_int_equal(is->pinned_bytes, want[i].pinned_bytes);
		assert_int_equal(is->readonly_bytes, want[i].readonly_bytes);
		assert_int_equal(sv->space.impl->loaded_free[i], loaded_free[i]);
	}
}

struct space_config sv_config(struct space_volume *sv)
{
	return (struct space_config){
		.geo = &sv->vol->geo,
		.chunks = &sv->vol->chunks,
		.extent_tree = &sv->extent_tree,
		.block_group_tree =
			sv->has_block_group_tree ? &sv->block_group_tree : &sv->extent_tree,
		.free_space_tree = sv->has_free_space_tree ? &sv->free_space_tree : NULL,
		.chunk_tree = &sv->vol->chunk_tree,
		.dev_tree = &sv->dev_tree,
		.super = &sv->super,
		.device_bytes = GET(&sv->super.dev_item, total_bytes),
	};
}

static void compare_spaces(struct space_volume *sv, struct space *other)
{
	assert_int_equal(other->n_groups, sv->space.n_groups);
	assert_int_equal(other->unallocated_bytes, sv->space.unallocated_bytes);
	for (size_t i = 0; i < other->n_groups; i++) {
		struct block_group *is = other->groups[i], *was = sv->space.groups[i];
		uint64_t n = group_sectors(other, is);

		assert_int_equal(group_load(&sv->ctx, other, is), 0);
		assert_int_equal(is->used_bytes, count_state(sv, is, SECTOR_IN_TREE));
		for (uint64_t k = 0; k < n; k++)
			assert_int_equal(bits_all_set(is->unused, k, k + 1),
				sv->state[is->logical / sector_of(sv) + k] != SECTOR_IN_TREE);
		if (!was->loaded || !other->config.free_space_tree)
			continue;
		assert_int_equal(is->has_bitmaps, was->has_bitmaps);
		assert_int_equal(is->extent_count, was->extent_count);
	}
}

void sv_check_trees(struct space_volume *sv)
{
	struct space_config config = sv_config(sv);
	struct space other;

	assert_int_equal(sv->n_owed, 0);
	assert_int_equal(space_open(&sv->ctx, &other, &config), 0);
	compare_spaces(sv, &other);
	space_close(&other);
	/* The extent tree says the same. */
	config.free_space_tree = NULL;
	assert_int_equal(space_open(&sv->ctx, &other, &config), 0);
	compare_spaces(sv, &other);
	space_close(&other);
}

void sv_check_array(struct space_volume *sv)
{
	size_t bytes = GET(&sv->super, sys_chunk_array_size), found = 0;

	for (size_t i = 0; i < sv->space.n_groups; i++) {
		const struct block_group *bg = sv->space.groups[i];
		struct btrfs_key key = key_make(
			BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, bg->logical);
		struct tree_path path = PATH_INIT;
		struct btrfs_disk_key disk_key;
		const char *at;

		if (!(bg->flags & BTRFS_BLOCK_GROUP_SYSTEM))
			continue;
		assert_int_equal(tree_search(&sv->ctx, &sv->vol->chunk_tree, &key, &path), 0);
		key_to_disk(&key, &disk_key);
		at = memmem(sv->super.sys_chunk_array, bytes, &disk_key, sizeof(disk_key));
		assert_non_null(at);
		assert_memory_equal(
			at + sizeof(disk_key), path_data(&path), path_data_bytes(&path));
		found += sizeof(disk_key) + path_data_bytes(&path);
		path_release(&path);
	}
	assert_int_equal(found, bytes);
}

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *format, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	return system(command);
}

void sv_btrfs_check(struct space_volume *sv)
{
	assert_int_equal(run("PATH=$PATH:/sbin:/usr/sbin; btrfs check %s >%s.log 2>&1 && "
			     "! grep -iE 'error|warning|mismatch|cache|crosses|not aligned' "
			     "%s.log | grep -v 'checking free space\\|no error found' || "
			     "{ cat %s.log; exit 1; }",
				 sv->file, sv->file, sv->file, sv->file),
		0);
}

/* ------------------------------------------------------------------ opening */

/* Copies what is not a hole. */
static void load_file(struct space_volume *sv, uint64_t size)
{
	int fd = open(sv->file, O_RDONLY | O_CLOEXEC);
	off_t at = 0;

	assert_true(fd >= 0);
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0 && (uint64_t)at < size) {
		off_t end = lseek(fd, at, SEEK_HOLE);

		assert_true(pread(fd, (char *)dev_mem_data(sv->mem) + at, (size_t)(end - at), at) ==
			end - at);
		at = end;
	}
	close(fd);
}

static void make_file(struct space_volume *sv, const char *mkfs_options, uint64_t size)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	snprintf(sv->file, sizeof(sv->file), "%s/byre-space-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(sv->file);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
	assert_int_equal(run("PATH=$PATH:/sbin:/usr/sbin; mkfs.btrfs -q %s %s >/dev/null 2>&1",
				 mkfs_options, sv->file),
		0);
}

static void open_tree(struct space_volume *sv, struct tree_root *root, uint64_t id)
{
	struct btrfs_root_item item;

	assert_int_equal(root_item_read(&sv->ctx, sv->vol, id, &item), 0);
	tree_root_init(
		root, &sv->vol->meta, id, GET(&item, bytenr), GET(&item, generation), item.level);
}

static void open_trees(struct space_volume *sv)
{
	uint64_t flags = GET(&sv->super, compat_ro_flags);

	assert_false(flags & BLOCK_GROUP_TREE_FLAG);
	open_tree(sv, &sv->extent_tree, BTRFS_EXTENT_TREE_OBJECTID);
	open_tree(sv, &sv->dev_tree, BTRFS_DEV_TREE_OBJECTID);
	sv->has_free_space_tree = (flags & FREE_SPACE_TREE_FLAGS) == FREE_SPACE_TREE_FLAGS;
	if (sv->has_free_space_tree)
		open_tree(sv, &sv->free_space_tree, BTRFS_FREE_SPACE_TREE_OBJECTID);
}

/* Moves the item of a block group from the extent tree to the block group tree. */
static void move_group_item(struct space_volume *sv, const struct block_group *bg)
{
	struct btrfs_key key = key_make(bg->logical, BTRFS_BLOCK_GROUP_ITEM_KEY, bg->length_bytes);
	struct btrfs_block_group_item item;
	struct tree_path path = PATH_INIT;

	assert_int_equal(
		tree_search_modify(&sv->w, &sv->extent_tree, &key, TREE_IN_PLACE, &path), 0);
	memcpy(&item, path_data(&path), sizeof(item));
	assert_int_equal(path_delete_items(&sv->w, &path, 1), 0);
	path_release(&path);
	assert_int_equal(
		tree_search_modify(&sv->w, &sv->block_group_tree, &key, (int)sizeof(item), &path),
		1);
	memcpy(path_insert_item(&sv->w, &path, &key, sizeof(item)), &item, sizeof(item));
	path_release(&path);
}

/* As the item of the device tree. */
static void put_root_item(struct space_volume *sv, const struct tree_root *root)
{
	struct btrfs_key key = key_make(root->id, BTRFS_ROOT_ITEM_KEY, 0);
	struct tree_path path = PATH_INIT;
	struct btrfs_root_item item;

	assert_int_equal(root_item_read(&sv->ctx, sv->vol, BTRFS_DEV_TREE_OBJECTID, &item), 0);
	PUT(&item, bytes_used, node_of(sv));
	assert_int_equal(
		tree_search_modify(&sv->w, &sv->vol->root_tree, &key, (int)sizeof(item), &path), 1);
	memcpy(path_insert_item(&sv->w, &path, &key, sizeof(item)), &item, sizeof(item));
	path_release(&path);
}

static void make_block_group_tree(struct space_volume *sv)
{
	assert_int_equal(
		tree_create(&sv->w, &sv->vol->meta, BLOCK_GROUP_TREE_ID, &sv->block_group_tree), 0);
	for (size_t i = 0; i < sv->space.n_groups; i++)
		move_group_item(sv, sv->space.groups[i]);
	put_root_item(sv, &sv->block_group_tree);
	PUT(&sv->super, compat_ro_flags, GET(&sv->super, compat_ro_flags) | BLOCK_GROUP_TREE_FLAG);
	sv->has_block_group_tree = true;
	sv->space.config.block_group_tree = &sv->block_group_tree;
	sv_commit(sv);
}

/* What the extent tree says is in use. */
static void fill_model(struct space_volume *sv)
{
	struct btrfs_key key = key_make(0, 0, 0);
	struct tree_path path = PATH_INIT;
	int ret = tree_search(&sv->ctx, &sv->extent_tree, &key, &path);

	for (; ret >= 0 && path_valid(&path); ret = tree_next(&sv->ctx, &path)) {
		key = path_key(&path);
		if (key.type == BTRFS_METADATA_ITEM_KEY)
			sv_mark(sv, key.objectid, node_of(sv), SECTOR_FREE, SECTOR_IN_TREE);
		else if (key.type == BTRFS_EXTENT_ITEM_KEY)
			sv_mark(sv, key.objectid, key.offset, SECTOR_FREE, SECTOR_IN_TREE);
	}
	path_release(&path);
	assert_true(ret >= 0);
}

struct space_volume *sv_create(const char *mkfs_options, uint64_t size)
{
	const struct fsc_open_options opt = {.read_only = true, .cache_bytes = 128u << 20};
	struct space_volume *sv = calloc(1, sizeof(*sv));
	bool bgt = !strncmp(mkfs_options, "+bgt", 4);
	struct space_config config;

	assert_non_null(sv);
	the_volume = sv;
	make_file(sv, mkfs_options + (bgt ? 4 : 0), size);
	assert_int_equal(fsc_thread_create(&sv->thread), 0);
	assert_int_equal(dev_mem_create(NULL, size, &sv->mem), 0);
	load_file(sv, size);
	assert_int_equal(volume_open_dev(sv->thread, sv->mem, "test", &opt, &sv->vol), 0);
	sv->ctx.thread = sv->thread;
	sv->super = sv->vol->super;
	sv->w = (struct tree_writer){
		.ctx = &sv->ctx, .ops = &fake_ops, .generation = sv->vol->geo.generation + 1};
	open_trees(sv);
	fill_model(sv);
	config = sv_config(sv);
	assert_int_equal(space_open(&sv->ctx, &sv->space, &config), 0);
	assert_int_equal(space_prepare_metadata(&sv->ctx, &sv->space, 32ull * node_of(sv)), 0);
	if (bgt)
		make_block_group_tree(sv);
	return sv;
}

void sv_destroy(struct space_volume *sv)
{
	space_close(&sv->space);
	for (size_t i = 0; i < sv->n_dirty; i++) {
		meta_discard(&sv->vol->meta, sv->dirty[i]);
		meta_put(sv->dirty[i]);
	}
	tree_root_fini(&sv->extent_tree);
	tree_root_fini(&sv->dev_tree);
	if (sv->has_free_space_tree)
		tree_root_fini(&sv->free_space_tree);
	if (sv->has_block_group_tree)
		tree_root_fini(&sv->block_group_tree);
	fsc_volume_close(sv->thread, sv->vol);
	fsc_thread_destroy(sv->thread);
	run("rm -f %s %s.log", sv->file, sv->file);
	free(sv->dirty);
	free(sv->owed);
	free(sv);
}
