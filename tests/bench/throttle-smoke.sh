#!/bin/sh
# The bench runs through, and a caller's memory is what was promised.
out=$("$top_builddir/tests/bench/throttle" --smoke) || { echo "1..1"; echo "not ok 1 - bench"; exit 1; }
echo "1..2"
echo "$out" | sed 's/^/# /'
echo "ok 1 - the bench runs"
echo "$out" | grep '^memory for a caller' | grep -o '[0-9]* bytes\|, [0-9]* (' | tr -dc '0-9\n' |
	awk '$1 > 128 { bad = 1 } END { exit bad || NR != 3 }' && echo "ok 2 - at most 128 bytes a caller" ||
	echo "not ok 2 - at most 128 bytes a caller"
