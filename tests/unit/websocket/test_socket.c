/* An open WebSocket: what passes each way, a message's turn, its limits, and what nobody may hold
 * up. */
#include "opened.h"

#include "queue/line.h"
#include "websocket/message.h"
#include "tests/unit/suite.h"

#define LIMIT(rate) "[limit l]\nkey = ip\nrate = " rate "\n"

static const struct stage_conf plain = {.route = OPENED_ROUTE};

static struct opened o;

static char *run_of(char byte, size_t count)
{
	static char text[65536];

	memset(text, byte, count);
	text[count] = '\0';
	return text;
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void messages_pass(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, "hello");
	assert_string_equal(opened_to_server(&o), "text(hello) ");
	opened_client(&o, FRAME_BINARY, "");
	assert_string_equal(opened_to_server(&o), "binary() ");
	opened_server(&o, FRAME_TEXT, "there");
	opened_server(&o, FRAME_BINARY, "");
	assert_string_equal(opened_to_client(&o), "text(there) binary() ");
	assert_int_equal(o.socket->received.messages, 2);
	assert_int_equal(o.socket->received.bytes, 5);
	assert_int_equal(o.socket->sent.messages, 2);
	assert_int_equal(o.socket->sent.bytes, 5);
	assert_int_equal(opened_count(&o, STATS_SERVER_MESSAGES), 2);
	assert_int_equal(opened_count(&o, STATS_SERVER_MESSAGE_BYTES), 5);
	assert_int_equal(opened_count(&o, STATS_CLIENT_MESSAGE_BYTES), 5);
	opened_end(&o);
}

static void several_in_one_read(void **state)
{
	char text[] = "0";

	(void)state;
	opened_begin(&o, &plain);
	/* More than are acted on in a turn: the rest in the next. */
	for (unsigned i = 0; i < 400; i++) {
		text[0] = (char)('0' + i % 10);
		memory_peer_send(
			o.client.wire, (uint8_t[]){0x81, 0x81, 0, 0, 0, 0, (uint8_t)text[0]}, 7);
	}
	stage_turn(o.stage);
	assert_true(o.socket->received.messages < 400);
	opened_to_server(&o);
	for (unsigned turns = 1; o.socket->received.messages < 400; turns++) {
		assert_true(turns < 20);
		opened_turn(&o);
		assert_memory_equal(opened_to_server(&o), "text(", 5);
	}
	opened_end(&o);
}

static void fragments_of_the_client_are_merged(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_send(&o, o.client.wire, true, FRAME_TEXT, SLICE("one "));
	opened_client(&o, FRAME_PING, "p");
	assert_string_equal(opened_to_server(&o), "ping(p) ");
	opened_send(&o, o.client.wire, true, FRAME_CONTINUATION, SLICE("two "));
	assert_string_equal(opened_to_server(&o), "");
	opened_client(&o, FRAME_CONTINUATION, "three");
	assert_string_equal(opened_to_server(&o), "text(one two three) ");
	assert_int_equal(o.socket->received.messages, 1);
	opened_end(&o);
}

static void those_of_the_server_pass(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_send(&o, o.server.wire, false, FRAME_BINARY, SLICE("one"));
	opened_server(&o, FRAME_PING, "p");
	opened_server(&o, FRAME_CONTINUATION, "two");
	opened_server(&o, FRAME_PONG, "q");
	assert_string_equal(opened_to_client(&o), "binary-(one) ping(p) cont(two) pong(q) ");
	assert_int_equal(o.socket->sent.messages, 1);
	assert_int_equal(o.socket->sent.bytes, 6);
	opened_end(&o);
}

/* A frame that comes byte by byte is passed on as it comes, and nothing of ours within it. */
static void nothing_is_written_within_a_frame(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	memory_peer_send(o.server.wire,
		"\x82\x03"
		"a",
		3);
	stage_turn(o.stage);
	socket_close(o.socket, CLOSE_POLICY, SLICE("why"), CLOSE_GOING_AWAY, "why");
	socket_run(o.socket);
	assert_string_equal(opened_to_client(&o), "");
	memory_peer_send(o.server.wire, "b", 1);
	stage_turn(o.stage);
	assert_string_equal(opened_to_client(&o), "");
	memory_peer_send(o.server.wire, "c", 1);
	stage_turn(o.stage);
	assert_string_equal(opened_to_client(&o), "binary(abc) close(1008 why) ");
	opened_end(&o);
}

/* ---- one after the other --------------------------------------------------------------------- */

static void one_message_is_under_way(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, run_of('a', 40000));
	assert_null(o.socket->client.first); /* the server's system has taken it */
	opened_client(&o, FRAME_TEXT, run_of('b', 40000));
	struct exchange *message = o.socket->client.first;
	assert_non_null(message);
	assert_int_equal(message->state, EXCHANGE_FORWARDING);
	assert_false(socket_reads_client(o.socket));
	opened_client(&o, FRAME_TEXT, run_of('c', 100));
	assert_ptr_equal(o.socket->client.first, message);
	assert_int_equal(o.socket->received.messages, 2);
	opened_end(&o);
}

static void a_server_that_takes_nothing_holds_its_client_back(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, run_of('a', 40000));
	opened_client(&o, FRAME_TEXT, run_of('b', 40000));
	opened_client(&o, FRAME_TEXT, "c");
	assert_int_equal(o.socket->received.messages, 2);
	char all[200] = "";
	for (unsigned i = 0; i < 4; i++)
		strcat(all, opened_to_server(&o));
	assert_string_equal(all, "text(a x 40000) text(b x 40000) text(c) ");
	assert_null(o.socket->client.first);
	opened_end(&o);
}

static void a_client_that_takes_nothing_holds_its_server_back(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	for (unsigned i = 0; i < 3; i++)
		opened_server(&o, FRAME_TEXT, run_of((char)('a' + i), 40000));
	/* Ours: what the stream has room for, what is ahead, and a block. */
	assert_true(flow_bytes(o.passage->down.flow) <= SOCKET_AHEAD_BYTES + 32 * 1024);
	assert_true(o.socket->sent.bytes < 120000);
	char all[200] = "";
	for (unsigned i = 0; i < 8; i++)
		strcat(all, opened_to_client(&o));
	assert_string_equal(all, "text(a x 40000) text(b x 40000) text(c x 40000) ");
	opened_end(&o);
}

/* What a message takes says how fast its server reads, and not how busy it is. */
static void messages_say_nothing_of_their_upstream(void **state)
{
	static const struct stage_conf adaptive = {
		.upstream = "max_in_flight = auto", .route = OPENED_ROUTE};

	(void)state;
	opened_begin(&o, &adaptive);
	const struct run_queue *line = o.passage->account.upstream->state->run_queue;
	opened_client(&o, FRAME_TEXT, run_of('a', 40000));
	opened_client(&o, FRAME_TEXT, run_of('b', 40000));
	assert_int_equal(line->in_flight, 1);
	stage_at(o.stage, 50);
	assert_has(opened_to_server(&o), "text(a x 40000) ");
	assert_null(o.socket->client.first);
	assert_int_equal(line->in_flight, 0);
	assert_int_equal(line->adapt.samples + line->adapt.failures, 0);
	opened_client(&o, FRAME_TEXT, run_of('c', 60000));
	opened_client(&o, FRAME_TEXT, run_of('d', 60000));
	assert_int_equal(line->in_flight, 1);
	stage_at(o.stage, 100);
	socket_abort(o.socket, "test"); /* its client is gone */
	assert_int_equal(line->in_flight, 0);
	assert_int_equal(line->adapt.samples + line->adapt.failures, 0);
	opened_end(&o);
}

/* More frames than are passed on in a turn, in each turn. */
static void a_server_that_never_stops_leaves_its_client_its_share(void **state)
{
	static const uint8_t frame[] = {0x82, 2, 'x', 'y'};
	size_t sent;

	(void)state;
	opened_begin(&o, &plain);
	memory_peer_send(o.client.wire, (uint8_t[]){0x81, 0x81, 0, 0, 0, 0, 'm'}, 7);
	for (unsigned turns = 0; turns < 10; turns++) {
		do {
			sent = memory_peer_send(o.server.wire, frame, sizeof(frame));
			assert_true(sent == 0 || sent == sizeof(frame));
		} while (sent > 0);
		opened_turn(&o);
		assert_true(o.socket->sent.messages > turns * 10);
		memory_peer_receive(o.client.wire, o.client.bytes, sizeof(o.client.bytes));
	}
	assert_false(o.socket->closing.begun);
	assert_string_equal(opened_to_server(&o), "text(m) ");
	opened_end(&o);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static const struct stage_conf drops = {
	.more = LIMIT("1 per 1h"),
	.route = OPENED_ROUTE "message_limits = l\non_message_exceed = drop\nmessage_notice = slow",
};
static const struct stage_conf closes = {.more = LIMIT("1 per 10s"),
	.route = OPENED_ROUTE "message_limits = l\non_message_exceed = close"};
static const struct stage_conf delays = {
	.more = LIMIT("1 per 10s"), .route = OPENED_ROUTE "message_limits = l"};
static const struct stage_conf delays_a_little = {.more = LIMIT("1 per 10s"),
	.route = OPENED_ROUTE "message_limits = l\non_message_exceed = delay 4s"};

static void notices_come_between_messages(void **state)
{
	(void)state;
	opened_begin(&o, &drops);
	opened_client(&o, FRAME_TEXT, "first");
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begun"));
	opened_client(&o, FRAME_TEXT, "second");
	assert_string_equal(opened_to_server(&o), "text(first) ");
	assert_string_equal(opened_to_client(&o), "text-(begun) ");
	opened_server(&o, FRAME_CONTINUATION, "ended");
	assert_string_equal(opened_to_client(&o), "cont(ended) text(slow) ");
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_ADMIT), 1);
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_REFUSE), 1);
	opened_end(&o);
}

static void notices_are_bounded(void **state)
{
	(void)state;
	opened_begin(&o, &drops);
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begun"));
	for (unsigned i = 0; i < 3 * SOCKET_NOTICES; i++)
		opened_client(&o, FRAME_TEXT, "x");
	assert_int_equal(o.socket->notices, SOCKET_NOTICES);
	opened_to_client(&o);
	opened_server(&o, FRAME_CONTINUATION, "ended");
	assert_int_equal(o.socket->notices, 0);
	const char *got = opened_to_client(&o);
	assert_int_equal(
		strlen(got), strlen("cont(ended) ") + SOCKET_NOTICES * strlen("text(slow) "));
	opened_end(&o);
}

/* It sends on, and reads nothing. */
static void notices_to_a_client_that_reads_nothing_are_bounded(void **state)
{
	(void)state;
	opened_begin(&o, &drops);
	for (unsigned i = 0; i < 30000; i++)
		opened_client(&o, FRAME_TEXT, "x");
	assert_true(o.socket->verdicts.refused > 20000);
	assert_in_range(flow_bytes(o.passage->down.flow), SOCKET_AHEAD_BYTES,
		SOCKET_AHEAD_BYTES + FRAME_HEAD_BYTES + strlen("slow"));
	assert_int_equal(o.socket->notices, SOCKET_NOTICES);
	while (opened_to_client(&o)[0] != '\0')
		;
	assert_int_equal(o.socket->notices, 0);
	opened_client(&o, FRAME_TEXT, "x");
	assert_string_equal(opened_to_client(&o), "text(slow) ");
	opened_end(&o);
}

/* All of the limit's 10 s, as its slots count them. */
static void assert_retry_after(const char *got, const char *before)
{
	unsigned ms = 0;

	assert_true(strncmp(got, before, strlen(before)) == 0);
	assert_int_equal(sscanf(got + strlen(before), "%u) ", &ms), 1);
	assert_in_range(ms, 9000, 10100);
}

static void a_limit_closes(void **state)
{
	(void)state;
	opened_begin(&o, &closes);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "second");
	assert_retry_after(opened_to_client(&o), "close(1008 retry-after-ms=");
	assert_retry_after(opened_to_server(&o), "text(first) close(1001 retry-after-ms=");
	opened_client(&o, FRAME_TEXT, "third"); /* too late */
	assert_string_equal(opened_to_server(&o), "");
	opened_end(&o);
}

static void a_limit_delays(void **state)
{
	(void)state;
	opened_begin(&o, &delays);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "second");
	assert_string_equal(opened_to_server(&o), "text(first) ");
	struct exchange *message = o.socket->client.first;
	assert_int_equal(message->state, EXCHANGE_DELAYED);
	opened_client(&o, FRAME_TEXT, "third");
	assert_int_equal(o.socket->received.messages, 2);
	assert_string_equal(opened_to_server(&o), "");
	opened_end(&o);
}

/* Charged when it came, it would leave in a window that holds another. */
static void a_message_is_charged_when_it_leaves(void **state)
{
	static const struct stage_conf busy = {.more = LIMIT("1 per 10s"),
		.upstream = "max_in_flight = 1",
		.route = OPENED_ROUTE "message_limits = l\nqueue_timeout = 1m"};
	struct ticket other;

	(void)state;
	opened_begin(&o, &busy);
	struct worker *worker = o.stage->worker;
	ticket_init(&other, 0);
	queue_enter(worker->node->queue, &site_part(worker)->use->site->policies[0],
		o.passage->account.upstream->state->run_queue, (struct session_key){{1, 1}}, &other,
		worker_now_ns(worker));
	opened_client(&o, FRAME_TEXT, "first");
	assert_int_equal(o.socket->client.first->state, EXCHANGE_QUEUED);
	stage_at(o.stage, worker_now_ms(worker) + 20000);
	queue_done(worker->node->queue, &other, worker_now_ns(worker));
	opened_turn(&o);
	assert_string_equal(opened_to_server(&o), "text(first) ");
	opened_client(&o, FRAME_TEXT, "second");
	assert_string_equal(opened_to_server(&o), "");
	assert_int_equal(o.socket->client.first->state, EXCHANGE_DELAYED);
	opened_end(&o);
}

/* Idle is a socket that has nothing under way. */
static void a_delay_is_not_idleness(void **state)
{
	static const struct stage_conf idles = {.more = LIMIT("1 per 10s"),
		.route = "websocket = messages\nping_interval = 0s\n"
			 "socket_idle_timeout = 2s\nmessage_limits = l"};

	(void)state;
	opened_begin(&o, &idles);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "second");
	assert_string_equal(opened_to_server(&o), "text(first) ");
	struct exchange *message = o.socket->client.first;
	assert_int_equal(message->state, EXCHANGE_DELAYED);
	assert_true(opened_due_ms(&o) > 10000);
	stage_pass(o.stage, &message->turn.deadline);
	assert_string_equal(opened_to_server(&o), "text(second) ");
	assert_null(o.socket->client.first);
	assert_int_equal(opened_due_ms(&o), socket_now_ms(o.socket) - STAGE_START_MS + 2000);
	opened_pass(&o);
	assert_string_equal(opened_to_client(&o), "close(1001 idle) ");
	opened_end(&o);
}

static void a_delay_has_an_end(void **state)
{
	(void)state;
	opened_begin(&o, &delays_a_little);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "second");
	assert_retry_after(opened_to_client(&o), "close(1008 retry-after-ms=");
	opened_end(&o);
}

/* ---- control frames -------------------------------------------------------------------------- */

static void control_frames_are_bounded(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	for (unsigned i = 0; i < SOCKET_CONTROLS_A_SECOND; i++) {
		opened_client(&o, i % 2 ? FRAME_PING : FRAME_PONG, "x");
		stage_at(o.stage, i * 9); /* within a second, each in a turn of its own */
		opened_to_server(&o);
	}
	assert_false(o.socket->closing.begun);
	stage_at(o.stage, 1000); /* the next */
	for (unsigned i = 0; i < SOCKET_CONTROLS_A_SECOND; i++) {
		opened_client(&o, FRAME_PING, "x");
		stage_at(o.stage, 1000 + i * 9);
		opened_to_server(&o);
	}
	assert_false(o.socket->closing.begun);
	opened_client(&o, FRAME_PING, "x");
	assert_string_equal(opened_to_client(&o), "close(1008 too many control frames) end");
	assert_string_equal(opened_to_server(&o), "close(1001 too many control frames) ");
	opened_end(&o);
}

static void empty_fragments_count_as_such(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_send(&o, o.client.wire, true, FRAME_TEXT, SLICE("x"));
	for (unsigned i = 0; i <= SOCKET_CONTROLS_A_SECOND; i++) {
		assert_false(o.socket->closing.begun);
		opened_send(&o, o.client.wire, true, FRAME_CONTINUATION, SLICE(""));
		stage_at(o.stage, i * 9);
		stage_turn(o.stage);
	}
	assert_string_equal(opened_to_client(&o), "close(1008 too many control frames) end");
	opened_end(&o);
}

static void what_breaks_the_rules(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, "\xff");
	assert_string_equal(opened_to_client(&o), "close(1007 text is not UTF-8) end");
	assert_has(opened_to_server(&o), "close(1001 ");
	opened_server_closes(&o, 1001, "");
	assert_true(opened_is_open(&o));
	opened_client(&o, FRAME_TEXT, "late"); /* thrown away */
	assert_true(opened_is_open(&o));
	memory_peer_end_output(o.client.wire);
	opened_turn(&o);
	assert_false(opened_is_open(&o));
	assert_int_equal(stage_count(o.stage, STATS_MALFORMED), 1);
	opened_end(&o);
	opened_begin(&o, &plain);
	opened_send(&o, o.server.wire, false, OPENED_FIN | 3, SLICE("x"));
	assert_has(opened_to_client(&o), "close(1011 malformed frame of the server) ");
	opened_end(&o);
}

/* Bytes of a client whose frames can't be read are thrown away as those of a refused upload. */
static void it_lingers_within_bounds(void **state)
{
	static const struct stage_conf small = {.route = OPENED_ROUTE,
					       .listener =
						       "linger_size = 1k\nlinger_timeout = 12s\n"},
				       none = {.route = OPENED_ROUTE,
					       .listener = "max_lingering = 0\n"};
	static char bytes[1025];

	(void)state;
	memset(bytes, 'x', sizeof(bytes) - 1);
	for (unsigned i = 0; i < 3; i++) {
		opened_begin(&o, i == 2 ? &none : &small);
		opened_client(&o, FRAME_TEXT, "\xff");
		assert_has(opened_to_client(&o), "close(1007 text is not UTF-8) ");
		opened_to_server(&o);
		opened_server_closes(&o, 1001, "");
		assert_int_equal(opened_is_open(&o), i < 2);
		if (i == 0) {
			opened_client(&o, FRAME_TEXT, bytes);
		} else if (i == 1) {
			stage_at(o.stage, 4000);
			opened_client(&o, FRAME_TEXT, "x"); /* 5 s more, but not for ever */
			assert_int_equal(o.passage->wait.deadline.at_ms,
				worker_now_ms(o.stage->worker) + 5000);
			stage_at(o.stage, 8000);
			opened_client(&o, FRAME_TEXT, "x");
			stage_pass(o.stage, &o.passage->wait.deadline);
			opened_turn(&o);
			assert_int_equal(worker_now_ms(o.stage->worker), STAGE_START_MS + 12000);
		}
		assert_false(opened_is_open(&o));
		opened_end(&o);
	}
}

/* And nothing more of it is read as frames. */
static void a_flood_is_not_read_on(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	for (unsigned i = 0; i <= SOCKET_CONTROLS_A_SECOND; i++)
		memory_peer_send(o.client.wire, "\x89\x80\0\0\0\0", 6);
	opened_turn(&o);
	for (unsigned i = 0; i < 8; i++) {
		opened_to_server(&o);
		opened_turn(&o);
	}
	assert_true(o.socket->closing.begun);
	assert_true(o.socket->closing.discards);
	opened_end(&o);
}

static void compressed_messages_pass_as_they_are(void **state)
{
	(void)state;
	opened_begin_with(&o, &plain, OPENED_DEFLATE_REQUEST, OPENED_DEFLATE_ANSWER);
	opened_send(&o, o.client.wire, true, OPENED_FIN | 0x40 | FRAME_TEXT, SLICE("\xff\xfe"));
	opened_client(&o, FRAME_TEXT, "plain");
	assert_string_equal(opened_to_server(&o), "text~(\xff\xfe) text(plain) ");
	opened_send(&o, o.server.wire, false, OPENED_FIN | 0x40 | FRAME_BINARY, SLICE("zip"));
	assert_string_equal(opened_to_client(&o), "binary~(zip) ");
	opened_end(&o);
}

static void a_message_has_its_line(void **state)
{
	static const struct stage_conf conf = {.more = LIMIT("1 per 10s"),
		.route = OPENED_ROUTE
		"message_limits = l\non_message_exceed = drop\nlog_messages = on"};

	(void)state;
	opened_begin(&o, &conf);
	char id[64];
	snprintf(id, sizeof(id), "id=%.*s ", SLICE_ARGS(o.passage->request->request_id));
	opened_client(&o, FRAME_TEXT, "one");
	assert_has(lines.text, "\"MESSAGE /chat websocket\" 200 0 ");
	assert_has(lines.text, id);
	assert_has(lines.text, " limit=l verdict=admit ");
	lines_clear();
	opened_client(&o, FRAME_TEXT, "two");
	assert_has(lines.text, "\"MESSAGE /chat websocket\" 429 0 ");
	assert_has(lines.text, " limit=l verdict=refuse ");
	opened_end(&o);
}

/* A client that ends its output while its message waits is asked whether it is there. */
static void a_client_that_ends_its_output_is_asked(void **state)
{
	(void)state;
	opened_begin(&o, &delays);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "second");
	assert_int_equal(o.socket->client.first->state, EXCHANGE_DELAYED);
	memory_peer_end_output(o.client.wire);
	opened_turn(&o);
	const char *got = opened_to_client(&o);
	assert_memory_equal(got, "ping(", 5);
	assert_null(strstr(got + 5, "ping(")); /* once */
	opened_end(&o);
}

/* Nor does a message of the server's that does not end keep that from it. */
static void asked_within_the_servers_message(void **state)
{
	(void)state;
	opened_begin(&o, &delays);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "waits");
	opened_send(&o, o.server.wire, false, FRAME_TEXT, SLICE("begins"));
	opened_to_client(&o);
	memory_peer_end_output(o.client.wire);
	opened_turn(&o);
	assert_memory_equal(opened_to_client(&o), "ping(", 5);
	opened_end(&o);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void a_message_ends_with_its_socket(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		opened_begin(&o, i ? &delays : &plain);
		opened_client(&o, FRAME_TEXT, run_of('a', 40000));
		opened_client(&o, FRAME_TEXT, run_of('b', 40000));
		assert_non_null(o.socket->client.first);
		memory_peer_reset(o.client.wire);
		stage_turn(o.stage);
		assert_false(opened_is_open(&o));
		assert_int_equal(websockets_of(o.stage->worker)->count, 0);
		assert_int_equal(opened_count(&o, STATS_SOCKETS_CLOSED), 1);
		opened_end(&o); /* nothing is left in the queue, or of exchanges */
	}
}

static void its_line_has_what_passed(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	opened_client(&o, FRAME_TEXT, "hello");
	opened_client(&o, FRAME_TEXT, "you");
	opened_server(&o, FRAME_TEXT, "there");
	opened_client_closes(&o, 1000, "");
	opened_server_closes(&o, 1000, "");
	assert_false(opened_is_open(&o));
	assert_has(lines.text, " messages_received=2 bytes_received=8 messages_sent=1");
	assert_has(lines.text, "\" 101 5 ");
	opened_end(&o);
}

static void sockets_have_ids(void **state)
{
	(void)state;
	opened_begin(&o, &plain);
	assert_int_equal(o.socket->id, 1);
	assert_ptr_equal(websockets_find(o.socket->all, 1), o.socket);
	assert_int_equal(opened_count(&o, STATS_SOCKETS_OPENED), 1);
	assert_int_equal(o.socket->all->count, 1);
	opened_end(&o);
}

UNIT_SUITE(test_socket)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_pass),
		cmocka_unit_test(several_in_one_read),
		cmocka_unit_test(fragments_of_the_client_are_merged),
		cmocka_unit_test(those_of_the_server_pass),
		cmocka_unit_test(nothing_is_written_within_a_frame),
		cmocka_unit_test(one_message_is_under_way),
		cmocka_unit_test(a_server_that_takes_nothing_holds_its_client_back),
		cmocka_unit_test(a_client_that_takes_nothing_holds_its_server_back),
		cmocka_unit_test(a_server_that_never_stops_leaves_its_client_its_share),
		cmocka_unit_test(messages_say_nothing_of_their_upstream),
		cmocka_unit_test(notices_come_between_messages),
		cmocka_unit_test(notices_are_bounded),
		cmocka_unit_test(notices_to_a_client_that_reads_nothing_are_bounded),
		cmocka_unit_test(a_limit_closes),
		cmocka_unit_test(a_limit_delays),
		cmocka_unit_test(a_message_is_charged_when_it_leaves),
		cmocka_unit_test(a_delay_is_not_idleness),
		cmocka_unit_test(a_delay_has_an_end),
		cmocka_unit_test(control_frames_are_bounded),
		cmocka_unit_test(empty_fragments_count_as_such),
		cmocka_unit_test(what_breaks_the_rules),
		cmocka_unit_test(it_lingers_within_bounds),
		cmocka_unit_test(a_flood_is_not_read_on),
		cmocka_unit_test(compressed_messages_pass_as_they_are),
		cmocka_unit_test(a_message_has_its_line),
		cmocka_unit_test(a_client_that_ends_its_output_is_asked),
		cmocka_unit_test(asked_within_the_servers_message),
		cmocka_unit_test(a_message_ends_with_its_socket),
		cmocka_unit_test(its_line_has_what_passed),
		cmocka_unit_test(sockets_have_ids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
