/*
 * Deviations of old servers from RFC 9112 that an upstream may permit. A head is rewritten clean in
 * front of the parser, which stays as strict as it is:
 *
 *   bytes of a server --http_lenient_end--> is the head all there?
 *                     --http_lenient_clean--> a head without what is forgiven --> http_parser_head
 *
 * No later code sees, or passes on, the original form of a head. The parser refuses all other
 * deviations, and those that can't be corrected beyond doubt.
 */
#ifndef HTTP_LENIENT_H
#define HTTP_LENIENT_H

#include <stddef.h>

#include "base/slice.h"

struct http_out;

/* The permitted deviations, as bits. */
enum http_lenient {
	HTTP_LENIENT_BARE_LF = 1 << 0,       /* lines that end with LF alone */
	HTTP_LENIENT_EQUAL_LENGTHS = 1 << 1, /* Content-Length several times, all the same */
	HTTP_LENIENT_HTTP_1_2 = 1 << 2,      /* HTTP/1.2 to 1.9, taken for HTTP/1.1 */
	HTTP_LENIENT_FOLDED_LINES = 1 << 3,  /* a field's value that continues in the next line */
	HTTP_LENIENT_SPACE_BEFORE_COLON = 1 << 4,
	HTTP_LENIENT_CHUNKED_TWICE = 1 << 5,      /* `chunked` several times, and nothing else */
	HTTP_LENIENT_LENGTH_AND_CHUNKED = 1 << 6, /* a Content-Length beside it; it is dropped */
	HTTP_LENIENT_CHUNKED_HTTP_1_0 = 1 << 7,   /* `chunked` in HTTP/1.0, taken for HTTP/1.1 */
	/* Words for bodies (http/chunked.h): */
	HTTP_LENIENT_CHUNK_BLANKS = 1 << 8,
	HTTP_LENIENT_CHUNK_LF = 1 << 9,
};

/* Words for messages that two readers may end at different places. */
#define HTTP_LENIENT_DOUBTFUL                                                                      \
	(HTTP_LENIENT_BARE_LF | HTTP_LENIENT_FOLDED_LINES | HTTP_LENIENT_SPACE_BEFORE_COLON |      \
		HTTP_LENIENT_CHUNKED_TWICE | HTTP_LENIENT_LENGTH_AND_CHUNKED |                     \
		HTTP_LENIENT_CHUNKED_HTTP_1_0)

/* Length of the head at `base` with its empty line, whichever way its lines end; 0: not all there,
 * and then it need not be looked for in these `len` bytes again: pass them as `looked`. */
size_t http_lenient_end(const char *base, size_t len, size_t looked);

/* Writes the head, which ends with its empty line, without what of `forgiven` (of enum
 * http_lenient) is in it. Returns what was; 0, with anything in `out`: nothing, or it is to be
 * taken as it came. */
unsigned http_lenient_clean(struct slice head, unsigned forgiven, struct http_out *out);

#endif
