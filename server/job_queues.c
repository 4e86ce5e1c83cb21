/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The scheduler of jobs.h. The caller serialises. */
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "server/jobs.h"

#define BUCKETS 1024u

struct tenant {
	uint64_t key;
	struct tenant *hash_next;
	/* The round of tenants with queued jobs that may have a worker more. */
	struct tenant *prev, *next;
	bool in_round;
	struct job *first, **last;
	uint64_t deficit;
	unsigned running;
};

struct job_queues {
	unsigned per_tenant;
	struct tenant *turn; /* whose turn it is in the round; NULL: empty */
	bool fresh;	     /* that tenant has not had this turn's quantum yet */
	struct tenant *bucket[BUCKETS];
};

struct job_queues *job_queues_create(unsigned per_tenant)
{
	struct job_queues *q = calloc(1, sizeof(*q));

	if (q)
		q->per_tenant = MAX(per_tenant, 1u);
	return q;
}

void job_queues_destroy(struct job_queues *q)
{
	if (!q)
		return;
	for (unsigned i = 0; i < BUCKETS; i++)
		while (q->bucket[i]) {
			struct tenant *t = q->bucket[i];

			q->bucket[i] = t->hash_next;
			free(t);
		}
	free(q);
}

static struct tenant **find(struct job_queues *q, uint64_t key)
{
	struct tenant **p = &q->bucket[hash_mix64(key) % BUCKETS];

	while (*p && (*p)->key != key)
		p = &(*p)->hash_next;
	return p;
}

static struct tenant *find_or_add(struct job_queues *q, uint64_t key)
{
	struct tenant **p = find(q, key), *t = *p;

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->key = key;
		t->last = &t->first;
		*p = t;
	}
	return t;
}

/* At the end of the round: just before the one whose turn it is. */
static void round_add(struct job_queues *q, struct tenant *t)
{
	if (t->in_round || !t->first || t->running >= q->per_tenant)
		return;
	t->in_round = true;
	if (!q->turn) {
		t->prev = t->next = q->turn = t;
		q->fresh = true;
		return;
	}
	t->next = q->turn;
	t->prev = q->turn->prev;
	t->prev->next = t->next->prev = t;
}

static void round_remove(struct job_queues *q, struct tenant *t)
{
	t->in_round = false;
	t->prev->next = t->next;
	t->next->prev = t->prev;
	if (q->turn != t)
		return;
	q->turn = t->next == t ? NULL : t->next;
	q->fresh = true;
}

int job_queues_add(struct job_queues *q, struct job *job)
{
	struct tenant *t = find_or_add(q, job->tenant);

	if (!t)
		return -ENOMEM;
	job->next = NULL;
	*t->last = job;
	t->last = &job->next;
	round_add(q, t);
	return 0;
}

static struct job *take_first(struct job_queues *q, struct tenant *t)
{
	struct job *job = t->first;

	t->first = job->next;
	if (!t->first)
		t->last = &t->first;
	t->deficit -= job->cost;
	t->running++;
	if (!t->first)
		t->deficit = 0; /* credit is not saved up while idle */
	if (!t->first || t->running >= q->per_tenant)
		round_remove(q, t);
	return job;
}

struct job *job_queues_next(struct job_queues *q)
{
	while (q->turn) {
		struct tenant *t = q->turn;

		if (q->fresh) {
			t->deficit += JOBS_QUANTUM;
			q->fresh = false;
		}
		if (t->first->cost <= t->deficit)
			return take_first(q, t);
		q->turn = t->next;
		q->fresh = true;
	}
	return NULL;
}

void job_queues_done(struct job_queues *q, uint64_t key)
{
	struct tenant **p = find(q, key), *t = *p;

	t->running--;
	if (t->first) {
		round_add(q, t);
	} else if (!t->running) {
		*p = t->hash_next;
		free(t);
	}
}
