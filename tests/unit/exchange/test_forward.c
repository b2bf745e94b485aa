/* The request up to its server and the response's head from there: what is sent when, how long the
 * server has for it, and what is tried again after a failure. */
#include "exchange/forward.h"

#include "exchange/judge.h"
#include "fakes/flight.h"
#include "stats/stats.h"
#include "upstream/server.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};
static const struct stage_conf placed = {.upstream = "max_in_flight = 1"};
static const struct stage_conf two = {
	.upstream = "server = 127.0.0.1:3\nbalance = hash\nhash_key = path"};
static const struct stage_conf streamed = {.route = "request_buffering = off",
	.upstream = "send_timeout = 3s\nfirst_byte_timeout = 5s"};

#define PUT(n, body) "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: " #n "\r\n\r\n" body
#define CHUNKED      "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
#define DONE         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

/* ---- up -------------------------------------------------------------------------------------- */

static void a_request_leaves_with_what_is_here_of_its_body(void **state)
{
	struct stage *stage = stage_begin(&streamed);
	struct exchange *x = flight_begin(stage, PUT(5, "abc"));

	(void)state;
	const char *got = stage_server_got(stage, 0);
	assert_has(got, "PUT / HTTP/1.1\r\n");
	assert_has(got, "\r\n\r\nabc");
	assert_true(x->attempt.reach >= REACH_SENT);
	assert_int_equal(x->attempt.reach, REACH_LEFT);
	assert_false(exchange_has_sent(x));
	assert_int_equal(x->connection->wait.reason, WAIT_NONE); /* the client's time runs */
	stage_client_sends(stage, "de");
	flight_run(stage, x);
	assert_string_equal(stage_server_got(stage, 0), "de");
	assert_true(exchange_has_sent(x));
	assert_true(exchange_has_request(x));
	assert_string_equal(stage->client.trace, "read ");
	assert_int_equal(x->connection->wait.reason, WAIT_RESPONSE);
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 5000);
	stage_end(stage);
}

static void chunks_are_framed_again(void **state)
{
	struct stage *stage = stage_begin(&streamed);
	struct exchange *x = flight_begin(stage, CHUNKED "3;x=y\r\nabc\r\n");

	(void)state;
	assert_has(stage_server_got(stage, 0), "\r\n\r\n3\r\nabc\r\n");
	stage_client_sends(stage, "0\r\n\r\n");
	flight_run(stage, x);
	assert_string_equal(stage_server_got(stage, 0), "0\r\n\r\n");
	stage_end(stage);
}

static void requests_of_one_round_leave_at_its_end(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = stage_request(stage, GET);

	(void)state;
	exchange_begin(x, x->request.base);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_string_equal(stage_server_got(stage, 0), "");
	assert_true(x->connection->unsent);
	exchange_run(x); /* not before it */
	assert_string_equal(stage_server_got(stage, 0), "");
	server_send_all(stage->worker);
	assert_has(stage_server_got(stage, 0), "GET / HTTP/1.1\r\n");
	assert_null(upstream_part(stage->worker)->unsent);
	assert_ptr_equal(
		upstream_part(stage->worker)->unsent_end, &upstream_part(stage->worker)->unsent);
	stage_end(stage);
}

static void one_that_was_cut_before_is_not_sent(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = stage_request(stage, GET);

	(void)state;
	exchange_begin(x, x->request.base);
	client_close(&stage->client.client, "left");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	server_send_all(stage->worker);
	assert_int_equal(x->attempt.reach, REACH_NONE);
	assert_string_equal(stage_server_got(stage, 0), "");
	stage_end(stage);
}

/* Its place was by slots of a semaphore that are another node's by now. */
static void one_that_lost_its_slot_takes_a_place_again(void **state)
{
	struct stage *stage = stage_begin(&placed);
	struct exchange *x = stage_request(stage, PUT(3, "abc"));
	struct semaphore_slots *slots;

	(void)state;
	exchange_begin(x, x->request.base);
	slots = &x->upstream->state->semaphore;
	assert_true(x->turn.ticket.placed_ns > 0);
	semaphore_slots_set(slots, x->turn.ticket.placed_ns + 1, UINT64_MAX);
	server_send_all(stage->worker);
	assert_string_equal(stage_server_got(stage, 0), "");
	assert_int_equal(x->attempt.reach, REACH_NONE);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	semaphore_slots_set(slots, 0, UINT64_MAX);
	stage_pass(stage, &x->turn.deadline);
	flight_run(stage, x);
	server_send_all(stage->worker);
	assert_true(x->attempt.reach >= REACH_SENT);
	assert_has(stage_server_got(stage, 1), "\r\n\r\nabc");
	stage_end(stage);
}

static void a_server_that_takes_nothing_has_send_timeout(void **state)
{
	struct stage *stage = stage_begin(&streamed);
	struct exchange *x = flight_begin(stage, PUT(200000, ""));
	char *block = malloc(40001);

	(void)state;
	assert_non_null(block);
	memset(block, 'x', 40000);
	block[40000] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		stage_client_sends(stage, block);
		flight_run(stage, x);
	}
	free(block);
	assert_int_equal(x->connection->wait.reason, WAIT_SEND);
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 3000);
	stage_pass(stage, &x->connection->wait.deadline);
	assert_int_equal(x->answer.status, 504);
	assert_string_equal(x->outcome, "send timeout");
	stage_end(stage);
}

static void one_that_owes_a_100_has_its_time(void **state)
{
	struct stage *stage = stage_begin(&streamed);
	struct exchange *x = flight_begin(stage,
		"PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");

	(void)state;
	assert_has(stage_server_got(stage, 0), "Expect: 100-continue\r\n");
	assert_int_equal(x->connection->wait.reason, WAIT_RESPONSE);
	flight_answer(stage, x, "HTTP/1.1 100 Continue\r\n\r\n");
	assert_has(stage_client_got(stage), "100 Continue");
	assert_true(stage->client.client.again);
	flight_run(stage, x);
	assert_int_equal(x->connection->wait.reason, WAIT_NONE);
	stage_end(stage);
}

/* What the body can't be: is the client answered so? */
static void body_fails(const char *head, const char *rest, const char *answer, const char *closed)
{
	const struct stage_conf conf = {.route = "request_buffering = off\nmax_body_size = 3"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, head);

	if (rest)
		stage_client_sends(stage, rest);
	else
		memory_peer_end_output(stage->client.wire);
	flight_run(stage, x);
	if (answer)
		assert_has(stage_client_got(stage), answer);
	if (closed)
		assert_has(stage->client.trace, closed);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(flight_server(stage)->fails, 0); /* not its server's fault */
	assert_int_equal(flight_idle(stage), 0);
	stage_end(stage);
}

static void bodies_that_fail(void **state)
{
	(void)state;
	body_fails(CHUNKED, "zz\r\n", "HTTP/1.1 400 ", "finish ");
	body_fails(CHUNKED, "4\r\nabcd\r\n", "HTTP/1.1 413 ", "finish ");
	body_fails(PUT(3, "a"), NULL, NULL, "close(client left during its request) ");
}

/* ---- down ------------------------------------------------------------------------------------ */

static void a_head_in_pieces(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	stage_at(stage, 20);
	flight_answer(stage, x, "HTTP/1.1 20");
	assert_int_equal(x->times.first_byte_ns, worker_now_ns(stage->worker));
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	flight_answer(stage, x, "0 OK\r\nContent-Length: 0\r\n");
	flight_answer(stage, x, "\r\n");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_has(stage_client_got(stage), "HTTP/1.1 200 OK\r\n");
	stage_end(stage);
}

static void a_head_may_be_long_and_not_without_end(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);
	char *block = malloc(60001);

	(void)state;
	assert_non_null(block);
	memset(block, 'x', 60000);
	block[60000] = '\0';
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ");
	for (unsigned i = 0; i < 3; i++)
		flight_answer(stage, x, block);
	assert_int_equal(x->state, EXCHANGE_FORWARDING); /* 180 kB of 256 */
	for (unsigned i = 0; i < 2; i++)
		flight_answer(stage, x, block);
	free(block);
	assert_int_equal(x->answer.status, 502);
	assert_string_equal(x->outcome, "malformed response");
	stage_end(stage);
}

static void interim_responses_have_an_end_in_a_turn(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	stage->client.takes_no_interim = true;
	flight_answer(stage, x, "HTTP/1.1 103 A\r\n\r\nHTTP/1.1 103 B\r\n\r\n" DONE);
	assert_int_equal(x->state, EXCHANGE_FORWARDING); /* until its client takes another */
	assert_string_equal(stage_client_got(stage), "HTTP/1.1 103 A\r\n\r\n");
	stage->client.takes_no_interim = false;
	flight_run(stage, x);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	stage_end(stage);
}

/* ---- failures -------------------------------------------------------------------------------- */

static unsigned failed(const char *request, const char *bytes, const char *why)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, request);

	if (*bytes)
		flight_answer(stage, x, bytes);
	if (x->state != EXCHANGE_ENDED)
		flight_server_ends(stage, x);
	unsigned status = x->answer.status;
	assert_string_equal(x->outcome, why);
	assert_int_equal(flight_server(stage)->fails, 1);
	assert_true(x->turn.ticket.failed);
	assert_has(lines.text, why);
	stage_end(stage);
	return status;
}

static void what_is_no_response(void **state)
{
	(void)state;
	assert_int_equal(failed(GET, "", "closed without a response"), 502);
	assert_int_equal(failed(GET, "HTTP/1.1 200", "closed within the response's head"), 502);
	assert_int_equal(failed(GET, "HELLO\r\n\r\n", "malformed response"), 502);
}

static void one_that_says_nothing_has_first_byte_timeout(void **state)
{
	const struct stage_conf conf = {
		.upstream = "first_byte_timeout = 5s\nserver = 127.0.0.1:3"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 5000);
	unsigned advanced = stage->client.advanced;
	stage_pass(stage, &x->connection->wait.deadline);
	assert_int_equal(x->answer.status, 504);
	assert_string_equal(x->outcome, "response timeout");
	assert_true(stage->client.advanced > advanced);
	assert_int_equal(stage_count(stage, STATS_RETRIES), 0); /* it may be at work on it */
	stage_end(stage);
}

/* The server of a fresh connection ends without a word. Is it asked for once more, elsewhere? */
static bool is_repeated(const struct stage_conf *conf, const char *request)
{
	struct stage *stage = stage_begin(conf);
	struct exchange *x = flight_begin(stage, request);
	char first[64];

	snprintf(first, sizeof(first), "%s", stage->servers[0].address);
	flight_server_ends(stage, x);
	bool again = x->state == EXCHANGE_FORWARDING;
	assert_int_equal(stage_count(stage, STATS_RETRIES), again);
	if (again) {
		assert_string_not_equal(stage->servers[1].address, first);
		flight_answer(stage, x, DONE);
		assert_int_equal(x->answer.status, 200);
		assert_false(x->turn.ticket.failed);
	} else {
		assert_int_equal(x->answer.status, 502);
	}
	stage_end(stage);
	return again;
}

static void what_is_sent_to_another_server(void **state)
{
	const struct stage_conf never = {.upstream = "server = 127.0.0.1:3\nretries = 0"};

	(void)state;
	assert_true(is_repeated(&two, GET));
	assert_false(is_repeated(&plain, GET)); /* there is no other */
	assert_false(is_repeated(&never, GET));
	assert_false(is_repeated(&two, POST));
	assert_false(is_repeated(&two, PUT(2, "ab")));
	assert_false(is_repeated(&two, "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n"));
}

static void no_more_often_than_retries(void **state)
{
	const struct stage_conf conf = {
		.upstream = "server = 127.0.0.1:3\nserver = 127.0.0.1:4\nretries = 1"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_server_ends(stage, x);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	flight_server_ends(stage, x);
	assert_int_equal(x->answer.status, 502);
	stage_end(stage);
}

/* On a connection that has served, and that the server has closed meanwhile. */
static bool is_repeated_when_stale(const char *request, const char *body)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	flight_answer(stage, x, DONE);
	assert_int_equal(flight_idle(stage), 1);
	stage_server_got(stage, 0);
	x = flight_begin(stage, request);
	assert_int_equal(stage->server_count, 1);
	assert_true(x->connection->reused);
	flight_server_ends(stage, x);
	bool again = x->state == EXCHANGE_FORWARDING;
	assert_int_equal(flight_server(stage)->fails, 0); /* nobody's fault */
	if (again) {
		assert_int_equal(buffer_used(&stage->client.in), 0);
		assert_int_equal(stage->server_count, 2); /* a fresh one, of the same server */
		const char *got = stage_server_got(stage, 1);
		assert_string_equal(got + strlen(got) - strlen(body), body);
		assert_lacks(lines.text, "closed");
	}
	stage_end(stage);
	return again;
}

static void what_is_sent_again_on_a_fresh_connection(void **state)
{
	(void)state;
	assert_true(is_repeated_when_stale(GET, "\r\n\r\n"));
	assert_true(is_repeated_when_stale("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n", "\r\n\r\n"));
	assert_true(is_repeated_when_stale(PUT(2, "ab"), "\r\n\r\nab"));
	assert_false(is_repeated_when_stale(POST, ""));
	assert_false(is_repeated_when_stale(
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", ""));
	assert_true(is_repeated_when_stale(CHUNKED "1\r\na\r\n0\r\n\r\n", "\r\n\r\na"));
	assert_false(is_repeated_when_stale(CHUNKED "1\r\na\r\n0\r\nDigest: x\r\n\r\n", ""));
}

static void not_after_a_byte_of_the_response(void **state)
{
	struct stage *stage = stage_begin(&two);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "H");
	flight_server_ends(stage, x);
	assert_int_equal(x->answer.status, 502);
	stage_end(stage);
}

static void a_client_that_has_left_is_not_served_again(void **state)
{
	struct stage *stage = stage_begin(&two);
	struct exchange *x = flight_begin(stage, "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n");

	(void)state;
	client_close(&stage->client.client, "left");
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	memory_peer_end_output(stage->servers[0].wire);
	stage_turn(stage);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(stage->server_count, 1);
	stage_end(stage);
}

/* It was closed before a byte of the request left: that is as if it had not been there. */
static void a_connection_that_takes_not_a_byte(void **state)
{
	struct stage *stage = stage_begin(&two);
	struct exchange *x = stage_request(stage, POST);

	(void)state;
	exchange_begin(x, x->request.base);
	memory_peer_close(stage->servers[0].wire);
	server_send_all(stage->worker);
	stage_turn(stage);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(stage->server_count, 2);
	assert_has(stage_server_got(stage, 1), "\r\n\r\nab"); /* its body, whole */
	stage->servers[0] = stage->servers[1];
	stage->server_count = 1;
	stage_end(stage);
}

UNIT_SUITE(test_forward)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_leaves_with_what_is_here_of_its_body),
		cmocka_unit_test(chunks_are_framed_again),
		cmocka_unit_test(requests_of_one_round_leave_at_its_end),
		cmocka_unit_test(one_that_was_cut_before_is_not_sent),
		cmocka_unit_test(one_that_lost_its_slot_takes_a_place_again),
		cmocka_unit_test(a_server_that_takes_nothing_has_send_timeout),
		cmocka_unit_test(one_that_owes_a_100_has_its_time),
		cmocka_unit_test(bodies_that_fail),
		cmocka_unit_test(a_head_in_pieces),
		cmocka_unit_test(a_head_may_be_long_and_not_without_end),
		cmocka_unit_test(interim_responses_have_an_end_in_a_turn),
		cmocka_unit_test(what_is_no_response),
		cmocka_unit_test(one_that_says_nothing_has_first_byte_timeout),
		cmocka_unit_test(what_is_sent_to_another_server),
		cmocka_unit_test(no_more_often_than_retries),
		cmocka_unit_test(what_is_sent_again_on_a_fresh_connection),
		cmocka_unit_test(not_after_a_byte_of_the_response),
		cmocka_unit_test(a_client_that_has_left_is_not_served_again),
		cmocka_unit_test(a_connection_that_takes_not_a_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
