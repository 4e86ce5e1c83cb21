/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/exports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/util.h"

#define NOBODY		65534u
#define PRIVILEGED_PORT 1024u
#define CLIENT_TEXT_MAX 128u

static const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static int fail(char error[EXPORT_ERROR_MAX], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int fail(char error[EXPORT_ERROR_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error, EXPORT_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* ------------------------------------------------------------ addresses */

bool net_addr_from(const struct sockaddr *sa, struct net_addr *out)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	switch (sa->sa_family) {
	case AF_INET:
		memcpy(&v4, sa, sizeof(v4));
		memcpy(out->ip, v4_mapped, sizeof(v4_mapped));
		memcpy(out->ip + 12, &v4.sin_addr, 4);
		out->port = ntohs(v4.sin_port);
		return true;
	case AF_INET6:
		memcpy(&v6, sa, sizeof(v6));
		memcpy(out->ip, &v6.sin6_addr, 16);
		out->port = ntohs(v6.sin6_port);
		return true;
	default:
		return false;
	}
}

void net_addr_text(const struct net_addr *addr, char out[NET_ADDR_TEXT])
{
	const char *s;

	if (!memcmp(addr->ip, v4_mapped, sizeof(v4_mapped)))
		s = inet_ntop(AF_INET, addr->ip + 12, out, NET_ADDR_TEXT);
	else
		s = inet_ntop(AF_INET6, addr->ip, out, NET_ADDR_TEXT);
	if (!s)
		strcpy(out, "?");
}

static bool parse_bits(const char *s, unsigned max, unsigned *out)
{
	uint64_t v;

	if (!parse_number(s, max, &v))
		return false;
	*out = (unsigned)v;
	return true;
}

/* ADDRESS, ADDRESS/BITS or *. */
static bool parse_network(char *text, struct export_client *c)
{
	char *slash = strchr(text, '/');
	unsigned bits;

	if (!strcmp(text, "*")) {
		c->bits = 0;
		return true;
	}
	if (slash)
		*slash++ = '\0';
	if (inet_pton(AF_INET, text, c->ip + 12) == 1) {
		memcpy(c->ip, v4_mapped, sizeof(v4_mapped));
		bits = 32;
		if (slash && !parse_bits(slash, 32, &bits))
			return false;
		c->bits = 96 + bits;
		return true;
	}
	if (inet_pton(AF_INET6, text, c->ip) != 1)
		return false;
	bits = 128;
	if (slash && !parse_bits(slash, 128, &bits))
		return false;
	c->bits = bits;
	return true;
}

static bool network_has(const struct export_client *c, const uint8_t ip[16])
{
	unsigned bytes = c->bits / 8, rest = c->bits % 8;

	if (memcmp(c->ip, ip, bytes))
		return false;
	return !rest || !((c->ip[bytes] ^ ip[bytes]) >> (8 - rest));
}

/* -------------------------------------------------------------- options */

static void set_ro(struct export_rules *r, uint32_t v)
{
	(void)v;
	r->writable = false;
}

static void set_rw(struct export_rules *r, uint32_t v)
{
	(void)v;
	r->writable = true;
}

static void set_async(struct export_rules *r, uint32_t v)
{
	r->async = v;
}

static void set_squash(struct export_rules *r, uint32_t v)
{
	r->squash = (enum squash)v;
}

static void set_no_all_squash(struct export_rules *r, uint32_t v)
{
	(void)v;
	if (r->squash == SQUASH_ALL)
		r->squash = SQUASH_ROOT;
}

static void set_secure(struct export_rules *r, uint32_t v)
{
	r->privileged_port = v;
}

static void set_anon_uid(struct export_rules *r, uint32_t v)
{
	r->anon_uid = v;
}

static void set_anon_gid(struct export_rules *r, uint32_t v)
{
	r->anon_gid = v;
}

static const struct {
	const char *name;
	void (*set)(struct export_rules *r, uint32_t v);
	bool has_value; /* otherwise value is what set() gets */
	uint32_t value;
} options_table[] = {
	{"ro", set_ro, false, 0},
	{"rw", set_rw, false, 0},
	{"sync", set_async, false, false},
	{"async", set_async, false, true},
	{"root_squash", set_squash, false, SQUASH_ROOT},
	{"no_root_squash", set_squash, false, SQUASH_NONE},
	{"all_squash", set_squash, false, SQUASH_ALL},
	{"no_all_squash", set_no_all_squash, false, 0},
	{"secure", set_secure, false, true},
	{"insecure", set_secure, false, false},
	{"anonuid", set_anon_uid, true, 0},
	{"anongid", set_anon_gid, true, 0},
};

static bool parse_id(const char *s, uint32_t *out)
{
	uint64_t v;

	if (!parse_number(s, UINT32_MAX, &v))
		return false;
	*out = (uint32_t)v;
	return true;
}

static int set_compress(struct export *e, const char *value, char error[EXPORT_ERROR_MAX])
{
	static const char *const types[] = {"zlib", "lzo", "zstd", "none", "no"};
	size_t len = value ? strcspn(value, ":") : 0;

	if (!e)
		return fail(error, "option compress is one of the export, not of a client");
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (len == strlen(types[i]) && !strncmp(value, types[i], len) &&
			strlen(value) < EXPORT_COMPRESS_MAX) {
			strcpy(e->compress, value);
			return 0;
		}
	return fail(error, "option compress: expected zlib, lzo, zstd or none");
}

/* e: NULL for the options of a client. */
static int apply_option(
	struct export_rules *r, struct export *e, char *text, char error[EXPORT_ERROR_MAX])
{
	char *value = strchr(text, '=');
	uint32_t v;

	if (value)
		*value++ = '\0';
	if (!strcmp(text, "compress"))
		return set_compress(e, value, error);
	for (size_t i = 0; i < ARRAY_SIZE(options_table); i++) {
		if (strcmp(text, options_table[i].name))
			continue;
		if (options_table[i].has_value != (value != NULL))
			return fail(error, "option %s %s", text,
				value ? "takes no value" : "needs a value");
		v = options_table[i].value;
		if (value && !parse_id(value, &v))
			return fail(error,
				"option %s: \"%s\" is not a number from 0 to "
				"4294967295",
				text, value);
		options_table[i].set(r, v);
		return 0;
	}
	return fail(error, "unknown option \"%s\"", text);
}

/* Changes text. */
static int apply_options(
	struct export_rules *r, struct export *e, char *text, char error[EXPORT_ERROR_MAX])
{
	char *save, *word;
	int ret;

	for (word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
		ret = apply_option(r, e, word, error);
		if (ret)
			return ret;
	}
	return 0;
}

/* --------------------------------------------------------------- adding */

struct exports *exports_create(void)
{
	return calloc(1, sizeof(struct exports));
}

static void export_fini(struct export *e)
{
	for (size_t i = 0; i < e->n_clients; i++)
		free(e->clients[i].text);
	free(e->clients);
	free(e->name);
	free(e->subvol_path);
}

void exports_destroy(struct exports *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->n; i++)
		export_fini(&x->list[i]);
	free(x->list);
	free(x->by_subvol);
	free(x);
}

/* CLIENT[(OPTIONS)], or CLIENT:OPTION:... where commas are taken. */
static int add_client(struct export *e, const char *spec, const struct export_rules *defaults,
	char error[EXPORT_ERROR_MAX])
{
	struct export_client *c = &e->clients[e->n_clients];
	char text[CLIENT_TEXT_MAX], *open;
	size_t len = strlen(spec);
	int ret;

	if (!len || len >= sizeof(text))
		return fail(error, "client \"%s\" is empty or too long", spec);
	memcpy(text, spec, len + 1);
	memset(c, 0, sizeof(*c));
	c->rules = *defaults;
	open = strchr(text, '(');
	if (open) {
		if (text[len - 1] != ')')
			return fail(error, "client \"%s\": expected ADDRESS(OPTION,...)", spec);
		text[len - 1] = '\0';
		*open++ = '\0';
		ret = apply_options(&c->rules, NULL, open, error);
		if (ret)
			return ret;
	}
	c->text = strdup(text);
	if (!c->text)
		return -ENOMEM;
	e->n_clients++;
	if (!parse_network(text, c))
		return fail(error,
			"client \"%s\": expected an address, ADDRESS/BITS "
			"or *",
			spec);
	return 0;
}

size_t export_clean_path(const void *path, size_t len, char *out)
{
	const char *p = path;
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		if (p[i] != '/' || (i + 1 < len && p[i + 1] != '/'))
			out[n++] = p[i];
	out[n] = '\0';
	return n;
}

/* False when it is not absolute or too long to mount. */
static bool clean_name(const char *name, char *out, size_t size)
{
	if (name[0] != '/' || strlen(name) >= size)
		return false;
	if (!export_clean_path(name, strlen(name), out))
		strcpy(out, "/");
	return true;
}

static int fill_export(struct export *e, const char *subvol_path, const char *options,
	const char *const *clients, size_t n_clients, char error[EXPORT_ERROR_MAX])
{
	static const char *const everyone[] = {"*"};
	struct export_rules rules = {.squash = SQUASH_ROOT, .anon_uid = NOBODY, .anon_gid = NOBODY};
	char *copy = strdup(options ? options : "");
	int ret;

	if (!copy)
		return -ENOMEM;
	ret = apply_options(&rules, e, copy, error);
	free(copy);
	if (ret)
		return ret;
	if (!n_clients) {
		clients = everyone;
		n_clients = 1;
	}
	e->subvol_path = strdup(subvol_path);
	e->clients = calloc(n_clients, sizeof(*e->clients));
	if (!e->subvol_path || !e->clients)
		return -ENOMEM;
	for (size_t i = 0; i < n_clients && !ret; i++)
		ret = add_client(e, clients[i], &rules, error);
	return ret;
}

int exports_add(struct exports *x, const char *name, const char *subvol_path, const char *options,
	const char *const *clients, size_t n_clients, char error[EXPORT_ERROR_MAX])
{
	char clean[1024];
	struct export *list, *e;
	int ret;

	if (!clean_name(name, clean, sizeof(clean)))
		return fail(error,
			"export name \"%.64s\": expected an absolute path of "
			"less than 1024 bytes",
			name);
	for (size_t i = 0; i < x->n; i++)
		if (!strcmp(x->list[i].name, clean)) {
			fail(error, "%.128s is exported twice", clean);
			return -EEXIST;
		}
	list = realloc(x->list, (x->n + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	x->list = list;
	e = &list[x->n];
	memset(e, 0, sizeof(*e));
	e->name = strdup(clean);
	ret = e->name ? fill_export(e, subvol_path, options, clients, n_clients, error) : -ENOMEM;
	if (ret)
		export_fini(e);
	else
		x->n++;
	return ret;
}

#define SPEC_CLIENTS_MAX 64

/* Commas within parentheses belong to a client's options. */
static char *next_word(char **p)
{
	char *word = *p;
	int depth = 0;

	if (!word)
		return NULL;
	for (char *c = word; *c; c++) {
		depth += (*c == '(') - (*c == ')');
		if (*c == ',' && depth <= 0) {
			*c = '\0';
			*p = c + 1;
			return word;
		}
	}
	*p = NULL;
	return word;
}

static int split_spec(struct exports *x, char *text, char *options, char error[EXPORT_ERROR_MAX])
{
	const char *clients[SPEC_CLIENTS_MAX];
	char *subvol = strchr(text, '='), *p, *word;
	size_t n_clients = 0;

	if (!subvol)
		return fail(error, "expected /NAME=SUBVOLUME[,OPTION]...");
	*subvol++ = '\0';
	p = subvol;
	next_word(&p);
	while ((word = next_word(&p))) {
		if (strncmp(word, "client=", 7)) {
			strcat(strcat(options, word), ",");
			continue;
		}
		if (n_clients == SPEC_CLIENTS_MAX)
			return fail(error, "more than %d clients", SPEC_CLIENTS_MAX);
		clients[n_clients++] = word + 7;
	}
	return exports_add(x, text, subvol, options, clients, n_clients, error);
}

int exports_add_spec(struct exports *x, const char *spec, char error[EXPORT_ERROR_MAX])
{
	char *text = strdup(spec), *options = calloc(1, strlen(spec) + 2);
	int ret = -ENOMEM;

	if (text && options)
		ret = split_spec(x, text, options, error);
	free(text);
	free(options);
	return ret;
}

bool exports_any_writable(const struct exports *x)
{
	for (size_t i = 0; i < x->n; i++)
		for (size_t c = 0; c < x->list[i].n_clients; c++)
			if (x->list[i].clients[c].rules.writable)
				return true;
	return false;
}

/* ------------------------------------------------------------ resolving */

static bool same_rules(const struct export *a, const struct export *b)
{
	if (a->n_clients != b->n_clients || strcmp(a->compress, b->compress))
		return false;
	for (size_t i = 0; i < a->n_clients; i++) {
		const struct export_client *c = &a->clients[i];
		const struct export_client *d = &b->clients[i];

		if (strcmp(c->text, d->text) || c->rules.writable != d->rules.writable ||
			c->rules.async != d->rules.async ||
			c->rules.privileged_port != d->rules.privileged_port ||
			c->rules.squash != d->rules.squash ||
			c->rules.anon_uid != d->rules.anon_uid ||
			c->rules.anon_gid != d->rules.anon_gid)
			return false;
	}
	return true;
}

static const struct export **slot_of(const struct exports *x, uint64_t id)
{
	size_t i = hash_mix64(id) & (x->n_slots - 1);

	while (x->by_subvol[i] && x->by_subvol[i]->subvol != id)
		i = (i + 1) & (x->n_slots - 1);
	return &x->by_subvol[i];
}

/* A handle names no export, so one subvolume cannot have two sets of rules. */
static int index_export(struct exports *x, struct export *e)
{
	const struct export **slot = slot_of(x, e->subvol);

	if (!*slot) {
		*slot = e;
		return 0;
	}
	if (!same_rules(*slot, e)) {
		log_error("exports %s and %s are the same subvolume with "
			  "different options",
			(*slot)->name, e->name);
		return -EINVAL;
	}
	e->alias_of = *slot;
	return 0;
}

static int resolve_one(struct export *e, struct fsc_thread *t, struct fsc_volume *vol)
{
	struct fsc_ctx ctx = {.thread = t};
	int ret = fsc_subvol_find(&ctx, vol, e->subvol_path, &e->subvol);

	if (ret)
		log_error("export %s: %s: %s", e->name, e->subvol_path,
			ret == -EINVAL ? "not a subvolume" : strerror(-ret));
	return ret;
}

int exports_resolve(struct exports *x, struct fsc_thread *t, struct fsc_volume *vol)
{
	int ret = 0;

	for (x->n_slots = 8; x->n_slots < 2 * x->n;)
		x->n_slots *= 2;
	free(x->by_subvol);
	x->by_subvol = calloc(x->n_slots, sizeof(struct export *));
	if (!x->by_subvol)
		return -ENOMEM;
	for (size_t i = 0; i < x->n && !ret; i++) {
		ret = resolve_one(&x->list[i], t, vol);
		if (!ret)
			ret = index_export(x, &x->list[i]);
	}
	return ret;
}

/* -------------------------------------------------------------- looking */

const struct export *exports_by_subvol(const struct exports *x, uint64_t id)
{
	return x->n_slots ? *slot_of(x, id) : NULL;
}

const struct export *exports_by_path(const struct exports *x, const char *path, const char **rest)
{
	const struct export *best = NULL;
	size_t best_len = 0;

	for (size_t i = 0; i < x->n; i++) {
		const struct export *e = &x->list[i];
		size_t len = strlen(e->name);

		if (len == 1) /* "/": an ancestor of all, and of no length */
			len = 0;
		if (strncmp(path, e->name, len) || (path[len] && path[len] != '/'))
			continue;
		if (!best || len > best_len) {
			best = e;
			best_len = len;
		}
	}
	*rest = path + best_len;
	return best;
}

const struct export_rules *export_match(const struct export *e, const struct net_addr *client)
{
	const struct export_client *best = NULL;

	for (size_t i = 0; i < e->n_clients; i++) {
		const struct export_client *c = &e->clients[i];

		if (network_has(c, client->ip) && (!best || c->bits > best->bits))
			best = c;
	}
	if (!best || (best->rules.privileged_port && client->port >= PRIVILEGED_PORT))
		return NULL;
	return &best->rules;
}
