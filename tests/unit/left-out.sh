#!/bin/sh
# Runs in place of the unit tests where configure did not find cmocka, so that a run without them says so. TAP.
echo '1..0 # SKIP cmocka was not found by configure: all unit tests are left out'
