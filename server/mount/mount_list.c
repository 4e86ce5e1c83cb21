/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/mount/mount_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

struct entry {
	uint8_t ip[16];
	char path[MOUNT_LIST_PATH]; /* "": free */
};

struct mount_list {
	struct short_lock lock; /* RANK_SERVER */
	/* guarded by lock */
	unsigned next; /* where the next one goes */
	unsigned n;    /* entries that have ever been used */
	struct entry entry[MOUNT_LIST_MAX];
};

struct mount_list *mount_list_create(void)
{
	struct mount_list *l = calloc(1, sizeof(*l));

	if (l)
		short_lock_init(&l->lock, RANK_SERVER);
	return l;
}

void mount_list_destroy(struct mount_list *l)
{
	if (!l)
		return;
	short_lock_fini(&l->lock);
	free(l);
}

static bool is_entry(const struct entry *e, const struct net_addr *host, const char *path)
{
	return e->path[0] && !memcmp(e->ip, host->ip, sizeof(e->ip)) &&
		(!path || !strcmp(e->path, path));
}

void mount_list_add(struct mount_list *l, const struct net_addr *host, const char *path)
{
	struct entry *e;

	if (strlen(path) >= MOUNT_LIST_PATH)
		return;
	short_lock(&l->lock);
	for (unsigned i = 0; i < l->n; i++)
		if (is_entry(&l->entry[i], host, path))
			goto out;
	e = &l->entry[l->next];
	memcpy(e->ip, host->ip, sizeof(e->ip));
	strcpy(e->path, path);
	l->next = (l->next + 1) % MOUNT_LIST_MAX;
	if (l->n < MOUNT_LIST_MAX)
		l->n++;
out:
	short_unlock(&l->lock);
}

void mount_list_remove(struct mount_list *l, const struct net_addr *host, const char *path)
{
	short_lock(&l->lock);
	for (unsigned i = 0; i < l->n; i++)
		if (is_entry(&l->entry[i], host, path))
			l->entry[i].path[0] = '\0';
	short_unlock(&l->lock);
}

void mount_list_each(
	struct mount_list *l, void (*fn)(void *arg, const char *host, const char *path), void *arg)
{
	struct net_addr addr = {.port = 0};
	char host[NET_ADDR_TEXT];

	short_lock(&l->lock);
	for (unsigned i = 0; i < l->n; i++) {
		if (!l->entry[i].path[0])
			continue;
		memcpy(addr.ip, l->entry[i].ip, sizeof(addr.ip));
		net_addr_text(&addr, host);
		fn(arg, host, l->entry[i].path);
	}
	short_unlock(&l->lock);
}
