/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one place where errors become protocol statuses. Inside the server an
 * error is a negative errno, or one of the values below, which no errno has.
 */
#ifndef SERVER_ERRORS_H
#define SERVER_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

enum srv_error {
	SRV_EBADHANDLE = 4096, /* not a handle that we could have made */
	SRV_EBADCOOKIE,
	SRV_ETOOSMALL,
	SRV_EBADTYPE,
	SRV_ELATER, /* a resource of ours is short: the client should retry */
};

/* err: 0 or a negative error. */
uint32_t errors_nfs3(int err);
uint32_t errors_mount3(int err);

/* Nothing was done, and the client is told to try again. */
bool errors_is_transient(int err);

#endif
