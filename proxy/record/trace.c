#include "record/trace.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "exchange/exchange.h"
#include "site/site.h"
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

static void write_new(struct exchange *x)
{
	uint64_t *seeds = x->worker->trace_seeds;
	uint64_t trace[2], parent;

	if (seeds[0] == 0 && seeds[1] == 0)
		seed(seeds, x->worker->index);
	trace[0] = next(&seeds[0]);
	trace[1] = next(&seeds[1]) | 1; /* no id is zero */
	parent = next(&seeds[0]) | 1;
	http_traceparent_write(x->text.traceparent, trace, parent);
}

/* Is there one that is passed on as it came? */
static bool is_given(const struct http_head *head)
{
	const uint32_t bit = HTTP_FIELD_BIT(TRACEPARENT);

	return head->ids & bit && !(head->repeated & bit) &&
	       !head->fields[head->first[HTTP_FIELD_TRACEPARENT]].hop &&
	       http_traceparent_is_valid(http_head_find(head, HTTP_FIELD_TRACEPARENT));
}

void trace_begin(struct exchange *x)
{
	enum conf_traceparent mode = x->use->site->conf->traceparent;
	const struct http_head *head = &x->request;

	if (mode == CONF_TRACEPARENT_OFF ||
		(mode == CONF_TRACEPARENT_PASS && !http_head_has(head, HTTP_FIELD_TRACEPARENT)))
		return;
	if (is_given(head)) {
		memcpy(x->text.traceparent, http_head_find(head, HTTP_FIELD_TRACEPARENT).at,
			HTTP_TRACEPARENT_BYTES);
		x->trace = TRACE_GIVEN;
	} else if (mode == CONF_TRACEPARENT_BEGIN) {
		write_new(x);
		x->trace = TRACE_BEGUN;
	} else {
		x->trace = TRACE_DROPPED;
	}
}

void trace_put(struct http_out *out, const struct exchange *x)
{
	if (x->trace != TRACE_BEGUN)
		return;
	http_out_slice(out, SLICE("traceparent: "));
	http_out_slice(out, (struct slice){x->text.traceparent, sizeof(x->text.traceparent)});
	http_out_slice(out, SLICE("\r\n"));
}

uint32_t trace_omitted(const struct exchange *x)
{
	return x->trace >= TRACE_BEGUN ? HTTP_FIELD_BIT(TRACEPARENT) | HTTP_FIELD_BIT(TRACESTATE)
				       : 0;
}
