/*
 * An upstream whose health checks the fleet shares, on one node: asks the store about its lock,
 * publishes what this node found, and takes what another one did. Private to probers.h.
 */
#ifndef DAEMON_SHARED_UPSTREAM_H
#define DAEMON_SHARED_UPSTREAM_H

#include <stdbool.h>

#include "daemon/probers.h"
#include "fleet/probing.h"
#include "upstream/upstream.h"

/* 64 servers (conf/options_upstream.c) with the longest addresses. */
#define SHARED_VALUE_BYTES 32768

struct shared_upstream {
	struct shared_upstream *next;
	struct probers *probers;
	struct upstream_state *state; /* a hold */
	struct probing probing;
	struct lock_ask ask;
	struct deadline tick;
	bool is_asked;  /* the store has not answered */
	bool is_urgent; /* it is to be asked again as soon as it has */
	bool is_seen;   /* by the commit under way */
	struct probes_sight logged;
	char name[LOCK_NAME_BYTES];
	char value[SHARED_VALUE_BYTES];
};

/* The upstream's lock: of its name, and of what its checks ask, so that nodes share only what they
 * would have found alike. */
void shared_upstream_name(const struct conf_upstream *conf, char name[static LOCK_NAME_BYTES]);

/* Begins to share it, and asks the store. NULL without memory. */
struct shared_upstream *shared_upstream_new(struct probers *probers,
	const struct upstream *upstream, const struct probing_terms *terms);
/* Other times, and the same servers or others. */
void shared_upstream_change(struct shared_upstream *shared, const struct probing_terms *terms);
/* Gives the lock up and frees it; the upstream is not shared any more. */
void shared_upstream_free(struct shared_upstream *shared);

/* Asks the store: now, or when it has answered what it is asked already. */
void shared_upstream_ask(struct shared_upstream *shared);
/* Time has passed, or the store has come or gone. */
void shared_upstream_look(struct shared_upstream *shared);

bool shared_upstream_is_mine(struct shared_upstream *shared, const struct server *server);

/* ---- semaphores ----------------------------------------------------------------------------- */

/* The slots of semaphores that the daemon's upstreams take: see semaphore/keeping.h. Without
 * RabbitMQ no configuration has any. All on the main thread. */

struct daemon;

/* False without memory, with a line in the log. */
bool semaphores_begin(struct daemon *daemon);

/* The daemon's site is current. */
void semaphores_commit(struct daemon *daemon);

/* The workers have ended. */
void semaphores_end(struct daemon *daemon);

#endif
