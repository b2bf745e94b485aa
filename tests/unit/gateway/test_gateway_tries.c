/* Tries of a message that the server of a gateway did not take, and when there are none. */
#include "gatewayed.h"
#include "tests/unit/suite.h"

static void pass(void)
{
	stage_pass(o.stage, &gateway_of(o.socket->gateway)->client.first->turn.deadline);
}

static void three_tries(void **state)
{
	(void)state;
	begin();
	leave();
	say("lost");
	assert_in_range(wait_ms(), 1000, 1101);
	pass();
	assert_in_range(wait_ms(), 2000, 2201);
	pass();
	assert_has(opened_to_client(&o), "close(1011 ");
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_UNLIMITED), 1);
	end();
}

static void comes_back_for_the_second(void **state)
{
	(void)state;
	begin();
	leave();
	say("kept");
	assert_in_range(wait_ms(), 1000, 1101);
	say("behind it");
	o.stage->connect_error = 0;
	pass();
	assert_string_equal(request_got(), "TEXT 4\r\nkept\r\n");
	answer("TEXT 2\r\nok\r\n");
	assert_string_equal(opened_to_client(&o), "text(ok) ");
	assert_string_equal(request_got(), "TEXT 9\r\nbehind it\r\n");
	leave();
	assert_has(opened_to_client(&o), "close(1011 "); /* it may have arrived */
	end();
}

/* What waits for its next try holds nothing: it is charged when it is sent, with those that leave
 * in one request with it. */
static void charged_when_it_is_sent_again(void **state)
{
	static const struct stage_conf limited = {
		.more = "[limit l]\nkey = ip\nrate = 3 per 10s\n",
		.route = ROUTE "message_limits = l\n",
	};

	(void)state;
	begin_on(&limited, "", "OPEN\r\n");
	say("first");
	say("two");
	say("three");
	assert_string_equal(request_got(), "TEXT 5\r\nfirst\r\n");
	o.stage->connect_error = ECONNREFUSED;
	answer_with("Connection: close\r\n", "");
	struct exchange *lead = gateway_of(o.socket->gateway)->client.first;
	assert_int_equal(lead->state, EXCHANGE_DELAYED);
	assert_non_null(lead->tunnel.riders);
	assert_true(gate_receipt_is_empty(&lead->gate->receipt));
	assert_true(gate_receipt_is_empty(&lead->tunnel.riders->gate->receipt));
	o.stage->connect_error = 0;
	pass();
	assert_false(gate_receipt_is_empty(&lead->gate->receipt));
	assert_false(gate_receipt_is_empty(&lead->tunnel.riders->gate->receipt));
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\nTEXT 5\r\nthree\r\n");
	end();
}

/* ---- refused while it waits for its next try ------------------------------------------------- */

/* Another of its caller's takes so much of what its limits have. */
static void take(const struct exchange *x, unsigned count)
{
	struct throttle_table *table = o.stage->worker->node->throttles;
	struct throttle_charge charges[GATE_LIMITS_MAX];
	unsigned limits = gate_charges(&x->gate->identity, charges);
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;

	for (; count > 0; count--) {
		throttle_take(table, charges, limits, worker_throttle_ns(o.stage->worker), &verdict,
			&receipt);
		assert_true(verdict.admitted);
	}
}

/* A message's limit says what becomes of it where another limit delays. */
#define LIMITED(on_exceed)                                                                         \
	{                                                                                          \
		.more = "[limit l]\nkey = ip\nrate = 4 per 10s\n"                                  \
			"[limit d]\nkey = ip\nrate = 100 per 1s\non_exceed = delay 1s\n",          \
		.route = ROUTE "limits = d\nmessage_limits = l\non_message_exceed = " on_exceed    \
			       "\n",                                                               \
	}

/* "first" is under way, "two" and "three" leave in one request behind it, which finds no server. */
static void fail_together(const struct stage_conf *conf)
{
	begin_on(conf, "", "OPEN\r\n");
	say("first");
	say("two");
	say("three");
	o.stage->connect_error = ECONNREFUSED;
	answer_with("Connection: close\r\n", "");
	assert_non_null(gateway_of(o.socket->gateway)->client.first->tunnel.riders);
	assert_in_range(wait_ms(), 1000, 1101);
}

/* It finds one, and others of its caller have taken so much of the limits. */
static void try_again(unsigned taken)
{
	o.stage->connect_error = 0;
	take(gateway_of(o.socket->gateway)->client.first, taken);
	pass();
}

/* "four" comes before the next try. */
static void begin_limited(const struct stage_conf *conf, unsigned taken)
{
	fail_together(conf);
	say("four");
	try_again(taken);
}

static void dropped_before_its_next_try(void **state)
{
	static const struct stage_conf drops = LIMITED("drop\nmessage_notice = no");

	(void)state;
	begin_limited(&drops, 3);
	assert_string_equal(opened_to_client(&o), "text(no) text(no) text(no) ");
	assert_int_equal(o.socket->verdicts.refused, 3);
	assert_null(gateway_of(o.socket->gateway)->client.first);
	stage_at(o.stage, 30000);
	say("fits");
	assert_string_equal(request_got(), "TEXT 4\r\nfits\r\n");
	answer("");
	end();
}

static void closed_before_its_next_try(void **state)
{
	static const struct stage_conf closes = LIMITED("close");

	(void)state;
	begin_limited(&closes, 3);
	assert_has(opened_to_client(&o), "close(1008 retry-after-ms=");
	end();
}

/* A delay beyond its time. */
static void delayed_too_long_before_its_next_try(void **state)
{
	static const struct stage_conf delays = LIMITED("delay 5s");

	(void)state;
	begin_limited(&delays, 3);
	assert_has(opened_to_client(&o), "close(1008 retry-after-ms=");
	end();
}

/* What fits leaves, and the others behind it in their order: a limit that was lowered might never
 * admit all of them at once. */
static void parted_from_those_that_fit(void **state)
{
	static const struct stage_conf delays = LIMITED("delay");

	(void)state;
	begin_limited(&delays, 2);
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\n");
	assert_null(gateway_of(o.socket->gateway)->client.first->tunnel.riders);
	answer("");
	assert_string_equal(server_got(), "");
	pass();
	assert_string_equal(request_got(), "TEXT 5\r\nthree\r\nTEXT 4\r\nfour\r\n");
	answer("");
	assert_null(gateway_of(o.socket->gateway)->client.first);
	end();
}

/* Each request has its own three. */
static void tries_begin_again(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 3; i++) {
		leave();
		say("x");
		assert_in_range(wait_ms(), 1000, 1101);
		o.stage->connect_error = 0;
		pass();
		assert_string_equal(request_got(), "TEXT 1\r\nx\r\n");
		answer("");
	}
	end();
}

/* The server closes its idle connection in the moment of a message, and the loop does not know yet:
 * nothing is written to that, and the message leaves on another one at once. */
static void a_connection_that_has_just_ended(void **state)
{
	(void)state;
	begin();
	say("one");
	request_got();
	answer("");
	assert_int_equal(o.stage->server_count, 1);
	memory_peer_end_unheard(o.stage->servers[0].wire);
	say("two");
	assert_int_equal(o.stage->server_count, 2);
	assert_string_equal(stage_server_got(o.stage, 0), "");
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\n");
	answer("TEXT 2\r\nok\r\n");
	assert_string_equal(opened_to_client(&o), "text(ok) ");
	end();
}

/* Where the upstream allows no further try, by the gateway's own. */
static void a_connection_that_has_just_ended_without_retries(void **state)
{
	static const struct stage_conf once = {.upstream = "retries = 0", .route = ROUTE};

	(void)state;
	begin_on(&once, "", "OPEN\r\n");
	memory_peer_end_unheard(o.stage->servers[0].wire);
	say("kept");
	assert_in_range(wait_ms(), 1000, 1101);
	pass();
	assert_string_equal(request_got(), "TEXT 4\r\nkept\r\n");
	answer("");
	end();
}

/* What was written is not sent again, whether it arrived or not. */
static void a_connection_that_ends_behind_the_message(void **state)
{
	(void)state;
	begin();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	memory_peer_end_output(o.stage->servers[0].wire);
	opened_turn(&o);
	assert_has(opened_to_client(&o), "close(1011 ");
	assert_int_equal(o.stage->server_count, 1);
	end();
}

static bool other_has_its_turn;

static void on_other(struct message *message)
{
	(void)message;
	other_has_its_turn = true;
}

/* A write of another connection of the same client that came while the first one waited for its
 * next try goes behind those that part from it, as they were there before. */
static void parted_and_not_passed(void **state)
{
	static const struct stage_conf delays = LIMITED("delay");
	const struct exchange *lead;
	struct worker *worker;
	struct ticket other;

	(void)state;
	other_has_its_turn = false;
	fail_together(&delays);
	worker = o.stage->worker;
	lead = gateway_of(o.socket->gateway)->client.first;
	ticket_init(&other, 0);
	other.unsafe = true;
	other.message.run = on_other;
	assert_int_equal(
		queue_enter(worker->node->queue, &site_part(worker)->use->site->policies[0],
			o.passage->account.upstream->state->run_queue,
			(struct session_key){
				{lead->gate->verdict.session.hi, lead->gate->verdict.session.lo}},
			&other, worker_now_ns(worker)),
		QUEUE_WAIT);
	try_again(2);
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\n");
	answer("");
	assert_string_equal(server_got(), "");
	assert_false(other_has_its_turn);
	pass();
	assert_string_equal(request_got(), "TEXT 5\r\nthree\r\n");
	answer("");
	assert_true(other_has_its_turn);
	queue_arrive(worker->node->queue, &other, worker_now_ns(worker));
	queue_done(worker->node->queue, &other, worker_now_ns(worker));
	end();
}

UNIT_SUITE(test_gateway_tries)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_tries),
		cmocka_unit_test(comes_back_for_the_second),
		cmocka_unit_test(charged_when_it_is_sent_again),
		cmocka_unit_test(dropped_before_its_next_try),
		cmocka_unit_test(closed_before_its_next_try),
		cmocka_unit_test(delayed_too_long_before_its_next_try),
		cmocka_unit_test(parted_from_those_that_fit),
		cmocka_unit_test(parted_and_not_passed),
		cmocka_unit_test(tries_begin_again),
		cmocka_unit_test(a_connection_that_has_just_ended),
		cmocka_unit_test(a_connection_that_has_just_ended_without_retries),
		cmocka_unit_test(a_connection_that_ends_behind_the_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
