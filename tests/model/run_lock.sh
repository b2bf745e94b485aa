#!/bin/sh
# The model of a named lock, exhaustively: the store's function as it is must hold, each broken variant must
# be found.
#   run_lock.sh MODEL [quick]
set -u
model=$1 quick=${2-}
. "$(dirname "$0")/verify.sh"

depth=4000000
small="-DCALLS=1"
verify "lock: an id and a node" holds $small
for broken in ANY_BIRTH OLD_BIRTH RESET TWO_STEPS RELEASE; do
	verify "lock, broken: $broken" found $small -DBROKEN_$broken
done
if [ "$quick" != quick ]; then
	verify "lock, broken: NO_FENCE" found -DBROKEN_NO_FENCE
	verify "lock: an id and a node, each with two calls" holds -DTAKINGS=2
	verify "lock: two ids and a node" holds $small -DSESSIONS=3 -DTAKINGS=4
fi
echo "1..$n"
exit $failed
