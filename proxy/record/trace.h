/* The trace that a request is part of: its traceparent field is passed on, begun or dropped. */
#ifndef RECORD_TRACE_H
#define RECORD_TRACE_H

#include <stdint.h>

#include "conf/conf.h"
#include "http/message.h"
#include "http/traceparent.h"

struct worker;

enum trace_kind {
	TRACE_NONE,
	TRACE_GIVEN,   /* valid: passed on as it came */
	TRACE_BEGUN,   /* there was none that is valid */
	TRACE_DROPPED, /* not valid; tracestate is dropped with it (Trace Context, section 3.3) */
};

/* Decides by a request's head and the option `traceparent`. Writes the field's value to `text`
 * where there is one (GIVEN, BEGUN). */
enum trace_kind trace_begin(struct worker *worker, enum conf_traceparent mode,
	const struct http_head *head, char text[HTTP_TRACEPARENT_BYTES]);

/* The fields of the request that are left out for it: bits of http_head.ids. */
uint32_t trace_omitted(enum trace_kind kind);

#endif
