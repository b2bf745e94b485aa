/*
 * A worker's requests in flight, by caller, for limits of requests in flight (holders.lua). The
 * store counts them as long as the worker's lease of them, so the worker reports them again until
 * it has none:
 *
 *   ask: hold_begin --> answer: hold_end --> held --> hold_drop, when the request is over
 *                                             `--> renewed three times in a lease's length
 *
 * Private to the fleet; all of it belongs to the worker's thread.
 */
#ifndef FLEET_HOLDS_H
#define FLEET_HOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "fleet/rule.h"
#include "loop/deadline.h"
#include "throttle/throttle.h"

struct fleet_batch;
struct fleet_worker;

/* Of one caller of one limit. It is there while it is held or asked for. */
struct hold {
	struct hash_link link;
	struct hold *older, *newer; /* by when the store learned of it */
	struct throttle_key caller;
	const char *limit; /* its name, as long as the worker */
	struct rule rule;
	uint64_t held;    /* that the store has admitted */
	unsigned asking;  /* questions that it has not answered */
	uint64_t told_ms; /* when it last learned of it, on the worker's clock */
};

struct holds {
	struct fleet_worker *fleet;
	uint64_t holder;           /* the worker's number: below 2^53, and no other's; they grow */
	struct throttle_seed seed; /* of the hashes: what all nodes name callers by is no secret */
	struct hash_table hashed;
	struct hold *oldest, *newest;
	struct deadline timer;
};

/* Zeroed memory becomes one without holds. The worker's loop outlives it. False: there is no
 * randomness. */
bool holds_init(struct holds *holds, struct fleet_worker *fleet);
void holds_end(struct holds *holds);

/* The connection to the store, or to a part of it, is lost. Its calls may still arrive there, after
 * those of the next connection: the store tells them apart by the number. */
void holds_leave_connection(struct holds *holds);

/* A question about the caller goes into this batch, which says first what is held. NULL without
 * memory: nothing was said. */
struct hold *hold_begin(struct holds *holds, struct fleet_batch *filling, const struct rule *rule,
	const char *limit, struct throttle_key caller);
/* It was answered, or never will be: so much more is held. May free it. */
void hold_end(struct holds *holds, struct hold *hold, uint64_t more);
/* So much of it is over, and the store learns of it, as far as it can. May free it. */
void hold_drop(struct holds *holds, struct hold *hold, uint64_t less);

#endif
