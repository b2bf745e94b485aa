#!/bin/sh
# The model of how two nodes use two slots, exhaustively: the protocol as it is must hold, each broken variant
# must be found.
#   run_slots.sh MODEL [quick]
set -u
model=$1 quick=${2-}
. "$(dirname "$0")/verify.sh"

depth=4000000
verify "slots: 2 nodes with a request each, 2 slots" holds -DREQUESTS=1
[ "$quick" = quick ] || verify "slots: 2 nodes with 2 requests each, 2 slots" holds
optimize=-O0
verify "slots, broken: given back before the bound is lowered" found -DBROKEN_GIVE_FIRST
verify "slots, broken: what is in flight keeps none" found -DBROKEN_NO_USE
verify "slots, broken: what an earlier connection sent does not count" found -DBROKEN_FORGETS
verify "slots, broken: sent without a look at the lease" found -DBROKEN_NO_LOOK
verify "slots, broken: placed by one connection, sent by the next" found -DBROKEN_NO_SINCE
verify "slots, broken: the lowest is removed first" found -DBROKEN_LOW_FIRST
echo "1..$n"
exit $failed
