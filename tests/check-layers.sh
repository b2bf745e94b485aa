#!/bin/sh
# No room includes one above it, and rooms on one floor not each other, but http and net may know
# the configuration: throttle | base < loop, conf < http, net < gate, queue, stats, spool, store < body, worker
# < upstream < site < record < listen, ownership < exchange < tunnel < http1, fleet, semaphore, frames < channels < websocket < gateway < daemon < admin, cli. TAP.
cd "${top_srcdir:-.}" || exit 1
count=0 failed=0 checked=

# check ROOM ALLOWED...: the quoted includes in ROOM are of a room that is ALLOWED, or are the one
# header that is. The rooms of proxy/ are named as the includes name them.
check() {
	room=$1
	checked="$checked $room "
	shift
	count=$((count + 1))
	allowed=
	for name in "$@"; do
		case $name in
		*.h) allowed="$allowed|$name" ;;
		*) allowed="$allowed|$name/[^/\"]+" ;;
		esac
	done
	allowed=${allowed#|}
	wrong=$(find "$room" -maxdepth 1 -name '*.[ch]' -exec grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' {} + |
		grep -vE "\"(config[.]h|$allowed)\"" || :)
	if [ -z "$wrong" ]; then
		echo "ok $count - $room includes nothing above it"
	else
		echo "not ok $count - $room includes nothing above it"
		echo "$wrong" | sed 's/^/# /'
		failed=1
	fi
}

below_gate='throttle base loop conf http net'
check throttle throttle
check demo demo
check proxy/base base
# What the library takes, conf has to know, so that a file is refused before anything starts.
# What a method is, is a word that conf needs too; the headers of words stand on base alone.
check proxy/conf throttle/throttle.h base conf http/lenient.h http/message.h http/method.h http/path_readings.h
check proxy/http/lenient.h base
check proxy/http/path_readings.h base
check proxy/http/method.h base
check proxy/http/message.h base http/method.h
check proxy/http base conf http
check proxy/loop base loop
check proxy/net base loop conf net
# shellcheck disable=SC2086 # words
{
	check proxy/gate $below_gate gate
	check proxy/queue $below_gate queue
	check proxy/stats base stats
	check proxy/spool base spool
	check proxy/store $below_gate store
	below_worker="$below_gate gate queue stats spool"
	check proxy/body $below_worker body
	check proxy/worker $below_worker worker
	below=
	check proxy/ownership $below_worker worker upstream ownership
	check proxy/record $below_worker worker upstream site record
	for floor in upstream site listen exchange tunnel; do
		[ $floor != listen ] || below="$below record"
		[ $floor != exchange ] || below="$below ownership"
		check "proxy/$floor" $below_worker body worker $below "$floor"
		below="$below $floor"
	done
	below="$below store"
	for protocol in http1 http2 fleet semaphore; do
		check "proxy/$protocol" $below_worker body worker $below "$protocol"
	done
	for protocol in frames channels websocket gateway; do
		check "proxy/$protocol" $below_worker body worker $below "$protocol"
		below="$below $protocol"
	done
	below="$below http1 http2 fleet semaphore daemon"
	check proxy/daemon $below_worker body worker $below
	check proxy/admin $below_worker body worker $below admin
	check proxy/cli $below_worker body worker $below admin cli
	check proxy/cli/lock $below_worker body worker $below admin cli cli/lock
}

# A room that is named above has a floor; the others would be free to include anything.
count=$((count + 1))
wrong=
for room in $(find proxy -name '*.h' -exec dirname {} + | sort -u); do
	case $checked in
	*" $room "*) ;;
	*) wrong="$wrong $room" ;;
	esac
done
if [ -z "$wrong" ]; then
	echo "ok $count - each room has a floor"
else
	echo "not ok $count - each room has a floor"
	echo "#$wrong"
	failed=1
fi

# The libraries that the design gives to one room alone.
only() {
	header=$1 room=$2
	count=$((count + 1))
	wrong=$(find proxy throttle -name '*.[ch]' -exec grep -nE "#[[:space:]]*include[[:space:]]*<$header" {} + |
		grep -v "^$room/" || :)
	if [ -z "$wrong" ]; then
		echo "ok $count - only $room includes <$header...>"
	else
		echo "not ok $count - only $room includes <$header...>"
		echo "$wrong" | sed 's/^/# /'
		failed=1
	fi
}

# An exchange knows its server's connection by operations, and no parser.
count=$((count + 1))
wrong=$(grep -nE 'server_inside[.]h|http_parser|connection->' proxy/exchange/*.[ch] || :)
if [ -z "$wrong" ]; then
	echo "ok $count - an exchange names no field of a server's connection"
else
	echo "not ok $count - an exchange names no field of a server's connection"
	echo "$wrong" | sed 's/^/# /'
	failed=1
fi

# Nor what a message looks like on a wire.
count=$((count + 1))
wrong=$(grep -nE '"[^"]*(HTTP/1|[Cc]hunked|Connection: |Content-Length)|compose_' proxy/exchange/*.[ch] || :)
if [ -z "$wrong" ]; then
	echo "ok $count - an exchange writes no head of HTTP/1"
else
	echo "not ok $count - an exchange writes no head of HTTP/1"
	echo "$wrong" | sed 's/^/# /'
	failed=1
fi

only llhttp.h proxy/http
only "openssl/(bio|err|pem|ssl|types|x509)" proxy/net
only "openssl/(crypto|evp|hmac|rand|sha)" proxy/base
only ini.h proxy/conf
only microhttpd.h proxy/admin
only wslay/ proxy/frames
only hiredis/ proxy/store
only amqp proxy/semaphore
only rabbitmq-c/ proxy/semaphore

# libthrottle stands alone: the C library and nothing that knows of events, clocks or logs.
count=$((count + 1))
wrong=$(grep -nE '#[[:space:]]*include[[:space:]]*<(event|openssl|llhttp|ini|syslog)|clock_gettime|[^_]time\(NULL\)' \
	throttle/*.[ch] || :)
if [ -z "$wrong" ]; then
	echo "ok $count - libthrottle has no clock, loop or log"
else
	echo "not ok $count - libthrottle has no clock, loop or log"
	echo "$wrong" | sed 's/^/# /'
	failed=1
fi
echo "1..$count"
exit $failed
