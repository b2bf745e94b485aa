/* Responses that a server holds: which are held, what they give back, and what ends them. */
#include "channels/grip_hold.h"

#include "queue/run_queue.h"
#include "tests/unit/exchange/fakes/flight.h"
#include "tests/unit/suite.h"
#include "channels/channels.h"
#include "frames/shared_frame.h"
#include "channels/channels_part.h"
#include "channels/publish.h"
#include "frames/frames.h"

static const struct stage_conf held = {
	.route = "grip_hold = on", .upstream = "max_in_flight = 1\nidle_timeout = 9s"};

#define HEAD         "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"
#define OK           "HTTP/1.1 200 OK\r\n"
#define HOLD(kind)   "Grip-Hold: " kind "\r\nGrip-Channel: c\r\n"
#define LENGTH(text) "Content-Length: " text "\r\n\r\n"

static uint64_t subscriptions(const struct stage *stage)
{
	return channels_subscriptions(channels_of(stage->worker)->view->channels);
}

static void expect_no_place(struct stage *stage)
{
	struct upstream_state *upstream = stage->daemon.site->upstreams[0]->state;
	struct run_queue_counts counts;

	run_queue_count(upstream->run_queue, &counts);
	assert_int_equal(counts.in_flight, 0);
	assert_int_equal(flight_server(stage)->in_flight, 0);
}

/* To whom is subscribed to c. */
static void deliver(struct stage *stage, const struct grip_http *http)
{
	struct channel_view *view = channels_of(stage->worker)->view;
	bool workers[2] = {false};
	uint64_t count;
	struct channel *channel = channel_hold(view->channels, SLICE("c"), &count, workers, 2);

	assert_non_null(channel);
	assert_int_equal(count, 1);
	const struct subscription *first = channel_first(view, channel);
	const struct delivery delivery = {.http = *http};
	assert_true(first->subscriber->calls->deliver(first, &delivery));
	channel_release(view->channels, channel);
	stage_turn(stage);
}

static struct shared_frame *frame(struct stage *stage, const char *text)
{
	struct shared_frame *made = shared_frame_new(
		&stage->daemon.node.sends, FRAME_BINARY, (struct slice){text, strlen(text)});

	assert_non_null(made);
	return made;
}

static void a_poll_holds_no_place_and_gets_what_is_published(void **state)
{
	struct stage *stage = stage_begin(&held);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	flight_answer(stage, x, OK HOLD("response") LENGTH("5") "first");
	assert_int_equal(subscriptions(stage), 1);
	expect_no_place(stage);
	assert_int_equal(flight_server(stage)->streams, 1);
	assert_int_equal(flight_idle(stage), 1);
	assert_string_equal(stage_client_got(stage), "");
	struct grip_http http = {
		.response = frame(stage, "HTTP/1.1 201 Made\r\nContent-Length: 3\r\n\r\nnew")};
	deliver(stage, &http);
	shared_frame_release(http.response);
	flight_run(stage, x);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	const char *got = stage_client_got(stage);
	assert_has(got, "HTTP/1.1 201 ");
	assert_has(got, "\r\n\r\nnew");
	assert_int_equal(subscriptions(stage), 0);
	assert_int_equal(flight_server(stage)->streams, 0);
	stage_end(stage);
}

static void a_stream_goes_on_until_it_is_closed(void **state)
{
	struct stage *stage = stage_begin(&held);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, OK HOLD("stream") LENGTH("5") "first");
	flight_run(stage, x);
	const char *got = stage_client_got(stage);
	assert_has(got, "5\r\nfirst\r\n");
	assert_lacks(got, "Grip-");
	struct grip_http http = {.stream = frame(stage, "more"), .closes = true};
	deliver(stage, &http);
	shared_frame_release(http.stream);
	flight_run(stage, x);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_string_equal(stage_client_got(stage), "4\r\nmore\r\n0\r\n\r\n");
	assert_int_equal(subscriptions(stage), 0);
	stage_end(stage);
}

/* It has no content, so nothing can be put behind it, however long its head waits to be taken. */
static void an_answer_without_content_is_no_stream(void **state)
{
	static const char *const requests[] = {HEAD, GET};
	static const char *const answers[] = {
		OK HOLD("stream") "Grip-Keep-Alive: x; timeout=1\r\n" LENGTH("5"),
		"HTTP/1.1 204 No Content\r\n" HOLD(
			"stream") "Grip-Keep-Alive: x; timeout=1\r\n\r\n"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct stage *stage = stage_begin(&held);
		struct exchange *x = flight_begin(stage, requests[i]);
		stage_server_sends(stage, 0, answers[i]);
		exchange_run(x);
		assert_int_equal(subscriptions(stage), 0);
		flight_run(stage, x);
		assert_int_equal(x->state, EXCHANGE_ENDED);
		assert_lacks(stage_client_got(stage), "\r\n0\r\n");
		stage_end(stage);
	}
}

/* The rest of the response is read, and the place is free with its end. */
static void a_client_that_leaves_early_leaves_no_place_taken(void **state)
{
	struct stage *stage = stage_begin(&held);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, OK HOLD("response") LENGTH("10") "first");
	client_close(&stage->client.client, "left");
	assert_int_equal(x->state, EXCHANGE_DRAINING);
	assert_int_equal(flight_server(stage)->in_flight, 1);
	stage_server_sends(stage, 0, "-last");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	expect_no_place(stage);
	assert_int_equal(flight_idle(stage), 1);
	stage_end(stage);
}

static void what_can_not_be_held_is_refused(void **state)
{
	static const char *const heads[] = {"Grip-Hold: forever\r\nGrip-Channel: c\r\n",
		"Grip-Hold: response\r\n", HOLD("response") "Grip-Timeout: 0\r\n",
		HOLD("response") "Grip-Timeout: 86401\r\n", HOLD("stream") "Grip-Link: x\r\n",
		HOLD("response") "Grip-Status: 199\r\n", HOLD("stream") "Grip-Set-Meta: a=b\r\n",
		"Grip-Hold: stream\r\nGrip-Channel: c; filter=x\r\n",
		HOLD("stream") "Grip-Keep-Alive: =; format=base64\r\n",
		HOLD("stream") "Grip-Keep-Alive: x; timeout=x\r\n"};

	(void)state;
	for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct stage *stage = stage_begin(&held);
		struct exchange *x = flight_begin(stage, GET);
		char response[512];
		snprintf(response, sizeof(response), OK "%s" LENGTH("0"), heads[i]);
		flight_answer(stage, x, response);
		assert_int_equal(x->answer.status, 502);
		assert_int_equal(subscriptions(stage), 0);
		expect_no_place(stage);
		stage_end(stage);
	}
}

UNIT_SUITE(test_grip_hold)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_poll_holds_no_place_and_gets_what_is_published),
		cmocka_unit_test(a_stream_goes_on_until_it_is_closed),
		cmocka_unit_test(an_answer_without_content_is_no_stream),
		cmocka_unit_test(a_client_that_leaves_early_leaves_no_place_taken),
		cmocka_unit_test(what_can_not_be_held_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
