/*
 * Where composed bytes go: a cursor over a buffer of the caller's. A text that does not fit is
 * omitted as a whole and this is recorded, so that a composer checks once, at its end.
 */
#ifndef HTTP_OUT_H
#define HTTP_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"

struct http_out {
	char *at;      /* the place of the next byte */
	char *end;     /* one past the last; the cursor itself once something did not fit */
	bool overflow; /* something did not fit; all that came after it was left out too */
};

static inline struct http_out http_out_over(char *buffer, size_t capacity)
{
	return (struct http_out){buffer, buffer + capacity, false};
}

static inline bool http_out_has_room(struct http_out *out, size_t len)
{
	if ((size_t)(out->end - out->at) >= len)
		return true;
	out->end = out->at;
	out->overflow = true;
	return false;
}

static inline void http_out_slice(struct http_out *out, struct slice bytes)
{
	if (http_out_has_room(out, bytes.len) && bytes.len > 0) {
		memcpy(out->at, bytes.at, bytes.len);
		out->at += bytes.len;
	}
}

static inline void http_out_char(struct http_out *out, char c)
{
	if (http_out_has_room(out, 1))
		*out->at++ = c;
}

/* `number` in decimal. */
void http_out_number(struct http_out *out, uint64_t number);

/* A JSON string with its quotes (RFC 8259 section 7). Any bytes: those beside printable ASCII
 * become \u00XX, so the text stays valid JSON whatever a client sent. */
void http_out_json(struct http_out *out, struct slice bytes);

/* A structured field string with its quotes (RFC 8941 section 3.3.3): '"' and '\' escaped; a byte
 * outside of printable ASCII, which such a string cannot hold, becomes '?'. */
void http_out_sf_string(struct http_out *out, struct slice bytes);

#endif
