/*
 * A header block as it is decoded, field by field, into the text of the head that a client of
 * HTTP/1 would have sent. Whatever HTTP/1's reader refuses is refused in HTTP/2, too, and no byte
 * reaches a server that a head of HTTP/1 could not have carried.
 *
 *   :method :path :authority --> METHOD PATH HTTP/1.1, Host
 *   fields                   --> a line each; crumbs of Cookie are one line (RFC 9113 8.2.3)
 *   what follows the head    --> Transfer-Encoding: chunked, where no length is known
 *
 * In the same way that of a response becomes one that a server of HTTP/1 would have sent: `:status`
 * is its first line.
 *
 * nghttp2 has checked names, values, the order of pseudo fields and connection fields (RFC 9113
 * sections 8.2 and 8.3); what it leaves to others is checked here.
 */
#ifndef HTTP2_H2_HEAD_H
#define HTTP2_H2_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

enum h2_head_kind { H2_HEAD_REQUEST, H2_HEAD_RESPONSE, H2_HEAD_TRAILERS };

/* A part of the text. */
struct h2_part {
	uint32_t at, len;
	bool is_here;
};

/* One for a connection, as header blocks do not interleave. Zeroed: none is open. */
struct h2_head {
	struct buffer_pool *pool;
	struct buffer text, cookie;
	struct h2_part method, scheme, authority, path, status;
	uint32_t text_at;    /* where the first line begins, once there is one */
	uint32_t most_bytes; /* of the text and the cookie; no more are kept */
	enum h2_head_kind kind;
	bool is_open;
	bool has_line, has_length;
	bool is_bad;       /* no client of HTTP/1 could have sent it: 400 */
	bool is_too_large; /* 431 */
	bool lacks_memory;
};

void h2_head_begin(struct h2_head *head, struct buffer_pool *pool, uint32_t most_bytes,
	enum h2_head_kind kind);

void h2_head_add(struct h2_head *head, struct slice name, struct slice value);

/* The block is complete: its text, which stays until h2_head_end. `has_body`: DATA may follow.
 * SLICE_NONE: it is bad, too large, or there is no memory. */
struct slice h2_head_finish(struct h2_head *head, bool has_body);

/* Gives its memory back. Also when none is open. */
void h2_head_end(struct h2_head *head);

#endif
