/*
 * One session of nghttp2 over one stream of bytes: the part that a client's connection
 * (http2/h2_connection.h) and a server's (http2/h2_server.h) have in common. It is the user data of
 * its session's callbacks.
 */
#ifndef HTTP2_H2_LINK_H
#define HTTP2_H2_LINK_H

#include <nghttp2/nghttp2.h>

#include "base/buffer.h"
#include "net/stream.h"
#include "worker/worker.h"

/* The head of a frame. */
#define H2_FRAME_HEAD 9

struct h2_link {
	struct worker *worker;
	struct stream *stream;
	nghttp2_session *session; /* NULL: there is none yet, or none any more */

	/* Composed and not written: first `block`, then what is still in the session's memory. */
	struct buffer block;
	const uint8_t *held;
	size_t held_bytes;
	bool receiving, composing; /* within the session: no second call of the same */
};

/* Is something composed, or can it be? */
static inline bool h2_link_has_output(const struct h2_link *link)
{
	return link->block.at || link->held_bytes > 0 || nghttp2_session_want_write(link->session);
}

#endif
