/*
 * The upstreams whose health checks the fleet shares (health_shared), and the connection to the
 * store, which determines the probing node (fleet/probing.h).
 *
 *   check.h --is_mine, probed--> shared_upstream --ask--> locks --> store
 *           <--hurry, take-------      |        <--answer--
 *                                      `--> upstream_state.probes, for people
 *
 * All of it belongs to the main thread, which has a connection of its own as long as an upstream is
 * shared. Without one, nothing is opened and no timer runs.
 */
#ifndef DAEMON_PROBERS_H
#define DAEMON_PROBERS_H

#include <stdbool.h>

#include "daemon/check.h"
#include "store/locks.h"
#include "store/store_link.h"
#include "loop/loop.h"

struct shared_upstream;

/* Private to it and to shared_upstream.h. */
struct probers {
	struct loop *loop;
	struct checks *checks;
	struct check_sharing sharing;
	struct loop_stage stage;
	struct store_link link;
	struct locks locks;
	const char *default_name;
	char *prefix;                  /* of the store's keys; NULL: the store is not open */
	char self[LOCK_SESSION_BYTES]; /* node/instance */
	char instance[20];
	bool is_made; /* link and locks are */
	bool is_leaving;
	struct site *site; /* a hold; NULL: nothing is shared yet */
	struct shared_upstream *first;
};

/* `default_name` is the node's where the configuration has none; it, the loop and the checks
 * outlive it. NULL without memory. */
struct probers *probers_new(struct loop *loop, struct checks *checks, const char *default_name);

/* This site's upstreams are shared from now on. Without memory one is not, with a line in the log:
 * the node then probes for itself. */
void probers_commit(struct probers *probers, struct site *site);

/* Gives all locks up and takes none any more; what others find is learned still. NULL is
 * ignored. */
void probers_leave(struct probers *probers);

/* Gives all locks up, as far as the store can be reached. The loop does not run any more, and the
 * checks exist. NULL is ignored. */
void probers_free(struct probers *probers);

/* ---- health share --------------------------------------------------------------------------- */

/* Health checks that nodes share (health_shared): see probers.h. Without Redis no configuration has
 * any. All on the main thread. */

struct daemon;

/* False without memory, with a line in the log. */
bool health_share_begin(struct daemon *daemon);

/* The daemon's site is current, and its servers are checked. */
void health_share_commit(struct daemon *daemon);

/* The daemon stops: other nodes probe from now on, and this one learns what they find. */
void health_share_leave(struct daemon *daemon);

/* Before the checks are freed, and the fleet. */
void health_share_end(struct daemon *daemon);

#endif
