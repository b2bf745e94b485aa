#!/bin/sh
# The model of how nodes hold slots, exhaustively: the protocol as it is must hold, each broken variant
# must be found.
#   run_holder.sh MODEL
set -u
model=$1
. "$(dirname "$0")/verify.sh"

verify "holders: 2 nodes, 1 slot" holds
verify "holders, broken: no lease" found -DBROKEN_NO_LEASE
verify "holders, broken: a lease from the answer" found -DBROKEN_LATE_LEASE
verify "holders, broken: a slot counts unconfirmed" found -DBROKEN_NO_CONFIRM
verify "holders, broken: given back in use" found -DBROKEN_GIVE_EARLY
verify "holders, broken: held over a lost connection" found -DBROKEN_KEEPS
echo "1..$n"
exit $failed
