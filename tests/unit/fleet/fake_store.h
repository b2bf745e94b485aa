/*
 * The first worker's talk with the store, without a store, a loop and a clock: what a unit sends is
 * kept, one call at a time, and a test answers it. It takes the place of store_link.c's sending, of
 * the worker's clock and of timers (by --wrap: Makefile.inc).
 *
 *   store_link_send --> fake_store.call --> the test answers it: call->answered
 */
#ifndef TESTS_UNIT_FLEET_FAKE_STORE_H
#define TESTS_UNIT_FLEET_FAKE_STORE_H

#include "conf/conf.h"
#include "store/store_link.h"
#include "site/site_use.h"
#include "worker/worker.h"

#define FAKE_STORE_MS UINT64_C(1000000) /* in nanoseconds */

struct fake_store {
	struct worker worker; /* of the configuration below */
	struct site_use use;
	struct site_part sites;
	struct site site;
	struct conf conf;
	struct store_link link; /* READY */
	uint64_t now_ns;
	struct store_call *call; /* on its way; NULL: none */
	struct store_call *lone; /* a call that may be sent beside another; NULL: none */
	bool lone_left;          /* it was sent */
	unsigned sent, dropped;
	uint64_t dropped_ms; /* calls as old as this were given up */
	bool is_full;        /* no call can be sent */
	/* Of a test that has more than one call on its way, else NULL: its own link, and what gets
	 * the calls. */
	struct store_link *own_link;
	void (*take)(struct store_call *call);
};

extern struct fake_store fake_store;

/* Forgets all; the time is `ms`. */
void fake_store_begin(uint64_t ms);
/* Sets the time, also that of the worker's loop. */
void fake_store_at(uint64_t ms);
/* Answers the call that is on its way, or loses its answer; there must be one. */
void fake_store_answer(const void *bytes, size_t len);
void fake_store_lose_answer(void);
/* Runs a timer that is set, at its time or later. */
void fake_store_run_timer(struct deadline *timer);

#endif
