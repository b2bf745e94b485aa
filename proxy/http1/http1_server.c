#include "http1/http1_server.h"

#include <string.h>

#include "base/container.h"
#include "exchange/exchange.h"
#include "http/lenient.h"
#include "http/out.h"
#include "http1/compose.h"
#include "http1/http1_sink.h"
#include "http1/http1_source.h"
#include "upstream/server_inside.h"

struct http1_server {
	struct server_connection connection;
	struct buffer in;
	struct flow out;
	struct http_parser parser;
	struct http1_source source;
	struct http1_sink sink;
	bool reads_on;    /* the head read last was an interim one: another is to follow */
	bool is_doubtful; /* a head had to be guessed at (http/lenient.h): not to be used again */
};

_Static_assert(offsetof(struct http1_server, connection) == 0, "it begins with what each has");

static struct http1_server *server_of(struct server_connection *connection)
{
	return CONTAINER_OF(connection, struct http1_server, connection);
}

static const struct http1_server *as_server(const struct server_connection *connection)
{
	return (const struct http1_server *)connection;
}

/* ---- the request ----------------------------------------------------------------------------- */

static void begin_head(struct server_connection *connection, struct http_head *response)
{
	static const struct http_parser_limits limits = {256 * 1024, 0, 512};

	http_parser_begin_response(&server_of(connection)->parser, response, &limits);
}

/* The next one: that before was an interim response. */
static void expect_head(struct server_connection *connection, struct http_head *response)
{
	server_of(connection)->reads_on = true;
	begin_head(connection, response);
}

static struct body_sink *open_request(
	struct server_connection *connection, struct http_head *response)
{
	struct http1_server *server = server_of(connection);

	if (!server->sink.stream)
		http1_sink_init(&server->sink, &connection->stream, &server->out,
			&connection->worker->blocks);
	server->reads_on = false;
	if (response)
		begin_head(connection, response);
	return &server->sink.sink;
}

static bool write_request(struct server_connection *connection, struct exchange *exchange)
{
	struct http1_server *server = server_of(connection);

	server->sink.chunked = exchange->framing.body == HTTP_BODY_CHUNKED;
	return compose_request(exchange, &server->out);
}

static void stop_request(struct server_connection *connection)
{
	flow_clear(&server_of(connection)->out, &connection->worker->blocks);
	stream_end_output(&connection->stream);
}

static void spoil_request(struct server_connection *connection)
{
	stream_reset_at_close(&connection->stream);
}

static uint64_t bytes_taken(const struct server_connection *connection)
{
	return connection->stream.sent;
}

/* ---- the response's head --------------------------------------------------------------------- */

static inline bool has_input(const struct http1_server *server)
{
	return server->in.at && buffer_used(&server->in) > 0;
}

static bool has_bytes(const struct server_connection *connection)
{
	return has_input(as_server(connection));
}

static void fetch(struct server_connection *connection)
{
	struct http1_server *server = server_of(connection);

	if (!server->in.at)
		stream_fetch(&connection->stream, &server->in, &connection->worker->blocks);
}

/* Room for more of the head. */
static bool make_room(struct http1_server *server)
{
	struct buffer *in = &server->in;
	struct buffer_pool *pool = &server->connection.worker->blocks;

	if (!in->at && !buffer_acquire(in, pool))
		return false;
	if (buffer_used(in) == 0)
		in->start = in->end = 0;
	/* The part of a head that is here moves to the front, or gets a block of twice the size. */
	return buffer_room(in) > 0 ||
	       buffer_reserve(in, pool, in->start > 0 ? in->capacity : in->capacity * 2ul);
}

/* One more read. READ: some bytes. */
static enum server_head read_more(struct http1_server *server)
{
	struct stream *stream = &server->connection.stream;
	struct buffer *in = &server->in;
	bool lacks_rest = server->reads_on || has_input(server);

	if (!(lacks_rest ? stream_may_have_more(stream) : stream->readable) && !stream->read_ended)
		return SERVER_HEAD_NONE;
	if (!make_room(server))
		return SERVER_HEAD_NO_MEMORY;
	switch (stream_read(stream, in)) {
	case STREAM_OK:
		return SERVER_HEAD_READ;
	case STREAM_AGAIN:
		if (buffer_used(in) == 0)
			buffer_release(in, &server->connection.worker->blocks);
		return SERVER_HEAD_NONE;
	case STREAM_END:
	case STREAM_FAILED:
		break;
	}
	return buffer_used(in) > 0 ? SERVER_HEAD_CUT : SERVER_HEAD_ENDED;
}

/* Puts the clean head in place of the `len` bytes that it was. False without memory. */
static bool replace(struct buffer *in, struct buffer_pool *pool, size_t len, const char *clean,
	size_t clean_len)
{
	size_t used = buffer_used(in), rest = used - len, wanted = clean_len + rest;

	if (!buffer_reserve(in, pool, wanted > used ? wanted : used))
		return false;
	memmove(buffer_head(in) + clean_len, buffer_head(in) + len, rest);
	memcpy(buffer_head(in), clean, clean_len);
	in->end = in->start + (uint32_t)wanted;
	return true;
}

/* For an upstream with `lenient`: cleans a head in the buffer, in front of the parser. False: the
 * head is not whole yet, and still may become one. */
static bool make_clean(struct http1_server *server)
{
	struct http_parser *parser = &server->parser;
	struct worker *worker = server->connection.worker;
	struct buffer *in = &server->in;
	char *scratch = worker->path_scratch;
	size_t room = sizeof(worker->path_scratch);

	if (parser->is_begun)
		return true;
	size_t used = buffer_used(in);
	size_t len = http_lenient_end(buffer_head(in), used, parser->fed);
	/* Cleaning adds a byte a line at most. */
	if (len == 0 && used < room / 2) {
		parser->fed = (uint32_t)used;
		return false;
	}
	parser->fed = 0;
	if (len == 0)
		return true;
	struct http_out out = http_out_over(scratch, room);
	unsigned found = http_lenient_clean((struct slice){buffer_head(in), len},
		(unsigned)server->connection.server->upstream->conf->lenient, &out);
	if (found != 0 && replace(in, &worker->blocks, len, scratch, (size_t)(out.at - scratch)))
		server->is_doubtful |= (found & HTTP_LENIENT_DOUBTFUL) != 0;
	return true;
}

static enum server_head read_head(struct server_connection *connection)
{
	struct http1_server *server = server_of(connection);
	struct http_parser *parser = &server->parser;
	struct buffer *in = &server->in;

	for (;;) {
		if (!has_input(server) || buffer_used(in) <= parser->fed) {
			enum server_head more = read_more(server);
			if (more != SERVER_HEAD_READ)
				return more;
		}
		if (connection->server->upstream->conf->lenient && !make_clean(server))
			continue;
		switch (http_parser_head(parser, buffer_head(in), buffer_used(in))) {
		case HTTP_PARSE_MORE:
			break;
		case HTTP_PARSE_BAD:
			return SERVER_HEAD_BAD;
		case HTTP_PARSE_DONE:
			in->start += parser->head->len;
			return SERVER_HEAD_READ;
		}
	}
}

static bool frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing)
{
	(void)connection;
	return http_frame_response(response, method, framing);
}

/* ---- the response's body --------------------------------------------------------------------- */

static struct body_source *open_response(
	struct server_connection *connection, const struct http_framing *framing)
{
	struct http1_server *server = server_of(connection);
	uint64_t lenient = connection->server->upstream->conf->lenient;

	server->parser.chunked.forgiven =
		(lenient & HTTP_LENIENT_CHUNK_BLANKS ? HTTP_CHUNKED_BLANKS : 0) |
		(lenient & HTTP_LENIENT_CHUNK_LF ? HTTP_CHUNKED_LF : 0);
	if (!server->source.stream)
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

/* ---- its end --------------------------------------------------------------------------------- */

static bool finish(struct server_connection *connection, struct buffer *kept)
{
	struct http1_server *server = server_of(connection);
	bool is_clean = !server->is_doubtful && !server->parser.chunked.found &&
			flow_is_empty(&server->out) && !has_input(server);

	if (kept && server->in.at) {
		*kept = server->in;
		server->in = (struct buffer){0};
	} else {
		buffer_release(&server->in, &connection->worker->blocks);
	}
	return is_clean;
}

static void end(struct server_connection *connection)
{
	struct http1_server *server = server_of(connection);
	struct buffer_pool *blocks = &connection->worker->blocks;

	flow_clear(&server->out, blocks);
	buffer_release(&server->in, blocks);
	http_parser_end(&server->parser);
}

const struct server_calls http1_server_calls = {
	.bytes = sizeof(struct http1_server),
	.open_request = open_request,
	.write_request = write_request,
	.stop_request = stop_request,
	.spoil_request = spoil_request,
	.bytes_taken = bytes_taken,
	.expect_head = expect_head,
	.fetch = fetch,
	.read_head = read_head,
	.frame_response = frame_response,
	.has_bytes = has_bytes,
	.open_response = open_response,
	.bytes_sent = bytes_sent,
	.read_again = read_again,
	.read_next_turn = read_next_turn,
	.expect_input = expect_input,
	.finish = finish,
	.end = end,
};
