/* An exchange on the way to its turn: how long it waits, for a place at its upstream or its limit.
 */
#include "exchange/turn.h"

#include "conf/conf.h"
#include "fakes/stage.h"
#include "queue/run_queue.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define GET  "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static const struct stage_conf one_place = {.upstream = "max_in_flight = 1"};

/* ---- a place at the upstream ----------------------------------------------------------------- */

static void without_a_place_it_waits(void **state)
{
	struct stage *stage = stage_begin(&one_place);
	struct exchange *first = stage_ask(stage, GET), *second = stage_other_asks(stage, GET);

	(void)state;
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	assert_int_equal(second->state, EXCHANGE_QUEUED);
	assert_int_equal(second->turn.deadline.at_ms, STAGE_START_MS + 30000);
	stage_server_sends(stage, 0, DONE);
	exchange_end(first);
	stage_turn(stage);
	assert_int_equal(second->state, EXCHANGE_FORWARDING);
	assert_int_equal(second->turn.deadline.at_ms, DEADLINE_NEVER);
	assert_true(stage->other.advanced > 0); /* its connection continues */
	stage_end(stage);
}

static void not_for_longer_than_queue_timeout(void **state)
{
	const struct stage_conf conf = {
		.upstream = "max_in_flight = 1", .route = "queue_timeout = 4s"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage_ask(stage, GET);
	struct exchange *x = stage_other_asks(stage, GET);
	unsigned advanced = stage->other.advanced;
	stage_at(stage, 1);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(worker_now_ms(stage->worker), STAGE_START_MS + 4000);
	assert_int_equal(x->answer.status, 503);
	assert_string_equal(x->outcome, "queue timeout");
	assert_int_not_equal(x->answer.retry_after_ms, UINT64_MAX);
	assert_int_equal(stage_count(stage, STATS_SHED), 1);
	assert_true(stage->other.advanced > advanced);
	stage_end(stage);
}

static void a_full_queue_turns_it_away(void **state)
{
	const struct stage_conf conf = {
		.upstream = "max_in_flight = 1", .route = "queue_depth = 1"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage_ask(stage, GET);
	struct exchange *waits = stage_other_asks(stage, GET),
			*third = stage_other_asks(stage, GET);
	assert_int_equal(waits->state, EXCHANGE_QUEUED);
	assert_int_equal(third->answer.status, 503);
	assert_string_equal(third->outcome, "queue full");
	assert_true(third->answer.retry_after_ms >= 1);
	assert_int_equal(stage_count(stage, STATS_SHED), 1);
	stage_end(stage);
}

static void one_that_is_sent_again_waits_from_now_on(void **state)
{
	struct stage *stage = stage_begin(&one_place);

	(void)state;
	stage_ask(stage, GET);
	struct exchange *x = stage_other_asks(stage, GET);
	stage_at(stage, 5000);
	exchange_await_turn(x); /* the same wait continues */
	assert_int_equal(x->turn.wait_ends_ms, STAGE_START_MS + 30000);
	x->attempt.reach = REACH_SENT;
	exchange_await_turn(x);
	assert_int_equal(x->turn.wait_ends_ms, STAGE_START_MS + 35000);
	x->attempt.search = SEARCH_AGAIN;
	stage_at(stage, 6000);
	exchange_await_turn(x);
	assert_int_equal(x->turn.wait_ends_ms, STAGE_START_MS + 35000);
	x->attempt.search = SEARCH_FIRST;
	stage_end(stage);
}

static void a_look_is_no_later_than_the_end(void **state)
{
	struct stage *stage = stage_begin(&one_place);

	(void)state;
	stage_ask(stage, GET);
	struct exchange *x = stage_other_asks(stage, GET);
	exchange_look_again(x, 200);
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 200);
	stage_at(stage, 29900);
	exchange_look_again(x, 200);
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 30000);
	stage_end(stage);
}

/* ---- a limit that delays --------------------------------------------------------------------- */

static const struct stage_conf delaying = {.route = "limits = slow",
	.more = "[limit slow]\nkey = ip\nrate = 1 per 10s\non_exceed = delay 60s\n"};

static void pass_throttle_time(struct stage *stage, uint64_t ms)
{
	stage->daemon.node.anchor.offset_ns += ms * CLOCK_NS_PER_MS;
}

static void it_waits_until_its_limit_admits_it(void **state)
{
	struct stage *stage = stage_begin(&delaying);
	struct exchange *first = stage_ask(stage, GET), *x = stage_other_asks(stage, GET);

	(void)state;
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	assert_true(x->gate->delayed);
	assert_true(x->turn.aside); /* others need not wait for its limit */
	assert_in_range(x->turn.deadline.at_ms, STAGE_START_MS + 9000, STAGE_START_MS + 10002);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_DELAYED); /* not yet, by the throttles' clock */
	pass_throttle_time(stage, 10100);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->gate->verdict.outcome, GATE_ADMIT);
	uint64_t slots[STATS_LIMIT_SLOTS];
	stats_sum(stage->daemon.node.stats, STATS_LIMIT, stage->daemon.site->rows.limits[0], slots);
	assert_int_equal(slots[STATS_LIMIT_VERDICT + STATS_LIMIT_DELAYED], 1); /* once */
	assert_false(x->turn.aside);
	stage_end(stage);
}

UNIT_SUITE(test_turn)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_place_it_waits),
		cmocka_unit_test(not_for_longer_than_queue_timeout),
		cmocka_unit_test(a_full_queue_turns_it_away),
		cmocka_unit_test(one_that_is_sent_again_waits_from_now_on),
		cmocka_unit_test(a_look_is_no_later_than_the_end),
		cmocka_unit_test(it_waits_until_its_limit_admits_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
