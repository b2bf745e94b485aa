/* What becomes of a request by its head: framing, target, route, and what follows from each. */
#include "exchange/judge.h"

#include "fakes/stage.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};
static const struct stage_conf routed = {
	.route = "path = /api/\nmethod = GET, POST, OPTIONS\nmax_body_size = 5\nhost = h"};

/* The status that it is answered with; 0: it is on its way to a server. */
static unsigned status_of(const struct stage_conf *conf, const char *request)
{
	struct stage *stage = stage_begin(conf);
	struct exchange *x = stage_ask(stage, request);
	unsigned status = x->answer.status;

	if (status == 0)
		assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_end(stage);
	return status;
}

static void which_requests_pass(void **state)
{
	static const struct {
		const struct stage_conf *conf;
		const char *request;
		unsigned status;
	} rows[] = {
		{&plain, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0},
		{&plain, "GET / HTTP/1.0\r\n\r\n", 0},
		{&plain, "GET / HTTP/1.1\r\n\r\n", 400}, /* no host */
		{&plain, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		{&plain, "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{&plain, "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", 405},
		{&plain, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
		{&plain, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\n\r\n", 417},
		{&routed, "TRACE /api/ HTTP/1.1\r\nHost: h\r\n\r\n", 405},
		{&plain, "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", 405}, /* only where it is listed */
		{&plain, "TRACE / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na", 400},
		{&routed, "GET /api/x HTTP/1.1\r\nHost: h\r\n\r\n", 0},
		{&routed, "GET /other HTTP/1.1\r\nHost: h\r\n\r\n", 404},
		{&routed, "GET /api/x HTTP/1.1\r\nHost: other\r\n\r\n", 404},
		{&routed, "PUT /api/x HTTP/1.1\r\nHost: h\r\n\r\n", 405},
		{&routed, "POST /api/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde", 0},
		{&routed, "POST /api/x HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef",
			413},
		{&routed, "OPTIONS /api/x HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n", 200},
		{&routed, "OPTIONS /api/x HTTP/1.1\r\nHost: h\r\nMax-Forwards: 1\r\n\r\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned status = status_of(rows[i].conf, rows[i].request);
		if (status != rows[i].status)
			fail_msg("%u and not %u: %s", status, rows[i].status, rows[i].request);
	}
}

/* The bytes of the head, in memory of the exchange's: the connection's buffer continues. */
static void its_head_is_its_own(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = stage_request(stage, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
	char *bytes = strndup(x->request.base, x->request.len);

	(void)state;
	assert_non_null(bytes);
	exchange_begin(x, bytes);
	memset(bytes, 'x', x->request.len);
	free(bytes);
	assert_int_equal(x->memory.head_bytes, EXCHANGE_HEAD_BYTES);
	assert_ptr_equal(x->request.base, x->memory.head);
	assert_true(slice_equal(x->facts.method, SLICE("GET")));
	assert_true(slice_equal(x->facts.path, SLICE("/a")));
	assert_true(slice_equal(x->facts.host, SLICE("h")));
	stage_end(stage);
}

static void a_long_head_has_memory_of_its_own(void **state)
{
	struct stage *stage = stage_begin(&plain);
	char request[EXCHANGE_HEAD_BYTES + 100];
	struct exchange *x;

	(void)state;
	/* One byte more than there is room inline. */
	int len = snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: h\r\nX: ");
	memset(request + len, 'x', EXCHANGE_HEAD_BYTES + 1 - 4 - (size_t)len);
	strcpy(request + EXCHANGE_HEAD_BYTES + 1 - 4, "\r\n\r\n");
	x = stage_ask(stage, request);
	assert_int_equal(x->request.len, EXCHANGE_HEAD_BYTES + 1);
	assert_true(x->memory.head_bytes > EXCHANGE_HEAD_BYTES);
	assert_memory_equal(x->memory.head, request, x->request.len);
	client_close(&stage->client.client, "next");
	memmove(request + len, request + len + 1, strlen(request + len));
	x = stage_ask(stage, request);
	assert_int_equal(x->request.len, EXCHANGE_HEAD_BYTES);
	assert_int_equal(x->memory.head_bytes, EXCHANGE_HEAD_BYTES);
	stage_end(stage);
}

/* ---- its name -------------------------------------------------------------------------------- */

static const char *name_of(const struct stage_conf *conf, const char *field)
{
	static char name[200];
	char request[400];
	struct stage *stage = stage_begin(conf);

	snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", field);
	struct exchange *x = stage_ask(stage, request);
	snprintf(name, sizeof(name), "%.*s", SLICE_ARGS(x->request_id));
	stage_end(stage);
	return name;
}

static void it_has_its_clients_name_or_one_of_ours(void **state)
{
	const struct stage_conf off = {.node = "request_id = off"};
	char field[160] = "X-Request-Id: ";

	(void)state;
	assert_string_equal(name_of(&plain, "X-Request-Id: abc-1\r\n"), "abc-1");
	assert_string_equal(name_of(&plain, ""), "0000000000000000000000000000");
	assert_string_equal(
		name_of(&plain, "X-Request-Id: a b\r\n"), "0000000000000000000000000000");
	assert_string_equal(
		name_of(&plain, "X-Request-Id: a\"b\r\n"), "0000000000000000000000000000");
	assert_string_equal(name_of(&plain, "X-Request-Id: \r\n"), "0000000000000000000000000000");
	assert_string_equal(name_of(&off, "X-Request-Id: abc-1\r\n"), "");
	memset(field + 14, 'y', 129);
	strcpy(field + 14 + 128, "\r\n");
	assert_int_equal(strlen(name_of(&plain, field)), 128);
	assert_int_equal(name_of(&plain, field)[0], 'y');
	strcpy(field + 14 + 128, "y\r\n");
	assert_int_equal(strlen(name_of(&plain, field)), WORKER_REQUEST_ID_BYTES);
}

static void no_two_have_the_same_name(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *first = stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	struct exchange *second = stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	assert_false(slice_equal(first->request_id, second->request_id));
	stage_end(stage);
}

/* ---- the connection -------------------------------------------------------------------------- */

static const char *asked_of_client(const char *request)
{
	static char trace[1024];
	struct stage *stage = stage_begin(&plain);

	stage_ask(stage, request);
	snprintf(trace, sizeof(trace), "%s", stage->client.trace);
	stage_end(stage);
	return trace;
}

static void what_the_connection_learns(void **state)
{
	(void)state;
	assert_string_equal(asked_of_client("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "read ");
	/* No request is behind this one. */
	assert_string_equal(
		asked_of_client("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
		"finish read ");
	assert_string_equal(asked_of_client("GET / HTTP/1.0\r\n\r\n"), "finish read ");
	assert_string_equal(
		asked_of_client("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), "read ");
	/* A malformed one: where the next would begin is not known. */
	assert_has(asked_of_client("GET / HTTP/1.1\r\n\r\n"), "finish ");
	/* A method that is not served is no reason to close. */
	assert_lacks(asked_of_client("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n"), "finish ");
	assert_lacks(asked_of_client("CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n"), "finish ");
	/* A body that is still to come. */
	assert_string_equal(
		asked_of_client("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"), "");
}

static void malformed_ones_are_counted(void **state)
{
	struct stage *stage = stage_begin(&plain);

	(void)state;
	stage_ask(stage, "GET / HTTP/1.1\r\n\r\n");
	assert_int_equal(stage_count(stage, STATS_MALFORMED), 1);
	stage_ask(stage, "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_int_equal(stage_count(stage, STATS_MALFORMED), 1);
	stage_end(stage);
}

/* ---- whose it is ----------------------------------------------------------------------------- */

static const struct stage_conf trusting = {.listener = "trusted_proxies = 192.0.2.0/24"};

static void the_caller_is_whom_a_trusted_peer_names(void **state)
{
	static const uint8_t peer[] = {192, 0, 2, 1}, named[] = {198, 51, 100, 7};
	static const char request[] =
		"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n";
	struct stage *stage = stage_begin(&plain);

	(void)state;
	assert_memory_equal(stage_ask(stage, request)->facts.address + 12, peer, 4);
	stage_end(stage);
	stage = stage_begin(&trusting);
	assert_memory_equal(stage_ask(stage, request)->facts.address + 12, named, 4);
	stage_end(stage);
}

static void what_looks_like_another_field_is_dropped(void **state)
{
	const struct stage_conf passing = {.listener = "lookalike_fields = pass"};
	static const char request[] =
		"GET / HTTP/1.1\r\nHost: h\r\nX_Forwarded_For: 198.51.100.7\r\n\r\n";

	(void)state;
	for (unsigned passes = 0; passes < 2; passes++) {
		struct stage *stage = stage_begin(passes ? &passing : &plain);
		stage_ask(stage, request);
		const char *got = stage_server_got(stage, 0);
		assert_int_equal(strstr(got, "X_Forwarded_For") != NULL, passes);
		stage_end(stage);
	}
}

/* ---- what its route says --------------------------------------------------------------------- */

static void the_route_sets_what_follows(void **state)
{
	const struct stage_conf conf = {
		.route = "path = /a/\nratelimit_headers = off\nupgrade = websocket",
		.more = "[route other]\nupstream = u\npath = /b/\nupgrade = off\n"};
	static const char upgrade[] = "Connection: upgrade\r\nUpgrade: websocket\r\n"
				      "Sec-WebSocket-Version: 13\r\n"
				      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

	(void)state;
	for (unsigned other = 0; other < 2; other++) {
		char request[400];
		struct stage *stage = stage_begin(&conf);
		snprintf(request, sizeof(request), "GET /%c/ HTTP/1.1\r\nHost: h\r\n%s",
			other ? 'b' : 'a', upgrade);
		struct exchange *x = stage_ask(stage, request);
		assert_string_equal(x->route->name, other ? "other" : "r");
		assert_ptr_equal(x->upstream, stage->daemon.site->upstreams[0]);
		assert_int_equal(x->framing.upgrade, !other);
		assert_int_equal(x->dialect == CONF_RATELIMIT_OFF, !other);
		stage_end(stage);
	}
}

static void another_method_is_told_which_there_are(void **state)
{
	struct stage *stage = stage_begin(&routed);

	(void)state;
	stage_ask(stage, "PUT /api/ HTTP/1.1\r\nHost: h\r\n\r\n");
	const char *got = stage_client_got(stage);
	assert_has(got, "Allow: GET, ");
	assert_lacks(got, "DELETE");
	stage_end(stage);
}

static void what_its_limits_refuse_goes_no_further(void **state)
{
	const struct stage_conf conf = {
		.route = "limits = one", .more = "[limit one]\nkey = ip\nrate = 1 per 1h\n"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *first = stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	struct exchange *second = stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	assert_int_equal(second->state, EXCHANGE_REPLYING);
	assert_int_equal(second->answer.status, 429);
	assert_false(exchange_is_queued(second));
	stage_end(stage);
}

/* Servers may take this path for one of the other route. */
static void a_path_that_can_be_read_in_two_ways(void **state)
{
	const struct stage_conf conf = {.route = "path = /",
		.more = "[route admin]\nupstream = u\npath = /admin/\n"
			"deny = 198.51.100.0/24\n"};

	(void)state;
	assert_int_equal(status_of(&conf, "GET //admin/ HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
	assert_int_equal(status_of(&plain, "GET //admin/ HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
	assert_int_equal(status_of(&conf, "GET /x;y HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
}

static void a_probe_is_answered_before_any_route(void **state)
{
	const struct stage_conf conf = {.listener = "health = on", .route = "path = /api/"};

	(void)state;
	assert_int_equal(status_of(&conf, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
	assert_int_equal(status_of(&conf, "GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
	assert_int_equal(status_of(&routed, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"), 404);
}

static void a_trace_context_is_begun_where_it_is_due(void **state)
{
	const struct stage_conf begins = {.node = "traceparent = begin"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct stage *stage = stage_begin(i ? &begins : &plain);
		struct exchange *x = stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
		assert_int_equal(x->text.trace, i ? TRACE_BEGUN : TRACE_NONE);
		stage_end(stage);
	}
}

UNIT_SUITE(test_judge)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_requests_pass),
		cmocka_unit_test(its_head_is_its_own),
		cmocka_unit_test(a_long_head_has_memory_of_its_own),
		cmocka_unit_test(it_has_its_clients_name_or_one_of_ours),
		cmocka_unit_test(no_two_have_the_same_name),
		cmocka_unit_test(what_the_connection_learns),
		cmocka_unit_test(malformed_ones_are_counted),
		cmocka_unit_test(the_caller_is_whom_a_trusted_peer_names),
		cmocka_unit_test(what_looks_like_another_field_is_dropped),
		cmocka_unit_test(the_route_sets_what_follows),
		cmocka_unit_test(another_method_is_told_which_there_are),
		cmocka_unit_test(what_its_limits_refuse_goes_no_further),
		cmocka_unit_test(a_path_that_can_be_read_in_two_ways),
		cmocka_unit_test(a_probe_is_answered_before_any_route),
		cmocka_unit_test(a_trace_context_is_begun_where_it_is_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
