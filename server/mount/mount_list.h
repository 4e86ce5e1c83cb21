/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who has mounted what, for MOUNT's DUMP: for people to look at, nothing
 * depends on it. The newest MOUNT_LIST_MAX are kept. Guards itself.
 */
#ifndef SERVER_MOUNT_MOUNT_LIST_H
#define SERVER_MOUNT_MOUNT_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "server/exports.h"

#define MOUNT_LIST_MAX	1024u
#define MOUNT_LIST_PATH 128u /* longer paths are not kept */

struct mount_list;

struct mount_list *mount_list_create(void);
void mount_list_destroy(struct mount_list *l);

void mount_list_add(struct mount_list *l, const struct net_addr *host, const char *path);
/* path NULL: all of this host. */
void mount_list_remove(struct mount_list *l, const struct net_addr *host, const char *path);

/* Calls fn under the list's lock, which must not call back. */
void mount_list_each(
	struct mount_list *l, void (*fn)(void *arg, const char *host, const char *path), void *arg);

#endif
