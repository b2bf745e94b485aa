/* The end of a gateway's socket, from each side and by a drain, and what becomes of messages that
 * are under way or wait then. */
#include "gatewayed.h"

#include "websocket/close.h"
#include "websocket/send.h"
#include "websocket/times.h"
#include "tests/unit/suite.h"

/* ---- the end --------------------------------------------------------------------------------- */

static void the_client_is_gone(void **state)
{
	(void)state;
	begin();
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_false(opened_is_open(&o));
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	assert_true(gateway_is_left());
	answer("TEXT 4\r\nlate\r\n");
	assert_false(gateway_is_left());
	end();
}

static void gone_with_a_message_under_way(void **state)
{
	(void)state;
	begin();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	say("two");
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_string_equal(server_got(), "");
	answer("TEXT 1\r\nx\r\n");
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_false(gateway_is_left());
	end();
}

static void gone_while_it_is_tried_again(void **state)
{
	(void)state;
	begin();
	leave();
	say("one");
	assert_in_range(wait_ms(), 1000, 1101);
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_true(gateway_is_left()); /* DISCONNECT is tried, too */
	struct gateway *gateway = gateways_of(o.stage->worker)->first;
	o.stage->connect_error = 0;
	stage_pass(o.stage, &gateway->client.first->turn.deadline);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_false(gateway_is_left());
	end();
}

static void the_client_closes(void **state)
{
	(void)state;
	begin();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	opened_client_closes(&o, 3001, "bye");
	assert_string_equal(server_got(), "");
	answer("TEXT 1\r\n1\r\n");
	assert_string_equal(request_got(), "CLOSE 5\r\n\x0b\xb9"
					   "bye\r\n");
	answer("CLOSE 2\r\n\x0b\xba\r\n");
	assert_string_equal(opened_to_client(&o), "text(1) close(3002 ) end");
	assert_false(gateway_is_left());
	end();
}

/* An answer that is lost behind its close frame: it has not ended in order. */
static void a_text_that_is_none_behind_its_close(void **state)
{
	(void)state;
	begin();
	say("x");
	opened_client_closes(&o, 1000, "bye");
	answer("TEXT 1\r\n\xff\r\n");
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "close(1011 text that is not UTF-8) end");
	end();
}

static void the_server_does_not_answer_a_close(void **state)
{
	(void)state;
	begin();
	opened_client_closes(&o, 3001, "bye");
	assert_has(request_got(), "CLOSE 5\r\n");
	answer("");
	assert_string_equal(opened_to_client(&o), "close(3001 bye) end");
	assert_false(gateway_is_left());
	end();
}

/* It wants to hear no more of a socket that it has left. */
static void the_server_disconnects(void **state)
{
	(void)state;
	begin();
	say("x");
	request_got();
	answer("TEXT 1\r\na\r\nDISCONNECT\r\nTEXT 1\r\nb\r\n");
	assert_string_equal(opened_to_client(&o), "text(a) close(1011 server disconnected) ");
	opened_client_closes(&o, 1011, "");
	assert_string_equal(opened_to_client(&o), "end");
	assert_string_equal(server_got(), "");
	assert_false(gateway_is_left());
	end();
}

/* What the server works on is not taken from it: its connection serves the end, too. */
static void a_request_under_way_is_left_alone(void **state)
{
	(void)state;
	begin();
	say("x");
	request_got();
	socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_GOING_AWAY, "log");
	socket_run(o.socket);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "close(1008 why) ");
	answer("TEXT 1\r\na\r\n");
	assert_int_equal(o.stage->server_count, 1);
	assert_string_equal(request_got(), "CLOSE 5\r\n\x03\xe9why\r\n");
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_UNLIMITED), 1);
	answer("");
	end();
}

/* ---- messages that are lost in a socket that closes ------------------------------------------ */

/* An answer in order to its close frame would say that its messages were passed on. */
static void lost_behind_a_close(void **state)
{
	(void)state;
	begin();
	say("one");
	say("two");
	opened_client_closes(&o, 1000, "");
	leave();
	assert_string_equal(opened_to_client(&o), "close(1011 closed without a response) end");
	end();
}

static void answered_badly_behind_a_close(void **state)
{
	(void)state;
	begin();
	say("one");
	opened_client_closes(&o, 1000, "");
	answer("TEXT 5\r\nab");
	assert_string_equal(opened_to_client(&o), "close(1011 malformed answer) end");
	end();
}

static void lost_in_a_drain(void **state)
{
	(void)state;
	begin();
	say("one");
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	leave();
	assert_string_equal(opened_to_client(&o), "close(1011 drained) ");
	end();
}

static void drain_ends_it(void)
{
	struct worker *worker = o.stage->worker;

	worker->draining = true;
	worker->drain_began_ms = worker_now_ms(worker);
	socket_drain(o.socket);
	o.socket->ends_ms = worker->drain_began_ms + 777;
	socket_run(o.socket);
	opened_pass(&o);
}

/* A drain: what the client has sent by then is answered before it gets 1001. */
static void answered_in_a_drain(void **state)
{
	(void)state;
	begin();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	say("two");
	drain_ends_it();
	say("too late");
	assert_string_equal(opened_to_client(&o), "");
	answer("TEXT 1\r\n1\r\n");
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\n");
	answer("TEXT 1\r\n2\r\n");
	assert_has(request_got(), "CLOSE c\r\n\x03\xe9going away\r\n");
	answer("");
	assert_string_equal(opened_to_client(&o), "text(1) text(2) close(1001 going away) ");
	opened_client_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "end");
	end();
}

/* The same at the end of socket_lifetime. */
static void answered_at_the_end_of_its_life(void **state)
{
	(void)state;
	begin();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	say("two");
	o.socket->ends_ms = worker_now_ms(o.stage->worker) + 777;
	socket_run(o.socket);
	opened_pass(&o);
	say("too late");
	assert_string_equal(opened_to_client(&o), "");
	answer("TEXT 1\r\n1\r\n");
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\n");
	answer("TEXT 1\r\n2\r\n");
	assert_has(request_got(), "CLOSE a\r\n\x03\xe9lifetime\r\n");
	answer("");
	assert_string_equal(opened_to_client(&o), "text(1) text(2) close(1001 lifetime) ");
	opened_client_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "end");
	end();
}

/* One whose answer does not come in its time may have been taken, or not. */
static void not_answered_in_a_drain(void **state)
{
	(void)state;
	begin();
	say("one");
	drain_ends_it();
	opened_pass(&o); /* nothing waits for its turn any more */
	assert_string_equal(opened_to_client(&o), "");
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "close(1011 going away) ");
	end();
}

/* Nothing is lost with the request that says so. */
static void only_the_close_is_lost(void **state)
{
	(void)state;
	begin();
	say("one");
	opened_client_closes(&o, 1000, "");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	answer("TEXT 1\r\n1\r\n");
	assert_has(request_got(), "CLOSE 2\r\n");
	leave();
	assert_string_equal(opened_to_client(&o), "text(1) close() end");
	end();
}

static const struct stage_conf delays = {
	.more = "[limit l]\nkey = ip\nrate = 1 per 10s\n",
	.route = ROUTE "message_limits = l\n",
};

#define LARGE 60000

static void answer_large(void)
{
	static char events[LARGE + 32];
	int len = sprintf(events, "TEXT %x\r\n", LARGE);

	memset(events + len, 'x', LARGE);
	strcpy(events + len + LARGE, "\r\n");
	answer(events);
}

/* Of a client that reads slowly: its close frame takes nothing away of what it was answered. */
static void answers_behind_a_close(void **state)
{
	(void)state;
	begin();
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	say("two");
	answer_large();
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\n");
	say("three");
	opened_client_closes(&o, 1000, "");
	answer_large();
	assert_string_equal(request_got(), "TEXT 5\r\nthree\r\n");
	answer("TEXT 1\r\n3\r\n");
	assert_int_equal(socket_queued_messages(o.socket), 1);
	assert_has(request_got(), "CLOSE 2\r\n");
	answer("CLOSE 2\r\n\x03\xe8\r\n");
	assert_string_equal(
		opened_to_client(&o), "text(x x 60000) text(x x 60000) text(3) close(1000 ) end");
	end();
}

/* It is in the queue when the close frame comes. */
static void answers_before_a_close(void **state)
{
	(void)state;
	begin();
	say("one");
	say("two");
	answer_large();
	say("three");
	answer_large();
	answer("TEXT 1\r\n3\r\n");
	assert_int_equal(socket_queued_messages(o.socket), 1);
	server_got();
	socket_client_closes(o.socket, opened_close_payload(1000, ""));
	passage_run(o.passage);
	opened_turn(&o);
	assert_has(request_got(), "CLOSE 2\r\n");
	answer("CLOSE 2\r\n\x03\xe8\r\n");
	assert_string_equal(
		opened_to_client(&o), "text(x x 60000) text(x x 60000) text(3) close(1000 ) end");
	end();
}

static const struct stage_conf delays_the_third = {
	.more = "[limit l]\nkey = ip\nrate = 2 per 10s\n",
	.route = ROUTE "message_limits = l\nqueue_timeout = 1m\n",
};

/* Charged when it came, it would leave in a window that holds two others. */
static void charged_when_it_leaves(void **state)
{
	(void)state;
	begin_on(&delays_the_third, "", "OPEN\r\n");
	say("one");
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	say("two");
	stage_at(o.stage, worker_now_ms(o.stage->worker) + 20000);
	opened_turn(&o);
	answer("");
	assert_string_equal(request_got(), "TEXT 3\r\ntwo\r\n");
	answer("");
	say("three");
	assert_string_equal(request_got(), "TEXT 5\r\nthree\r\n");
	answer("");
	say("four");
	assert_string_equal(server_got(), "");
	end();
}

static void given_up_behind_a_close(void **state)
{
	(void)state;
	begin_on(&delays, "", "OPEN\r\n");
	say("one");
	say("two");
	opened_client_closes(&o, 1000, "");
	socket_hurry(o.socket, "drained");
	opened_turn(&o);
	assert_string_equal(request_got(), "TEXT 3\r\none\r\n");
	answer("TEXT 1\r\n1\r\n");
	assert_has(request_got(), "CLOSE 2\r\n");
	answer("CLOSE 2\r\n\x03\xe8\r\n");
	assert_string_equal(opened_to_client(&o), "text(1) close(1001 going away) end");
	end();
}

/* Its client takes its answers too slowly for a drain: 1001 would say that it has them all. */
static void answers_given_up_in_a_drain(void **state)
{
	(void)state;
	begin();
	say("one");
	say("two");
	answer_large();
	say("three");
	answer_large();
	answer("TEXT 1\r\n3\r\n");
	assert_int_equal(socket_queued_messages(o.socket), 1);
	server_got();
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("going away"), "drained");
	socket_hurry(o.socket, "drained");
	socket_run(o.socket);
	opened_turn(&o);
	assert_has(request_got(), "CLOSE ");
	answer("");
	assert_string_equal(
		opened_to_client(&o), "text(x x 60000) text(x x 60000) close(1013 going away) ");
	end();
}

static void the_server_closes(void **state)
{
	(void)state;
	begin();
	say("x");
	assert_string_equal(request_got(), "TEXT 1\r\nx\r\n");
	say("behind it");
	answer("TEXT 1\r\ny\r\nCLOSE 6\r\n\x0f\xa0"
	       "done\r\nTEXT 1\r\nz\r\n");
	assert_string_equal(opened_to_client(&o), "text(y) close(4000 done) ");
	assert_string_equal(server_got(), "");
	opened_client_closes(&o, 4000, "done");
	assert_string_equal(opened_to_client(&o), "end");
	assert_string_equal(server_got(), "");
	assert_false(gateway_is_left());
	end();
}

UNIT_SUITE(test_gateway_end)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_client_is_gone),
		cmocka_unit_test(gone_with_a_message_under_way),
		cmocka_unit_test(gone_while_it_is_tried_again),
		cmocka_unit_test(the_client_closes),
		cmocka_unit_test(a_text_that_is_none_behind_its_close),
		cmocka_unit_test(the_server_does_not_answer_a_close),
		cmocka_unit_test(the_server_disconnects),
		cmocka_unit_test(a_request_under_way_is_left_alone),
		cmocka_unit_test(the_server_closes),
		cmocka_unit_test(lost_behind_a_close),
		cmocka_unit_test(answered_badly_behind_a_close),
		cmocka_unit_test(lost_in_a_drain),
		cmocka_unit_test(answered_in_a_drain),
		cmocka_unit_test(answered_at_the_end_of_its_life),
		cmocka_unit_test(not_answered_in_a_drain),
		cmocka_unit_test(only_the_close_is_lost),
		cmocka_unit_test(charged_when_it_leaves),
		cmocka_unit_test(given_up_behind_a_close),
		cmocka_unit_test(answers_given_up_in_a_drain),
		cmocka_unit_test(answers_behind_a_close),
		cmocka_unit_test(answers_before_a_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
