/*
 * A connection to a server as its exchange uses it: the server's side of the exchange, as
 * exchange/client.h is the client's. Its protocol is hidden here; a protocol implements struct
 * server_calls (http1/http1_server.c) and is one of the worker's protocols (struct upstream_part).
 *
 *   server_open_request, server_write_request, server_send_later --> events->send_request
 *   events->event --> server_read_head --> server_open_response --> server_finish
 *
 * The connection's events are in struct server_events (upstream/server_connection.h).
 */
#ifndef UPSTREAM_SERVER_H
#define UPSTREAM_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/framing.h"
#include "worker/wait.h"

struct body_sink;
struct body_source;
struct buffer;
struct conf_upstream;
struct exchange;
struct server_connection;
struct stream_calls;
struct worker;

/* A protocol whose connections have many places, each of which is what an exchange has: it is told
 * of by these. `bytes` of its struct server_calls are a place's, and so are the operations there.
 */
struct server_many {
	size_t bytes; /* of a connection; it begins with its struct server_connection, zeroed */
	const struct stream_calls *stream_calls;

	/* It has begun to connect, to a server with this configuration. */
	void (*begin)(struct server_connection *connection, const struct conf_upstream *conf);
	/* It is connected at once, without a handshake. NULL, or why it can't be used. */
	const char *(*open)(struct server_connection *connection);
	/* An exchange has a place of it, for a request to a server with this configuration; or gave
	 * one back. */
	void (*place_taken)(struct server_connection *connection, struct server_connection *place,
		const struct conf_upstream *conf);
	void (*place_given)(struct server_connection *connection);
	/* Is it of no use any more, although it is not closed yet? */
	bool (*is_over)(const struct server_connection *connection);
	/* Frees what it has besides its own memory. Its stream is still open; its places lose it.
	 */
	void (*end)(struct server_connection *connection);
};

enum server_head {
	SERVER_HEAD_READ,
	SERVER_HEAD_NONE,  /* not all of it has come */
	SERVER_HEAD_BAD,   /* it is malformed */
	SERVER_HEAD_ENDED, /* the connection ended before it, */
	SERVER_HEAD_CUT,   /* or within it */
	SERVER_HEAD_NO_MEMORY,
	SERVER_HEAD_REFUSED, /* none comes: the server has certainly not processed the request */
};

/* The operations of a protocol; the functions below describe most of them. */
struct server_calls {
	size_t bytes; /* of a connection; it begins with its struct server_connection, zeroed */
	const struct server_many *many; /* NULL: a connection has one place, itself */

	struct body_sink *(*open_request)(
		struct server_connection *connection, struct http_head *response);
	bool (*write_request)(struct server_connection *connection, struct exchange *exchange);
	void (*stop_request)(struct server_connection *connection);
	void (*spoil_request)(struct server_connection *connection);
	uint64_t (*bytes_taken)(const struct server_connection *connection);

	void (*expect_head)(struct server_connection *connection, struct http_head *response);
	/* Reads what has come, unless something is there already, and does nothing with it yet. */
	void (*fetch)(struct server_connection *connection);
	enum server_head (*read_head)(struct server_connection *connection);
	bool (*frame_response)(struct server_connection *connection, struct http_head *response,
		enum http_method method, struct http_framing *framing);
	bool (*has_bytes)(const struct server_connection *connection);
	struct body_source *(*open_response)(
		struct server_connection *connection, const struct http_framing *framing);
	uint64_t (*bytes_sent)(const struct server_connection *connection);
	void (*read_again)(struct server_connection *connection);
	void (*read_next_turn)(struct server_connection *connection);
	void (*expect_input)(struct server_connection *connection);

	bool (*finish)(struct server_connection *connection, struct buffer *kept);
	/* Frees what it has besides its own memory. Its stream is closed; that of a place is not,
	 * and the server learns that nothing is wanted of it any more. */
	void (*end)(struct server_connection *connection);
};

/* ---- time ------------------------------------------------------------------------------------ */

/* events->timeout comes in `timeout_ms`, unless it is awaited so already (worker/wait.h). */
void server_await(struct server_connection *connection, enum wait_reason reason, uint64_t progress,
	uint64_t timeout_ms);
/* The server owes nothing now. */
void server_await_nothing(struct server_connection *connection);
enum wait_reason server_awaited(const struct server_connection *connection);

/* ---- the request ----------------------------------------------------------------------------- */

/* This connection as the sink of a request's body, behind its head. The head of the response to it
 * comes into `response`; NULL: none comes. */
struct body_sink *server_open_request(
	struct server_connection *connection, struct http_head *response);

/* The request's head, into the connection's flow. False: no memory. */
bool server_write_request(struct server_connection *connection, struct exchange *exchange);

/* Nothing more of the request is sent, and it may not be whole: the server learns of that by an
 * end.
 */
void server_stop_request(struct server_connection *connection);

/* What was sent of the request is not all of it, and never will be: the end of the connection,
 * which the caller closes, must not pass for that of the request. */
void server_spoil_request(struct server_connection *connection);

/* events->send_request comes when others of this round are to be sent as well. */
void server_send_later(struct server_connection *connection);
bool server_sends_later(const struct server_connection *connection);
/* Runs them. */
void server_send_all(struct worker *worker);

/* Bytes that the server took. */
uint64_t server_bytes_taken(const struct server_connection *connection);

/* ---- the response ---------------------------------------------------------------------------- */

/* Another head comes into `response`: behind an interim response. */
void server_expect_head(struct server_connection *connection, struct http_head *response);

enum server_head server_read_head(struct server_connection *connection);

/* How the body of the response with this head is framed, which depends on the request's method;
 * marks the fields of this hop. False: its head can be read in several ways. */
bool server_frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing);

/* Are bytes of the response here that were not taken yet? */
bool server_has_bytes(const struct server_connection *connection);

/* The response's body. */
struct body_source *server_open_response(
	struct server_connection *connection, const struct http_framing *framing);

/* Bytes that the server sent. */
uint64_t server_bytes_sent(const struct server_connection *connection);

/* It is read once more: when anything comes; in the next turn; and whether or not the loop has
 * reported data or its end. */
void server_read_again(struct server_connection *connection);
void server_read_next_turn(struct server_connection *connection);
void server_expect_input(struct server_connection *connection);

/* ---- its end --------------------------------------------------------------------------------- */

/* All of the response was read: gives back what the connection needs for one only. Its last block,
 * from which something is still borrowed, moves to `kept` (NULL: nothing is). Was the request sent,
 * and no byte read besides, so that the connection may serve another exchange? The response's
 * trailers stay until the connection is kept or closed. */
bool server_finish(struct server_connection *connection, struct buffer *kept);

#endif
