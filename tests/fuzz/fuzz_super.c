/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a superblock, with a right checksum. What passes is used as when a
 * volume is opened: the system chunk array is walked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/format/csum.h"
#include "fscore/format/item_check.h"
#include "fscore/format/super.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
	if (!holds)
		abort();
}

/* An array as long as it says, in memory of its own. */
static void walk_chunks(const struct btrfs_super_block *sb)
{
	struct volume_geometry geo = {
		.sector_bytes = GET(sb, sectorsize),
		.node_bytes = GET(sb, nodesize),
		.incompat_flags = GET(sb, incompat_flags),
	};
	size_t bytes = GET(sb, sys_chunk_array_size), at = 0;
	uint8_t *array;
	char why[200];

	need(bytes <= BTRFS_SYS_CHUNK_ARRAY_SIZE);
	array = calloc(1, bytes);
	need(array);
	memcpy(array, sb->sys_chunk_array, bytes);
	while (bytes - at >= sizeof(struct btrfs_disk_key) + sizeof(struct btrfs_chunk)) {
		struct btrfs_key key = key_from_disk((const void *)(array + at));
		const struct btrfs_chunk *chunk =
			(const void *)(array + at + sizeof(struct btrfs_disk_key));
		size_t n = GET(chunk, num_stripes);
		size_t item_bytes = sizeof(*chunk) + n * sizeof(chunk->stripe);

		item_bytes -= sizeof(chunk->stripe);
		at += sizeof(struct btrfs_disk_key);
		if (!n || item_bytes > bytes - at ||
			chunk_item_check(&geo, &key, chunk, item_bytes, why, sizeof(why)))
			break;
		need(n <= 2);
		at += item_bytes;
	}
	free(array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct btrfs_super_block *sb = calloc(1, sizeof(*sb));
	char why[200] = "", names[100];
	int ret;

	need(sb);
	memcpy(sb, data, MIN(size, sizeof(*sb)));
	if (csum_bytes(GET(sb, csum_type)))
		csum_compute(GET(sb, csum_type), sb->fsid, sizeof(*sb) - BTRFS_CSUM_SIZE, sb->csum);
	ret = super_check(sb, GET(sb, bytenr), size & 1 ? 1ull << 40 : 0, why, sizeof(why));
	need(ret == 0 || ((ret == -EUCLEAN || ret == -EINVAL) && strlen(why) > 0));
	super_unknown_incompat(sb, names, sizeof(names));
	super_unknown_compat_ro(sb, names, sizeof(names));
	if (ret == 0) {
		need(super_metadata_fsid(sb) != NULL);
		walk_chunks(sb);
	}
	free(sb);
	return 0;
}
