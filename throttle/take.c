/*
 * The verdict: all of some charges, or none.
 *
 *   for each: find, judge  --any violated?--> refused, nothing was written
 *        |
 *        | all fit
 *        v
 *   for each, in the order of their addresses: swap the judged head for the charged one
 *        |                                          | changed meanwhile: judge that one again
 *        v                                          v no longer fits: give back what was taken
 *     admitted                                   refused
 *
 * What is common, a verdict that needs nothing of this file, quick.c does.
 */
#include "throttle/take.h"

#include <errno.h>
#include <string.h>

#include "throttle/ring.h"
#include "throttle/concurrency.h"

#define MOVED_RETRY_NS UINT64_C(1000000000)

/* A take on its way. */
struct attempt {
	struct throttle_table *table;
	struct generation *generation;
	const struct throttle_charge *charges;
	size_t count;
	uint64_t now;   /* the table's time */
	uint64_t asked; /* what the caller's `now_ns` is in it: not after `now` */
	struct throttle_verdict *verdict;
	struct judged judged[THROTTLE_MAX_CHARGES];
};

static inline uint64_t add_wait(uint64_t wait, uint64_t lag)
{
	return wait == THROTTLE_NEVER ? wait : wait + lag;
}

/* What a plan says, in the caller's units. */
static inline void tell_outcome(const struct attempt *a, size_t i, struct throttle_outcome *o)
{
	const struct judged *j = &a->judged[i];
	const struct shape *shape = &j->section->shape;
	uint64_t used = j->plan.used + (j->plan.fits ? j->units : 0);
	uint64_t lag = j->plan.now - a->asked;

	o->quota = j->limit->reported_quota;
	used *= shape->scale;
	o->remaining = used < o->quota ? o->quota - used : 0;
	o->more_ns = j->plan.more > 0 ? j->plan.more + lag : 0;
	o->reset_ns = j->plan.reset > 0 ? j->plan.reset + lag : 0;
	o->retry_after_ns = j->plan.fits ? 0 : add_wait(j->plan.retry, lag);
	o->at_ns = j->plan.at + a->generation->epoch_ns;
	o->violated = !j->plan.fits;
	o->shadow = j->limit->limit.mode == THROTTLE_SHADOW;
	o->banned = false;
	o->overflow = j->place.is_overflow;
	o->absent = false;
}

/* Nobody has a throttle of this caller yet, nor is one shared: all is free. For looks only. */
SELDOM static void tell_unused(const struct attempt *a, size_t i, struct throttle_outcome *o)
{
	const struct throttle_limit *l = &a->judged[i].limit->limit;
	uint64_t quota = a->judged[i].limit->reported_quota;
	uint64_t cost = a->charges[i].cost;

	memset(o, 0, sizeof(*o));
	o->quota = quota;
	o->violated = cost > quota;
	o->remaining = o->violated ? quota : quota - cost;
	o->retry_after_ns = o->violated ? THROTTLE_NEVER : 0;
	o->shadow = l->mode == THROTTLE_SHADOW;
	o->at_ns = a->now + a->generation->epoch_ns;
}

/* The caller is banned for so long: until then nothing is free, however little is used. */
SELDOM static void tell_banned(struct throttle_outcome *o, uint64_t left_ns)
{
	if (o->retry_after_ns < left_ns)
		o->retry_after_ns = left_ns;
	if (o->remaining > 0 || o->more_ns < left_ns)
		o->more_ns = left_ns;
	if (o->reset_ns < left_ns)
		o->reset_ns = left_ns;
	o->violated = o->banned = true;
	o->remaining = 0;
}

/* Is the caller banned from this limit? Sets the outcome, if so. */
SELDOM static enum charged judge_ban(struct attempt *a, size_t i, struct throttle_outcome *o)
{
	struct limit_state *l = a->judged[i].limit;
	struct place place;
	uint64_t since = 0, now = a->now;
	enum located located;

	do {
		located = section_locate(&l->bans, a->charges[i].caller, now, false, &place);
		if (located == LOCATED_MOVED)
			return CHARGED_MOVED;
		if (located == LOCATED)
			since = ring_full_since(&l->bans.shape, place.entry, now);
	} while (located == LOCATED && place_is_split(&place));
	if (located == LOCATED && !place_holds(&place))
		since = 0;
	if (since == 0 || since > now || now - since >= l->limit.ban_for_ns)
		return CHARGED;
	tell_banned(o, l->limit.ban_for_ns - (now - since) + (now - a->asked));
	return CHARGED;
}

static enum charged judge_one(struct attempt *a, size_t i, enum how how)
{
	const struct throttle_charge *c = &a->charges[i];
	struct throttle_outcome *o = &a->verdict->outcome[i];
	struct judged *j = &a->judged[i];
	enum charged charged;

	j->limit = table_limit(a->generation, c->limit);
	if (j->limit == NULL) {
		memset(o, 0, sizeof(*o));
		o->absent = true;
		j->place.entry = NULL;
		return CHARGED;
	}
	j->section = &j->limit->section;
	j->units = units_of_cost(&j->section->shape, c->cost);
	charged = charge_judge(j, c->caller, a->now, how, false);
	/* Who comes now begins with what the bucket's overflow has in use, or is judged by it. */
	if (charged == CHARGED_NONE && section_overflow_used(j->section, c->caller, a->now) > 0)
		charged = charge_judge(j, c->caller, a->now, how, true);
	if (charged == CHARGED_MOVED)
		return charged;
	if (charged == CHARGED_NONE)
		tell_unused(a, i, o);
	else
		tell_outcome(a, i, o);
	return j->limit->has_bans ? judge_ban(a, i, o) : CHARGED;
}

/* Sums up the outcomes. */
static void conclude(struct attempt *a)
{
	struct throttle_verdict *v = a->verdict;
	bool delay = true;

	v->violated = v->shadowed = 0;
	v->retry_after_ns = 0;
	for (size_t i = 0; i < a->count; i++) {
		const struct throttle_outcome *o = &v->outcome[i];

		if (!o->violated)
			continue;
		if (o->shadow) {
			v->shadowed++;
			continue;
		}
		v->violated++;
		if (o->retry_after_ns > v->retry_after_ns)
			v->retry_after_ns = o->retry_after_ns;
		delay = delay && !o->banned &&
			o->retry_after_ns <= a->judged[i].limit->limit.delay_max_ns;
	}
	v->admitted = v->violated == 0;
	v->delay = !v->admitted && delay;
}

SELDOM static void give_back(struct attempt *a, const unsigned char *order, size_t taken)
{
	for (size_t n = 0; n < taken; n++) {
		size_t i = order[n];
		const struct judged *j = &a->judged[i];

		if (!a->verdict->outcome[i].violated && !a->verdict->outcome[i].absent)
			charge_give_back(a->table, a->generation, j->section, &a->charges[i],
				&j->place, (struct when){j->plan.at, j->plan.given}, a->now);
	}
}

/* Threads that race for several meet at the first that they share, so that not all can fail. */
static void sort_by_address(const struct attempt *a, unsigned char *order)
{
	for (size_t i = 0; i < a->count; i++) {
		uintptr_t at = (uintptr_t)a->judged[i].place.entry;
		size_t n = i;

		for (; n > 0 && (uintptr_t)a->judged[order[n - 1]].place.entry > at; n--)
			order[n] = order[n - 1];
		order[n] = (unsigned char)i;
	}
}

/* All were judged to fit: takes them. False: one has moved, begin again. */
static bool take_all(struct attempt *a)
{
	unsigned char order[THROTTLE_MAX_CHARGES];
	bool is_rejudged = false;

	sort_by_address(a, order);
	for (size_t n = 0; n < a->count; n++) {
		size_t i = order[n];
		struct throttle_outcome *o = &a->verdict->outcome[i];

		while (!o->violated && !o->absent && !charge_commit(&a->judged[i])) {
			is_rejudged = true;
			if (judge_one(a, i, HOW_TAKE) == CHARGED_MOVED) {
				give_back(a, order, n);
				return false;
			}
			if (o->violated && !o->shadow) {
				give_back(a, order, n);
				conclude(a);
				return true;
			}
		}
	}
	if (is_rejudged)
		conclude(a);
	return true;
}

/* A refusal that leaves a trace: refused ones count, or count towards a ban. */
SELDOM static enum charged note_refusals(struct attempt *a)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct throttle_outcome *o = &a->verdict->outcome[i];
		struct limit_state *l = a->judged[i].limit;
		struct judged j;

		if (!o->violated || o->shadow || o->banned ||
			(!l->limit.count_refused && !l->has_bans))
			continue;
		j.limit = l;
		if (l->limit.count_refused && a->charges[i].cost > 0) {
			j.section = &l->section;
			j.units = a->judged[i].units;
			if (charge_force(&j, a->charges[i].caller, a->now, false) == CHARGED_MOVED)
				return CHARGED_MOVED;
		}
		if (!l->has_bans)
			continue;
		j.section = &l->bans;
		j.units = 1;
		if (charge_force(&j, a->charges[i].caller, a->now, false) == CHARGED_MOVED)
			return CHARGED_MOVED;
	}
	return CHARGED;
}

static bool leaves_trace(const struct attempt *a)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct limit_state *l = a->judged[i].limit;

		if (l != NULL && (l->has_bans || l->limit.count_refused))
			return true;
	}
	return false;
}

static void write_receipt(const struct attempt *a, struct throttle_receipt *receipt)
{
	receipt->count = 0;
	if (!a->verdict->admitted)
		return;
	receipt->count = (uint32_t)a->count;
	for (size_t i = 0; i < a->count; i++) {
		const struct throttle_outcome *o = &a->verdict->outcome[i];
		struct throttle_held *held = &receipt->held[i];

		held->limit = a->charges[i].limit;
		held->flags = held_flags(a->generation->number, o->overflow);
		held->caller = a->charges[i].caller;
		held->cost = o->violated || o->absent ? 0 : a->charges[i].cost;
		held->at_ns = o->at_ns;
		held->given_ns = o->absent ? 0 : a->judged[i].plan.given;
		held->added = held->added_given_ns = 0;
		held->added_at_ns = o->overflow ? a->judged[i].place.section->buckets : 0;
	}
}

/* Another process has moved the table on: nothing can be known here but that it may be full. */
SELDOM static void refuse_moved(struct attempt *a)
{
	struct throttle_verdict *v = a->verdict;

	memset(v, 0, sizeof(*v));
	v->count = (uint32_t)a->count;
	v->violated = 1;
	v->retry_after_ns = MOVED_RETRY_NS;
	v->outcome[0].violated = true;
	v->outcome[0].retry_after_ns = MOVED_RETRY_NS;
}

/* One attempt on one generation. MOVED: it was left behind on the way. */
static enum charged attempt(struct attempt *a, bool is_peek)
{
	for (size_t i = 0; i < a->count; i++)
		if (judge_one(a, i, is_peek ? HOW_LOOK : HOW_TAKE) == CHARGED_MOVED)
			return CHARGED_MOVED;
	conclude(a);
	if (is_peek)
		return CHARGED;
	if (a->verdict->admitted && !take_all(a))
		return CHARGED_MOVED;
	return a->verdict->admitted || !leaves_trace(a) ? CHARGED : note_refusals(a);
}

static int run(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt,
	bool is_peek)
{
	struct attempt a;
	uint64_t offset;

	if (count > THROTTLE_MAX_CHARGES)
		return EINVAL;
	a.table = table;
	a.charges = charges;
	a.count = count;
	a.verdict = verdict;
	verdict->count = (uint32_t)count;
	for (;;) {
		a.generation = table_current(table);
		/* relaxed: set while no other thread is in a call */
		offset = atomic_load_explicit(&table->offset_ns, memory_order_relaxed);
		if (generation_time(a.generation, now_ns, offset, &a.now)) {
			a.asked = now_ns + offset - a.generation->epoch_ns;
			if (a.asked > a.now || now_ns + offset < a.generation->epoch_ns)
				a.asked = a.now;
			if (attempt(&a, is_peek) != CHARGED_MOVED)
				break;
		}
		if (table_current(table) == a.generation) {
			refuse_moved(&a);
			break;
		}
	}
	if (receipt != NULL)
		write_receipt(&a, receipt);
	return 0;
}

int take_slowly(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	return run(table, charges, count, now_ns, verdict, receipt, false);
}

int throttle_peek(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict)
{
	return run(table, charges, count, now_ns, verdict, NULL, true);
}

void throttle_prefetch(struct throttle_table *table, uint32_t limit, struct throttle_key caller)
{
	const struct limit_state *l = table_limit(table_current(table), limit);
	struct aim aim;

	if (l == NULL)
		return;
	section_aim(&l->section, caller, &aim);
	section_prefetch_far(&l->section, &aim);
}

/* ---- charge --------------------------------------------------------------------------------- */

/* See take.h. */

static bool head_is(const struct judged *j)
{
	/* relaxed: confirms the look at the bucket's tag before it */
	return atomic_load_explicit(&j->place.entry->head, memory_order_relaxed) == j->plan.head;
}

enum charged charge_judge(
	struct judged *j, struct throttle_key key, uint64_t now, enum how how, bool is_overflow)
{
	struct section *s = j->section;

	for (;;) {
		enum located located = LOCATED;

		if (is_overflow)
			section_overflow(s, key, now, &j->place);
		else
			located = section_locate(s, key, now, how != HOW_LOOK, &j->place);
		if (located == LOCATED_MOVED)
			return CHARGED_MOVED;
		if (located == LOCATED_NONE)
			return CHARGED_NONE;
		j->plan.given = 0;
		if (s->ops->plan(&s->shape, j->place.entry, j->units, now, how, &j->plan) !=
			ENTRY_READY) {
			/* An overflow's is gone only when it is frozen; of a bucket that was split
			 * there is one in the next level. */
			if (j->place.is_overflow && (j->plan.head & HEAD_SPECIAL) &&
				!place_is_split(&j->place))
				return CHARGED_MOVED;
			continue;
		}
		if (s->shape.form == FORM_CONCURRENCY && !j->place.is_overflow &&
			(j->plan.head & CONCURRENCY_SHARED) != 0)
			concurrency_share(
				&s->shape, &j->plan, j->units, section_overflow_used(s, key, now));
		if (place_holds(&j->place) && (how != HOW_LOOK || head_is(j)))
			return CHARGED;
	}
}

/* A caller judged by the overflow has perhaps got an entry of its own meanwhile, born without this
 * charge: then it is taken back. (A bucket that was frozen meanwhile has it in what moves on.) */
static bool overflow_stands(const struct judged *j)
{
	/* seq_cst: with the swap of the head before it, pairs with the swap of the word in insert()
	 */
	return word_insertion(atomic_load_explicit(&j->place.overflow->tag,
		       memory_order_seq_cst)) == word_insertion(j->place.word);
}

bool charge_commit(struct judged *j)
{
	struct section *s = j->section;
	uint64_t head = j->plan.head;

	if (j->units == 0)
		return true;
	/* seq_cst: releases what the plan wrote; for the overflow see overflow_stands */
	if (!atomic_compare_exchange_strong_explicit(&j->place.entry->head, &head, j->plan.next,
		    memory_order_seq_cst, memory_order_relaxed))
		return false;
	if (s->ops->finish != NULL)
		s->ops->finish(&s->shape, j->place.entry, j->plan.next);
	if (__builtin_expect(j->place.is_overflow, 0)) {
		if (!overflow_stands(j)) {
			struct when when = {j->plan.at, j->plan.given};

			s->ops->refund(&s->shape, j->place.entry, &when, j->units, j->plan.at);
			return false;
		}
		atomic_fetch_add_explicit(
			&j->place.section->tally->overflowed, 1, memory_order_relaxed);
	}
	return true;
}

void charge_give_back(struct throttle_table *table, const struct generation *generation,
	const struct section *s, const struct throttle_charge *charge, const struct place *place,
	struct when when, uint64_t now)
{
	struct throttle_receipt receipt = {.count = 1};

	if (s->ops->refund(
		    &s->shape, place->entry, &when, units_of_cost(&s->shape, charge->cost), now) ||
		(table_current(table) == generation && !place_is_split(place)))
		return;
	/* It has moved to a newer generation, or to the next level: there, by its key. */
	receipt.held[0] = (struct throttle_held){
		.limit = charge->limit,
		.flags = held_flags(generation->number, place->is_overflow),
		.caller = charge->caller,
		.cost = charge->cost,
		.at_ns = when.at + generation->epoch_ns,
		.given_ns = when.given,
		.added_at_ns = place->section->buckets,
	};
	throttle_refund(table, &receipt, 0, now + generation->epoch_ns);
}

enum charged charge_force(struct judged *j, struct throttle_key key, uint64_t now, bool is_overflow)
{
	enum charged charged;

	do {
		charged = charge_judge(j, key, now, HOW_FORCE, is_overflow);
	} while (charged == CHARGED && !charge_commit(j));
	return charged;
}
