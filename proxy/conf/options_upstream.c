/* Rows of [upstream] and of its server lines. */
#include "conf/conf.h"
#include "conf/options.h"
#include "http/lenient.h"

#define COUNT(rows)          (sizeof(rows) / sizeof((rows)[0]))
#define MS(n)                (n)
#define MINUTES(n)           (60000ULL * (n))
#define HOURS(n)             (3600000ULL * (n))
#define DAYS(n)              (86400000ULL * (n))
#define MILLION              1000000ULL
#define BETWEEN(low, high)   .min = (low), .max = (high)
#define LIVE                 .reload = RELOAD_LIVE
#define CONNECTIONS          .reload = RELOAD_CONNECTIONS
#define NEEDS(key, value)    .needs = {key, value, NULL, NULL, false}
#define REQUIRES(key, value) .needs = {key, value, NULL, NULL, true}

static const struct option_word balances[] = {{"round_robin", CONF_BALANCE_ROUND_ROBIN},
	{"least_in_flight", CONF_BALANCE_LEAST_IN_FLIGHT}, {"hash", CONF_BALANCE_HASH}, {NULL, 0}};

static const struct option_word lenients[] = {{"bare_lf", HTTP_LENIENT_BARE_LF},
	{"equal_lengths", HTTP_LENIENT_EQUAL_LENGTHS}, {"http_1_2", HTTP_LENIENT_HTTP_1_2},
	{"folded_lines", HTTP_LENIENT_FOLDED_LINES},
	{"space_before_colon", HTTP_LENIENT_SPACE_BEFORE_COLON},
	{"chunked_twice", HTTP_LENIENT_CHUNKED_TWICE},
	{"length_and_chunked", HTTP_LENIENT_LENGTH_AND_CHUNKED},
	{"chunked_http_1_0", HTTP_LENIENT_CHUNKED_HTTP_1_0},
	{"chunk_blanks", HTTP_LENIENT_CHUNK_BLANKS}, {"chunk_lf", HTTP_LENIENT_CHUNK_LF},
	{NULL, 0}};

static const struct option_word server_protocols[] = {
	{"http/1.1", CONF_PROTOCOL_HTTP1}, {"h2", CONF_PROTOCOL_HTTP2}, {NULL, 0}};

static const struct option_word semaphore_downs[] = {
	{"local", CONF_SEMAPHORE_DOWN_LOCAL}, {"refuse", CONF_SEMAPHORE_DOWN_REFUSE}, {NULL, 0}};

static const struct option_word server_tls[] = {
	{"off", CONF_SERVER_TLS_OFF}, {"on", CONF_SERVER_TLS_ON}, {NULL, 0}};

static const struct option_word send_proxies[] = {{"off", CONF_SEND_PROXY_OFF},
	{"v1", CONF_SEND_PROXY_V1}, {"v2", CONF_SEND_PROXY_V2}, {NULL, 0}};

#define AT(field) OPTION_AT(struct conf_upstream, field)
/* clang-format off */
const struct option options_upstream[] = {
	{"server", &type_server, LIVE, AT(servers), .flags = OPTION_REQUIRED | OPTION_REPEATABLE,
		.help = "Address of a server (a host name or address with its port, or a socket), "
			"followed by the server's own options; at most 64."},
	{"balance", &type_word, LIVE, AT(balance), .fallback = "round_robin", .words = balances,
		.help = "How a server is selected for a request."},
	{"hash_key", &type_key, LIVE, AT(hash_key),
		REQUIRES("balance", "hash"),
		.help = "With balance = hash, key expression that selects the server; unset, the "
			"session's key."},
	{"max_in_flight", &type_in_flight, LIVE, AT(max_in_flight), .fallback = "0",
		BETWEEN(0, 1 * MILLION),
		.help = "Maximum number of requests at the upstream at once, 0 for no bound; auto "
			"finds the number beyond which responses only become slower."},
	{"max_in_flight_floor", &type_count32, LIVE, AT(max_in_flight_floor), .fallback = "1",
		BETWEEN(1, 1 * MILLION),
		.help = "Lower bound of max_in_flight = auto."},
	{"max_in_flight_ceiling", &type_count32, LIVE, AT(max_in_flight_ceiling), .fallback = "1000",
		BETWEEN(1, 1 * MILLION),
		.help = "Upper bound of max_in_flight = auto."},
	{"semaphore", &type_reference, LIVE, AT(semaphore),
		.help = "The [semaphore] whose slots bound the requests at the upstream at once, "
			"over all nodes; max_in_flight applies in addition."},
	{"semaphore_idle", &type_duration, LIVE, AT(slots.idle_ms), .fallback = "2s",
		BETWEEN(MS(100), HOURS(1)), .flags = OPTION_DURATION,
		NEEDS("semaphore", "NAME"),
		.help = "Time after which unneeded slots are released for other nodes."},
	{"semaphore_down", &type_word, LIVE, AT(slots.down), .fallback = "local",
		.words = semaphore_downs,
		NEEDS("semaphore", "NAME"),
		.help = "Rule while the semaphore's broker is unavailable: local uses this node's "
			"share of the slots, refuse answers 503."},
	{"max_streams", &type_count32, LIVE, AT(max_streams), .fallback = "0", BETWEEN(0, 10 * MILLION),
		.help = "Maximum number of event streams and upgraded connections at once, which "
			"do not count in max_in_flight, 0 for no bound; further ones are answered "
			"503."},
	{"pace", &type_pace, LIVE, AT(pace), .fallback = "off",
		.help = "Maximum number of requests sent to the upstream in any window of that "
			"length; further ones wait."},
	{"quantum", &type_count32, LIVE, AT(quantum), .fallback = "10", BETWEEN(10, 50),
		.help = "Number of requests that a session may send before another session has "
			"its turn."},
	{"shed_target", &type_duration, LIVE, AT(shed.target_ms), .fallback = "0",
		BETWEEN(0, DAYS(1)), .flags = OPTION_DURATION,
		.help = "Under overload, a request that has waited longer than this when its turn "
			"comes is answered 503, 0 for never."},
	{"shed_interval", &type_duration, LIVE, AT(shed.interval_ms), .fallback = "100ms",
		BETWEEN(MS(1), HOURS(1)), .flags = OPTION_DURATION,
		.help = "An upstream is overloaded when requests have waited for it without a "
			"pause for this time."},
	{"connect_timeout", &type_duration, LIVE, AT(connect_timeout_ms), .fallback = "5s",
		BETWEEN(MS(10), MINUTES(10)), .flags = OPTION_DURATION,
		.help = "Longest time for establishing a connection; after it the request is "
			"answered 504."},
	{"send_timeout", &type_duration, LIVE, AT(send_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time for which a server may stall while it reads a request."},
	{"first_byte_timeout", &type_duration, LIVE, AT(first_byte_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time from a request's end to the first byte of its response."},
	{"idle_timeout", &type_duration, LIVE, AT(idle_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time between two reads of a response."},
	{"tunnel_timeout", &type_duration, LIVE, AT(tunnel_timeout_ms), .fallback = "1h",
		BETWEEN(MS(10), DAYS(30)), .flags = OPTION_DURATION,
		.help = "Longest time without data from either side of an upgraded connection."},
	{"stream_timeout", &type_duration, LIVE, AT(stream_timeout_ms), .fallback = "1h",
		BETWEEN(MS(10), DAYS(30)), .flags = OPTION_DURATION,
		.help = "Longest time between two reads of an event stream, in place of "
			"idle_timeout."},
	{"stream_types", &type_media_types, LIVE, AT(stream_types), .flags = OPTION_REPEATABLE,
		.help = "Media types of responses that last as long as their client likes, such as "
			"application/x-ndjson; they are treated like text/event-stream, which "
			"always is one."},
	{"keepalive", &type_count32, LIVE, AT(keepalive), .fallback = "100k", BETWEEN(0, 100000),
		.help = "Maximum number of idle connections that each worker keeps to a server, 0 "
			"for none. Fewer are kept where fewer were in use at once in the last 5 "
			"to 10 seconds."},
	{"keepalive_timeout", &type_duration, CONNECTIONS, AT(keepalive_timeout_ms), .fallback = "55s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time that an idle connection to a server is kept."},
	{"keepalive_requests", &type_count32, LIVE, AT(keepalive_requests), .fallback = "0",
		BETWEEN(0, 1000 * MILLION),
		.help = "Maximum number of requests on one connection to a server, 0 for no "
			"bound."},
	{"resolve_interval", &type_duration, LIVE, AT(resolve_interval_ms), .fallback = "30s",
		BETWEEN(MS(1000), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Interval at which servers' names are looked up again; so does a reload. "
			"What has changed in /etc/resolv.conf and /etc/hosts by then applies."},
	{"max_fails", &type_count32, LIVE, AT(max_fails), .fallback = "3", BETWEEN(0, 1000),
		.help = "Number of failures in a row after which a server is ejected, 0 for "
			"never."},
	{"fail_timeout", &type_duration, LIVE, AT(fail_timeout_ms), .fallback = "1s",
		BETWEEN(MS(10), HOURS(1)), .flags = OPTION_DURATION,
		.help = "Time for which a failed server is ejected at first; it doubles with each "
			"ejection."},
	{"fail_timeout_max", &type_duration, LIVE, AT(fail_timeout_max_ms), .fallback = "1m",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time for which a failed server is ejected."},
	{"retries", &type_count32, LIVE, AT(retries), .fallback = "2", BETWEEN(0, 100),
		.help = "Further tries of a request that certainly was not processed, or that is safe, "
			"without a body, and whose connection was closed without a byte of a response."},
	{"protocol", &type_word, LIVE, AT(protocol), .fallback = "http/1.1",
		.words = server_protocols,
		.help = "Version of HTTP that the servers speak, health checks included: http/1.1, "
			"or h2, which TLS agrees on (ALPN) and which is spoken without any "
			"announcement (prior knowledge) to servers without TLS. One connection of "
			"h2 carries as many requests as its server allows."},
	{"lenient", &type_words, LIVE, AT(lenient), .words = lenients, .flags = OPTION_REPEATABLE,
		.help = "Violations of RFC 9112 that are accepted in the servers' responses. "
			"Clients get corrected responses; unset, such a response is answered 502."},
	{"health_path", &type_uri_path, LIVE, AT(health_path), .flags = OPTION_QUERY,
		.help = "Path that health checks request; unset, servers are judged by their "
			"traffic only."},
	{"health_host", &type_host_field, LIVE, AT(health_host),
		NEEDS("health_path", "PATH"),
		.help = "Value of Host in health checks; unset, the server's address."},
	{"health_interval", &type_duration, LIVE, AT(health_interval_ms), .fallback = "5s",
		BETWEEN(MS(100), DAYS(1)), .flags = OPTION_DURATION,
		NEEDS("health_path", "PATH"),
		.help = "Time between two health checks of a server."},
	{"health_timeout", &type_duration, LIVE, AT(health_timeout_ms), .fallback = "2s",
		BETWEEN(MS(10), HOURS(1)), .flags = OPTION_DURATION,
		NEEDS("health_path", "PATH"),
		.help = "Longest time for a health check."},
	{"health_shared", &type_flag, LIVE, AT(health_shared), .fallback = "off",
		REQUIRES("health_path", "PATH"),
		.help = "Whether one node of the fleet at a time checks the servers and the "
			"others read its results; needs [fleet] and health_path."},
	{"send_proxy", &type_word, LIVE, AT(send_proxy), .fallback = "off", .words = send_proxies,
		.help = "Version of the PROXY protocol by which servers learn the client's address "
			"at the beginning of a connection, before TLS. Each connection then serves "
			"one request, or one WebSocket. Health checks say that they are sluice's "
			"own."},
	{"tls", &type_flag, LIVE, AT(tls.is_on), .fallback = "off",
		.help = "Whether connections to the servers, those of health checks included, are "
			"encrypted by TLS. A server with https:// before its host, or tls=on "
			"behind its address, has it in any case."},
	{"tls_ca", &type_path, LIVE, AT(tls.ca),
		.help = "PEM file of the certificates that sign those of the servers; unset, the "
			"system's authorities."},
	{"tls_crl", &type_path, LIVE, AT(tls.crl),
		.help = "PEM file of revocation lists, one of each authority in a server's chain; "
			"unset, revoked certificates are accepted until they expire."},
	{"tls_name", &type_tls_name, LIVE, AT(tls.name),
		.help = "Name that is asked for (SNI) and that a server's certificate must have; "
			"unset, the host of its address."},
	{"tls_verify", &type_flag, LIVE, AT(tls.verifies), .fallback = "on",
		.help = "Whether a server's certificate is verified. Without that, anybody on the "
			"way to the server can read and change requests."},
	{"tls_versions", &type_words, LIVE, AT(tls.versions), .fallback = "1.2, 1.3",
		.words = option_tls_versions, .flags = OPTION_REPEATABLE,
		.help = "Versions of TLS towards the servers."},
	{"tls_certificate", &type_path, LIVE, AT(tls.certificate),
		.help = "PEM file of a certificate with its chain behind it, which is presented to "
			"servers that ask for one."},
	{"tls_certificate_key", &type_path, LIVE, AT(tls.key),
		REQUIRES("tls_certificate", "FILE"),
		.help = "PEM file of the private key of tls_certificate; unset, that file has it."},
};
const size_t options_upstream_count = COUNT(options_upstream);

#undef AT
#define AT(field) OPTION_AT(struct conf_server, field)
const struct option options_server[] = {
	{"weight", &type_count32, LIVE, AT(weight), .fallback = "1", BETWEEN(1, 1000),
		.help = "Share of the requests for this server, relative to the others' weights."},
	{"max_in_flight", &type_count32, LIVE, AT(max_in_flight), .fallback = "0",
		BETWEEN(0, 1 * MILLION),
		.help = "Maximum number of requests at the server at once, 0 for no bound."},
	{"max_connections", &type_count32, LIVE, AT(max_connections), .fallback = "0",
		BETWEEN(0, 1 * MILLION),
		.help = "Maximum number of connections to the server at once, including idle ones "
			"and streams but not health checks, 0 for no bound; requests that find "
			"none wait."},
	{"tls", &type_word, LIVE, AT(tls), .words = server_tls,
		.help = "Whether connections to the server are encrypted by TLS; unset, as the "
			"upstream's tls says."},
	{"tls_name", &type_tls_name, LIVE, AT(tls_name),
		.help = "Name that the server's certificate must have; unset, the upstream's "
			"tls_name."},
};
const size_t options_server_count = COUNT(options_server);
