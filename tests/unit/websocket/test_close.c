/* How a socket closes: a close frame goes both ways on each side. */
#include "opened.h"

#include "queue/queue.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {.route = OPENED_ROUTE};

static struct opened o;

/* Both peers have their frames, and the connections end. */
static void assert_over(const char *to_client, const char *to_server)
{
	assert_string_equal(opened_to_client(&o), to_client);
	assert_string_equal(opened_to_server(&o), to_server);
	assert_false(opened_is_open(&o));
	opened_end(&o);
}

static void the_client_begins(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client_closes(&o, 3001, "bye");
	assert_string_equal(opened_to_server(&o), "close(3001 bye) ");
	assert_string_equal(opened_to_client(&o), "");
	opened_server_closes(&o, 3002, "well");
	assert_over("close(3002 well) end", "end");
}

static void the_server_begins(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_server(&o, FRAME_TEXT, "last");
	opened_server_closes(&o, 4002, "enough");
	assert_string_equal(opened_to_client(&o), "text(last) close(4002 enough) ");
	assert_string_equal(opened_to_server(&o), "");
	opened_client_closes(&o, 4002, "");
	assert_over("end", "close(4002 ) end");
}

static const struct stage_conf hourly = {.more = "[limit l]\nkey = ip\nrate = 1 per 1h\n",
	.route = OPENED_ROUTE "message_limits = l\n"};

/* One that waits for its limit does not hold up the close frames: its server takes no more. */
static void the_server_begins_while_a_message_waits(void **state)
{
	(void)state;
	opened_begin(&o, &hourly);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "waits");
	assert_non_null(o.socket->client.first);
	opened_server_closes(&o, 4002, "enough");
	assert_string_equal(opened_to_client(&o), "close(4002 enough) ");
	assert_null(o.socket->client.first);
	opened_client_closes(&o, 4002, "");
	assert_over("end", "text(first) close(4002 ) end");
}

/* In a drain an end in order would say that it was passed on. */
static void the_server_closes_a_drain_while_a_message_waits(void **state)
{
	(void)state;
	opened_begin(&o, &hourly);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "waits");
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	opened_server_closes(&o, 1000, "");
	assert_has(opened_to_client(&o), "close(1011 ");
	opened_end(&o);
}

static void both_begin(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client_closes(&o, 1000, "c");
	opened_server_closes(&o, 1000, "s"); /* before it saw the other */
	assert_over("close(1000 s) end", "close(1000 c) end");
}

static void a_close_frame_without_a_code(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_CLOSE, "");
	assert_string_equal(opened_to_server(&o), "close() ");
	opened_server(&o, FRAME_CLOSE, "");
	assert_over("close() end", "end");
}

static void we_begin(void **state)
{
	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		opened_begin(&o, &plain);
		socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_GOING_AWAY, "log");
		socket_close(o.socket, CLOSE_TOO_BIG, SLICE("no"), CLOSE_TOO_BIG, "no"); /* once */
		socket_run(o.socket);
		assert_string_equal(opened_to_client(&o), "close(1008 why) ");
		assert_string_equal(opened_to_server(&o), "close(1001 why) ");
		opened_server(&o, FRAME_TEXT, "behind our close frame nothing may come");
		opened_client(&o, FRAME_TEXT, "too late");
		for (unsigned i = 0; i < 2; i++) {
			assert_true(opened_is_open(&o));
			if (i == first)
				opened_client_closes(&o, 1008, "");
			else
				opened_server_closes(&o, 1001, "");
		}
		assert_false(opened_is_open(&o));
		assert_has(lines.text, "outcome=\"log\"");
		assert_over("end", "end");
	}
}

static void a_long_reason_is_cut(void **state)
{
	char reason[200];

	(void)state;
	memset(reason, 'r', sizeof(reason));
	opened_begin(&o, &plain);
	socket_close(
		o.socket, CLOSE_POLICY, (struct slice){reason, sizeof(reason)}, CLOSE_POLICY, "x");
	socket_run(o.socket);
	assert_int_equal(
		strlen(opened_to_client(&o)), strlen("close(1008 ) ") + FRAME_CONTROL_BYTES - 2);
	opened_end(&o);
}

/* The server's close frame goes behind the message that is under way. */
static void the_message_under_way_goes_first(void **state)
{
	static char text[40001];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, text);
	opened_client(&o, FRAME_TEXT, text);
	assert_non_null(o.socket->client.first);
	socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_GOING_AWAY, "log");
	socket_run(o.socket);
	assert_string_equal(opened_to_client(&o), "close(1008 why) ");
	char all[200] = "";
	for (unsigned i = 0; i < 4; i++)
		strcat(all, opened_to_server(&o));
	assert_string_equal(all, "text(a x 40000) text(a x 40000) close(1001 why) ");
	opened_end(&o);
}

/* ---- a side is gone -------------------------------------------------------------------------- */

static uint64_t upstream_failures(void)
{
	uint64_t slots[STATS_UPSTREAM_SLOTS];

	stats_sum(o.stage->daemon.node.stats, STATS_UPSTREAM,
		o.stage->daemon.site->rows.upstreams[0], slots);
	return slots[STATS_UPSTREAM_FAILURES];
}

static void the_server_is_gone(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_server(&o, FRAME_TEXT, "last");
	memory_peer_end_output(o.server.wire);
	stage_turn(o.stage);
	assert_string_equal(opened_to_client(&o), "text(last) close(1011 server gone) ");
	assert_int_equal(upstream_failures(), 1);
	assert_true(opened_is_open(&o));
	opened_client_closes(&o, 1011, "");
	assert_over("end", "end");
}

static void the_server_is_gone_within_a_frame(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	memory_peer_send(o.server.wire,
		"\x82\x03"
		"a",
		3);
	memory_peer_end_output(o.server.wire);
	stage_turn(o.stage);
	/* Nothing can be said any more: the client is cut when the time is over. */
	assert_string_equal(opened_to_client(&o), "");
	opened_pass(&o);
	assert_over("end", "end");
}

static void the_server_hangs_up_on_a_close_frame(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client_closes(&o, 1000, "bye");
	memory_peer_end_output(o.server.wire);
	stage_turn(o.stage);
	assert_int_equal(upstream_failures(), 0);
	assert_over("close() end", "close(1000 bye) end");
}

static void the_client_is_gone(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, "last");
	memory_peer_end_output(o.client.wire);
	stage_turn(o.stage);
	assert_int_equal(stage_count(o.stage, STATS_CLIENT_GONE), 1);
	assert_over("end", "text(last) close(1001 client gone) end");
}

/* One that has read our close frame may leave without an answer. */
static void the_client_leaves_when_it_is_told(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_server_closes(&o, 1000, "");
	assert_string_equal(opened_to_client(&o), "close(1000 ) ");
	memory_peer_end_output(o.client.wire);
	stage_turn(o.stage);
	assert_int_equal(stage_count(o.stage, STATS_CLIENT_GONE), 0);
	opened_pass(&o); /* no close frame for the server: it has closed, and waits */
	assert_false(opened_is_open(&o));
	opened_end(&o);
}

/* But not one that has not taken it. */
static void the_client_leaves_before_it_is_told(void **state)
{
	static char text[40001];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	opened_begin(&o, &plain);
	opened_server(&o, FRAME_TEXT, text);
	opened_server(&o, FRAME_TEXT, text);
	socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_GOING_AWAY, "log");
	socket_run(o.socket);
	assert_true(o.socket->closing.client.told);
	memory_peer_end_output(o.client.wire);
	stage_turn(o.stage);
	assert_int_equal(stage_count(o.stage, STATS_CLIENT_GONE), 1);
	assert_false(opened_is_open(&o));
	opened_end(&o);
}

/* And then only the server's answer is waited for. */
static void the_client_leaves_when_we_have_told_it(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_GOING_AWAY, "log");
	socket_run(o.socket);
	assert_string_equal(opened_to_client(&o), "close(1008 why) ");
	memory_peer_end_output(o.client.wire);
	stage_turn(o.stage);
	assert_true(opened_is_open(&o));
	opened_server_closes(&o, 1001, "");
	assert_over("end", "close(1001 why) end");
}

/* What it has not taken is of no use any more, and keeps the socket no longer. */
static void the_server_is_gone_with_bytes_to_take(void **state)
{
	static char text[40001];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, text);
	opened_client(&o, FRAME_TEXT, text);
	assert_false(flow_is_empty(o.passage->up.flow));
	memory_peer_reset(o.server.wire);
	stage_turn(o.stage);
	assert_string_equal(opened_to_client(&o), "close(1011 server gone) ");
	assert_null(o.socket->client.first);
	opened_client_closes(&o, 1011, "");
	assert_over("end", "cut");
}

/* One that is not read now is found to be gone when it is written to. */
static void the_server_is_gone_for_what_it_is_sent(void **state)
{
	static char text[40001];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	opened_begin(&o, &plain);
	for (unsigned i = 0; i < 3; i++)
		opened_server(&o, FRAME_TEXT, text); /* its client takes nothing */
	memory_peer_reset(o.server.wire);
	opened_client(&o, FRAME_TEXT, "anybody there?");
	assert_true(o.socket->closing.begun);
	assert_int_equal(o.socket->closing.client_code, CLOSE_INTERNAL);
	assert_null(o.socket->client.first);
	opened_end(&o);
}

/* ---- finishing ------------------------------------------------------------------------------- */

static void finishing_tells_the_server_first(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_finish(o.socket, CLOSE_POLICY, SLICE("no"), "no"); /* once */
	socket_run(o.socket);
	assert_string_equal(opened_to_server(&o), "close(1001 over) ");
	opened_client(&o, FRAME_TEXT, "refused");
	opened_server(&o, FRAME_TEXT, "an answer");
	assert_string_equal(opened_to_client(&o), "text(an answer) ");
	opened_server_closes(&o, 4000, "its own");
	assert_string_equal(opened_to_client(&o), "close(1001 over) ");
	opened_client_closes(&o, 1001, "");
	assert_over("end", "end");
}

static void finishing_with_a_server_that_hangs_up(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_run(o.socket);
	memory_peer_end_output(o.server.wire);
	stage_turn(o.stage);
	assert_string_equal(opened_to_client(&o), "close(1001 over) ");
	opened_client_closes(&o, 1001, "");
	assert_over("end", "close(1001 over) end");
}

static void finishing_with_a_client_that_closes(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_run(o.socket);
	opened_client_closes(&o, 1000, "bye");
	opened_server(&o, FRAME_TEXT, "an answer");
	opened_server_closes(&o, 1001, "");
	assert_over("text(an answer) close(1001 over) end", "close(1001 over) end");
}

static void finishing_late(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_run(o.socket);
	assert_string_equal(opened_to_client(&o), "");
	assert_int_equal(opened_due_ms(&o), 5000);
	opened_pass(&o); /* the server is not waited for any longer */
	assert_string_equal(opened_to_client(&o), "close(1001 over) ");
	assert_int_equal(opened_due_ms(&o), 10000);
	opened_pass(&o); /* nor the client */
	assert_over("end", "close(1001 over) end");
}

/* Once its server has answered, the client has close_timeout for its close frame, and no more. */
static void finishing_with_a_client_that_does_not_answer(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_run(o.socket);
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "close(1001 over) ");
	assert_int_equal(opened_due_ms(&o), 5000);
	opened_pass(&o);
	assert_over("end", "close(1001 over) end");
}

/* close_timeout is the time of the server to answer: it begins with its close frame. */
static void finishing_waits_for_a_messages_turn(void **state)
{
	static const struct stage_conf conf = {.more = "[limit l]\nkey = ip\nrate = 1 per 20s\n",
		.route = OPENED_ROUTE "message_limits = l"};

	(void)state;
	opened_begin(&o, &conf);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "second");
	assert_string_equal(opened_to_server(&o), "text(first) ");
	struct exchange *message = o.socket->client.first;
	assert_int_equal(message->state, EXCHANGE_DELAYED);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_run(o.socket);
	assert_true(opened_due_ms(&o) > 1000 * 1000);
	message->gate->verdict.outcome = GATE_ADMIT; /* limits know the machine's time only */
	stage_pass(o.stage, &message->turn.deadline);
	assert_string_equal(opened_to_server(&o), "text(second) close(1001 over) ");
	assert_int_equal(opened_due_ms(&o), worker_now_ms(o.stage->worker) - STAGE_START_MS + 5000);
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "close(1001 over) ");
	assert_int_equal(opened_due_ms(&o), worker_now_ms(o.stage->worker) - STAGE_START_MS + 5000);
	opened_client_closes(&o, 1001, "");
	assert_over("end", "end");
}

static void a_session_that_ends_finishes_its_sockets(void **state)
{
	static const struct stage_conf conf = {.route = OPENED_ROUTE "session = header:Host"};
	struct session_key key;

	(void)state;
	opened_begin(&o, &conf);
	key = (struct session_key){
		{o.passage->request->session.hi, o.passage->request->session.lo}};
	assert_int_equal(queue_close_session(o.stage->daemon.node.queue, key, SESSION_DRAINING,
				 worker_now_ns(o.stage->worker)),
		SESSION_DRAINING);
	loop_finish_turn(&o.stage->worker->loop);
	stage_turn(o.stage);
	assert_string_equal(opened_to_server(&o), "close(1001 session closed) ");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "close(1001 session closed) ");
	opened_client_closes(&o, 1001, "");
	assert_over("end", "end");
}

/* Its client's next message may be refused before the socket has learned of it. What was accepted
 * is still answered. */
static void a_message_is_faster_than_the_end_of_its_session(void **state)
{
	static const struct stage_conf conf = {.route = OPENED_ROUTE "session = header:Host"};

	(void)state;
	opened_begin(&o, &conf);
	opened_client(&o, FRAME_TEXT, "first");
	queue_close_all(
		o.stage->daemon.node.queue, SESSION_CLOSING, worker_now_ns(o.stage->worker));
	assert_int_equal(memory_peer_send(o.client.wire, "\x81\x81\0\0\0\0x", 7), 7);
	socket_run(o.socket);
	assert_int_equal(o.socket->received.messages, 2);
	assert_string_equal(opened_to_server(&o), "text(first) close(1001 session closed) ");
	assert_string_equal(opened_to_client(&o), "");
	opened_server(&o, FRAME_TEXT, "answer");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "text(answer) close(1001 session closed) ");
	opened_client_closes(&o, 1001, "");
	assert_over("end", "end");
}

UNIT_SUITE(test_close)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_client_begins),
		cmocka_unit_test(the_server_begins),
		cmocka_unit_test(the_server_begins_while_a_message_waits),
		cmocka_unit_test(the_server_closes_a_drain_while_a_message_waits),
		cmocka_unit_test(both_begin),
		cmocka_unit_test(a_close_frame_without_a_code),
		cmocka_unit_test(we_begin),
		cmocka_unit_test(a_long_reason_is_cut),
		cmocka_unit_test(the_message_under_way_goes_first),
		cmocka_unit_test(the_server_is_gone),
		cmocka_unit_test(the_server_is_gone_within_a_frame),
		cmocka_unit_test(the_server_hangs_up_on_a_close_frame),
		cmocka_unit_test(the_client_is_gone),
		cmocka_unit_test(the_client_leaves_when_it_is_told),
		cmocka_unit_test(the_client_leaves_before_it_is_told),
		cmocka_unit_test(the_client_leaves_when_we_have_told_it),
		cmocka_unit_test(the_server_is_gone_with_bytes_to_take),
		cmocka_unit_test(the_server_is_gone_for_what_it_is_sent),
		cmocka_unit_test(finishing_tells_the_server_first),
		cmocka_unit_test(finishing_with_a_server_that_hangs_up),
		cmocka_unit_test(finishing_with_a_client_that_closes),
		cmocka_unit_test(finishing_late),
		cmocka_unit_test(finishing_with_a_client_that_does_not_answer),
		cmocka_unit_test(finishing_waits_for_a_messages_turn),
		cmocka_unit_test(a_session_that_ends_finishes_its_sockets),
		cmocka_unit_test(a_message_is_faster_than_the_end_of_its_session),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
