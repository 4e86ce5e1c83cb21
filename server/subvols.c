/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/subvols.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "server/exports.h"
#include "server/server.h"

/* Deeper nesting is served, but by an export at most this far above. */
#define DEPTH_MAX 256

uint64_t subvol_fsid(const uint8_t uuid[FSC_UUID_BYTES])
{
	uint64_t half[2];

	memcpy(half, uuid, sizeof(half));
	return hash_mix64(half[0]) ^ half[1];
}

/* Looks for the export at or above a subvolume. */
static int find_export(struct srv_thread *t, struct fsc_ctx *ctx,
	const struct fsc_subvol_info *info, const struct export **out)
{
	struct fsc_subvol_info up = *info;

	*out = NULL;
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		int ret;

		*out = exports_by_subvol(t->srv->exports, up.id);
		if (*out || !up.parent_id)
			return 0;
		ret = fsc_subvol_info(ctx, t->srv->vol, up.parent_id, &up);
		if (ret)
			return ret == -ENOENT ? 0 : ret;
	}
	return 0;
}

static int subvol_load(struct srv_thread *t, struct fsc_ctx *ctx, uint64_t id, struct srv_subvol *s)
{
	struct fsc_subvol_info info;
	int ret;

	ret = fsc_subvol_info(ctx, t->srv->vol, id, &info);
	if (ret)
		return ret;
	ret = find_export(t, ctx, &info, &s->export);
	if (ret)
		return ret;
	/* Of those below an export, too; it costs nothing to say it again. */
	if (s->export && *s->export->compress)
		ret = fsc_subvol_set_compress(ctx, t->srv->vol, id, s->export->compress);
	if (ret)
		return ret;
	s->id = id;
	s->fsid = subvol_fsid(info.uuid);
	s->read_only = info.read_only;
	return 0;
}

int srv_subvol_get(struct srv_thread *t, struct fsc_ctx *ctx, uint64_t id, struct srv_subvol *out)
{
	struct subvol_cache *c = &t->subvols;
	struct srv_subvol *s = &c->slot[hash_mix64(id) % SUBVOL_CACHE_SLOTS];
	int ret;

	if (!id)
		return -ENOENT;
	if (s->id != id) {
		s->id = 0;
		ret = subvol_load(t, ctx, id, s);
		if (ret)
			return ret;
	}
	*out = *s;
	return 0;
}
