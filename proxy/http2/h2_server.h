/*
 * A connection to a server that speaks HTTP/2: one session of nghttp2, whose streams are the places
 * of its exchanges (http2/h2_place.h). What the upstream's room does with connections that have
 * many places (upstream/server.h, struct server_many) is done here.
 *
 *   bytes --> session --> places --> exchanges
 *   bytes <-- block <---- heads and content
 *
 * CONNECTING lasts until these are known. It offers as many places as the server's SETTINGS allow,
 * and none after a GOAWAY, by which requests that the server has not processed are known. It has
 * one deadline: for connecting, for output that the server does not take, for a sign of life while
 * exchanges wait (a PING asks for one) and for being idle. Each place has its own.
 */
#ifndef HTTP2_H2_SERVER_H
#define HTTP2_H2_SERVER_H

#include "http2/h2_head.h"
#include "http2/h2_inside.h"
#include "upstream/server_inside.h"

struct h2_place;

struct h2_server {
	struct server_connection connection;
	struct h2_link link;
	struct h2_server *prev, *next; /* all of the worker's */
	struct h2_server *next_unflushed;
	bool unflushed; /* on the worker's list */

	struct h2_place *places; /* all, by prev and next */
	struct h2_ready ready;
	struct h2_head head; /* the header block that is open */
	struct h2_turn turn;
	bool is_greeted; /* the server's SETTINGS have come */

	/* Of the upstream, as of the last request: */
	uint64_t connect_timeout_ms, send_timeout_ms, keepalive_timeout_ms;

	uint64_t pings, pongs;     /* sent, and acknowledged so far */
	uint64_t received_at_pong; /* bytes of the stream when the last one was */
	uint64_t received_at_ping; /* when the first was sent that is not yet acknowledged */
};

_Static_assert(offsetof(struct h2_server, connection) == 0, "it begins with what each has");

static inline struct h2_server *h2_server_of(struct server_connection *connection)
{
	return CONTAINER_OF(connection, struct h2_server, connection);
}

static inline struct h2_server *h2_server_of_link(struct h2_link *link)
{
	return CONTAINER_OF(link, struct h2_server, link);
}

extern const struct server_many h2_server_many;

/* The worker's part of these connections. False: no memory. */
bool h2_servers_make(struct worker *worker);
/* Closes all; no exchange has a place any more. */
void h2_servers_end(struct worker *worker);

/* Something is composed, or will be: it is written at the round's end. */
void h2_server_write_later(struct h2_server *server);

/* Asks for a sign that the server has read what was sent until now: h2_place_ponged. */
void h2_server_ping(struct h2_server *server);

#endif
