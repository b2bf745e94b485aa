/* An exchange on the way to its turn (exchange/turn.c). Its limits are in turn_limits.h, questions
 * about them in turn_ask.h, its place in the queue in turn_place.h. */
#ifndef EXCHANGE_TURN_H
#define EXCHANGE_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "throttle/throttle.h"

struct exchange;
struct kept_request;

/* Its request is read and has a route: has its limits judged, and takes its place in its client's
 * order; before the verdict, if that may come later. */
void turn_begin(struct exchange *exchange);

/* The same for a message of the connection that `handshake` has opened, which says whose it is. */
void turn_begin_message(struct exchange *message, const struct kept_request *handshake);

/* The same for an event of the gateway's own, which nothing limits, in the session of this key. */
void turn_begin_event(struct exchange *event, struct throttle_key session);

/* It has a server and could not be sent: it is forwarded once more after so long. It keeps its
 * place in its client's order until then, and none at its upstream. */
void exchange_try_later(struct exchange *exchange, uint64_t after_ms);

/* Its turn has come: through the gate when it was delayed, then on. */
void exchange_admit(struct exchange *exchange);

/* Waits for its turn, or again, until queue_timeout is over. */
void exchange_await_turn(struct exchange *exchange);

/* QUEUED, for a connection or a descriptor: find_server_again is called after so long, if the time
 * is not over. */
void exchange_look_again(struct exchange *exchange, uint64_t after_ms);

/* DELAYED, as its verdict says, without a place at its upstream; then exchange_admit. */
void turn_delay(struct exchange *exchange);

/* Sets its deadline: what that does depends on its state by then. */
void turn_wait_until(struct exchange *exchange, uint64_t at_ms);

#endif
