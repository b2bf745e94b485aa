/*
 * A socket whose server speaks HTTP: its client's connection and those to the server are streams in
 * memory, the test plays both peers and the time.
 */
#include "opened.h"

#include <errno.h>

#include "websocket/close.h"
#include "websocket/gateway.h"
#include "websocket/send.h"
#include "websocket/times.h"

#define ROUTE                                                                                      \
	"websocket = gateway\nping_interval = 0s\nsocket_idle_timeout = 0s\nsession = ip\n"        \
	"ordering = strict\n"
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/websocket-events\r\n"

#define WAITING       16 /* gateway_waiting */
#define WAITING_BYTES (64 * 1024)

static const struct stage_conf plain = {.route = ROUTE};

static struct opened o;

/* ---- the server ------------------------------------------------------------------------------ */

static char got[STAGE_ROOM + 1];

/* What the newest connection to the server got since the last look. */
static const char *server_got(void)
{
	assert_true(o.stage->server_count > 0);
	snprintf(got, sizeof(got), "%s", stage_server_got(o.stage, o.stage->server_count - 1));
	return got;
}

/* The events of the request that it got; it got one. */
static const char *request_got(void)
{
	const char *text = server_got(), *body = strstr(text, "\r\n\r\n");

	assert_has(text, "POST /chat HTTP/1.1\r\n");
	assert_non_null(body);
	assert_null(strstr(body, "POST "));
	return body + 4;
}

static void answer_with(const char *fields, const char *events)
{
	static char text[STAGE_ROOM];

	snprintf(text, sizeof(text), HEAD "%sContent-Length: %zu\r\n\r\n%s", fields, strlen(events),
		events);
	stage_server_sends(o.stage, o.stage->server_count - 1, text);
	opened_turn(&o);
}

static void answer(const char *events)
{
	answer_with("", events);
}

/* No connection to it is left, and none can be made. */
static void leave(void)
{
	for (unsigned i = 0; i < o.stage->server_count; i++)
		memory_peer_reset(o.stage->servers[i].wire);
	opened_turn(&o);
	o.stage->connect_error = ECONNREFUSED;
}

/* ---- its life -------------------------------------------------------------------------------- */

static void ask_with(const struct stage_conf *conf)
{
	memset(&o, 0, sizeof(o));
	opened_worker = NULL;
	connected_open(&o.c, conf);
	o.stage = o.c.stage;
	o.stage->listener.use = o.stage->worker->use;
	opened_worker = o.stage->worker;
	connected_send(&o.c, OPENED_REQUEST);
	assert_string_equal(request_got(), "OPEN\r\n");
}

static void ask(void)
{
	ask_with(&plain);
}

static void begin_on(const struct stage_conf *conf, const char *fields, const char *events)
{
	ask_with(conf);
	answer_with(fields, events);
	assert_has(connected_got(&o.c), "HTTP/1.1 101 ");
	o.client.wire = o.c.wire;
	o.socket = o.stage->worker->websockets->first;
	assert_non_null(o.socket);
	o.socket->all->random = 1;
	o.passage = o.socket->passage;
}

static void begin_with(const char *fields, const char *events)
{
	begin_on(&plain, fields, events);
}

static void begin(void)
{
	begin_with("", "OPEN\r\n");
}

static void end(void)
{
	o.stage->worker->stopping = true; /* no server is told of anything any more */
	while (o.stage->worker->downstreams)
		downstream_close(o.stage->worker->downstreams, "the end");
	while (o.stage->worker->passages)
		passage_end(o.stage->worker->passages, "the end");
	while (o.stage->worker->websockets->gateways)
		gateway_abort(o.stage->worker->websockets->gateways, "the end");
	opened_end(&o);
}

static bool gateway_is_left(void)
{
	return o.stage->worker->websockets->gateways != NULL;
}

static void say(const char *text)
{
	opened_client(&o, FRAME_TEXT, text);
}

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
	assert_int_equal(o.socket->gateway->waiting, WAITING + 1);
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
	assert_in_range(
		o.socket->gateway->waiting_bytes, WAITING_BYTES, WAITING_BYTES + sizeof(large));
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
	assert_int_equal(o.socket->gateway->waiting, 6);
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

/* ---- a client that takes nothing --------------------------------------------------------------
 */

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
	assert_non_null(o.socket->gateway->client.first);
}

/* No room in the queues of all: as its own queue's, and no cut. */
static void no_room_for_an_answer(void **state)
{
	(void)state;
	begin();
	fall_behind();
	atomic_store(&o.stage->relay.node.sends.most, 1);
	answer("TEXT 1\r\nx\r\n");
	assert_true(o.socket->closing.begun && !socket_has_ended(o.socket));
	assert_int_equal(o.socket->closing.client_code, CLOSE_TRY_AGAIN);
	assert_int_equal(opened_count(&o, STATS_SOCKETS_SLOW), 1);
	assert_int_equal(opened_count(&o, STATS_SENDS + STATS_SEND_DROPPED), 1);
	atomic_store(&o.stage->relay.node.sends.most, 0);
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

/* ---- tries ----------------------------------------------------------------------------------- */

/* The deadline of the message that waits for its next try, from now. */
static uint64_t wait_ms(void)
{
	const struct exchange *x = o.socket->gateway->client.first;

	assert_non_null(x);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	return x->turn.deadline.at_ms - worker_now_ms(o.stage->worker);
}

static void pass(void)
{
	stage_pass(o.stage, &o.socket->gateway->client.first->turn.deadline);
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
	struct gateway *gateway = o.stage->worker->websockets->gateways;
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

/* ---- memory ---------------------------------------------------------------------------------- */

/* What requests read of a listener is there once for all that came by it, and goes with the last.
 */
static void a_listener_is_shared(void **state)
{
	const struct websockets *all;
	struct memory_peer *second;

	(void)state;
	begin();
	all = o.stage->worker->websockets;
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
	o.stage->worker->stopping = true; /* no server is told of anything any more */
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
	const struct gateway *gateway = o.socket->gateway;
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

/* ---- a server that is busy ------------------------------------------------------------------- */

static const struct stage_conf busy = {.upstream = "max_in_flight = 1", .route = ROUTE},
			       full = {.upstream = "max_in_flight = 1",
				       .route = ROUTE,
				       .node = "queue_total = 1"};

/* Others that hold the only place, and wait for it. */
static struct ticket others[2];

static struct upstream_state *upstream(void)
{
	return o.stage->worker->use->site->upstreams[0]->state;
}

static void other_enters(unsigned i)
{
	const struct site *site = o.stage->worker->use->site;

	ticket_init(&others[i], 0);
	queue_enter(o.stage->worker->node->queue, &site->policies[0], upstream()->run_queue,
		(struct session_key){{i + 1, i + 1}}, &others[i], worker_now_ns(o.stage->worker));
}

static void other_leaves(unsigned i)
{
	queue_done(o.stage->worker->node->queue, &others[i], worker_now_ns(o.stage->worker));
	opened_turn(&o);
}

static struct gateway *the_gateway(void)
{
	return o.stage->worker->websockets->gateways;
}

static struct deadline *deadline_of_first(void)
{
	return &the_gateway()->client.first->turn.deadline;
}

static void client_resets(void)
{
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
}

static void an_end_goes_before_others(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	client_resets();
	assert_string_equal(server_got(), "");
	other_leaves(0);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	assert_int_equal(upstream()->unplaced, 0);
	answer("");
	assert_false(gateway_is_left());
	end();
}

static void an_end_does_not_wait_long(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	client_resets();
	assert_int_equal(
		deadline_of_first()->at_ms, worker_now_ms(o.stage->worker) + TURN_END_WAIT_MS);
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	assert_int_equal(upstream()->unplaced, 1);
	answer("");
	assert_int_equal(upstream()->unplaced, 0);
	assert_false(gateway_is_left());
	other_leaves(0);
	end();
}

/* A drain gives up the message that waits, and not what tells the server of the end. */
static void an_end_is_not_given_up(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	say("waits");
	opened_client_closes(&o, 1000, "");
	socket_hurry(o.socket, "drained");
	socket_run(o.socket);
	opened_turn(&o);
	assert_string_equal(server_got(), "");
	other_leaves(0);
	assert_string_equal(request_got(), "CLOSE 2\r\n\x03\xe8\r\n");
	answer("");
	assert_string_equal(opened_to_client(&o), "close(1001 going away) end");
	assert_false(gateway_is_left());
	end();
}

/* Nor where the client is told before the server is. */
static void an_end_that_is_late(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	socket_run(o.socket);
	socket_close_late(o.socket);
	socket_run(o.socket);
	assert_string_equal(opened_to_client(&o), "close(1001 drained) ");
	assert_string_equal(server_got(), "");
	other_leaves(0);
	assert_has(request_got(), "CLOSE 9\r\n");
	answer("");
	opened_client_closes(&o, 1001, "");
	assert_false(gateway_is_left());
	end();
}

/* Not too many at once. */
static void ends_without_a_place_are_few(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	client_resets();
	upstream()->unplaced = TURN_UNPLACED_MOST;
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(server_got(), "");
	assert_int_equal(upstream()->unplaced, TURN_UNPLACED_MOST);
	upstream()->unplaced--;
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_int_equal(upstream()->unplaced, TURN_UNPLACED_MOST - 1);
	upstream()->unplaced = 0;
	other_leaves(0);
	end();
}

/* Nor is it lost where no more may wait. */
static void an_end_is_not_turned_away(void **state)
{
	(void)state;
	begin_on(&full, "", "OPEN\r\n");
	other_enters(0);
	other_enters(1); /* waits */
	upstream()->unplaced = TURN_UNPLACED_MOST;
	client_resets();
	assert_string_equal(server_got(), "");
	upstream()->unplaced = 0;
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_int_equal(upstream()->unplaced, 0);
	assert_false(gateway_is_left());
	other_leaves(1);
	other_leaves(0);
	end();
}

static void silence_gives_way(void **state)
{
	(void)state;
	begin_on(&busy, "Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	other_enters(0);
	stage_pass(o.stage, &o.passage->wait.deadline);
	assert_int_equal(the_gateway()->waiting, 1);
	say("a");
	say("b");
	assert_int_equal(the_gateway()->waiting, 2);
	other_leaves(0);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nb\r\n");
	answer("");
	end();
}

/* It was to keep the socket, and is not its end. */
static void silence_that_is_turned_away(void **state)
{
	(void)state;
	begin_on(&busy, "Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	other_enters(0);
	stage_pass(o.stage, &o.passage->wait.deadline);
	stage_pass(o.stage, deadline_of_first()); /* queue_timeout */
	opened_turn(&o);
	assert_int_equal(the_gateway()->waiting, 0);
	assert_string_equal(opened_to_client(&o), "");
	other_leaves(0);
	stage_pass(o.stage, &o.passage->wait.deadline);
	assert_string_equal(request_got(), "");
	assert_int_equal(the_gateway()->waiting, 1);
	answer("TEXT 4\r\nnews\r\n");
	assert_string_equal(opened_to_client(&o), "text(news) ");
	end();
}

/* A close frame does not wait for it, and is answered by the server's. */
static void a_close_while_silence_is_asked_about(void **state)
{
	(void)state;
	begin_on(&busy, "Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	stage_pass(o.stage, &o.passage->wait.deadline);
	assert_string_equal(request_got(), "");
	opened_client_closes(&o, 3001, "bye");
	answer("");
	assert_string_equal(opened_to_client(&o), "");
	assert_has(request_got(), "CLOSE 5\r\n");
	answer("CLOSE 2\r\n\x0b\xba\r\n");
	assert_string_equal(opened_to_client(&o), "close(3002 ) end");
	end();
}

int main(void)
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
		cmocka_unit_test(three_tries),
		cmocka_unit_test(comes_back_for_the_second),
		cmocka_unit_test(tries_begin_again),
		cmocka_unit_test(a_connection_that_has_just_ended),
		cmocka_unit_test(a_connection_that_has_just_ended_without_retries),
		cmocka_unit_test(a_connection_that_ends_behind_the_message),
		cmocka_unit_test(the_client_is_gone),
		cmocka_unit_test(gone_with_a_message_under_way),
		cmocka_unit_test(gone_while_it_is_tried_again),
		cmocka_unit_test(the_client_closes),
		cmocka_unit_test(a_text_that_is_none_behind_its_close),
		cmocka_unit_test(the_server_does_not_answer_a_close),
		cmocka_unit_test(the_server_closes),
		cmocka_unit_test(a_listener_is_shared),
		cmocka_unit_test(an_open_one_keeps_no_answer),
		cmocka_unit_test(lost_behind_a_close),
		cmocka_unit_test(answered_badly_behind_a_close),
		cmocka_unit_test(lost_in_a_drain),
		cmocka_unit_test(answered_in_a_drain),
		cmocka_unit_test(not_answered_in_a_drain),
		cmocka_unit_test(only_the_close_is_lost),
		cmocka_unit_test(charged_when_it_leaves),
		cmocka_unit_test(given_up_behind_a_close),
		cmocka_unit_test(answers_given_up_in_a_drain),
		cmocka_unit_test(answers_behind_a_close),
		cmocka_unit_test(answers_before_a_close),
		cmocka_unit_test(bad_answers),
		cmocka_unit_test(meta_comes_back),
		cmocka_unit_test(silence),
		cmocka_unit_test(an_end_goes_before_others),
		cmocka_unit_test(an_end_does_not_wait_long),
		cmocka_unit_test(an_end_is_not_given_up),
		cmocka_unit_test(an_end_that_is_late),
		cmocka_unit_test(ends_without_a_place_are_few),
		cmocka_unit_test(an_end_is_not_turned_away),
		cmocka_unit_test(silence_gives_way),
		cmocka_unit_test(silence_that_is_turned_away),
		cmocka_unit_test(a_close_while_silence_is_asked_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
