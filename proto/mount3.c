/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/mount3.h"

#include "proto/rpc.h"

bool mount3_decode_path(struct wire_in *in, struct mount3_path_args *args)
{
	wire_get_opaque(in, MOUNT3_PATH_MAX, &args->path);
	return !in->bad;
}

void mount3_put_mnt(struct wire_out *out, enum mount3_stat stat, const struct mount3_mnt_res *res)
{
	wire_put_u32(out, stat);
	if (stat != MOUNT3_OK)
		return;
	wire_put_opaque(out, res->fh, res->fh_len);
	wire_put_u32(out, 1);
	wire_put_u32(out, RPC_AUTH_SYS);
}

static void put_string(struct wire_out *out, const char *s)
{
	wire_put_opaque(out, s, (uint32_t)strlen(s));
}

void mount3_put_dump_entry(struct wire_out *out, const char *host, const char *dir)
{
	wire_put_bool(out, true);
	put_string(out, host);
	put_string(out, dir);
}

void mount3_put_export_begin(struct wire_out *out, const char *dir)
{
	wire_put_bool(out, true);
	put_string(out, dir);
}

void mount3_put_export_group(struct wire_out *out, const char *group)
{
	wire_put_bool(out, true);
	put_string(out, group);
}

void mount3_put_list_end(struct wire_out *out)
{
	wire_put_bool(out, false);
}
