/* The trace that a request is part of: its traceparent field is passed on, begun or dropped. */
#ifndef RECORD_TRACE_H
#define RECORD_TRACE_H

#include <stdint.h>

#include "http/out.h"
#include "http/traceparent.h"

struct exchange;

enum trace_kind {
	TRACE_NONE,
	TRACE_GIVEN,   /* valid: passed on as it came */
	TRACE_BEGUN,   /* there was none that is valid */
	TRACE_DROPPED, /* not valid; tracestate is dropped with it (Trace Context, section 3.3) */
};

/* Looks at the request's head, according to `traceparent`. */
void trace_begin(struct exchange *exchange);

/* Appends the line of one that was begun. */
void trace_put(struct http_out *out, const struct exchange *exchange);

/* Which fields of the request are left out for it: bits of http_head.ids. */
uint32_t trace_omitted(const struct exchange *exchange);

#endif
