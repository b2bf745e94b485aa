/* Answers of our own: what they say, when they are sent, and what becomes of the connection and of
 * a body that nobody wants. */
#include "exchange/reply.h"

#include "fakes/stage.h"
#include "http/problem.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define REPLY "HTTP/1.1 "

static const struct stage_conf plain = {.route = "request_buffering = off"};

/* A request as the connection reads it, framed and not judged. */
static struct exchange *given(struct stage *stage, const char *bytes)
{
	struct exchange *x = stage_request(stage, bytes);

	assert_int_equal(http_frame_request(&x->request, &x->framing), 0);
	x->close_client = !x->framing.keep_alive;
	x->request_progress = x->framing.body == HTTP_BODY_NONE ? REQUEST_READ : REQUEST_READING;
	return x;
}

static void an_answer_is_sent_and_the_connection_goes_on(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	exchange_reply(x, 503, "overload", 1001);
	const char *got = stage_client_got(stage);
	assert_has(got, REPLY "503 Service Unavailable\r\n");
	assert_has(got, "Retry-After: 2\r\n"); /* whole seconds, up */
	assert_has(got, "\"retry-after-ms\":1001");
	assert_has(got, "Date: Wed, 18 Nov 2026 11:06:40 GMT\r\n");
	assert_lacks(got, "Connection:");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_string_equal(stage->client.trace, "read ended ");
	char status_and_bytes[40];
	snprintf(status_and_bytes, sizeof(status_and_bytes), "\" 503 %zu \"",
		strlen(strstr(got, "\r\n\r\n") + 4));
	assert_has(lines.text, status_and_bytes);
	assert_has(lines.text, "outcome=\"overload\"");
	stage_end(stage);
}

static void without_a_time_nothing_is_said_of_one(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	exchange_reply(x, 404, "no route", HTTP_PROBLEM_NO_RETRY);
	const char *got = stage_client_got(stage);
	assert_has(got, REPLY "404 ");
	assert_lacks(got, "etry");
	stage_end(stage);
}

static void it_waits_until_it_is_the_first(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *first = given(stage, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
	struct exchange *second = given(stage, "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	exchange_reply(second, 404, "second", HTTP_PROBLEM_NO_RETRY);
	assert_int_equal(second->state, EXCHANGE_REPLYING);
	reply_if_first(second);
	assert_string_equal(stage_client_got(stage), "");
	assert_true(stage->client.client.again); /* the connection may read on */
	exchange_reply(first, 503, "first", HTTP_PROBLEM_NO_RETRY);
	assert_has(stage_client_got(stage), REPLY "503 ");
	reply_if_first(second);
	assert_has(stage_client_got(stage), REPLY "404 ");
	assert_int_equal(second->state, EXCHANGE_ENDED);
	stage_end(stage);
}

/* The connection knows at once that nothing is to be read behind it. */
static void one_that_closes_says_so_before_it_is_sent(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x;

	(void)state;
	given(stage, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
	x = given(stage, "GET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	exchange_reply(x, 404, "second", HTTP_PROBLEM_NO_RETRY);
	assert_string_equal(stage->client.trace, "read finish ");
	stage_end(stage);
}

static void only_an_answer_of_our_own_is_sent(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	x->answer.status = 404;
	reply_if_first(x);
	assert_string_equal(stage_client_got(stage), "");
	assert_int_equal(x->state, EXCHANGE_HEAD);
	stage_end(stage);
}

/* What is borrowed for the response before it lies where the answer would be composed. */
static void it_waits_behind_what_is_borrowed(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	stage->client.out.body = SLICE("rest");
	exchange_reply(x, 404, "x", HTTP_PROBLEM_NO_RETRY);
	assert_int_equal(x->state, EXCHANGE_REPLYING);
	assert_string_equal(stage_client_got(stage), "rest");
	reply_if_first(x);
	assert_has(stage_client_got(stage), REPLY "404 ");
	stage_end(stage);
}

static void a_client_that_has_left_gets_none(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	x->state = EXCHANGE_CONNECTING;
	stage->client.client.first = stage->client.last = NULL;
	x->client = NULL;
	exchange_reply(x, 502, "servers failed", HTTP_PROBLEM_NO_RETRY);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_has(lines.text, "outcome=\"servers failed\"");
	assert_string_equal(stage_client_got(stage), "");
	stage_end(stage);
}

/* A second status line would be taken for the body of the response that has begun. */
static void what_has_begun_is_cut(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	x->answer.progress = ANSWER_BEGUN;
	exchange_reply(x, 502, "too late", HTTP_PROBLEM_NO_RETRY);
	assert_string_equal(stage->client.trace, "close(too late) ");
	assert_string_equal(stage_client_got(stage), "");
	stage_end(stage);
}

static void a_malformed_request_ends_the_connection(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	exchange_reject(x, 400, "malformed request");
	const char *got = stage_client_got(stage);
	assert_has(got, REPLY "400 ");
	assert_has(got, "Connection: close\r\n");
	assert_has(stage->client.trace, "finish ");
	assert_int_equal(stage_count(stage, STATS_MALFORMED), 1);
	stage_end(stage);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void a_short_body_is_thrown_away(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x =
		given(stage, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab");

	(void)state;
	exchange_reply(x, 429, "limit", 1000);
	/* The answer is out at once, and the exchange stays for the rest. */
	assert_has(stage_client_got(stage), REPLY "429 ");
	assert_int_equal(x->state, EXCHANGE_REPLYING);
	reply_discard_body(x);
	assert_false(exchange_has_request(x));
	stage_client_sends(stage, "cdef");
	reply_discard_body(x);
	assert_true(exchange_has_request(x));
	reply_if_first(x);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_string_equal(stage->client.trace, "read ended ");
	assert_string_equal(stage_client_got(stage), ""); /* once */
	assert_int_equal(x->up.content_bytes, 6);
	stage_end(stage);
}

static void a_body_that_was_begun_goes_on_where_it_was(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x =
		given(stage, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\ncd");

	(void)state;
	x->up.source = client_open_body(x->client, x); /* two bytes of it have left */
	x->up.source->left = 4;
	x->up.content_bytes = 2;
	exchange_reply(x, 503, "x", 1000);
	stage_client_sends(stage, "ef");
	reply_discard_body(x);
	assert_true(exchange_has_request(x));
	assert_int_equal(x->up.content_bytes, 6);
	stage_end(stage);
}

/* Is the connection kept, once the request with this head is answered? */
static bool is_kept(const char *head)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, head);

	exchange_reply(x, 404, "x", HTTP_PROBLEM_NO_RETRY);
	const char *got = stage_client_got(stage);
	assert_has(got, REPLY "404 ");
	bool kept = !strstr(got, "Connection: close");
	assert_int_equal(kept, !strstr(stage->client.trace, "finish"));
	assert_int_equal(kept, x->state == EXCHANGE_REPLYING);
	assert_int_equal(kept, x->up.source != NULL);
	stage_end(stage);
	return kept;
}

static void which_bodies_are_worth_reading(void **state)
{
	(void)state;
	assert_true(is_kept("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n"));
	assert_false(is_kept("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n"));
	assert_false(is_kept("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"));
	assert_false(is_kept("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
			     "1\r\na\r\n0\r\n"));
	assert_true(is_kept("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
			    "1\r\na\r\n0\r\n\r\n"));
	assert_false(is_kept("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
			     "Content-Length: 5\r\n\r\n"));
	assert_false(is_kept("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
			     "Content-Length: 5\r\n\r\n"));
}

static void a_client_that_stops_in_its_body_is_finished(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x =
		given(stage, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab");

	(void)state;
	exchange_reply(x, 404, "x", HTTP_PROBLEM_NO_RETRY);
	memory_peer_end_output(stage->client.wire);
	reply_discard_body(x);
	assert_null(x->up.source);
	assert_has(stage->client.trace, "finish ");
	reply_if_first(x); /* nothing more to wait for */
	assert_int_equal(x->state, EXCHANGE_ENDED);
	stage_end(stage);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static const char *said(const struct stage_conf *conf, const char *head, unsigned status,
	const char *why, struct stage **stage)
{
	*stage = stage_begin(conf);
	struct exchange *x = given(*stage, head);

	exchange_reply(x, status, why, HTTP_PROBLEM_NO_RETRY);
	return stage_client_got(*stage);
}

static void the_details_of_what_a_caller_can_mend(void **state)
{
	static const struct {
		unsigned status;
		const char *why, *says;
	} rows[] = {
		{400, "ambiguous path", "Servers may read this path differently"},
		{400, "ambiguous key", "The caller's key appears more than once"},
		{403, "unknown key", "The key is not known"},
		{400, "path too costly to match", "This path cannot be matched in time"},
		{400, "malformed body", "The request is not valid HTTP."},
		{404, "ambiguous path",
			"No route serves this host and path."}, /* no detail of 404 */
	};
	struct stage *stage;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_has(said(&plain, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", rows[i].status,
				   rows[i].why, &stage),
			rows[i].says);
		stage_end(stage);
	}
}

static void the_methods_that_there_are(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "POST / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	x->facts.allow = UINT64_C(1) << HTTP_METHOD_GET | UINT64_C(1) << HTTP_METHOD_HEAD;
	exchange_reply(x, 405, "method not allowed", HTTP_PROBLEM_NO_RETRY);
	assert_has(stage_client_got(stage), "Allow: GET, HEAD\r\n");
	stage_end(stage);
	/* Where no route says, those that are usual. */
	const char *got = said(
		&plain, "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", 405, "method not allowed", &stage);
	assert_has(got, "Allow: ");
	assert_has(got, "DELETE");
	assert_lacks(got, "TRACE");
	stage_end(stage);
	assert_has(said(&plain, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 200, "options", &stage),
		"Allow: ");
	stage_end(stage);
	assert_lacks(said(&plain, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 404, "x", &stage), "Allow:");
	stage_end(stage);
}

static void a_head_request_gets_no_body(void **state)
{
	struct stage *stage;
	const char *got =
		said(&plain, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", 404, "no route", &stage);

	(void)state;
	assert_has(got, "Content-Length: ");
	assert_lacks(got, "Content-Length: 0");
	assert_lacks(got, "{");
	assert_string_equal(got + strlen(got) - 4, "\r\n\r\n");
	stage_end(stage);
}

static void clients_of_http_1_0(void **state)
{
	struct stage *stage;

	(void)state;
	assert_has(
		said(&plain, "GET / HTTP/1.0\r\n\r\n", 404, "x", &stage), "Connection: close\r\n");
	stage_end(stage);
	assert_has(
		said(&plain, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 404, "x", &stage),
		"Connection: keep-alive\r\n");
	stage_end(stage);
}

static void the_fields_of_listener_and_site(void **state)
{
	const struct stage_conf conf = {
		.listener = "response_header_set = X-Edge: yes\nresponse_header_remove = Date"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = given(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	x->request_id = SLICE("the-id");
	exchange_reply(x, 404, "x", HTTP_PROBLEM_NO_RETRY);
	const char *got = stage_client_got(stage);
	assert_has(got, "X-Edge: yes\r\n");
	assert_has(got, "X-Request-Id: the-id\r\n");
	assert_lacks(got, "Date:");
	stage_end(stage);
}

/* The limits' fields, and which was violated, as the exchange's way through its gate says. */
static void a_refusal_names_its_limit(void **state)
{
	const struct stage_conf conf = {
		.more = "[limit two]\nkey = ip\nrate = 2 per 1h\n", .route = "limits = two"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
		client_close(&stage->client.client, "next");
	}
	stage_ask(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	const char *got = stage_client_got(stage);
	assert_has(got, REPLY "429 ");
	assert_has(got, "\"violated-policies\":[\"two\"]");
	assert_has(got, "RateLimit-Policy: \"two\";q=2;w=3600");
	assert_has(got, "Retry-After: 3");
	stage_end(stage);
}

static void a_key_is_asked_for(void **state)
{
	const struct stage_conf conf = {
		.more = "[plans]\nkey = header:X-Api-Key\nunknown = refuse\n"
			"[plan default]\nlimits = one\n"
			"[limit one]\nkey = ip\nrate = 1 per 1h\n",
		.route = "limits = plan"};
	struct stage *stage;

	(void)state;
	assert_has(said(&conf, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 401, "no key", &stage),
		"WWW-Authenticate: ");
	stage_end(stage);
	assert_lacks(said(&conf, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 403, "denied", &stage),
		"WWW-Authenticate: ");
	stage_end(stage);
}

static void the_last_answer_of_a_drain_says_so(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = given(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	stage->worker->draining = true;
	exchange_reply(x, 404, "x", HTTP_PROBLEM_NO_RETRY);
	assert_lacks(stage_client_got(stage), "Connection: close\r\n");
	x = given(stage, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	stage->client.is_last = true;
	exchange_reply(x, 404, "x", HTTP_PROBLEM_NO_RETRY);
	assert_has(stage_client_got(stage), "Connection: close\r\n");
	stage_end(stage);
}

UNIT_SUITE(test_reply)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_sent_and_the_connection_goes_on),
		cmocka_unit_test(without_a_time_nothing_is_said_of_one),
		cmocka_unit_test(it_waits_until_it_is_the_first),
		cmocka_unit_test(one_that_closes_says_so_before_it_is_sent),
		cmocka_unit_test(only_an_answer_of_our_own_is_sent),
		cmocka_unit_test(it_waits_behind_what_is_borrowed),
		cmocka_unit_test(a_client_that_has_left_gets_none),
		cmocka_unit_test(what_has_begun_is_cut),
		cmocka_unit_test(a_malformed_request_ends_the_connection),
		cmocka_unit_test(a_short_body_is_thrown_away),
		cmocka_unit_test(a_body_that_was_begun_goes_on_where_it_was),
		cmocka_unit_test(which_bodies_are_worth_reading),
		cmocka_unit_test(a_client_that_stops_in_its_body_is_finished),
		cmocka_unit_test(the_details_of_what_a_caller_can_mend),
		cmocka_unit_test(the_methods_that_there_are),
		cmocka_unit_test(a_head_request_gets_no_body),
		cmocka_unit_test(clients_of_http_1_0),
		cmocka_unit_test(the_fields_of_listener_and_site),
		cmocka_unit_test(a_refusal_names_its_limit),
		cmocka_unit_test(a_key_is_asked_for),
		cmocka_unit_test(the_last_answer_of_a_drain_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
