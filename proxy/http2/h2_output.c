#include "http2/h2_output.h"

#include <string.h>

#include "http2/h2_fields.h"

/* Frames that wait behind an output that its client does not read, besides two a stream. */
#define FRAMES_MOST 200
/* A piece of content of less is not begun in what is left of the output's room. */
#define PIECE_LEAST 1024

/* So much of the stream's content was copied. */
static void took(struct h2_stream *stream, size_t bytes)
{
	stream->sink.sent += bytes + H2_FRAME_HEAD;
	h2_sink_took(&stream->sink, bytes);
	if (h2_sink_front(&stream->sink).len == 0)
		h2_run_later(stream);
}

/* DATA that ends the content is about to be composed. */
static bool submit_trailers(struct h2_stream *stream)
{
	struct h2_sink *sink = &stream->sink;
	struct h2_fields fields = {.h2 = stream->connection->h2};

	return h2_fields_read(&fields, sink->trailers, sink->trailers + sink->trailers_len) &&
	       nghttp2_submit_trailer(stream->connection->session, stream->id, fields.h2->fields,
		       fields.count) == 0;
}

static size_t room(const struct h2_connection *c)
{
	return buffer_room(&c->output.block);
}

ssize_t h2_output_read_data(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t len,
	uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct h2_connection *c = user;
	struct h2_stream *stream = source->ptr;
	struct h2_sink *sink = &stream->sink;
	struct slice front = h2_sink_front(sink);
	size_t fits = room(c);

	(void)session;
	(void)id;
	(void)bytes;
	if (sink->spool && spool_is_lost(sink->spool))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (front.len == 0 && !h2_sink_is_last(sink))
		return NGHTTP2_ERR_DEFERRED;
	if (fits >= H2_FRAME_HEAD + PIECE_LEAST && len > fits - H2_FRAME_HEAD)
		len = fits - H2_FRAME_HEAD;
	*flags = NGHTTP2_DATA_FLAG_NO_COPY;
	if (front.len > len || !h2_sink_is_last(sink))
		return (ssize_t)(front.len > len ? len : front.len);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (sink->trailers_len > 0) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (!submit_trailers(stream))
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)front.len;
}

/* A frame fits in an empty output. */
ssize_t h2_output_most_of_frame(nghttp2_session *session, uint8_t type, int32_t id,
	int32_t connection_window, int32_t stream_window, uint32_t frame_most, void *user)
{
	struct h2_connection *c = user;
	int64_t most = (int64_t)c->worker->blocks.block_bytes - H2_FRAME_HEAD;

	(void)session;
	(void)type;
	(void)id;
	if (most > connection_window)
		most = connection_window;
	if (most > stream_window)
		most = stream_window;
	return (ssize_t)(most > frame_most ? frame_most : most);
}

int h2_output_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
	size_t len, nghttp2_data_source *source, void *user)
{
	struct h2_connection *c = user;
	struct h2_stream *stream = source->ptr;
	struct slice front = h2_sink_front(&stream->sink);

	(void)session;
	(void)frame;
	if (front.len < len)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it was dropped meanwhile */
	if (room(c) < H2_FRAME_HEAD + len)
		return NGHTTP2_ERR_WOULDBLOCK;
	memcpy(c->output.block.at + c->output.block.end, head, H2_FRAME_HEAD);
	if (len > 0)
		memcpy(c->output.block.at + c->output.block.end + H2_FRAME_HEAD, front.at, len);
	c->output.block.end += (uint32_t)(H2_FRAME_HEAD + len);
	took(stream, len);
	return 0;
}

/* Takes a frame that is in the session's memory, or a part of it. True: all of it. */
static bool take_held(struct h2_connection *c)
{
	size_t part = c->output.held_bytes < room(c) ? c->output.held_bytes : room(c);

	if (part > 0)
		memcpy(c->output.block.at + c->output.block.end, c->output.held, part);
	c->output.block.end += (uint32_t)part;
	c->output.held += part;
	c->output.held_bytes -= part;
	return c->output.held_bytes == 0;
}

static bool compose(struct h2_connection *c)
{
	ssize_t len;

	if (c->receiving || c->composing || !c->session)
		return true;
	if (!c->output.block.at && c->output.held_bytes == 0 &&
		!nghttp2_session_want_write(c->session))
		return true;
	if (!c->output.block.at && !buffer_acquire(&c->output.block, &c->worker->blocks))
		return false;
	if (c->output.block.start == c->output.block.end)
		c->output.block.start = c->output.block.end = 0;
	c->composing = true;
	do {
		len = 0;
		if (!take_held(c))
			break;
		len = nghttp2_session_mem_send(c->session, &c->output.held);
		c->output.held_bytes = len > 0 ? (size_t)len : 0;
	} while (len > 0);
	c->composing = false;
	return len >= 0;
}

bool h2_output_is_stalled(const struct h2_connection *c)
{
	size_t most = FRAMES_MOST + 2u * c->listener->conf->max_streams;

	return c->output.held_bytes > 0 &&
	       nghttp2_session_get_outbound_queue_size(c->session) > most;
}

void h2_output_reset(struct h2_stream *stream, uint32_t error_code)
{
	struct h2_connection *c = stream->connection;

	if (stream->closed || stream->was_reset || !c->session)
		return;
	stream->was_reset = true;
	nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, stream->id, error_code);
	h2_write_later(c);
}

void h2_output_write(struct h2_connection *c)
{
	while (c->output.block.at && buffer_used(&c->output.block) > 0 && c->stream.writable &&
		!c->stream.failed) {
		struct iovec piece = {buffer_head(&c->output.block), buffer_used(&c->output.block)};
		size_t written = 0;
		enum stream_result result = stream_write(&c->stream, &piece, 1, &written);

		c->output.block.start += (uint32_t)written;
		if (result == STREAM_FAILED || result == STREAM_END) {
			stream_wake(&c->stream); /* which closes it */
			return;
		}
	}
	if (c->output.block.at && buffer_used(&c->output.block) == 0)
		buffer_release(&c->output.block, &c->worker->blocks);
}

void h2_output_send(struct h2_connection *c)
{
	if (c->receiving || c->composing || c->state == H2_CLOSED || !c->session)
		return;
	do {
		if (!compose(c)) {
			stream_reset_at_close(&c->stream);
			stream_end_output(&c->stream);
			return;
		}
		if (!c->output.block.at ||
			buffer_room(&c->output.block) >= c->output.block.capacity / 2)
			return; /* all is composed; the round's end writes it */
		h2_output_write(c);
	} while (!c->output.block.at && !c->stream.failed);
}
