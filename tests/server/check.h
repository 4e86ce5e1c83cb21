/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A check that works in unit tests and fuzzers alike. */
#ifndef TESTS_SERVER_CHECK_H
#define TESTS_SERVER_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                   \
		}                                                                  \
	} while (0)

#endif
