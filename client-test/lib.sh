# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# lib.sh - sourced by the scripts of this folder: a private place to run servers
# in, and how to start and stop each of them.
#
# lab_enter re-runs the calling script in network, mount and PID namespaces of its
# own. So ports clash with nobody, all mounts and loop devices go away with the
# namespace, and no process can outlive it, however the script ends.

lab_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab_prog=${0##*/}
PATH=$PATH:/usr/sbin:/sbin

lab_die() { echo "$lab_prog: $*" >&2; exit 1; }
lab_say() { echo "$lab_prog: $*" >&2; }

# lab_need PROGRAM PACKAGE ...: all of them, or one line that says what to install.
lab_need() {
	local missing=
	while [ $# -gt 1 ]; do
		command -v "$1" >/dev/null || missing+=" $2"
		shift 2
	done
	[ -z "$missing" ] || lab_die "missing packages: apt-get install$missing"
}

# lab_tool NAME: the path of a C program of this folder, from the build tree or here.
lab_tool() {
	local d
	for d in "${BYRE_BUILD:-}/client-test" "$lab_here" "$lab_here/../build/client-test" .; do
		if [ -x "$d/$1" ] && [ ! -d "$d/$1" ]; then
			realpath "$d/$1"
			return 0
		fi
	done
	lab_die "$1 is not built (make check_PROGRAMS, or set BYRE_BUILD to the build folder)"
}

# lab_enter SCRIPT ARG...: call it first of all. Returns only inside the namespaces,
# with $lab_tmp a folder on a real disk that is removed when the script has ended.
lab_enter() {
	local rc=0
	if [ -z "${LAB_INSIDE:-}" ]; then
		[ "$(id -u)" = 0 ] || lab_die "needs root (loop mounts, namespaces)"
		lab_need unshare util-linux ip iproute2 mkfs.btrfs btrfs-progs
		lab_tmp=$(mktemp -d "${LAB_TMPDIR:-/var/tmp}/byre-lab.XXXXXX")
		LAB_INSIDE=$lab_tmp unshare -n -m -p -f --kill-child --mount-proc "$@" &
		lab_child=$!
		# Killing unshare ends the namespace's init, and so everything in it.
		# shellcheck disable=SC2064
		trap "kill -KILL $lab_child 2>/dev/null || :; wait $lab_child 2>/dev/null || :; rm -rf '$lab_tmp'; exit 143" INT TERM HUP
		wait $lab_child || rc=$?
		rm -rf "$lab_tmp"
		exit $rc
	fi
	lab_tmp=$LAB_INSIDE
	ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)" # servers with 10,000 connections
	ip link set lo up
	# glibc's AI_ADDRCONFIG takes no notice of loopback addresses, and so Ganesha's
	# Bind_addr would not resolve: give the namespace one more address.
	ip link add lab0 type bridge
	ip addr add 192.0.2.1/32 dev lab0
	mount -t tmpfs run /run
	mkdir -p /run/rpcbind
	trap lab_leave EXIT
	trap 'exit 143' INT TERM HUP
}

lab_mounts=()
lab_leave() {
	local rc=$? m
	trap '' INT TERM HUP
	lab_stop_all
	for ((m = ${#lab_mounts[@]} - 1; m >= 0; m--)); do
		umount "${lab_mounts[m]}" 2>/dev/null || umount -l "${lab_mounts[m]}" 2>/dev/null || :
	done
	exit $rc
}

# lab_mount IMAGE DIR [OPTIONS]: a loop mount by this kernel.
lab_mount() {
	mkdir -p "$2"
	mount -t btrfs -o "loop,noatime${3:+,$3}" "$1" "$2" || return 1
	lab_mounts+=("$2")
}

lab_umount() {
	local m kept=()
	umount "$1" || return 1
	for m in "${lab_mounts[@]}"; do [ "$m" = "$1" ] || kept+=("$m"); done
	lab_mounts=(${kept[@]+"${kept[@]}"})
}

# lab_wait_log PID FILE PATTERN SECONDS: until FILE has a line with PATTERN; fails
# when the process ends first. FILE is there before the process is started, for it opens it when it runs.
lab_wait_log() {
	# grep stops at the first match, and tail, of a closed pipe: no failure.
	(set +o pipefail; timeout "$4" tail --pid="$1" -c +1 -s 0.05 -f "$2" 2>/dev/null | grep -q -m1 -- "$3")
}

declare -A lab_pid
# lab_stop NAME: SIGTERM, then wait. A server that was dead already is reported.
lab_stop() {
	local pid=${lab_pid[$1]:-} rc=0
	[ -n "$pid" ] || return 0
	unset "lab_pid[$1]"
	kill -0 "$pid" 2>/dev/null || lab_say "SERVER DIED: $1 (log: $(tail -3 "$lab_tmp/$1.log" | tr '\n' ' '))"
	kill -TERM "$pid" 2>/dev/null || :
	timeout 20 tail --pid="$pid" -f /dev/null || { lab_say "$1 did not stop in 20 s"; kill -KILL "$pid"; }
	wait "$pid" 2>/dev/null || rc=$?
	return $rc
}
lab_stop_all() {
	local name
	for name in "${!lab_pid[@]}"; do lab_stop "$name" || :; done
}
# lab_alive NAME
lab_alive() { [ -n "${lab_pid[$1]:-}" ] && kill -0 "${lab_pid[$1]}" 2>/dev/null; }

# Starts rpcbind, if it doesn't run, and waits until it answers.
lab_rpcbind() {
	local n
	lab_need rpcbind rpcbind
	if lab_alive rpcbind; then return; fi
	rpcbind -f -w >"$lab_tmp/rpcbind.log" 2>&1 </dev/null &
	lab_pid[rpcbind]=$!
	for n in $(seq 200); do # it says nothing when it is ready
		! rpcinfo -p 127.0.0.1 >/dev/null 2>&1 || return 0
		sleep 0.02
	done
	lab_die "rpcbind did not start ($n tries)"
}

# lab_ganesha ADDR PORT ro|rw DIR...: nfs-ganesha on PORT, MOUNT on PORT-1, each DIR an
# export under its own path (NFSv3 path and v4 pseudo path alike). No root squash,
# unless DIR ends in ":root_squash".
lab_ganesha() {
	local addr=$1 port=$2 access=$3 id=0 dir squash pseudo conf=$lab_tmp/ganesha.conf
	shift 3
	lab_need ganesha.nfsd "nfs-ganesha nfs-ganesha-vfs"
	lab_rpcbind
	mkdir -p "$lab_tmp/recov"
	{
		cat <<-EOF
		NFS_CORE_PARAM {
			Bind_addr = $addr; NFS_Port = $port; MNT_Port = $((port - 1));
			NLM_Port = $((port - 2)); Rquota_Port = $((port - 3));
			Protocols = 3, 4; Enable_UDP = false; Enable_RQUOTA = false;
			mount_path_pseudo = false; RPC_Max_Connections = 10000;
		}
		NFSv4 {
			Graceless = true; Grace_Period = 5; Lease_Lifetime = 10;
			Minor_Versions = 0, 1, 2; RecoveryRoot = $lab_tmp/recov;
			Only_Numeric_Owners = true;
		}
		LOG { Default_Log_Level = EVENT; }
		EOF
		for dir in "$@"; do
			id=$((id + 1)) squash=No_Root_Squash pseudo=${dir%:root_squash}
			[ "$pseudo" = "$dir" ] || squash=Root_Squash
			cat <<-EOF
			EXPORT {
				Export_Id = $id; Path = $pseudo; Pseudo = /export$id;
				Access_Type = ${access^^}; Squash = $squash; SecType = sys;
				Protocols = 3, 4; Transports = TCP; PrivilegedPort = false;
				Anonymous_uid = 65534; Anonymous_gid = 65534;
				FSAL { Name = VFS; }
			}
			EOF
		done
	} >"$conf"
	# On a busy machine it has been seen to give up on registering with rpcbind.
	for id in 1 2 3; do
		: >"$lab_tmp/ganesha.log"
		ganesha.nfsd -F -f "$conf" -L STDERR -p /run/ganesha.pid >"$lab_tmp/ganesha.log" 2>&1 </dev/null &
		lab_pid[ganesha]=$!
		! lab_wait_log "${lab_pid[ganesha]}" "$lab_tmp/ganesha.log" 'NFS SERVER INITIALIZED' 30 || return 0
		lab_say "nfs-ganesha did not start ($id): $(grep -E 'FATAL|CRIT|Cannot' "$lab_tmp/ganesha.log" | tail -3)"
		lab_stop ganesha || :
	done
	lab_die "nfs-ganesha does not start"
}

# lab_byred BYRED ADDR PORT VOLUME ARG...: byred with further arguments, such as --export.
lab_byred() {
	local byred=$1 addr=$2 port=$3 volume=$4
	shift 4
	[ -x "$byred" ] || lab_die "no byred at $byred: build it, or give --byred PATH"
	: >"$lab_tmp/byred.out"
	"$byred" --foreground --volume "$volume" --listen "$addr:$port" --socket "$lab_tmp/byred.sock" "$@" \
		>"$lab_tmp/byred.out" 2>"$lab_tmp/byred.log" </dev/null &
	lab_pid[byred]=$!
	lab_wait_log "${lab_pid[byred]}" "$lab_tmp/byred.out" '^ready nfs=' 60 ||
		lab_die "byred did not say it is ready: $(tail -3 "$lab_tmp/byred.log")"
}

# Where the build leaves byred.
lab_find_byred() {
	local d
	for d in "${BYRE_BUILD:-}" "$lab_here/.." "$lab_here/../build" "$lab_here/../server"; do
		[ ! -x "$d/byred" ] || { realpath "$d/byred"; return 0; }
	done
	echo "$lab_here/../byred"
}
