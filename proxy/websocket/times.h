/* A socket's deadlines. */
#ifndef WEBSOCKET_TIMES_H
#define WEBSOCKET_TIMES_H

#include "websocket/state.h"

/* It is open. */
void socket_times_begin(struct websocket *socket);
/* Sets its next deadline. */
void socket_watch(struct websocket *socket);
/* The deadline has passed: does what is due. May end the socket. */
void socket_look_at_times(struct websocket *socket);
/* A ping of our own goes to the client behind the server's message, or, when that continues for as
 * long as an answer may take (ping_timeout), between two of its frames. Some clients fail at a ping
 * within a compressed message, which RFC 6455 section 5.4 allows. */
void socket_ask_client(struct websocket *socket);
/* In a drain: it ends at a time of its own. */
void socket_drain(struct websocket *socket);

#endif
