/*
 * GRIP on a socket of gateway: what its backend's control messages do, what is published to it, and
 * the signature by which a backend knows sluice.
 *
 *   backend --"c:{...}"--> socket_take_control --> channels.h, keep-alive, detach
 *   publish.h --frame--> grip_deliver --> the socket's send queue
 */
#ifndef CHANNELS_GRIP_H
#define CHANNELS_GRIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct grip_keep_alive;
struct grip_meta;
struct shared_frame;
struct subscriber;
struct subscription;
struct websocket;
struct worker;

/* Acts on a control message, without its prefix. One that is wrong, or that a bound forbids, is
 * counted, logged for debugging, and otherwise without effect. */
void socket_take_control(struct websocket *socket, struct slice json);

/* Sends a published frame to the socket that has this subscriber; a close frame closes it, behind
 * what waits in its queue. The socket does not end during the call. True: it was queued. */
bool grip_deliver(struct subscriber *subscriber, struct shared_frame *frame);

/* Do the filters of this subscription let a publication with this meta through? */
bool grip_lets(const struct subscription *subscription, const struct grip_meta *meta);

/* Has the server of the socket that has this subscriber get a request without events: now, or when
 * the one under way is answered. */
void grip_refresh(struct subscriber *subscriber);

/* When the keep-alive message is due, in milliseconds of the worker's clock; UINT64_MAX: never. */
uint64_t socket_keep_alive_ms(struct websocket *socket);
/* Sends it. */
void socket_send_keep_alive(struct websocket *socket);

/* Is it subscribed to this channel? */
bool socket_is_subscribed(const struct websocket *socket, struct slice channel);

/* Ends its subscriptions and its keep-alive: the socket ends. */
void socket_end_grip(struct websocket *socket);

/* The value of Grip-Sig, a token signed with grip_key that expires within an hour; empty without a
 * key or memory. It is valid until the worker's next call. */
struct slice grip_signature(struct worker *worker);

#endif
