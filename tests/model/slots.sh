#!/bin/sh
# The model of how two nodes use two slots, the smallest of it, where Spin is installed.
if ! command -v spin >/dev/null; then
	echo "1..0 # SKIP no spin"
	exit 0
fi
how=quick
[ "${SLUICE_CHECK:-}" != long ] || how=
exec sh "$top_srcdir/tests/model/run_slots.sh" "$(cd "$top_srcdir" && pwd)/tests/model/slots.pml" $how
