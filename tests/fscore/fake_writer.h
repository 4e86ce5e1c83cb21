/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What struct tree_writer_ops of a test has in common with that of another: no block is shared,
 * nothing breaks, and nobody keeps the addresses of roots.
 */
#ifndef TESTS_FSCORE_FAKE_WRITER_H
#define TESTS_FSCORE_FAKE_WRITER_H

#include "fscore/tree/modify.h"

int fake_share(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct block_share *share);
/* Fails the test. */
void fake_broken(struct tree_writer *w, int error);
void fake_root_changed(struct tree_writer *w, struct tree_root *root);

#endif
