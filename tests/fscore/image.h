/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small volume for tests, made by mkfs.btrfs from a directory of known content:
 *
 *   dir/file-NNNN     IMAGE_FILES files; the size of file i is image_size(i), its
 *                     bytes are image_byte(i, offset)
 *   link              a symlink to dir/file-0000
 *   empty             an empty directory
 */
#ifndef TESTS_FSCORE_IMAGE_H
#define TESTS_FSCORE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_FILES 400u

/*
 * The bytes of the volume (to be freed), as mkfs.btrfs makes it with these options
 * (NULL: none). Ends the test program when that fails.
 */
void *image_make(const char *mkfs_options, size_t *size_bytes);

uint64_t image_size(unsigned file);

static inline uint8_t image_byte(unsigned file, uint64_t off)
{
	uint64_t x = (off + ((uint64_t)file << 32)) * 0x9e3779b97f4a7c15u;

	return (uint8_t)(x >> 56);
}

#endif
