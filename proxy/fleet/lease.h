/*
 * `fleet = lease`: a node takes a part of a caller's quota in advance (lease.lua), as much as the
 * caller has asked for recently, and decides from what it has in hand (hand.h). Private to the
 * fleet.
 *
 *   take --+-- enough in hand: TAKEN; when little is left, a new lease is asked for at once
 *          +-- the store has said that nothing is free: UNTAKEN, until about when that changes
 *          `-- else ASK: the store judges this request, and gives a lease with its answer
 *
 * Never more than the quota in any window: what is on lease until a time may be used until then,
 * and the store counts it for a window more (lease.lua). The node counts a lease from before it
 * asked, so that its end is never later than the store's.
 *
 * A lease lasts a quarter of the window, at most 30 s. A quota whose share (quota / live nodes) is
 * under 20, or whose window is under a second, is judged by the store for each request.
 */
#ifndef FLEET_LEASE_H
#define FLEET_LEASE_H

#include "fleet/batch.h"
#include "fleet/hand.h"
#include "fleet/way.h"
#include "loop/deadline.h"

#define LEASE_PARTS_MOST 1024 /* limits in the operations of one call */

struct account;
struct account_charge;
struct fleet_batch;
struct fleet_worker;
struct question;

extern const struct way lease_way;

/* One limit in an operation of a call. */
struct lease_part {
	struct hand *hand;         /* locked, until the answer; NULL: none */
	struct question *question; /* NULL: no request waits for it */
	uint32_t ends_ms, term_ms; /* of the lease that is wanted */
	uint32_t wanted;
	unsigned count; /* of the first limit of an operation: limits in it */
	struct throttle_key caller;
	struct rule rule;
	const char *limit; /* its name, as long as the worker */
	bool is_strict;    /* store_down = strict: nothing is taken of a store without memory */
	bool is_local;     /* store_down = local: a late answer keeps the caller to its share */
};

/* A hand that has a lease, as the worker that got it knows it. */
struct leased {
	struct hand *hand;
	struct throttle_key caller;
	struct rule rule;
	const char *limit; /* its name, as long as the worker */
};

/* A worker's leases, which it returns when they end. */
struct leases {
	struct fleet_worker *fleet;
	struct hands *hands; /* of all workers */
	struct leased *all;
	size_t count, size, at;
	struct deadline timer;
};

/* The worker's loop and `hands` outlive it. */
void leases_init(struct leases *leases, struct fleet_worker *fleet, struct hands *hands);
void leases_end(struct leases *leases);
/* Returns all of them, as far as the store can be reached: what they hold is not used any more. */
void leases_return(struct leases *leases);

/* Is the charge's cost in hand now? Nothing is taken or counted. */
bool lease_is_in_hand(const struct account *account, const struct account_charge *charge);
/* Takes it from the units in hand, and records that in the charge. False: nothing was taken or
 * counted; the charge has its hand, if there is one. */
bool lease_take_in_hand(struct account *account, struct account_charge *charge);

/* Puts the account's limits of this way into the batch, as one operation. */
void lease_ask(struct fleet_batch *filling, struct question *question, struct account *account);
/* A call was answered (bytes), or failed (NULL). */
void lease_answer(struct fleet_batch *batch, const char *bytes, size_t len);

#endif
