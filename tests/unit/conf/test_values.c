/* Every type of value: good ones, bad ones, bounds and overflow. */
#include "text.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "conf/key.h"
#include "http/message.h"
#include "tests/unit/suite.h"

static void durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} some[] = {{"0", 0}, {"1ms", 1}, {"10s", 10000}, {"1m", 60000}, {"1h30m", 5400000},
		{"1d", 86400000}, {"1m30s500ms", 90500}};
	char setting[80];

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		const struct conf *conf;

		snprintf(setting, sizeof(setting), "shutdown_timeout = %s", some[i].text);
		conf = good("sluice", setting);
		assert_int_equal(conf->shutdown_timeout_ms, some[i].ms);
		conf_release(conf);
	}
	bad("sluice", "shutdown_timeout = 10",
		"invalid value \"10\": no unit; expected a duration such as");
	bad("sluice", "shutdown_timeout = 10sec",
		"invalid value \"10sec\": unknown unit \"sec\"; exp");
	bad("sluice", "shutdown_timeout = 10S",
		"invalid value \"10S\": unknown unit \"S\"; expected");
	bad("sluice", "shutdown_timeout = 10 s", "invalid value \"10 s\": a blank in it; expected");
	bad("sluice", "shutdown_timeout = 10s ms",
		"invalid value \"10s ms\": a blank in it; expected");
	bad("sluice", "shutdown_timeout = -1s", "invalid value \"-1s\"; expected");
	bad("sluice", "shutdown_timeout = 1.5s", "invalid value \"1.5s\"");
	bad("sluice", "shutdown_timeout = 30m1h", "invalid value \"30m1h\"");
	bad("sluice", "shutdown_timeout = 1s1s", "invalid value \"1s1s\"");
	bad("sluice", "shutdown_timeout = 1d1ms", "out of bounds; expected 0 to 1d");
	bad("sluice", "shutdown_timeout = 18446744073709551616ms",
		"invalid value \"18446744073709551616ms\"");
	bad("sluice", "shutdown_timeout = 18446744073709551615d",
		"invalid value \"18446744073709551615d\"; expected");
	bad("sluice", "shutdown_timeout = s", "invalid value \"s\"");
}

static void sizes_and_numbers(void **state)
{
	const struct conf *conf = good("sluice", "buffer_size = 16k\ncallers = 20k\nworkers = 3");

	(void)state;
	assert_int_equal(conf->buffer_bytes, 16384);
	assert_int_equal(conf->totals.callers, 20000);
	assert_int_equal(conf->workers, 3);
	conf_release(conf);
	conf = good("sluice", "workers = auto");
	assert_in_range(conf->workers, 1, 256);
	conf_release(conf);
	bad("sluice", "buffer_size = 4095", "out of bounds; expected 4k to 4M");
	bad("sluice", "buffer_size = 5M", "out of bounds");
	bad("sluice", "buffer_size = 16kB", "invalid size \"16kB\", did you mean 16k?");
	bad("sluice", "callers = 1T", "invalid value \"1T\": unknown unit \"T\"; expected");
	bad("sluice", "callers = 18446744073709551616", "invalid value \"18446744073709551616\"");
	bad("sluice", "callers = 99999999999999999G",
		"invalid value \"99999999999999999G\"; expected");
	bad("sluice", "callers = 0x10", "invalid value \"0x10\"; expected");
	bad("sluice", "callers = +5", "invalid value \"+5\"; expected");
	bad("sluice", "callers = 1 000", "invalid value \"1 000\": a blank in it; expected");
	bad("sluice", "workers = 0", "expected 1 to 256");
	bad("sluice", "workers = 257", "expected 1 to 256");
	bad("sluice", "workers = many", "expected a number or auto");
}

static void flags_and_words(void **state)
{
	const struct conf *conf = good("sluice",
		"forwarded = no\nstate_required = true\nlog_level = debug\nvia = off\n"
		"access_log = file:/var/log/a b.log\nerror_log = syslog\nrequest_id = off");

	(void)state;
	assert_false(conf->hop.forwarded);
	assert_true(conf->state_required);
	assert_int_equal(conf->logs.level, LOG_LEVEL_DEBUG);
	assert_null(conf->hop.via);
	assert_null(conf->request_id_field);
	assert_int_equal(conf->logs.access.sink, LOG_SINK_FILE);
	assert_string_equal(conf->logs.access.path, "/var/log/a b.log");
	assert_int_equal(conf->logs.error.sink, LOG_SINK_SYSLOG);
	conf_release(conf);
	bad("sluice", "forwarded = On", "expected on or off");
	bad("sluice", "forwarded = 1", "expected on or off");
	bad("sluice", "log_level = inf",
		"did you mean \"info\"?); expected error, warn, info or debug");
	bad("sluice", "log_level = loud", "expected error, warn, info or debug");
	bad("sluice", "access_log = /var/log/a",
		"expected off, stdout, stderr, syslog or file:PATH");
	bad("sluice", "access_log = file:", "expected off");
	bad("sluice", "via = a b", "invalid value \"a b\"");
	bad("sluice", "via = on", "invalid value \"on\"; expected a name of");
	bad("sluice", "via = Off", "invalid value \"Off\"; expected a name of");
	bad("sluice", "via =", "there is no value");
}

static void addresses(void **state)
{
	const struct conf *conf = good("listener m",
		"bind = 0.0.0.0:80, [::1]:8080\nbind = unix:/run/s.sock\nbind = systemd:http\n"
		"trusted_proxies = 10.0.0.0/8, ::1, 2001:db8::/32");
	const struct conf_listener *listener = &conf->listeners[1];

	(void)state;
	assert_int_equal(listener->bind_count, 4);
	assert_int_equal(listener->binds[0].kind, CONF_ADDRESS_INET);
	assert_int_equal(listener->binds[0].socket.ss_family, AF_INET);
	assert_int_equal(listener->binds[1].socket.ss_family, AF_INET6);
	assert_int_equal(
		ntohs(((const struct sockaddr_in6 *)&listener->binds[1].socket)->sin6_port), 8080);
	assert_int_equal(listener->binds[2].kind, CONF_ADDRESS_UNIX);
	assert_string_equal(
		((const struct sockaddr_un *)&listener->binds[2].socket)->sun_path, "/run/s.sock");
	assert_int_equal(listener->binds[3].kind, CONF_ADDRESS_SYSTEMD);
	assert_string_equal(listener->binds[3].host, "http");
	assert_int_equal(listener->trusted_proxies.count, 3);
	assert_int_equal(listener->trusted_proxies.items[0].prefix, 104);
	assert_int_equal(listener->trusted_proxies.items[0].address[12], 10);
	assert_int_equal(listener->trusted_proxies.items[1].prefix, 128);
	assert_int_equal(listener->trusted_proxies.items[2].prefix, 32);
	conf_release(conf);
	bad("listener m", "bind = 10.0.0.1", "has no port");
	bad("listener m", "bind = 10.0.0.1:0", "invalid port \"0\" (1 to 65535)");
	bad("listener m", "bind = 10.0.0.1:65536", "invalid port");
	bad("listener m", "bind = 10.0.0.1:http", "invalid port");
	bad("listener m", "bind = 10.0.0.300:80", "invalid address");
	bad("listener m", "bind = ::1:80", "is not in brackets");
	bad("listener m", "bind = [::g]:80", "invalid address");
	bad("listener m", "bind = [::1]", "has no port");
	bad("listener m", "bind = localhost:80", "is a host name");
	bad("listener m", "bind = unix:run/s", "invalid path");
	bad("listener m", "bind = :80",
		"\":80\" has no address (0.0.0.0 is all of IPv4, [::] all of IPv6); expected");
	bad("listener m", "bind = *:80",
		"invalid address \"*\" (0.0.0.0 is all of IPv4, [::] all of IPv6); expected");
	bad("listener m", "bind = 80",
		"\"80\" has no address (0.0.0.0 is all of IPv4, [::] all of IPv6); expected");
	bad("listener m", "bind = http://10.0.0.1:80", "\"http://10.0.0.1:80\" is a URL; expected");
	bad("listener m", "bind = http://10.0.0.1:80/", "systemd:NAME, here 10.0.0.1:80");
	bad("listener m", "bind = https://10.0.0.1:80", "without TLS");
	bad("listener m", "bind = 10.0.0.1:443 ssl",
		"unexpected \"ssl\" behind \"10.0.0.1:443\"; expected only ADDRESS:PORT");
	bad("listener m", "bind = 443 ssl http2", "without TLS");
	bad("listener m", "bind = 443 reuseport", "unexpected \"reuseport\" behind \"443\"");
	parse_bad(TEXT_BASE "[upstream v]\nserver = http://a:80/\n", 11,
		"\"http://a:80/\" is a URL; expected HOST:PORT");
	parse_bad(TEXT_BASE "[upstream v]\nserver = https://a:443/b\n", 11,
		"\"https://a:443/b\" has a path; expected https://HOST");
	parse_bad(TEXT_BASE "[upstream v]\nserver = :80\n", 11, "\":80\" has no address; expected");
	parse_bad(TEXT_BASE "[upstream v]\nserver = 80\n", 11, "\"80\" has no address; expected");
	bad("listener m",
		"bind = "
		"unix:/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"expected at most 107");
}

static void networks(void **state)
{
	static const struct {
		const char *network, *what;
	} some[] = {{"10.0.0.0/33", "invalid address or network"},
		{"10.0.0.1/8", "has bits set after its prefix"}, {"::/129", "invalid address"},
		{"10.0.0.0/", "invalid address"}, {"10.0.0/8", "invalid address"},
		{"example.com", "invalid address"}, {"10.0.0.0/8 10.1.0.0/16", "invalid address"}};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		bad_text(12, some[i].what,
			TEXT_BASE "[listener m]\nbind = 1.1.1.1:1\ntrusted_proxies = %s\n",
			some[i].network);
}

static void servers(void **state)
{
	const struct conf *conf = good("upstream v",
		"server = api.internal:80 weight=2 max_in_flight=10\nserver = [::1]:9\t weight=3\n"
		"max_in_flight = auto\npace = 50 per 1s\nbalance = hash\nhash_key = path");
	const struct conf_upstream *upstream = &conf->upstreams[1];

	(void)state;
	assert_int_equal(upstream->server_count, 2);
	assert_int_equal(upstream->servers[0].address.kind, CONF_ADDRESS_NAME);
	assert_string_equal(upstream->servers[0].address.host, "api.internal");
	assert_int_equal(upstream->servers[0].address.port, 80);
	assert_int_equal(upstream->servers[0].weight, 2);
	assert_int_equal(upstream->servers[0].max_in_flight, 10);
	assert_int_equal(upstream->servers[1].weight, 3);
	assert_int_equal(upstream->servers[1].max_in_flight, 0);
	assert_int_equal(upstream->servers[1].line, 12);
	assert_true(upstream->max_in_flight == CONF_IN_FLIGHT_AUTO);
	assert_int_equal(upstream->pace.amount, 50);
	assert_int_equal(upstream->pace.per_ns, 1000000000);
	assert_non_null(upstream->hash_key);
	conf_release(conf);
	conf = good("upstream v",
		"server = https://api.internal\nserver = https://[::1]:8443/ weight=2\n"
		"server = a:443 tls=off\nserver = a:444\nserver = a:445 tls_name=b\ntls = on");
	upstream = &conf->upstreams[1];
	assert_string_equal(upstream->servers[0].address.text, "api.internal:443");
	assert_string_equal(upstream->servers[1].address.text, "[::1]:8443");
	for (size_t i = 0; i < upstream->server_count; i++)
		assert_int_equal(conf_server_has_tls(upstream, &upstream->servers[i]), i != 2);
	assert_string_equal(conf_server_tls_name(upstream, &upstream->servers[1]), "::1");
	assert_string_equal(conf_server_tls_name(upstream, &upstream->servers[4]), "b");
	conf_release(conf);
	bad("upstream v", "server = a:1 weight=0", "weight: 0 is out of bounds; expected 1 to 1k");
	bad("upstream v", "server = a:1 wieght=2", "did you mean weight=?");
	bad("upstream v", "server = a:1 weight=", "weight has no value");
	bad("upstream v", "server = a:1 backup", "is not key=value");
	bad("upstream v", "server = a:1 b:2",
		"\"b:2\" is a second server; expected a line for each, here server = b:2");
	bad("upstream v", "server = a:1, b:2",
		"expected one server, and a line server = HOST:PORT");
	bad("upstream v", "server = a b:1", "has no port");
	bad("upstream v", "server = a_-..b:1", "invalid address");
	bad("upstream v", "server = http://a:1", "is a URL");
}

static void rates(void **state)
{
	const struct conf *conf = good("limit m", "rate = 10MB per 1m30s");

	(void)state;
	assert_int_equal(conf->limits[1].amount, 10000000);
	assert_int_equal(conf->limits[1].unit, CONF_UNIT_BYTES);
	assert_int_equal(conf->limits[1].per_ns, 90000000000);
	assert_int_equal(conf->limits[1].algorithm, CONF_LIMIT_RING);
	conf_release(conf);
	conf = good("limit m", "rate = 2MiB per month");
	assert_int_equal(conf->limits[1].amount, 2097152);
	assert_int_equal(conf->limits[1].algorithm, CONF_LIMIT_CALENDAR);
	assert_int_equal(conf->limits[1].calendar, CONF_CALENDAR_MONTH);
	assert_string_equal(conf->limits[1].time_zone, "UTC");
	conf_release(conf);
	conf = good("limit m",
		"rate = 1k  per \t1h\nalgorithm = gcra\nburst = 5\non_exceed = delay 2s");
	assert_int_equal(conf->limits[1].amount, 1000);
	assert_int_equal(conf->limits[1].unit, CONF_UNIT_REQUESTS);
	assert_int_equal(conf->limits[1].algorithm, CONF_LIMIT_GCRA);
	assert_int_equal(conf->limits[1].burst, 5);
	assert_int_equal(conf->limits[1].delay_max_ms, 2000);
	conf_release(conf);
	conf = good("limit m", "concurrency = 7\nban = 10 per 1m for 5m\nmode = shadow");
	assert_int_equal(conf->limits[1].algorithm, CONF_LIMIT_CONCURRENCY);
	assert_int_equal(conf->limits[1].amount, 7);
	assert_int_equal(conf->limits[1].ban.count, 10);
	assert_int_equal(conf->limits[1].ban.per_ns, 60000000000);
	assert_int_equal(conf->limits[1].ban.for_ns, 300000000000);
	assert_true(conf->limits[1].shadow);
	conf_release(conf);
	bad("limit m", "rate = 100", "invalid rate \"100\"; expected AMOUNT per PERIOD");
	bad("limit m", "rate = 100 pr 10s", "invalid rate");
	bad("limit m", "rate = 100 per", "invalid rate");
	bad("limit m", "rate = 0 per 1s", "out of bounds");
	bad("limit m", "rate = 2G per 1s", "out of bounds");
	bad("limit m", "rate = 10mb per 1s", "invalid amount");
	bad("limit m", "rate = 18446744073709551615GB per 1s", "invalid amount");
	bad("limit m", "rate = 1 per 0s", "invalid period");
	bad("limit m", "rate = 1 per 367d", "invalid period");
	bad("limit m", "rate = 1 per minute", "invalid period");
	bad("limit m", "rate = 1 per 24h UTC", "a time zone needs a bare hour");
	bad("limit m", "rate = 1 per day Europe/Olso", "there is no time zone");
	bad("limit m", "rate = 1 per day ../../../etc/passwd", "there is no time zone");
	bad("limit m", "rate = 1 per day Europe", "there is no time zone");
	bad("limit m", "rate = 1 per day zone1970.tab", "there is no time zone");
	bad("limit m", "rate = 1 per day UTC UTC", "unexpected \"");
}

/* What people write elsewhere gets a hint what to write here. */
static void rates_of_other_languages(void **state)
{
	static const struct {
		const char *rate, *what;
	} some[] = {
		{"100 per minute",
			"rate: invalid period \"minute\", did you mean 1m? Expected a length "
			"such as 10s, 5m or 1h30m, or of the calendar a bare hour, day, "
			"week or month"},
		{"100 per Second", "did you mean 1s?"},
		{"100 per days", "did you mean day?"},
		{"100 per fortnight",
			"invalid period \"fortnight\" (1ms to 366d); expected a length"},
		{"100 per 10",
			"rate: \"10\" has no unit; expected ms, s, m, h or d right behind it, as "
			"in 10s"},
		{"100 per 1 day", "\"1\" has no unit"},
		{"10mb per 1s", "rate: invalid amount \"10mb\", did you mean 10MB?"},
		{"10KB per 1s", "did you mean 10kB?"},
		{"10 MB per 1s", "rate: \"10 MB\" has a blank in it; expected 10MB"},
		{"10 req per 1s", "unexpected \"req\"; expected bytes such as 10MB, or requests, "
				  "which have no unit, as in 10 per 1s"},
		{"1.5MB per 1s",
			"invalid amount \"1.5MB\"; expected a whole number without separators"},
		{"1,000 per 1h",
			"invalid amount \"1,000\"; expected a whole number without separators"},
		{"-5 per 1s",
			"invalid amount \"-5\"; expected requests such as 100 or 10k, or bytes"},
		{"100/10s", "invalid rate \"100/10s\", did you mean 100 per 10s?"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		char *text = NULL;
		assert_true(asprintf(&text, "rate = %s", some[i].rate) > 0);
		bad("limit m", text, some[i].what);
		free(text);
	}
}

static void limits_other_keys(void **state)
{
	static const struct {
		const char *setting, *what;
	} some[] = {
		{"ban = 10 per 1m", "invalid ban \"10 per 1m\"; expected COUNT per DURATION for"},
		{"ban = 10 per for 5m", "invalid count per duration"},
		{"ban = 10 per 1m for", "invalid duration"},
		{"ban = 0 per 1m for 5m", "invalid count per duration"},
		{"on_exceed = delay", "invalid value \"delay\"; expected reject or delay"},
		{"on_exceed = delay 0", "invalid value \"delay 0\""},
		{"on_exceed = delay 2h", "out of bounds; expected 1ms to 1h"},
		{"on_exceed = drop", "invalid value \"drop\""},
		{"precision = 0", "out of bounds; expected 1 to 4095"},
		{"ban = 4096 per 1m for 5m", "too many to count; expected 1 to 4095"},
		{"ban = 10 per 1m for 5", "\"5\" has no unit"},
		{"on_exceed = delay 2", "\"2\" has no unit"},
		{"precision = sharp", "expected auto, exact or"},
		{"burst = 5", "expected algorithm = gcra"},
		{"mode = shadwo", "did you mean \"shadow\"?"}};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		bad_text(12, some[i].what, TEXT_BASE "[limit m]\nrate = 1 per 1s\n%s\n",
			some[i].setting);
}

static void keys(void **state)
{
	const struct conf *conf = good(
		"limit m", "rate = 1 per 1s\nkey = header:X-Api-Key + path|cookie:sid | ip/64");
	const struct conf_key *key = conf->limits[1].key;

	(void)state;
	assert_string_equal(key->text, "header:X-Api-Key + path|cookie:sid | ip/64");
	assert_int_equal(key->alternative_count, 3);
	assert_int_equal(key->alternatives[0].part_count, 2);
	assert_int_equal(key->alternatives[0].parts[0].kind, KEY_HEADER);
	assert_string_equal(key->alternatives[0].parts[0].name, "x-api-key");
	assert_int_equal(key->alternatives[0].parts[0].name_len, 9);
	assert_int_equal(key->alternatives[0].parts[1].kind, KEY_PATH);
	assert_string_equal(key->alternatives[1].parts[0].name, "sid");
	assert_int_equal(key->alternatives[2].parts[0].kind, KEY_IP_PREFIX);
	assert_int_equal(key->alternatives[2].parts[0].prefix, 64);
	conf_release(conf);
}

static void bad_keys(void **state)
{
	static const struct {
		const char *key, *what;
	} some[] = {{"header", "expected header:NAME"}, {"header:", "invalid name"},
		{"header:a b", "invalid name"}, {"ip:4", "has a name; expected ip"},
		{"ip/0", "expected ip/1 to ip/128"}, {"ip/129", "expected ip/1 to ip/128"},
		{"ip |", "a part is empty"}, {"| ip", "a part is empty"},
		{"ip + + path", "a part is empty"}, {"all + path", "expected no part beside it"},
		{"path + all | ip", "expected no part beside it"},
		{"ip, path", "write a limit for each"}, {"user", "unknown part"},
		{"heder:X", "did you mean \"header\"?"},
		{"ip|ip|ip|ip|ip|ip|ip|ip|ip", "at most 8"},
		{"ip+ip+ip+ip+ip+ip+ip+ip+ip", "at most 8"}};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		bad_text(12, some[i].what, TEXT_BASE "[route r]\nupstream = u\nsession = %s\n",
			some[i].key);
}

static void routes(void **state)
{
	const struct conf *conf = good("route a",
		"upstream = u\nhost = API.example.com., *.Example.org, [2001:DB8:0::1]\n"
		"path = =/a%2Fb\nmethod = GET, POST\nrefund = 5xx, 429\ncost = response:X-Cost\n"
		"request_header_set = X-A:  b c \nresponse_header_remove = Server, X-B\n"
		"allow = 10.0.0.0/8, 192.0.2.1\nqueue_bytes = 1M\nupstream_affinity = session");
	const struct conf_route *route = &conf->routes[0];

	(void)state;
	assert_string_equal(route->name, "a");
	assert_string_equal(route->hosts.items[0], "api.example.com");
	assert_string_equal(route->hosts.items[1], "*.example.org");
	assert_string_equal(route->hosts.items[2], "[2001:db8::1]");
	assert_int_equal(route->path_kind, CONF_PATH_EXACT);
	assert_string_equal(route->path, "/a%2Fb");
	assert_int_equal(route->methods,
		1 << HTTP_METHOD_GET | 1 << HTTP_METHOD_HEAD | 1 << HTTP_METHOD_POST);
	assert_true(route->refund.any);
	assert_int_equal(route->refund.bits[400 / 8], 0xff);
	assert_int_equal(route->refund.bits[(429 - 100) / 8], 1 << ((429 - 100) % 8));
	assert_string_equal(route->cost_field, "x-cost");
	assert_string_equal(route->request_set.items[0].name, "X-A");
	assert_string_equal(route->request_set.items[0].value, "b c");
	assert_int_equal(route->response_remove.count, 2);
	assert_int_equal(route->access.allow_addresses.count, 2);
	assert_int_equal(route->sessions.queue_bytes, 1 << 20);
	assert_true(route->sessions.affinity);
	assert_string_equal(route->sessions.key->text, "ip");
	conf_release(conf);
}

static void bad_routes(void **state)
{
	static const struct {
		const char *setting, *what;
	} some[] = {{"path = a", "does not begin with '/'"}, {"path = =", "the path is empty"},
		{"path = /a?b", "without a query"}, {"path = /a/../b", "the segment \"..\""},
		{"path = /.", "the segment \".\""}, {"path = /%41", "expected \"A\""},
		{"path = /%2f", "expected two hex digits, upper case"},
		{"path = /%2", "expected two hex digits"},
		{"path = /a b", "unencoded blank; expected its percent-encoding, %20"},
		{"path = /\xc3\xa9", "unencoded byte 0xc3; expected its percent-encoding, %C3"},
		{"path = /a|b", "unencoded '|'; expected its percent-encoding, %7C"},
		{"path = ~a(b", "at offset 3"}, {"path = ~[z-a]", "at offset"},
		{"host = a/b", "invalid host"},
		{"host = *", "invalid host \"*\"; expected no host, for any, or names such as"},
		{"host = a.*.b", "invalid host"},
		{"host = a:80", "\"a:80\" has a port; expected names such as"},
		{"host = http://a/", "\"http://a/\" is a URL; expected names such as"},
		{"host = http://a:80/", "or *.example.com, here a"},
		{"host = a..b", "invalid host"}, {"host = a, a", "is given twice"},
		{"method = GETT", "did you mean \"GET\"?"}, {"method = get", "upper case"},
		{"method = CONNECT", "unknown method"}, {"refund = 6xx", "invalid final status"},
		{"refund = 100", "invalid final status"}, {"cost = 0", "out of bounds"},
		{"cost = response:", "invalid value \"response:\""},
		{"request_header_set = X", "has no colon"},
		{"request_header_set = X Y: z", "invalid field name"},
		{"allow = 10.0.0.1/33", "is neither"}, {"strip_prefix = a", "does not begin"},
		{"add_prefix = /a?b", "byte 0x3f"}, {"add_prefix = /%zz", "\"zz\" after '%'"},
		{"strip_prefix = /a%2", "\"2\" after '%'"},
		{"request_header_set = Host: a b c", "invalid host \"a b c\""},
		{"request_header_set = Host: a:b", "invalid host \"a:b\""},
		{"upgrade = off, websocket", "invalid protocol \"off\"; expected off alone, or"},
		{"upgrade = on, chat", "invalid protocol \"on\"; expected off alone, or"},
		{"upgrade = OFF", "invalid protocol \"OFF\""},
		{"upgrade = none", "invalid protocol \"none\""},
		{"upgrade = websocket, *", "invalid protocol \"*\""},
		{"upgrade = web socket", "invalid protocol"}, {"upgrade = a/", "invalid protocol"},
		{"ordering = write", "did you mean \"writes\"?"},
		{"path = /b\nstrip_prefix = /a", "begins with /a"}};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		bad_text(strchr(some[i].setting, '\n') ? 13 : 12, some[i].what,
			TEXT_BASE "[route r]\nupstream = u\n%s\n", some[i].setting);
}

/* What frames or routes a message is no route's to change. */
static void fields_of_our_own(void **state)
{
	static const char *const names[] = {"Connection", "Content-Length", "Keep-Alive",
		"Proxy-Connection", "TE", "trailer", "Transfer-Encoding", "Upgrade"};
	static const struct {
		const char *before, *after;
	} settings[] = {{"request_header_set = ", ": 1"}, {"response_header_set = ", ": 1"},
		{"request_header_remove = X-A, ", ""}, {"response_header_remove = X-A, ", ""}};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++)
			bad_text(12, "is sluice's own",
				TEXT_BASE "[route r]\nupstream = u\n%s%s%s\n", settings[k].before,
				names[i], settings[k].after);
	}
}

/* The route of TEXT_BASE is more specific. */
static const struct conf_route *last_route(const struct conf *conf)
{
	return &conf->routes[conf->route_count - 1];
}

static void buffering(void **state)
{
	const struct conf *conf = parse_good(TEXT_BASE "[route r]\nupstream = u\n");
	const struct conf_buffering *kept = &last_route(conf)->response_buffering;

	(void)state;
	assert_int_equal(kept->memory_bytes, 32 << 10);
	assert_int_equal(kept->file_bytes, 64 << 20);
	conf_release(conf);
	conf = parse_good(TEXT_BASE "[route r]\nupstream = u\nresponse_buffering = 4k file  2M\n");
	kept = &last_route(conf)->response_buffering;
	assert_int_equal(kept->memory_bytes, 4096);
	assert_int_equal(kept->file_bytes, 2 << 20);
	conf_release(conf);
	conf = parse_good(TEXT_BASE "[route r]\nupstream = u\nresponse_buffering = 1M\n");
	kept = &last_route(conf)->response_buffering;
	assert_int_equal(kept->memory_bytes, 1 << 20);
	assert_int_equal(kept->file_bytes, 0);
	conf_release(conf);
	conf = parse_good(TEXT_BASE "[route r]\nupstream = u\nresponse_buffering = off\n");
	assert_int_equal(last_route(conf)->response_buffering.memory_bytes, 0);
	conf_release(conf);
	static const struct {
		const char *text, *error;
	} wrong[] = {
		{"on", "invalid size \"on\"; expected off, SIZE such as 64k"},
		{"4095", "out of bounds; expected 4k to 1024G, or off"},
		{"0", "out of bounds"},
		{"64k 1M", "invalid value \"64k 1M\""},
		{"64k file", "invalid value \"64k file\""},
		{"64k file 1M 2M", "invalid value \"64k file 1M 2M\""},
		{"64k file 1MB", "invalid value \"64k file 1MB\""},
		{"off file 1M", "invalid size \"off\""},
		{"64k file 1025G", "out of bounds"},
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text),
			TEXT_BASE "[route r]\nupstream = u\nresponse_buffering = %s\n",
			wrong[i].text);
		parse_bad(text, 12, wrong[i].error);
	}
}

/* What is written replaces the default, and is not added to it. */
static void upgrades(void **state)
{
	static const struct {
		const char *text;
		size_t count;
		const char *first;
	} rows[] = {
		{"", 1, "websocket"},
		{"upgrade = off\n", 0, NULL},
		{"upgrade = on\n", 1, "websocket"},
		{"upgrade = Websocket\n", 1, "websocket"},
		{"upgrade = shout/1\n", 1, "shout/1"},
		{"upgrade = shout, websocket\n", 2, "shout"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text), TEXT_BASE "[route r]\nupstream = u\n%s", rows[i].text);
		const struct conf *conf = parse_good(text);
		const struct conf_text_list *found = &last_route(conf)->upgrades;
		assert_int_equal(found->count, rows[i].count);
		if (rows[i].count > 0)
			assert_string_equal(found->items[0], rows[i].first);
		conf_release(conf);
	}
}

UNIT_SUITE(test_values)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),
		cmocka_unit_test(sizes_and_numbers),
		cmocka_unit_test(flags_and_words),
		cmocka_unit_test(addresses),
		cmocka_unit_test(networks),
		cmocka_unit_test(servers),
		cmocka_unit_test(rates),
		cmocka_unit_test(rates_of_other_languages),
		cmocka_unit_test(limits_other_keys),
		cmocka_unit_test(keys),
		cmocka_unit_test(bad_keys),
		cmocka_unit_test(routes),
		cmocka_unit_test(bad_routes),
		cmocka_unit_test(fields_of_our_own),
		cmocka_unit_test(buffering),
		cmocka_unit_test(upgrades),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
