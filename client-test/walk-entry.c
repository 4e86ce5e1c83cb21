/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "walk-entry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/evp.h>

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

bool walk_option(struct walk_options *options, int o, const char *arg)
{
	switch (o) {
	case 'n':
		options->no_hash = true;
		return true;
	case 'c':
		options->with_ctime = true;
		return true;
	case 'l':
		options->hash_limit_bytes = strtoull(arg, NULL, 0);
		return true;
	default:
		return false;
	}
}

void walk_out_begin(struct walk_out *w, const struct walk_options *options)
{
	int in[2], out[2];

	memset(w, 0, sizeof(*w));
	w->options = *options;
	if (pipe(in) || pipe(out))
		die("pipe");
	fflush(NULL);
	w->sort = fork();
	if (w->sort < 0)
		die("fork");
	if (w->sort == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[0]);
		close(in[1]);
		close(out[0]);
		close(out[1]);
		setenv("LC_ALL", "C", 1);
		execlp("sort", "sort", "-t", "\t", "-k", "1,1", (char *)NULL);
		die("sort");
	}
	close(in[0]);
	close(out[1]);
	w->to_sort = fdopen(in[1], "w");
	w->from_sort = fdopen(out[0], "r");
	if (!w->to_sort || !w->from_sort)
		die("fdopen");
}

static void put_escaped(FILE *f, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c <= ' ' || c >= 127 || c == '\\')
			fprintf(f, "\\x%02x", c);
		else
			putc(c, f);
	}
}

void walk_out_entry(struct walk_out *w, const struct walk_entry *e)
{
	FILE *f = w->to_sort;
	bool device = e->type == 'c' || e->type == 'b';

	put_escaped(f, e->path);
	fprintf(f, "\t%" PRIx64 "\t%" PRIu64 "\t%c\t%04o\t%u\t%u\t%u\t%" PRIu64 "\t", e->fsid,
		e->fileid, e->type, e->mode, e->uid, e->gid, e->nlink, e->size);
	if (device)
		fprintf(f, "%u:%u", e->rdev_major, e->rdev_minor);
	else
		putc('-', f);
	fprintf(f, "\t%u.%09u\t", e->mtime_s, e->mtime_ns);
	if (w->options.with_ctime)
		fprintf(f, "%u.%09u", e->ctime_s, e->ctime_ns);
	else
		putc('-', f);
	putc('\t', f);
	put_escaped(f, e->target ? e->target : "-");
	fprintf(f, "\t%s\n", e->hash ? e->hash : "-");
	w->entries++;
}

/* Ordinals of the fsids seen so far; neighbours mostly share one. */
struct ordinals {
	uint64_t *fsids;
	size_t count, last;
};

static size_t ordinal_of(struct ordinals *o, uint64_t fsid)
{
	if (o->count && o->fsids[o->last] == fsid)
		return o->last;
	for (o->last = 0; o->last < o->count; o->last++)
		if (o->fsids[o->last] == fsid)
			return o->last;
	o->fsids = realloc(o->fsids, (o->count + 1) * sizeof(*o->fsids));
	if (!o->fsids)
		die("out of memory");
	o->fsids[o->count++] = fsid;
	return o->last;
}

bool walk_out_end(struct walk_out *w)
{
	struct ordinals ordinals = {0};
	size_t room = 0;
	char *line = NULL;
	int status;
	bool ok = !ferror(w->to_sort);

	ok &= fclose(w->to_sort) == 0;
	while (getline(&line, &room, w->from_sort) > 0) {
		char *tab = strchr(line, '\t'), *rest;
		uint64_t fsid;

		if (!tab)
			continue;
		fsid = strtoull(tab + 1, &rest, 16);
		printf("%.*s\t%zu%s", (int)(tab - line), line, ordinal_of(&ordinals, fsid), rest);
	}
	free(line);
	free(ordinals.fsids);
	fclose(w->from_sort);
	while (waitpid(w->sort, &status, 0) < 0 && errno == EINTR)
		;
	ok &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return fflush(stdout) == 0 && ok;
}

struct walk_hash {
	EVP_MD_CTX *ctx;
};

static const EVP_MD *sha256(void)
{
	static EVP_MD *md;

	/* Fetched once: looking it up costs more than hashing a small file. */
	if (!md)
		md = EVP_MD_fetch(NULL, "SHA256", NULL);
	return md;
}

struct walk_hash *walk_hash_new(void)
{
	struct walk_hash *h = malloc(sizeof(*h));

	if (!h)
		die("out of memory");
	h->ctx = EVP_MD_CTX_new();
	if (!h->ctx || !EVP_DigestInit_ex(h->ctx, sha256(), NULL))
		die("SHA-256");
	return h;
}

void walk_hash_add(struct walk_hash *h, const void *data, size_t bytes)
{
	if (!EVP_DigestUpdate(h->ctx, data, bytes))
		die("SHA-256");
}

void walk_hash_end(struct walk_hash *h, const char *prefix, char text[WALK_HASH_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned bytes;
	int n;

	if (!EVP_DigestFinal_ex(h->ctx, digest, &bytes))
		die("SHA-256");
	EVP_MD_CTX_free(h->ctx);
	free(h);
	n = snprintf(text, WALK_HASH_SIZE, "%s", prefix);
	for (unsigned i = 0; i < bytes; i++)
		n += snprintf(text + n, (size_t)(WALK_HASH_SIZE - n), "%02x", digest[i]);
}
