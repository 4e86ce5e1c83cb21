# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# lib.sh - sourced by the scripts of this folder, which run the built byred against
# volumes that the kernel made. A script begins with sys_begin and ends with sys_end;
# what it finds it says with ok, not_ok and skip, one line each.
#
# BYRE_BUILD    the build tree (default: the top of the source tree, or build/ in it)
# BYRED         the byred to test (default: the build tree's)
# BYRE_VOLUMES  a folder for the volumes of ../volumes/make-volumes, kept for the next
#               script (default: made and removed by each script)
# TMPDIR        where images go; must be on a disk (default: /var/tmp)

sys_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sys_top=$(cd "$sys_here/../.." && pwd)
sys_prog=${0##*/}
# shellcheck source-path=SCRIPTDIR source=../volumes/own-mounts.sh
. "$sys_top/tests/volumes/own-mounts.sh"
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

sys_die() { echo "$sys_prog: $*" >&2; exit 1; }
sys_say() { echo "# $*"; }

# ---- counting --------------------------------------------------------------------

sys_passed=0 sys_failed=0 sys_skipped=0
ok() { sys_passed=$((sys_passed + 1)); echo "ok $1"; }
not_ok() { sys_failed=$((sys_failed + 1)); echo "not ok $1: ${2:-}"; }
skip() { sys_skipped=$((sys_skipped + 1)); echo "skipped $1: $2"; }

sys_end() {
	echo "$sys_passed passed, $sys_failed failed, $sys_skipped skipped"
	sys_ended=y
	[ $((sys_passed + sys_failed)) -gt 0 ] && [ $sys_failed = 0 ]
	exit
}

# ---- what must go away again -------------------------------------------------------

sys_mounts=() sys_loops=() sys_ended=
sys_begin() {
	[ "$(id -u)" = 0 ] || sys_die "needs root (loop mounts)"
	sys_tmp=$(mktemp -d "${TMPDIR:-/var/tmp}/byre-$sys_prog.XXXXXX")
	trap sys_leave EXIT
	trap 'exit 143' INT TERM HUP
	BYRED=${BYRED:-$(sys_find byred)} || sys_die "byred is not built (make, or set BYRED or BYRE_BUILD)"
}

sys_leave() {
	local rc=$? n
	trap '' INT TERM HUP
	if [ -n "${byred_pid:-}" ]; then
		kill -KILL "$byred_pid" 2>/dev/null || :
		wait "$byred_pid" 2>/dev/null || :
	fi
	for ((n = ${#sys_mounts[@]} - 1; n >= 0; n--)); do umount "${sys_mounts[n]}" || umount -l "${sys_mounts[n]}" || :; done
	for ((n = ${#sys_loops[@]} - 1; n >= 0; n--)); do losetup -d "${sys_loops[n]}" || :; done
	rm -rf "$sys_tmp"
	if [ -z "$sys_ended" ]; then
		echo "$sys_prog: ended before its end" >&2
		[ "$rc" != 0 ] || rc=1
	fi
	exit "$rc"
}

# sys_find NAME...: the first that is there, in the build tree or the source tree.
sys_find() {
	local name dir
	for name in "$@"; do
		for dir in ${BYRE_BUILD:+"$BYRE_BUILD"} "$sys_top" "$sys_top/build"; do
			if [ ! -f "$dir/$name" ] || [ ! -x "$dir/$name" ]; then continue; fi
			realpath "$dir/$name"
			return 0
		done
	done
	return 1
}

# sys_need NAME...: like sys_find, and the end if there is none.
sys_need() { sys_find "$@" || sys_die "$1 is not built (make check_PROGRAMS, or set BYRE_BUILD)"; }

# ---- volumes ---------------------------------------------------------------------

# volumes NAME...: makes them; afterwards they are $sys_volumes/NAME.img. Nobody writes to these.
volumes() {
	sys_volumes=${BYRE_VOLUMES:-$sys_tmp/volumes}
	"$sys_top/tests/volumes/make-volumes" "$sys_volumes" "$@" >"$sys_tmp/make-volumes.log" 2>&1 ||
		{ cat "$sys_tmp/make-volumes.log" >&2; sys_die "make-volumes $* failed"; }
}

# copy_of IMAGE NAME: a private copy, in $sys_tmp; sets $copy.
copy_of() {
	copy=$sys_tmp/$2
	cp --sparse=always --reflink=auto "$1" "$copy"
}

# attach IMAGE [ro]: sets $loop.
attach() {
	loop=$(losetup --find --show ${2:+--read-only} "$1")
	sys_loops+=("$loop")
}

detach() { # LOOP
	local n file kept=()
	file=$(losetup -n -O BACK-FILE "$1")
	losetup -d "$1"
	# The kernel lets go of the device a moment after its last user; then another may have it at once.
	for ((n = 0; n < 400; n++)); do
		[ "$(losetup -n -O BACK-FILE "$1" 2>/dev/null)" = "$file" ] || break
		sleep 0.025
	done
	[ "$n" -lt 400 ] || sys_die "$1 stays attached"
	for n in "${sys_loops[@]}"; do [ "$n" = "$1" ] || kept+=("$n"); done
	sys_loops=(${kept[@]+"${kept[@]}"})
}

mounted() { # DEVICE DIR OPTIONS
	mkdir -p "$2"
	mount -t btrfs -o "$3" "$1" "$2"
	sys_mounts+=("$2")
}

unmounted() { # DIR
	local m kept=()
	umount "$1"
	for m in "${sys_mounts[@]}"; do [ "$m" = "$1" ] || kept+=("$m"); done
	sys_mounts=(${kept[@]+"${kept[@]}"})
}

# mount_ro IMAGE DIR: the top subvolume as of the last commit; nothing is written to the
# image. byred refuses a volume that the kernel has: mount a copy, or unmount_ro first.
mount_ro() {
	attach "$1" ro
	mounted "$loop" "$2" ro,noatime,subvolid=5,rescue=nologreplay
}

unmount_ro() { # DIR
	local device
	device=$(findmnt -n -o SOURCE "$1")
	unmounted "$1"
	detach "${device%%[*}"
}

# ---- manifests -------------------------------------------------------------------

# The stub of a subvolume that a snapshot does not contain (inode 2) is nowhere on disk. To the kernel
# its times are those of the moment when it was looked at, and all of them are one inode on a device of their own.
settled() {
	awk -F '\t' -v OFS='\t' '
	$3 == 2 && $4 == "d" { $2 = "-"; $11 = "-"; $12 = "-"; print; next }
	!($2 in ordinal) { ordinal[$2] = count++ }
	{ $2 = ordinal[$2] + 0; print }' "$1"
}

# ---- byred -----------------------------------------------------------------------

# start_byred VOLUME ARG...: returns when it serves, with $byred_pid, $byred_addr (HOST:PORT),
# $byred_host, $byred_port, $byred_socket, and its stderr in $byred_err. Or returns 1, with $byred_err and $byred_status.
start_byred() {
	local volume=$1 line=
	shift
	byred_err=$sys_tmp/byred.err byred_socket=$sys_tmp/byred.sock byred_addr=
	rm -f "$sys_tmp/byred.out" "$byred_socket"
	mkfifo "$sys_tmp/byred.out"
	"$BYRED" --volume "$volume" --listen "${byred_listen:-127.0.0.1:0}" --socket "$byred_socket" --foreground "$@" \
		>"$sys_tmp/byred.out" 2>"$byred_err" </dev/null &
	byred_pid=$!
	exec {byred_out}<"$sys_tmp/byred.out"
	# EOF if it ends first. The time is for sanitizer builds on a busy machine.
	read -r -t 60 -u "$byred_out" line || :
	# shellcheck disable=SC2034 # for the scripts
	case $line in
	"ready nfs="*:*) byred_addr=${line#ready nfs=} byred_host=${byred_addr%:*} byred_port=${byred_addr##*:} ;;
	*)
		kill -KILL "$byred_pid" 2>/dev/null || :
		byred_status=0
		wait "$byred_pid" 2>/dev/null || byred_status=$?
		byred_pid=
		exec {byred_out}<&-
		return 1
		;;
	esac
}

# stop_byred: SIGTERM; fails unless it then ends with 0 within 30 s. $byred_status has its status.
stop_byred() {
	local rc=0
	kill -TERM "$byred_pid" 2>/dev/null || :
	timeout 30 tail --pid="$byred_pid" -s 0.02 -f /dev/null || { rc=1; kill -KILL "$byred_pid" 2>/dev/null || :; }
	byred_status=0
	wait "$byred_pid" 2>/dev/null || byred_status=$?
	byred_pid=
	exec {byred_out}<&-
	[ $rc = 0 ] && [ "$byred_status" = 0 ]
}

# stopped NAME: ok if stop_byred succeeds.
stopped() {
	if stop_byred; then ok "$1"; else not_ok "$1" "$(byred_why)"; fi
}

# The reason for a failed start or stop, in one line.
byred_why() { echo "status ${byred_status:-?}, stderr: $(tail -n 3 "$byred_err" | tr '\n' ' ')"; }

# status_kib PID FIELD: VmHWM, VmRSS and the like.
status_kib() { awk -v field="$2:" '$1 == field {print $2}' "/proc/$1/status"; }
