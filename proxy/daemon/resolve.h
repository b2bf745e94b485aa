/*
 * Names of servers to addresses, with libevent's evdns on the main thread's loop: once before the
 * workers start, then every resolve_interval, and at a reload. A failed look-up leaves the
 * addresses as they are.
 */
#ifndef DAEMON_RESOLVE_H
#define DAEMON_RESOLVE_H

#include <event2/event.h>

#include "site/site.h"

struct resolver;

struct resolver_calls {
	void (*known)(void *ctx); /* all names of the site that was prepared last are answered */
	void (*left)(void *ctx);  /* a name has lost an address */
};

/* NULL without memory. */
struct resolver *resolver_new(
	struct event_base *base, const struct resolver_calls *calls, void *ctx);
void resolver_free(struct resolver *resolver);

/* Begins to look up the names of `site` that are not looked up yet. False without memory. The
 * prepared changes are then committed or discarded. */
bool resolver_prepare(struct resolver *resolver, struct site *site);
void resolver_discard(struct resolver *resolver);
/* Takes care of the names of this site from now on, instead of the last one's. Those that both have
 * keep their addresses, and are looked up again now. */
void resolver_commit(struct resolver *resolver, struct site *site);

/* Is a name not answered yet that was prepared? */
bool resolver_is_waiting(const struct resolver *resolver);

/* Runs the loop until each name was answered once, or `timeout_ms` have passed. Only before
 * anything else needs the loop; `known` has to break it. */
void resolver_wait(struct resolver *resolver, unsigned timeout_ms);

#endif
