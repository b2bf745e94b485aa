#!/bin/sh
# What nodes admit while they lose their store and find it again: no schedule may break what store_down = local promises,
# and without a part of the rule one must.
#   run_ladder.sh PROGRAM SCHEDULES
set -u
program=$1 schedules=$2
. "$(dirname "$0")/run_schedules.sh"

check "ladder: random losses of the store" 0
check "ladder, broken: no time of a return" 1 --without returning
check "ladder, broken: debts are not paid" 1 --without debts
check "ladder, broken: a share counts itself only" 1 --without own
echo "1..$n"
exit $failed
