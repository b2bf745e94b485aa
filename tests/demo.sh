#!/bin/sh
# sluice-demo answers as its help says. TAP.
. "${top_srcdir:-.}/tests/tap.sh"
: "${top_builddir:=.}"
log=$(mktemp)

# shellcheck disable=SC2317 # called by the trap
finish() {
	[ -n "$demo" ] && kill "$demo" 2>/dev/null && wait "$demo"
	rm -f "$log"
}
trap finish EXIT

if ! command -v curl >/dev/null; then
	echo "1..0 # SKIP curl is not installed"
	exit 0
fi
"$top_builddir/sluice-demo" --listen 127.0.0.1:0 >"$log" &
demo=$!
tries=0
until url=$(sed -n 's/.*listening on //p' "$log") && [ -n "$url" ]; do
	tries=$((tries + 1))
	[ $tries -lt 600 ] || { echo "Bail out! sluice-demo does not start"; exit 1; }
	sleep 0.1
done

get() {
	curl -s -m 10 "$@"
}
code() {
	curl -s -m 10 -o /dev/null -w '%{http_code}' "$@"
}

is 'a new account is empty' '{"balance":0,"version":0}' "$(get "$url/account")"
is 'deposit by query' '{"balance":5,"version":1}' "$(get -X POST "$url/deposit?amount=5")"
is 'deposit by form' '{"balance":12,"version":2}' "$(get -d amount=7 "$url/deposit")"
is 'withdraw by JSON' '{"balance":2,"version":3}' "$(get --json '{"amount": 10}' "$url/withdraw")"
is 'no overdraft' 409 "$(code -d amount=3 "$url/withdraw")"
is 'a refused change leaves the version' '{"balance":2,"version":3}' "$(get "$url/account")"
is 'an amount is needed' 400 "$(code -X POST "$url/deposit")"
is 'not a negative one' 400 "$(code -d amount=-1 "$url/deposit")"
is 'nor a fraction' 400 "$(code --json '{"amount": 1.5}' "$url/deposit")"
is 'GET does not deposit' 405 "$(code "$url/deposit?amount=5")"
is 'nor does POST read' 405 "$(code -d amount=5 "$url/account")"
is 'HEAD does' 200 "$(code -I "$url/account")"
is 'unknown path' 404 "$(code "$url/nothing")"
is 'echo tells method, target, fields and body' \
	'{"method":"PUT","target":"/echo?a=b","fields":[["Host","h"],["A","1"],["A","2"],["Content-Length","3"]],"body":"x\"y"}' \
	"$(get -X PUT -H 'Host: h' -H 'User-Agent:' -H 'Accept:' -H 'Content-Type:' -H 'A: 1' -H 'A: 2' \
		--data-raw 'x"y' "$url/echo?a=b")"
is 'echo of invalid UTF-8' '"body":"åA"}' \
	"$(printf '\345A' | get --data-binary @- "$url/echo" | grep -o '"body":.*')"
is 'slow waits' '{"waited_ms":300} 1' \
	"$(get -w '%{time_total}' "$url/slow?ms=300" | awk '{ t = $0 + 0; if (NR == 1) line = $0; else ok = t >= 0.3 } END { print line, ok }')"
is 'slow needs to know how long' 400 "$(code "$url/slow")"
code -m 0.1 "$url/slow?ms=60000" >/dev/null
is 'a client that leaves does no harm' 200 "$(code "$url/account")"
is 'it writes a line for each request' 'POST /deposit?amount=5 -> 200 {"balance":5,"version":1}' \
	"$(sed -n 3p "$log")"
kill "$demo"
wait "$demo"
is 'SIGTERM ends it well' 0 $?
demo=
folder=$(mktemp -d)
has 'a path that is too long is an error' 'File name too long' \
	"$("$top_builddir/sluice-demo" --listen "unix:/$(printf '%0200d' 0)" 2>&1)"
echo mine >"$folder/file"
has 'as is one where a file is' 'Address already in use' \
	"$("$top_builddir/sluice-demo" --listen "unix:$folder/file" 2>&1)"
is 'which stays as it was' mine "$(cat "$folder/file")"
rm -r "$folder"
is 'an address is needed' 1 "$("$top_builddir/sluice-demo" --listen nowhere 2>/dev/null; echo $?)"
is 'an unknown option' 2 "$("$top_builddir/sluice-demo" --what 2>/dev/null; echo $?)"
conclude
