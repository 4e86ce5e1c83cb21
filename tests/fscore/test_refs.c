/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Very many references dropped at once: they don't make a commit long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/fscore/writing.h"

#define N_EXTENTS 12000u
#define PAGE	  4096u

/* What one commit may have to write: as many as make others wait, and what was on its way. */
#define BOUND 6000u

/* A file whose every other page is an extent of its own. */
static void make_file(struct model *m)
{
	static char page[PAGE];
	struct iovec iov = {page, sizeof(page)};

	memset(page, 'x', sizeof(page));
	model_create(m, w.root, "many", PAGE);
	for (uint64_t i = 0; i < N_EXTENTS; i++)
		assert_int_equal(fsc_write(&w.ctx, m->inode, 2 * i * PAGE, &iov, 1), 0);
	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	/* Counting begins anew: this has had a reference for each extent, too. */
	model_close(m);
	writing_reopen();
	model_open(m);
}

static void check_commits(void)
{
	struct fsc_stats st;

	assert_int_equal(fsc_sync_all(&w.ctx, w.vol), 0);
	fsc_stats(w.vol, &st);
	assert_true(st.commits > 0);
	assert_true(st.commit_refs_max <= BOUND);
}

static void test_unlink_leaves_little_to_a_commit(void **state)
{
	struct model m;

	(void)state;
	writing_make("");
	make_file(&m);
	assert_int_equal(fsc_unlink(&w.ctx, w.root, m.name, strlen(m.name)), 0);
	model_close(&m);
	check_commits();
	model_free(&m);
	writing_end();
}

static void test_truncation_leaves_little_to_a_commit(void **state)
{
	struct fsc_setattr empty = {.mask = FSC_SET_SIZE};
	struct model m;

	(void)state;
	writing_make("");
	make_file(&m);
	assert_int_equal(fsc_setattr(&w.ctx, m.inode, &empty), 0);
	check_commits();
	model_close(&m);
	model_free(&m);
	writing_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unlink_leaves_little_to_a_commit),
		cmocka_unit_test(test_truncation_leaves_little_to_a_commit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
