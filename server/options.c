/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"

static const char usage[] =
	"usage: byred --config FILE\n"
	"       byred --volume PATH --export /NAME=SUBVOL[,ro|rw][,OPTION]...\n"
	"\n"
	"  --config FILE        read settings from FILE: byred.conf(5)\n"
	"  --volume PATH        the btrfs volume: an image file or a block device\n"
	"  --export /NAME=SUBVOL[,OPTION]...\n"
	"                       serve a subvolume (\"/\" is the top one); repeatable.\n"
	"                       OPTION: ro rw root_squash no_root_squash all_squash\n"
	"                       no_all_squash anonuid=N anongid=N secure insecure\n"
	"                       sync async compress=zlib|lzo|zstd|none\n"
	"                       client=ADDRESS[/BITS][(OPTION,...)]\n"
	"  --listen ADDR:PORT   default 0.0.0.0:2049; repeatable; port 0: any free one\n"
	"  --socket PATH        control socket for byrectl\n"
	"  --cache SIZE         memory for the cache, for example 512M\n"
	"  --workers N          threads for what has to wait (8)\n"
	"  --loops N            event loops (one for each CPU)\n"
	"  --connections N      the most connections at once (16384)\n"
	"  --discard            tell the device what is not used any more\n"
	"  --no-rpcbind         do not register with rpcbind\n"
	"  --log-file FILE      log there instead of stderr\n"
	"  --log-level LEVEL    error, warning, notice, info, debug\n"
	"  --foreground         accepted: byred always stays in the foreground\n"
	"  --help, --version\n";

/* What takes an option's value. Returns what was expected, or NULL if fine. */
typedef const char *(*take_fn)(struct srv_config *c, const char *value);

static const char *take_volume(struct srv_config *c, const char *v)
{
	return srv_config_set_string(&c->volume, v) ? "less memory" : NULL;
}

static const char *take_export(struct srv_config *c, const char *v)
{
	static char error[EXPORT_ERROR_MAX];

	strcpy(error, "less memory");
	return exports_add_spec(c->exports, v, error) ? error : NULL;
}

static const char *take_listen(struct srv_config *c, const char *v)
{
	switch (srv_config_add_listen(c, v)) {
	case 0:
		return NULL;
	case -E2BIG:
		return "no more than 16 addresses";
	default:
		return "expected ADDRESS:PORT or [ADDRESS]:PORT";
	}
}

static const char *take_socket(struct srv_config *c, const char *v)
{
	return srv_config_set_string(&c->socket, v) ? "less memory" : NULL;
}

static const char *take_cache(struct srv_config *c, const char *v)
{
	return srv_config_parse_size(v, &c->cache_bytes) ? NULL : "expected a size like 256M";
}

static const char *take_workers(struct srv_config *c, const char *v)
{
	return srv_config_parse_number(v, 1, CONFIG_WORKERS_MAX, &c->workers)
		? NULL
		: "expected a number from 1 to 256";
}

static const char *take_loops(struct srv_config *c, const char *v)
{
	return srv_config_parse_number(v, 0, CONFIG_LOOPS_MAX, &c->loops)
		? NULL
		: "expected a number from 0 to 256";
}

static const char *take_connections(struct srv_config *c, const char *v)
{
	return srv_config_parse_number(v, 1, CONFIG_CONNS_MAX, &c->connections)
		? NULL
		: "expected a number from 1 to 1000000";
}

static const char *take_discard(struct srv_config *c, const char *v)
{
	(void)v;
	c->discard = true;
	return NULL;
}

static const char *take_no_rpcbind(struct srv_config *c, const char *v)
{
	(void)v;
	c->rpcbind = false;
	return NULL;
}

static const char *take_log_file(struct srv_config *c, const char *v)
{
	return srv_config_set_string(&c->log_file, v) ? "less memory" : NULL;
}

static const char *take_log_level(struct srv_config *c, const char *v)
{
	c->log_level = log_level_parse(v);
	return c->log_level < 0 ? "expected error, warning, notice, info or debug" : NULL;
}

static const char *take_nothing(struct srv_config *c, const char *v)
{
	(void)c;
	(void)v;
	return NULL;
}

enum {
	OPT_CONFIG = 1000,
	OPT_HELP,
	OPT_VERSION
};

/* The values are indexes into takers, or the special ones above. */
static const struct option long_options[] = {
	{"volume", required_argument, NULL, 0},
	{"export", required_argument, NULL, 1},
	{"listen", required_argument, NULL, 2},
	{"socket", required_argument, NULL, 3},
	{"cache", required_argument, NULL, 4},
	{"workers", required_argument, NULL, 5},
	{"loops", required_argument, NULL, 6},
	{"connections", required_argument, NULL, 7},
	{"no-rpcbind", no_argument, NULL, 8},
	{"log-file", required_argument, NULL, 9},
	{"log-level", required_argument, NULL, 10},
	{"foreground", no_argument, NULL, 11},
	{"discard", no_argument, NULL, 12},
	{"config", required_argument, NULL, OPT_CONFIG},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static const take_fn takers[] = {take_volume, take_export, take_listen, take_socket, take_cache,
	take_workers, take_loops, take_connections, take_no_rpcbind, take_log_file, take_log_level,
	take_nothing, take_discard};

/* The file comes first, wherever --config stands, so that options override it. */
static enum options_result read_file(int argc, char *const *argv, struct srv_config *config)
{
	const char *path = NULL;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == '?')
			return OPTIONS_BAD;
		if (c == OPT_HELP || c == OPT_VERSION) {
			fputs(c == OPT_HELP ? usage : PACKAGE_STRING "\n", stdout);
			return OPTIONS_EXIT_OK;
		}
		if (c == OPT_CONFIG)
			path = optarg;
	}
	if (optind < argc) {
		fprintf(stderr, "byred: unexpected argument \"%s\"\n", argv[optind]);
		return OPTIONS_BAD;
	}
	return path && srv_config_read(config, path) ? OPTIONS_BAD : OPTIONS_RUN;
}

/* Listeners on the command line replace those of the file. */
static void forget_listeners(struct srv_config *config, size_t *n_from_file)
{
	for (size_t i = 0; i < *n_from_file; i++)
		srv_config_drop_listen(config);
	*n_from_file = 0;
}

enum options_result options_parse(int argc, char *const *argv, struct srv_config *config)
{
	enum options_result r = read_file(argc, argv, config);
	size_t n_from_file = config->n_listen;
	const char *problem;
	int c, index;

	if (r != OPTIONS_RUN)
		return r;
	optind = 1;
	while ((c = getopt_long(argc, argv, "", long_options, &index)) != -1) {
		if ((size_t)c >= ARRAY_SIZE(takers))
			continue;
		if (takers[c] == take_listen)
			forget_listeners(config, &n_from_file);
		problem = takers[c](config, optarg);
		if (problem) {
			fprintf(stderr, "byred: --%s %s: %s\n", long_options[index].name,
				optarg ? optarg : "", problem);
			return OPTIONS_BAD;
		}
	}
	return srv_config_check(config) ? OPTIONS_BAD : OPTIONS_RUN;
}
