/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Items of files and directories, and the checksums of data. */
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/format/item_check_private.h"

typedef unsigned long long ull;

/* A directory index, and so what readers make of it, leaves the top bits free. */
#define MAX_DIR_INDEX (1ull << 62)

/* ------------------------------------------------------------- inodes */

static bool is_inode_number(uint64_t ino)
{
	return (ino >= BTRFS_FIRST_FREE_OBJECTID && ino <= BTRFS_LAST_FREE_OBJECTID) ||
		ino == BTRFS_ROOT_TREE_DIR_OBJECTID || ino == BTRFS_FREE_INO_OBJECTID;
}

static bool is_mode(uint32_t mode)
{
	if (mode & ~(uint32_t)(S_IFMT | 07777))
		return false;
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return true;
	}
	return false;
}

int check_inode_item(const struct checked_item *it)
{
	const struct btrfs_inode_item *inode = (const void *)it->data;
	uint32_t mode = GET(inode, mode);

	if (!is_inode_number(it->key.objectid) || it->key.offset)
		return item_bad(it, "no inode number");
	/* Files of the v1 space cache, which nothing reads: old kernels left their mode 0. */
	if (GET(block_header(it->leaf), owner) == BTRFS_ROOT_TREE_OBJECTID)
		return 0;
	if (!is_mode(mode))
		return item_bad(it, "mode 0%o", mode);
	/* One more, for log trees. */
	if (GET(inode, generation) > it->geo->generation + 1)
		return item_bad(it, "generation %llu", (ull)GET(inode, generation));
	if (S_ISDIR(mode) && GET(inode, nlink) > 1)
		return item_bad(it, "a directory with %u links", GET(inode, nlink));
	/* A directory's size is the sum of its names: old kernels let it go below zero. */
	if (!S_ISDIR(mode) && GET(inode, size) > INT64_MAX)
		return item_bad(it, "size %llu", (ull)GET(inode, size));
	return 0;
}

static int check_ref_name(const struct checked_item *it, uint32_t pos, uint32_t name_len)
{
	if (!name_len || name_len > BTRFS_NAME_LEN)
		return item_bad(it, "a name of %u bytes", name_len);
	if (name_len > it->bytes - pos)
		return item_bad(it, "a name goes beyond the item");
	return 0;
}

int check_inode_ref(const struct checked_item *it)
{
	uint32_t pos = 0;

	while (pos < it->bytes) {
		const struct btrfs_inode_ref *ref = (const void *)(it->data + pos);
		int ret;

		if (it->bytes - pos < sizeof(*ref))
			return item_bad(it, "a reference goes beyond the item");
		pos += (uint32_t)sizeof(*ref);
		ret = check_ref_name(it, pos, GET(ref, name_len));
		if (ret)
			return ret;
		pos += GET(ref, name_len);
	}
	return 0;
}

int check_inode_extref(const struct checked_item *it)
{
	uint32_t pos = 0;

	while (pos < it->bytes) {
		const struct btrfs_inode_extref *ref = (const void *)(it->data + pos);
		int ret;

		if (it->bytes - pos < sizeof(*ref))
			return item_bad(it, "a reference goes beyond the item");
		pos += (uint32_t)sizeof(*ref);
		ret = check_ref_name(it, pos, GET(ref, name_len));
		if (ret)
			return ret;
		pos += GET(ref, name_len);
	}
	return 0;
}

/* ------------------------------------------------------------- directories */

/* That a client can use it as one name. */
static bool is_file_name(const char *name, uint32_t len)
{
	if (memchr(name, '/', len) || memchr(name, '\0', len))
		return false;
	return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

static int check_xattr_entry(const struct checked_item *it, const struct btrfs_dir_item *entry)
{
	if ((entry->type & ~BTRFS_FT_ENCRYPTED) != BTRFS_FT_XATTR)
		return item_bad(it, "entry type %u for an xattr", entry->type);
	return 0;
}

static int check_name_entry(
	const struct checked_item *it, const struct btrfs_dir_item *entry, const char *name)
{
	if ((entry->type & ~BTRFS_FT_ENCRYPTED) >= BTRFS_FT_XATTR)
		return item_bad(it, "entry type %u", entry->type);
	if (GET(entry, data_len))
		return item_bad(it, "%u bytes of data at a name", GET(entry, data_len));
	if (entry->location.type != BTRFS_INODE_ITEM_KEY &&
		entry->location.type != BTRFS_ROOT_ITEM_KEY)
		return item_bad(it, "an entry of key type %u", entry->location.type);
	/* Ciphertext is any bytes. */
	if (!(entry->type & BTRFS_FT_ENCRYPTED) && !is_file_name(name, GET(entry, name_len)))
		return item_bad(it, "not a file name");
	return 0;
}

/* *pos: of the entry; then of the next. */
static int check_entry(const struct checked_item *it, uint32_t *pos)
{
	const struct btrfs_dir_item *entry = (const void *)(it->data + *pos);
	const char *name = (const char *)(entry + 1);
	uint32_t name_len, data_len, left = it->bytes - *pos;
	int ret;

	if (left < sizeof(*entry))
		return item_bad(it, "an entry goes beyond the item");
	left -= (uint32_t)sizeof(*entry);
	name_len = GET(entry, name_len);
	data_len = GET(entry, data_len);
	if (!name_len || name_len > BTRFS_NAME_LEN)
		return item_bad(it, "a name of %u bytes", name_len);
	if (name_len + data_len > left)
		return item_bad(it, "a name or value goes beyond the item");
	ret = it->key.type == BTRFS_XATTR_ITEM_KEY ? check_xattr_entry(it, entry)
						   : check_name_entry(it, entry, name);
	if (ret)
		return ret;
	if (it->key.type != BTRFS_DIR_INDEX_KEY && name_hash(name, name_len) != it->key.offset)
		return item_bad(it, "the key is not the hash of the name");
	*pos += (uint32_t)sizeof(*entry) + name_len + data_len;
	return 0;
}

int check_dir_item(const struct checked_item *it)
{
	uint32_t pos = 0;
	int ret;

	if (it->key.type == BTRFS_DIR_INDEX_KEY && it->key.offset >= MAX_DIR_INDEX)
		return item_bad(it, "an index out of range");
	while (pos < it->bytes) {
		ret = check_entry(it, &pos);
		if (ret)
			return ret;
	}
	return 0;
}

/* ------------------------------------------------------------- file extents */

static int check_inline(const struct checked_item *it, const struct btrfs_file_extent_item *fe)
{
	uint64_t ram = GET(fe, ram_bytes);

	if (it->key.offset)
		return item_bad(it, "an inline extent that is not at the front");
	if (fe->compression == BTRFS_COMPRESS_NONE) {
		if (ram != it->bytes - FILE_EXTENT_INLINE_OFFSET)
			return item_bad(
				it, "an inline extent of %llu bytes in %u", (ull)ram, it->bytes);
	} else if (ram > BTRFS_MAX_UNCOMPRESSED_BYTES) {
		return item_bad(it, "a compressed inline extent of %llu bytes", (ull)ram);
	}
	return 0;
}

static int check_extent_sizes(
	const struct checked_item *it, const struct btrfs_file_extent_item *fe)
{
	uint64_t ram = GET(fe, ram_bytes), disk = GET(fe, disk_num_bytes);
	uint64_t offset = GET(fe, offset), num = GET(fe, num_bytes);
	uint64_t end;

	/* File offsets are signed. */
	if (__builtin_add_overflow(it->key.offset, num, &end) || end > 1ull << 63)
		return item_bad(it, "%llu bytes go beyond the largest file", (ull)num);
	if (!num)
		return item_bad(it, "an extent of no bytes");
	if (__builtin_add_overflow(offset, num, &end) ||
		__builtin_add_overflow(GET(fe, disk_bytenr), end, &end) ||
		__builtin_add_overflow(GET(fe, disk_bytenr), disk, &end))
		return item_bad(it, "an address overflows");
	if (fe->compression == BTRFS_COMPRESS_NONE || !GET(fe, disk_bytenr))
		return 0;
	/* It is in memory as a whole while it is read. */
	if (ram > BTRFS_MAX_UNCOMPRESSED_BYTES || disk > BTRFS_MAX_COMPRESSED_BYTES ||
		offset + num > ram)
		return item_bad(it,
			"%llu bytes at %llu of a compressed extent of %llu (%llu on disk)",
			(ull)num, (ull)offset, (ull)ram, (ull)disk);
	return 0;
}

static int check_regular(const struct checked_item *it, const struct btrfs_file_extent_item *fe)
{
	if (it->bytes != sizeof(*fe))
		return item_bad(it, "%u bytes, expected %zu", it->bytes, sizeof(*fe));
	if (!is_aligned(it->geo, GET(fe, ram_bytes)) ||
		!is_aligned(it->geo, GET(fe, disk_bytenr)) ||
		!is_aligned(it->geo, GET(fe, disk_num_bytes)) ||
		!is_aligned(it->geo, GET(fe, offset)) || !is_aligned(it->geo, GET(fe, num_bytes)))
		return item_bad(it, "an extent that is not aligned to sectors");
	return check_extent_sizes(it, fe);
}

int check_file_extent(const struct checked_item *it)
{
	const struct btrfs_file_extent_item *fe = (const void *)it->data;

	if (!is_aligned(it->geo, it->key.offset))
		return item_bad(it, "a file offset that is not aligned to sectors");
	if (fe->compression > BTRFS_COMPRESS_ZSTD)
		return item_bad(it, "compression type %u", fe->compression);
	if (fe->encryption || GET(fe, other_encoding))
		return item_bad(
			it, "encryption %u, encoding %u", fe->encryption, GET(fe, other_encoding));
	switch (fe->type) {
	case BTRFS_FILE_EXTENT_INLINE:
		return check_inline(it, fe);
	case BTRFS_FILE_EXTENT_REG:
	case BTRFS_FILE_EXTENT_PREALLOC:
		return check_regular(it, fe);
	}
	return item_bad(it, "extent type %u", fe->type);
}

int check_extent_csum(const struct checked_item *it)
{
	uint64_t sectors = it->bytes / it->geo->csum_bytes, end;

	if (it->key.objectid != BTRFS_EXTENT_CSUM_OBJECTID)
		return item_bad(it, "checksums of object %llu", it->key.objectid);
	if (!is_aligned(it->geo, it->key.offset))
		return item_bad(it, "an address that is not aligned to sectors");
	if (it->bytes % it->geo->csum_bytes)
		return item_bad(
			it, "%u bytes of checksums of %u bytes", it->bytes, it->geo->csum_bytes);
	if (__builtin_add_overflow(it->key.offset, sectors * it->geo->sector_bytes, &end))
		return item_bad(it, "the address overflows");
	return 0;
}
