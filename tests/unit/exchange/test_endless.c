/* Responses without end: which these are, what they give back, and how many there may be. */
#include "exchange/endless.h"

#include "fakes/flight.h"
#include "queue/run_queue.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define EVENTS(type) "HTTP/1.1 200 OK\r\nContent-Type: " type "\r\n\r\n"

static bool is_stream(const char *upstream, const char *response)
{
	const struct stage_conf conf = {.upstream = upstream};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, GET);

	flight_answer(stage, x, response);
	bool found = endless_is_events(x);
	assert_int_equal(found, x->attempt.endless != NULL);
	stage_end(stage);
	return found;
}

static bool is_events(const char *response)
{
	return is_stream(NULL, response);
}

static void event_streams(void **state)
{
	(void)state;
	assert_true(is_events(EVENTS("text/event-stream")));
	assert_true(is_events(EVENTS("Text/Event-Stream ; charset=utf-8")));
	assert_true(is_events("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
			      "Transfer-Encoding: chunked\r\n\r\n"));
	assert_false(is_events(EVENTS("text/event-streams")));
	assert_false(is_events(EVENTS("text/html")));
	assert_false(is_events("HTTP/1.1 200 OK\r\n\r\n"));
	/* One whose length is known ends. */
	assert_false(is_events("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
			       "Content-Length: 9\r\n\r\n"));
}

static void streams_of_other_types(void **state)
{
	const char *types = "stream_types = application/x-ndjson, application/grpc-web";

	(void)state;
	assert_false(is_events(EVENTS("application/x-ndjson")));
	assert_true(is_stream(types, EVENTS("Application/X-NDJSON; charset=utf-8")));
	assert_true(is_stream(types, EVENTS("application/grpc-web")));
	assert_true(is_stream(types, EVENTS("text/event-stream")));
	assert_false(is_stream(types, EVENTS("application/json")));
	assert_false(is_stream(types, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
				      "Content-Length: 9\r\n\r\n"));
}

static void stream_timeout_replaces_idle_timeout(void **state)
{
	const struct stage_conf conf = {.upstream = "idle_timeout = 1s\nstream_timeout = 2s"};

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct stage *stage = stage_begin(&conf);
		struct exchange *x = flight_begin(stage, GET);
		flight_answer(
			stage, x, round == 0 ? EVENTS("text/html") : EVENTS("text/event-stream"));
		assert_int_equal(exchange_idle_timeout_ms(x), round == 0 ? 1000 : 2000);
		stage_end(stage);
	}
}

static const struct stage_conf unbounded = {.upstream = "max_in_flight = 1"};

static void it_holds_no_place(void **state)
{
	struct stage *stage = stage_begin(&unbounded);
	struct exchange *x = flight_begin(stage, GET);
	struct upstream_state *upstream = stage->daemon.site->upstreams[0]->state;
	struct run_queue_counts counts;

	(void)state;
	flight_answer(stage, x, EVENTS("text/event-stream"));
	run_queue_count(upstream->run_queue, &counts);
	assert_int_equal(counts.in_flight, 0);
	assert_int_equal(upstream->streams, 1);
	assert_int_equal(flight_server(stage)->in_flight, 0);
	assert_int_equal(flight_server(stage)->streams, 1);
	assert_int_equal(flight_server(stage)->connections, 1);
	client_close(&stage->client.client, "left");
	assert_int_equal(upstream->streams, 0);
	assert_int_equal(flight_server(stage)->streams, 0);
	stage_end(stage);
}

static void no_more_than_max_streams(void **state)
{
	const struct stage_conf one_stream = {.upstream = "max_streams = 1"};
	struct stage *stage = stage_begin(&one_stream);
	struct exchange *first = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, first, EVENTS("text/event-stream"));
	stage->asks = &stage->other;
	struct exchange *second = flight_begin(stage, GET);
	flight_answer(stage, second, EVENTS("text/event-stream"));
	assert_int_equal(second->answer.status, 503);
	assert_string_equal(second->outcome, "too many streams");
	assert_int_equal(second->answer.retry_after_ms, 1000);
	assert_int_equal(stage_count(stage, STATS_SHED), 1);
	assert_int_equal(stage->daemon.site->upstreams[0]->state->streams, 1);
	assert_int_equal(flight_server(stage)->in_flight, 0);
	assert_int_equal(flight_server(stage)->connections, 1);
	exchange_end(first);
	struct exchange *third = flight_begin(stage, GET);
	flight_answer(stage, third, EVENTS("text/event-stream"));
	assert_int_equal(third->state, EXCHANGE_RELAYING);
	stage_end(stage);
}

UNIT_SUITE(test_endless)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_streams),
		cmocka_unit_test(streams_of_other_types),
		cmocka_unit_test(stream_timeout_replaces_idle_timeout),
		cmocka_unit_test(it_holds_no_place),
		cmocka_unit_test(no_more_than_max_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
