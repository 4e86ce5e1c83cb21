/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names that clash: btrfs files a directory's entries, and a file's extended attributes, under
 * a crc32c of the name that everyone can calculate. For tests of what happens then.
 */
#ifndef BYRE_CLIENT_TEST_CLASH_H
#define BYRE_CLIENT_TEST_CLASH_H

#include <stddef.h>
#include <stdint.h>

/* What the sum of an entry's or attribute's name begins with; that of a reference from an
 * inode to its name (INODE_EXTREF) begins with the number of the directory. */
#define CLASH_NAME_SEED 0xfffffffeu

/*
 * The number-th name of len bytes that begins with prefix and has this hash, none of its bytes
 * NUL or '/'. len: the prefix, eight digits, four bytes that make the hash, and what fills it
 * up. Not terminated.
 */
void clash_name(
	uint32_t seed, uint32_t hash, const char *prefix, unsigned number, char *name, size_t len);

#endif
