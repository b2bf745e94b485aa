/* What HTTP/1 makes of an exchange's response: interim heads, the head and what of the body leaves
 * with it, answers of our own, the head of a 101. */
#include "http1/http1_response.h"

#include "http/problem.h"
#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/suite.h"
#include "upstream/server.h"

#define GET_1_0 "GET / HTTP/1.0\r\nHost: h\r\n\r\n"
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static const struct stage_conf plain = {0};

/* ---- interim responses ----------------------------------------------------------------------- */

/* Its server's head is this one, which was read and not acted on. */
static struct exchange *with_head(struct stage *stage, const char *request, const char *head)
{
	struct exchange *x = flight_begin(stage, request);

	stage_server_sends(stage, stage->server_count - 1, head);
	assert_int_equal(server_read_head(x->connection), SERVER_HEAD_READ);
	assert_true(http_frame_response(x->response, x->request.method, &x->response_framing));
	return x;
}

static void a_100_of_our_own(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	assert_int_equal(http1_interim(&stage->client.sink, x, true), CLIENT_INTERIM_PASSED);
	assert_string_equal(stage_client_got(stage), "HTTP/1.1 100 Continue\r\n\r\n");
	stage_end(stage);
}

static void a_servers_interim_head_passes(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = with_head(
		stage, GET, "HTTP/1.1 103 Early\r\nLink: a\r\nConnection: B\r\nB: c\r\n\r\n");
	const char *got;

	(void)state;
	assert_int_equal(http1_interim(&stage->client.sink, x, false), CLIENT_INTERIM_PASSED);
	got = stage_client_got(stage);
	assert_int_equal(strncmp(got, "HTTP/1.1 103 Early\r\n", 20), 0);
	assert_has(got, "\r\nLink: a\r\n");
	assert_lacks(got, "\r\nB: c");
	assert_lacks(got, "chunked");
	assert_string_equal(got + strlen(got) - 4, "\r\n\r\n");
	stage_end(stage);
}

static void a_client_of_http_1_0_knows_none(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = with_head(stage, GET_1_0, "HTTP/1.1 103 Early\r\n\r\n");

	(void)state;
	assert_int_equal(http1_interim(&stage->client.sink, x, false), CLIENT_INTERIM_UNKNOWN);
	assert_string_equal(stage_client_got(stage), "");
	stage_end(stage);
}

/* Not while another's response is due, or bytes of one are still borrowed. */
static void none_is_written_before_its_turn(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *first = flight_begin(stage, GET);
	struct exchange *second = stage_ask(stage, GET);

	(void)state;
	assert_int_equal(http1_interim(&stage->client.sink, second, false), CLIENT_INTERIM_EARLY);
	assert_int_equal(http1_interim(&stage->client.sink, second, true), CLIENT_INTERIM_EARLY);
	stage->client.out.body = SLICE("borrowed");
	assert_int_equal(http1_interim(&stage->client.sink, first, true), CLIENT_INTERIM_EARLY);
	stage->client.out.body = SLICE_NONE;
	assert_string_equal(stage_client_got(stage), "");
	assert_int_equal(http1_interim(&stage->client.sink, first, true), CLIENT_INTERIM_PASSED);
	stage_end(stage);
}

/* ---- a response's head ----------------------------------------------------------------------- */

/* As http1_head has left it. */
static struct {
	enum pump_result result;
	bool joined, close_client, ends_body;
	size_t flow_bytes;
} left;

static enum pump_result head(struct client *client, struct exchange *x)
{
	struct stage_client *c = CONTAINER_OF(client, struct stage_client, client);

	left.result = http1_head(&c->sink, x);
	left.joined = x->answer.progress == ANSWER_JOINED;
	left.close_client = x->close_client;
	left.ends_body = c->sink.by_close;
	left.flow_bytes = flow_bytes(&c->out);
	return left.result;
}

static struct stage *begin(struct client_calls *calls)
{
	struct stage *stage = stage_begin(&plain);

	*calls = *stage->client.client.calls;
	calls->head = head;
	stage->client.client.calls = calls;
	return stage;
}

static void how_the_client_reads_its_body(void **state)
{
	static const struct {
		const char *request, *response, *has, *ends;
		bool by_close;
	} rows[] = {
		{GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "\r\nContent-Length: 2\r\n",
			"\r\n\r\nab", false},
		{GET, CHUNKED "2\r\nab\r\n0\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n",
			"\r\n\r\n2\r\nab\r\n0\r\n\r\n", false},
		{GET, "HTTP/1.0 200 OK\r\n\r\nab", "\r\nTransfer-Encoding: chunked\r\n",
			"\r\n\r\n2\r\nab\r\n", false},
		{GET, "HTTP/1.1 204 No\r\n\r\n", "HTTP/1.1 204 No\r\n", "\r\n\r\n", false},
		{GET_1_0, CHUNKED "2\r\nab\r\n0\r\n\r\n", "\r\nConnection: close\r\n", "\r\n\r\nab",
			true},
		{GET_1_0, "HTTP/1.0 200 OK\r\n\r\nab", "\r\nConnection: close\r\n", "\r\n\r\nab",
			true},
		{GET_1_0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
			"\r\nContent-Length: 2\r\n", "\r\n\r\nab", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct client_calls calls;
		struct stage *stage = begin(&calls);
		flight_answer(stage, flight_begin(stage, rows[i].request), rows[i].response);
		const char *got = stage_client_got(stage);
		assert_has(got, rows[i].has);
		assert_string_equal(got + strlen(got) - strlen(rows[i].ends), rows[i].ends);
		if (rows[i].by_close)
			assert_lacks(got, "chunked");
		assert_int_equal(left.ends_body, rows[i].by_close);
		if (rows[i].by_close)
			assert_true(left.close_client);
		stage_end(stage);
	}
}

/* A response that is here whole and short waits for others of its turn. */
static void which_responses_are_joined(void **state)
{
	static const struct {
		const char *head;
		size_t body, of;
		bool joined;
	} rows[] = {
		{"HTTP/1.1 204 No\r\n\r\n", 0, 0, true},
		{NULL, 2, 2, true},
		{NULL, 2, 3, false},
		{NULL, 10 * 1024, 10 * 1024, true},
		{NULL, 12 * 1024, 12 * 1024, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct client_calls calls;
		struct stage *stage = begin(&calls);
		char *bytes = NULL;
		if (rows[i].head)
			assert_true(asprintf(&bytes, "%s", rows[i].head) > 0);
		else
			assert_true(asprintf(&bytes,
					    "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%0*d",
					    rows[i].of, (int)rows[i].body, 0) > 0);
		flight_answer(stage, flight_begin(stage, GET), bytes);
		if (left.joined != rows[i].joined)
			fail_msg("row %zu is joined: %d", i, left.joined);
		free(bytes);
		stage_end(stage);
	}
}

/* Not a byte of its head stays: another head can take its place. */
static void with_a_malformed_body_nothing_is_composed(void **state)
{
	struct client_calls calls;
	struct stage *stage = begin(&calls);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flow_append(&stage->client.out, &stage->worker->blocks, SLICE("before"));
	flight_answer(stage, x, CHUNKED "oh\r\n");
	assert_int_equal(left.result, PUMP_SOURCE_BROKEN);
	assert_int_equal(left.flow_bytes, strlen("before"));
	const char *got = stage_client_got(stage);
	assert_int_equal(strncmp(got, "beforeHTTP/1.1 502 ", 19), 0);
	assert_lacks(got, "200");
	stage_end(stage);
}

/* ---- answers of our own ---------------------------------------------------------------------- */

static void what_an_answer_says(void **state)
{
	static const struct {
		const char *request, *outcome;
		unsigned status;
		const char *has, *lacks;
	} rows[] = {
		{GET, "no server", 503, "HTTP/1.1 503 ", "Servers may read"},
		{GET, "ambiguous path", 400, "Servers may read", "Allow:"},
		{GET, "ambiguous path", 502, "HTTP/1.1 502 ", "Servers may read"},
		{GET, "unknown key", 403, "has been revoked", "Allow:"},
		{GET, "unknown key", 405, "\r\nAllow: ", "has been revoked"},
		{GET, "websocket version", 426, "\r\nSec-WebSocket-Version: 13\r\n", "Allow:"},
		{GET, "websocket version", 426, "\r\nConnection: upgrade\r\nUpgrade: websocket\r\n",
			"Allow:"},
		{GET, "websocket origin", 403, "this origin", "Upgrade:"},
		{"GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", "no server", 503,
			"\r\nConnection: keep-alive\r\n", "close"},
		{"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", "no server", 503, "HTTP/1.1 503 ", "{"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stage *stage = stage_begin(&plain);
		struct exchange *x = flight_begin(stage, rows[i].request);
		x->answer.status = rows[i].status;
		x->outcome = rows[i].outcome;
		assert_true(http1_reply(&stage->client.sink, x));
		const char *got = stage_client_got(stage);
		assert_has(got, rows[i].has);
		assert_lacks(got, rows[i].lacks);
		const char *body = strstr(got, "\r\n\r\n");
		assert_non_null(body);
		assert_int_equal(x->answer.reply_bytes, strlen(body + 4));
		stage_end(stage);
	}
}

static void one_that_closes_says_so(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	x->answer.status = 503;
	x->outcome = "no server";
	x->answer.retry_after_ms = 1500;
	x->close_client = true;
	assert_true(http1_reply(&stage->client.sink, x));
	const char *got = stage_client_got(stage);
	assert_has(got, "\r\nConnection: close\r\n");
	assert_has(got, "\r\nRetry-After: 2\r\n");
	stage_end(stage);
}

/* ---- a 101 ----------------------------------------------------------------------------------- */

static void the_head_of_a_101(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = with_head(stage,
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");

	(void)state;
	assert_true(http1_switch(&stage->client.sink, x));
	const char *got = stage_client_got(stage);
	assert_int_equal(strncmp(got, "HTTP/1.1 101 Go\r\n", 17), 0);
	assert_has(got, "pgrade: websocket\r\n");
	assert_has(got, "\r\nConnection: ");
	assert_lacks(got, "chunked");
	stage_end(stage);
}

UNIT_SUITE(test_http1_response)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_100_of_our_own),
		cmocka_unit_test(a_servers_interim_head_passes),
		cmocka_unit_test(a_client_of_http_1_0_knows_none),
		cmocka_unit_test(none_is_written_before_its_turn),
		cmocka_unit_test(how_the_client_reads_its_body),
		cmocka_unit_test(which_responses_are_joined),
		cmocka_unit_test(with_a_malformed_body_nothing_is_composed),
		cmocka_unit_test(what_an_answer_says),
		cmocka_unit_test(one_that_closes_says_so),
		cmocka_unit_test(the_head_of_a_101),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
