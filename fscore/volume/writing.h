/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening a volume for writing: the trees, the space and the threads that this takes. */
#ifndef FSCORE_VOLUME_WRITING_H
#define FSCORE_VOLUME_WRITING_H

#include "fscore/file/fs.h"

/*
 * After the volume has been opened for reading. When it has something that byre does not keep up
 * when it writes, the volume becomes read-only, and that is said. Errors as fsc_volume_open().
 */
int writing_open(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *name);

/*
 * Builds the free-space tree anew, from the extent tree, on a volume that was opened as if it had
 * none; before anything else is done with it. Might wait.
 */
int free_space_rebuild(struct fsc_ctx *ctx, struct fsc_volume *vol, const char *name);

/* Writes everything out. Fine for a volume that was not opened for writing. */
void writing_close(struct fsc_thread *t, struct fsc_volume *vol);

#endif
