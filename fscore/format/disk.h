/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The btrfs on-disk format: what <linux/btrfs_tree.h> has, and the structures
 * and constants that it lacks (superblock, block header, item, key pointer, what
 * kernels after 6.1 added). All integers on disk are little-endian and may be
 * unaligned: read them with GET().
 */
#ifndef FSCORE_FORMAT_DISK_H
#define FSCORE_FORMAT_DISK_H

#include <endian.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The value of an on-disk integer field, in the machine's byte order. p points to
 * a packed structure, so the compiler knows that the field may be unaligned.
 */
#define GET(p, field)                                    \
	_Generic((p)->field, uint8_t                     \
		 : (uint8_t)(p)->field, __le16           \
		 : le16toh((uint16_t)(p)->field), __le32 \
		 : le32toh((uint32_t)(p)->field), __le64 \
		 : le64toh((uint64_t)(p)->field))

#define BTRFS_MAGIC		   0x4d5f53665248425full /* "_BHRfS_M" */
#define BTRFS_SUPER_BYTES	   4096u
#define BTRFS_SUPER_MIRRORS	   3u
#define BTRFS_SYS_CHUNK_ARRAY_SIZE 2048u
#define BTRFS_NUM_BACKUP_ROOTS	   4u
#define BTRFS_MAX_LEVEL		   8u
#define BTRFS_MIN_NODE_BYTES	   4096u
#define BTRFS_STRIPE_LEN_BYTES	   65536u
/* From an owner of one reference to a shared extent; 6.7, simple quotas. */
#define BTRFS_EXTENT_OWNER_REF_KEY	172u
#define BTRFS_RAID_STRIPE_KEY		230u
#define BTRFS_RAID_STRIPE_TREE_OBJECTID 12ull
#define BTRFS_REMAP_TREE_OBJECTID	13ull

#ifndef BTRFS_NAME_LEN
#define BTRFS_NAME_LEN 255u
#endif
#ifndef BTRFS_FEATURE_INCOMPAT_RAID_STRIPE_TREE
#define BTRFS_FEATURE_INCOMPAT_RAID_STRIPE_TREE (1ull << 14)
#endif
#ifndef BTRFS_FEATURE_INCOMPAT_SIMPLE_QUOTA
#define BTRFS_FEATURE_INCOMPAT_SIMPLE_QUOTA (1ull << 16)
#endif

/* The top byte of btrfs_header.flags. */
#define BTRFS_BACKREF_REV_SHIFT 56u
#define BTRFS_MIXED_BACKREF_REV 1ull

/* btrfs_inode_item.flags */
#define BTRFS_INODE_NODATASUM  (1ull << 0)
#define BTRFS_INODE_NODATACOW  (1ull << 1)
#define BTRFS_INODE_READONLY   (1ull << 2)
#define BTRFS_INODE_NOCOMPRESS (1ull << 3)
#define BTRFS_INODE_PREALLOC   (1ull << 4)
#define BTRFS_INODE_SYNC       (1ull << 5)
#define BTRFS_INODE_IMMUTABLE  (1ull << 6)
#define BTRFS_INODE_APPEND     (1ull << 7)
#define BTRFS_INODE_NODUMP     (1ull << 8)
#define BTRFS_INODE_NOATIME    (1ull << 9)
#define BTRFS_INODE_DIRSYNC    (1ull << 10)
#define BTRFS_INODE_COMPRESS   (1ull << 11)

/* btrfs_dir_item.type: since 6.0 the top bit says that the name is encrypted. */
#define BTRFS_FT_ENCRYPTED 0x80u

enum btrfs_compression {
	BTRFS_COMPRESS_NONE = 0,
	BTRFS_COMPRESS_ZLIB = 1,
	BTRFS_COMPRESS_LZO = 2,
	BTRFS_COMPRESS_ZSTD = 3,
};
/* What one compressed extent holds at most, before and after compression. */
#define BTRFS_MAX_COMPRESSED_BYTES   (128u << 10)
#define BTRFS_MAX_UNCOMPRESSED_BYTES (128u << 10)

struct btrfs_header {
	/* These first four members are the same in the superblock. */
	__u8 csum[BTRFS_CSUM_SIZE];
	__u8 fsid[BTRFS_FSID_SIZE]; /* of the volume (metadata_uuid where that differs) */
	__le64 bytenr;		    /* logical address of this block */
	__le64 flags;
	__u8 chunk_tree_uuid[BTRFS_UUID_SIZE];
	__le64 generation;
	__le64 owner; /* the tree that it was made for */
	__le32 nritems;
	__u8 level; /* 0: leaf */
} __attribute__((__packed__));

/* A leaf: header, items ascending from the front, their data from the back. */
struct btrfs_item {
	struct btrfs_disk_key key;
	__le32 offset; /* of the data, from the end of the header */
	__le32 size;
} __attribute__((__packed__));

/* A node: header, key pointers. */
struct btrfs_key_ptr {
	struct btrfs_disk_key key;
	__le64 blockptr; /* logical */
	__le64 generation;
} __attribute__((__packed__));

struct btrfs_root_backup {
	__le64 tree_root;
	__le64 tree_root_gen;
	__le64 chunk_root;
	__le64 chunk_root_gen;
	__le64 extent_root;
	__le64 extent_root_gen;
	__le64 fs_root;
	__le64 fs_root_gen;
	__le64 dev_root;
	__le64 dev_root_gen;
	__le64 csum_root;
	__le64 csum_root_gen;
	__le64 total_bytes;
	__le64 bytes_used;
	__le64 num_devices;
	__le64 unused_64[4];
	__u8 tree_root_level;
	__u8 chunk_root_level;
	__u8 extent_root_level;
	__u8 fs_root_level;
	__u8 dev_root_level;
	__u8 csum_root_level;
	__u8 unused_8[10];
} __attribute__((__packed__));

/* At 64 KiB, 64 MiB and 256 GiB of the device, as far as it is that large. */
struct btrfs_super_block {
	__u8 csum[BTRFS_CSUM_SIZE];
	__u8 fsid[BTRFS_FSID_SIZE];
	__le64 bytenr; /* physical address of this copy */
	__le64 flags;
	__le64 magic;
	__le64 generation;
	__le64 root;
	__le64 chunk_root;
	__le64 log_root;
	__le64 log_root_transid; /* not used */
	__le64 total_bytes;
	__le64 bytes_used;
	__le64 root_dir_objectid;
	__le64 num_devices;
	__le32 sectorsize;
	__le32 nodesize;
	__le32 unused_leafsize;
	__le32 stripesize;
	__le32 sys_chunk_array_size;
	__le64 chunk_root_generation;
	__le64 compat_flags;
	__le64 compat_ro_flags;
	__le64 incompat_flags;
	__le16 csum_type;
	__u8 root_level;
	__u8 chunk_root_level;
	__u8 log_root_level;
	struct btrfs_dev_item dev_item;
	char label[BTRFS_LABEL_SIZE];
	__le64 cache_generation; /* generation of the v1 space cache, or 0 or -1 */
	__le64 uuid_tree_generation;
	__u8 metadata_uuid[BTRFS_FSID_SIZE]; /* with METADATA_UUID: fsid of the blocks */
	__u8 reserved[8 * 28];
	__u8 sys_chunk_array[BTRFS_SYS_CHUNK_ARRAY_SIZE];
	struct btrfs_root_backup super_roots[BTRFS_NUM_BACKUP_ROOTS];
	__u8 padding[565];
} __attribute__((__packed__));

_Static_assert(sizeof(struct btrfs_header) == 101, "btrfs_header");
_Static_assert(sizeof(struct btrfs_item) == 25, "btrfs_item");
_Static_assert(sizeof(struct btrfs_key_ptr) == 33, "btrfs_key_ptr");
_Static_assert(sizeof(struct btrfs_super_block) == BTRFS_SUPER_BYTES, "btrfs_super_block");

static inline uint64_t super_mirror_physical(unsigned mirror)
{
	return mirror == 0 ? 65536 : 16384ull << (12 * mirror);
}

static inline struct btrfs_key key_make(uint64_t objectid, uint8_t type, uint64_t offset)
{
	return (struct btrfs_key){.objectid = objectid, .type = type, .offset = offset};
}

static inline struct btrfs_key key_from_disk(const struct btrfs_disk_key *d)
{
	return key_make(GET(d, objectid), d->type, GET(d, offset));
}

/* <0, 0, >0 */
static inline int key_cmp(const struct btrfs_key *a, const struct btrfs_key *b)
{
	if (a->objectid != b->objectid)
		return a->objectid < b->objectid ? -1 : 1;
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return 0;
}

/* -- a verified block (item_check.h): the accessors trust it -- */

static inline const struct btrfs_header *block_header(const void *block)
{
	return block;
}

static inline uint32_t block_nritems(const void *block)
{
	return GET(block_header(block), nritems);
}

static inline uint8_t block_level(const void *block)
{
	return block_header(block)->level;
}

static inline const struct btrfs_item *leaf_item(const void *leaf, uint32_t slot)
{
	const char *first = (const char *)leaf + sizeof(struct btrfs_header);

	return (const struct btrfs_item *)(const void *)(first + slot * sizeof(struct btrfs_item));
}

static inline struct btrfs_key leaf_key(const void *leaf, uint32_t slot)
{
	return key_from_disk(&leaf_item(leaf, slot)->key);
}

static inline const void *leaf_data(const void *leaf, uint32_t slot)
{
	return (const char *)leaf + sizeof(struct btrfs_header) +
		GET(leaf_item(leaf, slot), offset);
}

static inline uint32_t leaf_data_bytes(const void *leaf, uint32_t slot)
{
	return GET(leaf_item(leaf, slot), size);
}

static inline const struct btrfs_key_ptr *node_ptr(const void *node, uint32_t slot)
{
	const char *first = (const char *)node + sizeof(struct btrfs_header);

	return (const struct btrfs_key_ptr *)(const void *)(first +
		slot * sizeof(struct btrfs_key_ptr));
}

static inline struct btrfs_key node_key(const void *node, uint32_t slot)
{
	return key_from_disk(&node_ptr(node, slot)->key);
}

/* Where the data of an inline file extent begins within its item. */
#define FILE_EXTENT_INLINE_OFFSET offsetof(struct btrfs_file_extent_item, disk_bytenr)

#endif
