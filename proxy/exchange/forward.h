/* The request up to its server and the response's head from there (exchange/forward.c). */
#ifndef EXCHANGE_FORWARD_H
#define EXCHANGE_FORWARD_H

#include <stdbool.h>

struct exchange;

/* Its connection is there: composes the request, which leaves at the end of the round. False: there
 * was no memory, or its body could not be read back, and the exchange is over. */
bool forward_start(struct exchange *exchange);

/* The events of its connection from then on (struct server_events). */
void forward_event(struct exchange *exchange);
void forward_send(struct exchange *exchange);
void forward_timeout(struct exchange *exchange);

/* Moves what can be moved: the request's body up, the response down. */
void exchange_run(struct exchange *exchange);

#endif
