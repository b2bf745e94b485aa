/*
 * A body on its way, a request's up or a response's down alike.
 *
 *   source --lend--> a run of content --push--> sink
 *
 * One run is taken only when the one before has left: the sink's pace is the source's (and by its
 * protocol the sender's), and memory stays bounded whatever the body's size.
 *
 * When `spills` is set, bytes that a slow sink does not accept are moved into a spool of its own as
 * far as there is room, and reading continues. A body whose length is known spills only when all
 * that is left of it fits: until then the source would wait for the sink in any case.
 *
 * A pump with no sink reads a body and throws it away, or collects it in a spool (pump_collect).
 * The contents of that spool are sent first when the pump has a sink; each run stays in it until it
 * is written.
 */
#ifndef BODY_PUMP_H
#define BODY_PUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "body/sink.h"
#include "body/source.h"

enum pump_result {
	PUMP_WANTS_READ,    /* the source has no more now */
	PUMP_WANTS_WRITE,   /* the sink takes no more now */
	PUMP_DONE,          /* all of the body was read, and written */
	PUMP_SOURCE_ENDED,  /* the source closed before the body's end, or failed */
	PUMP_SOURCE_BROKEN, /* not the framing it claimed */
	PUMP_TOO_LARGE,     /* more content than max_bytes */
	PUMP_SINK_FAILED,
	PUMP_NO_MEMORY,
	PUMP_SPOOL_FAILED, /* a temporary file can't be written or read, which is logged: what was
			    * sent of the body is not all of it, and never will be */
};

struct pump {
	struct body_source *source; /* NULL: nothing more is read */
	struct body_sink *sink;     /* NULL: throw away */
	struct spool *spool;        /* content that was collected; NULL: none */
	size_t borrowed;            /* of its front, by the sink */
	struct spool_store *store;  /* for `spills`; NULL: never */
	struct spool_limits kept;
	bool spills;
	bool ended;             /* the last of the content was read */
	bool end_due;           /* the sink is still to be given the end */
	bool lent;              /* the source has lent something */
	struct body_end end;    /* its trailers: if not the source's */
	uint64_t max_bytes;     /* 0: no bound */
	uint64_t content_bytes; /* passed so far */
	uint64_t written;       /* bytes the sink took, framing included */
};

/* All zero, to be filled in place: there are two a request. Returns `pump`. */
static inline struct pump *pump_begin(struct pump *pump)
{
	memset(pump, 0, sizeof(*pump));
	return pump;
}

/* Moves what can be moved now. At most `turns` reads, for fairness between connections: after these
 * it returns PUMP_WANTS_READ, and the source may have more (body_source_calls.read_again). */
enum pump_result pump_run(struct pump *pump, unsigned turns);

/* Moves what can be read now into the spool. DONE: all of the body is in it. WANTS_WRITE: it is
 * full, and the body continues. */
enum pump_result pump_collect(struct pump *pump, unsigned turns);

/* How many bytes of the source are here and need no reading? */
static inline size_t pump_here(const struct pump *pump)
{
	return !pump->ended && pump->source ? pump->source->calls->here(pump->source) : 0;
}

/* Is there content to send that needs no reading? */
static inline bool pump_has_content(const struct pump *pump)
{
	return (pump->spool && spool_bytes(pump->spool) > 0) || pump_here(pump) > 0;
}

/* Only gives the sink what is here, and sends nothing: to let the first of a body leave with its
 * head, of which nothing is borrowed. Returns DONE when all was read, WANTS_READ, or what is wrong.
 */
enum pump_result pump_fill(struct pump *pump);

/* The same, in less steps where there is no body or all of it is in the sink. */
static inline enum pump_result pump_fill_first(struct pump *pump)
{
	return pump->ended && !pump->spool ? PUMP_DONE : pump_fill(pump);
}

/* The trailer section of a body that was read, as it came; empty: none. Its source's. */
struct slice pump_trailers(const struct pump *pump);

/* All was read, and the source, which has its trailers, is about to go: the sink is given the end
 * now. Only when nothing is borrowed but what it keeps itself. Without memory the trailers are
 * lost. */
void pump_finish(struct pump *pump);

#endif
