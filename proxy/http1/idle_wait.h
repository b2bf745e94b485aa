/*
 * How long a client's connection may be idle: idle_timeout, from when the client has taken what was
 * sent to it.
 *
 *   written whole --> the client takes it from the system --> idle_timeout --> closed
 *                       nothing of it for send_timeout ----------------------> closed
 *
 * The system takes a response of megabytes at once and has it for as long as the client takes. A
 * request that comes to a connection which was closed meanwhile is answered by a reset, and that
 * takes the rest of the response back. The system does not report when all bytes were accepted: it
 * is asked when the time is over, and sooner behind more than a little.
 *
 * A drain waits for such clients, too, but not for one that takes nothing, nor so long that
 * shutdown_timeout would count it as cut: the system continues sending after that.
 */
#ifndef HTTP1_IDLE_WAIT_H
#define HTTP1_IDLE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

struct downstream;

#define DRAIN_IDLE_MS 1000 /* in a drain: how long a connection may be idle */

/* The known state of an idle connection's client. */
struct idle_wait {
	uint64_t sent;     /* when it became idle */
	uint64_t taken;    /* when it was looked at last */
	uint64_t taken_ms; /* since when it has taken no more; 0: not looked at yet */
	bool takes;        /* it may have taken all just now: its time begins then */
};

/* Nothing is under way: it waits, unless it did so at this progress. */
void idle_wait(struct downstream *downstream);

/* The deadline has passed. NULL: it waits on; else why it is to be closed. */
const char *idle_wait_is_over(struct downstream *downstream);

#endif
