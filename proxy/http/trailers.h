/*
 * Which trailer fields pass (RFC 9110 section 6.5.1): a server may merge them into the head, where
 * a client could forge with them what sluice sets, counts or removes.
 *
 *   of requests    those of digests, signatures and timing, and those that a list adds
 *   of responses   all but those that frame, route, authenticate, are of one hop, or are replaced
 */
#ifndef HTTP_TRAILERS_H
#define HTTP_TRAILERS_H

#include <stdbool.h>

#include "base/slice.h"
#include "http/out.h"

struct conf_fields;
struct conf_text_list;

struct http_trailer_rules {
	const struct conf_text_list *added;   /* requests: pass besides the usual ones */
	const struct conf_text_list *removed; /* never pass; may be NULL */
	const struct conf_fields *set;        /* nor do these, which are set in the head */
};

/* Appends the field lines of `trailers` (each with CRLF) that pass. */
void http_trailers_put(
	struct http_out *out, struct slice trailers, const struct http_trailer_rules *rules);

#endif
