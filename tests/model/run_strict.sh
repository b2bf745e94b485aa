#!/bin/sh
# What nodes admit while they lose their store and find it again: no schedule may break what store_down = strict promises,
# and without a part of the rule one must.
#   run_strict.sh PROGRAM SCHEDULES
set -u
program=$1 schedules=$2
. "$(dirname "$0")/run_schedules.sh"

check "strict: random losses of the store" 0
check "strict, broken: shares are used a window after the loss" 1 --without wait
check "strict, broken: lost nodes' shares stay in the quota" 1 --without quota
check "strict, broken: debts are not paid" 1 --without debts
check "strict, broken: a call that comes late makes a node live" 1 --without echo
check "strict, broken: the list of nodes is lost without notice" 1 --without memory
check "strict, broken: an empty store is trusted" 1 --without young
echo "1..$n"
exit $failed
