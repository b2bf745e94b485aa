/*
 * Limits that are shared by the fleet and judged by this node's table: a part of the quota is
 * reserved for other nodes. Private to the fleet; it knows neither nodes nor a store.
 *
 *   |<-------------------- quota -------------------->|
 *   | used on this node | free here |     reserved    |
 *
 * A cost fits when what is used here, the cost and the reserve are at most the quota. So a trailing
 * window holds at most quota - reserve admitted here, where the reserve is that of the last
 * admission in it: the table counts all that was admitted, whatever the reserve was then.
 *
 * Each take is judged again by what the table says after it, and given back if that is too much:
 * threads that take at once never leave more than fits.
 */
#ifndef FLEET_RESERVE_H
#define FLEET_RESERVE_H

#include "throttle/throttle.h"

struct reserve {
	uint64_t units;    /* of the quota; 0: all of it is this node's */
	uint64_t falls_ns; /* from now: when the reserve may be smaller; the time to retry where
			      nothing else says one */
	uint64_t quota;    /* of which the units are a part: where a reload has just given the table
			      another, it does not add to this node's part; 0: any */
};

/* As throttle_take, with a reserve for each charge: for limits by a trailing window or a period.
 * An outcome's quota is that of the limit, and what remains is free on this node. Of a refusal,
 * limits that are not violated say what is left when nothing is taken; verdict.retry_after_ns and
 * delay are not set. */
void reserve_take(struct throttle_table *table, const struct throttle_charge *charges,
	const struct reserve *reserves, unsigned count, uint64_t now_ns,
	struct throttle_verdict *verdict, struct throttle_receipt *receipt);

/* The table's remainder after the reserves. */
void reserve_lessen(struct throttle_outcome *outcome, uint64_t units);

#endif
