/*
 * Replies of our own: status line, fields and a problem+json body (RFC 9457), whole, into a buffer
 * of the caller's.
 *
 *   HTTP/1.1 429 Too Many Requests
 *   Date: ...
 *   Content-Type: application/problem+json
 *   Content-Length: ...
 *   Cache-Control: no-store
 *   Retry-After: 7                         whole seconds, rounded up, at least 1
 *   RateLimit-Policy: ...                  `fields`, as they come
 *
 *   {"type":"...","title":"...","status":429,"detail":"...","violated-policies":["burst"],
 *    "retry-after-ms":6500}
 */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct http_changes;

/* A URL under https: `https://HOST[:PORT]PATH[?QUERY]`. */
struct http_location {
	struct slice host, path, query;
	unsigned port; /* 443 is not written */
	bool has_query;
};

#define HTTP_PROBLEM_NO_RETRY UINT64_MAX

enum http_problem_connection {
	HTTP_PROBLEM_PLAIN,      /* no Connection field */
	HTTP_PROBLEM_CLOSE,      /* `Connection: close` */
	HTTP_PROBLEM_KEEP_ALIVE, /* `Connection: keep-alive`, for an HTTP/1.0 client that asked */
};

struct http_problem {
	unsigned status;              /* 308, 400..599; 200 has no body (OPTIONS) */
	struct slice detail;          /* SLICE_NONE: the status's usual text. Any bytes; escaped */
	uint64_t retry_after_ms;      /* HTTP_PROBLEM_NO_RETRY: not known */
	const struct slice *policies; /* 429: names of the violated limits */
	size_t policy_count;
	struct slice content;                 /* 200: bytes as they are; none: no body */
	const struct http_location *location; /* 308; else NULL */
	struct slice allow;                   /* 405 and 200: `GET, POST` */
	struct slice challenge; /* 401: the value of WWW-Authenticate (RFC 9110 section 11.6.1) */
	struct slice fields;    /* whole field lines, each with its CRLF, or none */
	struct slice date; /* IMF-fixdate (RFC 9110 section 5.6.7), the worker's cached text; none:
			      no Date */
	struct slice request_id; /* with `request_id_field` a field of its own; none: left out */
	struct slice request_id_field;
	enum http_problem_connection connection;
	const struct http_changes
		*changes; /* to all fields except those that describe this answer; NULL: none */
	bool head;        /* the request was HEAD: fields as for GET, no body */
	bool reduced_capacity; /* 503: of this type */
};

/*
 * Writes the reply; returns its length, or 0 when it does not fit `capacity`. `*body_bytes`, unless
 * that is NULL, is how much of it is body. With
 * HTTP_PROBLEM_BYTES and details, policies and fields of up to 1 KiB together it always fits.
 */
#define HTTP_PROBLEM_BYTES 8192
#define HTTP_LOCATION_BYTES(location)                                                              \
	((location)->host.len + (location)->path.len + (location)->query.len + 64)
size_t http_problem_write(
	char *out, size_t capacity, const struct http_problem *problem, size_t *body_bytes);

/* `GET, POST` of a mask of (1 << enum http_method) bits, for Allow. Returns the length. */
#define HTTP_ALLOW_BYTES 512
size_t http_allow_text(uint64_t methods, char out[static HTTP_ALLOW_BYTES]);

#endif
