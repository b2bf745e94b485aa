#!/bin/sh
# tap-program.sh PROGRAM [ARGUMENT...]: runs a test program and exits as it does. What it skips is
# written as TAP has it: cmocka before 1.1.6 writes "not ok 1 # SKIP name", which is a failure.
exec 4>&1
status=$({
	{
		"$@" 3>&- 4>&-
		echo $? >&3
	} | sed 's/^not ok \([0-9]* # SKIP\)/ok \1/' >&4
} 3>&1)
exit "$status"
