/*
 * A body's content as it leaves: as it is, or in chunks, into a flow.
 *
 *   runs of content -> length, close: as they are; chunked -> size, run, ..., last chunk -> flow
 */
#ifndef BODY_ENCODER_H
#define BODY_ENCODER_H

#include <stdbool.h>

#include "base/slice.h"
#include "body/flow.h"
#include "http/trailers.h"

struct body_encoder {
	bool chunked;
	bool tail_due; /* the last chunk is still to be put behind the content */
	struct http_trailer_rules trailers; /* which of these pass, behind chunks */
};

/* Puts a chunk's size before a run and its end behind it; the last chunk as well, when that is due
 * and has no trailers. */
bool body_encode_chunk(struct body_encoder *encoder, struct flow *flow, struct buffer_pool *pool,
	struct slice content, bool has_trailers);

/* A run that the flow borrows, behind what is in it. False: no memory. */
static inline bool body_encode(struct body_encoder *encoder, struct flow *flow,
	struct buffer_pool *pool, struct slice content, bool has_trailers)
{
	if (encoder->chunked && !body_encode_chunk(encoder, flow, pool, content, has_trailers))
		return false;
	flow->body = content;
	return true;
}

/* The end of a chunked body behind all that was sent of it. False: no memory. */
bool body_encode_tail(struct body_encoder *encoder, struct flow *flow, struct buffer_pool *pool,
	struct slice trailers);

#endif
