#!/bin/sh
# The smaller of the model of a named lock, where Spin is installed.
if ! command -v spin >/dev/null; then
	echo "1..0 # SKIP no spin"
	exit 0
fi
how=quick
[ "${SLUICE_CHECK:-}" != long ] || how=
exec sh "$top_srcdir/tests/model/run_lock.sh" "$(cd "$top_srcdir" && pwd)/tests/model/lock.pml" $how
