/* A response on its way down to its client: framing, interim responses, the client's pace, and what
 * becomes of the connection to the server. */
#include "exchange/respond.h"

#include "fakes/flight.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};

static const char *answered(const struct stage_conf *conf, const char *request,
	const char *response, struct stage **stage)
{
	*stage = stage_begin(conf);
	struct exchange *x = flight_begin(*stage, request);

	flight_answer(*stage, x, response);
	return stage_client_got(*stage);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void a_response_passes_and_its_connection_is_kept(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_server(stage)->fails = 2;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
	assert_int_equal(flight_server(stage)->fails, 0); /* one success forgets them */
	const char *got = stage_client_got(stage);
	assert_has(got, "HTTP/1.1 200 OK\r\n");
	assert_has(got, "Content-Length: 3\r\n");
	assert_string_equal(got + strlen(got) - 7, "\r\n\r\nabc");
	assert_string_equal(stage->client.trace, "read ended ");
	assert_has(lines.text, "\" 200 3 ");
	assert_int_equal(flight_idle(stage), 1);
	stage_end(stage);
}

static void the_bodies_that_there_are(void **state)
{
	static const struct {
		const char *request, *response, *body;
		bool is_kept, closes;
	} rows[] = {
		{GET, "HTTP/1.1 204 No\r\n\r\n", "\r\n\r\n", true, false},
		{GET, "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", "\r\n\r\n", true, false},
		{"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "\r\n\r\n", true, false},
		{GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "\r\n\r\n", true, false},
		{GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n0\r\n\r\n",
			"\r\n\r\n1\r\na\r\n0\r\n\r\n", true, false},
		/* Its end is the close of the connection: a client of 1.0 knows no chunks. */
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
			"\r\n\r\na", true, true},
		{GET, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
			"\r\n\r\na", false, false},
		/* What is behind the response answers nothing. */
		{GET, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1", "\r\n\r\na", false,
			false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stage *stage;
		const char *got = answered(&plain, rows[i].request, rows[i].response, &stage);
		assert_string_equal(strstr(got, "\r\n\r\n"), rows[i].body);
		assert_int_equal(flight_idle(stage), rows[i].is_kept);
		assert_int_equal(strstr(got, "Connection: close\r\n") != NULL, rows[i].closes);
		assert_int_equal(strstr(stage->client.trace, "finish") != NULL, rows[i].closes);
		assert_int_equal(stage->client.sink.by_close, rows[i].closes);
		stage_end(stage);
	}
}

/* Of a body that the client has yet to take, whose connection is given back before. */
static void trailers_of_a_body_that_is_here_whole(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(
		stage, "GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: TE\r\n\r\n");

	(void)state;
	flight_answer(stage, x,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
		"2\r\nab\r\n0\r\nX-Sum: 7\r\n\r\n");
	assert_has(stage_client_got(stage), "\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 7\r\n\r\n");
	assert_int_equal(flight_idle(stage), 1);
	stage_end(stage);
}

static void a_body_until_the_close(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\n\r\nab");
	assert_has(stage_client_got(stage), "Transfer-Encoding: chunked\r\n\r\n");
	flight_answer(stage, x, "c");
	flight_server_ends(stage, x);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_null(x->outcome);
	assert_has(stage_client_got(stage), "0\r\n\r\n");
	assert_int_equal(flight_idle(stage), 0);
	stage_end(stage);
}

static void the_server_has_idle_timeout_for_each_piece(void **state)
{
	const struct stage_conf conf = {.upstream = "idle_timeout = 7s"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
	assert_int_equal(x->state, EXCHANGE_RELAYING);
	assert_int_equal(x->connection->wait.reason, WAIT_MORE);
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 7000);
	stage_at(stage, 5000);
	flight_run(stage, x); /* nothing came: no more time */
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 7000);
	flight_answer(stage, x, "d");
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 12000);
	stage_pass(stage, &x->connection->wait.deadline);
	assert_has(stage->client.trace, "close(upstream idle timeout) ");
	stage_end(stage);
}

static void one_that_is_cut_short_is_cut_for_the_client(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
	flight_server_ends(stage, x);
	assert_has(stage->client.trace, "close(response cut short) ");
	assert_true(x->turn.ticket.failed);
	assert_int_equal(flight_server(stage)->fails, 1);
	assert_int_equal(flight_idle(stage), 0);
	stage_end(stage);
}

static void a_malformed_body_is_a_502_as_long_as_the_head_is_here(void **state)
{
	struct stage *stage;
	const char *got = answered(
		&plain, GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", &stage);

	(void)state;
	assert_has(got, "HTTP/1.1 502 ");
	assert_lacks(got, "HTTP/1.1 200");
	assert_int_equal(flight_server(stage)->fails, 1);
	stage_end(stage);
	stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	flight_answer(stage, x, "zz\r\n");
	assert_has(stage->client.trace, "close(response cut short) ");
	stage_end(stage);
}

static void heads_that_are_none(void **state)
{
	struct stage *stage;

	(void)state;
	assert_has(answered(&plain, GET,
			   "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
			   &stage),
		"HTTP/1.1 502 ");
	assert_int_equal(flight_idle(stage), 0);
	stage_end(stage);
	assert_has(answered(&plain, GET,
			   "HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", &stage),
		"HTTP/1.1 502 ");
	assert_int_equal(flight_server(stage)->fails, 1);
	stage_end(stage);
}

/* An answer before the request is read: what is left of that is of no use to anybody. */
static void one_that_comes_early_ends_the_connection(void **state)
{
	const struct stage_conf conf = {.route = "request_buffering = off"};
	struct stage *stage;
	const char *got =
		answered(&conf, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab",
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", &stage);

	(void)state;
	assert_has(got, "Connection: close\r\n");
	assert_has(stage->client.trace, "finish ");
	assert_int_equal(flight_idle(stage), 0);
	stage_end(stage);
}

static void the_last_of_a_drain_says_so(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	stage->worker->draining = stage->client.is_last = true;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
	assert_has(stage_client_got(stage), "Connection: close\r\n");
	stage_end(stage);
}

/* ---- the client's pace ----------------------------------------------------------------------- */

/* More than a stream in memory holds. */
static struct exchange *more_than_it_takes(struct stage *stage)
{
	struct exchange *x = flight_begin(stage, GET);
	char *block = malloc(30001);

	assert_non_null(block);
	memset(block, 'x', 30000);
	block[30000] = '\0';
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 120000\r\n\r\n");
	for (unsigned i = 0; i < 3; i++)
		flight_answer(stage, x, block);
	free(block);
	assert_int_equal(x->state, EXCHANGE_RELAYING);
	return x;
}

static void the_server_waits_for_a_client_that_is_not_slow(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = more_than_it_takes(stage);

	(void)state;
	assert_int_equal(x->connection->wait.reason, WAIT_CLIENT);
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 100);
	assert_true(x->down.written > 0);
	assert_int_equal(x->answer.taken, x->down.written);
	x->answer.taken = x->down.written - 1024 * 1024; /* it took a MB meanwhile */
	respond_client_is_slow(x);
	assert_false(x->down.spills);
	assert_int_equal(x->connection->wait.reason, WAIT_NONE);
	stage_end(stage);
}

static void for_a_slow_one_it_is_kept(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = more_than_it_takes(stage);

	(void)state;
	stage_pass(stage, &x->connection->wait.deadline);
	assert_true(x->down.spills);
	flight_run(stage, x);
	assert_non_null(stage->client.out.spool);
	assert_int_not_equal(x->connection->wait.reason, WAIT_CLIENT);
	/* It has caught up: the server waits for it again. */
	stage_client_got(stage);
	flight_run(stage, x);
	assert_null(stage->client.out.spool);
	assert_false(x->down.spills);
	stage_end(stage);
}

static void without_room_to_keep_nothing_is_looked_for(void **state)
{
	const struct stage_conf conf = {.route = "response_buffering = off"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = more_than_it_takes(stage);

	(void)state;
	assert_int_equal(x->connection->wait.reason, WAIT_NONE);
	stage_end(stage);
}

static void one_that_has_gone_is_noted(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
	memory_peer_reset(stage->client.wire);
	flight_answer(stage, x, "def");
	assert_has(stage->client.trace, "close(client gone) ");
	assert_int_equal(stage_count(stage, STATS_CLIENT_GONE), 1);
	stage_end(stage);
}

/* ---- 1xx ------------------------------------------------------------------------------------- */

static void interim_responses_pass(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Go\r\n\r\n");
	assert_string_equal(stage_client_got(stage),
		"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Go\r\n\r\n");
	assert_true(x->interim.to_continue >= CONTINUE_SENT);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->answer.upstream_status, 0);
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
	assert_has(stage_client_got(stage), "HTTP/1.1 200 OK\r\n");
	stage_end(stage);
}

static void not_to_clients_of_http_1_0(void **state)
{
	struct stage *stage;
	const char *got = answered(&plain, "GET / HTTP/1.0\r\n\r\n",
		"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", &stage);

	(void)state;
	assert_lacks(got, "103");
	assert_has(got, "HTTP/1.1 200 OK");
	stage_end(stage);
}

static void one_that_comes_too_early_is_held(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	stage->client.out.body = SLICE("rest"); /* of the response before it */
	flight_answer(
		stage, x, "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_true(x->interim.heads == INTERIM_HELD);
	assert_int_equal(x->connection->wait.reason, WAIT_NONE);
	assert_false(respond_held_interim(x));
	assert_true(x->interim.heads == INTERIM_HELD);
	assert_string_equal(stage_client_got(stage), "rest");
	assert_true(respond_held_interim(x));
	assert_false(x->interim.heads == INTERIM_HELD);
	flight_run(stage, x);
	assert_has(stage_client_got(stage), "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK");
	stage_end(stage);
}

static void a_100_that_comes_too_early_is_noted(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	stage->client.out.body = SLICE("rest");
	flight_answer(stage, x, "HTTP/1.1 100 Continue\r\n\r\n");
	assert_true(x->interim.to_continue == CONTINUE_DUE);
	assert_false(x->interim.heads == INTERIM_HELD);
	respond_continue(x); /* too early still */
	assert_true(x->interim.to_continue == CONTINUE_DUE);
	assert_string_equal(stage_client_got(stage), "rest");
	respond_continue(x);
	assert_false(x->interim.to_continue == CONTINUE_DUE);
	assert_true(x->interim.to_continue >= CONTINUE_SENT);
	assert_string_equal(stage_client_got(stage), "HTTP/1.1 100 Continue\r\n\r\n");
	stage_end(stage);
}

/* ---- what a response costs ------------------------------------------------------------------- */

static void costs(void **state)
{
	static const struct {
		const char *field;
		bool has;
		uint64_t cost;
	} rows[] = {
		{"X-Cost: 12\r\n", true, 12},
		{"X-Cost: 0\r\n", true, 0},
		{"X-Cost: 999999999999999999\r\n", true, UINT64_C(999999999999999999)},
		{"X-Cost: 1000000000000000000\r\n", false, 0},
		{"X-Cost: -1\r\n", false, 0},
		{"X-Cost: 1.5\r\n", false, 0},
		{"X-Cost: \r\n", false, 0},
		{"", false, 0},
	};
	const struct stage_conf conf = {.more = "[limit all]\nkey = ip\nrate = 100 per 1h\n",
		.route = "limits = all\ncost = response:X-Cost"};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char response[200];
		struct stage *stage = stage_begin(&conf);
		struct exchange *x = flight_begin(stage, GET);
		snprintf(response, sizeof(response),
			"HTTP/1.1 200 OK\r\n%sContent-Length: 9\r\n\r\n", rows[i].field);
		flight_answer(stage, x, response);
		assert_int_equal(x->answer.has_cost, rows[i].has);
		assert_int_equal(x->answer.cost, rows[i].cost);
		stage_end(stage);
	}
}

UNIT_SUITE(test_respond)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_response_passes_and_its_connection_is_kept),
		cmocka_unit_test(the_bodies_that_there_are),
		cmocka_unit_test(trailers_of_a_body_that_is_here_whole),
		cmocka_unit_test(a_body_until_the_close),
		cmocka_unit_test(the_server_has_idle_timeout_for_each_piece),
		cmocka_unit_test(one_that_is_cut_short_is_cut_for_the_client),
		cmocka_unit_test(a_malformed_body_is_a_502_as_long_as_the_head_is_here),
		cmocka_unit_test(heads_that_are_none),
		cmocka_unit_test(one_that_comes_early_ends_the_connection),
		cmocka_unit_test(the_last_of_a_drain_says_so),
		cmocka_unit_test(the_server_waits_for_a_client_that_is_not_slow),
		cmocka_unit_test(for_a_slow_one_it_is_kept),
		cmocka_unit_test(without_room_to_keep_nothing_is_looked_for),
		cmocka_unit_test(one_that_has_gone_is_noted),
		cmocka_unit_test(interim_responses_pass),
		cmocka_unit_test(not_to_clients_of_http_1_0),
		cmocka_unit_test(one_that_comes_too_early_is_held),
		cmocka_unit_test(a_100_that_comes_too_early_is_noted),
		cmocka_unit_test(costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
