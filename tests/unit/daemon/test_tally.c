/* The tally at the end: what was served, and what is left that should have ended. */
#include "daemon/usage.h"

#include "stats/stats.h"
#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/suite.h"

#define ANSWER(status) "HTTP/1.1 " status " X\r\nContent-Length: 0\r\n\r\n"

static const struct stage_conf plain = {.route = "path = =/"};

static void what_was_served(void **state)
{
	static const char *const answers[] = {ANSWER("200"), ANSWER("204"), ANSWER("302"),
		ANSWER("404"), ANSWER("500"), ANSWER("503")};
	struct stage *stage = stage_begin(&plain);

	(void)state;
	tally_log(&stage->daemon);
	assert_string_equal(lines.text,
		"info served 0 requests on 0 connections: 1xx 0, 2xx 0, 3xx 0, 4xx 0, 5xx 0, "
		"unanswered 0\n");
	for (unsigned i = 0; i < 6; i++)
		flight_answer(stage, flight_begin(stage, GET), answers[i]);
	stage_ask(stage, "GET /none HTTP/1.1\r\nHost: h\r\n\r\n"); /* of no route */
	flight_begin(stage, GET);
	stage_forget(stage); /* left in its flight */
	worker_count(stage->worker, STATS_CONNECTIONS);
	lines_clear();
	tally_log(&stage->daemon);
	assert_string_equal(lines.text,
		"info served 8 requests on 1 connections: 1xx 0, 2xx 2, 3xx 1, 4xx 2, 5xx 2, "
		"unanswered 1\n");
	stage_end(stage);
}

static void what_is_left(void **state)
{
	const struct stage_conf conf = {.upstream = "max_in_flight = 5"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	flight_begin(stage, GET);
	lines_clear();
	tally_log(&stage->daemon);
	assert_has(lines.text,
		"error still held at exit, which is a bug: 1 exchanges, 0 client connections, "
		"0 requests queued, 1 in flight, 2 places at upstreams\n");
	stage_forget(stage);
	tally_log(&stage->daemon);
	assert_lacks(lines.text, "still held");
	stage->daemon.node.clients = 1;
	tally_log(&stage->daemon);
	assert_has(lines.text, " 0 exchanges, 1 client connections, ");
	stage->daemon.node.clients = 0;
	stage_end(stage);
}

UNIT_SUITE(test_tally)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_served),
		cmocka_unit_test(what_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
