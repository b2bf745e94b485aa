/*
 * A response that is held: its server has told sluice to keep the client waiting (GRIP), and has
 * nothing more to do with it.
 *
 *   head --switched->holds--> collected (collect.h) --switched->held--> held_begin: no server, no
 *                                                     place       |     place, counted as endless
 *     held_send, ends     a whole response: what is in down.spool <-'
 *     held_send           a stream: down.spool, and what held_append puts behind it --> held_finish
 */
#ifndef EXCHANGE_HELD_H
#define EXCHANGE_HELD_H

#include <stdbool.h>

#include "base/slice.h"

struct exchange;

/* All of the server's answer was collected: gives the server and its places back. False: there are
 * max_streams, and the client is answered 503. */
bool held_begin(struct exchange *exchange);

/* Sends a response with this head, which is borrowed until the exchange has ended, and the content
 * of down.spool; `ends`: that is all. May end the exchange. */
void held_send(struct exchange *exchange, struct slice head, bool ends);

/* More content of a stream. A client that leaves too much of it unread is cut. */
void held_append(struct exchange *exchange, struct slice content);

/* The stream has ended. */
void held_finish(struct exchange *exchange);

#endif
