/* The part of a handshake's listener that requests of gateways read; the listener may end before
 * them: one for all gateways of a worker that came by the same under the same configuration. */
#ifndef WEBSOCKET_SHARED_LISTENER_H
#define WEBSOCKET_SHARED_LISTENER_H

#include <stdint.h>

#include "listen/listener.h"

struct shared_listener {
	struct listener listener; /* `conf` and `use` of it, and no more */
	struct shared_listener *next;
	uint64_t holders;
};

/* Held for the caller, in the list of its worker. NULL: no memory. */
struct shared_listener *shared_listener_hold(
	struct shared_listener **all, const struct conf_listener *conf, struct site_use *use);

/* NULL is ignored. */
void shared_listener_release(struct shared_listener **all, struct shared_listener *shared);

#endif
