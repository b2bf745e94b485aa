/* An exchange's birth, what it releases, and its end: by which states it got there does not matter,
 * nothing of it is left. */
#include "exchange/exchange.h"

#include "fakes/flight.h"
#include "queue/run_queue.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static const struct stage_conf plain = {0};

static void each_state_has_a_name(void **state)
{
	(void)state;
	for (int i = EXCHANGE_HEAD; i <= EXCHANGE_ENDED; i++) {
		assert_non_null(exchange_state_name((enum exchange_state)i));
		for (int k = EXCHANGE_HEAD; k < i; k++)
			assert_string_not_equal(exchange_state_name((enum exchange_state)i),
				exchange_state_name((enum exchange_state)k));
	}
}

static void a_new_one_knows_nothing_of_the_last(void **state)
{
	struct stage *stage = stage_begin(&(struct stage_conf){
		.route = "limits = all", .more = "[limit all]\nkey = ip\nrate = 9 per 1h\n"});
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	x->orphaned = false;
	flight_answer(stage, x, DONE);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	stage_at(stage, 7);
	struct exchange *again = exchange_new(stage->worker, &stage->other.client);
	assert_ptr_equal(again, x); /* its memory */
	assert_int_equal(again->state, EXCHANGE_HEAD);
	assert_ptr_equal(again->client, &stage->other.client);
	assert_ptr_equal(again->use, site_part(stage->worker)->use);
	assert_null(again->route);
	assert_null(again->connection);
	assert_null(again->outcome);
	assert_int_equal(again->attempt.reach, REACH_NONE);
	assert_int_equal(again->answer.progress, ANSWER_AWAITED);
	assert_false(exchange_is_queued(again));
	assert_int_equal(again->answer.status, 0);
	assert_int_equal(again->times.judged_ns, 0);
	assert_int_equal(again->times.began_ns, worker_now_ns(stage->worker));
	assert_int_equal(again->gate->verdict.limit_count, 0);
	assert_int_equal(again->gate->receipt.throttle.count, 0);
	assert_int_equal(again->dialect, CONF_RATELIMIT_DRAFT_11);
	assert_int_equal(exchange_part(stage->worker)->count, 1);
	again->client = NULL;
	exchange_end(again);
	stage_end(stage);
}

static void so_many_are_kept_for_later(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *all[1100];
	uint64_t holds = site_part(stage->worker)->use->count;

	(void)state;
	for (unsigned i = 0; i < 1100; i++) {
		all[i] = exchange_new(stage->worker, &stage->client.client);
		all[i]->client = NULL;
	}
	assert_int_equal(exchange_part(stage->worker)->count, 1100);
	assert_int_equal(site_part(stage->worker)->use->count, holds + 1100);
	for (unsigned i = 0; i < 1100; i++)
		exchange_end(all[i]);
	assert_int_equal(
		exchange_part(stage->worker)->spares.count, 0); /* not before the turn's end */
	stage_turn(stage);
	assert_int_equal(exchange_part(stage->worker)->spares.count, 1024);
	assert_int_equal(site_part(stage->worker)->use->count, holds);
	stage_end(stage);
}

static void it_ends_once(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	exchange_end(x);
	exchange_end(x);
	assert_int_equal(exchange_part(stage->worker)->count, 0);
	assert_string_equal(stage->client.trace, "read ended ");
	assert_null(strstr(strchr(lines.text, '\n') + 1, "GET")); /* one line */
	stage_end(stage);
}

/* A request that was never read whole is none: no line, no count. */
static void a_head_that_was_not_read_is_not_logged(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = exchange_new(stage->worker, &stage->client.client);

	(void)state;
	x->client = NULL;
	exchange_end(x);
	assert_string_equal(lines.text, "");
	stage_end(stage);
}

static void what_it_holds_is_given_back(void **state)
{
	struct stage *stage = stage_begin(&(struct stage_conf){
		.route = "request_buffering = 4k", .upstream = "max_in_flight = 1"});
	struct exchange *first = flight_begin(stage, GET);
	struct run_queue_counts counts;

	(void)state;
	stage->asks = &stage->other;
	struct exchange *x =
		stage_ask(stage, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
	assert_non_null(x->body);
	exchange_free_body(x);
	assert_null(x->body);
	assert_null(x->up.spool);
	assert_int_equal(x->gathering, GATHERING_NONE);
	assert_int_equal(stage->daemon.node.store.memory, 0);
	exchange_free_body(x); /* also when there is none */
	exchange_drop_connection(first);
	assert_null(first->connection);
	assert_null(first->server);
	assert_null(first->up.sink);
	assert_null(first->down.source);
	assert_int_equal(flight_server(stage)->in_flight, 0);
	assert_int_equal(flight_server(stage)->connections, 0);
	exchange_leave_queue(first);
	exchange_leave_queue(first); /* once */
	run_queue_count(x->upstream->state->run_queue, &counts);
	assert_int_equal(counts.in_flight, 0);
	stage_end(stage);
}

static void a_cut_ends_both_sides(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	exchange_abort(x, "why");
	assert_string_equal(stage->client.trace, "read close(why) ");
	assert_int_equal(x->state, EXCHANGE_ENDED); /* a write, and not followed */
	assert_string_equal(x->outcome, "why");
	assert_int_equal(flight_server(stage)->connections, 0);
	assert_null(exchange_part(stage->worker)->orphans);
	stage_end(stage);
}

static void a_cut_request_is_counted(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	exchange_request_cut(x);
	assert_has(stage->client.trace, "close(client left during its request) ");
	assert_int_equal(stage_count(stage, STATS_CLIENT_GONE), 1);
	stage_end(stage);
}

/* Is a second request admitted by a limit of one, after the first has ended so? */
static bool is_given_back(const char *route, const char *response)
{
	char text[200];
	const struct stage_conf conf = {
		.route = text, .more = "[limit one]\nkey = ip\nrate = 1 per 1h\n"};

	snprintf(text, sizeof(text), "limits = one\n%s", route);
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = stage_ask(stage, GET);
	if (response)
		flight_answer(stage, x, response);
	else
		exchange_abort(x, "cut");
	stage->asks = &stage->other;
	bool again = stage_ask(stage, GET)->answer.status != 429;
	stage_end(stage);
	return again;
}

static void what_its_limits_are_charged_in_the_end(void **state)
{
	(void)state;
	assert_false(is_given_back("", DONE));
	assert_false(is_given_back("", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"));
	assert_true(is_given_back("refund = 5xx", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"));
	assert_false(is_given_back("refund = 5xx", DONE));
	assert_true(is_given_back("cost = response:X-Cost",
		"HTTP/1.1 200 OK\r\nX-Cost: 0\r\nContent-Length: 0\r\n\r\n"));
	assert_false(is_given_back("cost = response:X-Cost",
		"HTTP/1.1 200 OK\r\nX-Cost: 1\r\nContent-Length: 0\r\n\r\n"));
	assert_false(is_given_back("", NULL)); /* it has left for a server */
}

/* One that no server has got a byte of costs nothing. */
static void one_that_was_never_sent_is_not_charged(void **state)
{
	const struct stage_conf conf = {.route = "limits = one",
		.upstream = "max_in_flight = 1",
		.more = "[limit one]\nkey = ip\nrate = 2 per 1h\n"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	flight_begin(stage, GET);
	stage->asks = &stage->other;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	client_close(&stage->other.client, "left");
	assert_int_equal(stage_ask(stage, GET)->state, EXCHANGE_QUEUED);
	stage_end(stage);
}

UNIT_SUITE(test_exchange)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state_has_a_name),
		cmocka_unit_test(a_new_one_knows_nothing_of_the_last),
		cmocka_unit_test(so_many_are_kept_for_later),
		cmocka_unit_test(it_ends_once),
		cmocka_unit_test(a_head_that_was_not_read_is_not_logged),
		cmocka_unit_test(what_it_holds_is_given_back),
		cmocka_unit_test(a_cut_ends_both_sides),
		cmocka_unit_test(a_cut_request_is_counted),
		cmocka_unit_test(what_its_limits_are_charged_in_the_end),
		cmocka_unit_test(one_that_was_never_sent_is_not_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
