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
cp "${top_srcdir:-.}/configure.ac" "$tree/source"
pretend "$tree/source/configure" 'echo "$0 $(pwd -P)" >>../configured'
# pkg-config knows the libraries that stand in a file, all in version 1.
pretend "$tree/tools/pkg-config" "grep -qx \"\$2\" '$tree/libraries' && echo 1"
printf '%s\n' libevent_core inih libpcre2-8 jansson libmicrohttpd libcrypto libcurl libllhttp >"$tree/libraries"
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

bootstrap >/dev/null # configures
is 'a relative INI is the one where it was called' "sluice run -c $tree/elsewhere/my.ini" "$(bootstrap run my.ini)"
is 'an absolute one is itself' "sluice run -c /etc/my.ini" "$(bootstrap run /etc/my.ini)"
is 'quiet where nothing is to be done' '' "$(bootstrap)"
is 'an unknown word is an error' 2 "$(bootstrap frobnicate >/dev/null; echo $?)"

# suite STATUS PASS SKIP FAIL: a make check that ends so, and what bootstrap makes of it
suite() {
	printf '# %s: %s\n' PASS "$2" SKIP "$3" XFAIL 0 FAIL "$4" XPASS 0 ERROR 0 >"$tree/totals"
	[ "$4" -eq 0 ] || printf '%s\n' 'PASS: a 1 - well' '# chatter' 'FAIL: a 2 - badly' '# wanted 1' >>"$tree/totals"
	pretend "$tree/tools/make" "case \"\$*\" in *TESTS=*) ;; *check*) cp $tree/totals build/test-suite.log; cp $tree/*.log build/tests; exit $1 ;; esac"
	ended=0
	said=$(bootstrap check) || ended=$?
	echo "$(echo "$said" | tail -n 1); $ended"
}

mkdir "$tree/source/build/tests"
for seconds in 1 2 3 4 5 6 7 8 9 10 11; do
	echo "# took $seconds.5 s, 0.1 s of processor: a.py, test $seconds"
done >"$tree/a.log"
echo '# took 30.0 s, 0.1 s of processor: b.py, of an earlier run' >"$tree/source/build/tests/b.log"
touch -d '1 hour ago' "$tree/source/build/tests/b.log"
is 'all passed' '5 passed, 0 failed; 0' "$(suite 0 5 0 0)"
is 'some were skipped' '5 passed, 0 failed, 2 skipped; 0' "$(suite 0 5 2 0)"
is 'one failed' '4 passed, 1 failed; 1' "$(suite 1 4 0 1)"
suite 1 4 0 1 >/dev/null
is 'what failed and why' 'FAIL: a 2 - badly
  # wanted 1' "$(echo "$said" | sed -n '/^FAIL/,/wanted/p')"
is 'the slowest ten' '11 10 9 8 7 6 5 4 3 2' "$(echo "$said" | sed -n 's/^  \([0-9]*\)\.5 s, .* test .*/\1/p' | xargs)"
lacks 'of this run only' 'b.py' "$said"
is 'make failed and no test did' '5 passed, 1 failed; 1' "$(suite 1 5 0 0)"
pretend "$tree/tools/make" 'case "$*" in *check*) exit 2 ;; esac'
is 'the tests do not build' '0 passed, 1 failed' "$(bootstrap check | tail -n 1)"


# ---- configuring again
configurations() {
	wc -l <"$tree/source/configured" | tr -d ' '
}
pretend "$tree/tools/make" 'exit 0'
is 'configured once while nothing changes' 1 "$(configurations)"
echo cmocka >>"$tree/libraries"
bootstrap >/dev/null
is 'a library that was installed since is looked for again' 2 "$(configurations)"
(cd "$tree/elsewhere" && PATH=$tree/tools:$PATH CONFIGURE_FLAGS=--enable-werror ../source/bootstrap >/dev/null)
is 'other flags, too' 3 "$(configurations)"

# ---- a path with a blank
mkdir "$tree/with blank"
cp -R "$tree/source" "$tree/with blank/source"
rm -rf "$tree/with blank/source/build" "$tree/with blank/source/configured"
blank() {
	(cd "$tree/elsewhere" && PATH=$tree/tools:$PATH CONFIGURE_FLAGS='' CI='' "../with blank/source/bootstrap" "$@" 2>&1)
}
BUILD_DIR='' blank >/dev/null
is 'a blank in the path: configure is called by a relative name' \
	"../configure $(cd "$tree/with blank/source/build" && pwd -P)" "$(cat "$tree/with blank/source/configured")"
has 'a build folder elsewhere then is an error that says why' 'has a blank' "$(BUILD_DIR=$tree/other blank)"
mkdir "$tree/it's"
cp -R "$tree/source" "$tree/it's/source"
has 'as is a character that make cannot take' "cannot have in names" \
	"$(cd "$tree" && PATH=$tree/tools:$PATH BUILD_DIR='' "./it's/source/bootstrap" 2>&1)"

# ---- packages: a Debian that lacks some. `available` are those of its lists, `installed` what is there.
pretend "$tree/tools/dpkg-query" "for name; do :; done; grep -qx \"\$name\" '$tree/installed' && echo 'install ok installed'"
pretend "$tree/tools/apt-cache" "grep -qx \"\$2\" '$tree/available' && echo '  Candidate: 1'"
pretend "$tree/tools/id" 'echo 1000'
: >"$tree/installed"
: >"$tree/available"
# debian ARGUMENT...: bootstrap, which takes this system for a Debian
debian() {
	sed "s|\$(package_family)|debian|" "$tree/source/bootstrap" >"$tree/source/bootstrap-debian"
	chmod +x "$tree/source/bootstrap-debian"
	(cd "$tree/elsewhere" && PATH=$tree/tools:$PATH BUILD_DIR='' CONFIGURE_FLAGS='' CI='' \
		../source/bootstrap-debian "$@" 2>&1)
}
has 'without root and without lists: the command chooses names later' \
	"as root, run: '$(cd "$tree/source" && pwd)/bootstrap' packages build run" "$(debian packages build run)"
awk '$1 == "build" && $2 { print $2 }' "${top_srcdir:-.}/bootstrap" | sed 's/.*|//; s/pkg-config/pkgconf/' >"$tree/available"
has 'with lists: the lists are fetched first' 'apt-get update && apt-get install' "$(debian packages build)"
has 'and of two names the one that there is' ' node-llhttp ' "$(debian packages build)"
lacks 'not the other' libllhttp-dev "$(debian packages build)"
sed '$d' "$tree/available" >"$tree/installed"
is 'only what is missing' "bootstrap: packages are missing; as root, run: apt-get update && apt-get install --no-install-recommends $(tail -n 1 "$tree/available")" \
	"$(debian packages build)"

pretend "$tree/tools/id" 'echo 0'
pretend "$tree/tools/apt-get" "case \"\$*\" in *update*) exit 100 ;; *) grep -q reachable '$tree/available' ;; esac"
has 'without a network the word is said' 'is there a network?' "$(debian packages build)"
echo reachable >>"$tree/available"
lacks 'but not where the packages come all the same' 'network' "$(debian packages build)"

# ---- the demo, with the real programs, twice at a time
if command -v curl >/dev/null; then
	rm -f "$tree/tools/id"
	mkdir -p "$tree/source/etc" "$tree/tmp"
	cp "${top_srcdir:-.}/etc/sluice-demo.ini" "$tree/source/etc"
	cp "${SLUICE:-build/sluice}" "${top_builddir:-build}/sluice-demo" "$tree/source/build"
	pretend "$tree/tools/dpkg-query" 'echo "install ok installed"'
	# demo NAME: starts one and waits until it says that it runs
	demo() {
		(cd "$tree/elsewhere" && PATH=$tree/tools:$PATH BUILD_DIR='' CONFIGURE_FLAGS='' CI='' TMPDIR=$tree/tmp \
			exec ../source/bootstrap run >"$tree/$1.log" 2>&1) &
		tries=0
		until grep -q 'Ctrl-C stops both' "$tree/$1.log" 2>/dev/null; do
			tries=$((tries + 1))
			[ $tries -lt 600 ] && kill -0 $! 2>/dev/null || return 0
			sleep 0.1
		done
	}
	url() {
		sed -n 's|.*listens on *\(http://[0-9.:]*\).*|\1|p' "$tree/$1.log"
	}
	demo one
	one=$!
	demo two
	two=$!
	is 'the demo runs beside another one' '{"balance":5,"version":1}{"balance":7,"version":1}' \
		"$(curl -s -m 10 -d amount=5 "$(url one)/deposit")$(curl -s -m 10 -d amount=7 "$(url two)/deposit")"
	[ "$(url one)" != "$(url two)" ] || is 'on another port' other same
	kill -TERM $one $two
	status=0
	wait $one || status=$?
	wait $two || status=$?
	is 'both end well' 0 $status
	is 'and leave nothing behind' '' "$(ls "$tree/tmp")"
	[ $failed -eq 0 ] || sed 's/^/# /' "$tree/one.log" "$tree/two.log"
fi
conclude
