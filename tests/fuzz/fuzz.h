/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The entry that libFuzzer and replay.c call. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len);

#endif
