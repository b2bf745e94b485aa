/*
 * A stream of HTTP/2 as the client of one exchange (exchange/client.h). Its exchange is always the
 * first: responses of a connection leave in any order. That its client's requests are served in
 * order is the queue's affair, which they enter in the order of their HEADERS.
 *
 *   h2_stream_new (HEADERS begin) --> h2_stream_begin --> exchange --> END_STREAM or RST_STREAM
 *                                                            --> h2_stream_closed --> spare
 *
 * Each stream has its own deadline: for what its client still has to send, or to take.
 */
#ifndef HTTP2_H2_STREAM_H
#define HTTP2_H2_STREAM_H

#include "http2/h2_inside.h"

extern const struct client_calls h2_client_calls;

/* Of the connection, which lists it. NULL: no memory. */
struct h2_stream *h2_stream_new(struct h2_connection *connection, int32_t id);

/* Frees those that a worker has to spare. */
void h2_streams_free_spare(struct h2_worker *h2);

/* The request's header block is complete in the connection's head: its exchange begins. */
void h2_stream_begin(struct h2_stream *stream, bool is_end);

/* Content, a trailer section, and the end have come. */
void h2_stream_body(struct h2_stream *stream, const uint8_t *bytes, size_t len);
void h2_stream_trailers(struct h2_stream *stream);
void h2_stream_body_ended(struct h2_stream *stream);

/* The end of its response was composed. */
void h2_stream_response_ended(struct h2_stream *stream);

/* The session knows it no more: its client has reset it, or both ends have ended. */
void h2_stream_closed(struct h2_stream *stream);

/* Does all that can be done now. */
void h2_stream_advance(struct h2_stream *stream);

/* Resets the stream, if the session still knows it. */
void h2_stream_reset(struct h2_stream *stream, uint32_t error_code);

/* Its connection ends: so does its exchange, and it is freed. */
void h2_stream_cut(struct h2_stream *stream);

/* Has nothing of it begun, or has all ended, but for what its client has to take? */
static inline bool h2_stream_is_over(const struct h2_stream *stream)
{
	return stream->closed && !stream->client.first;
}

#endif
