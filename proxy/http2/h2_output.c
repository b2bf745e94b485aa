#include "http2/h2_output.h"

#include <string.h>

#include "http2/h2_fields.h"
#include "http2/h2_sink.h"

/* A piece of content of less is not begun in what is left of the output's room. */
#define PIECE_LEAST 1024

/* So much of the stream's content was copied. */
static void took(struct h2_sink *sink, size_t bytes)
{
	sink->sent += bytes + H2_FRAME_HEAD;
	h2_sink_took(sink, bytes);
	if (h2_sink_front(sink).len == 0)
		sink->look_later(sink);
}

/* DATA that ends the content is about to be composed. */
static bool submit_trailers(const struct h2_sink *sink)
{
	struct h2_fields fields;

	h2_fields_begin(&fields, sink->link->worker);
	return h2_fields_read(&fields, sink->trailers, sink->trailers + sink->trailers_len) &&
	       nghttp2_submit_trailer(
		       sink->link->session, sink->id, fields.h2->fields, fields.count) == 0;
}

static size_t room(const struct h2_link *link)
{
	return buffer_room(&link->block);
}

ssize_t h2_output_read_data(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t len,
	uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct h2_link *link = user;
	struct h2_sink *sink = source->ptr;
	struct slice front = h2_sink_front(sink);
	size_t fits = room(link);

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
		if (!submit_trailers(sink))
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)front.len;
}

/* A frame fits in an empty output. */
ssize_t h2_output_most_of_frame(nghttp2_session *session, uint8_t type, int32_t id,
	int32_t connection_window, int32_t stream_window, uint32_t frame_most, void *user)
{
	struct h2_link *link = user;
	int64_t most = (int64_t)link->worker->blocks.block_bytes - H2_FRAME_HEAD;

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
	struct h2_link *link = user;
	struct h2_sink *sink = source->ptr;
	struct slice front = h2_sink_front(sink);

	(void)session;
	(void)frame;
	if (front.len < len)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it was dropped meanwhile */
	if (room(link) < H2_FRAME_HEAD + len)
		return NGHTTP2_ERR_WOULDBLOCK;
	memcpy(link->block.at + link->block.end, head, H2_FRAME_HEAD);
	if (len > 0)
		memcpy(link->block.at + link->block.end + H2_FRAME_HEAD, front.at, len);
	link->block.end += (uint32_t)(H2_FRAME_HEAD + len);
	took(sink, len);
	return 0;
}

/* Takes a frame that is in the session's memory, or a part of it. True: all of it. */
static bool take_held(struct h2_link *link)
{
	size_t part = link->held_bytes < room(link) ? link->held_bytes : room(link);

	if (part > 0)
		memcpy(link->block.at + link->block.end, link->held, part);
	link->block.end += (uint32_t)part;
	link->held += part;
	link->held_bytes -= part;
	return link->held_bytes == 0;
}

static bool compose(struct h2_link *link)
{
	ssize_t len;

	if (link->receiving || link->composing || !link->session)
		return true;
	if (!link->block.at && link->held_bytes == 0 && !nghttp2_session_want_write(link->session))
		return true;
	if (!link->block.at && !buffer_acquire(&link->block, &link->worker->blocks))
		return false;
	if (link->block.start == link->block.end)
		link->block.start = link->block.end = 0;
	link->composing = true;
	do {
		len = 0;
		if (!take_held(link))
			break;
		len = nghttp2_session_mem_send(link->session, &link->held);
		link->held_bytes = len > 0 ? (size_t)len : 0;
	} while (len > 0);
	link->composing = false;
	return len >= 0;
}

void h2_output_write(struct h2_link *link)
{
	while (link->block.at && buffer_used(&link->block) > 0 && link->stream->writable &&
		!link->stream->failed) {
		struct iovec piece = {buffer_head(&link->block), buffer_used(&link->block)};
		size_t written = 0;
		enum stream_result result = stream_write(link->stream, &piece, 1, &written);

		link->block.start += (uint32_t)written;
		if (result == STREAM_FAILED || result == STREAM_END) {
			stream_wake(link->stream); /* which closes it */
			return;
		}
	}
	if (link->block.at && buffer_used(&link->block) == 0)
		buffer_release(&link->block, &link->worker->blocks);
}

void h2_output_send(struct h2_link *link)
{
	if (link->receiving || link->composing || !link->session)
		return;
	do {
		if (!compose(link)) {
			stream_reset_at_close(link->stream);
			stream_end_output(link->stream);
			return;
		}
		if (!link->block.at || buffer_room(&link->block) >= link->block.capacity / 2)
			return; /* all is composed; the round's end writes it */
		h2_output_write(link);
	} while (!link->block.at && !link->stream->failed);
}
