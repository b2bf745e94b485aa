/* A connection to a server as its exchange uses it: deadlines, requests of a round, heads. */
#include "upstream/server_http1.h"

#include "body/pump.h"
#include "linked.h"
#include "tests/unit/random.h"

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

/* ---- the request ----------------------------------------------------------------------------- */

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

static void where_pumps_begin_and_end(void **state)
{
	struct linked l;
	struct pump up = {0}, down = {0};

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	server_open_request(connection, &up);
	assert_ptr_equal(up.sink, &connection->stream);
	assert_ptr_equal(up.flow, &connection->out);
	server_open_response(connection, &down);
	assert_ptr_equal(down.source, &connection->stream);
	assert_ptr_equal(down.in, &connection->in);
	assert_ptr_equal(down.parser, &connection->parser);
	connection->stream.sent = 7;
	connection->stream.received = 9;
	assert_int_equal(server_bytes_taken(connection), 7);
	assert_int_equal(server_bytes_sent(connection), 9);
	connection->stream.sent = connection->stream.received = 0;
	server_connection_close(connection);
	linked_end(&l);
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* These bytes have come, and perhaps the end; its head is read. */
static enum server_head head_of(
	struct linked *l, struct server_connection *connection, const char *bytes, bool ends)
{
	memory_peer_send(l->stage->servers[l->stage->server_count - 1].wire, bytes, strlen(bytes));
	if (ends)
		memory_peer_end_output(l->stage->servers[l->stage->server_count - 1].wire);
	stage_turn(l->stage);
	return server_read_head(connection);
}

static void each_result_of_reading_a_head(void **state)
{
	static const struct {
		const char *upstream, *bytes;
		bool ends;
		enum server_head head;
	} rows[] = {
		{"", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, SERVER_HEAD_READ},
		{"", "HTTP/1.1 200 OK\r\n\r\n", true, SERVER_HEAD_READ},
		{"", "", false, SERVER_HEAD_NONE},
		{"", "HTTP/1.1 20", false, SERVER_HEAD_NONE},
		{"", "", true, SERVER_HEAD_ENDED},
		{"", "HTTP/1.1 20", true, SERVER_HEAD_CUT},
		{"", "HTTP/3 200 OK\r\n\r\n", false, SERVER_HEAD_BAD},
		{"", "HTTP/1.1 200 OK\n\n", false, SERVER_HEAD_BAD},
		{"lenient = bare_lf", "HTTP/1.1 200 OK\nA: b\n\n", false, SERVER_HEAD_READ},
		{"lenient = bare_lf", "HTTP/1.1 200 OK\nA: b\n", false, SERVER_HEAD_NONE},
		{"lenient = bare_lf", "HTTP/1.1 200 OK\nA: b\n", true, SERVER_HEAD_CUT},
		{"lenient = bare_lf", "junk\n\n", false, SERVER_HEAD_BAD},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct stage_conf conf = {.upstream = rows[i].upstream};
		struct http_head response;
		struct linked l;
		linked_begin(&l, &conf);
		struct server_connection *connection = linked_get(&l);
		server_expect_head(connection, &response);
		enum server_head head = head_of(&l, connection, rows[i].bytes, rows[i].ends);
		if (head != rows[i].head)
			fail_msg("\"%s\" gives %d", rows[i].bytes, (int)head);
		if (head == SERVER_HEAD_READ)
			assert_int_equal(response.status, 200);
		else if (rows[i].ends) /* an end is told as often as it is asked for */
			assert_int_equal(server_read_head(connection), head);
		server_connection_close(connection);
		linked_end(&l);
	}
}

static void what_is_behind_a_head_stays(void **state)
{
	struct http_head response;
	struct linked l;
	struct buffer kept = {0};

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	assert_false(server_has_bytes(connection));
	server_give_block(connection, &kept);
	assert_null(kept.at); /* there is none */
	server_expect_head(connection, &response);
	assert_int_equal(head_of(&l, connection,
				 "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody", false),
		SERVER_HEAD_READ);
	assert_int_equal(response.status, 103);
	assert_true(server_has_bytes(connection));
	server_expect_head(connection, &response);
	assert_int_equal(server_read_head(connection), SERVER_HEAD_READ);
	assert_int_equal(response.status, 200);
	assert_memory_equal(buffer_head(&connection->in), "body", 4);
	assert_false(server_is_clean(connection));
	connection->in.start += 4;
	assert_false(server_has_bytes(connection));
	assert_true(server_is_clean(connection));
	flow_append(&connection->out, &l.stage->worker->blocks, SLICE("unsent"));
	assert_false(server_is_clean(connection));
	flow_clear(&connection->out, &l.stage->worker->blocks);
	server_give_block(connection, &kept);
	assert_non_null(kept.at);
	assert_null(connection->in.at);
	buffer_release(&kept, &l.stage->worker->blocks);
	server_connection_close(connection);
	linked_end(&l);
}

static void what_is_behind_a_cleaned_head_stays(void **state)
{
	const struct stage_conf conf = {.upstream = "lenient = bare_lf"};
	struct http_head response;
	struct linked l;

	(void)state;
	linked_begin(&l, &conf);
	struct server_connection *connection = linked_get(&l);
	server_expect_head(connection, &response);
	assert_int_equal(head_of(&l, connection, "HTTP/1.1 200 OK\nA: b\nC: d\n\nbody", false),
		SERVER_HEAD_READ);
	assert_int_equal(response.field_count, 2);
	assert_int_equal(buffer_used(&connection->in), 4);
	assert_memory_equal(buffer_head(&connection->in), "body", 4);
	server_connection_close(connection);
	linked_end(&l);
}

/* A head that had to be guessed at: nothing more is read from there. */
static void after_a_doubtful_head_it_is_not_clean(void **state)
{
	static const struct {
		const char *lenient, *bytes;
		bool is_clean;
	} rows[] = {
		{"bare_lf", "HTTP/1.1 204 No\nA: b\n\n", false},
		{"bare_lf", "HTTP/1.1 204 No\r\nA: b\r\n\r\n", true},
		{"http_1_2", "HTTP/1.2 204 No\r\nA: b\r\n\r\n", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[64];
		const struct stage_conf conf = {.upstream = line};
		struct http_head response;
		struct linked l;
		snprintf(line, sizeof(line), "lenient = %s", rows[i].lenient);
		linked_begin(&l, &conf);
		struct server_connection *connection = linked_get(&l);
		server_expect_head(connection, &response);
		assert_int_equal(head_of(&l, connection, rows[i].bytes, false), SERVER_HEAD_READ);
		assert_int_equal(server_is_clean(connection), rows[i].is_clean);
		server_connection_close(connection);
		linked_end(&l);
	}
}

static void heads_that_are_longer_than_a_block(void **state)
{
	const struct stage_conf conf = {.node = "buffer_size = 4k"};
	struct http_head response;
	struct linked l;
	char *head = NULL;

	(void)state;
	assert_true(asprintf(&head, "HTTP/1.1 200 OK\r\nX-A: %05000d\r\nX-B: %09000d\r\n\r\nrest",
			    1, 2) > 0);
	linked_begin(&l, &conf);
	struct server_connection *connection = linked_get(&l);
	server_expect_head(connection, &response);
	assert_int_equal(head_of(&l, connection, head, false), SERVER_HEAD_READ);
	assert_int_equal(response.field_count, 2);
	assert_int_equal(response.len, strlen(head) - 4);
	free(head);
	server_connection_close(connection);
	linked_end(&l);
}

static void what_has_come_is_fetched_once(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	memory_peer_send(l.stage->servers[0].wire, "HTTP", 4);
	connection->stream.readable = true;
	server_fetch(connection);
	assert_true(server_has_bytes(connection));
	assert_int_equal(server_bytes_sent(connection), 4);
	memory_peer_send(l.stage->servers[0].wire, "/1.1", 4);
	server_fetch(connection);
	assert_int_equal(server_bytes_sent(connection), 4);
	server_connection_close(connection);
	linked_end(&l);
}

/* However its bytes come in pieces, a head is the same. */
static void heads_in_pieces(void **state)
{
	static const char *const heads[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-A: b\r\nDate: x\r\n\r\n",
		"HTTP/1.0 404 Not Found\r\n\r\n",
		"HTTP/1.1 302 \r\nLocation: /a\r\nA:\r\n\r\n",
	};
	struct random random = random_begin("heads");

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		const char *head = heads[random_below(&random, 3)];
		const struct stage_conf conf = {.upstream = round % 2 ? "lenient = bare_lf" : NULL};
		size_t len = strlen(head), sent = 0;
		struct http_head response;
		struct linked l;
		linked_begin(&l, &conf);
		struct server_connection *connection = linked_get(&l);
		server_expect_head(connection, &response);
		while (sent < len) {
			size_t n = 1 + random_below(&random, len - sent);
			memory_peer_send(l.stage->servers[0].wire, head + sent, n);
			stage_turn(l.stage);
			sent += n;
			assert_int_equal(server_read_head(connection),
				sent < len ? SERVER_HEAD_NONE : SERVER_HEAD_READ);
		}
		assert_int_equal(response.len, len);
		assert_int_equal(response.status, strtol(head + 9, NULL, 10));
		assert_int_equal(response.minor, head[7] - '0');
		assert_memory_equal(response.base, head, len);
		server_connection_close(connection);
		linked_end(&l);
	}
}

/* It is served again: now, in the next turn, or whether or not there is anything. */
static void it_is_read_once_more(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	stage_turn(l.stage);
	linked_heard(&l);
	connection->stream.readable = false;
	server_read_again(connection);
	stage_turn(l.stage);
	assert_string_equal(linked_heard(&l), ""); /* nothing is left */
	server_expect_input(connection);
	assert_true(connection->stream.readable);
	stage_turn(l.stage);
	assert_string_equal(linked_heard(&l), "fetch event ");
	connection->stream.readable = true;
	server_read_again(connection);
	assert_non_null(connection->stream.yielded_at);
	server_connection_close(connection);
	connection = linked_get(&l);
	server_read_next_turn(connection);
	assert_non_null(connection->stream.yielded_at);
	server_connection_close(connection);
	linked_end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_awaited_until_it_makes_progress),
		cmocka_unit_test(requests_of_a_round_are_sent_in_their_order),
		cmocka_unit_test(where_pumps_begin_and_end),
		cmocka_unit_test(each_result_of_reading_a_head),
		cmocka_unit_test(what_is_behind_a_head_stays),
		cmocka_unit_test(what_is_behind_a_cleaned_head_stays),
		cmocka_unit_test(after_a_doubtful_head_it_is_not_clean),
		cmocka_unit_test(heads_that_are_longer_than_a_block),
		cmocka_unit_test(what_has_come_is_fetched_once),
		cmocka_unit_test(heads_in_pieces),
		cmocka_unit_test(it_is_read_once_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
