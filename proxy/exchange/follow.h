/* A message that is sent together with the one before it, in one write to their socket's server: it
 * needs no place of its own, and overtakes no other request. */
#ifndef EXCHANGE_FOLLOW_H
#define EXCHANGE_FOLLOW_H

#include <stdbool.h>

struct exchange;

/* May it go now, with its lead (tunnel.lead), which is on its way and not over? A limit that
 * charges it when it leaves has charged it then. False: it takes a place as any other. */
bool follow_lead(struct exchange *exchange);

/* The lead is about to end: those that went with it count in its session. */
void follow_count(const struct exchange *lead);

#endif
