#!/bin/sh
# Installs the library under a scratch folder and builds the example against that alone.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
echo "1..3"
case "$(sed -n 's/^SANITIZE_FLAGS = //p' "$top_builddir/Makefile")" in
?*) echo "ok 1 - built # SKIP under a sanitizer"; echo "ok 2 - runs # SKIP under a sanitizer"
	echo "ok 3 - strict C # SKIP under a sanitizer"; exit 0 ;;
esac
if ! command -v pkg-config >/dev/null; then
	echo "ok 1 - built # SKIP no pkg-config"; echo "ok 2 - runs # SKIP no pkg-config"
	echo "ok 3 - strict C # SKIP no pkg-config"; exit 0
fi
(cd "$top_builddir" && ${MAKE:-make} install-libLTLIBRARIES install-throttleincludeHEADERS install-pkgconfigDATA \
	DESTDIR="$work") >"$work/log" 2>&1 || { sed 's/^/# /' "$work/log"; echo "not ok 1 - built"; exit 1; }
pc=$(dirname "$(find "$work" -name libthrottle.pc -o -name throttle.pc | head -1)")
name=$(basename "$(find "$pc" -name '*throttle.pc')" .pc)
PKG_CONFIG_SYSROOT_DIR=$work PKG_CONFIG_PATH=$pc
export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH
${CC:-cc} "$top_srcdir/throttle/examples/throttle-example.c" $(pkg-config --cflags --libs "$name") \
	-o "$work/example" >"$work/log" 2>&1 || { sed 's/^/# /' "$work/log"; echo "not ok 1 - built"; exit 1; }
echo "ok 1 - built with $(pkg-config --libs "$name" | sed "s|$work||g")"
libs=$(dirname "$(find "$work" -name 'libthrottle.so*' | head -1)")
out=$(printf 'a\na\na\na\nb\n' | LD_LIBRARY_PATH=$libs "$work/example" "$work" 2>&1)
echo "$out" | sed 's/^/# /'
[ "$(echo "$out" | grep -c '^admitted')" = 4 ] && [ "$(echo "$out" | grep -c '^refused')" = 1 ] &&
	echo "ok 2 - runs" || echo "not ok 2 - runs"
# What an embedder's build may ask for; the header is part of what is compiled.
for flags in -std=c11 "-std=c17 -pedantic"; do
	${CC:-cc} $flags -Wall -Wextra -Werror "$top_srcdir/throttle/examples/throttle-example.c" \
		$(pkg-config --cflags --libs "$name") -o "$work/strict" >"$work/log" 2>&1 ||
		{ sed 's/^/# /' "$work/log"; echo "not ok 3 - compiles with $flags"; exit 1; }
done
echo "ok 3 - compiles with -std=c11, -std=c17 -pedantic, without a warning"
