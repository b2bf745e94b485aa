/*
 * One HTTP/1.x message after another off a byte stream: llhttp reads the syntax of heads, this
 * adapter records the places of the parts and refuses what llhttp wrongly accepts. A head that is
 * there at once and of the plain form is read without llhttp (http/head_scan.h).
 *
 *   bytes --http_parser_head--> struct http_head      (stops right behind the empty line)
 *         --http_parser_chunked--> body bytes, decoded where they lie, and the trailer section
 *
 * Bodies with a Content-Length or until the close need no parser: the relay counts their bytes.
 */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/chunked.h"
#include "http/message.h"

struct http_parser_limits {
	uint32_t head_bytes;   /* the whole head: 431 */
	uint32_t target_bytes; /* the request-target: 414 */
	uint32_t fields;       /* field lines: 431 */
};

struct http_parser {
	llhttp_t llhttp; /* begun when a head was not of the plain form */
	struct http_head *head;
	const char *piece; /* that llhttp has now, and where in the head it is; not always of */
	uint32_t piece_at; /* the head's bytes, see execute() */
	struct http_parser_limits limits;
	uint32_t fed;          /* bytes of this head read so far; offering no more is of no use */
	uint16_t error_status; /* after HTTP_PARSE_BAD: the status to answer a request with */
	bool is_request;
	bool is_begun; /* the head is llhttp's to read: it was not there at once, or not plain */
	bool has_method;
	bool in_target;     /* of a request whose method was read: its target continues */
	uint32_t target_at; /* where it begins */
	bool in_value;      /* the last piece was of a field's value */
	bool headers_done;
	struct http_chunked chunked; /* of the body behind the head */
};

/* Begins a message: `head` is emptied and filled by the calls to come. A parser that was zeroed or
 * ended is needed. Limits of 0 mean none. */
void http_parser_begin_request(struct http_parser *parser, struct http_head *head,
	const struct http_parser_limits *limits);
void http_parser_begin_response(struct http_parser *parser, struct http_head *head,
	const struct http_parser_limits *limits);

/*
 * `base`: where the head begins, behind any empty line; `len`: all of it that is there by now,
 * those of earlier calls included, possibly moved as a whole. DONE: head->len bytes were the head,
 * head->base is base. BAD: error_status is the status to answer: 400, 414, 431, 501 (a method that
 * is too long, or known but for its case), 505.
 */
enum http_parse http_parser_head(struct http_parser *parser, const char *base, size_t len);

/*
 * Decodes a chunked body behind that head in place: of `len` bytes at `data`, `*consumed` were read
 * and `*produced` bytes of content are now at `data`. DONE after the trailer section, with
 * parser->chunked.trailers filled; BAD as http_chunked_decode, with error_status 400.
 */
enum http_parse http_parser_chunked(
	struct http_parser *parser, char *data, size_t len, size_t *consumed, size_t *produced);

/* Reads a whole head of a response. False: `bytes` do not begin with one that is valid and within
 * the limits (NULL: none). The head borrows from `bytes`; the caller clears it, also after false.
 */
bool http_read_response(
	struct http_head *head, struct slice bytes, const struct http_parser_limits *limits);

/* Frees what the parser holds (not the head). It can begin another message. */
void http_parser_end(struct http_parser *parser);

/* An empty head in memory of any content. */
void http_head_init(struct http_head *head);

/* Frees a head's fields when they did not fit inline. */
void http_head_clear(struct http_head *head);

#endif
