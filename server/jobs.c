/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/lock.h"
#include "server/server.h"

struct worker {
	struct srv_thread thread; /* owned by the worker's thread */
	struct jobs *jobs;
	pthread_t pthread;
	bool started;
	sem_t start_done; /* hands start_result over */
	int start_result;

	/* guarded by jobs->lock */
	struct worker *idle_next;
	bool idle;
};

struct jobs {
	/* immutable after init */
	struct worker *workers;
	unsigned n_workers;

	struct short_lock lock; /* RANK_SERVER */
	/* guarded by lock */
	struct job_queues *queues;
	struct worker *idle;
	bool stop;
	uint64_t queued, running, done;
};

/* A worker that was woken by something else takes itself out of the list. */
static void leave_idle(struct jobs *jobs, struct worker *w)
{
	struct worker **p = &jobs->idle;

	if (!w->idle)
		return;
	while (*p != w)
		p = &(*p)->idle_next;
	*p = w->idle_next;
	w->idle = false;
}

/* The next job, or NULL with the worker entered in the list of idle ones. */
static struct job *next_job(struct jobs *jobs, struct worker *w, bool *stop)
{
	struct job *job;

	short_lock(&jobs->lock);
	job = job_queues_next(jobs->queues);
	if (job) {
		leave_idle(jobs, w);
		jobs->queued--;
		jobs->running++;
	} else if (!w->idle) {
		w->idle = true;
		w->idle_next = jobs->idle;
		jobs->idle = w;
	}
	*stop = jobs->stop;
	short_unlock(&jobs->lock);
	return job;
}

static struct worker *pop_idle(struct jobs *jobs)
{
	struct worker *w = jobs->idle;

	if (w) {
		jobs->idle = w->idle_next;
		w->idle = false;
	}
	return w;
}

static void job_done(struct jobs *jobs, uint64_t tenant)
{
	short_lock(&jobs->lock);
	job_queues_done(jobs->queues, tenant);
	jobs->running--;
	jobs->done++;
	/* A tenant at its cap may have more: this worker takes one of them. */
	short_unlock(&jobs->lock);
}

static void worker_run(struct worker *w)
{
	struct jobs *jobs = w->jobs;
	bool stop = false;

	for (;;) {
		struct job *job = next_job(jobs, w, &stop);

		if (job) {
			uint64_t tenant = job->tenant;

			job->run(job, &w->thread);
			job_done(jobs, tenant);
		} else if (stop) {
			return;
		} else {
			fsc_thread_wait(w->thread.fsc);
		}
	}
}

/* fscore wants a thread's fsc_thread made and ended by that thread. */
static void *worker_main(void *arg)
{
	struct worker *w = arg;

	pthread_setname_np(pthread_self(), "worker");
	w->start_result = fsc_thread_create(&w->thread.fsc);
	sem_post(&w->start_done);
	if (!w->start_result)
		worker_run(w);
	fsc_thread_destroy(w->thread.fsc);
	return NULL;
}

int jobs_add(struct jobs *jobs, struct job *job)
{
	struct worker *w = NULL;
	int ret;

	short_lock(&jobs->lock);
	ret = job_queues_add(jobs->queues, job);
	if (!ret) {
		jobs->queued++;
		w = pop_idle(jobs);
	}
	short_unlock(&jobs->lock);
	if (w)
		fsc_thread_wake(w->thread.fsc);
	return ret;
}

static int start_worker(struct jobs *jobs, struct server *srv, struct worker *w)
{
	int ret;

	w->jobs = jobs;
	w->thread.srv = srv;
	sem_init(&w->start_done, 0, 0);
	ret = -pthread_create(&w->pthread, NULL, worker_main, w);
	if (!ret) {
		while (sem_wait(&w->start_done))
			; /* a signal */
		ret = w->start_result;
		if (ret)
			pthread_join(w->pthread, NULL);
	}
	sem_destroy(&w->start_done);
	w->started = !ret;
	return ret;
}

int jobs_create(struct server *srv, unsigned workers, unsigned per_tenant, struct jobs **out)
{
	struct jobs *jobs = calloc(1, sizeof(*jobs));
	int ret = 0;

	if (!jobs)
		return -ENOMEM;
	short_lock_init(&jobs->lock, RANK_SERVER);
	jobs->queues = job_queues_create(per_tenant);
	jobs->workers = calloc(workers, sizeof(*jobs->workers));
	if (!jobs->queues || !jobs->workers)
		ret = -ENOMEM;
	for (unsigned i = 0; i < workers && !ret; i++) {
		jobs->n_workers = i + 1;
		ret = start_worker(jobs, srv, &jobs->workers[i]);
	}
	if (ret) {
		jobs_destroy(jobs);
		return ret;
	}
	*out = jobs;
	return 0;
}

static void stop_workers(struct jobs *jobs)
{
	short_lock(&jobs->lock);
	jobs->stop = true;
	/* Under the lock: one that sees stop ends, with its fsc_thread. */
	for (unsigned i = 0; i < jobs->n_workers; i++)
		if (jobs->workers[i].started)
			fsc_thread_wake(jobs->workers[i].thread.fsc);
	short_unlock(&jobs->lock);
	for (unsigned i = 0; i < jobs->n_workers; i++)
		if (jobs->workers[i].started)
			pthread_join(jobs->workers[i].pthread, NULL);
}

void jobs_destroy(struct jobs *jobs)
{
	if (!jobs)
		return;
	if (jobs->workers)
		stop_workers(jobs);
	job_queues_destroy(jobs->queues);
	short_lock_fini(&jobs->lock);
	free(jobs->workers);
	free(jobs);
}

void jobs_stats(struct jobs *jobs, struct jobs_stats *out)
{
	short_lock(&jobs->lock);
	out->queued = jobs->queued;
	out->running = jobs->running;
	out->done = jobs->done;
	out->workers = jobs->n_workers;
	short_unlock(&jobs->lock);
}
