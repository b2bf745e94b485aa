/*
 * The first worker's talk with the store's list of nodes for store_down = strict (strict.h,
 * strict.lua): three calls in the length of a lease, one at a time. Private to the fleet; all of it
 * belongs to the worker's thread.
 *
 *   site with a strict limit --strict_list_begin--> call --answer--> struct strict --> all workers
 *                                  ^                  `-- none in time: the connection is dropped
 *                                  `-- the store is READY again
 */
#ifndef FLEET_STRICT_LIST_H
#define FLEET_STRICT_LIST_H

#include "fleet/debts.h"
#include "store/store_link.h"
#include "fleet/strict.h"

struct ladder;
struct worker;

struct strict_list {
	struct worker *worker;
	struct strict *strict;
	struct debts *debts;
	struct store_link *store;
	struct store_call call, leaving;
	struct deadline timer;
	const char *prefix; /* of the store's keys; not owned */
	uint64_t process, number;
	uint64_t echo_us, since_us; /* strict.lua; 0: none */
	uint64_t asked_ns;          /* of the call on its way; 0: there is none */
	bool is_needed;             /* the site has a strict limit */
	bool is_in;                 /* it has called since it last left */
	char command[512], leaving_command[512];
};

/* The worker's loop and the others outlive it. `ladder`: whose `strict` is set, and whose debts are
 * looked at; NULL: it is never begun. */
void strict_list_init(struct strict_list *list, struct worker *worker, struct ladder *ladder,
	struct store_link *store);
/* The store is READY, or the worker has taken a site: calls if the site has a strict limit
 * (is_needed), and continues as long as the store is READY; else it leaves. `prefix` stays until
 * the store is closed.
 */
void strict_list_begin(struct strict_list *list, const char *prefix, bool is_needed);
/* Uses no share any more, and says so if the store can be told and nothing is owed to it: else it
 * counts as lost. It is a new node from then on. */
void strict_list_leave(struct strict_list *list);
void strict_list_end(struct strict_list *list);

#endif
