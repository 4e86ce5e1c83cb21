/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers as people write them. */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The decimal digits at s, of a number up to max; *end is set behind them. False: there
 * are none, or they are too large.
 */
static inline bool parse_digits(const char *s, uint64_t max, const char **end, uint64_t *out)
{
	uint64_t v = 0;

	*end = s;
	for (; **end >= '0' && **end <= '9'; ++*end) {
		unsigned digit = (unsigned)(**end - '0');

		if (digit > max || v > (max - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*out = v;
	return *end != s;
}

/* The same, and nothing behind them. */
static inline bool parse_number(const char *s, uint64_t max, uint64_t *out)
{
	const char *end;
	uint64_t v;

	if (!parse_digits(s, max, &end, &v) || *end)
		return false;
	*out = v;
	return true;
}

#endif
