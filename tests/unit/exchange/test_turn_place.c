/* The place of an exchange among those of its connection, and in the queue of its session. */
#include "exchange/turn_place.h"

#include "conf/conf.h"
#include "fakes/stage.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define GET_OF(path, fields) "GET " path " HTTP/1.1\r\nHost: h\r\n" fields "\r\n"
#define GET                  GET_OF("/", "")
#define POST_OF(fields)      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n" fields "\r\n"
#define DONE                 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static const struct stage_conf plain = {0};
static const struct stage_conf one_place = {.upstream = "max_in_flight = 1"};

/* ---- the order of its connection ------------------------------------------------------------- */

#define KEYED "session = header:X-Key\n"

/* The second of two that one client sends; both by this route. */
static struct exchange *second(struct stage *stage, const char *first, const char *bytes)
{
	stage_ask(stage, first);
	return stage_ask(stage, bytes);
}

static void behind_one_of_its_session_it_takes_its_turn_and_no_place(void **state)
{
	const struct stage_conf conf = {.upstream = "max_in_flight = 2", .route = KEYED};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x =
		second(stage, GET_OF("/1", "X-Key: a\r\n"), GET_OF("/2", "X-Key: a\r\n"));
	struct run_queue_counts counts;

	(void)state;
	assert_int_equal(x->state, EXCHANGE_HELD);
	assert_true(exchange_is_queued(x));
	assert_true(x->turn.aside);
	run_queue_count(x->upstream->state->run_queue, &counts);
	assert_int_equal(counts.in_flight, 1);
	exchange_next(x);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_false(x->turn.aside);
	run_queue_count(x->upstream->state->run_queue, &counts);
	assert_int_equal(counts.in_flight, 2);
	exchange_end(stage->client.client.first);
	stage_end(stage);
}

static void behind_one_of_another_session_it_is_not_in_the_queue(void **state)
{
	const struct stage_conf conf = {.route = KEYED};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x =
		second(stage, GET_OF("/1", "X-Key: a\r\n"), GET_OF("/2", "X-Key: b\r\n"));

	(void)state;
	assert_int_equal(x->state, EXCHANGE_HELD);
	assert_false(exchange_is_queued(x));
	exchange_end(stage->client.client.first);
	exchange_next(x);
	assert_true(exchange_is_queued(x));
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	exchange_next(x); /* continues already */
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

static void behind_one_that_is_answered_it_goes_on(void **state)
{
	const struct stage_conf conf = {.route = KEYED};
	struct stage *stage = stage_begin(&conf);
	struct exchange *first = stage_ask(stage, GET_OF("/1", "X-Key: a\r\n"));

	(void)state;
	first->response_progress = RESPONSE_RECEIVED;
	struct exchange *x = stage_ask(stage, GET_OF("/2", "X-Key: b\r\n"));
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	exchange_end(first);
	stage_end(stage);
}

/* It would have a connection and a place for as long as the client takes. */
static void behind_what_the_client_has_not_taken_it_takes_no_place(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *first = stage_ask(stage, GET);

	(void)state;
	first->response_progress = RESPONSE_RECEIVED;
	stage->client.is_behind = true;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_HELD);
	assert_true(exchange_is_queued(x));
	exchange_end(first);
	exchange_next(x);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

static void the_lane_counts_as_the_session_does(void **state)
{
	const struct stage_conf conf = {.route = KEYED, .listener = "trust_priority = on"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = second(
		stage, GET_OF("/1", "X-Key: a\r\n"), GET_OF("/2", "X-Key: a\r\nPriority: u=1\r\n"));

	(void)state;
	assert_false(exchange_is_queued(x));
	stage_end(stage);
}

static void its_body_comes_first(void **state)
{
	const struct stage_conf conf = {.route = "request_buffering = 4k"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x =
		stage_ask(stage, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na");

	(void)state;
	assert_int_equal(x->state, EXCHANGE_HELD);
	assert_true(x->turn.aside);
	exchange_next(x);
	assert_int_equal(x->state, EXCHANGE_HELD);
	stage_client_sends(stage, "bc");
	gather_run(x);
	exchange_next(x);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

/* What of it is here already needs no event to be read. */
static void what_is_here_of_its_body_is_read_at_once(void **state)
{
	const struct stage_conf conf = {.route = "request_buffering = 4k"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage_client_sends(stage, "bc");
	struct exchange *x =
		stage_ask(stage, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na");
	assert_true(exchange_has_request(x));
	assert_int_equal(x->gathering, GATHERING_READY);
	stage_end(stage);
}

/* ---- its ticket ------------------------------------------------------------------------------ */

static unsigned lane_of(const char *listener, const char *route, const char *fields)
{
	const struct stage_conf conf = {.listener = listener, .route = route};
	char request[200];
	struct stage *stage = stage_begin(&conf);

	snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);
	unsigned lane = stage_ask(stage, request)->turn.ticket.lane;
	stage_end(stage);
	return lane;
}

static void lanes(void **state)
{
	static const char trusts[] = "trust_priority = on";

	(void)state;
	assert_int_equal(lane_of("", "", ""), QUEUE_LANE_NORMAL);
	assert_int_equal(lane_of("", "lane = high", ""), QUEUE_LANE_HIGH);
	assert_int_equal(lane_of("", "", "Priority: u=0\r\n"), QUEUE_LANE_NORMAL);
	assert_int_equal(lane_of(trusts, "", "Priority: u=0\r\n"), QUEUE_LANE_HIGH);
	assert_int_equal(lane_of(trusts, "", "Priority: u=2\r\n"), QUEUE_LANE_HIGH);
	assert_int_equal(lane_of(trusts, "", "Priority: u=3\r\n"), QUEUE_LANE_NORMAL);
	assert_int_equal(lane_of(trusts, "lane = high", "Priority: u=3\r\n"), QUEUE_LANE_HIGH);
	assert_int_equal(lane_of(trusts, "lane = high", "Priority: u=4\r\n"), QUEUE_LANE_NORMAL);
	assert_int_equal(lane_of(trusts, "lane = high", ""), QUEUE_LANE_HIGH);
}

static void what_a_ticket_says(void **state)
{
	const struct stage_conf keyed = {.route = KEYED};
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = stage_ask(stage, GET);

	(void)state;
	assert_false(x->turn.ticket.unsafe);
	assert_true(x->turn.ticket.unordered); /* an address is no client */
	assert_int_equal(x->turn.ticket.weight, 1);
	assert_int_equal(x->turn.ticket.bytes, sizeof(*x) + sizeof(*x->gate) + EXCHANGE_HEAD_BYTES);
	stage_end(stage);
	stage = stage_begin(&keyed);
	x = stage_ask(stage, POST_OF("X-Key: a\r\n"));
	assert_true(x->turn.ticket.unsafe);
	assert_false(x->turn.ticket.unordered);
	stage_end(stage);
	stage = stage_begin(&plain);
	x = stage_ask(stage, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n");
	assert_int_equal(x->turn.ticket.bytes, sizeof(*x) + sizeof(*x->gate) + EXCHANGE_HEAD_BYTES +
						       stage->worker->blocks.block_bytes);
	stage_end(stage);
}

static void what_the_queue_says_of_one_that_waits(void **state)
{
	static const struct {
		enum session_state closes;
		unsigned status;
		const char *outcome;
	} rows[] = {
		{SESSION_CLOSING, 503, "session closed"},
		{SESSION_ABORTED, 0, "session aborted"},
	};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct stage *stage = stage_begin(&one_place);
		struct exchange *first = stage_ask(stage, GET), *x = stage_other_asks(stage, GET);
		unsigned advanced = stage->other.advanced;
		queue_close_all(
			stage->daemon.node.queue, rows[i].closes, worker_now_ns(stage->worker));
		stage_turn(stage);
		assert_string_equal(x->outcome, rows[i].outcome);
		assert_true(stage->other.advanced > advanced); /* its connection continues */
		assert_int_equal(x->answer.status, rows[i].status);
		assert_int_equal(first->state == EXCHANGE_ENDED, i == 1);
		stage_end(stage);
	}
}

/* Its turn comes while it leaves: its memory waits for the message. */
static void one_that_leaves_while_its_turn_comes(void **state)
{
	struct stage *stage = stage_begin(&one_place);
	struct exchange *first = stage_ask(stage, GET), *x = stage_other_asks(stage, GET);

	(void)state;
	exchange_end(first);
	client_close(&stage->other.client, "left");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(x->turn.ticket_use, TURN_TICKET_IS_AWAY);
	assert_int_equal(exchange_part(stage->worker)->spares.count, 0);
	stage_turn(stage);
	assert_int_equal(exchange_part(stage->worker)->spares.count, 2);
	stage_end(stage);
}

UNIT_SUITE(test_turn_place)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(behind_one_of_its_session_it_takes_its_turn_and_no_place),
		cmocka_unit_test(behind_one_of_another_session_it_is_not_in_the_queue),
		cmocka_unit_test(behind_one_that_is_answered_it_goes_on),
		cmocka_unit_test(behind_what_the_client_has_not_taken_it_takes_no_place),
		cmocka_unit_test(the_lane_counts_as_the_session_does),
		cmocka_unit_test(its_body_comes_first),
		cmocka_unit_test(what_is_here_of_its_body_is_read_at_once),
		cmocka_unit_test(lanes),
		cmocka_unit_test(what_a_ticket_says),
		cmocka_unit_test(what_the_queue_says_of_one_that_waits),
		cmocka_unit_test(one_that_leaves_while_its_turn_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
