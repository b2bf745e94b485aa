/*
 * A connection of HTTP/1 as the sink of a body (body/sink.h): its content as it is, or in chunks,
 * behind what is in the connection's flow, so that a head and the first of its body leave in one
 * write.
 *
 *   runs of content -> length, close: as they are; chunked -> size, run, ..., last chunk -> flow
 */
#ifndef HTTP1_HTTP1_SINK_H
#define HTTP1_HTTP1_SINK_H

#include "body/flow.h"
#include "body/sink.h"

struct http1_sink {
	struct body_sink sink;
	struct stream *stream;
	struct flow *flow;
	struct buffer_pool *pool;
	bool chunked;  /* the body, */
	bool by_close; /* or its end is that of the connection; of the latest response */
};

void http1_sink_init(struct http1_sink *sink, struct stream *stream, struct flow *flow,
	struct buffer_pool *pool);

static inline struct http1_sink *http1_sink_of(struct body_sink *sink)
{
	return (struct http1_sink *)sink;
}

#endif
