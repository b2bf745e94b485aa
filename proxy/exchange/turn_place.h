/* The place of an exchange in its client's order (exchange/turn_place.c). */
#ifndef EXCHANGE_TURN_PLACE_H
#define EXCHANGE_TURN_PLACE_H

#include <stdbool.h>

struct exchange;

/* It has its verdict: takes its place, or waits for those before it on its connection. */
void turn_enter(struct exchange *exchange);

/* It has none yet: takes its place, then asks its authority. False: it has its verdict, as none of
 * the authority's limits apply, or as the authority has admitted it at once. */
bool turn_enter_and_ask(struct exchange *exchange);

/* It is in the queue without a place at its upstream, and can use one now: continues, waits for its
 * turn, or is turned away. */
void turn_leave_aside(struct exchange *exchange);

/* Its turn has come, but it waits for something else: others need not wait for that, so it gives
 * its place at the upstream back until turn_leave_aside. */
void turn_yield_place(struct exchange *exchange);

/* A message in HELD that gave its place up to leave with another takes one right behind `before`,
 * ahead of what others of its session have sent since. It gives back what its verdict took, and is
 * judged when its turn comes. Where its session ends, it is turned away when it is the first. */
void turn_enter_behind(struct exchange *message, const struct exchange *before);

/* A message may be sent together with the one before it (its lead, tunnel.lead), in one write to
 * their socket's server: it needs no place of its own, and overtakes no other request. */

/* May it go now, with its lead, which is on its way and not over? A limit that charges it when it
 * leaves has charged it then. False: it takes a place as any other. */
bool follow_lead(struct exchange *exchange);

/* The lead is about to end: those that went with it count in its session. */
void follow_count(const struct exchange *lead);

/* All before it on its connection are answered: continue with what waited for that. */
void exchange_next(struct exchange *exchange);

#endif
