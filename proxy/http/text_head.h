/* Heads as lines of text, in the form of HTTP/1, which http/parser.h reads. */
#ifndef HTTP_TEXT_HEAD_H
#define HTTP_TEXT_HEAD_H

#include "http/field_sink.h"

static inline struct field_sink text_head_over(struct http_out out)
{
	return (struct field_sink){out, {{':', ' '}, {'\r', '\n'}}, 1};
}

/* The line of a request of HTTP/1.1. */
void text_head_request(struct field_sink *sink, struct slice method, struct slice target);

/* The line of a response. `reason`: SLICE_NONE for the registered one. */
void text_head_status(struct field_sink *sink, unsigned status, struct slice reason);

/* The empty line. */
static inline void text_head_end(struct field_sink *sink)
{
	field_end(sink);
}

#endif
