#!/bin/sh
# What nodes admit while they lose their store and find it again: no schedule may break what store_down = local promises,
# and without a part of the rule one must.
#   run_ladder.sh PROGRAM SCHEDULES
set -u
program=$1 schedules=$2 n=0 failed=0

# check NAME WANTED [ARGUMENT...]: the program's exit status; 1: some schedule broke the promise
check() {
	name=$1 wanted=$2
	shift 2
	"$program" --schedules "$schedules" "$@"
	found=$?
	n=$((n + 1))
	if [ "$found" = "$wanted" ]; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name: exit status $found, expected $wanted"
		failed=1
	fi
}

check "ladder: random losses of the store" 0
check "ladder, broken: no time of a return" 1 --without returning
check "ladder, broken: debts are not paid" 1 --without debts
check "ladder, broken: a share counts itself only" 1 --without own
echo "1..$n"
exit $failed
