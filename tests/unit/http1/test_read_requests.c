/* A client's requests as they are read off its connection: one after another, up to the bounds, and
 * how it ends. */
#include "http1/read_requests.h"

#include "connected.h"
#include "http1/http1_client.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define OK1 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
#define OK2 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"

static const struct stage_conf plain = {0};

static void a_request_and_the_next(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	assert_ptr_equal(c.downstream->client.calls, &http1_client_calls);
	assert_int_equal(c.downstream->wait.reason, WAIT_IDLE);
	connected_send(&c, GET);
	assert_has(stage_server_got(c.stage, 0), "GET / HTTP/1.1\r\n");
	assert_int_equal(c.downstream->wait.reason, WAIT_NONE);
	connected_answer(&c, 0, OK1);
	assert_has(connected_got(&c), "\r\n\r\na");
	connected_send(&c, "\r\n\r\n" GET); /* empty lines before it are skipped */
	connected_answer(&c, 0, OK2);
	assert_has(connected_got(&c), "\r\n\r\nb");
	assert_int_equal(stage_count(c.stage, STATS_CONNECTIONS), 1);
	assert_null(c.downstream->in.at); /* an idle connection has no buffer */
	connected_end(&c);
}

static void a_head_in_pieces(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, "GET / HT");
	assert_int_equal(c.downstream->input, INPUT_HEAD);
	assert_int_equal(c.downstream->wait.reason, WAIT_HEAD);
	assert_null(c.downstream->client.first); /* not in the list before it is whole */
	connected_send(&c, "TP/1.1\r\nHost: h\r\n\r\n");
	assert_int_equal(c.downstream->input, INPUT_NONE);
	assert_non_null(c.downstream->client.first);
	connected_end(&c);
}

static void a_slow_head_is_answered_408(void **state)
{
	struct connected c;

	(void)state;
	connected_slow(&c, &plain);
	assert_true(c.downstream->was_slow);
	connected_end(&c);
}

static void a_malformed_head_ends_it(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, "GET / HTTP/1.1\r\nHost : h\r\n\r\n" GET);
	const char *got = connected_got(&c);
	assert_has(got, "HTTP/1.1 400 ");
	assert_has(got, "Connection: close\r\n");
	assert_int_equal(c.stage->server_count, 0);
	assert_int_equal(stage_count(c.stage, STATS_MALFORMED), 1);
	connected_end(&c);
}

static void responses_leave_in_the_order_of_requests(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET "GET /none HTTP/1.1\r\n\r\n" GET);
	assert_int_equal(c.downstream->exchange_count, 2); /* behind a malformed one is nothing */
	assert_string_equal(connected_got(&c), "");
	connected_answer(&c, 0, OK1);
	const char *got = connected_got(&c);
	assert_has(got, "\r\n\r\na");
	assert_non_null(strstr(strstr(got, "\r\n\r\na"), "HTTP/1.1 400 "));
	connected_end(&c);
}

static void no_more_than_pipeline_depth(void **state)
{
	const struct stage_conf conf = {.listener = "pipeline_depth = 2"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	connected_send(&c, GET GET GET);
	assert_int_equal(c.downstream->exchange_count, 2);
	connected_answer(&c, 0, OK1);
	assert_int_equal(c.downstream->exchange_count, 2);
	assert_int_equal(c.downstream->begun, 3);
	connected_end(&c);
}

/* Answers of our own that the client does not take. */
static void no_more_than_it_takes(void **state)
{
	const struct stage_conf conf = {
		.route = "path = /none/", .listener = "pipeline_depth = 1000"};
	struct connected c;
	char block[STAGE_ROOM];
	size_t len = 0;

	(void)state;
	connected_open(&c, &conf);
	lines.has_no_access = true;
	while (len + strlen(GET) < sizeof(block)) {
		strcpy(block + len, GET);
		len += strlen(GET);
	}
	for (unsigned i = 0; i < 3; i++) {
		memory_peer_send(c.wire, block, len);
		for (unsigned k = 0; k < 100; k++) {
			stage_at(c.stage, 100 * i + k);
			stage_turn(c.stage);
		}
	}
	uint64_t begun = c.downstream->begun;
	assert_true(begun < 3 * len / strlen(GET));
	assert_true(buffer_used(&c.downstream->out.prefix) < 3 * READ_REQUESTS_REPLIES_BYTES);
	assert_true(connected_is_open(&c));
	assert_true(read_requests_are_stalled(c.downstream));
	connected_got(&c);
	stage_at(c.stage, 1000);
	stage_turn(c.stage);
	assert_true(c.downstream->begun > begun);
	connected_end(&c);
	lines.has_no_access = false;
}

static void the_next_is_not_read_before_a_body(void **state)
{
	const struct stage_conf conf = {.route = "request_buffering = off"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	connected_send(&c, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na");
	assert_int_equal(c.downstream->input, INPUT_BODY);
	connected_send(&c, "bc" GET);
	assert_int_equal(c.downstream->input, INPUT_NONE);
	assert_int_equal(c.downstream->exchange_count, 2);
	assert_has(stage_server_got(c.stage, 0), "\r\n\r\nabc");
	connected_end(&c);
}

static void a_half_close_is_not_the_end(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	memory_peer_send(c.wire, GET, strlen(GET));
	memory_peer_end_output(c.wire);
	stage_turn(c.stage);
	stage_turn(c.stage);
	assert_true(connected_is_open(&c));
	assert_int_equal(c.downstream->state, DOWNSTREAM_FINISHING);
	connected_answer(&c, 0, OK1);
	assert_has(connected_got(&c), "\r\n\r\na");
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void a_reset_is(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET);
	memory_peer_reset(c.wire);
	stage_turn(c.stage);
	assert_false(connected_is_open(&c));
	assert_has(lines.text, "outcome=\"client gone\"");
	connected_end(&c);
}

static void a_head_that_will_never_be_whole(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, "GET / HT");
	memory_peer_end_output(c.wire);
	stage_turn(c.stage);
	assert_false(connected_is_open(&c));
	assert_string_equal(lines.text, ""); /* it was no request */
	connected_end(&c);
}

static void an_idle_one_is_closed(void **state)
{
	const struct stage_conf conf = {.listener = "idle_timeout = 3s"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 3000);
	stage_pass(c.stage, &c.downstream->wait.deadline);
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void after_connection_close_nothing_is_read(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" GET);
	assert_int_equal(c.downstream->exchange_count, 1);
	connected_answer(&c, 0, OK1);
	assert_has(connected_got(&c), "Connection: close\r\n");
	assert_int_equal(c.downstream->state, DOWNSTREAM_LINGERING); /* more had come */
	connected_end(&c);
}

UNIT_SUITE(test_read_requests)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_and_the_next),
		cmocka_unit_test(a_head_in_pieces),
		cmocka_unit_test(a_slow_head_is_answered_408),
		cmocka_unit_test(a_malformed_head_ends_it),
		cmocka_unit_test(responses_leave_in_the_order_of_requests),
		cmocka_unit_test(no_more_than_pipeline_depth),
		cmocka_unit_test(no_more_than_it_takes),
		cmocka_unit_test(the_next_is_not_read_before_a_body),
		cmocka_unit_test(a_half_close_is_not_the_end),
		cmocka_unit_test(a_reset_is),
		cmocka_unit_test(a_head_that_will_never_be_whole),
		cmocka_unit_test(an_idle_one_is_closed),
		cmocka_unit_test(after_connection_close_nothing_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
