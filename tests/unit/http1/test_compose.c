/* Heads as they leave: what of a request reaches its server, what of a response its client, and
 * what is added to either. */
#include "http1/compose.h"

#include "exchange/judge.h"
#include "exchange/outgoing.h"
#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/suite.h"

/* What the server gets of a request. */
static const char *sent(struct stage **stage, const struct stage_conf *conf, const char *request)
{
	*stage = stage_begin(conf);
	flight_begin(*stage, request);
	return stage_server_got(*stage, 0);
}

/* What the client gets of a response to it. */
static const char *passed(struct stage **stage, const struct stage_conf *conf, const char *request,
	const char *response)
{
	*stage = stage_begin(conf);
	flight_answer(*stage, flight_begin(*stage, request), response);
	return stage_client_got(*stage);
}

/* A head, the fields that it must hold, and those that it must not; NULL: no more. */
struct head {
	struct stage_conf conf;
	const char *request, *response, *begins;
	const char *has[6], *lacks[6];
};

static void check(const char *got, const struct head *row)
{
	if (row->begins && strncmp(got, row->begins, strlen(row->begins)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", got, row->begins);
	for (unsigned i = 0; i < 6 && row->has[i]; i++)
		assert_has(got, row->has[i]);
	for (unsigned i = 0; i < 6 && row->lacks[i]; i++)
		assert_lacks(got, row->lacks[i]);
	const char *end = strstr(got, "\r\n\r\n");
	assert_non_null(end);
	assert_null(strstr(end + 2, "\r\nVia")); /* one head */
}

static void check_requests(const struct head *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct stage *stage;
		check(sent(&stage, &rows[i].conf, rows[i].request), &rows[i]);
		stage_end(stage);
	}
}

static void check_responses(const struct head *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct stage *stage;
		check(passed(&stage, &rows[i].conf, rows[i].request ? rows[i].request : GET,
			      rows[i].response),
			&rows[i]);
		stage_end(stage);
	}
}

#define CHECK_REQUESTS(rows)  check_requests(rows, sizeof(rows) / sizeof((rows)[0]))
#define CHECK_RESPONSES(rows) check_responses(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- requests -------------------------------------------------------------------------------- */

static void all_of_a_request_line_for_line(void **state)
{
	const struct stage_conf conf = {.node = "via = edge\nforwarded = on"};
	struct stage *stage;

	(void)state;
	assert_string_equal(sent(&stage, &conf,
				    "POST /a?b HTTP/1.1\r\nHost: h\r\nAccept:  x\r\n"
				    "Content-Length: 2\r\nX-Odd:\r\n\r\nab"),
		"POST /a?b HTTP/1.1\r\nHost: h\r\nAccept:  x\r\nX-Odd:\r\n"
		"X-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
		"X-Forwarded-Host: h\r\nX-Forwarded-Port: 80\r\n"
		"Forwarded: for=192.0.2.1;host=h;proto=http\r\nVia: 1.1 edge\r\n"
		"X-Request-Id: 0000000000000000000000000000\r\nContent-Length: 2\r\n\r\nab");
	stage_end(stage);
}

/* The first line and Host, whatever stands before it. */
static void the_target_as_the_route_wants_it(void **state)
{
	static const struct head rows[] = {
		{.request = "GET /a HTTP/1.1\r\nhost: h\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nHost: h\r\n"},
		{.request = "GET /a HTTP/1.1\r\nHost:h\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nHost: h\r\n"},
		{.request = "GET /a HTTP/1.1\r\nHost: h \r\nA: b\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nHost: h\r\nA: b\r\n"},
		{.request = "GET /a HTTP/1.1\r\nA: b\r\nHost: h\r\nC: d\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nHost: h\r\nA: b\r\nC: d\r\n"},
		/* The target's authority is it, whatever Host says. */
		{.request = "GET http://H.test:8/a?q HTTP/1.1\r\nHost: other\r\n\r\n",
			.begins = "GET /a?q HTTP/1.1\r\nHost: H.test:8\r\n",
			.lacks = {"other"}},
		{.request = "GET http://h HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET / HTTP/1.1\r\nHost: h\r\n"},
		{.request = "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "OPTIONS * HTTP/1.1\r\nHost: h\r\n"},
		{.request = "OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "OPTIONS * HTTP/1.1\r\nHost: h\r\n"},
		/* One without a host gets its server's. */
		{.request = "GET /a HTTP/1.0\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nHost: 127.0.0.1:2\r\n",
			.lacks = {"X-Forwarded-Host", "HTTP/1.0"}},
		{.conf = {.more = "[upstream v]\nserver = unix:/none\n[route v]\npath = "
				  "/v/\nupstream = v"},
			.request = "GET /v/ HTTP/1.0\r\n\r\n",
			.begins = "GET /v/ HTTP/1.1\r\nHost: localhost\r\n"},
		/* The path as it came, or in its normal form. */
		{.request = "GET /%61/./b HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /%61/./b HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "forward_path = normal"},
			.request = "GET /%61/./b?c=%61 HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /a/b?c=%61 HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "forward_path = normal"},
			.request = "GET /a/b? HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /a/b? HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api"},
			.request = "GET /api/v1?q HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /v1?q HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api/"},
			.request = "GET /api/v1 HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /v1 HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api"},
			.request = "GET /api HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET / HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api"},
			.request = "GET /apis HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /apis HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api"},
			.request = "GET /ap HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /ap HTTP/1.1\r\nHost: h\r\n"},
		/* It is the normal form that is stripped. */
		{.conf = {.route = "strip_prefix = /api"},
			.request = "GET /x/../%61pi/b HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /b HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "add_prefix = /v2"},
			.request = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /v2/a HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "add_prefix = /v2/"},
			.request = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /v2/a HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api\nadd_prefix = /v2"},
			.request = "GET /api HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /v2 HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api\nadd_prefix = /v2/"},
			.request = "GET /api/a?b HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /v2/a?b HTTP/1.1\r\nHost: h\r\n"},
		{.conf = {.route = "strip_prefix = /api"},
			.request = "GET /api/a? HTTP/1.1\r\nHost: h\r\n\r\n",
			.begins = "GET /a? HTTP/1.1\r\nHost: h\r\n"},
		/* Connection can't take it away. */
		{.request = "GET /a HTTP/1.1\r\nHost: h\r\nConnection: host\r\nA: b\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nHost: h\r\nA: b\r\n"},
		{.conf = {.route = "request_header_set = Host: set.test"},
			.request = "GET /a HTTP/1.1\r\nA: b\r\nHost: h\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nA: b\r\n",
			.has = {"\r\nHost: set.test\r\n"},
			.lacks = {"\r\nHost: h\r\n"}},
		{.conf = {.route = "request_header_set = Host: set.test"},
			.request = "GET /a HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n",
			.begins = "GET /a HTTP/1.1\r\nA: b\r\n",
			.has = {"\r\nHost: set.test\r\n"},
			.lacks = {"\r\nHost: h\r\n"}},

	};

	(void)state;
	CHECK_REQUESTS(rows);
}

static void fields_that_are_not_passed_on(void **state)
{
	static const struct head rows[] = {
		/* Of this hop alone, and what Connection names. */
		{.request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Mine, close\r\nX-Mine: "
			    "1\r\nA: "
			    "b\r\n"
			    "Keep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: x\r\n\r\n",
			.begins = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nX-Forwarded-For: ",
			.lacks = {"Connection", "X-Mine", "Keep-Alive", "TE:"}},
		/* What an untrusted peer claims. */
		{.request = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 9.9.9.9\r\nX-Real-IP: "
			    "9.9.9.9\r\n"
			    "Forwarded: for=9.9.9.9\r\nX-Forwarded-Host: liar\r\nA: b\r\n\r\n",
			.begins = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n",
			.has = {"X-Real-IP: 192.0.2.1\r\n"},
			.lacks = {"9.9.9.9", "liar"}},
		/* Expect is the server's business only with a body. */
		{.request = "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n",
			.lacks = {"Expect"}},
		{.conf = {.route = "request_header_remove = X-A, Accept\nrequest_header_set = X-B: "
				   "mine"},
			.request = "GET / HTTP/1.1\r\nHost: h\r\nx-a: 1\r\nX-B: 2\r\nX-AB: "
				   "3\r\naccept: "
				   "4\r\n\r\n",
			.begins = "GET / HTTP/1.1\r\nHost: h\r\nX-AB: 3\r\nX-Forwarded-For: ",
			.has = {"\r\nX-B: mine\r\n"},
			.lacks = {"x-a", "X-B: 2", "accept"}},
		/* Our own, too. */
		{.conf = {.route = "request_header_remove = X-Real-IP\nrequest_header_set = "
				   "X-Request-Id: "
				   "7"},
			.request = GET,
			.has = {"\r\nX-Request-Id: 7\r\n", "X-Forwarded-For"},
			.lacks = {"X-Real-IP", "X-Request-Id: 00"}},
		{.conf = {.node = "request_id = off\nforwarded = off"},
			.request = "GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: a\r\n\r\n",
			.begins = "GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: a\r\n",
			.lacks = {"Forwarded:", "X-Request-Id: 0"}},
		/* The id's field, under a name that is not known and one that is. */
		{.conf = {.node = "request_id = X-Trace"},
			.request =
				"GET / HTTP/1.1\r\nHost: h\r\nx-trace: abc\r\nx-tracer: 1\r\n\r\n",
			.begins = "GET / HTTP/1.1\r\nHost: h\r\nx-tracer: 1\r\n",
			.has = {"\r\nX-Trace: abc\r\n"},
			.lacks = {"x-trace:"}},
		{.request = "GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: abc\r\n\r\n",
			.lacks = {"\r\nX-Request-Id: abc\r\nX-"},
			.has = {"\r\nX-Request-Id: abc\r\n\r\n"}},

	};

	(void)state;
	CHECK_REQUESTS(rows);
}

static void how_its_body_is_framed(void **state)
{
	static const struct head rows[] = {
		{.request = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
			.has = {"\r\nContent-Length: 0\r\n\r\n"}},
		{.request = GET, .lacks = {"Content-Length", "Transfer-Encoding"}},
		{.conf = {.route = "request_buffering = off"},
			.request = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
				   "chunked\r\nTrailer: "
				   "x\r\n\r\n"
				   "1\r\na\r\n0\r\n\r\n",
			.has = {"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"},
			.lacks = {"Content-Length"}},
		{.conf = {.route = "request_buffering = off"},
			.request = "PUT / HTTP/1.1\r\nHost: h\r\nExpect: "
				   "100-continue\r\nContent-Length: "
				   "5\r\n\r\n",
			.has = {"\r\nExpect: 100-continue\r\n", "\r\nContent-Length: 5\r\n\r\n"}},
		{.request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c, "
			    "WebSocket\r\n\r\n",
			.has = {"\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n"},
			.lacks = {"h2c"}},

	};

	(void)state;
	CHECK_REQUESTS(rows);
}

/* Traces: passed, begun, dropped. */
static void traces(void **state)
{
	static const char given[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const struct head rows[] = {
		{.request = "GET / HTTP/1.1\r\nHost: h\r\ntraceparent: "
			    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
			    "tracestate: a=b\r\n\r\n",
			.has = {given, "tracestate: a=b"}},
		{.request = "GET / HTTP/1.1\r\nHost: h\r\ntraceparent: zz\r\ntracestate: "
			    "a=b\r\n\r\n",
			.lacks = {"traceparent", "tracestate"}},
		{.conf = {.node = "traceparent = begin"},
			.request = GET,
			.has = {"\r\ntraceparent: 00-"}},

	};

	(void)state;
	CHECK_REQUESTS(rows);
}

/* ---- responses ------------------------------------------------------------------------------- */

static void all_of_a_response_line_for_line(void **state)
{
	const struct stage_conf conf = {.node = "via = edge"};
	struct stage *stage;

	(void)state;
	assert_string_equal(passed(&stage, &conf, GET,
				    "HTTP/1.1 200 Fine\r\nDate: today\r\nServer:  s\r\n"
				    "Content-Length: 1\r\nX-Odd:\r\n\r\na"),
		"HTTP/1.1 200 Fine\r\nDate: today\r\nServer:  s\r\nX-Odd:\r\nVia: 1.1 edge\r\n"
		"X-Request-Id: 0000000000000000000000000000\r\nContent-Length: 1\r\n\r\na");
	stage_end(stage);
}

static void what_a_client_gets_and_what_not(void **state)
{
	static const struct head rows[] = {
		{.conf = {.node = "via = edge"},
			.response = "HTTP/1.0 200 OK\r\nVia: 1.1 a\r\nContent-Length: 1\r\n\r\na",
			.begins = "HTTP/1.1 200 OK\r\n",
			.has = {"\r\nVia: 1.1 a, 1.0 edge\r\n", "\r\nDate: "},
			.lacks = {"Via: 1.1 a\r\n"}},
		{.conf = {.node = "via = edge"},
			.response = "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
			.has = {"\r\nVia: 1.0 edge\r\n"}},
		{.response = "HTTP/1.1 200 OK\r\nVia: 1.1 a\r\nContent-Length: 1\r\n\r\na",
			.has = {"\r\nVia: 1.1 a\r\n"},
			.lacks = {"sluice"}},
		{.response = "HTTP/1.1 200 OK\r\nConnection: X-Mine\r\nX-Mine: 1\r\nKeep-Alive: "
			     "5\r\n"
			     "X-Request-Id: theirs\r\nContent-Length: 1\r\n\r\na",
			.has = {"\r\nX-Request-Id: theirs\r\n"},
			.lacks = {"X-Mine", "Keep-Alive", "X-Request-Id: 0"}},
		{.conf = {.listener =
				  "response_header_set = X-L: 1\nresponse_header_remove = Server",
			 .route = "response_header_set = X-R: 2\nresponse_header_remove = Date, "
				  "X-Request-Id"},
			.response =
				"HTTP/1.1 200 OK\r\nserver: s\r\nx-r: 9\r\nDate: d\r\nX-K: k\r\n"
				"Content-Length: 1\r\n\r\na",
			.has = {"\r\nX-L: 1\r\n", "\r\nX-R: 2\r\n", "\r\nX-K: k\r\n"},
			.lacks = {"server", "x-r: 9", "Date", "X-Request-Id"}},
		/* A client of HTTP/1.0 knows no trailers, and says so when it stays. */
		{.request = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
			.response = "HTTP/1.1 200 OK\r\nTrailer: x\r\nContent-Length: 1\r\n\r\na",
			.has = {"\r\nConnection: keep-alive\r\n"},
			.lacks = {"Trailer"}},
		{.response = "HTTP/1.1 200 OK\r\nTrailer: x\r\nContent-Length: 1\r\n\r\na",
			.has = {"\r\nTrailer: x\r\n"},
			.lacks = {"Connection"}},
		{.response = "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
			.lacks = {"Content-Length"}},
		{.response = "HTTP/1.1 204 No\r\n\r\n", .lacks = {"Content-Length"}},
		{.response = "HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n",
			.has = {"\r\nContent-Length: 7\r\n"}},
		{.response = "HTTP/1.1 200 OK\r\n\r\n",
			.has = {"\r\nTransfer-Encoding: chunked\r\n\r\n"},
			.lacks = {"Content-Length"}},

	};

	(void)state;
	CHECK_RESPONSES(rows);
}

/* Fields of the limits are added, and replace those of the server only where they are stricter. */
static void the_fields_of_limits(void **state)
{
	static const char limit[] = "[limit one]\nkey = ip\nrate = 5 per 60s\n";
	static const struct head rows[] = {
		{.conf = {.listener = "ratelimit_headers = x-ratelimit",
			 .route = "limits = one",
			 .more = limit},
			.response = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
			.has = {"X-RateLimit-Limit: 5\r\n", "X-RateLimit-Remaining: 4\r\n"}},
		{.conf = {.listener = "ratelimit_headers = off",
			 .route = "limits = one",
			 .more = limit},
			.response = "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 9\r\nContent-Length: "
				    "1\r\n\r\na",
			.has = {"\r\nX-RateLimit-Limit: 9\r\n"}},
		/* The server admits fewer: its word stays. */
		{.conf = {.listener = "ratelimit_headers = x-ratelimit",
			 .route = "limits = one",
			 .more = limit},
			.response = "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: "
				    "2\r\nX-RateLimit-Remaining: 0\r\n"
				    "X-RateLimit-Reset: 30\r\nContent-Length: 1\r\n\r\na",
			.has = {"X-RateLimit-Remaining: 0\r\n"},
			.lacks = {"X-RateLimit-Remaining: 4"}},
		{.conf = {.listener = "ratelimit_headers = x-ratelimit",
			 .route = "limits = one",
			 .more = limit},
			.response = "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: "
				    "99\r\nX-RateLimit-Remaining: 98\r\n"
				    "X-RateLimit-Reset: 30\r\nContent-Length: 1\r\n\r\na",
			.has = {"X-RateLimit-Remaining: 4\r\n"},
			.lacks = {"98"}},

	};

	(void)state;
	CHECK_RESPONSES(rows);
}

/* Interim responses pass with nothing added; a 101 says what it changes to. */
static void interim_responses_and_upgrades(void **state)
{
	static const struct head rows[] = {
		{.conf = {.node = "via = edge"},
			.response = "HTTP/1.1 103 Early\r\nLink: </a>\r\nConnection: x\r\n\r\n",
			.begins = "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n"},
		{.request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: "
			    "websocket\r\n\r\n",
			.response = "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: "
				    "websocket\r\n\r\n",
			.begins = "HTTP/1.1 101 Go\r\n",
			.has = {"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"},
			.lacks = {"Content-Length"}},

	};

	(void)state;
	CHECK_RESPONSES(rows);
}

/* A head that has no room in the connection's blocks takes memory of its own, or is refused. */
static void long_heads(void **state)
{
	const struct stage_conf conf = {.node = "buffer_size = 16k"};
	struct stage *stage = stage_begin(&conf);
	char *request;

	(void)state;
	assert_true(
		asprintf(&request, "GET / HTTP/1.1\r\nHost: h\r\nX-Long: %07900d\r\n\r\n", 1) > 0);
	flight_begin(stage, request);
	assert_has(stage_server_got(stage, 0), "00001\r\nX-Forwarded-For: ");
	free(request);
	stage_end(stage);
}

static void the_changes_of_listener_and_route(void **state)
{
	const struct stage_conf conf = {.listener = "response_header_remove = X-L",
		.route = "path = /a\nresponse_header_set = X-R: 1"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = stage_request(stage, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	struct http_changes changes = exchange_response_changes(x);
	assert_int_equal(changes.listener_removed->count, 1);
	assert_null(changes.set); /* no route yet */
	exchange_begin(x, x->request.base);
	stage_turn(stage);
	changes = exchange_response_changes(x);
	assert_true(http_changes_touch(&changes, SLICE("x-l")));
	assert_true(http_changes_touch(&changes, SLICE("X-R")));
	assert_false(http_changes_touch(&changes, SLICE("X")));
	stage_end(stage);
}

UNIT_SUITE(test_compose)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_a_request_line_for_line),
		cmocka_unit_test(the_target_as_the_route_wants_it),
		cmocka_unit_test(fields_that_are_not_passed_on),
		cmocka_unit_test(how_its_body_is_framed),
		cmocka_unit_test(traces),
		cmocka_unit_test(all_of_a_response_line_for_line),
		cmocka_unit_test(what_a_client_gets_and_what_not),
		cmocka_unit_test(the_fields_of_limits),
		cmocka_unit_test(interim_responses_and_upgrades),
		cmocka_unit_test(long_heads),
		cmocka_unit_test(the_changes_of_listener_and_route),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
