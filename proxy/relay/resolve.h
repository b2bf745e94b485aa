/*
 * Names of servers to addresses, with libevent's evdns on the main thread's loop: once before the
 * workers start, then every resolve_interval. A failed look-up leaves the addresses as they are.
 */
#ifndef RELAY_RESOLVE_H
#define RELAY_RESOLVE_H

#include <event2/event.h>

#include "relay/site.h"

struct resolver;

/* NULL when evdns can't be set up (a line in the log says why). */
struct resolver *resolver_new(struct event_base *base);
void resolver_free(struct resolver *resolver);

/* Takes care of the names of this site from now on, instead of the last one's. */
void resolver_watch(struct resolver *resolver, struct site *site);

/* Runs the loop until each name was answered once, or `timeout_ms` have passed. */
void resolver_wait(struct resolver *resolver, unsigned timeout_ms);

#endif
