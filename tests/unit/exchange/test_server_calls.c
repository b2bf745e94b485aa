/*
 * Servers that speak another protocol than HTTP/1, by a table of operations of their own. Theirs
 * has no heads: a request is "get /path", a response its status, length and content, "200 5 hello".
 */
#include "upstream/server.h"

#include "base/container.h"
#include "fakes/flight.h"
#include "http1/http1_sink.h"
#include "http1/http1_source.h"
#include "tests/unit/suite.h"

struct line_server {
	struct server_connection connection;
	struct buffer in;
	struct flow out;
	struct http_parser parser;
	struct http1_source source;
	struct http1_sink sink;
	char head[128];
};

/* Responses that were read, and connections that ended. */
static unsigned finished, ended;

static struct line_server *self(const struct server_connection *connection)
{
	union {
		const struct server_connection *from;
		struct line_server *to;
	} same = {.from = connection};

	return same.to;
}

static void expect_head(struct server_connection *connection, struct http_head *response)
{
	static const struct http_parser_limits limits = {1024, 0, 10};

	http_parser_begin_response(&self(connection)->parser, response, &limits);
}

static struct body_sink *open_request(
	struct server_connection *connection, struct http_head *response)
{
	struct line_server *server = self(connection);

	http1_sink_init(
		&server->sink, &connection->stream, &server->out, &connection->worker->blocks);
	expect_head(connection, response);
	return &server->sink.sink;
}

static bool write_request(struct server_connection *connection, struct exchange *x)
{
	struct flow *out = &self(connection)->out;
	struct buffer_pool *blocks = &connection->worker->blocks;

	return flow_append(out, blocks, SLICE("get ")) && flow_append(out, blocks, x->facts.path);
}

static uint64_t bytes_taken(const struct server_connection *connection)
{
	return connection->stream.sent;
}

static bool has_bytes(const struct server_connection *connection)
{
	return self(connection)->in.at && buffer_used(&self(connection)->in) > 0;
}

static void fetch(struct server_connection *connection)
{
	if (!self(connection)->in.at)
		stream_fetch(
			&connection->stream, &self(connection)->in, &connection->worker->blocks);
}

/* The line becomes a head. */
static enum server_head read_head(struct server_connection *connection)
{
	struct line_server *server = self(connection);
	struct buffer *in = &server->in;
	unsigned status, length;
	int taken;

	fetch(connection);
	if (!has_bytes(connection))
		return connection->stream.read_ended ? SERVER_HEAD_ENDED : SERVER_HEAD_NONE;
	in->at[in->end] = '\0';
	if (sscanf(buffer_head(in), "%u %u%n", &status, &length, &taken) != 2)
		return SERVER_HEAD_BAD;
	in->start += (uint32_t)taken + 1;
	int len = snprintf(server->head, sizeof(server->head),
		"HTTP/1.1 %u x\r\nContent-Length: %u\r\n\r\n", status, length);
	assert_int_equal(
		http_parser_head(&server->parser, server->head, (size_t)len), HTTP_PARSE_DONE);
	return SERVER_HEAD_READ;
}

static struct body_source *open_response(
	struct server_connection *connection, const struct http_framing *framing)
{
	struct line_server *server = self(connection);

	http1_source_init(&server->source, &connection->stream, &server->in,
		&connection->worker->blocks, &server->parser);
	return http1_source_open(&server->source, framing);
}

static uint64_t bytes_sent(const struct server_connection *connection)
{
	return connection->stream.received;
}

static void read_again(struct server_connection *connection)
{
	stream_read_again(&connection->stream);
}

static void read_next_turn(struct server_connection *connection)
{
	stream_yield(&connection->stream);
}

static void expect_input(struct server_connection *connection)
{
	stream_expect_input(&connection->stream);
}

static bool frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing)
{
	(void)connection;
	return http_frame_response(response, method, framing);
}

static void cut_request(struct server_connection *connection)
{
	(void)connection;
}

static bool finish(struct server_connection *connection, struct buffer *kept)
{
	bool is_clean = !has_bytes(connection) && flow_is_empty(&self(connection)->out);

	finished++;
	if (kept) {
		*kept = self(connection)->in;
		self(connection)->in = (struct buffer){0};
	} else {
		buffer_release(&self(connection)->in, &connection->worker->blocks);
	}
	return is_clean;
}

static void end(struct server_connection *connection)
{
	ended++;
	flow_clear(&self(connection)->out, &connection->worker->blocks);
	buffer_release(&self(connection)->in, &connection->worker->blocks);
	http_parser_end(&self(connection)->parser);
}

static const struct server_calls lines_of_text = {
	.bytes = sizeof(struct line_server),
	.open_request = open_request,
	.write_request = write_request,
	.stop_request = cut_request,
	.spoil_request = cut_request,
	.bytes_taken = bytes_taken,
	.expect_head = expect_head,
	.fetch = fetch,
	.read_head = read_head,
	.has_bytes = has_bytes,
	.open_response = open_response,
	.bytes_sent = bytes_sent,
	.read_again = read_again,
	.read_next_turn = read_next_turn,
	.expect_input = expect_input,
	.frame_response = frame_response,
	.finish = finish,
	.end = end,
};

static struct stage *begin(void)
{
	static const struct stage_conf plain = {0};
	struct stage *stage = stage_begin(&plain);

	finished = ended = 0;
	upstream_part(stage->worker)->calls = &lines_of_text;
	return stage;
}

static void a_response_comes_and_the_connection_serves_again(void **state)
{
	struct stage *stage = begin();

	(void)state;
	for (unsigned n = 1; n <= 2; n++) {
		struct exchange *x = flight_begin(stage, GET);
		assert_string_equal(stage_server_got(stage, 0), "get /");
		flight_answer(stage, x, "200 5 hello");
		const char *got = stage_client_got(stage);
		assert_has(got, "HTTP/1.1 200 x\r\n");
		assert_has(got, "Content-Length: 5\r\n");
		assert_has(got, "\r\n\r\nhello");
		assert_int_equal(finished, n);
		assert_int_equal(flight_idle(stage), 1);
	}
	assert_int_equal(stage->server_count, 1);
	stage_end(stage);
	assert_int_equal(ended, 1);
}

static void one_that_is_malformed_is_a_502(void **state)
{
	struct stage *stage = begin();
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_has(stage_client_got(stage), "HTTP/1.1 502 ");
	assert_int_equal(finished, 0);
	assert_int_equal(ended, 1);
	stage_end(stage);
}

static void what_is_behind_a_response_closes_the_connection(void **state)
{
	struct stage *stage = begin();
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, "200 2 ok200 3 bad");
	assert_has(stage_client_got(stage), "\r\n\r\nok");
	assert_int_equal(flight_idle(stage), 0);
	assert_int_equal(ended, 1);
	stage_end(stage);
}

UNIT_SUITE(test_server_calls)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_response_comes_and_the_connection_serves_again),
		cmocka_unit_test(one_that_is_malformed_is_a_502),
		cmocka_unit_test(what_is_behind_a_response_closes_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
