/*
 * GRIP's Grip-Hold: a server's answer to an ordinary request subscribes its client to channels.
 *
 *   Grip-Hold: response    the client waits for the first publication (http-response), or gets the
 *                          answer itself after Grip-Timeout
 *   Grip-Hold: stream      the client gets the answer, and publications (http-stream) behind it
 *
 * The head and the content of a publication are in a shared_frame's payload: its frame's head is of
 * no use here.
 */
#ifndef CHANNELS_GRIP_HOLD_H
#define CHANNELS_GRIP_HOLD_H

#include <stdbool.h>

struct exchange;
struct worker;

/* The operations of exchange/switched.h. */
bool grip_holds(struct exchange *exchange);
void grip_held(struct exchange *exchange);
void grip_let_go(struct exchange *exchange);

/* The worker drains: held responses end spread over half of shutdown_timeout. */
void grip_holds_drain(struct worker *worker);

#endif
