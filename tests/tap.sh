# What shell tests of several points share; to be sourced. TAP. shellcheck shell=sh
count=0 failed=0

# is NAME WANTED GOT
is() {
	count=$((count + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		echo "# wanted: $2"
		echo "# got:    $3"
		failed=1
	fi
}

# has NAME PART TEXT and lacks NAME PART TEXT: is the part in the text?
has() {
	case $3 in
	*"$2"*) is "$1" '' '' ;;
	*) is "$1" "...$2..." "$3" ;;
	esac
}
lacks() {
	case $3 in
	*"$2"*) is "$1" "no $2" "$3" ;;
	*) is "$1" '' '' ;;
	esac
}

# The end of the test.
conclude() {
	echo "1..$count"
	exit $failed
}
