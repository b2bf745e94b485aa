# Sourced by what runs models: one run of Spin is one point.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 n=0

# verify WHAT EXPECT FLAGS...: searches all of $model, at most $depth deep; it holds, or an error is found.
# $optimize: of the compiler; where the search is short, -O0 ends earlier.
verify() {
	what=$1 expect=$2
	shift 2
	n=$((n + 1))
	(cd "$work" && rm -f pan* && cp "$model" model.pml && spin -a "$@" model.pml >spin.log 2>&1 &&
		${CC:-cc} ${optimize:--O2} -w -DSAFETY -DCOLLAPSE -DNOFAIR -DVECTORSZ=2048 -o pan pan.c &&
		./pan -m${depth:-1000000} -w22 >pan.log 2>&1) || { echo "not ok $n - $what: spin failed"; failed=1; return; }
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$work/pan.log")
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/pan.log")
	if grep -q 'max search depth too small\|out of memory\|aborting' "$work/pan.log"; then
		echo "not ok $n - $what: the search was not exhaustive"; failed=1
	elif [ "$expect" = holds ] && [ "$errors" = 0 ]; then
		echo "ok $n - $what: holds, $states states"
	elif [ "$expect" = found ] && [ "$errors" -gt 0 ]; then
		echo "ok $n - $what: found"
	else
		echo "not ok $n - $what: $errors errors"; failed=1
	fi
}
