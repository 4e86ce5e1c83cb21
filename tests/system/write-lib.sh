# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # what lib.sh sets
#
# write-lib.sh - sourced after lib.sh by the suites in which byred writes: fresh volumes,
# nfs-model, and the look at a volume that byred has written. A volume goes to the
# kernel only when btrfs check has found nothing.
#
# BYRE_MODEL_OPTIONS  further options of nfs-model: to try the suites themselves with
# BYRE_MOUNT_OFFSET   another server, whose MOUNT port is so far from its NFS port

model=$(sys_need client-test/nfs-model)
manifest=$(sys_need client-test/manifest)
# Files of 5 GiB and more are nearly all hole: their two ends are enough.
hash_limit=$((64 << 20))
read -r -a model_options <<<"${BYRE_MODEL_OPTIONS:-}"

mount_port() { echo $((byred_port + ${BYRE_MOUNT_OFFSET:-0})); }

# fresh_volume IMAGE SIZE [MKFS-OPTION...]
fresh_volume() {
	local image=$1 size=$2
	shift 2
	rm -f "$image"
	truncate -s "$size" "$image"
	mkfs.btrfs -q "$@" "$image" >/dev/null 2>"$sys_tmp/mkfs.err" || sys_die "mkfs.btrfs $*: $(tail -n 1 "$sys_tmp/mkfs.err")"
}

# checked NAME IMAGE: ok when btrfs check finds nothing; returns whether it is so.
checked() {
	if btrfs check --readonly --check-data-csum "$2" >"$sys_tmp/check" 2>&1; then
		ok "$1"
	else
		not_ok "$1" "btrfs check: $(grep -avE '^(Opening|Checking|UUID|\[[0-9])' "$sys_tmp/check" | head -n 4 | tr '\n' '|')"
		keep_damaged "$2"
		return 1
	fi
}

# The volume of a failure is worth more than the space, if there is a place for it.
keep_damaged() {
	[ -n "${BYRE_KEEP:-}" ] || return 0
	mkdir -p "$BYRE_KEEP"
	cp --sparse=always "$1" "$BYRE_KEEP/$sys_prog.$BASHPID.img"
	sys_say "kept: $BYRE_KEEP/$sys_prog.$BASHPID.img"
}

# What byred complains of, in one line, if anything.
byred_said() { grep -aE ': (error|warning): |ERROR: ' "$byred_err" | head -n 3 | tr '\n' '|' | sed 's/^./; byred: &/'; }

# run_model NAME EXPORT OPTION...: ok when nfs-model says so; returns whether it does.
run_model() {
	local name=$1 export=$2
	shift 2
	if "$model" --port "$byred_port" --mount-port "$(mount_port)" --hash-limit $hash_limit "${model_options[@]}" "$@" \
		"$byred_host" "$export" >"$sys_tmp/model.out" 2>"$sys_tmp/model.err"; then
		ok "$name ($(tail -n 1 "$sys_tmp/model.out"))"
	else
		not_ok "$name" "$(head -n 3 "$sys_tmp/model.err" | cut -c1-300 | tr '\n' '|') $(tail -n 1 "$sys_tmp/model.out")$(byred_said)"
		return 1
	fi
}

# same_manifest NAME EXPECTED GOT
same_manifest() {
	local lines
	lines=$(wc -l <"$2")
	if [ "$lines" -lt 3 ]; then
		not_ok "$1" "only $lines lines to compare"
	elif cmp -s "$2" "$3"; then
		ok "$1 ($lines paths)"
	else
		not_ok "$1" "$(diff "$2" "$3" | grep -ac '^[<>]' || :) lines differ ('<' what byred said): $(diff "$2" "$3" |
			grep -a '^[<>]' | head -n 4 | cut -c1-200 | tr '\t\n' ' |' || :)"
		return 1
	fi
}

# kernel_same NAME DIR MANIFEST: what a kernel mount has.
kernel_same() {
	if "$manifest" --hash-limit $hash_limit "$2" >"$sys_tmp/kernel.manifest" 2>"$sys_tmp/manifest.err"; then
		same_manifest "$1" "$3" "$sys_tmp/kernel.manifest"
	else
		not_ok "$1" "manifest: $(head -n 2 "$sys_tmp/manifest.err" | tr '\n' '|')"
		return 1
	fi
}

# mount_rw IMAGE DIR, unmount_rw DIR: only what has been checked.
mount_rw() {
	attach "$1"
	mounted "$loop" "$2" noatime,subvolid=5
}
unmount_rw() { unmount_ro "$1"; }

# byred_dies: SIGKILL; its connections and memory are gone.
byred_dies() {
	kill -KILL "$byred_pid"
	wait "$byred_pid" 2>/dev/null || :
	byred_pid=
	exec {byred_out}<&-
}

# until_line N FILE PID: FILE has so many lines, or the process has ended.
until_line() { (set +o pipefail; tail --pid="$3" -s 0.02 -c +1 -f "$2" 2>/dev/null | head -n "$1" >/dev/null); }
