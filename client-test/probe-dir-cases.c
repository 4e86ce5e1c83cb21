/* SPDX-License-Identifier: GPL-2.0-or-later */
/* READDIR and READDIRPLUS: every name exactly once, whatever the page size. */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 4096

struct dir_entry {
	char name[256];
	uint64_t fileid, cookie;
	bool has_fh, has_attr;
	struct probe_fh fh;
	fattr3 attr;
};

struct listing {
	size_t count;
	uint32_t pages;
	bool eof;
	uint64_t cookie; /* to go on from */
	char verifier[NFS3_COOKIEVERFSIZE];
	struct dir_entry *entries; /* MAX_ENTRIES of them */
};

/* How to ask for pages; dir_bytes is READDIRPLUS's dircount. */
struct page_size {
	bool plus;
	uint32_t bytes, dir_bytes;
};

static struct listing *listing_new(void)
{
	static struct dir_entry entries[MAX_ENTRIES];
	struct listing *l = probe_alloc(sizeof(*l));

	l->entries = entries;
	return l;
}

static struct dir_entry *listing_add(
	struct listing *l, const char *name, uint64_t fileid, uint64_t cookie)
{
	struct dir_entry *e = &l->entries[l->count];

	WANT(l->count < MAX_ENTRIES, "the listing doesn't end");
	WANT(strlen(name) <= 255, "a name of %zu bytes", strlen(name));
	memset(e, 0, sizeof(*e));
	strcpy(e->name, name);
	e->fileid = fileid;
	e->cookie = cookie;
	l->cookie = cookie;
	l->count++;
	return e;
}

static uint32_t page_plain(
	struct probe_conn *c, const struct probe_fh *dir, uint32_t bytes, struct listing *l)
{
	READDIR3args a = {.dir = fh_wire(dir), .cookie = l->cookie, .count = bytes};
	READDIR3res r = {0};

	memcpy(a.cookieverf, l->verifier, sizeof(a.cookieverf));
	NFS_CALL(c, READDIR, &a, &r);
	if (r.status != NFS3_OK)
		return r.status;
	want_attr("READDIR", &r.READDIR3res_u.resok.dir_attributes);
	memcpy(l->verifier, r.READDIR3res_u.resok.cookieverf, sizeof(l->verifier));
	l->eof = r.READDIR3res_u.resok.reply.eof;
	for (entry3 *e = r.READDIR3res_u.resok.reply.entries; e; e = e->nextentry)
		listing_add(l, e->name, e->fileid, e->cookie);
	return NFS3_OK;
}

static void add_plus(struct listing *l, const entryplus3 *e)
{
	struct dir_entry *to = listing_add(l, e->name, e->fileid, e->cookie);

	to->has_attr = e->name_attributes.attributes_follow;
	if (to->has_attr)
		to->attr = e->name_attributes.post_op_attr_u.attributes;
	to->has_fh = e->name_handle.handle_follows;
	if (to->has_fh)
		fh_keep(&to->fh, &e->name_handle.post_op_fh3_u.handle);
}

static uint32_t page_plus(struct probe_conn *c, const struct probe_fh *dir,
	const struct page_size *size, struct listing *l)
{
	READDIRPLUS3args a = {.dir = fh_wire(dir),
		.cookie = l->cookie,
		.dircount = size->dir_bytes,
		.maxcount = size->bytes};
	READDIRPLUS3res r = {0};

	memcpy(a.cookieverf, l->verifier, sizeof(a.cookieverf));
	NFS_CALL(c, READDIRPLUS, &a, &r);
	if (r.status != NFS3_OK)
		return r.status;
	want_attr("READDIRPLUS", &r.READDIRPLUS3res_u.resok.dir_attributes);
	memcpy(l->verifier, r.READDIRPLUS3res_u.resok.cookieverf, sizeof(l->verifier));
	l->eof = r.READDIRPLUS3res_u.resok.reply.eof;
	for (entryplus3 *e = r.READDIRPLUS3res_u.resok.reply.entries; e; e = e->nextentry)
		add_plus(l, e);
	return NFS3_OK;
}

/* One page; checks what holds for every page. */
static uint32_t list_page(struct probe_conn *c, const struct probe_fh *dir,
	const struct page_size *size, struct listing *l)
{
	size_t before = l->count;
	uint32_t s = size->plus ? page_plus(c, dir, size, l) : page_plain(c, dir, size->bytes, l);

	if (s != NFS3_OK)
		return s;
	l->pages++;
	WANT(l->count > before || l->eof, "P01: OK without an entry and without eof");
	/* The limit is on the result without its status word (RFC 1813, 3.3.16). */
	WANT(c->last_body_bytes - 4 <= size->bytes, "a page of %u bytes, asked for %u",
		c->last_body_bytes - 4, size->bytes);
	return s;
}

static uint32_t list_all(struct probe_conn *c, const struct probe_fh *dir,
	const struct page_size *size, struct listing *l)
{
	uint32_t s = NFS3_OK;

	while (!l->eof && s == NFS3_OK)
		s = list_page(c, dir, size, l);
	return s;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dir_entry *)a)->name, ((const struct dir_entry *)b)->name);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* P03: cookies are unique, > 2 but for the dots, and positive as a signed number. */
static void want_good_cookies(const struct listing *l)
{
	static uint64_t cookies[MAX_ENTRIES];

	for (size_t i = 0; i < l->count; i++) {
		const struct dir_entry *e = &l->entries[i];
		bool dot = !strcmp(e->name, ".") || !strcmp(e->name, "..");

		cookies[i] = e->cookie;
		WANT(e->cookie > (dot ? 0 : 2) && e->cookie < 1ull << 63, "cookie 0x%lx of %.20s",
			e->cookie, e->name);
	}
	qsort(cookies, l->count, sizeof(cookies[0]), by_number);
	for (size_t i = 1; i < l->count; i++)
		WANT(cookies[i] != cookies[i - 1], "cookie 0x%lx twice", cookies[i]);
}

/* Sorts the entries. Each name once, the dots too; count includes the dots. */
static void want_names_once(struct listing *l, size_t count)
{
	unsigned dots = 0;

	want_good_cookies(l);
	qsort(l->entries, l->count, sizeof(l->entries[0]), by_name);
	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->entries[i].name;

		dots += !strcmp(name, ".") || !strcmp(name, "..");
		WANT(i == 0 || strcmp(name, l->entries[i - 1].name), "%.40s twice", name);
	}
	WANT(dots == 2, "%u of the two dots", dots);
	WANT(l->count == count, "%zu names instead of %zu", l->count, count);
}

static const struct dir_entry *find_entry(const struct listing *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++)
		if (!strcmp(l->entries[i].name, name))
			return &l->entries[i];
	FAIL("%.40s is missing", name);
}

/* Smaller pages must say TOOSMALL, from some size on all must be complete. */
static void every_page_size(
	const char *path, size_t names, bool plus, uint32_t from, uint32_t to, uint32_t step)
{
	struct probe_conn *c = conn_open();
	bool enough = false;

	for (uint32_t bytes = from; bytes <= to; bytes += step) {
		struct probe_fh dir = path_fh(c, path);
		struct listing *l = listing_new();
		struct page_size size = {plus, bytes, bytes};
		uint32_t s;

		probe_trying("%s in pages of %u bytes", path, bytes);
		s = list_all(c, &dir, &size, l);
		if (s == NFS3ERR_TOOSMALL && !enough) {
			probe_release();
			continue;
		}
		want_stat("page", s, NFS3_OK);
		want_names_once(l, names);
		enough = true;
		probe_release();
	}
	WANT(enough, "%s: TOOSMALL even for %u bytes", path, to);
}

static void p01_one_long_name(void)
{
	every_page_size("one255", 3, false, 24, 800, 4);
}

static void p01_one_long_name_plus(void)
{
	every_page_size("one255", 3, true, 24, 1400, 4);
}

static void p01_plus_dircount(void)
{
	static const uint32_t dircounts[] = {0, 1, 24, 64, 512, UINT32_MAX};
	struct probe_conn *c = conn_open();

	for (int i = 0; i < 6; i++) {
		struct probe_fh dir = path_fh(c, "one255");
		struct listing *l = listing_new();
		struct page_size size = {true, 4096, dircounts[i]};
		uint32_t s;

		probe_trying("dircount %u", dircounts[i]);
		s = list_all(c, &dir, &size, l);
		if (s == NFS3ERR_TOOSMALL && dircounts[i] < 512)
			continue;
		want_stat("READDIRPLUS", s, NFS3_OK);
		want_names_once(l, 3);
	}
}

static void p04_hard_links(void)
{
	every_page_size("links", 9, false, 24, 700, 4);
}

static void p04_hard_links_plus(void)
{
	every_page_size("links", 9, true, 24, 3000, 4);
}

static void p04_export_root(void)
{
	struct probe_conn *c = conn_open();
	struct page_size size = {false, 65536, 65536};
	struct listing *l = listing_new();
	size_t names;

	want_stat("READDIR", list_all(c, &probe.root, &size, l), NFS3_OK);
	names = l->count;
	find_entry(l, "hello");
	find_entry(l, "sub");
	every_page_size("", names, false, 24, 1400, 4);
	every_page_size("", names, true, 24, 4000, 12);
}

static void names_dir(void)
{
	every_page_size("names", 10, false, 24, 1500, 4);
	every_page_size("names", 10, true, 24, 3000, 4);
}

static void empty_dir(void)
{
	every_page_size("emptydir", 2, false, 24, 600, 4);
	every_page_size("emptydir", 2, true, 24, 1000, 4);
}

static void big_dir(bool plus)
{
	static const uint32_t sizes[] = {512, 560, 1000, 1024, 4096, 8192, 32768, 65536, 1 << 20};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct probe_fh dir = path_fh(c, "big");
		struct listing *l = listing_new();
		struct page_size size = {plus, sizes[i], sizes[i]};

		probe_trying("pages of %u bytes", sizes[i]);
		want_stat("page", list_all(c, &dir, &size, l), NFS3_OK);
		want_names_once(l, 2002);
		probe_release();
	}
}

static void big_dir_plain(void)
{
	big_dir(false);
}

static void big_dir_plus(void)
{
	big_dir(true);
}

/* READDIR, READDIRPLUS, LOOKUP and GETATTR say the same. */
static void entries_agree_with_lookup(const char *path)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, path), fh;
	struct page_size size = {true, 65536, 65536};
	struct listing *l = listing_new();

	want_stat("READDIRPLUS", list_all(c, &dir, &size, l), NFS3_OK);
	for (size_t i = 0; i < l->count; i++) {
		const struct dir_entry *e = &l->entries[i];
		fattr3 a;

		probe_trying("%s/%.20s", path, e->name);
		want_stat("LOOKUP", try_lookup(c, &dir, e->name, &fh), NFS3_OK);
		a = fh_attr(c, &fh);
		if (e->has_attr && e->has_fh) {
			fattr3 b = fh_attr(c, &e->fh);

			WANT(b.fileid == e->attr.fileid && b.fsid == e->attr.fsid,
				"handle and attributes of two objects");
		}
		/* READDIR may tell of the directory that a subvolume covers. */
		if (a.fsid != fh_attr(c, &dir).fsid)
			continue;
		if (e->has_attr)
			WANT(e->attr.fileid == a.fileid && e->attr.type == a.type &&
					e->attr.mode == a.mode && e->attr.size == a.size &&
					e->attr.nlink == a.nlink,
				"attributes differ");
		WANT(e->fileid == a.fileid, "fileid %lu, by LOOKUP %lu", e->fileid, a.fileid);
	}
}

static void plus_agrees_with_lookup(void)
{
	entries_agree_with_lookup("types");
	entries_agree_with_lookup("links");
	entries_agree_with_lookup("perm");
	entries_agree_with_lookup("sub");
	entries_agree_with_lookup("");
}

static void plus_gives_handles(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "links");
	struct page_size size = {true, 65536, 65536};
	struct listing *l = listing_new();

	want_stat("READDIRPLUS", list_all(c, &dir, &size, l), NFS3_OK);
	for (size_t i = 0; i < l->count; i++)
		WANT((l->entries[i].has_attr && l->entries[i].has_fh) ||
				l->entries[i].name[0] == '.',
			"%s has no attributes or no handle", l->entries[i].name);
}

/* P06. The first page, then the rest with this verifier. */
static void go_on_with_verifier(bool plus, const char *verifier)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "big");
	struct page_size size = {plus, 4096, 4096};
	struct listing *l = listing_new();
	uint32_t s;

	want_stat("first page", list_page(c, &dir, &size, l), NFS3_OK);
	memcpy(l->verifier, verifier, sizeof(l->verifier));
	s = list_page(c, &dir, &size, l);
	WANT(s == NFS3_OK, "second page: %s", stat_name(s));
	want_stat("rest", list_all(c, &dir, &size, l), NFS3_OK);
	want_names_once(l, 2002);
}

static void zero_verifier(void)
{
	go_on_with_verifier(false, "\0\0\0\0\0\0\0\0");
	go_on_with_verifier(true, "\0\0\0\0\0\0\0\0");
}

/* A verifier no server gave: go on, or BAD_COOKIE; never other entries. */
static void unknown_verifier(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "big");

	for (int plus = 0; plus < 2; plus++) {
		struct page_size size = {plus, 4096, 4096};
		struct listing *l = listing_new();
		uint32_t s;

		want_stat("first", list_page(c, &dir, &size, l), NFS3_OK);
		memset(l->verifier, 0x5a, sizeof(l->verifier));
		s = list_page(c, &dir, &size, l);
		if (s == NFS3ERR_BAD_COOKIE)
			continue;
		want_stat("second page", s, NFS3_OK);
		want_stat("rest", list_all(c, &dir, &size, l), NFS3_OK);
		want_names_once(l, 2002);
	}
}

/* Going on from each cookie, with READDIR and READDIRPLUS mixed, on new connections. */
static void every_cookie_resumes(void)
{
	struct probe_fh dir = path_fh(conn_open(), "links");
	struct page_size all = {false, 4096, 4096};
	struct listing *l = listing_new();
	char names[16][256];
	uint64_t cookies[16];
	char verifier[NFS3_COOKIEVERFSIZE];
	size_t count;

	want_stat("READDIR", list_all(conn_open(), &dir, &all, l), NFS3_OK);
	count = l->count;
	WANT(count <= 16, "%zu names", count);
	memcpy(verifier, l->verifier, sizeof(verifier));
	for (size_t i = 0; i < count; i++) {
		strcpy(names[i], l->entries[i].name);
		cookies[i] = l->entries[i].cookie;
	}
	for (size_t i = 0; i < count; i++) {
		struct page_size rest = {i % 2, 4096, 4096};
		struct listing *part = listing_new();

		probe_trying("from the cookie of %s", names[i]);
		part->cookie = cookies[i];
		memcpy(part->verifier, verifier, sizeof(verifier));
		want_stat("page", list_all(conn_open(), &dir, &rest, part), NFS3_OK);
		WANT(part->count == count - i - 1, "%zu names instead of %zu", part->count,
			count - i - 1);
		for (size_t k = 0; k < part->count; k++)
			WANT(!strcmp(part->entries[k].name, names[i + 1 + k]), "%s instead of %s",
				part->entries[k].name, names[i + 1 + k]);
	}
}

/*
 * Programs may seek anywhere, and Linux takes BAD_COOKIE for the end: whatever the
 * cookie below an entry's own, that entry is listed.
 */
static void cookies_in_between(void)
{
	struct probe_fh dir = path_fh(conn_open(), "links");
	struct page_size all = {false, 4096, 4096};
	struct listing *l = listing_new();
	uint64_t before = 0;

	want_stat("READDIR", list_all(conn_open(), &dir, &all, l), NFS3_OK);
	for (size_t i = 0; i < l->count; before = l->entries[i++].cookie) {
		uint64_t low = before + 1, high = l->entries[i].cookie - 1;

		for (unsigned k = 0; k < 2 && low <= high; k++) {
			struct page_size rest = {k, 4096, 4096};
			struct listing *part = listing_new();

			part->cookie = k ? high : low;
			probe_trying("cookie 0x%lx", part->cookie);
			memcpy(part->verifier, l->verifier, sizeof(part->verifier));
			want_stat("page", list_all(conn_open(), &dir, &rest, part), NFS3_OK);
			WANT(part->count == l->count - i, "%zu names instead of %zu", part->count,
				l->count - i);
		}
	}
}

/* Past the end: nothing more, or a cookie that means nothing. */
static void cookie_past_the_end(void)
{
	static const uint64_t cookies[] = {1ull << 40, (1ull << 63) - 1, 1ull << 63, UINT64_MAX};
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "links");

	for (int i = 0; i < 8; i++) {
		struct page_size size = {i % 2, 4096, 4096};
		struct listing *l = listing_new();
		uint32_t s;

		probe_trying("cookie 0x%lx", cookies[i / 2]);
		l->cookie = cookies[i / 2];
		s = list_page(c, &dir, &size, l);
		if (s == NFS3ERR_BAD_COOKIE)
			continue;
		want_stat("page", s, NFS3_OK);
		WANT(l->eof && l->count == 0, "%zu entries, eof %d", l->count, l->eof);
	}
}

/* P09. */
static void restart_from_zero(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "big");
	struct page_size size = {false, 4096, 4096};
	struct listing *l = listing_new();

	want_stat("page", list_page(c, &dir, &size, l), NFS3_OK);
	l->count = 0;
	l->cookie = 0;
	want_stat("page", list_all(c, &dir, &size, l), NFS3_OK);
	want_names_once(l, 2002);
}

/* P08, its reading part: the end comes, and in about as many pages as needed. */
static void listing_ends(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "big");
	struct page_size size = {false, 1024, 1024};
	struct listing *l = listing_new();

	want_stat("page", list_all(c, &dir, &size, l), NFS3_OK);
	WANT(l->pages <= 400, "%u pages for 2,000 short names", l->pages);
}

static void not_a_directory(void)
{
	static const char *const names[] = {"hello", "slink", "types/fifo"};
	struct probe_conn *c = conn_open();

	for (size_t i = 0; i < 6; i++) {
		struct probe_fh fh = path_fh(c, names[i / 2]);
		struct page_size size = {i % 2, 4096, 4096};

		want_stat(names[i / 2], list_page(c, &fh, &size, listing_new()), NFS3ERR_NOTDIR);
	}
}

/* A client may ask for more than the server wants to send. */
static void huge_count(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "big");

	for (int plus = 0; plus < 2; plus++) {
		struct page_size size = {plus, UINT32_MAX, UINT32_MAX};
		struct listing *l = listing_new();

		want_stat("page", list_all(c, &dir, &size, l), NFS3_OK);
		want_names_once(l, 2002);
	}
}

static void zero_count(void)
{
	struct probe_conn *c = conn_open();
	struct probe_fh dir = path_fh(c, "links");

	for (int plus = 0; plus < 2; plus++) {
		struct page_size size = {plus, 0, 0};

		want_stat("count 0", list_page(c, &dir, &size, listing_new()), NFS3ERR_TOOSMALL);
	}
}

const struct probe_case probe_dir_cases[] = {
	{"readdir_p01_one_long_name", p01_one_long_name},
	{"readdirplus_p01_one_long_name", p01_one_long_name_plus},
	{"readdirplus_p01_dircount", p01_plus_dircount},
	{"readdir_p04_hard_links_every_page_size", p04_hard_links},
	{"readdirplus_p04_hard_links_every_page_size", p04_hard_links_plus},
	{"readdir_p04_export_root_every_page_size", p04_export_root},
	{"readdir_names_every_page_size", names_dir},
	{"readdir_empty_directory", empty_dir},
	{"readdir_p03_2000_entries", big_dir_plain},
	{"readdirplus_p03_2000_entries", big_dir_plus},
	{"readdirplus_agrees_with_lookup", plus_agrees_with_lookup},
	{"readdirplus_gives_handles", plus_gives_handles},
	{"readdir_p06_zero_verifier", zero_verifier},
	{"readdir_p06_unknown_verifier", unknown_verifier},
	{"readdir_every_cookie_resumes", every_cookie_resumes},
	{"readdir_cookies_in_between", cookies_in_between},
	{"readdir_cookie_past_the_end", cookie_past_the_end},
	{"readdir_p09_restart_from_zero", restart_from_zero},
	{"readdir_p08_listing_ends", listing_ends},
	{"readdir_not_a_directory", not_a_directory},
	{"readdir_huge_count", huge_count},
	{"readdir_zero_count_toosmall", zero_count},
	{NULL, NULL},
};
