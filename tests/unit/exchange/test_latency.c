/* What max_in_flight = auto learns from an exchange: its server's time, and its server's failures.
 */
#include <errno.h>

#include "fakes/flight.h"
#include "tests/unit/suite.h"

static const struct stage_conf bounded = {
	.upstream = "max_in_flight = auto\nretries = 0\n", .route = "request_buffering = off"};

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"

static void assert_learns(const struct exchange *x, uint64_t latency_ms, bool failed)
{
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(x->turn.ticket.latency_ns, latency_ms * CLOCK_NS_PER_MS);
	assert_int_equal(x->turn.ticket.failed, failed);
}

static void the_time_from_the_whole_request_to_the_whole_response(void **state)
{
	struct stage *stage = stage_begin(&bounded);
	struct exchange *x =
		flight_begin(stage, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");

	(void)state;
	stage_at(stage, 1000); /* the client's time */
	stage_client_sends(stage, "cd");
	flight_run(stage, x);
	assert_has(stage_server_got(stage, 0), "\r\nabcd");
	stage_at(stage, 1300);
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
	stage_at(stage, 1700);
	flight_answer(stage, x, "bc");
	assert_learns(x, 700, false);
	stage_end(stage);
}

static void without_what_its_client_takes_to_read(void **state)
{
	static char block[30001];
	struct stage *stage = stage_begin(&bounded);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	memset(block, 'x', sizeof(block) - 1);
	stage_at(stage, 300);
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 120000\r\n\r\n");
	for (unsigned i = 0; i < 4; i++)
		flight_answer(stage, x, block);
	assert_int_equal(x->connection->wait.reason, WAIT_CLIENT);
	stage_at(stage, 9000);
	while (x->state == EXCHANGE_RELAYING) {
		assert_true(strlen(stage_client_got(stage)) > 0);
		flight_run(stage, x);
	}
	assert_learns(x, 300, false);
	stage_end(stage);
}

/* How long these are is up to whoever sends and cuts them. */
static void nothing_when_the_client_has_left(void **state)
{
	struct stage *stage = stage_begin(&bounded);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	client_close(&stage->client.client, "left");
	stage_at(stage, 1000);
	stage_server_sends(stage, 0, OK);
	assert_learns(x, 0, false);
	stage_end(stage);

	stage = stage_begin(&bounded);
	x = flight_begin(stage, GET);
	client_close(&stage->client.client, "left");
	memory_peer_end_output(stage->servers[0].wire);
	stage_turn(stage);
	assert_learns(x, 0, false);
	stage_end(stage);
}

/* That is for the server's health. */
static void nothing_of_a_connection_that_was_not_made(void **state)
{
	struct stage *stage = stage_begin(&bounded);

	(void)state;
	stage->connect_error = ECONNREFUSED;
	assert_learns(stage_ask(stage, GET), 0, false);
	stage_end(stage);

	stage = stage_begin(&bounded);
	stage->connects_later = true;
	struct exchange *x = stage_ask(stage, GET);
	stage_pass(stage, &x->connection->wait.deadline);
	assert_int_equal(x->answer.status, 504);
	assert_learns(x, 0, false);
	stage_end(stage);
}

static void nothing_of_a_kept_connection_that_had_ended(void **state)
{
	struct stage *stage = stage_begin(&bounded);

	(void)state;
	flight_answer(stage, flight_begin(stage, GET), OK);
	struct exchange *x = flight_begin(stage, POST);
	assert_int_equal(stage->server_count, 1);
	flight_server_ends(stage, x);
	assert_learns(x, 0, false);
	stage_end(stage);
}

static void failures_of_the_server(void **state)
{
	struct stage *stage = stage_begin(&bounded);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	stage_pass(stage, &x->connection->wait.deadline);
	assert_int_equal(x->answer.status, 504);
	assert_learns(x, 0, true);
	stage_end(stage);

	stage = stage_begin(&bounded);
	x = flight_begin(stage, GET);
	flight_server_ends(stage, x);
	assert_int_equal(x->answer.status, 502);
	assert_learns(x, 0, true);
	stage_end(stage);

	stage = stage_begin(&bounded);
	x = flight_begin(stage, GET);
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
	flight_server_ends(stage, x);
	assert_learns(x, 0, true);
	stage_end(stage);

	stage = stage_begin(&bounded);
	x = flight_begin(stage, GET);
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
	stage_pass(stage, &x->connection->wait.deadline);
	assert_learns(x, 0, true);
	stage_end(stage);
}

UNIT_SUITE(test_latency)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_time_from_the_whole_request_to_the_whole_response),
		cmocka_unit_test(without_what_its_client_takes_to_read),
		cmocka_unit_test(nothing_when_the_client_has_left),
		cmocka_unit_test(nothing_of_a_connection_that_was_not_made),
		cmocka_unit_test(nothing_of_a_kept_connection_that_had_ended),
		cmocka_unit_test(failures_of_the_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
