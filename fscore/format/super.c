/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/format/super.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/format/report.h"

/*
 * Those that a reader may meet. A metadata dump has no data behind it, but can be walked.
 * Not CHANGING_FSID* (blocks carry either of two fsids).
 */
#define KNOWN_FLAGS                                                                     \
	(BTRFS_HEADER_FLAG_WRITTEN | BTRFS_HEADER_FLAG_RELOC | BTRFS_SUPER_FLAG_ERROR | \
		BTRFS_SUPER_FLAG_SEEDING | BTRFS_SUPER_FLAG_METADUMP |                  \
		BTRFS_SUPER_FLAG_METADUMP_V2)

static bool is_size(uint32_t v)
{
	return v >= BTRFS_MIN_NODE_BYTES && v <= BTRFS_MAX_METADATA_BLOCKSIZE && !(v & (v - 1));
}

static int check_sizes(const struct btrfs_super_block *sb, const struct report *r)
{
	uint32_t sector = GET(sb, sectorsize), node = GET(sb, nodesize);
	uint32_t stripe = GET(sb, stripesize), array = GET(sb, sys_chunk_array_size);

	if (!is_size(sector))
		return bad(r, "superblock: sector size %u", sector);
	if (!is_size(node) || node < sector)
		return bad(r, "superblock: node size %u with sector size %u", node, sector);
	if (GET(sb, unused_leafsize) != node)
		return bad(r, "superblock: leaf size %u, node size %u", GET(sb, unused_leafsize),
			node);
	if (!stripe || (stripe & (stripe - 1)))
		return bad(r, "superblock: stripe size %u", stripe);
	if ((GET(sb, incompat_flags) & BTRFS_FEATURE_INCOMPAT_MIXED_GROUPS) && node != sector)
		return bad(r, "superblock: mixed block groups with node size %u, sector size %u",
			node, sector);
	if (array > BTRFS_SYS_CHUNK_ARRAY_SIZE ||
		array < sizeof(struct btrfs_disk_key) + sizeof(struct btrfs_chunk))
		return bad(r, "superblock: %u bytes of system chunks", array);
	return 0;
}

static int check_root(const struct btrfs_super_block *sb, const char *name, uint64_t logical,
	uint8_t level, const struct report *r)
{
	if (level >= BTRFS_MAX_LEVEL)
		return bad(r, "superblock: %s at level %u", name, level);
	if (logical % GET(sb, sectorsize))
		return bad(r, "superblock: %s at %llu, which is not aligned", name,
			(unsigned long long)logical);
	return 0;
}

static int check_roots(const struct btrfs_super_block *sb, const struct report *r)
{
	int ret = check_root(sb, "root tree", GET(sb, root), sb->root_level, r);

	if (!ret)
		ret = check_root(sb, "chunk tree", GET(sb, chunk_root), sb->chunk_root_level, r);
	if (!ret)
		ret = check_root(sb, "log tree", GET(sb, log_root), sb->log_root_level, r);
	return ret;
}

static int check_device(
	const struct btrfs_super_block *sb, uint64_t device_bytes, const struct report *r)
{
	uint64_t need = GET(&sb->dev_item, total_bytes);

	if (!GET(sb, num_devices))
		return bad(r, "superblock: no devices");
	if (memcmp(super_metadata_fsid(sb), sb->dev_item.fsid, BTRFS_FSID_SIZE) != 0)
		return bad(r, "superblock: the device belongs to another fsid");
	if (GET(sb, bytes_used) < 6ull * GET(sb, nodesize))
		return bad(r, "superblock: only %llu bytes in use",
			(unsigned long long)GET(sb, bytes_used));
	if (device_bytes && need > device_bytes)
		return bad(r, "device of %llu bytes, the volume's has %llu",
			(unsigned long long)device_bytes, (unsigned long long)need);
	return 0;
}

int super_check(const struct btrfs_super_block *sb, uint64_t physical, uint64_t device_bytes,
	char *why, size_t why_bytes)
{
	const struct report r = {.why = why, .bytes = why_bytes};
	uint16_t type = GET(sb, csum_type);
	uint64_t odd_flags = GET(sb, flags) & ~(uint64_t)KNOWN_FLAGS;
	int ret;

	if (GET(sb, magic) != BTRFS_MAGIC) {
		bad(&r, "no btrfs superblock");
		return -EINVAL;
	}
	if (!csum_bytes(type))
		return bad(&r, "superblock: unknown checksum type %u", type);
	if (!csum_block_ok(type, sb, BTRFS_SUPER_BYTES))
		return bad(&r, "superblock: wrong checksum (%s)", csum_name(type));
	if (GET(sb, bytenr) != physical)
		return bad(&r, "superblock at %llu says it is at %llu",
			(unsigned long long)physical, (unsigned long long)GET(sb, bytenr));
	if (odd_flags)
		return bad(&r, "superblock: flags 0x%llx%s", (unsigned long long)odd_flags,
			odd_flags &
					(BTRFS_SUPER_FLAG_CHANGING_FSID |
						BTRFS_SUPER_FLAG_CHANGING_FSID_V2)
				? " (a change of fsid was interrupted)"
				: "");
	ret = check_sizes(sb, &r);
	if (!ret)
		ret = check_roots(sb, &r);
	if (!ret)
		ret = check_device(sb, device_bytes, &r);
	return ret;
}

const uint8_t *super_metadata_fsid(const struct btrfs_super_block *sb)
{
	if (GET(sb, incompat_flags) & BTRFS_FEATURE_INCOMPAT_METADATA_UUID)
		return sb->metadata_uuid;
	return sb->fsid;
}

/* ------------------------------------------------------------- features */

/* By bit number; implemented: a volume with it can be read. */
struct feature {
	const char *name;
	bool implemented;
};

static const struct feature incompat[] = {
	[0] = {"mixed-backref", true},
	[1] = {"default-subvol", true},
	[2] = {"mixed-bg", true},
	[3] = {"compress-lzo", true},
	[4] = {"compress-zstd", true},
	[5] = {"big-metadata", true},
	[6] = {"extref", true},
	[7] = {"raid56", false},
	[8] = {"skinny-metadata", true},
	[9] = {"no-holes", true},
	[10] = {"metadata-uuid", true},
	[11] = {"raid1c34", false},
	[12] = {"zoned", false},
	[13] = {"extent-tree-v2", false},
	[14] = {"raid-stripe-tree", false},
	[16] = {"squota", true},
	[17] = {"remap-tree", false},
};

static const struct feature compat_ro[] = {
	[0] = {"free-space-tree", true},
	[1] = {"free-space-tree-valid", true},
	[2] = {"verity", true},
	[3] = {"block-group-tree", true},
};

static unsigned list_unknown(
	uint64_t flags, const struct feature *table, unsigned n, char *names, size_t bytes)
{
	unsigned found = 0;
	size_t used = 0;

	if (bytes)
		names[0] = '\0';
	for (unsigned bit = 0; bit < 64; bit++) {
		const char *name = bit < n ? table[bit].name : NULL;
		const char *comma = found ? ", " : "";
		int len;

		if (!(flags >> bit & 1) || (name && table[bit].implemented))
			continue;
		found++;
		if (used >= bytes)
			continue;
		len = name ? snprintf(names + used, bytes - used, "%s%s", comma, name)
			   : snprintf(names + used, bytes - used, "%sbit %u", comma, bit);
		used += (size_t)MAX(len, 0);
	}
	return found;
}

unsigned super_unknown_incompat(const struct btrfs_super_block *sb, char *names, size_t bytes)
{
	return list_unknown(GET(sb, incompat_flags), incompat, ARRAY_SIZE(incompat), names, bytes);
}

unsigned super_unknown_compat_ro(const struct btrfs_super_block *sb, char *names, size_t bytes)
{
	return list_unknown(
		GET(sb, compat_ro_flags), compat_ro, ARRAY_SIZE(compat_ro), names, bytes);
}
