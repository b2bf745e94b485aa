/*
 * A chunked body (RFC 9112 section 7.1), decoded where it lies:
 *
 *   3;a="b"\r\nabc\r\n0\r\nDigest: x\r\n\r\n  -->  abc, and the trailer `Digest: x`
 *
 * Extensions are read by their grammar and dropped: none is known, and a sender that writes them
 * otherwise may mean something else by the bytes behind them. Nothing is forgiven (bare LF, blanks
 * where the grammar has none, folded trailers) but what http_chunked_forgive names.
 */
#ifndef HTTP_CHUNKED_H
#define HTTP_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_parse { HTTP_PARSE_MORE, HTTP_PARSE_DONE, HTTP_PARSE_BAD };

/* Deviations that may be accepted, as bits. */
enum http_chunked_deviation {
	HTTP_CHUNKED_BLANKS = 1 << 0, /* blanks between a chunk's size and its line's end */
	HTTP_CHUNKED_LF = 1 << 1,     /* LF for CRLF: behind a size, a chunk and a trailer */
};

struct http_chunked {
	uint8_t state;       /* of chunked.c */
	uint8_t forgiven;    /* of enum http_chunked_deviation; kept from one body to the next */
	uint8_t found;       /* which of them this body had */
	uint64_t left;       /* of this chunk's data; of its size what was read so far */
	uint32_t line_bytes; /* of the size line or trailer section so far */
	uint32_t excess;     /* of framing over what the content justifies */
	char *trailers;      /* field lines, `Name: value` and CRLF each; owned */
	uint32_t trailers_len, trailers_capacity;
	uint32_t value_at; /* where the value of the last of these begins */
};

/* Size lines, extensions and trailers may not outgrow the content by more. */
#define HTTP_CHUNKED_EXCESS (16 * 1024)

/* Before a body. Needs a zeroed object, or one that was used before. */
void http_chunked_begin(struct http_chunked *chunked);

/*
 * Reads `*consumed` of the `len` bytes at `data`, and leaves `*produced` bytes of content at
 * `data`. MORE: all were read. DONE: the body and its trailers ended there. BAD: this is no chunked
 * body, or too little of it is content.
 */
enum http_parse http_chunked_decode(
	struct http_chunked *chunked, char *data, size_t len, size_t *consumed, size_t *produced);

struct http_chunked_extent {
	uint64_t content_bytes;
	bool has_trailers;
};

/* Does a body that begins with these bytes seem to end in them? Then `extent` describes it. Only
 * where its lines end is looked at and nothing is judged: decoding these bytes ends with DONE or
 * BAD. */
bool http_chunked_is_whole(const char *data, size_t len, struct http_chunked_extent *extent);

/* Frees what it holds. */
void http_chunked_end(struct http_chunked *chunked);

#endif
