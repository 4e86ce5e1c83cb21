/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A workload through fscore.h that remembers everything it has done and when it was
 * told that it is durable, and a check of a volume, however it came about, against
 * that. Time is counted twice: in operations (seq), and in what the recording
 * device below the volume had recorded when they began and when they were durable.
 * One thread; the volume's own threads run beside it.
 *
 * After a crash at record `cut`, each name, attribute and byte must have a value
 * that it had at some time between the last acknowledgement before the cut and the
 * last operation that had begun by then.
 */
#ifndef TESTS_FSCORE_CRASH_WORK_H
#define TESTS_FSCORE_CRASH_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fscore/fscore.h"

struct dev;

#define CRASH_DIRS  6u
#define CRASH_NAMES 24u

struct crash_work;

/* While it allocates for itself: that must not fail, and never does by injection. */
extern __thread volatile bool crash_work_allocates;

/*
 * vol is empty but for what an earlier begin on it made. record: the device to take
 * the time from, or NULL. Makes the directories, and makes them durable. Returns NULL
 * when that fails: *error says why.
 */
struct crash_work *crash_work_begin(struct fsc_thread *thread, struct fsc_volume *vol,
	struct dev *record, uint64_t seed, int *error);
void crash_work_destroy(struct crash_work *w);

/*
 * n operations. Those that fail must fail with one of -EIO, -ENOSPC, -EROFS, -ENOMEM, and
 * have changed nothing; may_fail false: none may. Returns how many failed, or -1 after
 * what may not be: crash_work_why().
 */
int crash_work_run(struct crash_work *w, unsigned n, bool may_fail);
/* fsc_sync_all(), and remembers it. Returns its result. */
int crash_work_sync(struct crash_work *w);
/* Gives back what it holds of the volume, which may then be closed. */
void crash_work_detach(struct crash_work *w);

/* Whether vol is what may be there after a crash. began: operations that began at this
 * record or before may have left traces. SIZE_MAX, SIZE_MAX: after the end. */
bool crash_work_check(struct crash_work *w, struct fsc_thread *thread, struct fsc_volume *vol,
	size_t cut, size_t began);
const char *crash_work_why(const struct crash_work *w);

/* Runs btrfs check on an image. false: it found something, which has been printed. */
bool crash_btrfs_check(const char *path);

/* An empty volume: a file of this size in TMPDIR, mapped; *path is to be freed and unlinked. */
void *crash_image(const char *mkfs_options, size_t bytes, char **path);

#endif
