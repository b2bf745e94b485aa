/* Whole connections in memory: both ends are seen. */
#include "http2/h2_connection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/http2/h2_wire.h"
#include "tests/unit/suite.h"

#define HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Up: A\r\n\r\nhello"

static const struct stage_conf conf = {.listener = "protocols = h2, http/1.1"};

static void requests_are_answered(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t id = h2_wire_ask(&w, "/a", NULL, true);
	assert_has(stage_server_got(w.stage, 0), "GET /a HTTP/1.1\r\n");
	h2_wire_serve(&w, 0, HELLO);
	assert_has(h2_wire_answer(&w, id)->head, ":status: 200\n");
	assert_has(h2_wire_answer(&w, id)->head, "x-up: A\n");
	assert_has(h2_wire_answer(&w, id)->head, "content-length: 5\n");
	assert_memory_equal(h2_wire_answer(&w, id)->body, "hello", 5);
	assert_true(h2_wire_answer(&w, id)->ended);
	assert_int_equal(w.connection->stream_count, 0);
	id = h2_wire_ask(&w, "/b", "text", true);
	h2_wire_serve(&w, 0, HELLO);
	assert_true(h2_wire_answer(&w, id)->ended);
	assert_int_equal(stage_count(w.stage, STATS_REQUESTS_HTTP2), 2);
	h2_wire_end(&w);
}

static void a_response_that_is_cut_resets_its_stream(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t id = h2_wire_ask(&w, "/a", NULL, true);
	h2_wire_serve(&w, 0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
	memory_peer_end_output(w.stage->servers[0].wire);
	h2_wire_run(&w);
	assert_int_equal(h2_wire_answer(&w, id)->reset, NGHTTP2_INTERNAL_ERROR + 1);
	assert_int_equal(w.goaways, 0);
	assert_int_equal(w.connection->flood.paid_until_ns[H2_FLOOD_RESET], 0);
	h2_wire_end(&w);
}

static void a_reset_gives_everything_back(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t id = h2_wire_ask(&w, "/a", "te", false);
	nghttp2_submit_rst_stream(w.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
	h2_wire_run(&w);
	assert_int_equal(w.connection->stream_count, 0);
	assert_null(w.connection->ready);
	h2_wire_end(&w);
}

static void a_client_that_leaves_ends_its_streams(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	h2_wire_ask(&w, "/a", NULL, true);
	memory_peer_reset(w.peer);
	stage_turn(w.stage);
	assert_null(h2_part(w.stage->worker)->connections);
	h2_wire_end(&w);
}

static void a_body_that_stops_is_answered(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t id = h2_wire_ask(&w, "/a", "te", false);
	stage_pass(w.stage, &w.connection->streams->wait.deadline);
	h2_wire_run(&w);
	assert_has(h2_wire_answer(&w, id)->head, ":status: 408\n");
	h2_wire_end(&w);
}

/* Some clients lose a response that arrives together with a reset. */
static void an_early_response_arrives_before_a_reset(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t id = h2_wire_ask(&w, "/a", "te", false);
	stage_pass(w.stage, &w.connection->streams->wait.deadline);
	h2_wire_run(&w);
	assert_has(h2_wire_answer(&w, id)->head, ":status: 408\n");
	assert_true(h2_wire_answer(&w, id)->ended);
	assert_int_equal(h2_wire_answer(&w, id)->reset, 0);
	assert_int_equal(w.connection->streams->wait.reason, WAIT_LINGER);
	stage_pass(w.stage, &w.connection->streams->wait.deadline);
	h2_wire_run(&w);
	assert_int_equal(h2_wire_answer(&w, id)->reset, NGHTTP2_NO_ERROR + 1);
	assert_int_equal(w.connection->stream_count, 0);
	h2_wire_end(&w);
}

static void an_idle_connection_ends(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	assert_int_equal(w.connection->wait.reason, WAIT_IDLE);
	stage_pass(w.stage, &w.connection->wait.deadline);
	h2_wire_run(&w);
	assert_int_equal(w.goaways, 1);
	assert_int_equal(w.goaway_code, NGHTTP2_NO_ERROR);
	assert_int_equal(w.connection->state, H2_LINGERING);
	stage_pass(w.stage, &w.connection->wait.deadline);
	assert_null(h2_part(w.stage->worker)->connections);
	h2_wire_end(&w);
}

static void a_drain_ends_in_two_steps(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t id = h2_wire_ask(&w, "/a", NULL, true);
	w.stage->worker->draining = true;
	h2_connection_drain(w.connection);
	h2_wire_run(&w);
	assert_int_equal(w.goaways, 2);
	assert_int_equal(w.goaway_last, id);
	assert_int_equal(w.connection->state, H2_FINISHING);
	h2_wire_serve(&w, 0, HELLO);
	assert_true(h2_wire_answer(&w, id)->ended);
	assert_int_equal(w.connection->state, H2_LINGERING);
	h2_wire_end(&w);
}

static void a_plain_connection_may_speak_either(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, true);
	assert_int_equal(w.connection->state, H2_GREETING);
	h2_wire_greet(&w);
	assert_int_equal(w.connection->state, H2_OPEN);
	h2_wire_end(&w);
	h2_wire_open(&w, &conf, true);
	memory_peer_send(w.peer, "PRI * HT", 8);
	stage_turn(w.stage);
	assert_int_equal(w.connection->wait.reason, WAIT_HEAD);
	stage_pass(w.stage, &w.connection->wait.deadline);
	assert_null(h2_part(w.stage->worker)->connections);
	h2_wire_end(&w);
	h2_wire_open(&w, &conf, true);
	memory_peer_send(w.peer, "GET /one HTTP/1.1\r\nHost: h\r\n\r\n", 30);
	stage_turn(w.stage);
	assert_null(h2_part(w.stage->worker)->connections);
	assert_has(stage_server_got(w.stage, 0), "GET /one HTTP/1.1\r\n");
	downstream_close(http1_part(w.stage->worker)->downstreams, "the end");
	h2_wire_end(&w);
}

static void a_flood_is_cut_off(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	for (unsigned i = 0; i < 200; i++)
		memory_peer_send(w.peer, "\0\0\10\6\0\0\0\0\0sequence", 17);
	h2_wire_run(&w);
	assert_int_equal(w.goaways, 1);
	assert_int_equal(w.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
	assert_int_equal(stage_count(w.stage, STATS_HTTP2_FLOODS), 1);
	h2_wire_end(&w);
}

/* nghttp2 resets its stream and reports no frame: no deadline of a head may stay. */
static void a_malformed_head_leaves_its_connection_as_it_is(void **state)
{
	const nghttp2_nv fields[] = {H2_WIRE_FIELD(":method", "GET"),
		H2_WIRE_FIELD(":scheme", "http"), H2_WIRE_FIELD(":authority", "h"),
		H2_WIRE_FIELD(":path", "/"), H2_WIRE_FIELD("connection", "close")};
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t held = h2_wire_ask(&w, "/held", NULL, true);
	int32_t id = nghttp2_submit_request(w.session, NULL, fields, 5, NULL, NULL);
	h2_wire_run(&w);
	assert_int_equal(h2_wire_answer(&w, id)->reset, NGHTTP2_PROTOCOL_ERROR + 1);
	assert_int_not_equal(w.connection->flood.paid_until_ns[H2_FLOOD_RESET], 0);
	assert_false(w.connection->head.is_open);
	assert_int_equal(w.connection->wait.reason, WAIT_NONE);
	h2_wire_serve(&w, 0, HELLO);
	assert_true(h2_wire_answer(&w, held)->ended);
	h2_wire_end(&w);
}

static void submit_get(struct h2_wire *w)
{
	const nghttp2_nv fields[] = {H2_WIRE_FIELD(":method", "GET"),
		H2_WIRE_FIELD(":scheme", "http"), H2_WIRE_FIELD(":authority", "h"),
		H2_WIRE_FIELD(":path", "/get")};

	assert_true(nghttp2_submit_request(w->session, NULL, fields, 4, NULL, NULL) > 0);
}

/* The client sends what it has, and reads nothing. */
static void send_only(struct h2_wire *w)
{
	const uint8_t *out;
	ssize_t len;

	while ((len = nghttp2_session_mem_send(w->session, &out)) > 0)
		assert_int_equal(memory_peer_send(w->peer, out, (size_t)len), len);
	stage_turn(w->stage);
}

/* The client asks for more than the way to it holds, and reads none of it. */
static int32_t fill_output(struct h2_wire *w)
{
	char piece[30001];

	nghttp2_session_set_local_window_size(w->session, NGHTTP2_FLAG_NONE, 0, 1 << 20);
	int32_t id = h2_wire_ask(w, "/large", NULL, true);
	nghttp2_session_set_local_window_size(w->session, NGHTTP2_FLAG_NONE, id, 1 << 20);
	send_only(w);
	memset(piece, 'x', sizeof(piece) - 1);
	piece[sizeof(piece) - 1] = '\0';
	stage_server_sends(w->stage, 0, "HTTP/1.1 200 OK\r\nContent-Length: 150000\r\n\r\n");
	for (unsigned i = 0; i < 5; i++)
		stage_server_sends(w->stage, 0, piece);
	assert_false(w->connection->stream.writable);
	return id;
}

static void interim_responses_wait_for_room(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t large = fill_output(&w);
	submit_get(&w);
	send_only(&w);
	stage_server_sends(w.stage, 0,
		"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
		"HTTP/1.1 103 Early Hints\r\nLink: <b>\r\n\r\n" HELLO);
	h2_wire_run(&w);
	assert_int_equal(h2_wire_answer(&w, large)->body_len, 150000);
	assert_has(h2_wire_answer(&w, large + 2)->head, "link: <b>\n");
	assert_true(h2_wire_answer(&w, large + 2)->ended);
	h2_wire_end(&w);
}

static void a_stalled_connection_is_read_when_it_continues(void **state)
{
	struct h2_wire w;

	(void)state;
	h2_wire_open(&w, &conf, false);
	h2_wire_greet(&w);
	int32_t large = fill_output(&w);
	for (unsigned i = 0; i < 500; i++)
		nghttp2_submit_ping(w.connection->link.session, NGHTTP2_FLAG_NONE, NULL);
	submit_get(&w);
	send_only(&w);
	assert_true(w.connection->stalled);
	assert_null(strstr(stage_server_got(w.stage, 0), "/get"));
	h2_wire_run(&w);
	assert_true(h2_wire_answer(&w, large)->ended);
	assert_int_equal(w.stage->server_count, 1);
	assert_has(stage_server_got(w.stage, 0), "GET /get HTTP/1.1\r\n");
	h2_wire_end(&w);
}

UNIT_SUITE(test_h2_connection)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_answered),
		cmocka_unit_test(a_response_that_is_cut_resets_its_stream),
		cmocka_unit_test(a_reset_gives_everything_back),
		cmocka_unit_test(a_client_that_leaves_ends_its_streams),
		cmocka_unit_test(a_body_that_stops_is_answered),
		cmocka_unit_test(an_early_response_arrives_before_a_reset),
		cmocka_unit_test(an_idle_connection_ends),
		cmocka_unit_test(a_drain_ends_in_two_steps),
		cmocka_unit_test(a_plain_connection_may_speak_either),
		cmocka_unit_test(a_flood_is_cut_off),
		cmocka_unit_test(a_malformed_head_leaves_its_connection_as_it_is),
		cmocka_unit_test(interim_responses_wait_for_room),
		cmocka_unit_test(a_stalled_connection_is_read_when_it_continues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
