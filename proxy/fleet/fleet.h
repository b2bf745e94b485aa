/*
 * The authority over limits of the fleet: of all nodes together, which share what they count
 * through a store (Redis). It judges requests that have such a limit, also by their other limits.
 *
 *   ask --> the node's table, for limits of the node --> batch --turn's end--> store
 *                                                                  |
 *   exchange <-- reply <-- verdict over both <-- answer <----------'
 *
 * `fleet = exact`: each verdict is the store's, one operation over all nodes. It holds as long as
 * the store keeps its memory and its clock does not step forward; the nodes' clocks do not matter.
 *  - A verdict that comes too late, or for nobody, is given back when it was to admit. What was
 *    given back is sent once: if that is lost, less is admitted, never more.
 *  - A call whose answer is lost with its connection is not sent again. What it charged stays
 *    charged.
 *  - Given back is only what the same epoch of the store has charged (judge.lua).
 * `fleet = lease`: lease.h. `fleet = split`: split.h. `fleet = relaxed`: relaxed.h.
 */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "fleet/members.h"
#include "gate/authority.h"

struct debts;
struct hands;
struct health;
struct ladder;
struct shares;
struct throttle_table;
struct trouble;

/* The authority of a process, over this table for the limits of the node. NULL without memory. It
 * must outlive all sites and receipts. */
struct authority *fleet_new(struct throttle_table *throttles);
/* NULL is ignored. */
void fleet_free(struct authority *fleet);

/* The fleet's nodes in the store's last answer. */
struct fleet_nodes {
	char name[MEMBERS_NAME_BYTES]; /* this node's; "": it has not joined */
	char *lines;     /* one a node: name, blank, milliseconds of its lease then; NULL: none */
	char *primaries; /* of a cluster, one each: address, slots, "ready" or "away"; NULL: none */
	uint64_t age_ms; /* since the store's answer */
};

/* A copy; the caller frees lines and primaries. Any thread. */
void fleet_look(struct authority *authority, struct fleet_nodes *nodes);

/* State that the first worker keeps up to date. */
struct members *fleet_members(struct authority *authority);

/* The state of the store itself (health.h). */
struct health *fleet_health(struct authority *authority);

/* Why the node is without the store (store_server.h). */
struct trouble *fleet_trouble(struct authority *authority);

/* What the node knows of its rungs (ladder.h), and what it owes to the store. */
struct ladder *fleet_ladder(struct authority *authority);
const struct ladder *fleet_ladder_of(const struct authority *authority);
struct debts *fleet_debts(struct authority *authority);

/* The node's leases. */
struct hands *fleet_hands(struct authority *authority);

/* The node's shares of limits that are divided. */
struct shares *fleet_shares(struct authority *authority);

/* The table that judges the limits of the node. */
struct throttle_table *fleet_throttles(const struct authority *authority);

#endif
