/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the checks of this folder say what is wrong; for this folder only. */
#ifndef FSCORE_FORMAT_REPORT_H
#define FSCORE_FORMAT_REPORT_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct report {
	char *why;
	size_t bytes;
};

/* Returns -EUCLEAN. */
static inline int __attribute__((format(printf, 2, 3)))
bad(const struct report *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->why, r->bytes, fmt, ap);
	va_end(ap);
	return -EUCLEAN;
}

#endif
