#!/bin/sh
# A few schedules of how nodes lose their store and find it again.
exec sh "$top_srcdir/tests/model/run_ladder.sh" tests/model/ladder 60
