#include "record/trace.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "worker/worker.h"

/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): ids
 * must differ, not be secret. */
static uint64_t next(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void seed(uint64_t seeds[2], unsigned worker)
{
	if (getrandom(seeds, 2 * sizeof(*seeds), GRND_NONBLOCK) == 2 * sizeof(*seeds))
		return;
	seeds[0] = clock_wall_ns();
	seeds[1] = worker + 1;
}

static void write_new(struct worker *worker, char parent_text[HTTP_TRACEPARENT_BYTES])
{
	uint64_t *seeds = worker->trace_seeds;
	uint64_t trace[2], parent;

	if (seeds[0] == 0 && seeds[1] == 0)
		seed(seeds, worker->index);
	trace[0] = next(&seeds[0]);
	trace[1] = next(&seeds[1]) | 1; /* no id is zero */
	parent = next(&seeds[0]) | 1;
	http_traceparent_write(parent_text, trace, parent);
}

/* Is there one that is passed on as it came? */
static bool is_given(const struct http_head *head)
{
	const uint32_t bit = HTTP_FIELD_BIT(TRACEPARENT);

	return head->ids & bit && !(head->repeated & bit) &&
	       !head->fields[head->first[HTTP_FIELD_TRACEPARENT]].hop &&
	       http_traceparent_is_valid(http_head_find(head, HTTP_FIELD_TRACEPARENT));
}

enum trace_kind trace_begin(struct worker *worker, enum conf_traceparent mode,
	const struct http_head *head, char text[HTTP_TRACEPARENT_BYTES])
{
	if (mode == CONF_TRACEPARENT_OFF ||
		(mode == CONF_TRACEPARENT_PASS && !http_head_has(head, HTTP_FIELD_TRACEPARENT)))
		return TRACE_NONE;
	if (is_given(head)) {
		memcpy(text, http_head_find(head, HTTP_FIELD_TRACEPARENT).at,
			HTTP_TRACEPARENT_BYTES);
		return TRACE_GIVEN;
	}
	if (mode != CONF_TRACEPARENT_BEGIN)
		return TRACE_DROPPED;
	write_new(worker, text);
	return TRACE_BEGUN;
}

uint32_t trace_omitted(enum trace_kind kind)
{
	return kind >= TRACE_BEGUN ? HTTP_FIELD_BIT(TRACEPARENT) | HTTP_FIELD_BIT(TRACESTATE) : 0;
}
