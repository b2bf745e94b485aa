#!/bin/sh
# The bench runs through, and a caller's memory is what was promised.
out=$("$top_builddir/tests/bench/throttle" --smoke) || { echo "1..1"; echo "not ok 1 - bench"; exit 1; }
echo "1..2"
echo "$out" | sed 's/^/# /'
echo "ok 1 - the bench runs"
echo "$out" | awk '/^memory for a caller/ { for (i = 1; i <= NF; i++) { gsub(/[(),]/, "", $i) }
	exit !($5 <= 128 && $9 <= 128 && $11 <= 128) }' && echo "ok 2 - at most 128 bytes a caller" ||
	echo "not ok 2 - at most 128 bytes a caller"
