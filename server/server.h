/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What all threads of the daemon share, and what each thread that calls fscore
 * has of its own. Everything in struct server is set before the threads start
 * and immutable then, or is a module that guards itself.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "fscore/fscore.h"
#include "server/subvols.h"
#include "server/write_verf.h"

struct exports;
struct jobs;
struct mount_list;
struct replay_cache;

/* The largest READ and WRITE; a record may be longer by its header. */
#define SRV_IO_MAX	(1u << 20)
#define SRV_RECORD_MAX	(SRV_IO_MAX + 65536u)
#define SRV_DIRLIST_MAX 65536u

struct server {
	struct fsc_volume *vol;
	struct fsc_volume_info vol_info;
	const struct exports *exports;
	struct jobs *jobs;
	struct mount_list *mounts;
	struct replay_cache *replays; /* NULL: none, in tests */
	struct write_verf write_verf;
};

/* Owned by one loop or worker thread. */
struct srv_thread {
	struct server *srv;
	struct fsc_thread *fsc;
	struct subvol_cache subvols;
};

#endif
