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

/* The same for a message of the connection that `handshake` has opened, which has its caller. */
void turn_begin_message(struct exchange *message, const struct kept_request *handshake);

/*
 * The same for an event of the gateway's own, which nothing limits, in the session of this key.
 *
 * It waits for a place at its upstream like any request, as max_in_flight and pace protect servers
 * from whatever sluice sends. But where it tells the server of a socket's end
 * (EXCHANGE_DISCONNECT), within a second as promised, a server that is busy for longer must not
 * learn of it when those who talk to that socket have long gone on: it waits in the high lane,
 * TURN_END_WAIT_MS at most, and is then sent without a place. So many beyond its places an upstream
 * bears: TURN_UNPLACED_MOST at once, so that a thousand clients that are cut at once do no harm;
 * more of them wait on. So do those for which its pace, or a server's own max_in_flight, has no
 * room: they wait without end.
 */
#define TURN_END_WAIT_MS   500
#define TURN_UNPLACED_MOST 16
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

/* One that tells of an end has waited long enough for a place, or can't be queued for one: it is
 * sent without, or waits until fewer others are. */
void turn_go_without_place(struct exchange *exchange);

/* DELAYED, by its verdict, without a place at its upstream; then exchange_admit. */
void turn_delay(struct exchange *exchange);

/* CONNECTING, and its connection is there: is it admitted by this moment, too? If not, it has lost
 * the connection and is delayed, or answered. Only of one that is to be judged (gate->judged_late).
 */
bool turn_is_confirmed(struct exchange *exchange);

/* Sets its deadline: what that does depends on its state by then. */
void turn_wait_until(struct exchange *exchange, uint64_t at_ms);

#endif
