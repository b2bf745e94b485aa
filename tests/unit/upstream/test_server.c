/* A connection to a server as its exchange uses it: deadlines, the requests of a round, and each
 * operation as its protocol's. */
#include "upstream/server.h"

#include "body/sink.h"
#include "body/source.h"
#include "http/framing.h"
#include "linked.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};

/* ---- time ------------------------------------------------------------------------------------ */

static void it_is_awaited_until_it_makes_progress(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	stage_turn(l.stage);
	linked_heard(&l);
	assert_int_equal(server_awaited(connection), WAIT_NONE);
	server_await(connection, WAIT_RESPONSE, 5, 3000);
	stage_at(l.stage, 1000);
	server_await(connection, WAIT_RESPONSE, 5, 3000); /* as before: no more time */
	assert_int_equal(connection->wait.deadline.at_ms, STAGE_START_MS + 3000);
	server_await(connection, WAIT_RESPONSE, 6, 3000);
	assert_int_equal(connection->wait.deadline.at_ms, STAGE_START_MS + 4000);
	server_await(connection, WAIT_MORE, 6, 500);
	assert_int_equal(server_awaited(connection), WAIT_MORE);
	assert_int_equal(connection->wait.deadline.at_ms, STAGE_START_MS + 1500);
	stage_pass(l.stage, &connection->wait.deadline);
	assert_string_equal(linked_heard(&l), "timeout ");
	server_await_nothing(connection);
	assert_int_equal(server_awaited(connection), WAIT_NONE);
	assert_int_equal(connection->wait.deadline.at_ms, DEADLINE_NEVER);
	server_connection_close(connection);
	linked_end(&l);
}

/* ---- the round's requests -------------------------------------------------------------------- */

static void requests_of_a_round_are_sent_in_their_order(void **state)
{
	struct linked l, second, third;

	(void)state;
	linked_begin(&l, &plain);
	second = third = (struct linked){.stage = l.stage, .server = l.server};
	struct server_connection *a = linked_get(&l), *b = linked_get(&second),
				 *c = linked_get(&third);
	server_send_later(b);
	server_send_later(a);
	server_send_later(b); /* once */
	server_send_later(c);
	assert_true(server_sends_later(a) && server_sends_later(b) && server_sends_later(c));
	assert_string_equal(linked_heard(&l), "");
	server_connection_close(c); /* cut before its turn */
	server_send_all(l.stage->worker);
	assert_string_equal(linked_heard(&l), "send ");
	assert_string_equal(second.trace, "send ");
	assert_string_equal(third.trace, "");
	assert_false(server_sends_later(a));
	server_send_all(l.stage->worker);
	assert_string_equal(linked_heard(&l), "");
	server_send_later(a); /* the list is whole again */
	server_send_all(l.stage->worker);
	assert_string_equal(linked_heard(&l), "send ");
	server_connection_close(a);
	server_connection_close(b);
	linked_end(&l);
}

/* ---- what its protocol does ------------------------------------------------------------------ */

/* What the protocol was last asked for, with what, and what it answers. */
static struct {
	const char *call;
	const struct server_connection *connection;
	const void *argument;
	enum server_head head;
	bool yes;
} asked;

static void ask(const char *call, const struct server_connection *connection, const void *argument)
{
	asked.call = call;
	asked.connection = connection;
	asked.argument = argument;
}

static struct body_sink sink;
static struct body_source source;

static struct body_sink *open_request(
	struct server_connection *connection, struct http_head *response)
{
	ask("open_request", connection, response);
	return &sink;
}

static void stop_request(struct server_connection *connection)
{
	ask("stop_request", connection, NULL);
}

static bool write_request(struct server_connection *connection, struct exchange *exchange)
{
	ask("write_request", connection, exchange);
	return asked.yes;
}

static void spoil_request(struct server_connection *connection)
{
	ask("spoil_request", connection, NULL);
}

static uint64_t bytes_taken(const struct server_connection *connection)
{
	ask("bytes_taken", connection, NULL);
	return 7;
}

static void expect_head(struct server_connection *connection, struct http_head *response)
{
	ask("expect_head", connection, response);
}

static enum server_head read_head(struct server_connection *connection)
{
	ask("read_head", connection, NULL);
	return asked.head;
}

static bool frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing)
{
	(void)method;
	ask("frame_response", connection, response);
	framing->length = 3;
	return asked.yes;
}

static bool has_bytes(const struct server_connection *connection)
{
	ask("has_bytes", connection, NULL);
	return asked.yes;
}

static struct body_source *open_response(
	struct server_connection *connection, const struct http_framing *framing)
{
	ask("open_response", connection, framing);
	return &source;
}

static uint64_t bytes_sent(const struct server_connection *connection)
{
	ask("bytes_sent", connection, NULL);
	return 9;
}

static void read_again(struct server_connection *connection)
{
	ask("read_again", connection, NULL);
}

static void read_next_turn(struct server_connection *connection)
{
	ask("read_next_turn", connection, NULL);
}

static void expect_input(struct server_connection *connection)
{
	ask("expect_input", connection, NULL);
}

static bool finish(struct server_connection *connection, struct buffer *kept)
{
	ask("finish", connection, kept);
	return asked.yes;
}

static const struct server_calls noted = {
	.open_request = open_request,
	.write_request = write_request,
	.stop_request = stop_request,
	.spoil_request = spoil_request,
	.bytes_taken = bytes_taken,
	.expect_head = expect_head,
	.read_head = read_head,
	.has_bytes = has_bytes,
	.open_response = open_response,
	.bytes_sent = bytes_sent,
	.read_again = read_again,
	.read_next_turn = read_next_turn,
	.expect_input = expect_input,
	.frame_response = frame_response,
	.finish = finish,
};

static void assert_asked(
	const struct server_connection *connection, const char *call, const void *argument)
{
	assert_string_equal(asked.call, call);
	assert_ptr_equal(asked.connection, connection);
	assert_ptr_equal(asked.argument, argument);
	asked.call = "nothing";
}

static void each_operation_is_its_protocols(void **state)
{
	struct server_connection connection = {.calls = &noted};
	struct exchange *exchange = (struct exchange *)(void *)&asked;
	struct http_head response;
	struct buffer kept;
	struct http_framing framing;

	(void)state;
	assert_ptr_equal(server_open_request(&connection, &response), &sink);
	assert_asked(&connection, "open_request", &response);
	server_stop_request(&connection);
	assert_asked(&connection, "stop_request", NULL);
	server_spoil_request(&connection);
	assert_asked(&connection, "spoil_request", NULL);
	assert_int_equal(server_bytes_taken(&connection), 7);
	assert_asked(&connection, "bytes_taken", NULL);
	server_expect_head(&connection, &response);
	assert_asked(&connection, "expect_head", &response);
	assert_ptr_equal(server_open_response(&connection, &framing), &source);
	assert_asked(&connection, "open_response", &framing);
	assert_int_equal(server_bytes_sent(&connection), 9);
	assert_asked(&connection, "bytes_sent", NULL);
	server_read_again(&connection);
	assert_asked(&connection, "read_again", NULL);
	server_read_next_turn(&connection);
	assert_asked(&connection, "read_next_turn", NULL);
	server_expect_input(&connection);
	assert_asked(&connection, "expect_input", NULL);
	for (unsigned yes = 0; yes < 2; yes++) {
		asked.yes = yes;
		assert_int_equal(
			server_frame_response(&connection, &response, HTTP_METHOD_GET, &framing),
			yes);
		assert_asked(&connection, "frame_response", &response);
		assert_int_equal(framing.length, 3);
		assert_int_equal(server_has_bytes(&connection), yes);
		assert_asked(&connection, "has_bytes", NULL);
		assert_int_equal(server_write_request(&connection, exchange), yes);
		assert_asked(&connection, "write_request", exchange);
		assert_int_equal(server_finish(&connection, &kept), yes);
		assert_asked(&connection, "finish", &kept);
	}
}

/* While one is, what comes is fetched at the round's beginning. */
static void when_a_head_is_awaited(void **state)
{
	static const enum server_head other[] = {SERVER_HEAD_NONE, SERVER_HEAD_BAD,
		SERVER_HEAD_ENDED, SERVER_HEAD_CUT, SERVER_HEAD_NO_MEMORY};
	struct server_connection connection = {.calls = &noted};
	struct http_head response;

	(void)state;
	server_open_request(&connection, NULL);
	assert_false(connection.awaits_head);
	server_open_request(&connection, &response);
	assert_true(connection.awaits_head);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		asked.head = other[i];
		assert_int_equal(server_read_head(&connection), other[i]);
		assert_asked(&connection, "read_head", NULL);
		assert_true(connection.awaits_head);
	}
	asked.head = SERVER_HEAD_READ;
	assert_int_equal(server_read_head(&connection), SERVER_HEAD_READ);
	assert_false(connection.awaits_head);
	server_expect_head(&connection, &response); /* behind an interim response */
	assert_true(connection.awaits_head);
	server_open_request(&connection, NULL); /* a body that is sent again, say */
	assert_false(connection.awaits_head);
}

UNIT_SUITE(test_server)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_awaited_until_it_makes_progress),
		cmocka_unit_test(requests_of_a_round_are_sent_in_their_order),
		cmocka_unit_test(each_operation_is_its_protocols),
		cmocka_unit_test(when_a_head_is_awaited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
