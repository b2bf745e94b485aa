#!/bin/bash
# The completions for bash and zsh know the commands and options that sluice has, and no others. TAP.
# make runs it by the shell that configure found.
if [ -z "$BASH_VERSION" ]; then
	command -v bash >/dev/null && exec bash "$0"
	echo "1..0 # SKIP no bash"
	exit 0
fi
cd "${top_srcdir:-.}" || exit 1
sluice=${SLUICE:-./sluice}
count=0 failed=0

# is NAME WANTED FOUND
is() {
	count=$((count + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") | sed 's/^/# /'
		failed=1
	fi
}

sorted() {
	tr -s ' |' '\n' | grep -v '^$' | LC_ALL=C sort -u
}

# `sluice status | limits | upstreams` and the like, without what follows two blanks.
commands=$("$sluice" --help | sed -nE 's/^(usage:|      ) sluice ([a-z].*)/\2/p' | sed 's/   .*//' |
	awk '{ print $1; for (i = 2; i < NF; i++) if ($i == "|" && $(i + 1) ~ /^[a-z]/ && $1 ~ /status/) print $(i + 1) }' |
	sorted)
# shellcheck source=/dev/null
. etc/completion/sluice

# complete_words WORD...: what bash offers for the last one
complete_words() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	_sluice
	printf '%s\n' "${COMPREPLY[@]}"
}

is "bash: the commands" "$commands" "$(complete_words sluice '' | grep -v '^-' | sorted)"
is "bash: a command that is begun" "reload reset" "$(complete_words sluice re | sorted | paste -sd' ')"
is "bash: operations" "delete revoke set show" "$(complete_words sluice keys '' | grep -v '^-' | sorted | paste -sd' ')"
is "bash: levels" "debug" "$(complete_words sluice log-level d)"
is "bash: files" "etc/sluice.ini" "$(complete_words sluice status -c etc/sluice.i)"

# Each option that is offered is one that the command takes; what it lacks then is another matter.
for command in $commands; do
	wrong=
	for option in $(complete_words sluice "$command" -- | grep -v -- --help); do
		case $option in
		--json | --refused | --hashed | --dump | --keys | --binary | --ensure | --print) value= ;;
		*) value=1 ;;
		esac
		# --help ends it before anything is done
		"$sluice" "$command" "$option" ${value:+"$value"} --help >/dev/null 2>&1 || wrong="$wrong $option"
	done
	is "bash: the options of $command" "" "$wrong"
done

if command -v zsh >/dev/null; then
	is "zsh: reads it" "" "$(zsh -n etc/completion/_sluice 2>&1)"
else
	count=$((count + 1))
	echo "ok $count - zsh: reads it # SKIP no zsh"
fi
is "zsh: the commands" "$commands" "$(sed -nE "s/^	'([a-z-]+):.*/\1/p" etc/completion/_sluice | sorted)"
echo "1..$count"
exit $failed
