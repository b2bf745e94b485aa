/* Each deadline of a socket: when it passes, what moves it, and what it does. */
#include "opened.h"

#include "websocket/times.h"
#include "tests/unit/suite.h"

#define QUIET "websocket = messages\n"

static const struct stage_conf hourly = {.more = "[limit l]\nkey = ip\nrate = 1 per 1h\n",
	.route = OPENED_ROUTE "message_limits = l\n"};

static struct opened o;

static void begin(const char *route)
{
	const struct stage_conf conf = {.route = route};

	opened_begin(&o, &conf);
}

static char *run_of(char byte, size_t count)
{
	static char text[65536];

	memset(text, byte, count);
	text[count] = '\0';
	return text;
}

/* ---- pings ----------------------------------------------------------------------------------- */

static void silence_is_asked_about(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 20s\nping_timeout = 7s");
	assert_int_equal(opened_due_ms(&o), 20000);
	stage_at(o.stage, 4000);
	opened_client(&o, FRAME_TEXT, "heard"); /* a byte of it moves it */
	assert_int_equal(opened_due_ms(&o), 24000);
	stage_at(o.stage, 5000);
	opened_server(&o, FRAME_TEXT, "the server's do not");
	assert_int_equal(opened_due_ms(&o), 24000);
	opened_to_client(&o);
	opened_pass(&o);
	assert_memory_equal(opened_to_client(&o), "ping(", 5);
	assert_int_equal(opened_due_ms(&o), 31000);
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "end");
	assert_false(opened_is_open(&o));
	assert_has(lines.text, "outcome=\"ping timeout\"");
	opened_end(&o);
}

static void its_pong_stays_with_us(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 20s\nping_timeout = 7s");
	opened_pass(&o);
	opened_to_client(&o);
	opened_send(&o, o.client.wire, true, OPENED_FIN | FRAME_PONG,
		(struct slice){o.socket->ping.payload, SOCKET_PING_BYTES});
	assert_string_equal(opened_to_server(&o), "");
	assert_int_equal(opened_due_ms(&o), 40000);
	/* Once: a second like it is the client's own affair. */
	opened_send(&o, o.client.wire, true, OPENED_FIN | FRAME_PONG,
		(struct slice){o.socket->ping.payload, SOCKET_PING_BYTES});
	assert_memory_equal(opened_to_server(&o), "pong(", 5);
	opened_end(&o);
}

/* Nobody answers one before it has come. */
static void pings_differ(void **state)
{
	char first[SOCKET_PING_BYTES], none[SOCKET_PING_BYTES] = {0};

	(void)state;
	begin(QUIET "ping_interval = 20s\nping_timeout = 7s");
	memcpy(first, o.socket->ping.payload, sizeof(first));
	assert_memory_not_equal(first, none, sizeof(none));
	opened_pass(&o);
	assert_memory_not_equal(first, o.socket->ping.payload, sizeof(first));
	opened_end(&o);
}

static void any_byte_is_an_answer(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 20s\nping_timeout = 7s");
	opened_pass(&o);
	stage_at(o.stage, 21000);
	memory_peer_send(o.client.wire, "\x81", 1);
	stage_turn(o.stage);
	assert_int_equal(opened_due_ms(&o), 41000);
	opened_end(&o);
}

static void pings_wait_for_the_servers_frame(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 20s\nping_timeout = 7s");
	memory_peer_send(o.server.wire,
		"\x82\x02"
		"a",
		3);
	stage_turn(o.stage);
	opened_pass(&o);
	assert_true(o.socket->ping.is_due);
	assert_string_equal(opened_to_client(&o), "");
	opened_pass(&o); /* 27 s, and nobody was asked yet */
	assert_string_equal(opened_to_client(&o), "");
	memory_peer_send(o.server.wire, "b", 1);
	stage_turn(o.stage);
	assert_memory_equal(opened_to_client(&o), "binary(ab) ping(", 16);
	assert_int_equal(opened_due_ms(&o), 34000);
	opened_end(&o);
}

/* Some clients fail at a ping between the frames of a compressed message. */
static void pings_wait_for_the_servers_message(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 20s\nping_timeout = 7s");
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begins"));
	assert_string_equal(opened_to_client(&o), "text-(begins) ");
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "");
	assert_int_equal(opened_due_ms(&o), 27000);
	opened_send(&o, o.server.wire, false, OPENED_FIN, SLICE("ends"));
	assert_memory_equal(opened_to_client(&o), "cont(ends) ping(", 16);
	assert_int_equal(opened_due_ms(&o), 27000); /* its pong has all of its time */
	opened_end(&o);
}

static void a_message_without_an_end_does_not_hold_them_back(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 20s\nping_timeout = 7s");
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begins"));
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "text-(begins) ");
	opened_pass(&o);
	assert_memory_equal(opened_to_client(&o), "ping(", 5);
	assert_int_equal(opened_due_ms(&o), 34000);
	opened_client(&o, FRAME_TEXT, "heard"); /* and the next one waits for it again */
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "");
	opened_end(&o);
}

static void nobody_asks_a_client_that_is_not_read(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 20s\nmessage_timeout = 1h");
	opened_client(&o, FRAME_TEXT, run_of('a', 40000));
	opened_client(&o, FRAME_TEXT, run_of('b', 40000));
	assert_non_null(o.socket->client.first);
	assert_int_equal(opened_due_ms(&o), 3600 * 1000);
	stage_at(o.stage, 50000);
	opened_to_server(&o);
	assert_null(o.socket->client.first);
	assert_int_equal(opened_due_ms(&o), 70000); /* its silence begins when it is read */
	opened_end(&o);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void a_message_that_does_not_end(void **state)
{
	(void)state;
	begin(OPENED_ROUTE "message_timeout = 3s");
	stage_at(o.stage, 100);
	opened_send(&o, o.client.wire, true, FRAME_TEXT, SLICE("begun"));
	assert_int_equal(opened_due_ms(&o), 3100);
	stage_at(o.stage, 2000);
	opened_send(
		&o, o.client.wire, true, FRAME_CONTINUATION, SLICE("more")); /* does not move it */
	assert_int_equal(opened_due_ms(&o), 3100);
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "close(1008 message timeout) ");
	assert_string_equal(opened_to_server(&o), "close(1001 message timeout) ");
	opened_end(&o);
}

static void a_message_that_ends_in_time(void **state)
{
	(void)state;
	begin(OPENED_ROUTE "message_timeout = 3s");
	opened_send(&o, o.client.wire, true, FRAME_TEXT, SLICE("begun"));
	stage_at(o.stage, 2999);
	opened_client(&o, FRAME_CONTINUATION, "ended");
	assert_true(opened_due_ms(&o) > 1000 * 1000);
	opened_end(&o);
}

static void a_server_that_takes_no_message(void **state)
{
	(void)state;
	begin(OPENED_ROUTE "message_timeout = 3s");
	opened_client(&o, FRAME_TEXT, run_of('a', 40000));
	stage_at(o.stage, 500);
	opened_client(&o, FRAME_TEXT, run_of('b', 40000));
	assert_int_equal(opened_due_ms(&o), 3500);
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "close(1011 server takes no message) ");
	assert_null(o.socket->client.first);
	opened_end(&o);
}

/* ---- what waits for the client --------------------------------------------------------------- */

static void a_client_that_takes_nothing(void **state)
{
	const struct stage_conf conf = {.route = OPENED_ROUTE, .listener = "send_timeout = 4s"};

	(void)state;
	opened_begin(&o, &conf);
	stage_at(o.stage, 1000);
	opened_server(&o, FRAME_TEXT, run_of('a', 40000));
	opened_server(&o, FRAME_TEXT, run_of('b', 40000));
	assert_int_equal(opened_due_ms(&o), 5000);
	stage_at(o.stage, 3000);
	char some[1000];
	assert_int_equal(memory_peer_receive(o.client.wire, some, sizeof(some)), sizeof(some));
	stage_turn(o.stage);
	assert_int_equal(opened_due_ms(&o), 7000); /* it has taken some */
	opened_pass(&o);
	assert_false(opened_is_open(&o));
	assert_has(lines.text, "outcome=\"send timeout\"");
	opened_end(&o);
}

/* Its system is full, and nothing has waited for it: its time begins with the next. */
static void a_client_that_took_all_long_ago(void **state)
{
	const struct stage_conf conf = {.route = OPENED_ROUTE, .listener = "send_timeout = 4s"};

	(void)state;
	opened_begin(&o, &conf);
	opened_server(&o, FRAME_TEXT, run_of('a', 40000));
	opened_server(&o, FRAME_TEXT, run_of('b', STAGE_ROOM - 40000 - 2 * 4));
	assert_true(flow_is_empty(o.passage->down.flow));
	stage_at(o.stage, 60000);
	opened_server(&o, FRAME_TEXT, "c");
	assert_false(flow_is_empty(o.passage->down.flow));
	assert_int_equal(opened_due_ms(&o), 64000);
	opened_pass(&o);
	assert_false(opened_is_open(&o));
	opened_end(&o);
}

/* ---- its whole time -------------------------------------------------------------------------- */

static void a_socket_without_messages(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 0s\nsocket_idle_timeout = 60s");
	assert_int_equal(opened_due_ms(&o), 60000);
	stage_at(o.stage, 10000);
	opened_client(&o, FRAME_PING, "no message");
	assert_int_equal(opened_due_ms(&o), 60000);
	opened_client(&o, FRAME_TEXT, "a message");
	assert_int_equal(opened_due_ms(&o), 70000);
	stage_at(o.stage, 20000);
	opened_server(&o, FRAME_TEXT, "another");
	assert_int_equal(opened_due_ms(&o), 80000);
	opened_to_client(&o);
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "close(1001 idle) ");
	opened_end(&o);
}

/* One that takes long, either way, is under way as long as it continues. */
static void a_message_under_way_is_no_silence(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 0s\nsocket_idle_timeout = 60s\nmessage_timeout = 1d");
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begins"));
	stage_at(o.stage, 50000);
	opened_send(&o, o.server.wire, false, FRAME_CONTINUATION, SLICE("goes on"));
	assert_int_equal(opened_due_ms(&o), 110000);
	opened_send(&o, o.client.wire, true, FRAME_TEXT, SLICE("so does"));
	stage_at(o.stage, 90000);
	opened_send(&o, o.client.wire, true, FRAME_CONTINUATION, SLICE("this one"));
	assert_int_equal(opened_due_ms(&o), 150000);
	opened_to_client(&o);
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "close(1001 idle) ");
	opened_end(&o);
}

static void lifetimes_differ(void **state)
{
	uint64_t first = 0;
	unsigned others = 0;

	(void)state;
	begin(OPENED_ROUTE "socket_lifetime = 100s");
	for (unsigned i = 0; i < 20; i++) {
		socket_times_begin(o.socket);
		uint64_t at_ms = o.socket->ends_ms - STAGE_START_MS;
		assert_in_range(at_ms, 90000, 100000);
		first = first ? first : at_ms;
		others += at_ms != first;
	}
	assert_true(others > 10);
	socket_run(o.socket);
	opened_pass(&o);
	assert_string_equal(opened_to_server(&o), "close(1001 lifetime) ");
	assert_string_equal(opened_to_client(&o), "");
	opened_server(&o, FRAME_TEXT, "last answer");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "text(last answer) close(1001 lifetime) ");
	opened_end(&o);
}

static void drain_begins(void)
{
	o.stage->worker->draining = true;
	o.stage->worker->drain_began_ms = worker_now_ms(o.stage->worker);
}

static void a_drain_spreads_the_ends(void **state)
{
	const struct stage_conf conf = {
		.route = OPENED_ROUTE "socket_lifetime = 1h", .node = "shutdown_timeout = 40s"};

	(void)state;
	for (unsigned handed = 0; handed < 2; handed++) {
		uint64_t least = UINT64_MAX, most = 0;
		opened_begin(&o, &conf);
		drain_begins();
		o.socket->all->is_handed_over = handed;
		for (unsigned i = 0; i < 200; i++) {
			o.socket->ends_ms = UINT64_MAX;
			socket_drain(o.socket);
			uint64_t in_ms = o.socket->ends_ms - STAGE_START_MS;
			least = in_ms < least ? in_ms : least;
			most = in_ms > most ? in_ms : most;
		}
		uint64_t from_ms = handed ? 10000 : 0;
		assert_in_range(least, from_ms, from_ms + 1000);
		assert_in_range(most, from_ms + 19000, from_ms + 20000);
		o.socket->ends_ms = STAGE_START_MS + 5;
		socket_drain(o.socket); /* it never lengthens a life */
		assert_true(o.socket->ends_ms <= STAGE_START_MS + 5);
		o.stage->worker->draining = false;
		opened_end(&o);
	}
}

/* The process that takes over waits for what its session has under way. */
static void a_drain_hurries_with_sessions_of_a_fleet(void **state)
{
	const struct stage_conf conf = {.route = OPENED_ROUTE, .node = "shutdown_timeout = 40s"};
	uint64_t most = 0;

	(void)state;
	opened_begin(&o, &conf);
	drain_begins();
	o.socket->all->is_handed_over = true;
	o.passage->owner.session = (struct owner_session *)&o; /* some */
	for (unsigned i = 0; i < 200; i++) {
		o.socket->ends_ms = UINT64_MAX;
		socket_drain(o.socket);
		uint64_t in_ms = o.socket->ends_ms - STAGE_START_MS;
		most = in_ms > most ? in_ms : most;
	}
	assert_in_range(most, 2000, 2500);
	o.passage->owner.session = NULL;
	o.stage->worker->draining = false;
	opened_end(&o);
}

static void a_socket_that_opens_in_a_drain(void **state)
{
	(void)state;
	begin(OPENED_ROUTE);
	drain_begins();
	socket_times_begin(o.socket);
	assert_in_range(o.socket->ends_ms - STAGE_START_MS, 0, 3600 * 1000);
	o.stage->worker->draining = false;
	socket_times_begin(o.socket);
	assert_true(o.socket->ends_ms == UINT64_MAX);
	opened_end(&o);
}

/* It has no more time than those that were open when the drain began. */
static void a_socket_that_opens_late_in_a_drain(void **state)
{
	const struct stage_conf conf = {.route = OPENED_ROUTE, .node = "shutdown_timeout = 40s"};

	(void)state;
	opened_begin(&o, &conf);
	drain_begins();
	stage_at(o.stage, 19000);
	for (unsigned i = 0; i < 50; i++) {
		socket_times_begin(o.socket);
		assert_in_range(o.socket->ends_ms - STAGE_START_MS, 19000, 20000);
	}
	stage_at(o.stage, 38000);
	socket_times_begin(o.socket);
	assert_int_equal(o.socket->ends_ms - STAGE_START_MS, 38000);
	o.stage->worker->draining = false;
	opened_end(&o);
}

static void at_the_end_of_a_drain(void **state)
{
	(void)state;
	begin(OPENED_ROUTE);
	drain_begins();
	socket_drain(o.socket);
	o.socket->ends_ms = STAGE_START_MS + 777;
	socket_run(o.socket);
	assert_int_equal(opened_due_ms(&o), 777);
	opened_pass(&o);
	assert_string_equal(opened_to_server(&o), "close(1001 going away) ");
	opened_server(&o, FRAME_TEXT, "an answer");
	assert_string_equal(opened_to_client(&o), "text(an answer) ");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "close(1001 going away) ");
	o.stage->worker->draining = false;
	opened_end(&o);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void closing_has_its_own_time(void **state)
{
	(void)state;
	begin(QUIET "ping_interval = 1s\nsocket_idle_timeout = 2s\nclose_timeout = 9s");
	stage_at(o.stage, 100);
	opened_client_closes(&o, 1000, "");
	assert_int_equal(opened_due_ms(&o), 9100); /* and no other */
	stage_at(o.stage, 5000);
	opened_server(&o, FRAME_TEXT, "still");
	assert_int_equal(opened_due_ms(&o), 9100); /* nothing moves it */
	opened_pass(&o);
	assert_false(opened_is_open(&o));
	assert_has(lines.text, "outcome=\"close timeout\"");
	opened_end(&o);
}

/* The second close frame does not begin it once more. */
static void closing_begins_once(void **state)
{
	(void)state;
	begin(OPENED_ROUTE "close_timeout = 9s");
	stage_at(o.stage, 100);
	opened_server_closes(&o, 1000, "");
	assert_int_equal(opened_due_ms(&o), 9100);
	stage_at(o.stage, 5000);
	memory_peer_end_output(o.server.wire);
	stage_turn(o.stage);
	socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_POLICY, "why");
	socket_run(o.socket);
	assert_int_equal(opened_due_ms(&o), 9100);
	opened_end(&o);
}

static void closing_begins_once_for_both(void **state)
{
	(void)state;
	begin(OPENED_ROUTE "close_timeout = 9s");
	stage_at(o.stage, 100);
	socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_POLICY, "why");
	socket_run(o.socket);
	stage_at(o.stage, 5000);
	opened_client_closes(&o, 1008, "");
	assert_int_equal(opened_due_ms(&o), 9100);
	opened_end(&o);
}

static void one_is_always_set(void **state)
{
	(void)state;
	begin(OPENED_ROUTE);
	for (unsigned i = 1; i < 4; i++) {
		assert_int_equal(opened_due_ms(&o), i * 3600 * 1000);
		opened_pass(&o);
		assert_true(opened_is_open(&o));
	}
	assert_string_equal(opened_to_client(&o), "");
	opened_end(&o);
}

/* A message that waits for its limit is given up as the drain's time ends. */
static void a_drain_gives_up_what_waits(void **state)
{
	(void)state;
	opened_begin(&o, &hourly);
	drain_begins();
	socket_drain(o.socket);
	o.socket->ends_ms = STAGE_START_MS + 777;
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "waits an hour");
	assert_non_null(o.socket->client.first);
	assert_int_equal(opened_due_ms(&o), 777);
	opened_pass(&o);
	assert_non_null(o.socket->client.first);
	assert_int_equal(opened_due_ms(&o), 22500);
	opened_pass(&o);
	assert_null(o.socket->client.first);
	assert_string_equal(opened_to_server(&o), "text(first) close(1001 going away) ");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "close(1001 going away) ");
	opened_client_closes(&o, 1001, "");
	assert_false(opened_is_open(&o));
	o.stage->worker->draining = false;
	opened_end(&o);
}

/* A server that never answers is waited for until there is just time to tell the client, and a
 * client that never answers is cut in time for the process to end well, however long they might
 * take otherwise. */
static void a_drain_waits_for_no_answer(void **state)
{
	const struct stage_conf conf = {
		.route = OPENED_ROUTE "close_timeout = 1h", .node = "shutdown_timeout = 40s"};

	(void)state;
	opened_begin(&o, &conf);
	stage_at(o.stage, 1000);
	drain_begins();
	socket_drain(o.socket);
	o.socket->ends_ms = STAGE_START_MS + 9000;
	socket_run(o.socket);
	assert_int_equal(opened_due_ms(&o), 9000);
	opened_pass(&o);
	assert_string_equal(opened_to_server(&o), "close(1001 going away) ");
	assert_int_equal(opened_due_ms(&o), 33500);
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "close(1001 going away) ");
	assert_int_equal(opened_due_ms(&o), 36000);
	assert_false(o.passage->wait.deadline.is_patient); /* a busy machine gets no more of it */
	opened_pass(&o);
	assert_false(opened_is_open(&o));
	assert_has(lines.text, "outcome=\"close timeout\"");
	o.stage->worker->draining = false;
	opened_end(&o);
}

/* The same where it has begun to close, and lets the message have its turn. */
static void a_drain_hurries_what_closes(void **state)
{
	(void)state;
	opened_begin(&o, &hourly);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "waits an hour");
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	socket_run(o.socket);
	assert_string_equal(opened_to_server(&o), "text(first) ");
	assert_true(opened_due_ms(&o) > 5000);
	drain_begins();
	socket_drain(o.socket);
	o.socket->ends_ms = STAGE_START_MS + 777;
	socket_run(o.socket);
	assert_int_equal(opened_due_ms(&o), 22500);
	opened_pass(&o);
	assert_string_equal(opened_to_server(&o), "close(1001 drained) ");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "close(1001 drained) ");
	opened_client_closes(&o, 1001, "");
	assert_false(opened_is_open(&o));
	o.stage->worker->draining = false;
	opened_end(&o);
}

UNIT_SUITE(test_times)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_asked_about),
		cmocka_unit_test(its_pong_stays_with_us),
		cmocka_unit_test(pings_differ),
		cmocka_unit_test(any_byte_is_an_answer),
		cmocka_unit_test(pings_wait_for_the_servers_frame),
		cmocka_unit_test(pings_wait_for_the_servers_message),
		cmocka_unit_test(a_message_without_an_end_does_not_hold_them_back),
		cmocka_unit_test(nobody_asks_a_client_that_is_not_read),
		cmocka_unit_test(a_message_that_does_not_end),
		cmocka_unit_test(a_message_that_ends_in_time),
		cmocka_unit_test(a_server_that_takes_no_message),
		cmocka_unit_test(a_client_that_takes_nothing),
		cmocka_unit_test(a_client_that_took_all_long_ago),
		cmocka_unit_test(a_socket_without_messages),
		cmocka_unit_test(a_message_under_way_is_no_silence),
		cmocka_unit_test(lifetimes_differ),
		cmocka_unit_test(a_drain_spreads_the_ends),
		cmocka_unit_test(a_drain_hurries_with_sessions_of_a_fleet),
		cmocka_unit_test(a_socket_that_opens_in_a_drain),
		cmocka_unit_test(a_socket_that_opens_late_in_a_drain),
		cmocka_unit_test(at_the_end_of_a_drain),
		cmocka_unit_test(a_drain_gives_up_what_waits),
		cmocka_unit_test(a_drain_hurries_what_closes),
		cmocka_unit_test(a_drain_waits_for_no_answer),
		cmocka_unit_test(closing_has_its_own_time),
		cmocka_unit_test(closing_begins_once),
		cmocka_unit_test(closing_begins_once_for_both),
		cmocka_unit_test(one_is_always_set),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
