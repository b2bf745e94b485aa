/* A verdict over a request's limits, of which the store judges some and the node's table others.
 * Private to the fleet. */
#ifndef FLEET_VERDICT_H
#define FLEET_VERDICT_H

#include <stdint.h>

#include "fleet/batch.h"
#include "fleet/rule.h"
#include "throttle/throttle.h"

struct account;
struct account_charge;

/* The result for the request, from both; `answers`: of the limits at the store in their order,
 * NULL: the store has said nothing, and they count as unused. Sets the account's slots. */
void verdict_fill(struct account *account, const struct throttle_verdict *local,
	const struct answer_limit *answers, struct throttle_verdict *verdict);

/* A time of an answer: -1 is never, one too long to be said in nanoseconds the longest. */
static inline uint64_t verdict_time_ns(int64_t time_us)
{
	if (time_us < 0)
		return THROTTLE_NEVER;
	return time_us < INT64_MAX / 1000 ? (uint64_t)time_us * 1000 : (uint64_t)INT64_MAX;
}

/* One limit's, by what the store answers. */
struct throttle_outcome verdict_outcome(const struct rule *rule, const struct answer_limit *answer);
/* Sums outcomes up, as throttle_take does; `delay_max_ns`: how long each limit may delay. */
void verdict_sum_up(struct throttle_verdict *verdict, const uint64_t *delay_max_ns);

/* One of them, when the store is still to be asked about others: said, slot and outcome. */
void verdict_conclude(struct account_charge *charge, const struct answer_limit *answer);

/* How many of the account's limits the store judges. */
unsigned account_shared(const struct account *account);

#endif
