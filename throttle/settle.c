/*
 * After a verdict: refunds, true costs, debts, the end of what was in flight.
 *
 * A receipt names its caller by key, not by place: the throttle is looked up again, in the
 * generation of now. Where it has been evicted there is nothing left that a refund could give back;
 * where limits were changed so that it counts otherwise than it did then, what was charged before
 * stays charged: that part of the count can't be determined any more.
 */
#include "throttle/take.h"

#include <string.h>

/* A limit on the generation of now, and its time. False: there is no such limit (any more), or
 * another process has moved the table on. */
static bool aim_at(struct throttle_table *t, uint32_t limit, uint64_t now_ns, struct judged *j,
	struct generation **g, uint64_t *now)
{
	uint64_t offset = atomic_load_explicit(&t->offset_ns, memory_order_relaxed);

	do {
		*g = table_current(t);
		j->limit = table_limit(*g, limit);
		if (j->limit == NULL)
			return false;
		j->section = &j->limit->section;
		if (generation_time(*g, now_ns, offset, now))
			return true;
	} while (table_current(t) != *g);
	return false;
}

/* The same of the i-th of a receipt. */
static bool aim(struct throttle_table *t, const struct throttle_receipt *receipt, uint32_t i,
	uint64_t now_ns, struct judged *j, struct generation **g, uint64_t *now)
{
	return i < receipt->count && aim_at(t, receipt->held[i].limit, now_ns, j, g, now);
}

static bool is_still_counted(
	const struct throttle_held *held, const struct section *s, const struct generation *g)
{
	uint32_t charged_in = held->flags >> 1;

	if (s->shape.form == FORM_CONCURRENCY || !(held->flags & HELD_OVERFLOW))
		return charged_in >= s->refunds_since;
	return charged_in >= g->number;
}

static void end_overflow(struct throttle_table *t, uint32_t limit, uint64_t buckets,
	uint64_t bucket, uint64_t cost, uint64_t now_ns);

/* The same of one bucket of this section. */
SELDOM static void end_overflow_in(struct throttle_table *t, uint32_t limit,
	const struct generation *g, struct section *s, uint64_t bucket, uint64_t cost, uint64_t now,
	uint64_t now_ns)
{
	switch (section_end_overflow(s, bucket, cost, now)) {
	case OVERFLOW_ENDED:
		return;
	case OVERFLOW_SPLIT:
		for (unsigned half = 0; half < 2; half++)
			end_overflow_in(t, limit, g, s->next, 2 * bucket + half, cost, now, now_ns);
		return;
	case OVERFLOW_MOVED:
		/* Where it has just moved, what it has become has it. */
		if (table_current(t) != g)
			end_overflow(t, limit, s->buckets, bucket, cost, now_ns);
	}
}

/* What was in flight under the overflow of this one of so many buckets is counted by those of all
 * buckets that it has become. */
SELDOM static void end_overflow(struct throttle_table *t, uint32_t limit, uint64_t buckets,
	uint64_t bucket, uint64_t cost, uint64_t now_ns)
{
	struct generation *g;
	struct section *s;
	struct judged j;
	uint64_t now, parts;

	if (!aim_at(t, limit, now_ns, &j, &g, &now))
		return;
	for (s = j.section; s->buckets < buckets && s->next != NULL;)
		s = s->next;
	parts = s->buckets / buckets;
	for (uint64_t n = 0; n < parts; n++)
		end_overflow_in(t, limit, g, s, bucket * parts + n, cost, now, now_ns);
}

/* Gives back `cost` of what was charged then (since 1970) and came to `whole`. */
static void refund(struct throttle_table *t, const struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t whole, uint64_t *at_ns, uint64_t *given_ns, uint64_t now_ns)
{
	const struct throttle_held *held = &receipt->held[i];
	struct generation *g, *last = NULL;
	struct judged j = {0};
	struct when when;
	uint64_t now;

	while (cost > 0 && aim(t, receipt, i, now_ns, &j, &g, &now) && g != last) {
		struct section *s = j.section;
		bool is_overflow = held->flags & HELD_OVERFLOW;
		/* Rounded so that the parts never come to more than the whole. */
		uint64_t units =
			units_of_cost(&s->shape, whole) - units_of_cost(&s->shape, whole - cost);
		enum located located;

		if (!is_still_counted(held, s, g))
			return;
		if (is_overflow && s->shape.form == FORM_CONCURRENCY) {
			const struct section was = {.buckets = held->added_at_ns};

			end_overflow(t, held->limit, was.buckets,
				section_bucket_of(&was, held->caller), units, now_ns);
			return;
		}
		located = LOCATED;
		if (is_overflow)
			section_overflow(s, held->caller, now, &j.place);
		else
			located = section_locate(s, held->caller, now, false, &j.place);
		when.at = *at_ns > g->epoch_ns ? *at_ns - g->epoch_ns : 0;
		when.given = *given_ns;
		if (located == LOCATED_NONE)
			return;
		if (located == LOCATED &&
			s->ops->refund(&s->shape, j.place.entry, &when, units, now)) {
			*at_ns = when.at + g->epoch_ns;
			*given_ns = when.given;
			return;
		}
		/* Nothing of it left, or it has just moved: then there is a newer generation, or
		 * it is in the next level. */
		last = located == LOCATED && place_is_split(&j.place) ? NULL : g;
	}
}

/* The same of what was added: that was behind the rest, which is where it was. */
static void refund_added(struct throttle_table *t, struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t now_ns)
{
	struct throttle_held *held = &receipt->held[i];
	const uint64_t given_ns = held->added_given_ns;

	refund(t, receipt, i, cost, held->added, &held->added_at_ns, &held->added_given_ns, now_ns);
	held->given_ns += held->added_given_ns - given_ns;
}

/* Gives back down to `cost`: of what was added first. */
static void refund_to(struct throttle_table *t, struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t now_ns)
{
	struct throttle_held *held = &receipt->held[i];
	uint64_t added = cost > held->cost ? cost - held->cost : 0;
	uint64_t first = cost - added;

	refund_added(t, receipt, i, held->added - added, now_ns);
	refund(t, receipt, i, held->cost - first, held->cost, &held->at_ns, &held->given_ns,
		now_ns);
	held->added = added;
	held->cost = first;
}

void throttle_refund(
	struct throttle_table *t, struct throttle_receipt *receipt, uint32_t i, uint64_t now_ns)
{
	if (i < receipt->count)
		refund_to(t, receipt, i, 0, now_ns);
}

/* False: nothing was charged. `when` is since 1970, as it is in a receipt. */
static bool charge(struct throttle_table *t, struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t now_ns, struct when *when)
{
	const struct throttle_held *held = &receipt->held[i];
	struct generation *g, *last = NULL;
	struct judged j = {0};
	uint64_t now;

	while (cost > 0 && aim(t, receipt, i, now_ns, &j, &g, &now) && g != last) {
		if (j.limit->limit.kind == THROTTLE_CONCURRENCY)
			return false;
		j.units = units_of_cost(&j.section->shape, cost);
		if (charge_force(&j, held->caller, now, held->flags & HELD_OVERFLOW) == CHARGED) {
			when->at = j.plan.at + g->epoch_ns;
			when->given = j.plan.given;
			return true;
		}
		last = g;
	}
	return false;
}

void throttle_charge(struct throttle_table *t, struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t now_ns)
{
	struct when when;

	if (i < receipt->count)
		charge(t, receipt, i, cost, now_ns, &when);
}

void throttle_settle(struct throttle_table *t, struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t now_ns)
{
	struct throttle_held *held;
	const struct limit_state *l;
	struct when when;

	if (i >= receipt->count)
		return;
	held = &receipt->held[i];
	l = table_limit(table_current(t), held->limit);
	if (l == NULL || l->limit.kind == THROTTLE_CONCURRENCY)
		return;
	if (cost <= held->cost + held->added) {
		refund_to(t, receipt, i, cost, now_ns);
		return;
	}
	/* All that was added is charged again, so that there is one time of it to give back. */
	if (charge(t, receipt, i, cost - held->cost, now_ns, &when)) {
		refund_added(t, receipt, i, held->added, now_ns);
		held->added = cost - held->cost;
		held->added_at_ns = when.at;
		held->added_given_ns = when.given;
	}
}

void throttle_release(struct throttle_table *t, struct throttle_receipt *receipt, uint64_t now_ns)
{
	for (uint32_t i = 0; i < receipt->count; i++) {
		const struct limit_state *l = table_limit(table_current(t), receipt->held[i].limit);

		if (l != NULL && l->limit.kind == THROTTLE_CONCURRENCY)
			throttle_refund(t, receipt, i, now_ns);
	}
	receipt->count = 0;
}

void throttle_refund_all(
	struct throttle_table *t, struct throttle_receipt *receipt, uint64_t now_ns)
{
	for (uint32_t i = 0; i < receipt->count; i++)
		throttle_refund(t, receipt, i, now_ns);
	receipt->count = 0;
}

bool throttle_explain(struct throttle_table *t, uint32_t limit, struct throttle_key caller,
	uint64_t now_ns, struct throttle_outcome *outcome)
{
	struct throttle_charge charge = {.limit = limit, .caller = caller};
	struct throttle_verdict verdict;

	throttle_peek(t, &charge, 1, now_ns, &verdict);
	*outcome = verdict.outcome[0];
	return !outcome->absent && (outcome->remaining < outcome->quota || outcome->banned);
}

static bool forget(struct section *s, struct throttle_key caller, uint64_t now)
{
	struct place place;
	struct plan plan;

	for (;;) {
		if (section_locate(s, caller, now, false, &place) != LOCATED || place.is_overflow)
			return false;
		if (s->ops->plan(&s->shape, place.entry, 0, now, HOW_LOOK, &plan) != ENTRY_READY) {
			if (!place_is_split(&place))
				return false;
			continue;
		}
		/* acq_rel: as every change of a head */
		if (place_holds(&place) &&
			atomic_compare_exchange_strong_explicit(&place.entry->head, &plan.head,
				s->ops->reset(&s->shape, place.entry, &plan), memory_order_acq_rel,
				memory_order_relaxed))
			break;
	}
	return plan.used > 0;
}

bool throttle_reset(
	struct throttle_table *t, uint32_t limit, struct throttle_key caller, uint64_t now_ns)
{
	struct generation *g;
	struct judged j;
	bool was_used = false;
	uint64_t now;

	if (!aim_at(t, limit, now_ns, &j, &g, &now))
		return false;
	if (j.section->shape.form != FORM_CONCURRENCY)
		was_used = forget(j.section, caller, now);
	if (j.limit->has_bans && forget(&j.limit->bans, caller, now))
		was_used = true;
	return was_used;
}
