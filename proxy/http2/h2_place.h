/*
 * A stream to a server as the place that an exchange has of its connection: the operations of
 * upstream/server.h.
 *
 *   open_request, write_request --> HEADERS, DATA --> server
 *   heads, source  <-- HEADERS, DATA <-- server;  closed: the session knows it no more
 *
 * A stream that is given up is reset. One whose request was stopped keeps its place until the
 * server has acknowledged a PING behind the reset, and so has read it.
 */
#ifndef HTTP2_H2_PLACE_H
#define HTTP2_H2_PLACE_H

#include "http2/h2_server.h"
#include "http2/h2_sink.h"
#include "http2/h2_source.h"

struct h2_place {
	struct server_connection connection;
	struct h2_place *prev, *next; /* of its connection's */
	struct h2_place *next_ready;
	struct h2_source source;
	struct h2_sink sink;
	struct http_head *response;
	struct buffer heads; /* texts of heads: the one that was read last, and those behind it */
	uint32_t head_read;  /* bytes of that one, until another is expected; 0: there is none */
	uint64_t head_bytes; /* that came, so far */
	uint64_t stopped_at; /* the PING behind the reset of a stopped request; 0: none yet */
	int32_t id;          /* 0: no request was sent */
	bool is_stopped;     /* no more of its request is sent: the reset is on its way */
	bool ready;          /* on its connection's list, or the worker's where that is lost */
	bool closed;         /* the session knows it no more */
	bool has_final_head; /* came */
	bool is_bad;         /* what came is no response */
	bool lacks_memory;
};

_Static_assert(offsetof(struct h2_place, connection) == 0, "it begins with what each has");

static inline struct h2_place *h2_place_of(struct server_connection *connection)
{
	return CONTAINER_OF(connection, struct h2_place, connection);
}

extern const struct server_calls h2_place_calls;

/* Taken of the connection, which lists it. */
void h2_place_begin(struct h2_server *server, struct server_connection *place);
/* Its connection ends before it; `why`, a text that stays. */
void h2_place_lose(struct h2_place *place, const char *why);

/* Its exchange gets an event at the round's end. */
void h2_place_run_later(struct h2_place *place);
/* Passes the events on of those that are ready. */
void h2_place_run_ready(struct h2_ready *ready);

/* Events of its stream: a header block is complete in the connection's head; content; the end; the
 * request's head was composed, with these bytes; so was its reset; the stream is closed, by an
 * error code; the server has read all until this PING. */
void h2_place_head(struct h2_place *place, bool is_end);
void h2_place_body(struct h2_place *place, const uint8_t *bytes, size_t len);
void h2_place_ended(struct h2_place *place);
void h2_place_head_sent(struct h2_place *place, size_t bytes, bool is_end);
void h2_place_reset_sent(struct h2_place *place);
void h2_place_closed(struct h2_place *place, uint32_t error_code);
void h2_place_ponged(struct h2_place *place, uint64_t number);
/* The server will certainly not process it. */
void h2_place_refused(struct h2_place *place);

#endif
