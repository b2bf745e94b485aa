/*
 * What a connection of HTTP/2 waits for, as a whole (worker/wait.h):
 *
 *   TAKE    output that its client does not read            send_timeout, from each byte
 *   HEAD    the greeting, a header block, or the            header_timeout
 *           acknowledgement of our SETTINGS
 *   IDLE    no stream                                       idle_timeout; a drain shortens it
 *   IDLE    draining, until its announcement has arrived    H2_NOTICE_MS
 *   LINGER  the client's end                                http2/h2_linger.h
 *
 * Before one of these streams' deadlines run (http2/h2_stream.h). An idle connection whose client
 * has not taken all of the last response is not idle yet, unless it takes nothing any more.
 */
#ifndef HTTP2_H2_WAIT_H
#define HTTP2_H2_WAIT_H

#include "loop/deadline.h"

struct h2_connection;

/* How long an announced end waits for its acknowledgement. */
#define H2_NOTICE_MS 1000
/* In a drain: how long a connection may be idle. */
#define H2_DRAIN_IDLE_MS 1000

/* Sets its deadline by its state. */
void h2_wait(struct h2_connection *connection);

/* It has passed. */
void h2_wait_passed(struct deadline *deadline);

#endif
