/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The four checksums of btrfs, from libraries. No state; any thread. */
#ifndef FSCORE_FORMAT_CSUM_H
#define FSCORE_FORMAT_CSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fscore/format/disk.h"

/* The size of a checksum of this type (enum btrfs_csum_type), 0 for an unknown type. */
unsigned csum_bytes(uint16_t type);

/* "crc32c", ...; "unknown". */
const char *csum_name(uint16_t type);

/* Writes csum_bytes(type) bytes to out. The type is known. */
void csum_compute(uint16_t type, const void *data, size_t len, uint8_t out[BTRFS_CSUM_SIZE]);

/* True for those whose cost matters on a loop thread (sha256, blake2b). */
bool csum_is_slow(uint16_t type);

/*
 * Whether the checksum at the front of a block of len bytes (superblock or
 * metadata block) is that of the rest.
 */
bool csum_block_ok(uint16_t type, const void *block, size_t len);

/* The hash of a name in a directory or of an extended attribute: DIR_ITEM, XATTR_ITEM keys. */
uint64_t name_hash(const char *name, size_t len);

/* The hash of an extended inode reference (INODE_EXTREF key offset). */
uint64_t extref_hash(uint64_t parent, const char *name, size_t len);

#endif
