/*
 * Where a body goes. A sink borrows runs of content until they have left; while some has not, it
 * takes no more, and the pump (body/pump.h) does not read on. How a wire frames the body is known
 * to the sink alone.
 *
 *   push (a run) --> flush --EMPTY--> push ... push or end --> flush --EMPTY--> all has left
 *                      `--FULL: the sink wakes its owner when there is room; spill makes some
 */
#ifndef BODY_SINK_H
#define BODY_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "http/trailers.h"
#include "spool/spool.h"

enum body_flush {
	BODY_EMPTY, /* all that was pushed has left, and what was composed before it */
	BODY_FULL,
	BODY_FAILED,
	BODY_LOST, /* spilled bytes can't be read back: what was sent is not all of it, nor will be
		    */
};

/* The end of a body: a trailer section of its source, and what of it passes. */
struct body_end {
	struct slice trailers;
	struct http_trailer_rules rules;
};

struct body_sink;

struct body_sink_calls {
	/* Nothing is borrowed now. Borrows a run; `is_last`: behind it comes the end, without
	 * trailers. False: no memory. */
	bool (*push)(struct body_sink *sink, struct slice run, bool is_last);
	/* False: no memory. */
	bool (*end)(struct body_sink *sink, const struct body_end *end);
	/* Sends; `*written` is added to. */
	enum body_flush (*flush)(struct body_sink *sink, uint64_t *written);
	bool (*is_empty)(const struct body_sink *sink);
	/* Moves what has not left into a spool, made with these limits when there is none. Not when
	 * `left`, of more that comes, would not fit behind it. EMPTY: nothing is borrowed. */
	enum body_flush (*spill)(struct body_sink *sink, struct spool_store *store,
		struct spool_limits limits, uint64_t left);
	bool (*has_spilled)(const struct body_sink *sink);
	/* Where a source puts the block of which a run is borrowed, when it can't keep it. NULL:
	 * nothing is borrowed. */
	struct buffer *(*keeper)(struct body_sink *sink);
	/* There is more to be sent: its owner looks in this turn. */
	void (*wake)(struct body_sink *sink);
};

struct body_sink {
	const struct body_sink_calls *calls;
};

static inline bool body_sink_is_empty(const struct body_sink *sink)
{
	return sink->calls->is_empty(sink);
}

static inline bool body_sink_push(struct body_sink *sink, struct slice run, bool is_last)
{
	return sink->calls->push(sink, run, is_last);
}

#endif
