#!/bin/sh
# bootstrap does what its head says, in a tree and with tools that only pretend. TAP.
. "${top_srcdir:-.}/tests/tap.sh"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# pretend FILE LINE...: a program
pretend() {
	program=$1
	shift
	printf '%s\n' '#!/bin/sh' "$@" >"$program"
	chmod +x "$program"
}

mkdir -p "$tree/tools" "$tree/elsewhere" "$tree/source/build" "$tree/source/build-aux"
cp "${top_srcdir:-.}/bootstrap" "$tree/source"
touch "$tree/source/Makefile.in" "$tree/source/build-aux/tap-driver.sh" "$tree/source/build/Makefile"
echo >"$tree/source/build/configure.flags"
pretend "$tree/source/configure" 'exit 0'
pretend "$tree/source/build/sluice" 'echo "sluice $*"'
pretend "$tree/tools/dpkg-query" 'echo "install ok installed"'
for name in rpm apk npm; do
	pretend "$tree/tools/$name" 'exit 0'
done
pretend "$tree/tools/make" 'exit 0'

# bootstrap ARGUMENT...: from another folder
bootstrap() {
	(cd "$tree/elsewhere" &&
		PATH=$tree/tools:$PATH BUILD_DIR='' CONFIGURE_FLAGS='' CI='' ../source/bootstrap "$@" 2>&1)
}

is 'a relative INI is the one where it was called' "sluice run -c $tree/elsewhere/my.ini" "$(bootstrap run my.ini)"
is 'an absolute one is itself' "sluice run -c /etc/my.ini" "$(bootstrap run /etc/my.ini)"
is 'quiet where nothing is to be done' '' "$(bootstrap)"
is 'an unknown word is an error' 2 "$(bootstrap frobnicate >/dev/null; echo $?)"

# suite STATUS PASS SKIP FAIL: a make check that ends so, and what bootstrap makes of it
suite() {
	printf '# %s: %s\n' PASS "$2" SKIP "$3" XFAIL 0 FAIL "$4" XPASS 0 ERROR 0 >"$tree/totals"
	pretend "$tree/tools/make" "case \"\$*\" in *check*) cp $tree/totals build/test-suite.log; exit $1 ;; esac"
	ended=0
	said=$(bootstrap check) || ended=$?
	echo "$(echo "$said" | tail -n 1); $ended"
}

is 'all passed' '5 passed, 0 failed; 0' "$(suite 0 5 0 0)"
is 'some were skipped' '5 passed, 0 failed, 2 skipped; 0' "$(suite 0 5 2 0)"
is 'one failed' '4 passed, 1 failed; 1' "$(suite 1 4 0 1)"
is 'make failed and no test did' '5 passed, 1 failed; 1' "$(suite 1 5 0 0)"
pretend "$tree/tools/make" 'case "$*" in *check*) exit 2 ;; esac'
is 'the tests do not build' '0 passed, 1 failed' "$(bootstrap check | tail -n 1)"

conclude
