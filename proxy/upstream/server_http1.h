/*
 * A connection to a server as its exchange uses it: the server's side of the exchange, as
 * exchange/client.h is the client's. It speaks HTTP/1; nothing of that shows here but the pump,
 * which frames bodies. A connection of another protocol would have these operations, too.
 *
 *   server_open_request, the head into the pump's flow --server_send_later--> events->send_request
 *   server_expect_head --> events->fetch, event --> server_read_head --> server_open_response
 *
 * What a connection tells its exchange is in struct server_events (upstream/server_connection.h).
 */
#ifndef UPSTREAM_SERVER_HTTP1_H
#define UPSTREAM_SERVER_HTTP1_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/wait.h"

struct buffer;
struct http_head;
struct pump;
struct server_connection;
struct worker;

/* ---- time ------------------------------------------------------------------------------------ */

/* events->timeout comes in `timeout_ms`, unless it is awaited so already (worker/wait.h). */
void server_await(struct server_connection *connection, enum wait_reason reason, uint64_t progress,
	uint64_t timeout_ms);
/* The server owes nothing now. */
void server_await_nothing(struct server_connection *connection);
enum wait_reason server_awaited(const struct server_connection *connection);

/* ---- the request ----------------------------------------------------------------------------- */

/* The pump's sink is this connection, behind what is in its flow. */
void server_open_request(struct server_connection *connection, struct pump *up);

/* events->send_request comes when others of this round are to be sent as well. */
void server_send_later(struct server_connection *connection);
bool server_sends_later(const struct server_connection *connection);
/* Runs them. */
void server_send_all(struct worker *worker);

/* Bytes that the server took. */
uint64_t server_bytes_taken(const struct server_connection *connection);

/* ---- the response ---------------------------------------------------------------------------- */

/* Its head comes into `response`; another one behind an interim response. */
void server_expect_head(struct server_connection *connection, struct http_head *response);

/* Reads what has come, and does nothing with it yet. Nor when something is there already. */
void server_fetch(struct server_connection *connection);

enum server_head {
	SERVER_HEAD_READ,
	SERVER_HEAD_NONE,  /* not all of it has come */
	SERVER_HEAD_BAD,   /* it is malformed */
	SERVER_HEAD_ENDED, /* the connection ended before it, */
	SERVER_HEAD_CUT,   /* or within it */
	SERVER_HEAD_NO_MEMORY,
};

enum server_head server_read_head(struct server_connection *connection);

/* Are bytes of the response here that were not taken yet? */
bool server_has_bytes(const struct server_connection *connection);

/* The pump's source is the response's body. */
void server_open_response(struct server_connection *connection, struct pump *down);

/* Bytes that the server sent. */
uint64_t server_bytes_sent(const struct server_connection *connection);

/* It is read once more: when anything comes; in the next turn; and whether or not the loop has
 * told of what comes, or of its end. */
void server_read_again(struct server_connection *connection);
void server_read_next_turn(struct server_connection *connection);
void server_expect_input(struct server_connection *connection);

/* ---- its end --------------------------------------------------------------------------------- */

/* The request was sent, the response read, and no byte besides: may it serve another exchange? */
bool server_is_clean(const struct server_connection *connection);

/* Moves the last block of the response, from which something is still borrowed, to `kept`. */
void server_give_block(struct server_connection *connection, struct buffer *kept);

#endif
