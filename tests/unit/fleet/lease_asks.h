/* A node with one request by one limit, and a store that answers what a test says of leases. */
#ifndef TESTS_UNIT_FLEET_LEASE_ASKS_H
#define TESTS_UNIT_FLEET_LEASE_ASKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fleet/fleet_part.h"
#include "fleet/lease.h"
#include "tests/unit/fleet/lease_node.h"

enum { BEGIN_MS = 100000, WINDOW_MS = 8000, TERM_MS = 2000, MS = 1000000 };

extern struct lease_node node;
extern struct stats *stats;
extern struct account account;
extern struct question question;
extern unsigned went_on; /* so often */
extern bool was_answered;
extern int64_t epoch_said; /* in what has no lease: of the last one */

struct asked {
	int64_t words[64];
	unsigned count;
};

struct said {
	uint64_t used, slot, kept, got, time_us, fits;
};

/* went_on of `node`: counts, and keeps whether the question was answered. */
void lease_went_on(struct lease_node *of, struct question *asked, bool answered);

void lease_at(uint64_t ms);

/* A request by one limit: 100 per 8 s. */
struct account_charge *lease_charge(uint64_t cost);

void lease_name_limit(struct account_charge *charge, const char *limit);

int lease_begin(void **state);

int lease_end(void **state);

enum way_verdict lease_take_of(struct account_charge *charge);

enum way_verdict lease_take(void);

/* Of all callers. */
unsigned lease_in_hand(void);

void lease_ask_it(void);

uint64_t lease_counted(unsigned slot);

/* The operations that wait to be sent. */
struct asked lease_asked(void);

/* One limit of one operation, after `1 1 key rule`. */
void lease_assert_asked(const int64_t *of);

void lease_answer_it(unsigned count, bool admitted, const struct said *of);

void lease_lose_answer(void);

/* The first request: judged by the store, which leases so many. */
void lease_get(uint64_t units, uint64_t used);

#define ASKED(cost, slot, units, used, keep, want)                                                 \
	lease_assert_asked((const int64_t[]){cost, slot, units, used, keep, want, TERM_MS * 1000,  \
		(slot)           ? 9                                                               \
		: node.hands.all ? epoch_said                                                      \
				 : 0})

#define LEASE_TEST(name) cmocka_unit_test_setup_teardown(name, lease_begin, lease_end)

#endif
