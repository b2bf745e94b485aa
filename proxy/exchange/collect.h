/*
 * An answer that is read whole, for the gateway that has asked (gateway/gateway.h), and not
 * relayed to a client: that to the request that opens a socket, and those to its messages.
 *
 *   head --switched->collects--> down.spool --all of it--> switched->answered
 *                                                             |--> collect_switch: TUNNEL
 *                                                             `--> exchange_reply, exchange_end
 */
#ifndef EXCHANGE_COLLECT_H
#define EXCHANGE_COLLECT_H

#include <stdbool.h>

struct exchange;

/* The answer's head is here. False: it is for the client. Else it is read, or was refused. One with
 * more bytes of content than its route allows (gateway_answer_size) counts as malformed. */
bool collect_begin(struct exchange *exchange);

/* The answer is to be held (exchange/held.h): it is read, or was refused. */
void collect_hold(struct exchange *exchange);

/* Reads on. May end the exchange. */
void collect_run(struct exchange *exchange);

/* The answer opens the socket: `response` is the 101 for the client now, whose bytes may go after
 * this. The exchange has no server any more and becomes a TUNNEL; aborts it without memory. */
void collect_switch(struct exchange *exchange);

#endif
