/*
 * Replies of our own: their fields and a problem+json content (RFC 9457).
 *
 *   Content-Type: application/problem+json
 *   Content-Length: ...
 *   Cache-Control: no-store
 *   Retry-After: 7                         whole seconds, rounded up, at least 1
 *
 *   {"type":"...","title":"...","status":429,"detail":"...","violated-policies":["burst"],
 *    "retry-after-ms":6500}
 */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/field_sink.h"

/* A URL under https: `https://HOST[:PORT]PATH[?QUERY]`. */
struct http_location {
	struct slice host, path, query;
	unsigned port; /* 443 is not written */
	bool has_query;
};

#define HTTP_PROBLEM_NO_RETRY UINT64_MAX

struct http_problem {
	unsigned status;              /* 308, 400..599; 200 has no content (OPTIONS) */
	struct slice detail;          /* SLICE_NONE: the status's usual text. Any bytes; escaped */
	uint64_t retry_after_ms;      /* HTTP_PROBLEM_NO_RETRY: not known */
	const struct slice *policies; /* 429: names of the violated limits */
	size_t policy_count;
	struct slice content;                 /* 200: bytes as they are; none: no body */
	const struct http_location *location; /* 308; else NULL */
	struct slice allow;                   /* 405 and 200: `GET, POST` */
	struct slice challenge; /* 401: the value of WWW-Authenticate (RFC 9110 section 11.6.1) */
	bool reduced_capacity;  /* 503: of this type */
};

/* Room in which a content fits whose detail and policies have 1 KiB together. */
#define HTTP_PROBLEM_BYTES 8192
#define HTTP_LOCATION_BYTES(location)                                                              \
	((location)->host.len + (location)->path.len + (location)->query.len + 64)
/* Appends the content. */
void http_problem_put_content(struct http_out *out, const struct http_problem *problem);

/* The fields that describe it; `content_bytes` is the length of its content. */
void http_problem_put_fields(
	struct field_sink *sink, const struct http_problem *problem, size_t content_bytes);

/* Does a field of this name stay as it is, whatever the configuration sets for servers' answers? It
 * describes the answer. */
bool http_problem_keeps(struct slice name);

/* `GET, POST` of a mask of (1 << enum http_method) bits, for Allow. Returns the length. */
#define HTTP_ALLOW_BYTES 512
size_t http_allow_text(uint64_t methods, char out[static HTTP_ALLOW_BYTES]);

#endif
