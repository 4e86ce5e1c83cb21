/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What byred was asked to do, by its command line or its configuration file.
 *
 * The file is in libconfig's syntax:
 *
 *   volume = "/var/lib/byre/volume.img";   required; a file or block device
 *   listen = [ "0.0.0.0:2049" ];           a string or a list of strings
 *   socket = "/run/byred.sock";            for byrectl; default: none
 *   cache = "256M";                        bytes, or with K, M, G, T
 *   workers = 8;                           threads for what has to wait
 *   loops = 0;                             event loops; 0: one for each CPU
 *   connections = 16384;                   the most at once
 *   discard = false;                       tell the device what is not used any more
 *   rpcbind = true;                        register with it when it is there
 *   log = { file = "/var/log/byred.log"; level = "info"; };
 *   exports = (
 *     { name = "/home";                    what clients mount; required
 *       subvolume = "/home";               path from the top subvolume; required
 *       options = "ro,root_squash";        as in exports(5), see exports.h
 *       clients = [ "10.0.0.0/8(rw)", "*" ]; default: everyone
 *     }
 *   );
 *
 * Settings of other names are errors.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/exports.h"

#define CONFIG_LISTENERS_MAX 16u

struct srv_config {
	char *volume;
	char *listen[CONFIG_LISTENERS_MAX];
	size_t n_listen;
	char *socket;
	uint64_t cache_bytes; /* 0: fscore's default */
	unsigned workers;
	unsigned loops; /* 0: one for each CPU */
	unsigned connections;
	bool discard;
	bool rpcbind;
	char *log_file; /* NULL: stderr */
	int log_level;	/* enum log_level */
	struct exports *exports;
};

/* -ENOMEM. */
int srv_config_init(struct srv_config *c);
void srv_config_fini(struct srv_config *c);

/*
 * Reads a file. What is wrong is printed to stderr with file, line and what
 * was expected, and -EINVAL returned.
 */
int srv_config_read(struct srv_config *c, const char *path);

/* Checks what must be there, from wherever it came. Prints what is missing. */
int srv_config_check(const struct srv_config *c);

int srv_config_add_listen(struct srv_config *c, const char *spec);
/* Takes the first one away. */
void srv_config_drop_listen(struct srv_config *c);
/* "256M" and the like. */
bool srv_config_parse_size(const char *text, uint64_t *out);
bool srv_config_parse_number(const char *text, unsigned min, unsigned max, unsigned *out);
/* Replaces a string. */
int srv_config_set_string(char **to, const char *value);

#define CONFIG_WORKERS_MAX 256u
#define CONFIG_LOOPS_MAX   256u
#define CONFIG_CONNS_MAX   1000000u

#endif
