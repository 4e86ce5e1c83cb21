/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fscore/fake_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int fake_share(struct tree_writer *w, struct tree_root *root, struct mblock *old,
	struct block_share *share)
{
	(void)w;
	(void)root;
	(void)old;
	*share = (struct block_share){.refs = 1};
	return 0;
}

void fake_broken(struct tree_writer *w, int error)
{
	(void)w;
	fail_msg("a tree was left half changed: %d", error);
}

void fake_root_changed(struct tree_writer *w, struct tree_root *root)
{
	(void)w;
	(void)root;
}
