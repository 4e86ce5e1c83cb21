/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server/errors.h"

#include <errno.h>
#include <stddef.h>

#include "base/log.h"
#include "base/util.h"
#include "proto/mount3.h"
#include "proto/nfs3.h"

static const struct {
	int err;
	enum nfs3_stat nfs3;
	enum mount3_stat mount3;
} table[] = {
	{EPERM, NFS3ERR_PERM, MOUNT3ERR_PERM},
	{ENOENT, NFS3ERR_NOENT, MOUNT3ERR_NOENT},
	{EIO, NFS3ERR_IO, MOUNT3ERR_IO},
	{EUCLEAN, NFS3ERR_IO, MOUNT3ERR_IO},
	{ENXIO, NFS3ERR_NXIO, MOUNT3ERR_IO},
	{EACCES, NFS3ERR_ACCES, MOUNT3ERR_ACCES},
	{EEXIST, NFS3ERR_EXIST, MOUNT3ERR_SERVERFAULT},
	{EXDEV, NFS3ERR_XDEV, MOUNT3ERR_SERVERFAULT},
	{ENODEV, NFS3ERR_NODEV, MOUNT3ERR_SERVERFAULT},
	{ENOTDIR, NFS3ERR_NOTDIR, MOUNT3ERR_NOTDIR},
	{EISDIR, NFS3ERR_ISDIR, MOUNT3ERR_INVAL},
	{EINVAL, NFS3ERR_INVAL, MOUNT3ERR_INVAL},
	{EFBIG, NFS3ERR_FBIG, MOUNT3ERR_SERVERFAULT},
	{ENOSPC, NFS3ERR_NOSPC, MOUNT3ERR_SERVERFAULT},
	{EROFS, NFS3ERR_ROFS, MOUNT3ERR_SERVERFAULT},
	{EMLINK, NFS3ERR_MLINK, MOUNT3ERR_SERVERFAULT},
	{ENAMETOOLONG, NFS3ERR_NAMETOOLONG, MOUNT3ERR_NAMETOOLONG},
	{ENOTEMPTY, NFS3ERR_NOTEMPTY, MOUNT3ERR_SERVERFAULT},
	{EDQUOT, NFS3ERR_DQUOT, MOUNT3ERR_SERVERFAULT},
	{ESTALE, NFS3ERR_STALE, MOUNT3ERR_NOENT},
	{EOPNOTSUPP, NFS3ERR_NOTSUPP, MOUNT3ERR_NOTSUPP},
	{ENOMEM, NFS3ERR_JUKEBOX, MOUNT3ERR_SERVERFAULT},
	{EAGAIN, NFS3ERR_JUKEBOX, MOUNT3ERR_SERVERFAULT},
	{SRV_ELATER, NFS3ERR_JUKEBOX, MOUNT3ERR_SERVERFAULT},
	{SRV_EBADHANDLE, NFS3ERR_BADHANDLE, MOUNT3ERR_INVAL},
	{SRV_EBADCOOKIE, NFS3ERR_BAD_COOKIE, MOUNT3ERR_INVAL},
	{SRV_ETOOSMALL, NFS3ERR_TOOSMALL, MOUNT3ERR_INVAL},
	{SRV_EBADTYPE, NFS3ERR_BADTYPE, MOUNT3ERR_INVAL},
	{EREMCHG, NFS3ERR_NOT_SYNC, MOUNT3ERR_INVAL},
	/* Too many names with one hash: it is this name that cannot be, not the volume that is full. */
	{EOVERFLOW, NFS3ERR_NAMETOOLONG, MOUNT3ERR_NAMETOOLONG},
};

static size_t row_of(int err)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].err == -err)
			return i;
	log_limited(LOG_LVL_WARNING, "error %d has no protocol status", -err);
	return ARRAY_SIZE(table);
}

uint32_t errors_nfs3(int err)
{
	size_t i;

	if (!err)
		return NFS3_OK;
	i = row_of(err);
	return i < ARRAY_SIZE(table) ? table[i].nfs3 : NFS3ERR_SERVERFAULT;
}

uint32_t errors_mount3(int err)
{
	size_t i;

	if (!err)
		return MOUNT3_OK;
	i = row_of(err);
	return i < ARRAY_SIZE(table) ? table[i].mount3 : MOUNT3ERR_SERVERFAULT;
}

bool errors_is_transient(int err)
{
	return err == -ENOMEM || err == -EAGAIN || err == -SRV_ELATER;
}
