/*
 * Responses without end: event streams (text/event-stream and stream_types) and upgraded
 * connections. They last for as long as their client is there, so they hold no place at their
 * upstream or server, which are for requests that end; max_streams bounds how many of them an
 * upstream has at once.
 *
 *   the response's head --endless_begin--> counted at the upstream --endless_end--> over
 *                             `--> refused, as there are max_streams already
 */
#ifndef EXCHANGE_ENDLESS_H
#define EXCHANGE_ENDLESS_H

#include <stdbool.h>

struct exchange;

/* Is the response whose head has come an event stream, or of another type that never ends? */
bool endless_is_events(const struct exchange *exchange);

/* Gives the exchange's places back and counts it. False when its upstream has as many as it may:
 * then the client is answered 503 in place of the response. Once for an exchange. */
bool endless_begin(struct exchange *exchange);

#endif
