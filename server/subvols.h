/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the server knows of a subvolume: its fsid, and the export it belongs to.
 * Each thread caches that for itself, so that a request takes no lock for it. Neither
 * exports nor subvolumes change while the server runs.
 */
#ifndef SERVER_SUBVOLS_H
#define SERVER_SUBVOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "fscore/fscore.h"

struct export;
struct srv_thread;

#define SUBVOL_CACHE_SLOTS 256u

struct srv_subvol {
	uint64_t id; /* 0: the slot is empty */
	uint64_t fsid;
	bool read_only;
	/* The nearest exported one among itself and those above it; or NULL. */
	const struct export *export;
};

/* Owned by one thread. */
struct subvol_cache {
	struct srv_subvol slot[SUBVOL_CACHE_SLOTS];
};

/* -ENOENT: there is no such subvolume. */
int srv_subvol_get(struct srv_thread *t, struct fsc_ctx *ctx, uint64_t id, struct srv_subvol *out);

/* 64 bits of a UUID that differ whenever any bit of it differs (but by chance). */
uint64_t subvol_fsid(const uint8_t uuid[FSC_UUID_BYTES]);

#endif
