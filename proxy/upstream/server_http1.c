#include "upstream/server_http1.h"

#include <string.h>

#include "body/pump.h"
#include "http/lenient.h"
#include "http/out.h"
#include "upstream/server_inside.h"

/* ---- time ------------------------------------------------------------------------------------ */

void server_await(struct server_connection *connection, enum wait_reason reason, uint64_t progress,
	uint64_t timeout_ms)
{
	uint64_t now_ms = worker_now_ms(connection->worker);

	wait_for(&connection->wait, reason, progress, now_ms + timeout_ms, now_ms);
}

void server_await_nothing(struct server_connection *connection)
{
	wait_none(&connection->wait);
}

enum wait_reason server_awaited(const struct server_connection *connection)
{
	return connection->wait.reason;
}

/* ---- the request ----------------------------------------------------------------------------- */

void server_open_request(struct server_connection *connection, struct pump *up)
{
	up->sink = &connection->stream;
	up->flow = &connection->out;
}

void server_send_later(struct server_connection *connection)
{
	struct worker *worker = connection->worker;

	if (connection->unsent)
		return;
	connection->unsent = true;
	connection->next_unsent = NULL;
	*worker->unsent_end = connection;
	worker->unsent_end = &connection->next_unsent;
}

bool server_sends_later(const struct server_connection *connection)
{
	return connection->unsent;
}

void server_send_all(struct worker *worker)
{
	while (worker->unsent) {
		struct server_connection *connection = worker->unsent;
		worker->unsent = connection->next_unsent;
		if (!worker->unsent)
			worker->unsent_end = &worker->unsent;
		connection->unsent = false;
		/* Else it was cut meanwhile. */
		if (connection->state == SERVER_CONNECTION_BUSY)
			connection->events->send_request(connection->exchange);
	}
}

uint64_t server_bytes_taken(const struct server_connection *connection)
{
	return connection->stream.sent;
}

/* ---- the response's head --------------------------------------------------------------------- */

void server_expect_head(struct server_connection *connection, struct http_head *response)
{
	static const struct http_parser_limits limits = {256 * 1024, 0, 512};

	http_parser_begin_response(&connection->parser, response, &limits);
}

void server_fetch(struct server_connection *connection)
{
	if (!connection->in.at)
		stream_fetch(&connection->stream, &connection->in, &connection->worker->blocks);
}

bool server_has_bytes(const struct server_connection *connection)
{
	return connection->in.at && buffer_used(&connection->in) > 0;
}

/* Room for more of the head. */
static bool make_room(struct server_connection *connection)
{
	struct buffer *in = &connection->in;
	struct buffer_pool *pool = &connection->worker->blocks;

	if (!in->at && !buffer_acquire(in, pool))
		return false;
	if (buffer_used(in) == 0)
		in->start = in->end = 0;
	/* What is there of a head moves to the front, or gets a block of twice the size. */
	return buffer_room(in) > 0 ||
	       buffer_reserve(in, pool, in->start > 0 ? in->capacity : in->capacity * 2ul);
}

/* One more read. READ: some bytes. */
static enum server_head read_more(struct server_connection *connection)
{
	struct stream *stream = &connection->stream;
	struct buffer *in = &connection->in;
	bool within_head = server_has_bytes(connection);

	if (!(within_head ? stream_may_have_more(stream) : stream->readable) && !stream->read_ended)
		return SERVER_HEAD_NONE;
	if (!make_room(connection))
		return SERVER_HEAD_NO_MEMORY;
	switch (stream_read(stream, in)) {
	case STREAM_OK:
		return SERVER_HEAD_READ;
	case STREAM_AGAIN:
		if (buffer_used(in) == 0)
			buffer_release(in, &connection->worker->blocks);
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

/* Of an upstream with `lenient`: made clean in the buffer, in front of the parser. Is what has come
 * of the head ready for that? Only a whole head is, or what can be none. */
static bool make_clean(struct server_connection *connection)
{
	struct http_parser *parser = &connection->parser;
	struct worker *worker = connection->worker;
	struct buffer *in = &connection->in;
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
		(unsigned)connection->server->upstream->conf->lenient, &out);
	if (found != 0 && replace(in, &worker->blocks, len, scratch, (size_t)(out.at - scratch)))
		connection->is_doubtful |= (found & HTTP_LENIENT_DOUBTFUL) != 0;
	return true;
}

enum server_head server_read_head(struct server_connection *connection)
{
	struct http_parser *parser = &connection->parser;
	struct buffer *in = &connection->in;

	for (;;) {
		if (!server_has_bytes(connection) || buffer_used(in) <= parser->fed) {
			enum server_head more = read_more(connection);
			if (more != SERVER_HEAD_READ)
				return more;
		}
		if (connection->server->upstream->conf->lenient && !make_clean(connection))
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

/* ---- the response's body --------------------------------------------------------------------- */

void server_open_response(struct server_connection *connection, struct pump *down)
{
	down->source = &connection->stream;
	down->in = &connection->in;
	down->parser = &connection->parser;
}

uint64_t server_bytes_sent(const struct server_connection *connection)
{
	return connection->stream.received;
}

void server_read_again(struct server_connection *connection)
{
	stream_read_again(&connection->stream);
}

void server_read_next_turn(struct server_connection *connection)
{
	stream_yield(&connection->stream);
}

void server_expect_input(struct server_connection *connection)
{
	stream_expect_input(&connection->stream);
}

/* ---- its end --------------------------------------------------------------------------------- */

bool server_is_clean(const struct server_connection *connection)
{
	return !connection->is_doubtful && flow_is_empty(&connection->out) &&
	       buffer_used(&connection->in) == 0;
}

void server_give_block(struct server_connection *connection, struct buffer *kept)
{
	if (!connection->in.at)
		return;
	*kept = connection->in;
	connection->in = (struct buffer){0};
}
