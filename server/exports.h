/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exports: which subvolume is served under which name, to whom, and how.
 * Built before the threads start and immutable then.
 *
 * Options are those of exports(5): ro rw, sync async, root_squash no_root_squash all_squash
 * no_all_squash, anonuid=N anongid=N, secure insecure. A client is an IPv4 or
 * IPv6 address, a network ADDRESS/BITS, or `*`, each with options of its own in
 * parentheses behind it. Of the clients that match, the narrowest counts.
 * compress=TYPE is an option of the export as a whole.
 */
#ifndef SERVER_EXPORTS_H
#define SERVER_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fscore/fscore.h"

/* An address as IPv6 has it; IPv4 in its mapped form. */
struct net_addr {
	uint8_t ip[16];
	uint16_t port;
};

/* False for other families than AF_INET and AF_INET6. */
bool net_addr_from(const struct sockaddr *sa, struct net_addr *out);

#define NET_ADDR_TEXT 64u
/* Without the port. */
void net_addr_text(const struct net_addr *addr, char out[NET_ADDR_TEXT]);

enum squash {
	SQUASH_ROOT,
	SQUASH_NONE,
	SQUASH_ALL
};

struct export_rules {
	bool writable;
	bool async;	      /* changes are answered before they are durable */
	bool privileged_port; /* "secure" */
	enum squash squash;
	uint32_t anon_uid, anon_gid;
};

struct export_client {
	uint8_t ip[16];
	unsigned bits; /* of ip that count; 0: everyone */
	char *text;    /* as EXPORT shows it */
	struct export_rules rules;
};

/* "zlib", "lzo", "zstd", "none", with or without a level. */
#define EXPORT_COMPRESS_MAX 16u

struct export
{
	char *name;			    /* "/" or "/a/b", no slash at the end */
	char *subvol_path;		    /* from the top subvolume */
	char compress[EXPORT_COMPRESS_MAX]; /* of new data; "": as the volume has it */
	uint64_t subvol;		    /* set by exports_resolve() */
	struct export_client *clients;
	size_t n_clients;
	/* Another name of an export of the same subvolume with equal rules. */
	const struct export *alias_of;
};

struct exports {
	struct export *list;
	size_t n;
	/* Open addressing by subvolume, of a power of two; NULL: free. */
	const struct export **by_subvol;
	size_t n_slots;
};

struct exports *exports_create(void);
void exports_destroy(struct exports *x);

#define EXPORT_ERROR_MAX 256u

/*
 * Adds an export. options: comma-separated, or NULL; the defaults of its
 * clients. clients: CLIENT[(OPTIONS)], each a string; none means `*`. Returns
 * -EINVAL with what is wrong in error[], -EEXIST (also said there), -ENOMEM.
 */
int exports_add(struct exports *x, const char *name, const char *subvol_path, const char *options,
	const char *const *clients, size_t n_clients, char error[EXPORT_ERROR_MAX]);

/* The same for "/NAME=SUBVOL[,OPTION]...", where client=CLIENT is an option too. */
int exports_add_spec(struct exports *x, const char *spec, char error[EXPORT_ERROR_MAX]);

/* True when some client may write somewhere. */
bool exports_any_writable(const struct exports *x);

/* Finds the subvolumes. Might wait. Logs what is wrong. */
int exports_resolve(struct exports *x, struct fsc_thread *t, struct fsc_volume *vol);

/* NULL: not exported itself. */
const struct export *exports_by_subvol(const struct exports *x, uint64_t id);

/*
 * The export whose name is path or its longest ancestor; *rest is what follows
 * the name ("" or beginning with a slash). NULL: there is none.
 */
const struct export *exports_by_path(const struct exports *x, const char *path, const char **rest);

/*
 * A path without doubled slashes and one at its end: "/a//b/" is "/a/b", and "/" is "".
 * out has room for len + 1 bytes. Returns its length.
 */
size_t export_clean_path(const void *path, size_t len, char *out);

/* The rules that hold for a client; NULL: it has no access. */
const struct export_rules *export_match(const struct export *e, const struct net_addr *client);

#endif
