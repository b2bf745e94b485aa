# Sourced by the tests of models that replay random schedules: one run of $program is one point.
n=0 failed=0

# check NAME WANTED [ARGUMENT...]: the program's exit status; 1: some schedule broke the promise
check() {
	name=$1 wanted=$2
	shift 2
	"$program" --schedules "$schedules" "$@"
	found=$?
	n=$((n + 1))
	if [ "$found" = "$wanted" ]; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name: exit status $found, expected $wanted"
		failed=1
	fi
}
