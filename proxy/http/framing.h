/*
 * How long a message is (RFC 9112 section 6) and what of it stays on this hop (RFC 9110 section
 * 7.6.1). Strict: whatever two readers could understand in two ways is refused.
 */
#ifndef HTTP_FRAMING_H
#define HTTP_FRAMING_H

#include <stdbool.h>
#include <stdint.h>

#include "http/message.h"

enum http_body { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE };

struct http_framing {
	enum http_body body;
	uint64_t length; /* HTTP_BODY_LENGTH */
	bool has_length; /* a Content-Length was there: for HEAD and 304 it is passed on */
	bool keep_alive; /* the sender's wish, by version and Connection */
	bool upgrade;    /* Connection: upgrade and an Upgrade field */
	bool expects_continue;
};

/* Is there a body whose end is not known before it comes? */
static inline bool http_framing_is_open(const struct http_framing *framing)
{
	return framing->body == HTTP_BODY_CHUNKED || framing->body == HTTP_BODY_UNTIL_CLOSE;
}

/*
 * A request's framing; marks its hop-by-hop fields. Returns 0 or the status to refuse it with and
 * close: 400 (also for more than 32 options in Connection), 417 (an expectation other than
 * 100-continue), 501 (a transfer coding other than chunked).
 */
unsigned http_frame_request(struct http_head *head, struct http_framing *framing);

/* A response's framing, which depends on the request's method; marks hop-by-hop fields. False when
 * the response can't be trusted: answer 502 and close. */
bool http_frame_response(
	struct http_head *head, enum http_method request_method, struct http_framing *framing);

#endif
