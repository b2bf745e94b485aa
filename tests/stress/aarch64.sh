#!/bin/sh
# The library's threads on another processor: compiled for aarch64 and run by qemu-user, where both are installed. TAP.
#   aarch64.sh [CHANGES [KILLS]]
compiler=${AARCH64_CC:-aarch64-linux-gnu-gcc} top=${top_srcdir:-.}
for program in "$compiler" qemu-aarch64; do
	if ! command -v "$program" >/dev/null; then
		echo "1..0 # SKIP no $program"
		exit 0
	fi
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
echo 1..2

# check NUMBER PROGRAM ARGUMENTS...
check() {
	number=$1 program=$2
	shift 2
	if "$compiler" -std=gnu11 -O2 -w -static -D_GNU_SOURCE -I"$top" -o "$work/$program" "$top"/throttle/*.c \
		"$top/tests/stress/$program.c" -lpthread >"$work/log" 2>&1 &&
		TMPDIR=$work qemu-aarch64 "$work/$program" "$@" >>"$work/log" 2>&1; then
		echo "ok $number - $program on aarch64: $(sed -n 's/^# \([0-9].*\)/\1/p' "$work/log" | tail -1)"
	else
		sed 's/^/# /' "$work/log"
		echo "not ok $number - $program on aarch64"
		failed=1
	fi
}

check 1 throttle_moves "${1:-20}" 3
check 2 throttle_crash "${2:-4}"
exit $failed
