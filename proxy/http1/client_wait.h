/*
 * How long a client may take over what we wait for: its request's head, its request's body, or
 * taking what was sent to it. For all of them there is a time without progress (header_timeout,
 * body_timeout, send_timeout), and for bodies either way a minimum rate besides (http1/min_rate.h),
 * if the route asks for one:
 *
 *   body of the request    bytes of content, while we wait for it and not for the server
 *   body of the response   bytes that the client's system took, while there are more for it
 *
 * Each body has its grace once: other waiting in between spends none of it, and gives none.
 *
 * Event streams and upgraded connections have no rate: their clients take what there is.
 */
#ifndef HTTP1_CLIENT_WAIT_H
#define HTTP1_CLIENT_WAIT_H

#include <stdbool.h>

struct downstream;

/* Waits for what the client has to do next, until it has had its time. False: there is nothing of
 * that kind. */
bool client_wait(struct downstream *downstream);

/* The time of its WAIT_BODY or WAIT_TAKE is over. True: so is its patience; `*why` has the bound.
 * False: it has gone on without our seeing it, and has time again. */
bool client_wait_is_over(struct downstream *downstream, const char **why);

/* Its memory is freed. */
void client_wait_end(struct downstream *downstream);

#endif
