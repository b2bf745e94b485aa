#include "body/pump.h"

struct slice pump_trailers(const struct pump *pump)
{
	return pump->end.trailers.len > 0 || !pump->source ? pump->end.trailers
							   : pump->source->trailers;
}

static bool put_end(struct pump *pump)
{
	const struct body_end end = {pump_trailers(pump), pump->end.rules};

	pump->end_due = !pump->sink->calls->end(pump->sink, &end);
	return !pump->end_due;
}

/* The end leaves with the last run, unless trailers come between. */
static inline __attribute__((always_inline)) bool put_run(struct pump *pump, struct slice run)
{
	bool is_last = pump->end_due && pump_trailers(pump).len == 0;

	if (!body_sink_push(pump->sink, run, is_last))
		return false;
	pump->end_due &= !is_last;
	return true;
}

/* Takes the next run of what is here, of at most `most` bytes. */
static inline enum pump_result lend(struct pump *pump, size_t most, struct slice *run)
{
	struct body_source *source = pump->source;

	if (!source->calls->lend(source, most, run))
		return PUMP_SOURCE_BROKEN;
	pump->lent = true;
	pump->ended = source->ended;
	pump->content_bytes += run->len;
	if (pump->max_bytes > 0 && pump->content_bytes > pump->max_bytes)
		return PUMP_TOO_LARGE;
	return pump->ended ? PUMP_DONE : PUMP_WANTS_READ;
}

static inline void release(struct pump *pump)
{
	if (pump->lent && pump->source)
		pump->source->calls->release(pump->source);
	pump->lent = false;
}

static bool is_lost(const struct pump *pump)
{
	return pump->spool && spool_is_lost(pump->spool);
}

/* The front of the spool is sent; it stays there until then. */
static enum pump_result fill_from_spool(struct pump *pump)
{
	struct slice run = spool_front(pump->spool);

	pump->end_due = pump->ended && run.len == spool_bytes(pump->spool);
	pump->borrowed = run.len;
	return put_run(pump, run) ? PUMP_WANTS_READ : PUMP_NO_MEMORY;
}

enum pump_result pump_fill(struct pump *pump)
{
	struct slice run;

	if (is_lost(pump))
		return PUMP_SPOOL_FAILED;
	if (pump->spool && spool_bytes(pump->spool) > 0)
		return fill_from_spool(pump);
	if (pump->ended || !pump->source)
		return PUMP_DONE;
	enum pump_result result = lend(pump, SIZE_MAX, &run);
	if (!pump->sink || (result != PUMP_DONE && result != PUMP_WANTS_READ))
		return result;
	pump->end_due = pump->ended;
	if (run.len > 0 && !put_run(pump, run))
		return PUMP_NO_MEMORY;
	if (pump->end_due && run.len == 0 && !put_end(pump))
		return PUMP_NO_MEMORY;
	return result;
}

void pump_finish(struct pump *pump)
{
	if (pump->end_due)
		put_end(pump);
}

/* Sends; bytes that the sink can't send move into a spool, if the pump spills. */
static enum body_flush flush(struct pump *pump)
{
	const struct body_sink_calls *calls = pump->sink->calls;
	enum body_flush result = calls->flush(pump->sink, &pump->written);

	if (result != BODY_FULL || !pump->spills || pump->ended)
		return result;
	return calls->spill(
		pump->sink, pump->store, pump->kept, pump->source ? pump->source->left : 0);
}

/* Sends what the sink holds, and the end behind it when that is due. */
static enum pump_result send_all(struct pump *pump)
{
	while (pump->sink) {
		switch (flush(pump)) {
		case BODY_EMPTY:
			break;
		case BODY_FULL:
			return PUMP_WANTS_WRITE;
		case BODY_FAILED:
			return PUMP_SINK_FAILED;
		case BODY_LOST:
			return PUMP_SPOOL_FAILED;
		}
		if (!pump->end_due)
			break;
		if (!put_end(pump))
			return PUMP_NO_MEMORY;
	}
	release(pump);
	if (pump->borrowed > 0) {
		size_t borrowed = pump->borrowed;
		pump->borrowed = 0;
		if (!spool_drop(pump->spool, borrowed))
			return PUMP_SPOOL_FAILED;
	}
	return PUMP_DONE;
}

/* Reads once, or says why not. PUMP_DONE: there is something new to look at. */
static enum pump_result fetch(struct pump *pump, unsigned *turns)
{
	if (!pump->source)
		return PUMP_WANTS_READ; /* what comes is put into the spool */
	switch (pump->source->calls->fetch(pump->source, turns)) {
	case BODY_FETCHED:
		pump->ended = pump->source->ended;
		pump->end_due = pump->sink && pump->ended;
		return PUMP_DONE;
	case BODY_NOT_NOW:
		return PUMP_WANTS_READ;
	case BODY_CUT:
		return PUMP_SOURCE_ENDED;
	case BODY_NO_MEMORY:
		break;
	}
	return PUMP_NO_MEMORY;
}

enum pump_result pump_run(struct pump *pump, unsigned turns)
{
	for (;;) {
		if (is_lost(pump))
			return PUMP_SPOOL_FAILED;
		enum pump_result result = send_all(pump);
		if (result != PUMP_DONE)
			return result;
		if (!pump_has_content(pump)) {
			if (pump->ended)
				return PUMP_DONE;
			result = fetch(pump, &turns);
			if (result != PUMP_DONE)
				return result;
			if (pump->ended)
				continue;
		}
		result = pump_fill(pump);
		if (result != PUMP_DONE && result != PUMP_WANTS_READ)
			return result;
	}
}

enum pump_result pump_collect(struct pump *pump, unsigned turns)
{
	while (!pump->ended) {
		struct slice run;
		enum pump_result result = PUMP_DONE;
		if (spool_room(pump->spool, 1) == 0)
			return spool_failed(pump->spool) ? PUMP_SPOOL_FAILED : PUMP_WANTS_WRITE;
		if (pump_here(pump) == 0)
			result = fetch(pump, &turns);
		if (result != PUMP_DONE || pump->ended)
			return result; /* what ends with its source ends here */
		result = lend(pump, spool_room(pump->spool, pump_here(pump)), &run);
		if (result != PUMP_DONE && result != PUMP_WANTS_READ)
			return result;
		if (spool_put(pump->spool, run) < run.len)
			return PUMP_SPOOL_FAILED;
		release(pump);
	}
	return is_lost(pump) ? PUMP_SPOOL_FAILED : PUMP_DONE;
}
