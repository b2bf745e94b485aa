#!/bin/sh
# tap-program.sh PROGRAM [ARGUMENT...]: runs a test program and exits as it does. What it skips is
# written as TAP has it: cmocka before 1.1.6 writes "not ok 1 # SKIP name", which is a failure.
#
# Many are started at a time for the sake of those that wait; these compute, so two for each processor take turns.
turns=${top_builddir:-.}/tests/turns
if command -v flock >/dev/null && mkdir -p "$turns"; then
	exec 8>"$turns/queue"
	flock 8
	turn=0 most=$((2 * $(getconf _NPROCESSORS_ONLN)))
	until exec 9>"$turns/$turn" && flock -n 9; do
		turn=$(((turn + 1) % most))
		[ $turn -gt 0 ] || sleep 0.05
	done
	exec 8>&-
fi
began=$(date +%s)
exec 4>&1
status=$({
	{
		"$@" 3>&- 4>&- 9>&-
		echo $? >&3
	} | sed 's/^not ok \([0-9]* # SKIP\)/ok \1/' >&4
} 3>&1)
for word; do
	case $word in -*) ;; *) name=$word ;; esac
done
echo "# took $(($(date +%s) - began)).0 s: $name"
exit "$status"
