/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "client-test/clash.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u
#define DIGITS	   8u
#define TAIL	   4u

static uint32_t hashed(uint32_t crc, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		crc ^= (uint8_t)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
	}
	return crc;
}

/* The four bytes that lead from one state of the sum to another: its steps, undone. */
static void tail_between(uint32_t from, uint32_t to, char tail[TAIL])
{
	for (int bit = 0; bit < 32; bit++)
		to = to & 0x80000000u ? (to ^ POLYNOMIAL) << 1 | 1 : to << 1;
	to ^= from;
	for (size_t i = 0; i < TAIL; i++)
		tail[i] = (char)(to >> 8 * i);
}

/* What comes before the tail; another try gives another one. */
static void fill_head(const char *prefix, unsigned number, unsigned try, char *name, size_t len)
{
	size_t at = strlen(prefix);
	char digits[DIGITS + 1];

	assert(len >= at + DIGITS + TAIL && number < 100000 && try < 1000);
	memcpy(name, prefix, at);
	snprintf(digits, sizeof(digits), "%05u%03u", number, try);
	memcpy(name + at, digits, DIGITS);
	memset(name + at + DIGITS, '.', len - TAIL - at - DIGITS);
}

void clash_name(
	uint32_t seed, uint32_t hash, const char *prefix, unsigned number, char *name, size_t len)
{
	char *tail = name + len - TAIL;
	unsigned try = 0;

	do {
		fill_head(prefix, number, try++, name, len);
		tail_between(hashed(seed, name, len - TAIL), hash, tail);
	} while (memchr(tail, '\0', TAIL) || memchr(tail, '/', TAIL));
	assert(hashed(seed, name, len) == hash);
}
