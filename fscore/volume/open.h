/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opens a volume on any device: what fsc_volume_open() does after it has the device. */
#ifndef FSCORE_VOLUME_OPEN_H
#define FSCORE_VOLUME_OPEN_H

#include "fscore/file/fs.h"

/* Takes over dev, also when it fails. name is for messages. As fsc_volume_open(). */
int volume_open_dev(struct fsc_thread *t, struct dev *dev, const char *name,
	const struct fsc_open_options *opt, struct fsc_volume **out);

#endif
