/* An exchange's limits and its place in its client's order (exchange/turn.c). */
#ifndef EXCHANGE_TURN_H
#define EXCHANGE_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "gate/authority.h"

struct conf_key;
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

/* A reply to the question of an exchange (struct questions). */
void turn_answered(
	void *exchange, enum authority_answer answer, const struct authority_judgement *judgement);

/* All before it on its connection are answered: go on with what waited for that. */
void exchange_next(struct exchange *exchange);

/*
 * Of messages that leave in one request with the first, of which each has a verdict of its own. All
 * of them are asked about again in one turn of the loop, so that a store answers them in one call:
 *
 *   first: old when its turn comes --ASKING--> judged --turn_await_riders--> all judged: forwarded
 *   those behind it, old: turn_renew --ASKING--> judged: HELD, where they were
 */

/* Is its verdict an authority's, and too old to be sent by? */
bool turn_is_old(const struct exchange *exchange);
/* HELD, in the queue, with such a verdict: gives back what that took and asks again. It may be
 * refused and ended by that. */
void turn_renew(struct exchange *exchange);
/* Is it being asked about by turn_renew? */
bool turn_is_renewed(const struct exchange *exchange);
/* In ASKING, judged, when it is to be forwarded: it stays in that state until exchange_forward, at
 * most as long as an authority may take to answer. */
void turn_await_riders(struct exchange *exchange);
/* Does it do so? */
bool turn_awaits_riders(const struct exchange *exchange);

/* Its turn has come: through the gate when it was delayed, then on. */
void exchange_admit(struct exchange *exchange);

/* Waits for its turn, or again, until queue_timeout is over. */
void exchange_await_turn(struct exchange *exchange);

/* QUEUED, for a connection or a descriptor: find_server_again is called after so long, if the time
 * is not over. */
void exchange_look_again(struct exchange *exchange, uint64_t after_ms);

/* The hash of another key of this request: for balance = hash. */
uint64_t exchange_hash_key(const struct exchange *exchange, const struct conf_key *key);

#endif
