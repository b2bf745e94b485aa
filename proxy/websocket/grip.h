/*
 * GRIP on a socket of gateway: what its backend's control messages do, and what is published to
 * it.
 *
 *   backend --"c:{...}"--> socket_take_control --> channels.h, keep-alive, detach
 *   publish.h --frame--> deliver --> the socket's send queue
 */
#ifndef WEBSOCKET_GRIP_H
#define WEBSOCKET_GRIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct grip_keep_alive;
struct subscriber_calls;
struct websocket;

/* Deliver to a socket what is published. */
extern const struct subscriber_calls socket_subscriber_calls;

/* Acts on a control message, without its prefix. One that is wrong, or that a bound forbids, is
 * counted, logged for debugging, and otherwise without effect. */
void socket_take_control(struct websocket *socket, struct slice json);

/* When the keep-alive message is due, in milliseconds of the worker's clock; UINT64_MAX: never. */
uint64_t socket_keep_alive_ms(const struct websocket *socket);
/* Sends it. */
void socket_send_keep_alive(struct websocket *socket);

/* Is it subscribed to this channel? */
bool socket_is_subscribed(const struct websocket *socket, struct slice channel);

/* Ends its subscriptions and its keep-alive: the socket ends. */
void socket_end_grip(struct websocket *socket);

#endif
