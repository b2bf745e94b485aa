/*
 * Lingering: the last response of a connection is written while its client may still be sending,
 * as with a refused upload. Closing then would reset the connection, and a reset takes the response
 * out of the client's socket again (RFC 9112 section 9.6). So only the write end is shut, and what
 * still comes is read and thrown away:
 *
 *   until the client closes             the usual end
 *   or is silent for a few seconds
 *   or two seconds have passed, when its request was not read because it came too slowly
 *   or linger_timeout has passed, or linger_size bytes have come
 *   or the connection gives way         to newer ones beyond max_lingering, and to clients that
 *                                       wait for a descriptor or within max_connections
 *
 * A connection that lingers holds a descriptor and no buffer. Each listener knows its own, oldest
 * first.
 */
#ifndef HTTP1_LINGER_H
#define HTTP1_LINGER_H

#include <stdbool.h>

struct downstream;
struct listener;

/* All is written, and the connection is in DOWNSTREAM_LINGERING: it joins those of its listener. */
void linger_begin(struct downstream *downstream);

/* Are there more of them than may be? */
bool linger_is_full(const struct listener *listener);

/* Something may have come: throws it away, as much as one turn of the loop allows. False: it has
 * lingered to its end. */
bool linger_run(struct downstream *downstream);

/* It closes, in whichever state it is. */
void linger_leave(struct downstream *downstream);

/* A drain has begun: it may be silent for less long. */
void linger_drain(struct downstream *downstream);

#endif
