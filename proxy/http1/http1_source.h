/*
 * The body that a connection of HTTP/1 brings, as a source (body/source.h): its content, without
 * the framing.
 *
 *   bytes -> length, chunked, until close -> runs of content
 */
#ifndef HTTP1_HTTP1_SOURCE_H
#define HTTP1_HTTP1_SOURCE_H

#include "body/source.h"
#include "http/framing.h"
#include "http/parser.h"
#include "net/stream.h"

struct http1_source {
	struct body_source source;
	struct stream *stream;
	struct buffer *in; /* read of the stream and not lent yet, or lent */
	struct buffer_pool *pool;
	struct http_parser *parser; /* for chunked bodies */
	enum http_body body;
	bool is_open;
};

/* For a connection; it is not open. */
void http1_source_init(struct http1_source *source, struct stream *stream, struct buffer *in,
	struct buffer_pool *pool, struct http_parser *parser);

/* The next body begins, framed so. */
struct body_source *http1_source_open(
	struct http1_source *source, const struct http_framing *framing);

/* A chunked body that is in the buffer whole becomes its content, in front of the bytes that follow
 * it. Before the source is open. False: its framing is malformed, which decoding it finds again. */
bool http1_source_unchunk(struct http1_source *source);

#endif
