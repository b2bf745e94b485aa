#!/bin/sh
# A few schedules of how nodes lose their store and find it again.
schedules=60
[ "${SLUICE_CHECK:-}" != long ] || schedules=3000
exec sh "$top_srcdir/tests/model/run_ladder.sh" tests/model/ladder $schedules
