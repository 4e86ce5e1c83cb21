# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# own-mounts.sh - sourced first of all by scripts that mount volumes: runs the script again in
# a mount namespace of its own. Else another script's `unshare -m` takes a copy of our mounts along,
# and a volume stays mounted, and its loop device attached, after we have unmounted it. For the
# same reason this lets go of what others have mounted from loop devices meanwhile.
if [ "$(id -u)" = 0 ] && [ -z "${BYRE_OWN_MOUNTS:-}" ]; then
	BYRE_OWN_MOUNTS=y exec unshare -m --propagation private "$0" "$@"
fi
if [ "${BYRE_OWN_MOUNTS:-}" = y ]; then
	# In this namespace only. Not what we stand on: that is busy, or holds our images.
	while read -r own_source own_target own_type _; do
		if [[ $own_source != /dev/loop* || $own_type != btrfs ]]; then continue; fi
		if [[ ${TMPDIR:-/var/tmp}/ == "$own_target"/* || $PWD/ == "$own_target"/* ]]; then continue; fi
		umount "$own_target" 2>/dev/null || :
	done </proc/self/mounts
	export BYRE_OWN_MOUNTS=inside
fi
