/*
 * Where a body comes from. A source lends runs of content, in order, from its own buffer; the pump
 * (body/pump.h) pulls them and says when a run has left, which is credit for more. How a wire
 * frames the body is known to the source alone.
 *
 *   fetch (reads once) --> lend (a run) --> release --> lend ... --> ended
 *                                                `-- CUT, BROKEN: there is no more
 */
#ifndef BODY_SOURCE_H
#define BODY_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum body_fetch {
	BODY_FETCHED, /* something new is here: a run, or the end */
	BODY_NOT_NOW,
	BODY_CUT, /* the peer has ended before the body's end, or failed */
	BODY_NO_MEMORY,
};

struct body_source;

struct body_source_calls {
	/* How many bytes, framing included, are here and need no reading? */
	size_t (*here)(const struct body_source *source);
	/* Lends the next run of what is here, at most `most` bytes; it may be empty. False: what
	 * has come is no body as its head has announced it. */
	bool (*lend)(struct body_source *source, size_t most, struct slice *run);
	/* Nothing that was lent is needed any more. */
	void (*release)(struct body_source *source);
	/* Reads once, if one of the `turns` is left, which counts down. Nothing is lent. */
	enum body_fetch (*fetch)(struct body_source *source, unsigned *turns);
	/* The rest of this turn's reads comes in the next. */
	void (*read_again)(struct body_source *source);
	/* The last `bytes` of content that were lent are here once more. False: that can't be done.
	 */
	bool (*take_back)(struct body_source *source, uint32_t bytes);
};

struct body_source {
	const struct body_source_calls *calls;
	bool ended;    /* all of the content was lent */
	uint64_t left; /* content that is still to be lent, if its length is known; else 0 */
	struct slice trailers; /* when it has ended: a field a line; empty: none */
};

#endif
