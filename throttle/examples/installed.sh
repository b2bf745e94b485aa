#!/bin/sh
# Installs the library under a scratch folder and builds the example against that alone.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
echo "1..4"
case "$(sed -n 's/^SANITIZE_FLAGS = //p' "$top_builddir/Makefile")" in
?*) echo "ok 1 - built # SKIP under a sanitizer"; echo "ok 2 - runs # SKIP under a sanitizer"
	echo "ok 3 - strict C # SKIP under a sanitizer"; echo "ok 4 - static # SKIP under a sanitizer"; exit 0 ;;
esac
if ! command -v pkg-config >/dev/null; then
	echo "ok 1 - built # SKIP no pkg-config"; echo "ok 2 - runs # SKIP no pkg-config"
	echo "ok 3 - strict C # SKIP no pkg-config"; echo "ok 4 - static # SKIP no pkg-config"; exit 0
fi
(cd "$top_builddir" && ${MAKE:-make} install-libLTLIBRARIES install-throttleincludeHEADERS install-pkgconfigDATA \
	DESTDIR="$work" && ${MAKE:-make} install-exec-hook DESTDIR="$work") >"$work/log" 2>&1 || { sed 's/^/# /' "$work/log"; echo "not ok 1 - built"; exit 1; }
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
# The static library is machine code alone: what -flto adds is readable by the same compiler only, and the
# linker of another release fails on it even without -flto.
archive=$libs/libthrottle.a
[ -e "$archive" ] || { echo "ok 4 - static # SKIP no static library"; exit 0; }
if ! command -v readelf >/dev/null; then echo "ok 4 - static # SKIP no readelf"; exit 0; fi
if readelf --wide --sections "$archive" | grep -q 'gnu\.\(debug\)\?lto_'; then
	echo "not ok 4 - the static library has sections of -flto"; exit 1
fi
linked=
for compiler in "${CC:-cc}" "${CC:-cc} -fno-lto" "gcc -O2 -flto" clang "clang -flto"; do
	command -v ${compiler%% *} >/dev/null || continue
	echo 'int main(void) { return 0; }' >"$work/empty.c"
	$compiler "$work/empty.c" -o "$work/empty" >"$work/log" 2>&1 || continue  # it can't do that here
	$compiler "$top_srcdir/throttle/examples/throttle-example.c" $(pkg-config --cflags "$name") \
		"$archive" $(pkg-config --libs-only-other --static "$name") -o "$work/static" >"$work/log" 2>&1 ||
		{ sed 's/^/# /' "$work/log"; echo "not ok 4 - static, linked by $compiler"; exit 1; }
	mkdir "$work/state" && out=$(printf 'a\na\na\na\nb\n' | "$work/static" "$work/state" 2>&1) && rm -r "$work/state" &&
		[ "$(echo "$out" | grep -c '^admitted')" = 4 ] ||
		{ echo "$out" | sed 's/^/# /'; echo "not ok 4 - static, made by $compiler, runs"; exit 1; }
	linked="$linked${linked:+, }$compiler"
done
echo "ok 4 - static, linked by $linked"
