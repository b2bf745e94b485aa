#!/bin/sh
# Each man page renders as groff and mandoc show it, without an error, and names all of what it is about. TAP.
cd "${top_srcdir:-.}" || exit 1
: "${SLUICE:=build/sluice}"
: "${top_builddir:=build}"
count=0 failed=0
errors=$(mktemp)
text=$(mktemp)
synopsis=$(mktemp)
trap 'rm -f "$errors" "$text" "$synopsis"' EXIT

# point TITLE: passes if $errors is empty.
point() {
	count=$((count + 1))
	if [ -s "$errors" ]; then
		echo "not ok $count - $1"
		head -n 20 "$errors" | sed 's/^/# /'
		failed=1
	else
		echo "ok $count - $1"
	fi
}

# The lines of over 80 columns, and words so long that the source has lost the blanks between them.
too_wide() {
	grep -E '^.{81}|[A-Za-z(),.]{50}'
}

# missing FILE WORD...: the words that the rendered page does not have, as words of their own.
missing() {
	file=$1
	shift
	for word; do
		grep -qE -- "(^|[^A-Za-z0-9_-])$word([^A-Za-z0-9_-]|\$)" "$file" || echo "missing: $word"
	done
}

# As many entries `key (type` as there are sections with that key.
keys_are_there() {
	"$SLUICE" check --keys | sed -n 's/^  \([a-z_][a-z_]*\) (.*/\1/p' | sort | uniq -c |
		while read -r times key; do
			found=$(grep -cE "^ +$key \(" "$text")
			[ "$found" -eq "$times" ] || echo "$key: $found entries, not $times"
		done
}

commands_are_there() {
	help=$("$SLUICE" --help 2>&1)
	sed -n '/^SYNOPSIS/,/^DESCRIPTION/p' "$text" >"$synopsis"
	# shellcheck disable=SC2046 # words are meant
	missing "$synopsis" $(echo "$help" |
		sed -n 's/^ *\(usage: \)\{0,1\}sluice \([a-z]\)/\2/p' | sed 's/  .*//; s/[^a-z |-].*//' | tr ' |' '\n\n' | sort -u)
	# shellcheck disable=SC2046 # words are meant
	missing "$text" $(echo "$help" | grep -oE -- '--[a-z-]+' | sort -u) 'EXIT STATUS' HUP TERM USR1 USR2
}

functions_are_there() {
	# shellcheck disable=SC2046 # words are meant
	missing "$text" $(grep -oE '\bthrottle_[a-z_]+\(' throttle/throttle.h | tr -d '(' | sort -u)
}

for page in sluice.8 sluice.ini.5 throttle.3; do
	: >"$errors"
	if command -v groff >/dev/null; then
		groff -t -mandoc -Tascii -P-cbou -rLL=200n -wall -Wbreak "etc/man/$page" 2>"$errors" >"$text"
		point "$page by groff"
		: >"$errors"
		groff -t -mandoc -Tascii -P-cbou -rLL=78n "etc/man/$page" 2>>"$errors" | too_wide >>"$errors"
		point "$page fits a terminal of 80 columns"
	else
		echo "ok $((count += 1)) - $page by groff # SKIP groff is not installed"
		echo "ok $((count += 1)) - $page fits a terminal of 80 columns # SKIP groff is not installed"
	fi
	: >"$errors"
	if command -v mandoc >/dev/null; then
		mandoc -Tlint -W warning "etc/man/$page" >"$errors" 2>&1
		point "$page by mandoc"
	else
		echo "ok $((count += 1)) - $page by mandoc # SKIP mandoc is not installed"
	fi
	if [ ! -s "$text" ]; then
		echo "ok $((count += 1)) - $page names everything # SKIP nothing renders it here"
		continue
	fi
	case $page in
	sluice.8) commands_are_there ;;
	sluice.ini.5) keys_are_there ;;
	throttle.3) functions_are_there ;;
	esac >"$errors" 2>&1
	point "$page names everything"
done
echo "1..$count"
exit $failed
