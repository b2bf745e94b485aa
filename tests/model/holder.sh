#!/bin/sh
# The model of how nodes hold the slots of a semaphore, where Spin is installed.
if ! command -v spin >/dev/null; then
	echo "1..0 # SKIP no spin"
	exit 0
fi
exec sh "$top_srcdir/tests/model/run_holder.sh" "$(cd "$top_srcdir" && pwd)/tests/model/holder.pml"
