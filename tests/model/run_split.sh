#!/bin/sh
# The model of how nodes divide a limit, exhaustively: the protocol as it is must hold, each broken
# variant must be found.
#   run_split.sh MODEL [quick]
set -u
model=$1 quick=${2-}
. "$(dirname "$0")/verify.sh"

short="-DWINDOW=1 -DLEASE=1"
verify "split: 2 nodes, 2 units" holds $short
verify "split: 1 unit, a store that forgets" holds $short -DQUOTA=1 -DFORGETS
verify "split, broken: an empty store is trusted" found $short -DQUOTA=1 -DFORGETS -DBROKEN_TRUSTED
verify "split, broken: no window" found $short -DBROKEN_NO_WINDOW
verify "split, broken: a lease from the answer" found $short -DBROKEN_LATE_LEASE
verify "split, broken: a part whatever others have" found $short -DBROKEN_ALL_PARTS
if [ "$quick" != quick ]; then
	depth=8000000
	verify "split: 2 nodes, 1 unit, the store judges" holds -DQUOTA=1
	verify "split: 2 nodes, 2 units, a store that forgets" holds $short -DFORGETS
	verify "split, broken: an ended lease counts no more" found -DBROKEN_NO_ENDING
	verify "split, broken: old calls are heard" found -DBROKEN_OLD_CALLS
	verify "split, broken: only what was told counts" found -DBROKEN_TOLD_ONLY
	verify "split, broken: the store judges at once" found -DQUOTA=1 -DBROKEN_JUDGED
fi
echo "1..$n"
exit $failed
