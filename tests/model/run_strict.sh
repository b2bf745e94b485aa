#!/bin/sh
# What nodes admit while they lose their store and find it again: no schedule may break what store_down = strict promises,
# and without a part of the rule one must.
#   run_strict.sh PROGRAM SCHEDULES
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

check "strict: random losses of the store" 0
check "strict, broken: shares are used a window after the loss" 1 --without wait
check "strict, broken: lost nodes' shares stay in the quota" 1 --without quota
check "strict, broken: debts are not paid" 1 --without debts
check "strict, broken: a call that comes late makes a node live" 1 --without echo
check "strict, broken: the list of nodes is lost without notice" 1 --without memory
echo "1..$n"
exit $failed
