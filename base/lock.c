/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/lock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

static _Thread_local bool is_loop_thread;
static _Atomic uint64_t loop_waits;

#ifdef BYRE_DEBUG

#define MAX_HELD 16

struct held_lock {
	const void *lock;
	enum lock_rank rank;
};

static _Thread_local struct held_lock held[MAX_HELD];
static _Thread_local unsigned n_held;

/* tried: the lock was taken without waiting, which cannot deadlock. */
static void note_taken(const void *lock, enum lock_rank rank, bool tried)
{
	for (unsigned i = 0; i < n_held && !tried; i++)
		if (held[i].rank > rank || (held[i].rank == rank && held[i].lock >= lock)) {
			fprintf(stderr, "lock order: rank %d taken while %d is held\n", (int)rank,
				(int)held[i].rank);
			abort();
		}
	if (n_held == MAX_HELD)
		abort();
	held[n_held].lock = lock;
	held[n_held++].rank = rank;
}

static void note_freed(const void *lock)
{
	for (unsigned i = n_held; i-- > 0;)
		if (held[i].lock == lock) {
			for (n_held--; i < n_held; i++)
				held[i] = held[i + 1];
			return;
		}
	fprintf(stderr, "a lock is freed that this thread does not hold\n");
	abort();
}

#else

static inline void note_taken(const void *lock, enum lock_rank rank, bool tried)
{
	(void)lock;
	(void)rank;
	(void)tried;
}

static inline void note_freed(const void *lock)
{
	(void)lock;
}

#endif

/* The pthread calls below fail only when we misuse them. */
static void must(int ret)
{
	if (ret)
		abort();
}

void short_lock_init(struct short_lock *l, enum lock_rank rank)
{
	must(pthread_mutex_init(&l->mutex, NULL));
	l->rank = rank;
}

void short_lock_fini(struct short_lock *l)
{
	must(pthread_mutex_destroy(&l->mutex));
}

void short_lock(struct short_lock *l)
{
	must(pthread_mutex_lock(&l->mutex));
	note_taken(l, l->rank, false);
}

bool short_trylock(struct short_lock *l)
{
	if (pthread_mutex_trylock(&l->mutex))
		return false;
	note_taken(l, l->rank, true);
	return true;
}

void short_unlock(struct short_lock *l)
{
	note_freed(l);
	must(pthread_mutex_unlock(&l->mutex));
}

void long_lock_init(struct long_lock *l, enum lock_rank rank)
{
	must(pthread_rwlock_init(&l->rwlock, NULL));
	l->rank = rank;
}

void long_lock_fini(struct long_lock *l)
{
	must(pthread_rwlock_destroy(&l->rwlock));
}

void long_lock_read(struct long_lock *l)
{
	might_wait("long_lock_read");
	must(pthread_rwlock_rdlock(&l->rwlock));
	note_taken(l, l->rank, false);
}

bool long_trylock_read(struct long_lock *l)
{
	if (pthread_rwlock_tryrdlock(&l->rwlock))
		return false;
	note_taken(l, l->rank, true);
	return true;
}

void long_lock_write(struct long_lock *l)
{
	might_wait("long_lock_write");
	must(pthread_rwlock_wrlock(&l->rwlock));
	note_taken(l, l->rank, false);
}

bool long_trylock_write(struct long_lock *l)
{
	if (pthread_rwlock_trywrlock(&l->rwlock))
		return false;
	note_taken(l, l->rank, true);
	return true;
}

void long_unlock(struct long_lock *l)
{
	note_freed(l);
	must(pthread_rwlock_unlock(&l->rwlock));
}

void might_wait_set_loop(bool is_loop)
{
	is_loop_thread = is_loop;
}

bool might_wait_is_loop(void)
{
	return is_loop_thread;
}

void might_wait(const char *what)
{
	if (!is_loop_thread)
		return;
	atomic_fetch_add_explicit(&loop_waits, 1, memory_order_relaxed);
#ifdef BYRE_DEBUG
	fprintf(stderr, "a loop thread might wait: %s\n", what);
	abort();
#else
	log_limited(LOG_LVL_ERROR, "a loop thread might wait: %s", what);
#endif
}

uint64_t might_wait_count(void)
{
	return atomic_load_explicit(&loop_waits, memory_order_relaxed);
}
