/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks a superblock, and takes out of it what the rest needs. No state; any thread. */
#ifndef FSCORE_FORMAT_SUPER_H
#define FSCORE_FORMAT_SUPER_H

#include <stddef.h>

#include "fscore/format/disk.h"

/*
 * Whether the 4096 bytes at sb are a sound superblock whose own place is
 * physical: magic, checksum type and checksum, addresses, sizes, levels, the
 * bounds of the system chunk array (not its content). Lengths from it can be
 * trusted afterwards. device_bytes: size of the device, 0 if not known.
 * Returns 0; -EINVAL: not a btrfs superblock at all; -EUCLEAN: damaged, with why
 * filled in (one line, no newline).
 */
int super_check(const struct btrfs_super_block *sb, uint64_t physical, uint64_t device_bytes,
	char *why, size_t why_bytes);

/* The fsid that metadata blocks carry. */
const uint8_t *super_metadata_fsid(const struct btrfs_super_block *sb);

/*
 * Writes the names of the incompat features in sb that are not implemented to
 * names, separated by ", " (bits without a name as "bit N"). Returns how many.
 */
unsigned super_unknown_incompat(const struct btrfs_super_block *sb, char *names, size_t bytes);

/* The same for compat_ro. */
unsigned super_unknown_compat_ro(const struct btrfs_super_block *sb, char *names, size_t bytes);

#endif
