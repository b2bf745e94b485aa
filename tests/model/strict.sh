#!/bin/sh
# A few schedules of what nodes admit with store_down = strict.
exec sh "$top_srcdir/tests/model/run_strict.sh" tests/model/strict 40
