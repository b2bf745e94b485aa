/*
 * The quick way through a head: one pass over bytes that are all there, for heads of the plain form
 * that nearly all of them have.
 *
 *   http_parser_head --first bytes--> http_scan_request --true---------> head filled
 *                                             `--------- false --> llhttp from the first byte on
 *
 * It never refuses anything: whatever is incomplete, unusual or wrong is llhttp's to read and to
 * judge. llhttp accepts all that it accepts, with the same result (tests/fuzz/fuzz_scan.c compares
 * them). The plain form is
 *
 *   - a method with an id of its own, a target in origin-form of printable ASCII without `#`
 *   - HTTP/1.0 or HTTP/1.1, single spaces, CRLF at the end of every line
 *   - at most HTTP_HEAD_FIELDS_INLINE fields; none folded
 *   - neither Transfer-Encoding nor Upgrade, whose state llhttp keeps on behind the head, and one
 *     Content-Length at most
 */
#ifndef HTTP_HEAD_SCAN_H
#define HTTP_HEAD_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "http/message.h"
#include "http/parser.h"

/*
 * `base`: `len` bytes from the head's first one, which may continue after its end. True: `head`
 * (empty before) is filled, its ids included, and head->len bytes were the head. False: the plain
 * form did not show; `head` has to be emptied. Limits of 0 mean none; a head beyond one is false,
 * too.
 */
bool http_scan_request(struct http_head *head, const char *base, size_t len,
	const struct http_parser_limits *limits);
bool http_scan_response(struct http_head *head, const char *base, size_t len,
	const struct http_parser_limits *limits);

/* How many bytes at `at` are a token's (RFC 9110 section 5.6.2). */
size_t http_token_len(const char *at, size_t len);

#endif
