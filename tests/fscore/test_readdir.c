/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Listings of directories with entries of subvolumes. fscore makes no subvolumes: the tests
 * turn directories' entries into such, and back before the volume is checked.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/util.h"
#include "fscore/file/inode_write.h"
#include "fscore/file/subvol.h"
#include "fscore/format/csum.h"
#include "fscore/tree/leaf.h"
#include "tests/fscore/writing.h"

/* Every entry whose number is 1 modulo this is one of a subvolume. */
#define STEP	7u
#define ENTRIES 500u
/* Where the numbers of subvolumes that are not there begin. */
#define CHILD 100000u
/* The one of them that has a reference, as if it were there. */
#define LINKED (STEP * 3 + 1)

static size_t name_of(unsigned i, char name[16])
{
	return (size_t)snprintf(name, 16, "d%u", i);
}

static void point_item(struct txn_handle *h, const struct btrfs_key *item, struct btrfs_key to)
{
	struct tree_path path = PATH_INIT;
	struct btrfs_dir_item *di;

	assert_int_equal(
		tree_search_modify(&h->w, &w.root->subvol->root, item, TREE_IN_PLACE, &path), 0);
	di = path_data_mut(&path);
	key_to_disk(&to, &di->location);
	path_release(&path);
}

/* Lets both items of an entry of the root directory point to something else. */
static void point_entry(unsigned i, uint64_t index, struct btrfs_key to)
{
	char name[16];
	size_t len = name_of(i, name);
	struct btrfs_key by_name = key_make(w.root->ino, BTRFS_DIR_ITEM_KEY, name_hash(name, len));
	struct btrfs_key by_index = key_make(w.root->ino, BTRFS_DIR_INDEX_KEY, index);
	struct txn_handle h;

	assert_int_equal(txn_join(&w.ctx, &w.vol->w->txns, 8, 0, &h), 0);
	point_item(&h, &by_name, to);
	point_item(&h, &by_index, to);
	txn_end(&h);
}

static void set_root_ref(bool there)
{
	struct btrfs_key key = key_make(FSC_SUBVOL_TOP, BTRFS_ROOT_REF_KEY, CHILD + LINKED);
	struct tree_path path = PATH_INIT;
	struct btrfs_root_ref *ref;
	struct txn_handle h;
	char name[16];
	size_t len = name_of(LINKED, name), bytes = sizeof(*ref) + len;

	assert_int_equal(txn_join(&w.ctx, &w.vol->w->txns, 8, 0, &h), 0);
	if (there) {
		assert_int_equal(
			tree_search_modify(&h.w, &w.vol->root_tree, &key, (int)bytes, &path), 1);
		ref = path_insert_item(&h.w, &path, &key, (uint32_t)bytes);
		memset(ref, 0, bytes);
		PUT(ref, dirid, w.root->ino);
		PUT(ref, name_len, (uint16_t)len);
		memcpy(ref + 1, name, len);
	} else {
		assert_int_equal(
			tree_search_modify(&h.w, &w.vol->root_tree, &key, TREE_IN_PLACE, &path), 0);
		assert_int_equal(path_delete_items(&h.w, &path, 1), 0);
	}
	path_release(&path);
	txn_end(&h);
}

struct seen {
	unsigned n, room;
	bool with_attr;
	uint64_t next, index[ENTRIES], ino[ENTRIES];
};

static bool take(void *arg, const struct fsc_dirent *e)
{
	struct seen *s = arg;
	char name[16];
	unsigned i;

	if (!s->room)
		return false;
	assert_true(e->name_len < sizeof(name));
	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	assert_int_equal(sscanf(name, "d%u", &i), 1);
	assert_int_equal(i, s->n);
	assert_int_equal(e->type, DT_DIR);
	if (i == LINKED && e->subvol != FSC_SUBVOL_TOP)
		assert_int_equal(e->subvol, CHILD + LINKED);
	else
		assert_int_equal(e->subvol, FSC_SUBVOL_TOP);
	assert_int_equal(!!e->attr, s->with_attr && e->subvol == FSC_SUBVOL_TOP);
	if (e->attr)
		assert_true(e->attr->ino == e->ino && S_ISDIR(e->attr->mode));
	s->index[i] = e->index;
	s->ino[i] = e->subvol == FSC_SUBVOL_TOP ? e->ino : FSC_INO_ROOT;
	s->next = e->index + 1;
	s->n++;
	s->room--;
	return true;
}

static void list(struct seen *s, unsigned flags, unsigned room)
{
	struct fsc_ctx ctx = w.ctx;
	bool eof = false;

	memset(s, 0, sizeof(*s));
	s->with_attr = flags;
	while (!eof) {
		s->room = room;
		assert_int_equal(
			fsc_readdir(&ctx, w.root, s->next, UINT64_MAX, flags, take, s, &eof), 0);
	}
	assert_int_equal(s->n, ENTRIES);
}

static uint64_t looked_up(unsigned i)
{
	struct fsc_inode *inode;
	struct fsc_attr attr;
	char name[16];

	assert_int_equal(fsc_lookup(&w.ctx, w.root, name, name_of(i, name), &inode), 0);
	fsc_inode_attr(inode, &attr);
	fsc_inode_put(inode);
	return attr.ino;
}

/* What LOOKUP gives, READDIR gives: for a subvolume that is not in a snapshot its stand-in. */
static void test_readdir_stub_is_as_in_lookup(void **state)
{
	static struct seen before, s;
	const struct fsc_new dir = {.mode = S_IFDIR | 0755};

	(void)state;
	writing_make("");
	for (unsigned i = 0; i < ENTRIES; i++) {
		struct fsc_inode *inode;
		char name[16];
		size_t len = name_of(i, name);

		assert_int_equal(fsc_create(&w.ctx, w.root, name, len, &dir, &inode), 0);
		fsc_inode_put(inode);
	}
	list(&before, 0, UINT32_MAX);
	for (unsigned i = 1; i < ENTRIES; i += STEP)
		point_entry(
			i, before.index[i], key_make(CHILD + i, BTRFS_ROOT_ITEM_KEY, UINT64_MAX));
	set_root_ref(true);
	for (unsigned room = 1; room < 40; room += 13) {
		for (unsigned flags = 0; flags <= FSC_READDIR_ATTR; flags++) {
			list(&s, flags, room);
			assert_int_equal(s.ino[LINKED], FSC_INO_ROOT);
			for (unsigned i = 0; i < ENTRIES; i++)
				if (i != LINKED)
					assert_int_equal(s.ino[i],
						i % STEP == 1 ? FSC_INO_STUB : before.ino[i]);
		}
	}
	for (unsigned i = 0; i < ENTRIES; i++)
		if (i != LINKED)
			assert_int_equal(looked_up(i), s.ino[i]);
	set_root_ref(false);
	for (unsigned i = 1; i < ENTRIES; i += STEP)
		point_entry(i, before.index[i], key_make(before.ino[i], BTRFS_INODE_ITEM_KEY, 0));
	writing_end();
}

/* ------------------------------------------------------------- attributes in memory */

static bool take_size(void *arg, const struct fsc_dirent *e)
{
	if (e->attr && S_ISREG(e->attr->mode))
		*(uint64_t *)arg = e->attr->size_bytes;
	return true;
}

/* What was written is listed as it is, before and after it has been flushed and committed. */
static void test_listing_has_the_latest_attributes(void **state)
{
	uint64_t size = 0;
	struct model m;
	bool eof;

	(void)state;
	writing_make("");
	model_create(&m, w.root, "f", 300000);
	model_sync(&m);
	for (unsigned i = 1; i <= 3; i++) {
		model_write(&m, 0, i * 1000, BYTES_RANDOM, i);
		assert_int_equal(fsc_readdir(&w.ctx, w.root, 0, UINT64_MAX, FSC_READDIR_ATTR,
					 take_size, &size, &eof),
			0);
		assert_int_equal(size, i * 1000);
		if (i == 1)
			model_sync(&m);
	}
	model_free(&m);
	writing_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readdir_stub_is_as_in_lookup),
		cmocka_unit_test(test_listing_has_the_latest_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
