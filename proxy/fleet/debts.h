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
 */
#ifndef FLEET_DEBTS_H
#define FLEET_DEBTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/rule.h"
#include "throttle/throttle.h"

#define DEBTS_MOST  65536 /* callers */
#define DEBTS_PARTS 5     /* of four of which a window consists; the oldest is not over yet */

struct debt {
	struct throttle_key caller;
	struct rule rule;
	const char *limit;           /* its name, of `names` below; NULL: free */
	bool is_leased;              /* fleet = lease: the store keeps these elsewhere */
	bool is_paid;                /* while paying: it was sent */
	uint64_t part;               /* the newest, in quarters of the window since 0 */
	uint64_t costs[DEBTS_PARTS]; /* of part, part - 1 ... by their numbers modulo this */
};

/* When something was added. */
struct debt_time {
	uint64_t round, at_ns; /* debts.round */
};

/* Limits' names. */
struct debt_name {
	struct debt_name *next;
	char text[];
};

struct debts {
	pthread_mutex_t lock;
	struct debt *owed, *paying; /* `size` and `paying_size` of them, by their hash */
	size_t count, size, paying_count, paying_size;
	size_t paid;    /* of those in `paying`, and */
	size_t next;    /* the place that is paid next */
	uint64_t round; /* so often was something paid, or is being paid */
	size_t most;    /* DEBTS_MOST */
	struct debt_name *names;
};

void debts_init(struct debts *debts);
void debts_end(struct debts *debts);

/* Any thread. `*added` (unless that is NULL) is for debts_take_back. False: no room, or no memory.
 */
bool debts_add(struct debts *debts, const struct debt *of, uint64_t cost, uint64_t now_ns,
	struct debt_time *added);
/* The same: `cost` of what was added then is given back. Only that is reduced: once it is over, or
 * was paid, what its caller owes is of other requests, which have been sent. */
void debts_take_back(struct debts *debts, const struct debt *of, uint64_t cost, uint64_t now_ns,
	const struct debt_time *added);

/* The present debts are to be paid. One thread; not again before debts_paid. */
void debts_pay_begin(struct debts *debts);
/* Looks at `most` places: each debt that is to be paid, with what of it is younger than its window;
 * those for which `pay` returns true are being paid then, the others stay owed. The same thread.
 * False: that were all. */
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
