#!/bin/sh
# The model of how nodes own a client's session, exhaustively: the protocol as it is must hold, each broken
# variant must be found.
#   run_owner.sh MODEL [quick]
set -u
model=$1 quick=${2-}
. "$(dirname "$0")/verify.sh"

depth=4000000
owned="-DOWNED -DRENEWALS=0"
optimize=-O0
verify "owners: 2 nodes, cut connections" holds $owned -DDEATHS=0
for broken in NO_LOOK LATE_LEASE RESEND MOVES FLUSH; do
	verify "owners, broken: $broken" found $owned -DBROKEN_$broken
done
if [ "$quick" != quick ]; then
	optimize=-O2
	for broken in NO_MARK NO_FENCE WAITS; do
		verify "owners, broken: $broken" found $owned -DBROKEN_$broken
	done
	verify "owners, broken: NO_CHECK" found $owned -DGAP -DBROKEN_NO_CHECK
	verify "owners: a node that stands still before the network, and a server that looks at fences" holds $owned -DGAP
	verify "owners: 2 nodes, cuts, a death, a renewal, nobody owns it at first" holds
	verify "owners: 2 nodes, 3 requests" holds $owned -DDEATHS=0 -DCUTS=0 -DREQUESTS=3
	verify "owners: 3 nodes, a death" holds $owned -DCUTS=0 -DNODES=3
fi
echo "1..$n"
exit $failed
