/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fscore/extent/delayed_ref.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fscore/tree/leaf.h"

#define FIRST_BUCKETS 1024u

int delayed_refs_init(struct delayed_refs *dr)
{
	memset(dr, 0, sizeof(*dr));
	TAILQ_INIT(&dr->order);
	dr->n_buckets = FIRST_BUCKETS;
	dr->heads = calloc(dr->n_buckets, sizeof(*dr->heads));
	dr->refs = calloc(dr->n_buckets, sizeof(*dr->refs));
	if (!dr->heads || !dr->refs) {
		free(dr->heads);
		free(dr->refs);
		return -ENOMEM;
	}
	short_lock_init(&dr->lock, RANK_DELAYED_REFS);
	return 0;
}

static uint64_t hash_of_ref(uint64_t logical, const struct ref_key *key)
{
	uint64_t h = hash_mix64(logical);

	h = hash_mix64(h ^ (key->parent ? key->parent : key->root));
	return hash_mix64(hash_mix64(h ^ key->objectid) ^ key->offset);
}

static struct delayed_head **head_bucket(struct delayed_refs *dr, uint64_t logical)
{
	return &dr->heads[hash_mix64(logical) & (dr->n_buckets - 1)];
}

static struct delayed_ref **ref_bucket(
	struct delayed_refs *dr, uint64_t logical, const struct ref_key *key)
{
	return &dr->refs[hash_of_ref(logical, key) & (dr->n_buckets - 1)];
}

static struct delayed_head *find_head(struct delayed_refs *dr, uint64_t logical)
{
	struct delayed_head *head = *head_bucket(dr, logical);

	while (head && head->logical != logical)
		head = head->next;
	return head;
}

static bool same_key(const struct ref_key *a, const struct ref_key *b)
{
	return a->parent == b->parent && a->root == b->root && a->objectid == b->objectid &&
		a->offset == b->offset;
}

static struct delayed_ref *find_ref(
	struct delayed_refs *dr, const struct delayed_head *head, const struct ref_key *key)
{
	struct delayed_ref *ref = *ref_bucket(dr, head->logical, key);

	while (ref && (ref->head != head || !same_key(&ref->key, key)))
		ref = ref->next;
	return ref;
}

/* Four entries a bucket at most; without memory the chains just get longer. */
static void grow(struct delayed_refs *dr)
{
	size_t old_n = dr->n_buckets;
	struct delayed_head **old_heads = dr->heads;
	struct delayed_ref **old_refs = dr->refs;

	if (MAX(dr->n_refs, dr->n_heads) < 4 * old_n)
		return;
	dr->heads = calloc(8 * old_n, sizeof(*dr->heads));
	dr->refs = calloc(8 * old_n, sizeof(*dr->refs));
	if (!dr->heads || !dr->refs) {
		free(dr->heads);
		free(dr->refs);
		dr->heads = old_heads;
		dr->refs = old_refs;
		return;
	}
	dr->n_buckets = 8 * old_n;
	for (size_t i = 0; i < old_n; i++) {
		for (struct delayed_head *h = old_heads[i], *next; h; h = next) {
			struct delayed_head **bucket = head_bucket(dr, h->logical);

			next = h->next;
			h->next = *bucket;
			*bucket = h;
		}
		for (struct delayed_ref *r = old_refs[i], *next; r; r = next) {
			struct delayed_ref **bucket = ref_bucket(dr, r->head->logical, &r->key);

			next = r->next;
			r->next = *bucket;
			*bucket = r;
		}
	}
	free(old_heads);
	free(old_refs);
}

static void free_ref(struct delayed_refs *dr, struct delayed_ref *ref)
{
	struct delayed_head *head = ref->head;
	struct delayed_ref **at = ref_bucket(dr, head->logical, &ref->key);

	while (*at != ref)
		at = &(*at)->next;
	*at = ref->next;
	if (ref->count > 0)
		TAILQ_REMOVE(&head->adds, ref, list);
	else
		TAILQ_REMOVE(&head->drops, ref, list);
	head->net -= ref->count;
	head->n_refs--;
	dr->n_refs--;
	free(ref);
}

static void free_head(struct delayed_refs *dr, struct delayed_head *head)
{
	struct delayed_head **at = head_bucket(dr, head->logical);

	while (!TAILQ_EMPTY(&head->adds))
		free_ref(dr, TAILQ_FIRST(&head->adds));
	while (!TAILQ_EMPTY(&head->drops))
		free_ref(dr, TAILQ_FIRST(&head->drops));
	while (*at != head)
		at = &(*at)->next;
	*at = head->next;
	TAILQ_REMOVE(&dr->order, head, list);
	dr->n_heads--;
	free(head);
}

void delayed_refs_fini(struct delayed_refs *dr)
{
	while (!TAILQ_EMPTY(&dr->order))
		free_head(dr, TAILQ_FIRST(&dr->order));
	free(dr->heads);
	free(dr->refs);
	short_lock_fini(&dr->lock);
}

static struct delayed_head *get_head(
	struct delayed_refs *dr, uint64_t logical, uint64_t bytes, bool is_data, uint8_t level)
{
	struct delayed_head *head = find_head(dr, logical), **bucket;

	if (head)
		return head;
	head = calloc(1, sizeof(*head));
	if (!head)
		return NULL;
	head->logical = logical;
	head->bytes = bytes;
	head->is_data = is_data;
	head->level = level;
	TAILQ_INIT(&head->adds);
	TAILQ_INIT(&head->drops);
	bucket = head_bucket(dr, logical);
	head->next = *bucket;
	*bucket = head;
	TAILQ_INSERT_TAIL(&dr->order, head, list);
	dr->n_heads++;
	return head;
}

/* Adds to the count of one reference; it moves to the other list when its sign changes. */
static int add_count(struct delayed_refs *dr, struct delayed_head *head, const struct ref_key *key,
	int64_t count)
{
	struct delayed_ref *ref = find_ref(dr, head, key), **bucket;

	if (ref) {
		count += ref->count;
		free_ref(dr, ref);
		if (!count)
			return 0;
	}
	ref = calloc(1, sizeof(*ref));
	if (!ref)
		return -ENOMEM;
	ref->head = head;
	ref->key = *key;
	ref->count = count;
	bucket = ref_bucket(dr, head->logical, key);
	ref->next = *bucket;
	*bucket = ref;
	if (count > 0)
		TAILQ_INSERT_TAIL(&head->adds, ref, list);
	else
		TAILQ_INSERT_TAIL(&head->drops, ref, list);
	head->net += count;
	head->n_refs++;
	dr->n_refs++;
	grow(dr);
	return 0;
}

static bool is_settled(const struct delayed_head *head)
{
	return !head->n_refs && !head->is_new && !head->new_flags;
}

int delayed_ref_add(struct delayed_refs *dr, const struct ref_change *change, bool *cancelled)
{
	struct delayed_head *head;
	int ret = -ENOMEM;

	*cancelled = false;
	short_lock(&dr->lock);
	head = get_head(dr, change->logical, change->bytes, change->is_data, change->level);
	if (head)
		ret = add_count(dr, head, &change->key, change->count);
	if (!ret && change->is_new) {
		head->is_new = true;
		key_to_disk(&change->first_key, &head->first_key);
	}
	if (head && !head->running) {
		/*
		 * Without an item and without references it never was. But what is known of data
		 * stands in the checksum tree, too: that goes when the head is run. A head that
		 * has just been made for what could not be added goes as well.
		 */
		*cancelled = !ret && head->is_new && !head->n_refs && !head->is_data;
		if (*cancelled || is_settled(head))
			free_head(dr, head);
	}
	short_unlock(&dr->lock);
	return ret;
}

int delayed_flags_add(
	struct delayed_refs *dr, uint64_t logical, uint64_t bytes, uint8_t level, uint64_t flags)
{
	struct delayed_head *head;

	short_lock(&dr->lock);
	head = get_head(dr, logical, bytes, false, level);
	if (head)
		head->new_flags |= flags;
	short_unlock(&dr->lock);
	return head ? 0 : -ENOMEM;
}

bool delayed_head_peek(struct delayed_refs *dr, uint64_t logical, bool *is_new, int64_t *net,
	uint64_t *new_flags, bool *running)
{
	struct delayed_head *head;

	short_lock(&dr->lock);
	head = find_head(dr, logical);
	if (head) {
		*is_new = head->is_new;
		*net = head->net;
		*new_flags = head->new_flags;
		*running = head->running;
	}
	short_unlock(&dr->lock);
	return head;
}

static bool all_have_key(const struct delayed_ref_list *refs, const struct ref_key *key)
{
	const struct delayed_ref *ref;

	TAILQ_FOREACH(ref, refs, list)
		if (!same_key(&ref->key, key))
			return false;
	return true;
}

bool delayed_refs_only(struct delayed_refs *dr, uint64_t logical, const struct ref_key *key,
	bool *is_new, bool *running)
{
	struct delayed_head *head;
	bool only = true;

	short_lock(&dr->lock);
	head = find_head(dr, logical);
	if (head) {
		only = all_have_key(&head->adds, key) && all_have_key(&head->drops, key);
		*is_new = head->is_new;
		*running = head->running;
	}
	short_unlock(&dr->lock);
	return only;
}

struct delayed_head *delayed_head_start(struct delayed_refs *dr)
{
	struct delayed_head *head;

	short_lock(&dr->lock);
	head = TAILQ_FIRST(&dr->order);
	if (head)
		head->running = true;
	dr->running = head;
	short_unlock(&dr->lock);
	return head;
}

bool delayed_ref_take(
	struct delayed_refs *dr, struct delayed_head *head, struct ref_key *key, int64_t *count)
{
	struct delayed_ref *ref;

	short_lock(&dr->lock);
	ref = TAILQ_FIRST(&head->adds);
	if (!ref)
		ref = TAILQ_FIRST(&head->drops);
	if (ref) {
		*key = ref->key;
		*count = ref->count;
		free_ref(dr, ref);
	}
	short_unlock(&dr->lock);
	return ref;
}

void delayed_head_take(
	struct delayed_refs *dr, struct delayed_head *head, bool *is_new, uint64_t *new_flags)
{
	short_lock(&dr->lock);
	*is_new = head->is_new;
	*new_flags = head->new_flags;
	head->is_new = false;
	head->new_flags = 0;
	short_unlock(&dr->lock);
}

void delayed_head_stop(struct delayed_refs *dr, struct delayed_head *head)
{
	short_lock(&dr->lock);
	head->running = false;
	dr->running = false;
	while (dr->waiters) {
		struct delayed_waiter *w = dr->waiters;

		dr->waiters = w->next;
		fsc_thread_post(w->thread, &w->msg);
	}
	if (is_settled(head)) {
		free_head(dr, head);
	} else {
		TAILQ_REMOVE(&dr->order, head, list);
		TAILQ_INSERT_TAIL(&dr->order, head, list);
	}
	short_unlock(&dr->lock);
}

bool delayed_refs_wait(struct delayed_refs *dr, struct delayed_waiter *w)
{
	bool running;

	short_lock(&dr->lock);
	running = dr->running;
	if (running) {
		w->next = dr->waiters;
		dr->waiters = w;
	}
	short_unlock(&dr->lock);
	return running;
}

size_t delayed_refs_count(struct delayed_refs *dr)
{
	size_t n;

	short_lock(&dr->lock);
	n = MAX(dr->n_refs, dr->n_heads);
	short_unlock(&dr->lock);
	return n;
}
