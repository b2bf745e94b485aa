/*
 * A stream of HTTP/2 as the sink of a response's body (body/sink.h). It borrows one run at a time,
 * of which the session takes as much for each DATA frame as the windows allow; a run is gone when
 * it was copied behind the head of its last frame.
 *
 *   push, end --> [ spool ][ run ] --front, took--> DATA frames --> the connection's output
 *
 * The spool precedes the run. It is there only while it holds what a slow client has not taken, or
 * once it was lost.
 */
#ifndef HTTP2_H2_SINK_H
#define HTTP2_H2_SINK_H

#include "base/buffer.h"
#include "body/sink.h"
#include "http2/h2_link.h"

struct h2_sink {
	struct body_sink sink;
	struct h2_link *link;
	int32_t id; /* of its stream */
	struct spool *spool;
	struct slice run;
	struct buffer kept; /* the run's block, where its source gave it away */
	bool head_due;      /* what precedes the content is not composed yet: a request's head */
	bool is_last;       /* the end is behind the run */
	bool has_ended;     /* END_STREAM was composed */
	bool has_failed;    /* the stream was closed before its end */
	char *trailers;     /* a field a line, until they are composed */
	uint32_t trailers_len;
	uint64_t sent;     /* bytes composed so far, framing included */
	uint64_t reported; /* of those, to the pump */
	/* There is something new to send; the session is to ask for it. */
	void (*resume)(struct h2_sink *sink);
	/* Its owner looks in this turn. */
	void (*look_later)(struct h2_sink *sink);
};

void h2_sink_init(struct h2_sink *sink, struct h2_link *link, int32_t id);

/* Drops what is borrowed, and its memory. */
void h2_sink_end(struct h2_sink *sink);

/* The content that is next. */
struct slice h2_sink_front(const struct h2_sink *sink);

/* So many bytes of that were copied. */
void h2_sink_took(struct h2_sink *sink, size_t bytes);

/* Is the front all that is left of the content, and the end behind it? */
static inline bool h2_sink_is_last(const struct h2_sink *sink)
{
	return sink->is_last &&
	       (!sink->spool || (sink->run.len == 0 &&
					spool_bytes(sink->spool) == spool_front(sink->spool).len));
}

/* Is there something for the session? */
static inline bool h2_sink_has_output(const struct h2_sink *sink)
{
	return sink->run.len > 0 || sink->spool || sink->head_due ||
	       (sink->is_last && !sink->has_ended);
}

#endif
