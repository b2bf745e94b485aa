/* The events of a long answer are passed on in several turns: in order, and whatever else happens
 * to their socket meanwhile. */
#include "gatewayed.h"

#include "websocket/close.h"
#include "websocket/send.h"
#include "tests/unit/suite.h"

enum { EVENTS = 1000 };

static char events[20 * EVENTS + 1000], expected[20 * EVENTS + 1000];

/* OPEN first, or nothing; so many messages with their numbers, and what comes behind them. */
static void compose(const char *first, const char *last, const char *last_expected)
{
	size_t len = (size_t)sprintf(events, "%s", first), expected_len = 0;

	for (unsigned i = 0; i < EVENTS; i++) {
		len += (size_t)sprintf(events + len, "TEXT 3\r\n%03u\r\n", i);
		expected_len += (size_t)sprintf(expected + expected_len, "text(%03u) ", i);
	}
	strcpy(events + len, last);
	strcpy(expected + expected_len, last_expected);
}

static bool is_passing(void)
{
	return socket_is_passing(o.socket);
}

/* All that the client gets by then. */
static void got_expected(void)
{
	static char all[sizeof(expected)];

	all[0] = '\0';
	do {
		strcat(all, opened_to_client(&o));
	} while (o.passage->socket && is_passing());
	strcat(all, opened_to_client(&o));
	assert_string_equal(all, expected);
}

static void begin_to_pass(const char *last, const char *last_expected)
{
	begin();
	say("x");
	compose("", last, last_expected);
	answer(events);
	assert_true(is_passing());
}

/* The same behind OPEN. What came with the 101 is not to be expected any more. */
static void begin_to_pass_behind_open(void)
{
	compose("OPEN\r\n", "", "");
	begin_with("", events);
	const char *frames = strstr(o.c.got, "\r\n\r\n") + 4;
	size_t count = strlen(frames) / 5;
	assert_in_range(count, 1, EVENTS - 1);
	const char *rest = expected + count * strlen("text(000) ");
	memmove(expected, rest, strlen(rest) + 1);
	assert_true(is_passing());
}

static void some_in_each_turn(void **state)
{
	unsigned turns = 0;

	(void)state;
	begin_to_pass("", "");
	for (; is_passing(); turns++) {
		uint64_t before = o.socket->sent.messages;
		assert_in_range(before, 1, EVENTS - 1);
		opened_turn(&o);
		assert_in_range(o.socket->sent.messages - before, 1, SOCKET_TURN_WORK);
		assert_in_range(turns, 0, EVENTS);
	}
	got_expected();
	assert_int_equal(opened_count(&o, STATS_SERVER_MESSAGES), EVENTS);
	end();
}

/* Long ones count for more. */
static void long_ones(void **state)
{
	static char text[30100];

	(void)state;
	begin();
	say("x");
	text[0] = '\0';
	for (unsigned i = 0; i < 3; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			"TEXT 2710\r\n%010000u\r\n", i);
	answer(text);
	assert_false(is_passing());
	assert_string_equal(
		opened_to_client(&o), "text(0 x 10000) text(0 x 10000) text(0 x 10000) ");
	end();
}

/* The next message leaves when all of the answer to the one before was passed on. */
static void the_next_message_waits(void **state)
{
	(void)state;
	begin_to_pass("", "");
	assert_string_equal(request_got(), "TEXT 1\r\nx\r\n");
	say("y");
	assert_true(is_passing());
	assert_string_equal(server_got(), "");
	got_expected();
	assert_string_equal(request_got(), "TEXT 1\r\ny\r\n");
	answer("TEXT 1\r\nb\r\n");
	assert_string_equal(opened_to_client(&o), "text(b) ");
	end();
}

static void behind_open(void **state)
{
	(void)state;
	begin_to_pass_behind_open();
	say("x");
	assert_true(is_passing());
	assert_string_equal(server_got(), "");
	got_expected();
	assert_string_equal(request_got(), "TEXT 1\r\nx\r\n");
	answer("TEXT 1\r\nb\r\n");
	assert_string_equal(opened_to_client(&o), "text(b) ");
	end();
}

static void a_close_behind_them(void **state)
{
	(void)state;
	begin_to_pass("CLOSE 2\r\n\x0f\xa0\r\nTEXT 1\r\nz\r\n", "close(4000 ) ");
	got_expected();
	opened_client_closes(&o, 4000, "");
	assert_string_equal(opened_to_client(&o), "end");
	assert_int_equal(opened_count(&o, STATS_SERVER_MESSAGES), EVENTS);
	end();
}

/* What the socket's end in order waits for. */
static void drained_meanwhile(void **state)
{
	(void)state;
	begin_to_pass("", "");
	request_got();
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	got_expected();
	assert_string_equal(request_got(), "CLOSE 9\r\n\x03\xe9"
					   "drained\r\n");
	answer("");
	assert_string_equal(opened_to_client(&o), "close(1001 drained) ");
	end();
}

static void drained_behind_open(void **state)
{
	(void)state;
	begin_to_pass_behind_open();
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	opened_turn(&o);
	assert_true(is_passing());
	assert_true(socket_waits_to_finish(o.socket));
	assert_string_equal(server_got(), "");
	got_expected();
	assert_string_equal(request_got(), "CLOSE 9\r\n\x03\xe9"
					   "drained\r\n");
	answer("");
	assert_string_equal(opened_to_client(&o), "close(1001 drained) ");
	end();
}

/* One that was sent by others has its place behind what was passed on before it. */
static void sent_to_meanwhile(void **state)
{
	(void)state;
	begin_to_pass("", "");
	uint64_t before = o.socket->sent.messages;
	assert_true(socket_send_copy(o.socket, SEND_NORMAL, FRAME_TEXT, SLICE("other")));
	const char *got_all = opened_to_client(&o), *other = strstr(got_all, "text(other) ");
	assert_non_null(other);
	char next[20];
	snprintf(next, sizeof(next), "text(%03u) ", (unsigned)before);
	assert_ptr_equal(strstr(other, next), other + strlen("text(other) "));
	assert_has(got_all, "text(999) ");
	end();
}

static void closed_meanwhile(void **state)
{
	(void)state;
	begin_to_pass("", "");
	request_got();
	socket_close(o.socket, 4001, SLICE("enough"), 4002, "closed");
	stream_wake(&o.passage->client);
	const char *got_all = opened_to_client(&o);
	assert_has(got_all, "close(4001 enough) ");
	assert_null(strstr(got_all, "text(999) "));
	while (is_passing())
		opened_turn(&o);
	opened_turn(&o);
	assert_string_equal(request_got(), "CLOSE 8\r\n\x0f\xa2"
					   "enough\r\n");
	end();
}

/* The server learns of it, and nothing of the message is left. */
static void the_client_leaves(void **state)
{
	(void)state;
	begin_to_pass("", "");
	request_got();
	memory_peer_reset(o.client.wire);
	opened_turn(&o);
	opened_turn(&o);
	assert_null(tunnel_part(o.stage->worker)->passages);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_false(gateway_is_left());
	end();
}

static void the_client_leaves_behind_open(void **state)
{
	(void)state;
	begin_to_pass_behind_open();
	memory_peer_reset(o.client.wire);
	opened_turn(&o);
	opened_turn(&o);
	assert_null(tunnel_part(o.stage->worker)->passages);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_false(gateway_is_left());
	end();
}

static void it_is_aborted(void **state)
{
	(void)state;
	begin_to_pass("", "");
	queue_close_all(
		o.stage->daemon.node.queue, SESSION_ABORTED, worker_now_ns(o.stage->worker));
	opened_turn(&o);
	opened_turn(&o);
	assert_null(tunnel_part(o.stage->worker)->passages);
	end();
}

/* What the client must not get ends the socket, wherever it is. */
static void no_text_far_behind(void **state)
{
	(void)state;
	begin_to_pass("TEXT 1\r\n\xff\r\nTEXT 1\r\nz\r\n", "close(1011 text that is not UTF-8) ");
	got_expected();
	end();
}

/* The process ends. */
static void it_ends(void **state)
{
	(void)state;
	begin_to_pass("", "");
	end();
}

UNIT_SUITE(test_gateway_pass)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(some_in_each_turn),
		cmocka_unit_test(long_ones),
		cmocka_unit_test(the_next_message_waits),
		cmocka_unit_test(behind_open),
		cmocka_unit_test(a_close_behind_them),
		cmocka_unit_test(drained_meanwhile),
		cmocka_unit_test(drained_behind_open),
		cmocka_unit_test(sent_to_meanwhile),
		cmocka_unit_test(closed_meanwhile),
		cmocka_unit_test(the_client_leaves),
		cmocka_unit_test(the_client_leaves_behind_open),
		cmocka_unit_test(it_is_aborted),
		cmocka_unit_test(no_text_far_behind),
		cmocka_unit_test(it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
