#!/bin/sh
# A few schedules of what nodes admit with store_down = strict.
schedules=40
[ "${SLUICE_CHECK:-}" != long ] || schedules=3000
exec sh "$top_srcdir/tests/model/run_strict.sh" tests/model/strict $schedules
