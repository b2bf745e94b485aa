/*
 * When several that wait have been admitted. Of charges of one unit each, in their order, the n-th
 * is admitted a period after the one that is a quota before it:
 *
 *   slots   s1   s2   s3              a quota of 3, all in use: they are free again at
 *   n-th     1    2    3    4    5    s1, s2, s3, s1 + W, s2 + W ...
 *
 * So the wait for n is that for the rest of n by the quota, and as many periods as the quota is in
 * n.
 */
#include "throttle/table.h"
#include "throttle/zone.h"

#define MINUTE_NS UINT64_C(60000000000)
/* Beyond so many periods of the calendar the wait is no longer exact, only not too long. */
#define CALENDAR_PERIODS 1000

/* From `wait` on, so many periods of the calendar later. */
static uint64_t add_periods(const struct throttle_table *table, const struct limit_state *limit,
	uint64_t now_ns, uint64_t wait, uint64_t periods)
{
	const struct shape *shape = &limit->section.shape;
	/* relaxed, both: numbers by themselves */
	uint64_t offset =
		atomic_load_explicit(&table->offset_ns, memory_order_relaxed) +
		(uint64_t)atomic_load_explicit(shape->wall_shift_ns, memory_order_relaxed);
	int64_t at_s = (int64_t)((now_ns + wait + offset) / 1000000000), begin, end;

	for (uint64_t n = 0; n < periods && n < CALENDAR_PERIODS; n++) {
		zone_period(shape->zone, shape->period, at_s, &begin, &end);
		at_s = end;
	}
	return (uint64_t)at_s * 1000000000 - now_ns - offset;
}

/* What passes at least between a charge and the one a quota behind it. */
static uint64_t period_of(const struct shape *shape)
{
	return shape->form == FORM_RING ? shape->span - shape->tick_ns : shape->window;
}

static uint64_t add_times(uint64_t wait, uint64_t each, uint64_t times)
{
	return times < (THROTTLE_NEVER - 1 - wait) / each ? wait + times * each
							  : THROTTLE_NEVER - 1;
}

static uint64_t wait_for(
	struct throttle_table *table, const struct throttle_charge *charge, uint64_t now_ns)
{
	struct throttle_verdict verdict;

	throttle_peek(table, charge, 1, now_ns, &verdict);
	return verdict.outcome[0].violated ? verdict.outcome[0].retry_after_ns : 0;
}

uint64_t throttle_wait(struct throttle_table *table, uint32_t limit, struct throttle_key caller,
	uint64_t cost, uint64_t now_ns)
{
	const struct limit_state *state = table_limit(table_current(table), limit);

	if (!state || cost == 0)
		return 0;
	const struct shape *shape = &state->section.shape;
	uint64_t quota = state->reported_quota, periods = (cost - 1) / quota;
	struct throttle_charge charge = {limit, caller, cost - periods * quota};
	if (periods > 0 && state->limit.kind == THROTTLE_GCRA)
		charge.cost = quota; /* waits until all has drained; the rest drains behind it */
	uint64_t wait = wait_for(table, &charge, now_ns);
	if (periods == 0 || wait == THROTTLE_NEVER)
		return wait;
	switch (state->limit.kind) {
	case THROTTLE_CONCURRENCY:
		return THROTTLE_NEVER;
	case THROTTLE_CALENDAR:
		return add_periods(table, state, now_ns, wait, periods);
	case THROTTLE_GCRA:
		return add_times(wait, shape->increment, (cost - quota) / shape->scale);
	case THROTTLE_RING:
		break;
	}
	return add_times(wait, period_of(shape), periods);
}
