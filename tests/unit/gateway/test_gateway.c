/* A gateway's socket from its handshake on: messages and answers, what waits, what it keeps. */
#include "gatewayed.h"
#include "tests/unit/suite.h"

#define WAITING       16 /* gateway_waiting */
#define WAITING_BYTES (64 * 1024)

/* ---- the handshake --------------------------------------------------------------------------- */

static void opens(void **state)
{
	static char large[META_BYTES + 100];

	(void)state;
	ask();
	answer_with("Sec-WebSocket-Protocol: v1\r\n", "OPEN\r\n");
	assert_has(connected_got(&o.c), "HTTP/1.1 502 "); /* it was not offered */
	end();
	ask();
	snprintf(large, sizeof(large), "Set-Meta-A: b\r\nSet-Meta-B: %0*d\r\n", META_BYTES, 0);
	answer_with(large, "OPEN\r\n"); /* and not to the client as it is */
	assert_has(connected_got(&o.c), "HTTP/1.1 502 ");
	assert_lacks(o.c.got, "Meta-");
	end();
	ask();
	answer_with("X-More: 1\r\nSet-Meta-A: b\r\n", "OPEN\r\n");
	const char *head = connected_got(&o.c);
	assert_has(head, "HTTP/1.1 101 ");
	assert_has(head, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
	assert_has(head, "Upgrade: websocket\r\n");
	assert_has(head, "X-More: 1\r\n");
	assert_lacks(head, "Meta-");
	assert_lacks(head, "Content-");
	end();
}

static void the_client_leaves_before_the_answer(void **state)
{
	(void)state;
	ask();
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	answer("OPEN\r\n");
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_false(gateway_is_left());
	end();
}

static void the_client_leaves_before_a_refusal(void **state)
{
	(void)state;
	ask();
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	stage_server_sends(o.stage, 0, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
	assert_string_equal(server_got(), "");
	assert_false(gateway_is_left());
	end();
}

/* 200, but no events: it has not opened. */
static void the_client_leaves_before_a_page(void **state)
{
	(void)state;
	ask();
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	stage_server_sends(o.stage, 0,
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\npage");
	assert_string_equal(server_got(), "");
	assert_false(gateway_is_left());
	end();
}

/* No answer comes: the server may have opened it. */
static void the_client_leaves_and_no_answer_comes(void **state)
{
	(void)state;
	ask();
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_int_equal(o.stage->server_count, 1);
	memory_peer_reset(o.stage->servers[0].wire);
	opened_turn(&o);
	assert_int_equal(o.stage->server_count, 2);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_false(gateway_is_left());
	end();
}

/* ---- messages -------------------------------------------------------------------------------- */

static void goes_both_ways(void **state)
{
	(void)state;
	begin_with("", "OPEN\r\nTEXT 7\r\nwelcome\r\n");
	assert_has(o.c.got, "\r\n\r\n\x81\x07welcome"); /* behind the 101 */
	say("hello");
	assert_string_equal(request_got(), "TEXT 5\r\nhello\r\n");
	answer("TEXT 5\r\nworld\r\nBINARY 1\r\nx\r\n");
	assert_string_equal(opened_to_client(&o), "text(world) binary(x) ");
	opened_client(&o, FRAME_PING, "p");
	assert_string_equal(opened_to_client(&o), "pong(p) ");
	assert_string_equal(server_got(), "");
	assert_int_equal(o.stage->server_count, 1); /* one connection serves all */
	end();
}

static void those_that_wait_leave_together(void **state)
{
	(void)state;
	begin();
	say("a");
	assert_string_equal(request_got(), "TEXT 1\r\na\r\n");
	say("b");
	opened_client(&o, FRAME_BINARY, "c");
	say("d");
	assert_string_equal(server_got(), "");
	answer("");
	assert_string_equal(request_got(), "TEXT 1\r\nb\r\nBINARY 1\r\nc\r\nTEXT 1\r\nd\r\n");
	say("e");
	answer("TEXT 1\r\nB\r\n");
	assert_string_equal(request_got(), "TEXT 1\r\ne\r\n");
	assert_string_equal(opened_to_client(&o), "text(B) ");
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_UNLIMITED), 4);
	answer("");
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_UNLIMITED), 5);
	end();
}

/* As many as may wait are read, and the others when these have left. */
static void few_wait(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 3 * WAITING; i++)
		say("x");
	assert_string_equal(request_got(), "TEXT 1\r\nx\r\n");
	assert_int_equal(gateway_of(o.socket->gateway)->waiting, WAITING + 1);
	answer("");
	opened_turn(&o);
	assert_int_equal(strlen(request_got()), WAITING * strlen("TEXT 1\r\nx\r\n"));
	answer("");
	opened_turn(&o);
	assert_true(strlen(request_got()) > 0);
	end();
}

static void a_large_one_waits_alone(void **state)
{
	static char large[WAITING_BYTES / 4 + 1];

	(void)state;
	memset(large, 'x', sizeof(large) - 1);
	begin();
	for (unsigned i = 0; i < 6; i++) {
		say(large);
		opened_turn(&o);
	}
	assert_in_range(gateway_of(o.socket->gateway)->waiting_bytes, WAITING_BYTES,
		WAITING_BYTES + sizeof(large));
	end();
}

/* What a route says of it instead. */
static void bounds_of_the_route(void **state)
{
	static const struct stage_conf narrow = {
		.route = ROUTE "gateway_waiting = 5\ngateway_batch = 2\ngateway_tries = 1\n"
			       "gateway_answer_size = 1k\n"};
	char large[2000];

	(void)state;
	begin_on(&narrow, "", "OPEN\r\n");
	for (unsigned i = 0; i < 20; i++)
		say("x");
	assert_string_equal(request_got(), "TEXT 1\r\nx\r\n");
	assert_int_equal(gateway_of(o.socket->gateway)->waiting, 6);
	answer("");
	opened_turn(&o);
	assert_string_equal(request_got(), "TEXT 1\r\nx\r\nTEXT 1\r\nx\r\n");
	leave();
	assert_has(opened_to_client(&o), "close(1011 ");
	end();
	begin_on(&narrow, "", "OPEN\r\n");
	leave();
	say("not tried again");
	assert_has(opened_to_client(&o), "close(1011 ");
	end();
	begin_on(&narrow, "", "OPEN\r\n");
	say("x");
	request_got();
	snprintf(large, sizeof(large), "TEXT 5dc\r\n%01500d\r\n", 0);
	answer(large);
	assert_has(opened_to_client(&o), "close(1011 ");
	end();
}

/* ---- a client that takes nothing ------------------------------------------------------------- */

/* Its queue is where the next answer has to wait; the request for that is under way. */
static void fall_behind(void)
{
	static char events[STAGE_ROOM - 1000];
	int head = snprintf(events, sizeof(events), "BINARY %x\r\n", STAGE_ROOM - 2000);

	memset(events + head, 'x', STAGE_ROOM - 2000);
	strcpy(events + head + STAGE_ROOM - 2000, "\r\n");
	/* One message a request, so that the last is still to be answered. */
	for (unsigned i = 0; i < 4; i++)
		say("m");
	for (unsigned i = 0; flow_bytes(o.passage->down.flow) < SOCKET_AHEAD_BYTES; i++) {
		assert_true(i < 10);
		answer(events);
		say("m");
	}
	assert_non_null(gateway_of(o.socket->gateway)->client.first);
}

/* No room in the queues of all: as its own queue's, and no cut. */
static void no_room_for_an_answer(void **state)
{
	(void)state;
	begin();
	fall_behind();
	atomic_store(&o.stage->daemon.node.sends.most, 1);
	answer("TEXT 1\r\nx\r\n");
	assert_true(o.socket->closing.begun && !socket_has_ended(o.socket));
	assert_int_equal(o.socket->closing.client_code, CLOSE_TRY_AGAIN);
	assert_int_equal(opened_count(&o, STATS_SOCKETS_SLOW), 1);
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_DROPPED), 1);
	atomic_store(&o.stage->daemon.node.sends.most, 0);
	end();
}

/* One that its own queue can never hold is not lost in silence. */
static void an_answer_too_large_to_wait(void **state)
{
	static const struct stage_conf small = {.route = ROUTE "socket_queue_bytes = 10\n"};
	static const struct stage_conf drops = {
		.route = ROUTE "socket_queue_bytes = 10\non_socket_queue_full = drop\n"};

	(void)state;
	begin_on(&small, "", "OPEN\r\n");
	fall_behind();
	answer("TEXT 14\r\nxxxxxxxxxxxxxxxxxxxx\r\n");
	assert_int_equal(o.socket->closing.client_code, CLOSE_TRY_AGAIN);
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_DROPPED), 1);
	end();
	begin_on(&drops, "", "OPEN\r\n");
	fall_behind();
	answer("TEXT 14\r\nxxxxxxxxxxxxxxxxxxxx\r\n");
	assert_false(o.socket->closing.begun);
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_DROPPED), 1);
	end();
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* What requests read of a listener is there once for all that came by it, and goes with the last.
 */
static void a_listener_is_shared(void **state)
{
	const struct websockets *all;
	struct memory_peer *second;

	(void)state;
	begin();
	all = websockets_of(o.stage->worker);
	const struct shared_listener *shared = all->listeners;
	connected_accept(o.stage, &second, "192.0.2.2");
	opened_turn(&o);
	assert_true(memory_peer_send(second, OPENED_REQUEST, strlen(OPENED_REQUEST)) > 0);
	opened_turn(&o);
	answer("OPEN\r\n");
	assert_int_equal(all->count, 2);
	assert_ptr_equal(all->listeners, shared);
	assert_null(shared->next);
	assert_int_equal(shared->holders, 2);
	assert_ptr_equal(shared->listener.conf, o.stage->listener.conf);
	assert_ptr_equal(
		all->first->client.listener, &o.stage->listener); /* the socket's is its own */
	o.stage->worker->stopping = true; /* no server is informed of anything any more */
	passage_end(o.passage, "the end");
	opened_turn(&o);
	assert_int_equal(all->listeners->holders, 1);
	memory_peer_close(second);
	end();
}

/* Nothing of the answer is kept behind its 101. */
static void an_open_one_keeps_no_answer(void **state)
{
	(void)state;
	begin_with("X-More: 1\r\n", "OPEN\r\n");
	const struct gateway *gateway = gateway_of(o.socket->gateway);
	assert_null(gateway->answer.at);
	assert_true(gateway->head.len > 0);
	say("x");
	assert_has(server_got(), "\r\n\r\nTEXT 1\r\nx\r\n");
	end();
}

/* ---- answers --------------------------------------------------------------------------------- */

static void bad_answers(void **state)
{
	static const char *const answers[] = {
		"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\n"
		"TEXT 1\r\nx\r\n",
		HEAD "Content-Length: 3\r\n\r\nABC",
		HEAD "Content-Length: 6\r\n\r\nOPEN\r\n",
		HEAD "Content-Length: 10\r\n\r\nTEXT 5\r\nab",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		begin();
		say("x");
		assert_string_equal(request_got(), "TEXT 1\r\nx\r\n");
		stage_server_sends(o.stage, 0, answers[i]);
		opened_turn(&o);
		assert_has(opened_to_client(&o), "close(1011 ");
		opened_client_closes(&o, 1011, "");
		assert_string_equal(request_got(), "DISCONNECT\r\n");
		answer("");
		assert_false(gateway_is_left());
		end();
	}
}

static void meta_comes_back(void **state)
{
	(void)state;
	begin_with("Set-Meta-A: 1\r\n", "OPEN\r\n");
	say("x");
	assert_has(server_got(), "Meta-A: 1\r\n");
	answer_with("Set-Meta-a: \r\nSet-Meta-B: 2\r\n", "");
	say("y");
	assert_has(server_got(), "Meta-B: 2\r\n");
	assert_lacks(got, "Meta-A");
	end();
}

static void silence(void **state)
{
	(void)state;
	begin_with("Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	struct deadline *deadline = &o.passage->wait.deadline;
	uint64_t began_ms = worker_now_ms(o.stage->worker);

	assert_int_equal(deadline->at_ms, began_ms + 20000);
	stage_pass(o.stage, deadline);
	assert_string_equal(request_got(), "");
	answer_with("Keep-Alive-Interval: no\r\n", "TEXT 4\r\nnews\r\n");
	assert_string_equal(opened_to_client(&o), "text(news) ");
	assert_true(deadline->at_ms > worker_now_ms(o.stage->worker) + 3000000); /* none any more */
	end();
}

UNIT_SUITE(test_gateway)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens),
		cmocka_unit_test(the_client_leaves_before_the_answer),
		cmocka_unit_test(the_client_leaves_before_a_refusal),
		cmocka_unit_test(the_client_leaves_before_a_page),
		cmocka_unit_test(the_client_leaves_and_no_answer_comes),
		cmocka_unit_test(goes_both_ways),
		cmocka_unit_test(those_that_wait_leave_together),
		cmocka_unit_test(few_wait),
		cmocka_unit_test(a_large_one_waits_alone),
		cmocka_unit_test(no_room_for_an_answer),
		cmocka_unit_test(an_answer_too_large_to_wait),
		cmocka_unit_test(bounds_of_the_route),
		cmocka_unit_test(a_listener_is_shared),
		cmocka_unit_test(an_open_one_keeps_no_answer),
		cmocka_unit_test(bad_answers),
		cmocka_unit_test(meta_comes_back),
		cmocka_unit_test(silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
