/* An exchange's questions to an authority over its limits (exchange/turn_ask.c). */
#ifndef EXCHANGE_TURN_ASK_H
#define EXCHANGE_TURN_ASK_H

#include <stdbool.h>

#include "exchange/exchange.h"
#include "gate/authority.h"

/* It has no place yet. True: its authority has admitted it by what it has here. False: it is to be
 * asked. */
bool turn_admit_at_once(struct exchange *exchange);

/* It holds its place in its session and none at its upstream: enters ASKING and asks its authority.
 * `judged` is called once the verdict is there, now or later, unless that refuses it: then it is
 * answered. 503 without memory, and when no verdict comes in the authority's time. */
void turn_ask(struct exchange *exchange, void (*judged)(struct exchange *exchange));

/* The first question of an exchange: its delays count from here. */
void turn_ask_first(struct exchange *exchange, void (*judged)(struct exchange *exchange));

/* No reply came in time: its authority concludes without one, and one that comes later finds no
 * question. */
void turn_expire_question(struct exchange *exchange);

/* A reply to the question of an exchange (struct questions). */
void turn_answered(
	void *exchange, enum authority_answer answer, const struct authority_judgement *judgement);

/* Is its verdict an authority's, and too old to be sent by? */
bool turn_verdict_is_old(const struct exchange *exchange);
static inline bool turn_is_old(const struct exchange *exchange)
{
	return exchange->gate->receipt.authority && turn_verdict_is_old(exchange);
}

/* Its turn has come with an old verdict: gives back what that took, asks again and is forwarded or
 * delayed then. It keeps its place meanwhile. */
void turn_renew_due(struct exchange *exchange);

/*
 * Of messages that leave in one request with the first, of which each has a verdict of its own. All
 * of them are asked about again in one turn of the loop, so that a store answers them in one call:
 *
 *   first: old when its turn comes --ASKING--> judged --turn_await_riders--> all judged: forwarded
 *   those behind it, old: turn_renew --ASKING--> judged: HELD, where they were
 */

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

#endif
