/*
 * Admissions of a node without the store, to be charged there before the store's verdicts count
 * again: one entry for each caller of a limit, with its admissions of the last window. All workers
 * add, the first one pays. Private to the fleet; times are passed in.
 *
 *   share --debts_add--> owed --debts_pay--> paying --debts_paid--+-- the store has it: forgotten
 *                         ^                                       |
 *                         `--------------- it may not have it <---'
 *
 * Bounded: where there is no room, nothing may be admitted. An entry ends a window after its last
 * admission. What is paid counts at the store from then on, so up to a window longer than it would.
 *
 * All workers share one lock, so whatever is done under it takes the same few steps however many
 * callers owe: each limit has its entries in a hash table, and in the order of their last
 * admissions. Where an entry is added, those at the end of that order that are over make room.
 */
#ifndef FLEET_DEBTS_H
#define FLEET_DEBTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "fleet/rule.h"
#include "throttle/throttle.h"

#define DEBTS_PARTS 5 /* of four of which a window consists; the oldest is not over yet */

struct debt {
	struct hash_link link;
	struct debt *older, *newer; /* of its limit, by their last admissions; newer: or unused */
	struct throttle_key caller;
	struct rule rule;
	const char *limit;           /* its name */
	bool is_leased;              /* fleet = lease: the store keeps these elsewhere */
	uint64_t sent;               /* the last payment (debts.payment) that it was sent in */
	uint64_t part;               /* the newest, in quarters of the window since 0 */
	uint64_t costs[DEBTS_PARTS]; /* of part, part - 1 ... by their numbers modulo this */
};

/* When something was added. */
struct debt_time {
	uint64_t round, at_ns; /* debts.round */
};

struct debt_block;

/* What callers of one limit owe. */
struct debt_table {
	struct hash_table hashed;
	struct debt *oldest, *newest, *unused;
	struct debt_block *blocks; /* the memory of all */
};

/* A limit: what is owed of it, and what is being paid. */
struct debt_limit {
	struct debt_limit *next;
	struct debt_table tables[2]; /* debts.owed says which is which */
	char name[];
};

struct debts {
	pthread_mutex_t lock;
	struct throttle_seed seed;
	struct debt_limit *limits;
	unsigned owed; /* which of the tables; the other one is being paid */
	bool is_paying;
	size_t count, paying_count; /* of all limits */
	uint64_t round;             /* so often was something paid, or is being paid */
	uint64_t payment;           /* the number of the last payment; 0: none */
	/* of the paying thread: the entry that is paid next, its limit, and how many were paid */
	struct debt *next;
	struct debt_limit *next_limit;
	size_t paid;
	uint64_t steps; /* entries that were looked at for their end: for tests */
};

/* Draws the seed by which callers are scattered: what all nodes name them by is no secret. False:
 * the system gives no random bytes. To be ended all the same. */
bool debts_init(struct debts *debts);
void debts_end(struct debts *debts);

/* Any thread. `*added` (unless that is NULL) is for debts_take_back. `most`: so many callers may
 * owe something of the limit. False: no room, or no memory. */
bool debts_add(struct debts *debts, const struct debt *of, uint64_t cost, size_t most,
	uint64_t now_ns, struct debt_time *added);
/* The same: `cost` of what was added then is given back. Only that is reduced: once it is over, or
 * was paid, what its caller owes is of other requests, which have been sent. */
void debts_take_back(struct debts *debts, const struct debt *of, uint64_t cost, uint64_t now_ns,
	const struct debt_time *added);

/* The present debts are to be paid. One thread; not again before debts_paid. */
void debts_pay_begin(struct debts *debts);
/* Looks at `most` debts that are to be paid, each with what of it is younger than its window; those
 * for which `pay` returns true are being paid then, the others stay owed. The same thread. False:
 * that were all. */
bool debts_pay_some(struct debts *debts, uint64_t now_ns, size_t most,
	bool (*pay)(void *whose, const struct debt *debt, uint64_t cost), void *whose);
/* Both, at once. Returns how many are being paid. */
size_t debts_pay(struct debts *debts, uint64_t now_ns,
	bool (*pay)(void *whose, const struct debt *debt, uint64_t cost), void *whose);
/* Is nothing owed, or being paid? Any thread. */
bool debts_is_clear(struct debts *debts);
/* Whether the store has those that were being paid. Those that debts_pay_some has not come to stay
 * owed. */
void debts_paid(struct debts *debts, bool has_them, uint64_t now_ns);

#endif
