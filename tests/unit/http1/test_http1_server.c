/* A connection to a server that speaks HTTP/1: where bodies come from and go to, heads, its end. */
#include "http1/http1_server.h"

#include "http1/http1_sink.h"
#include "http1/http1_source.h"
#include "tests/unit/random.h"
#include "tests/unit/upstream/linked.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};

/* What has come and was not taken. */
static struct buffer *input_of(struct server_connection *connection)
{
	const struct http_framing none = {0};

	return ((struct http1_source *)http1_server_calls.open_response(connection, &none))->in;
}

/* What is to be sent. */
static struct flow *output_of(struct server_connection *connection)
{
	return http1_sink_of(http1_server_calls.open_request(connection, NULL))->flow;
}

static void there_are_all_operations(void **state)
{
	const void *const *each = (const void *const *)&http1_server_calls.open_request;
	size_t before = offsetof(struct server_calls, open_request);

	(void)state;
	for (size_t i = 0; i < (sizeof(http1_server_calls) - before) / sizeof(void *); i++)
		assert_non_null(each[i]);
	assert_true(http1_server_calls.bytes > sizeof(struct server_connection));
}

static void where_bodies_begin_and_end(void **state)
{
	const struct http_framing framing = {.body = HTTP_BODY_LENGTH, .length = 5};
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	struct http1_sink *sink = http1_sink_of(server_open_request(connection, NULL));
	assert_ptr_equal(sink->stream, &connection->stream);
	assert_true(body_sink_is_empty(&sink->sink));
	struct http1_source *source =
		(struct http1_source *)server_open_response(connection, &framing);
	assert_ptr_equal(source->stream, &connection->stream);
	assert_int_equal(source->source.left, 5);
	assert_null(source->in->at);
	assert_non_null(source->parser);
	connection->stream.sent = 7;
	connection->stream.received = 9;
	assert_int_equal(server_bytes_taken(connection), 7);
	assert_int_equal(server_bytes_sent(connection), 9);
	connection->stream.sent = connection->stream.received = 0;
	server_connection_close(connection);
	linked_end(&l);
}

/* A request's body leaves as it came: in chunks, or as it is. */
static void how_a_requests_body_leaves(void **state)
{
	static const struct {
		enum http_body body;
		bool chunked;
	} rows[] = {{HTTP_BODY_NONE, false}, {HTTP_BODY_LENGTH, false}, {HTTP_BODY_CHUNKED, true},
		{HTTP_BODY_UNTIL_CLOSE, false}};
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	stage_server_got(stage, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		x->framing.body = rows[i].body;
		struct http1_sink *sink = http1_sink_of(server_open_request(x->connection, NULL));
		assert_true(server_write_request(x->connection, x));
		assert_int_equal(sink->chunked, rows[i].chunked);
		flow_clear(sink->flow, &stage->worker->blocks);
	}
	x->framing.body = HTTP_BODY_NONE;
	stage_end(stage);
}

/* An exchange's head is composed behind nothing, and leaves with what its pump adds. */
static void a_requests_head_is_written(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, POST);
	struct flow *out = output_of(x->connection);

	(void)state;
	stage_server_got(stage, 0);
	assert_true(flow_is_empty(out));
	assert_true(server_write_request(x->connection, x));
	assert_memory_equal(buffer_head(&out->prefix), "POST / HTTP/1.1\r\n", 17);
	assert_memory_equal(
		buffer_head(&out->prefix) + buffer_used(&out->prefix) - 4, "\r\n\r\n", 4);
	flow_clear(out, &stage->worker->blocks);
	stage_end(stage);
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
		else if (rows[i].ends) /* the end is reported each time */
			assert_int_equal(server_read_head(connection), head);
		server_connection_close(connection);
		linked_end(&l);
	}
}

/* The short read of an interim response may hide the end that came together with it, and nothing
 * tells of that again. */
static void the_end_behind_an_interim_response_is_read(void **state)
{
	static const struct {
		const char *interim;
		bool is_whole; /* and the next head has not begun */
	} rows[] = {{"HTTP/1.1 100 Continue\r\n\r\n", true},
		{"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\n", true},
		{"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 103 Ear", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_head response;
		struct linked l;
		linked_begin(&l, &plain);
		struct server_connection *connection = linked_get(&l);
		server_expect_head(connection, &response);
		assert_int_equal(head_of(&l, connection, rows[i].interim, false), SERVER_HEAD_READ);
		memory_peer_end_output(l.stage->servers[l.stage->server_count - 1].wire);
		connection->stream.readable = false; /* as a socket that was read short */
		connection->stream.unsure = true;
		server_expect_head(connection, &response);
		assert_int_equal(server_read_head(connection),
			rows[i].is_whole ? SERVER_HEAD_ENDED : SERVER_HEAD_CUT);
		server_connection_close(connection);
		linked_end(&l);
	}
}

static void what_is_behind_a_head_stays(void **state)
{
	struct http_head response;
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	assert_false(server_has_bytes(connection));
	server_expect_head(connection, &response);
	assert_int_equal(head_of(&l, connection,
				 "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody", false),
		SERVER_HEAD_READ);
	assert_int_equal(response.status, 103);
	assert_true(server_has_bytes(connection));
	server_expect_head(connection, &response);
	assert_int_equal(server_read_head(connection), SERVER_HEAD_READ);
	assert_int_equal(response.status, 200);
	assert_int_equal(buffer_used(input_of(connection)), 4);
	assert_memory_equal(buffer_head(input_of(connection)), "body", 4);
	input_of(connection)->start += 4;
	assert_false(server_has_bytes(connection));
	server_connection_close(connection);
	linked_end(&l);
}

/* ---- its end --------------------------------------------------------------------------------- */

/* Its response was read, and these bytes behind it. */
static struct server_connection *with_rest(struct linked *l, const char *rest)
{
	struct http_head response;
	char bytes[128];

	snprintf(bytes, sizeof(bytes), "HTTP/1.1 204 No\r\n\r\n%s", rest);
	struct server_connection *connection = linked_get(l);
	server_expect_head(connection, &response);
	assert_int_equal(head_of(l, connection, bytes, false), SERVER_HEAD_READ);
	return connection;
}

static void one_that_ends_clean_gives_its_block_back(void **state)
{
	struct linked l;
	struct buffer kept = {0};

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = with_rest(&l, "");
	const char *block = input_of(connection)->at;
	assert_non_null(block);
	assert_true(server_finish(connection, &kept)); /* from which something is borrowed */
	assert_ptr_equal(kept.at, block);
	assert_null(input_of(connection)->at);
	*input_of(connection) = kept;
	assert_true(server_finish(connection, NULL));
	assert_null(input_of(connection)->at);
	kept = (struct buffer){0};
	assert_true(server_finish(connection, &kept)); /* there is none */
	assert_null(kept.at);
	server_connection_close(connection);
	linked_end(&l);
}

static void what_is_left_is_not_clean(void **state)
{
	struct linked l;
	struct buffer kept = {0};

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = with_rest(&l, "more");
	assert_false(server_finish(connection, &kept));
	assert_memory_equal(buffer_head(&kept), "more", 4);
	*input_of(connection) = kept;
	assert_false(server_finish(connection, NULL));
	assert_true(server_finish(connection, NULL)); /* the bytes are gone */
	flow_append(output_of(connection), &l.stage->worker->blocks, SLICE("unsent"));
	assert_false(server_finish(connection, NULL));
	flow_clear(output_of(connection), &l.stage->worker->blocks);
	assert_true(server_finish(connection, NULL));
	server_connection_close(connection);
	linked_end(&l);
}

/* Each block is with the worker again. */
static void one_that_is_cut_gives_everything_back(void **state)
{
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = with_rest(&l, "more");
	flow_append(output_of(connection), &l.stage->worker->blocks, SLICE("unsent"));
	size_t spare = l.stage->worker->blocks.free_count;
	server_connection_close(connection);
	assert_int_equal(l.stage->worker->blocks.free_count, spare + 2);
	linked_end(&l);
}

/* ---- heads of every kind --------------------------------------------------------------------- */

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
	assert_int_equal(buffer_used(input_of(connection)), 4);
	assert_memory_equal(buffer_head(input_of(connection)), "body", 4);
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
		assert_int_equal(server_finish(connection, NULL), rows[i].is_clean);
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
	http1_server_calls.fetch(connection);
	assert_true(server_has_bytes(connection));
	assert_int_equal(server_bytes_sent(connection), 4);
	memory_peer_send(l.stage->servers[0].wire, "/1.1", 4);
	http1_server_calls.fetch(connection);
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
	struct http_head response;
	struct linked l;

	(void)state;
	linked_begin(&l, &plain);
	struct server_connection *connection = linked_get(&l);
	server_expect_head(connection, &response);
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
	assert_true(connection->stream.yielded);
	server_connection_close(connection);
	connection = linked_get(&l);
	server_read_next_turn(connection);
	assert_true(connection->stream.yielded);
	server_connection_close(connection);
	linked_end(&l);
}

UNIT_SUITE(test_http1_server)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_are_all_operations),
		cmocka_unit_test(where_bodies_begin_and_end),
		cmocka_unit_test(how_a_requests_body_leaves),
		cmocka_unit_test(a_requests_head_is_written),
		cmocka_unit_test(each_result_of_reading_a_head),
		cmocka_unit_test(the_end_behind_an_interim_response_is_read),
		cmocka_unit_test(what_is_behind_a_head_stays),
		cmocka_unit_test(one_that_ends_clean_gives_its_block_back),
		cmocka_unit_test(what_is_left_is_not_clean),
		cmocka_unit_test(one_that_is_cut_gives_everything_back),
		cmocka_unit_test(what_is_behind_a_cleaned_head_stays),
		cmocka_unit_test(after_a_doubtful_head_it_is_not_clean),
		cmocka_unit_test(heads_that_are_longer_than_a_block),
		cmocka_unit_test(what_has_come_is_fetched_once),
		cmocka_unit_test(heads_in_pieces),
		cmocka_unit_test(it_is_read_once_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
