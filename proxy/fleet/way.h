/*
 * How nodes share a limit: a way for each value of `fleet =`. Private to the fleet.
 *
 *   take --+-- WAY_TAKEN, WAY_UNTAKEN: decided on this node, at once --> charge.outcome
 *          `-- WAY_ASK: the store is to be asked, together with the request's other limits
 *
 * A new way has a unit with its `struct way` and a row in way.c. All are called on the thread of
 * the worker that asks; several workers call at once.
 *
 * A way with `reserve` is judged by the node's table with that of the node's own limits, before the
 * others: the part of the quota that is not this node's is reserved (reserve.h). It has no other
 * calls but `note`.
 */
#ifndef FLEET_WAY_H
#define FLEET_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "throttle/throttle.h"

struct account;
struct account_charge;
struct reserve;

enum way_verdict {
	WAY_TAKEN,   /* outcome: with this charge */
	WAY_UNTAKEN, /* outcome: without it; violated unless it would fit */
	WAY_ASK,
};

/* Of a way with `reserve`, for one request. */
enum way_judge {
	WAY_HERE,  /* the node's table judges, with the reserve */
	WAY_STORE, /* as fleet = exact */
	WAY_AWAY,  /* the store should have answered; store_down decides */
};

/* The store's function for it. A request that needs both is judged by leases first. */
enum fleet_function { FLEET_JUDGE, FLEET_LEASE, FLEET_FUNCTIONS };

struct way {
	enum fleet_function function;
	/* Takes charge->cost where the node can say whether it fits. */
	enum way_verdict (*take)(struct account *account, struct account_charge *charge);
	/* Says what is left where another limit refuses the request: UNTAKEN or ASK. */
	enum way_verdict (*look)(struct account *account, struct account_charge *charge);
	/* Gives so much of what was taken back, or of what the store has charged. */
	void (*give)(struct account *account, struct account_charge *charge, uint64_t cost);
	/* Charges so much more, whether it fits or not. */
	void (*add)(struct account *account, struct account_charge *charge, uint64_t cost);

	/* `asked`: what the node's table would be asked. NULL: the calls above. */
	enum way_judge (*reserve)(struct account *account, struct account_charge *charge,
		const struct throttle_charge *asked, struct reserve *reserve);
	/* So many units were charged here (or given back). NULL: it need not know. */
	void (*note)(struct account *account, struct account_charge *charge, int64_t units);
};

/* The way of `fleet =`; never NULL for a limit of the fleet. */
const struct way *way_of(enum conf_fleet_way way);
/* That of a limit: of its `fleet =`, or exact where leases cannot count it. */
const struct way *way_for(const struct conf_limit *limit);

/* Of all limits of the fleet in an account, in their order: takes them where this node can say, or
 * only looks once the account is refused; those that said UNTAKEN are left as they are. Sets
 * account->refused when one of them refuses, and gives back what others took. Returns how many the
 * store is to be asked about. */
unsigned ways_take(struct account *account);
/* The request is refused: what the ways took is given back, and their outcomes say what is left. */
void ways_take_back(struct account *account);

#endif
