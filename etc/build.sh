# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# build.sh - sourced by quickstart and runtests: builds of a checkout, each in a
# folder of its own, so that none disturbs another or the sources.

# build_prepare TOP: makes configure, where it is missing or older than its sources.
# Sets $build_source to the sources to build from.
build_prepare() {
	local top=$1 newer
	# Automake builds outside the sources only while these are not configured in place.
	build_source=$top
	if [ -e "$top/config.status" ]; then
		[ -e "$top/.git" ] || {
			echo "${0##*/}: the sources are configured in place: make distclean first" >&2
			return 1
		}
		build_source=$top/build/source
		mkdir -p "$build_source"
		(cd "$top" && git ls-files -co --exclude-standard | while read -r f; do [ ! -f "$f" ] || echo "$f"; done |
			tar -cf - -T -) | tar -xf - -C "$build_source" || return 1
	fi
	newer=$build_source
	[ ! -e "$build_source/configure" ] || [ ! -e "$build_source/Makefile.in" ] ||
		newer=$(cd "$build_source" && find . -path './build*' -prune -o \( -name configure.ac -o -name Makefile.am \
			-o -name Makefile.inc \) \( -newer configure -o -newer Makefile.in \) -print)
	[ -z "$newer" ] || (cd "$build_source" && autoreconf -fi) || return 1
}

# build_in DIR TARGET... [-- CONFIGURE-ARGUMENT...]: configures DIR, unless that was done
# with the same arguments, and makes the targets.
build_in() {
	local dir=$1 targets=()
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		targets+=("$1")
		shift
	done
	[ $# = 0 ] || shift
	mkdir -p "$dir"
	if [ ! -e "$dir/config.status" ] || [ "$(cat "$dir/configure.args" 2>/dev/null)" != "$build_source $*" ]; then
		(cd "$dir" && "$build_source/configure" -q "$@") || return 1
		echo "$build_source $*" >"$dir/configure.args"
	fi
	make -C "$dir" --no-print-directory -j "${BUILD_JOBS:-$(nproc)}" "${targets[@]}"
}
