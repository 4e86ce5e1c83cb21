/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File handles: 44 bytes that mean the same after a restart and on another
 * machine that has the volume.
 *
 *   bytes  what
 *   0      version, 1. Another one is not a handle of ours: BADHANDLE
 *   1-3    zero; anything else: BADHANDLE
 *   4-19   UUID of the volume; another one: STALE
 *   20-27  subvolume        big endian, as the two below
 *   28-35  inode
 *   36-43  generation of the inode
 *
 * A handle names no export: its export is the nearest exported subvolume at or
 * above its own, and whether the client may use that is checked at every use.
 */
#ifndef SERVER_FH_H
#define SERVER_FH_H

#include <stddef.h>
#include <stdint.h>

#include "fscore/fscore.h"

#define FH_BYTES 44u

struct fh_id {
	uint64_t subvol, ino, generation;
};

void fh_encode(const uint8_t volume[FSC_UUID_BYTES], const struct fh_id *id, uint8_t out[FH_BYTES]);

/* 0, -SRV_EBADHANDLE (errors.h) or -ESTALE. */
int fh_decode(const uint8_t volume[FSC_UUID_BYTES], const void *data, size_t len, struct fh_id *id);

#endif
