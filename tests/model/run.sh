#!/bin/sh
# The ring's model, exhaustively: the protocol as it is must hold, each broken variant must be found.
#   run.sh MODEL [quick]
set -u
model=$1 quick=${2-}
. "$(dirname "$0")/verify.sh"

if [ "$quick" = quick ]; then
	echo "1..4"
	verify "2 threads, 1 slot" holds -DTHREADS=2 -DSLOTS=1 -DQUICK
	verify "broken: lost update" found -DTHREADS=2 -DSLOTS=1 -DBROKEN_LOST_UPDATE
	verify "broken: no help" found -DTHREADS=2 -DSLOTS=1 -DBROKEN_NO_HELP
	verify "broken: quick, last slot unwritten" found -DTHREADS=2 -DSLOTS=1 -DQUICK \
		-DBROKEN_QUICK_UNWRITTEN
	exit $failed
fi
for slots in 1 2 3; do
	verify "2 threads, $slots slots" holds -DTHREADS=2 -DSLOTS=$slots
	verify "2 threads, $slots slots, refunds" holds -DTHREADS=2 -DSLOTS=$slots -DREFUNDS -DLAST=4
	verify "3 threads, $slots slots" holds -DTHREADS=3 -DSLOTS=$slots -DTAKES=1 -DLAST=4
	verify "2 threads, $slots slots, quick" holds -DTHREADS=2 -DSLOTS=$slots -DQUICK
	verify "2 threads, $slots slots, quick, refunds" holds -DTHREADS=2 -DSLOTS=$slots -DQUICK \
		-DREFUNDS -DLAST=4
	verify "3 threads, $slots slots, quick" holds -DTHREADS=3 -DSLOTS=$slots -DQUICK -DTAKES=1 -DLAST=4
done
long="-DTHREADS=2 -DSLOTS=1 -DTAKES=3 -DLAST=6"
verify "broken: lost update" found -DTHREADS=2 -DSLOTS=1 -DBROKEN_LOST_UPDATE
verify "broken: no help" found -DTHREADS=2 -DSLOTS=1 -DBROKEN_NO_HELP
verify "broken: blind write" found $long -DBROKEN_BLIND_WRITE
verify "broken: late writer" found $long -DBROKEN_SLOT_FIRST_OLD
verify "broken: quick, blind write" found $long -DQUICK -DBROKEN_QUICK_BLIND
verify "broken: quick, late look at the slot" found $long -DQUICK -DBROKEN_QUICK_LATE
verify "broken: quick, last slot unwritten" found $long -DQUICK -DBROKEN_QUICK_UNWRITTEN
echo "1..$n"
exit $failed
