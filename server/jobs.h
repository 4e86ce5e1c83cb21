/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The workers: threads that run what a loop could not do without waiting.
 *
 * Jobs queue per tenant. Tenants with queued jobs are served by deficit round
 * robin (Shreedhar and Varghese, 1995): each turn adds a quantum to a tenant's
 * deficit, and its jobs run as long as the deficit covers their cost. A tenant
 * never holds more than a given number of workers, so that one whose jobs wait
 * for a slow disk leaves some to the others.
 */
#ifndef SERVER_JOBS_H
#define SERVER_JOBS_H

#include <stdbool.h>
#include <stdint.h>

struct server;
struct srv_thread;
struct jobs;

/* Embed it. It belongs to jobs from jobs_add() until run is called. */
struct job {
	struct job *next;
	uint64_t tenant;
	uint32_t cost; /* 1 and more; JOBS_QUANTUM is an ordinary request */
	void (*run)(struct job *job, struct srv_thread *worker);
};

#define JOBS_QUANTUM 16u

/*
 * Starts the workers. per_tenant: how many of them one tenant may hold.
 * Errors: those of fsc_thread_create() and pthread_create(3).
 */
int jobs_create(struct server *srv, unsigned workers, unsigned per_tenant, struct jobs **out);

/* Runs what is queued, then ends the workers. Might wait. NULL is allowed. */
void jobs_destroy(struct jobs *jobs);

/* Any thread; never waits. -ENOMEM. */
int jobs_add(struct jobs *jobs, struct job *job);

struct jobs_stats {
	uint64_t queued, running, done;
	unsigned workers;
};

void jobs_stats(struct jobs *jobs, struct jobs_stats *out);

/* ------------------------------------- the scheduler alone, for its tests */

struct job_queues;

struct job_queues *job_queues_create(unsigned per_tenant);
void job_queues_destroy(struct job_queues *q);
int job_queues_add(struct job_queues *q, struct job *job);
/* The next job to run; NULL: none may run now. */
struct job *job_queues_next(struct job_queues *q);
/* A job of this tenant that job_queues_next() gave has ended. */
void job_queues_done(struct job_queues *q, uint64_t tenant);

#endif
