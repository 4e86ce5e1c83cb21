/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The write verifier (RFC 1813, 3.3.7): 64 random bits made at the start, so it
 * never repeats. A client that sees another one than at its WRITE sends its
 * unstable data again. It changes too when data that was written unstably is lost
 * while the server runs (a write to the device failed): at once, for the file that
 * has lost it may be forgotten before somebody commits it (fsc_open_options.data_lost). A
 * sync that fails tells nothing more.
 *
 * WRITE takes it before it writes, COMMIT when the data is durable: a loss between
 * the two always shows.
 */
#ifndef SERVER_WRITE_VERF_H
#define SERVER_WRITE_VERF_H

#include <stdatomic.h>
#include <stdint.h>

#define WRITE_VERF_BYTES 8u

struct write_verf {
	_Atomic uint64_t value;
	_Atomic uint64_t renewals;
};

/* -EIO: no random numbers. */
int write_verf_init(struct write_verf *v);

void write_verf_get(const struct write_verf *v, uint8_t out[WRITE_VERF_BYTES]);

/* Any thread; never waits. */
void write_verf_renew(struct write_verf *v);

#endif
