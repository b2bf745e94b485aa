/*
 * A client's connection that speaks HTTP/2 (RFC 9113): one stream of bytes, one session of nghttp2,
 * and its streams, each of which is a client of its own.
 *
 *   bytes --> session --> streams (http2/h2_stream.h) --> exchanges
 *   bytes <-- out <-- session <-- heads and content
 *
 * What is composed waits in a block for the round's end; no more is composed than that has room
 * for. While so many frames wait behind it that its client can't mean to read them, nothing is read
 * either.
 *
 * It has one deadline: for a greeting, a header block or the acknowledgement of our SETTINGS, for
 * output that its client does not take, and for being idle without a stream. A stream has its own.
 */
#ifndef HTTP2_H2_CONNECTION_H
#define HTTP2_H2_CONNECTION_H

#include "http2/h2_inside.h"

/* The worker's part of this protocol, struct h2_worker. False: no memory. */
bool h2_worker_make(struct worker *worker);
void h2_worker_command(struct worker *worker, unsigned commands);
void h2_worker_free(struct worker *worker);
static inline bool h2_worker_is_empty(const struct worker *worker)
{
	return !h2_part(worker)->connections;
}

/* Takes over a connection on which HTTP/2 was agreed (ALPN). */
void h2_connection_accept(
	struct worker *worker, struct listener *listener, struct accepted *accepted);

/* The same where the first bytes show whether it speaks HTTP/2 (RFC 9113 section 3.3). */
void h2_connection_accept_plain(
	struct worker *worker, struct listener *listener, struct accepted *accepted);

/* Cuts it now, with its streams. `why` for the log. */
void h2_connection_close(struct h2_connection *connection, const char *why);

/* Ends its session and its streams: nothing more is composed. */
void h2_connection_end_session(struct h2_connection *connection);

/* A drain has begun: it announces its end, and ends with its last stream. */
void h2_connection_drain(struct h2_connection *connection);

/* struct protocol (listen/listener.h) */
bool h2_give_way(struct listener *listener);
struct idle_link *h2_find_idle(struct worker *worker, const struct connection_bound *bound);
void h2_close_idle(struct idle_link *link);

#endif
