#!/bin/sh
# The ring's model, exhaustively: the protocol as it is must hold, each broken variant must be found.
#   run.sh MODEL [quick]
set -u
model=$1 quick=${2-}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 n=0

# verify WHAT EXPECT FLAGS...: one run of Spin
verify() {
	what=$1 expect=$2
	shift 2
	n=$((n + 1))
	(cd "$work" && rm -f pan* && cp "$model" model.pml && spin -a "$@" model.pml >spin.log 2>&1 &&
		${CC:-cc} -O2 -w -DSAFETY -DCOLLAPSE -DNOFAIR -DVECTORSZ=2048 -o pan pan.c &&
		./pan -m1000000 -w22 >pan.log 2>&1) || { echo "not ok $n - $what: spin failed"; failed=1; return; }
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$work/pan.log")
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/pan.log")
	if grep -q 'max search depth too small\|out of memory\|aborting' "$work/pan.log"; then
		echo "not ok $n - $what: the search was not exhaustive"; failed=1
	elif [ "$expect" = holds ] && [ "$errors" = 0 ]; then
		echo "ok $n - $what: holds, $states states"
	elif [ "$expect" = found ] && [ "$errors" -gt 0 ]; then
		echo "ok $n - $what: found"
	else
		echo "not ok $n - $what: $errors errors"; failed=1
	fi
}

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
