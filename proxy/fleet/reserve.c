#include "fleet/reserve.h"

#include <string.h>

/* Takes that others' takes made too many; then the request is refused. */
enum { ATTEMPTS = 4 };

/* A request that others' takes have kept out retries at once. */
#define CONTENDED_NS 1000000

void reserve_lessen(struct throttle_outcome *outcome, uint64_t units)
{
	outcome->remaining = outcome->remaining > units ? outcome->remaining - units : 0;
}

/* Of a quota that is not the one that it was taken from, what exceeds this node's part. */
static uint64_t units_of(const struct reserve *reserve, uint64_t quota)
{
	uint64_t part = reserve->quota > reserve->units ? reserve->quota - reserve->units : 0;

	if (reserve->quota == 0 || reserve->quota == quota)
		return reserve->units;
	return quota > part ? quota - part : 0;
}

/* Sets them to what the table's quotas make of them. False: they are that already. */
static bool adapt(const struct reserve *reserves, struct reserve *adapted,
	const struct throttle_verdict *verdict)
{
	bool has_changed = false;

	for (unsigned i = 0; i < verdict->count; i++) {
		uint64_t units = units_of(&reserves[i], verdict->outcome[i].quota);
		has_changed = has_changed || adapted[i].units != units;
		adapted[i].units = units;
	}
	return has_changed;
}

/* Whether the cost fits beside the reserve is whether both fit. */
static uint64_t cost_with(const struct throttle_charge *charge, const struct reserve *reserve)
{
	if (reserve->units == 0)
		return charge->cost;
	return reserve->units + (charge->cost > 0 ? charge->cost : 1);
}

static void peek(struct throttle_table *table, const struct throttle_charge *charges,
	const struct reserve *reserves, unsigned count, uint64_t now_ns,
	struct throttle_verdict *verdict)
{
	struct throttle_charge asked[THROTTLE_MAX_CHARGES];

	memcpy(asked, charges, count * sizeof(asked[0]));
	for (unsigned i = 0; i < count; i++)
		asked[i].cost = cost_with(&charges[i], &reserves[i]);
	throttle_peek(table, asked, count, now_ns, verdict);
	for (unsigned i = 0; i < count; i++) {
		struct throttle_outcome *outcome = &verdict->outcome[i];
		if (reserves[i].units > 0 && outcome->violated &&
			outcome->retry_after_ns == THROTTLE_NEVER &&
			charges[i].cost <= outcome->quota)
			outcome->retry_after_ns = outcome->more_ns =
				reserves[i].falls_ns > 0 ? reserves[i].falls_ns : 1;
	}
}

/* What those have left that did not refuse it. */
static void look(struct throttle_table *table, const struct throttle_charge *charges,
	const struct reserve *reserves, unsigned count, uint64_t now_ns,
	struct throttle_verdict *verdict)
{
	struct throttle_charge asked[THROTTLE_MAX_CHARGES];
	struct throttle_verdict found;

	memcpy(asked, charges, count * sizeof(asked[0]));
	for (unsigned i = 0; i < count; i++)
		asked[i].cost = 0;
	throttle_peek(table, asked, count, now_ns, &found);
	for (unsigned i = 0; i < count; i++) {
		if (!verdict->outcome[i].violated) {
			verdict->outcome[i] = found.outcome[i];
			verdict->outcome[i].violated = false;
		}
		reserve_lessen(&verdict->outcome[i], reserves[i].units);
	}
}

/* After a take: has it left the reserves alone? Those of shadow limits refuse nothing. */
static bool is_within(const struct throttle_charge *charges, const struct reserve *reserves,
	unsigned count, struct throttle_verdict *verdict)
{
	bool is_within = true;

	for (unsigned i = 0; i < count; i++) {
		struct throttle_outcome *outcome = &verdict->outcome[i];
		if (charges[i].cost > 0 &&
			outcome->remaining < units_of(&reserves[i], outcome->quota)) {
			outcome->violated = true;
			is_within = is_within && outcome->shadow;
		}
	}
	return is_within;
}

static void refuse(struct throttle_verdict *verdict, const struct reserve *reserves)
{
	for (unsigned i = 0; i < verdict->count; i++) {
		struct throttle_outcome *outcome = &verdict->outcome[i];
		if (reserves[i].units == 0 || outcome->shadow)
			continue;
		outcome->violated = true;
		outcome->retry_after_ns = CONTENDED_NS;
	}
	verdict->admitted = false;
}

void reserve_take(struct throttle_table *table, const struct throttle_charge *charges,
	const struct reserve *of, unsigned count, uint64_t now_ns, struct throttle_verdict *verdict,
	struct throttle_receipt *receipt)
{
	struct reserve reserves[THROTTLE_MAX_CHARGES];

	memcpy(reserves, of, count * sizeof(reserves[0]));
	receipt->count = 0;
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		peek(table, charges, reserves, count, now_ns, verdict);
		if (adapt(of, reserves, verdict))
			peek(table, charges, reserves, count, now_ns, verdict);
		if (!verdict->admitted) {
			look(table, charges, reserves, count, now_ns, verdict);
			return;
		}
		struct throttle_verdict peeked = *verdict;
		throttle_take(table, charges, count, now_ns, verdict, receipt);
		if (verdict->admitted && is_within(charges, of, count, verdict)) {
			for (unsigned i = 0; i < count; i++) {
				/* of a cost of 0, and of shadow limits with their time to retry */
				if (peeked.outcome[i].violated) {
					verdict->outcome[i].violated = true;
					verdict->outcome[i].retry_after_ns =
						peeked.outcome[i].retry_after_ns;
				}
				reserve_lessen(&verdict->outcome[i], reserves[i].units);
			}
			return;
		}
		throttle_refund_all(table, receipt, now_ns);
		receipt->count = 0;
	}
	look(table, charges, reserves, count, now_ns, verdict);
	refuse(verdict, reserves);
}
