# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# deps.sh - sourced by quickstart and runtests: the Debian 12 packages that byre
# needs, and how the missing ones are installed. It is the one list of them.

# To build byred and byrectl from a git checkout, and to make a volume.
# shellcheck disable=SC2034 # used by who sources this
deps_build="
	gcc libc6-dev make autoconf automake pkg-config
	linux-libc-dev
	libevent-dev libtirpc-dev liburing-dev libssl-dev libconfig-dev libjansson-dev
	zlib1g-dev liblzo2-dev libzstd-dev libxxhash-dev libisal-dev libsodium-dev
	btrfs-progs mount"

# A client in user space: quickstart --selftest reads through it.
# shellcheck disable=SC2034
deps_client="libnfs-dev"

# For runtests: unit tests, sanitizers and fuzzers (clang), checks of the sources,
# what the scripts in tests/ and client-test/ call, and the guest with a real client.
# shellcheck disable=SC2034
deps_test="
	libcmocka-dev
	clang-14 libclang-rt-14-dev llvm-14
	clang-format-14 clang-tidy-14 cppcheck shellcheck mandoc git
	python3 attr acl iproute2 procps util-linux xz-utils rpcbind
	busybox-static cpio dash nfs-common"

deps_say() { echo "${0##*/}: $*" >&2; }

# deps_missing PACKAGE...: those that are not installed.
deps_missing() {
	local p
	for p in "$@"; do
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
	done
}

# deps_install PACKAGE...: installs the missing ones; does nothing, and needs neither
# root nor a network, when all are there.
deps_install() {
	local missing
	command -v dpkg-query >/dev/null || {
		deps_say "this is not Debian: install the equivalents of:" "$@"
		return 0
	}
	missing=$(deps_missing "$@")
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2086 # a list
	set -- $missing
	[ "$(id -u)" = 0 ] || {
		deps_say "missing packages, and only root can install them: apt-get install $*"
		return 1
	}
	deps_say "installing $*"
	if ! apt-get -qq update >&2 ||
		! DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >&2 </dev/null; then
		deps_say "apt-get could not install: $*"
		return 1
	fi
}
