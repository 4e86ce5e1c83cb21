/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/write_verf.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/util.h"

int write_verf_init(struct write_verf *v)
{
	uint64_t value;

	if (getrandom(&value, sizeof(value), 0) != sizeof(value))
		return -EIO;
	atomic_store(&v->value, value);
	atomic_store(&v->renewals, 0);
	return 0;
}

void write_verf_get(const struct write_verf *v, uint8_t out[WRITE_VERF_BYTES])
{
	uint64_t value = atomic_load(&v->value);

	memcpy(out, &value, sizeof(value));
}

void write_verf_renew(struct write_verf *v)
{
	uint64_t old = atomic_load(&v->value), value;

	/* The mix of a random start and a count is as good as new random bits. */
	do {
		value = hash_mix64(old + 0x9e3779b97f4a7c15u);
	} while (!atomic_compare_exchange_weak(&v->value, &old, value));
	atomic_fetch_add(&v->renewals, 1);
	log_limited(
		LOG_LVL_WARNING, "unstable writes were lost: clients are told to send them again");
}
