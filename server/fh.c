/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/fh.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "proto/wire.h"
#include "server/errors.h"

static const uint8_t head[4] = {1, 0, 0, 0};

void fh_encode(const uint8_t volume[FSC_UUID_BYTES], const struct fh_id *id, uint8_t out[FH_BYTES])
{
	memcpy(out, head, sizeof(head));
	memcpy(out + 4, volume, FSC_UUID_BYTES);
	wire_set_u64(out + 20, id->subvol);
	wire_set_u64(out + 28, id->ino);
	wire_set_u64(out + 36, id->generation);
}

int fh_decode(const uint8_t volume[FSC_UUID_BYTES], const void *data, size_t len, struct fh_id *id)
{
	const uint8_t *p = data;

	if (len != FH_BYTES || memcmp(p, head, sizeof(head)))
		return -SRV_EBADHANDLE;
	if (memcmp(p + 4, volume, FSC_UUID_BYTES))
		return -ESTALE;
	id->subvol = wire_load_u64(p + 20);
	id->ino = wire_load_u64(p + 28);
	id->generation = wire_load_u64(p + 36);
	return 0;
}
