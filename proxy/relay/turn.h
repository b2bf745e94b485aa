/* An exchange's limits and its place in its client's order (relay/turn.c). What goes on from there
 * is in relay/exchange.h. */
#ifndef RELAY_TURN_H
#define RELAY_TURN_H

#include <stdbool.h>

struct exchange;

/* Asks the limits, the first time and again when a delay is over. False: refused, and answered. */
bool turn_ask(struct exchange *exchange);

/* Takes its place in its client's order. */
void turn_enter(struct exchange *exchange);

#endif
