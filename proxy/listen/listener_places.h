/*
 * The places that connections of a listener have within its bounds, and what their number decides:
 * whether it accepts, and when its memory is freed.
 */
#ifndef LISTEN_LISTENER_PLACES_H
#define LISTEN_LISTENER_PLACES_H

#include <stdbool.h>

struct connection_bound;
struct listener;

#define LISTENER_RETRY_MS 500 /* after the system has refused something that it may give later */

/* Takes a place of the listener's max_connections, and one within the descriptors there are. NULL,
 * or the bound that is reached: then it accepts nothing until one of them is free. */
struct connection_bound *listener_take_places(struct listener *listener);
void listener_give_places(struct listener *listener);

/* Begins to accept; where the system refuses, it is deaf and tries again. */
void listener_start(struct listener *listener);

/* A listener that is deaf has its deadline `retry` set: nothing else would wake it. */
void listener_set_deaf(struct listener *listener, bool is_deaf);

/* Frees it if it is closed and has no connection left. */
void listener_release(struct listener *listener);

#endif
