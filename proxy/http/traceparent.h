/*
 * The traceparent field (W3C Trace Context, section 3.2):
 *
 *   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *   version-trace id-parent id-flags
 */
#ifndef HTTP_TRACEPARENT_H
#define HTTP_TRACEPARENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define HTTP_TRACEPARENT_BYTES 55 /* of version 00, and at least */
#define HTTP_TRACE_ID_BYTES    32
#define HTTP_PARENT_ID_BYTES   16
#define HTTP_TRACE_ID_AT       3
#define HTTP_PARENT_ID_AT      36

/* Is it a valid value? Of versions to come, the known part must be as of version 00, and what
 * follows it begins with '-' (section 3.2.4). */
bool http_traceparent_is_valid(struct slice value);

/* A value of version 00 with these ids, sampled; neither id may be zero. */
void http_traceparent_write(
	char text[static HTTP_TRACEPARENT_BYTES], const uint64_t trace[static 2], uint64_t parent);

#endif
