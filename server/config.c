/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/util.h"
#include "server/listener.h"

#define DEFAULT_WORKERS	    8u
#define DEFAULT_CONNECTIONS 16384u
#define CLIENTS_MAX	    1024

int srv_config_init(struct srv_config *c)
{
	memset(c, 0, sizeof(*c));
	c->workers = DEFAULT_WORKERS;
	c->connections = DEFAULT_CONNECTIONS;
	c->rpcbind = true;
	c->log_level = LOG_LVL_INFO;
	c->exports = exports_create();
	return c->exports ? 0 : -ENOMEM;
}

void srv_config_fini(struct srv_config *c)
{
	free(c->volume);
	for (size_t i = 0; i < c->n_listen; i++)
		free(c->listen[i]);
	free(c->socket);
	free(c->log_file);
	exports_destroy(c->exports);
	memset(c, 0, sizeof(*c));
}

int srv_config_set_string(char **to, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

int srv_config_add_listen(struct srv_config *c, const char *spec)
{
	if (!listener_spec_ok(spec))
		return -EINVAL;
	if (c->n_listen == CONFIG_LISTENERS_MAX)
		return -E2BIG;
	if (srv_config_set_string(&c->listen[c->n_listen], spec))
		return -ENOMEM;
	c->n_listen++;
	return 0;
}

void srv_config_drop_listen(struct srv_config *c)
{
	free(c->listen[0]);
	c->n_listen--;
	memmove(&c->listen[0], &c->listen[1], c->n_listen * sizeof(c->listen[0]));
	c->listen[c->n_listen] = NULL;
}

bool srv_config_parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "kmgt";
	const char *unit, *end;
	uint64_t v;

	if (!parse_digits(text, UINT64_MAX, &end, &v))
		return false;
	if (*end) {
		unit = strchr(units, tolower((unsigned char)*end));
		if (!unit || !*unit || end[1])
			return false;
		for (long i = unit - units; i >= 0; i--) {
			if (v > UINT64_MAX / 1024)
				return false;
			v *= 1024;
		}
	}
	*out = v;
	return true;
}

bool srv_config_parse_number(const char *text, unsigned min, unsigned max, unsigned *out)
{
	uint64_t v;

	if (!parse_number(text, max, &v) || v < min)
		return false;
	*out = (unsigned)v;
	return true;
}

int srv_config_check(const struct srv_config *c)
{
	const char *missing = NULL;

	if (!c->volume)
		missing = "no volume is given (--volume, or volume in the "
			  "configuration)";
	else if (!c->exports->n)
		missing = "nothing is exported (--export, or exports in the "
			  "configuration)";
	if (!missing)
		return 0;
	fprintf(stderr, "byred: %s\n", missing);
	return -EINVAL;
}

/* ------------------------------------------------------------------ the file */

struct reader {
	const char *path;
	struct srv_config *c;
};

static int bad(const struct reader *r, const config_setting_t *s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int bad(const struct reader *r, const config_setting_t *s, const char *fmt, ...)
{
	const char *file = config_setting_source_file(s);
	va_list ap;

	fprintf(stderr, "byred: %s:%u: ", file ? file : r->path, config_setting_source_line(s));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -EINVAL;
}

static int expected(const struct reader *r, const config_setting_t *s, const char *what)
{
	const char *name = config_setting_name(s);

	return bad(r, s, "%s: expected %s", name ? name : "this value", what);
}

/* One setting of a group: its name, and what takes its value. */
struct field {
	const char *name;
	int (*read)(struct reader *r, config_setting_t *s);
};

static int read_group(struct reader *r, config_setting_t *group, const struct field *fields)
{
	int n = config_setting_length(group);

	for (int i = 0; i < n; i++) {
		config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
		const struct field *f = fields;
		int ret;

		while (f->name && strcmp(f->name, config_setting_name(s)))
			f++;
		if (!f->name)
			return bad(r, s, "unknown setting \"%s\"", config_setting_name(s));
		ret = f->read(r, s);
		if (ret)
			return ret;
	}
	return 0;
}

static int read_string(struct reader *r, config_setting_t *s, char **to)
{
	const char *v = config_setting_get_string(s);

	if (!v || !*v)
		return expected(r, s, "a string");
	return srv_config_set_string(to, v);
}

static int read_number(struct reader *r, config_setting_t *s, int min, int max, unsigned *to)
{
	int v = config_setting_get_int(s);

	if (config_setting_type(s) != CONFIG_TYPE_INT || v < min || v > max)
		return bad(r, s, "%s: expected a number from %d to %d", config_setting_name(s), min,
			max);
	*to = (unsigned)v;
	return 0;
}

static int read_volume(struct reader *r, config_setting_t *s)
{
	return read_string(r, s, &r->c->volume);
}

static int read_one_listen(struct reader *r, config_setting_t *s)
{
	const char *v = config_setting_get_string(s);

	if (!v || srv_config_add_listen(r->c, v))
		return bad(r, s,
			"listen: expected \"ADDRESS:PORT\" or "
			"\"[ADDRESS]:PORT\", at most %u of them",
			CONFIG_LISTENERS_MAX);
	return 0;
}

static int read_listen(struct reader *r, config_setting_t *s)
{
	int n = config_setting_length(s), ret = 0;

	if (!config_setting_is_aggregate(s))
		return read_one_listen(r, s);
	for (int i = 0; i < n && !ret; i++)
		ret = read_one_listen(r, config_setting_get_elem(s, (unsigned)i));
	return ret;
}

static int read_socket(struct reader *r, config_setting_t *s)
{
	return read_string(r, s, &r->c->socket);
}

static int read_cache(struct reader *r, config_setting_t *s)
{
	const char *v = config_setting_get_string(s);
	long long n = config_setting_get_int64(s);

	if (v && srv_config_parse_size(v, &r->c->cache_bytes))
		return 0;
	if (v || n < 0 ||
		(config_setting_type(s) != CONFIG_TYPE_INT &&
			config_setting_type(s) != CONFIG_TYPE_INT64))
		return expected(r, s, "a size like \"256M\"");
	r->c->cache_bytes = (uint64_t)n;
	return 0;
}

static int read_workers(struct reader *r, config_setting_t *s)
{
	return read_number(r, s, 1, CONFIG_WORKERS_MAX, &r->c->workers);
}

static int read_loops(struct reader *r, config_setting_t *s)
{
	return read_number(r, s, 0, CONFIG_LOOPS_MAX, &r->c->loops);
}

static int read_connections(struct reader *r, config_setting_t *s)
{
	return read_number(r, s, 1, CONFIG_CONNS_MAX, &r->c->connections);
}

static int read_bool(struct reader *r, config_setting_t *s, bool *out)
{
	if (config_setting_type(s) != CONFIG_TYPE_BOOL)
		return expected(r, s, "true or false");
	*out = config_setting_get_bool(s);
	return 0;
}

static int read_discard(struct reader *r, config_setting_t *s)
{
	return read_bool(r, s, &r->c->discard);
}

static int read_rpcbind(struct reader *r, config_setting_t *s)
{
	return read_bool(r, s, &r->c->rpcbind);
}

static int read_log_file(struct reader *r, config_setting_t *s)
{
	return read_string(r, s, &r->c->log_file);
}

static int read_log_level(struct reader *r, config_setting_t *s)
{
	const char *v = config_setting_get_string(s);
	int level = v ? log_level_parse(v) : -EINVAL;

	if (level < 0)
		return expected(r, s,
			"\"error\", \"warning\", \"notice\", \"info\" or "
			"\"debug\"");
	r->c->log_level = level;
	return 0;
}

static int read_log(struct reader *r, config_setting_t *s)
{
	static const struct field fields[] = {
		{"file", read_log_file},
		{"level", read_log_level},
		{NULL, NULL},
	};

	if (!config_setting_is_group(s))
		return expected(r, s, "a group { file = ...; level = ...; }");
	return read_group(r, s, fields);
}

/* ------------------------------------------------------------------ exports */

/* The settings of an export are looked up by name: their order is free. */
static int check_export_names(struct reader *r, config_setting_t *e)
{
	static const char *const known[] = {"name", "subvolume", "options", "clients"};
	int n = config_setting_length(e);

	for (int i = 0; i < n; i++) {
		config_setting_t *s = config_setting_get_elem(e, (unsigned)i);
		size_t k = 0;

		while (k < ARRAY_SIZE(known) && strcmp(known[k], config_setting_name(s)))
			k++;
		if (k == ARRAY_SIZE(known))
			return bad(r, s, "unknown setting \"%s\" of an export",
				config_setting_name(s));
	}
	return 0;
}

/* A string setting of an export; NULL when it is not there. */
static int export_string(
	struct reader *r, config_setting_t *e, const char *name, bool required, const char **out)
{
	config_setting_t *s = config_setting_get_member(e, name);

	*out = NULL;
	if (!s && !required)
		return 0;
	if (!s)
		return bad(r, e, "export without a %s", name);
	*out = config_setting_get_string(s);
	return *out ? 0 : expected(r, s, "a string");
}

static int export_clients(
	struct reader *r, config_setting_t *e, const char *clients[CLIENTS_MAX], size_t *n)
{
	config_setting_t *s = config_setting_get_member(e, "clients");
	int count = s ? config_setting_length(s) : 0;

	*n = 0;
	if (!s)
		return 0;
	if (!config_setting_is_aggregate(s)) {
		clients[0] = config_setting_get_string(s);
		*n = 1;
		return clients[0] ? 0 : expected(r, s, "a list of strings");
	}
	if (count > CLIENTS_MAX)
		return bad(r, s, "more than %d clients", CLIENTS_MAX);
	for (int i = 0; i < count; i++) {
		clients[i] = config_setting_get_string_elem(s, i);
		if (!clients[i])
			return expected(r, s, "a list of strings");
	}
	*n = (size_t)count;
	return 0;
}

static int read_export(struct reader *r, config_setting_t *e)
{
	const char *name, *subvol, *options, *clients[CLIENTS_MAX];
	char error[EXPORT_ERROR_MAX] = "out of memory";
	size_t n_clients;
	int ret;

	if (!config_setting_is_group(e))
		return expected(r, e, "a group { name = ...; subvolume = ...; }");
	ret = check_export_names(r, e);
	if (!ret)
		ret = export_string(r, e, "name", true, &name);
	if (!ret)
		ret = export_string(r, e, "subvolume", true, &subvol);
	if (!ret)
		ret = export_string(r, e, "options", false, &options);
	if (!ret)
		ret = export_clients(r, e, clients, &n_clients);
	if (ret)
		return ret;
	if (exports_add(r->c->exports, name, subvol, options, clients, n_clients, error))
		return bad(r, e, "%s", error);
	return 0;
}

static int read_exports(struct reader *r, config_setting_t *s)
{
	int n = config_setting_length(s), ret = 0;

	if (!config_setting_is_list(s))
		return expected(r, s, "a list ( { ... }, { ... } )");
	for (int i = 0; i < n && !ret; i++)
		ret = read_export(r, config_setting_get_elem(s, (unsigned)i));
	return ret;
}

static const struct field top_fields[] = {
	{"volume", read_volume},
	{"listen", read_listen},
	{"socket", read_socket},
	{"cache", read_cache},
	{"workers", read_workers},
	{"loops", read_loops},
	{"connections", read_connections},
	{"discard", read_discard},
	{"rpcbind", read_rpcbind},
	{"log", read_log},
	{"exports", read_exports},
	{NULL, NULL},
};

static int report_syntax(const char *path, const config_t *cfg)
{
	const char *file = config_error_file(cfg);

	if (config_error_type(cfg) == CONFIG_ERR_FILE_IO)
		fprintf(stderr, "byred: %s: cannot be read\n", path);
	else
		fprintf(stderr, "byred: %s:%d: %s\n", file ? file : path, config_error_line(cfg),
			config_error_text(cfg));
	return -EINVAL;
}

int srv_config_read(struct srv_config *c, const char *path)
{
	struct reader r = {path, c};
	config_t cfg;
	int ret;

	config_init(&cfg);
	if (!config_read_file(&cfg, path))
		ret = report_syntax(path, &cfg);
	else
		ret = read_group(&r, config_root_setting(&cfg), top_fields);
	config_destroy(&cfg);
	return ret;
}
