#!/bin/sh
# link.sh LIBTOOL WORD... --mode=link COMMAND...: links a program that is not installed without libtool, with the static
# archives of our own libraries; where one was not built (--disable-static), libtool links it.
set -eu
libtool=$1
shift
for word; do
	case $word in
	*.la)
		archive=$(dirname "$word")/.libs/$(basename "$word" .la).a
		test -e "$archive" || exec "${SHELL:-/bin/sh}" "$libtool" "$@"
		;;
	esac
done
while test "$1" != --mode=link; do
	shift
done
shift
for word; do
	shift
	case $word in
	*.la) word=$(dirname "$word")/.libs/$(basename "$word" .la).a ;;
	esac
	set -- "$@" "$word"
done
exec "$@"
