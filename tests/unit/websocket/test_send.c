/* Sending to an open socket's client: between its server's messages, in order, within its bounds,
 * and never at the cost of the server's. */
#include "opened.h"

#include "websocket/send.h"
#include "tests/unit/suite.h"

#define BOUNDS "socket_queue_messages = 4\nsocket_queue_bytes = 100k\n"

static const struct stage_conf plain = {.route = OPENED_ROUTE},
			       closes = {.route = OPENED_ROUTE BOUNDS},
			       drops = {.route = OPENED_ROUTE BOUNDS
					"on_socket_queue_full = drop\n"};

static struct opened o;

/* What was told, as letters: w, d, g. */
static struct {
	struct send_report report;
	char text[1024];
} told;

static void tell(struct send_report *report, enum send_result result)
{
	assert_ptr_equal(report, &told.report);
	strncat(told.text, &"w\0d\0g"[2 * result], 1);
}

static void begin(const struct stage_conf *conf)
{
	opened_begin(&o, conf);
	told.report.tell = tell;
	told.text[0] = '\0';
}

static uint64_t held(void)
{
	return atomic_load(&o.stage->worker->node->sends.bytes);
}

static void end(void)
{
	if (opened_is_open(&o))
		socket_abort(o.socket, "end of the test");
	assert_int_equal(held(), 0);
	opened_end(&o);
}

static bool post(enum send_lane lane, struct slice text)
{
	struct shared_frame *frame =
		shared_frame_new(&o.stage->worker->node->sends, FRAME_TEXT, text);

	assert_non_null(frame);
	bool is_queued = socket_send(o.socket, lane, frame, &told.report);
	shared_frame_release(frame);
	return is_queued;
}

static bool post_text(enum send_lane lane, const char *text)
{
	return post(lane, slice_of(text));
}

static struct slice run_of(char byte, size_t count)
{
	static char text[STAGE_ROOM * 2];

	assert_true(count <= sizeof(text));
	memset(text, byte, count);
	return (struct slice){text, count};
}

/* Its connection takes no more than it holds, and the rest of this message waits: 'f'. */
static void fill(void)
{
	assert_true(post(SEND_NORMAL, run_of('f', STAGE_ROOM + 10000)));
	opened_turn(&o);
	assert_true(socket_is_within_send(o.socket));
}

static void nothing_waits(void **state)
{
	(void)state;
	begin(&plain);
	uint64_t active_ms = o.socket->active_ms;
	stage_at(o.stage, 500);
	assert_true(post_text(SEND_NORMAL, "news"));
	assert_int_equal(socket_queued_messages(o.socket), 1);
	assert_string_equal(told.text, "");
	assert_string_equal(opened_to_client(&o), "");
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "text(news) ");
	assert_string_equal(told.text, "w");
	assert_null(o.socket->sends);
	assert_int_equal(o.socket->sent.messages, 1);
	assert_int_equal(o.socket->sent.bytes, 4);
	assert_int_equal(o.socket->active_ms, active_ms + 500);
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_WRITTEN), 1);
	assert_int_equal(opened_count(&o, STATS_SERVER_MESSAGES), 0);
	end();
}

static void high_goes_before_what_waits(void **state)
{
	(void)state;
	begin(&plain);
	fill();
	post_text(SEND_NORMAL, "n1");
	post_text(SEND_NORMAL, "n2");
	post_text(SEND_HIGH, "h1");
	post_text(SEND_HIGH, "h2");
	char all[300] = "";
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, ") text(h1) text(h2) text(n1) text(n2) ");
	assert_string_equal(told.text, "wwwww");
	end();
}

/* Control frames may come between fragments (RFC 6455 section 5.4); messages may not. */
static void never_inside_the_servers_message(void **state)
{
	(void)state;
	begin(&plain);
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begins"));
	assert_string_equal(opened_to_client(&o), "text-(begins) ");
	post_text(SEND_HIGH, "ours");
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "");
	opened_send(&o, o.server.wire, false, FRAME_CONTINUATION, SLICE("goes on"));
	assert_string_equal(opened_to_client(&o), "cont-(goes on) ");
	opened_send(&o, o.server.wire, false, OPENED_FIN | FRAME_CONTINUATION, SLICE("ends"));
	assert_string_equal(opened_to_client(&o), "cont(ends) text(ours) ");
	end();
}

static void the_server_waits_within_ours(void **state)
{
	(void)state;
	begin(&plain);
	fill();
	opened_server(&o, FRAME_TEXT, "servers");
	opened_server(&o, FRAME_PING, "p");
	assert_null(strstr(o.client.text, "servers"));
	char all[300] = "";
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, "text(f x ");
	assert_has(all, ") text(servers) ping(p) ");
	end();
}

/* Neither of them keeps the other waiting. */
static void the_server_gets_its_turns(void **state)
{
	static char all[OPENED_BYTES];
	unsigned servers = 0;

	(void)state;
	begin(&plain);
	fill();
	for (unsigned i = 0; i < 200; i++)
		post(SEND_NORMAL, run_of('n', 4000));
	opened_send(&o, o.server.wire, false, OPENED_FIN | FRAME_TEXT, run_of('s', 4000));
	while (socket_has_sends(o.socket)) {
		strcpy(all, opened_to_client(&o));
		servers += strstr(all, "text(s x 4000)") != NULL;
		if (servers == 0)
			assert_true(socket_queued_messages(o.socket) > 0);
	}
	assert_int_equal(servers, 1); /* and not after all of ours */
	end();
}

/* A backlog is written in several turns. */
static void a_turn_is_bounded(void **state)
{
	(void)state;
	begin(&plain);
	for (unsigned i = 0; i < 4 * SEND_TURN_WRITES * SEND_WRITE_ITEMS; i++)
		post_text(SEND_NORMAL, "x");
	opened_turn(&o);
	assert_true(socket_queued_messages(o.socket) >= 2 * SEND_TURN_WRITES * SEND_WRITE_ITEMS);
	while (socket_has_sends(o.socket))
		opened_turn(&o);
	end();
}

/* ---- a slow reader --------------------------------------------------------------------------- */

static void a_slow_reader_is_closed(void **state)
{
	(void)state;
	begin(&closes);
	fill();
	for (unsigned i = 0; i < 3; i++)
		assert_true(post_text(SEND_NORMAL, "x"));
	assert_false(post_text(SEND_HIGH, "one too many"));
	assert_string_equal(told.text, "gggd");
	assert_false(post_text(SEND_NORMAL, "too late"));
	assert_string_equal(told.text, "gggdg");
	char all[300] = "";
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, ") close(1013 slow reader) ");
	assert_string_equal(opened_to_server(&o), "close(1001 slow reader) ");
	assert_string_equal(told.text, "gggdgw"); /* what had been begun */
	assert_int_equal(opened_count(&o, STATS_SOCKETS_SLOW), 1);
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_GONE), 4);
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_DROPPED), 1);
	end();
}

static void the_oldest_normal_ones_are_dropped(void **state)
{
	(void)state;
	begin(&drops);
	fill();
	post_text(SEND_NORMAL, "n1");
	post_text(SEND_HIGH, "h1");
	post_text(SEND_NORMAL, "n2");
	assert_true(post_text(SEND_NORMAL, "n3"));
	assert_true(post_text(SEND_HIGH, "h2"));
	assert_true(post_text(SEND_HIGH, "h3"));
	assert_string_equal(told.text, "ddd");
	assert_false(post_text(SEND_NORMAL, "n4")); /* none but high ones wait */
	assert_string_equal(told.text, "dddd");
	char all[300] = "";
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, ") text(h1) text(h2) text(h3) ");
	assert_null(strstr(all, "close"));
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_DROPPED), 4);
	assert_int_equal(opened_count(&o, STATS_SOCKETS_SLOW), 0);
	end();
}

/* It says nothing of the reader. */
static void one_that_never_fits_closes_nothing(void **state)
{
	(void)state;
	begin(&closes);
	assert_false(post(SEND_NORMAL, run_of('x', 100 * 1024)));
	assert_string_equal(told.text, "d");
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "");
	assert_false(o.socket->closing.begun);
	end();
}

/* Nor does it cost what waits its place, which it could not take. */
static void one_that_never_fits_drops_nothing(void **state)
{
	(void)state;
	begin(&drops);
	fill();
	assert_true(post_text(SEND_NORMAL, "n1"));
	assert_false(post(SEND_NORMAL, run_of('x', 100 * 1024)));
	assert_false(post(SEND_HIGH, run_of('x', 100 * 1024)));
	assert_string_equal(told.text, "dd");
	assert_int_equal(socket_queued_messages(o.socket), 2);
	char all[300] = "";
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, ") text(n1) ");
	end();
}

/* Nor one for which high ones leave no room. */
static void one_behind_high_ones_drops_nothing(void **state)
{
	(void)state;
	begin(&drops);
	fill();
	assert_true(post_text(SEND_NORMAL, "n1"));
	assert_true(post(SEND_HIGH, run_of('h', 10 * 1024)));
	assert_false(post(SEND_NORMAL, run_of('x', 80 * 1024)));
	assert_string_equal(told.text, "d");
	assert_int_equal(socket_queued_messages(o.socket), 3);
	end();
}

/* Who takes no byte is cut. */
static void one_that_takes_nothing_is_cut(void **state)
{
	(void)state;
	begin(&plain);
	fill();
	post_text(SEND_NORMAL, "x");
	uint64_t due_ms = opened_due_ms(&o);
	opened_server(&o, FRAME_TEXT, "no progress");
	assert_int_equal(opened_due_ms(&o), due_ms);
	opened_pass(&o);
	assert_false(opened_is_open(&o));
	assert_string_equal(told.text, "gg");
	assert_has(lines.text, "outcome=\"send timeout\"");
	end();
}

/* ---- its end --------------------------------------------------------------------------------- */

static void what_waits_goes_before_the_servers_close(void **state)
{
	(void)state;
	begin(&plain);
	fill();
	post_text(SEND_NORMAL, "last");
	char all[300] = "";
	opened_server_closes(&o, 4001, "enough");
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, ") text(last) close(4001 enough) ");
	assert_string_equal(told.text, "ww");
	end();
}

/* It is read between two of ours, and goes behind all of them. */
static void a_servers_close_waits_between_ours(void **state)
{
	const unsigned count = 4 * SEND_TURN_WRITES * SEND_WRITE_ITEMS;
	static char all[OPENED_BYTES];
	unsigned ours = 0;

	(void)state;
	begin(&plain);
	for (unsigned i = 0; i < count; i++)
		post_text(SEND_NORMAL, "x");
	opened_turn(&o);
	assert_true(socket_has_sends(o.socket) && !socket_is_within_send(o.socket));
	opened_server_closes(&o, 4001, "enough");
	assert_true(socket_has_sends(o.socket) && o.socket->closing.server.done);
	for (unsigned turns = 0; !strstr(all, "close("); turns++) {
		assert_true(turns < 1000);
		strcpy(all, opened_to_client(&o));
		for (const char *at = all; (at = strstr(at, "text(x) ")); at++)
			ours++;
	}
	assert_int_equal(ours, count);
	assert_string_equal(strstr(all, "close("), "close(4001 enough) ");
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_WRITTEN), count);
	end();
}

static void a_close_frame_without_a_code_waits_too(void **state)
{
	(void)state;
	begin(&plain);
	post(SEND_NORMAL, run_of('f', STAGE_ROOM - 100));
	opened_turn(&o);
	post(SEND_NORMAL, run_of('g', 10000));
	assert_non_null(o.socket->sends);
	opened_server(&o, FRAME_CLOSE, "");
	assert_has(opened_to_client(&o), "text(g x 10000) close() ");
	end();
}

static void a_client_that_closes_gets_no_more(void **state)
{
	(void)state;
	begin(&plain);
	fill();
	post_text(SEND_NORMAL, "last");
	opened_client_closes(&o, 1000, "");
	assert_string_equal(told.text, "g");
	assert_false(post_text(SEND_NORMAL, "too late"));
	assert_string_equal(told.text, "gg");
	end();
	assert_string_equal(told.text, "ggg"); /* what had been begun */
}

/* All that waits is delivered first, and only then has the client the time of close_timeout. */
static void one_that_is_idle_delivers(void **state)
{
	static const struct stage_conf idles = {
		.route = "websocket = messages\nping_interval = 0s\nsocket_idle_timeout = 2s"};

	(void)state;
	begin(&idles);
	fill();
	post_text(SEND_NORMAL, "before");
	stage_at(o.stage, 2000);
	opened_pass(&o);
	char all[300] = "";
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, ") text(before) close(1001 idle) ");
	assert_string_equal(told.text, "ww");
	end();
}

static void one_that_finishes_delivers(void **state)
{
	(void)state;
	begin(&plain);
	fill();
	post_text(SEND_NORMAL, "before");
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	assert_true(post_text(SEND_NORMAL, "after"));
	socket_run(o.socket);
	assert_string_equal(opened_to_server(&o), "close(1001 drained) ");
	opened_server(&o, FRAME_TEXT, "servers last");
	opened_server_closes(&o, 1001, "");
	char all[300] = "";
	for (unsigned i = 0; i < 3; i++)
		strcat(all, opened_to_client(&o));
	assert_has(all, ") text(before) text(after) text(servers last) close(1001 drained) ");
	assert_string_equal(told.text, "www");
	opened_client_closes(&o, 1001, "");
	assert_false(opened_is_open(&o));
	end();
}

/* It can't be: the server left within a message, and none may be put into it. */
static void what_can_never_be_written_goes(void **state)
{
	(void)state;
	begin(&plain);
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begins"));
	post_text(SEND_NORMAL, "never");
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	opened_server_closes(&o, 1001, "");
	assert_string_equal(opened_to_client(&o), "text-(begins) close(1001 drained) ");
	assert_string_equal(told.text, "g");
	end();
}

/* Nor can a close frame: the client is cut when its time is over. */
static void nothing_waits_for_ever(void **state)
{
	(void)state;
	begin(&plain);
	memory_peer_send(o.server.wire,
		"\x82\x03"
		"a",
		3);
	opened_turn(&o);
	post_text(SEND_NORMAL, "never");
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	memory_peer_end_output(o.server.wire);
	opened_turn(&o);
	for (unsigned i = 0; i < 3 && opened_is_open(&o); i++) {
		assert_true(opened_due_ms(&o) < 60 * 1000);
		opened_pass(&o);
	}
	assert_false(opened_is_open(&o));
	assert_string_equal(told.text, "g");
	end();
}

static void an_end_tells_all(void **state)
{
	(void)state;
	begin(&plain);
	fill();
	post_text(SEND_HIGH, "x");
	socket_abort(o.socket, "test");
	assert_string_equal(told.text, "gg");
	assert_false(post_text(SEND_HIGH, "x")); /* its memory is there until the turn's end */
	assert_string_equal(told.text, "ggg");
	end();
}

UNIT_SUITE(test_send)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_waits),
		cmocka_unit_test(high_goes_before_what_waits),
		cmocka_unit_test(never_inside_the_servers_message),
		cmocka_unit_test(the_server_waits_within_ours),
		cmocka_unit_test(the_server_gets_its_turns),
		cmocka_unit_test(a_turn_is_bounded),
		cmocka_unit_test(a_slow_reader_is_closed),
		cmocka_unit_test(the_oldest_normal_ones_are_dropped),
		cmocka_unit_test(one_that_never_fits_closes_nothing),
		cmocka_unit_test(one_that_never_fits_drops_nothing),
		cmocka_unit_test(one_behind_high_ones_drops_nothing),
		cmocka_unit_test(one_that_takes_nothing_is_cut),
		cmocka_unit_test(what_waits_goes_before_the_servers_close),
		cmocka_unit_test(a_servers_close_waits_between_ours),
		cmocka_unit_test(a_close_frame_without_a_code_waits_too),
		cmocka_unit_test(a_client_that_closes_gets_no_more),
		cmocka_unit_test(one_that_is_idle_delivers),
		cmocka_unit_test(one_that_finishes_delivers),
		cmocka_unit_test(what_can_never_be_written_goes),
		cmocka_unit_test(nothing_waits_for_ever),
		cmocka_unit_test(an_end_tells_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
