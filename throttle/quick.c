/*
 * The common case of a verdict: every caller has a throttle of its own, no other thread is in the
 * way, and no limit asks for more than yes or no.
 *
 *   find all --> judge all --> all fit: swap the heads, in the order of their addresses
 *     |              |    '--> one doesn't: refused, nothing was written
 *     | anything else, at any step: what was taken is given back
 *     v
 *   nothing was done: take.c begins again
 *
 * It does what take.c does by the same parts, without what it takes to be general: that is worth
 * more than half of the time of a verdict. One charge of 1 of a short ring, in the place where it
 * is looked for first or second, and recorded after all before it, is all inlined into
 * throttle_take; everything else is in functions of its own, so that the compiler has the registers
 * for that.
 */
#include "throttle/concurrency.h"
#include "throttle/ring_short.h"
#include "throttle/take.h"
#include "throttle/window.h"

#include <string.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define QUICK_TRIES 3 /* again, where threads meet at one caller; then take.c tries on */

/* About half a microsecond to one: longer than a line of memory takes from one processor to another
 * and back. */
#define STEP_BACK_CYCLES 2500

#define INLINE   static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

/* The time in the table, noted before the heads that it makes. False: it is far behind the newest,
 * or before the table's epoch. */
INLINE bool set_time(
	const struct throttle_table *table, struct generation *g, uint64_t now_ns, uint64_t *now)
{
	/* relaxed: set while no other thread is in a call */
	uint64_t offset = atomic_load_explicit(&table->offset_ns, memory_order_relaxed);
	uint64_t time = now_ns + offset;

	*now = time - g->epoch_ns;
	if (time < g->epoch_ns)
		return false;
	/* From a second behind the newest to a step ahead of it, in one comparison (time_is_near).
	 * relaxed: as there */
	if (*now + TIME_LAG_NS - atomic_load_explicit(g->latest, memory_order_relaxed) <=
		TIME_LAG_NS + TIME_STEP_NS)
		return true;
	return generation_time(g, now_ns, offset, &time) && time == *now;
}

/* What charges come to. */
struct sum {
	uint32_t violated;
	uint64_t retry_after_ns; /* the latest of the violated */
};

/* All that the judging of each of several charges has in common. */
struct round {
	uint64_t now, epoch_ns;
	struct sum sum;
};

/* One charge on its way to a verdict. */
struct chosen {
	const struct limit_state *limit;
	const struct throttle_charge *charge;
	struct aim aim;
	struct entry *entry;
	uint64_t head, next; /* that it was judged by; that makes the charge */
	struct when when;
	uint32_t slot, old; /* of a short ring: which one it takes, and what is in it */
	enum quick quick;   /* by which way it is judged, then was */
};

INLINE bool choose(const struct generation *g, const struct throttle_charge *c, struct chosen *to)
{
	const struct limit_state *l = table_limit(g, c->limit);

	if (l == NULL || l->quick == QUICK_NOT || c->cost == 0)
		return false;
	to->limit = l;
	to->charge = c;
	to->quick = l->quick == QUICK_RING && c->cost > 1 ? QUICK_ANY : l->quick;
	section_aim(&l->section, c->caller, &to->aim);
	section_prefetch(&l->section, &to->aim);
	return true;
}

INLINE void tell(struct throttle_outcome *o, uint64_t quota, uint64_t remaining, uint64_t more_ns,
	uint64_t reset_ns, uint64_t at_ns)
{
	o->quota = quota;
	o->remaining = remaining;
	o->more_ns = more_ns;
	o->reset_ns = reset_ns;
	o->retry_after_ns = 0;
	o->at_ns = at_ns;
	/* what is left of it: the answers of yes and no, all at once */
	memset(&o->violated, 0, sizeof(*o) - offsetof(struct throttle_outcome, violated));
}

INLINE void tell_violated(struct throttle_outcome *o, uint64_t retry_after_ns, struct sum *sum)
{
	o->violated = true;
	o->retry_after_ns = retry_after_ns;
	sum->violated++;
	if (retry_after_ns > sum->retry_after_ns)
		sum->retry_after_ns = retry_after_ns;
}

INLINE bool look(struct chosen *c)
{
	const struct sight sight = section_look(&c->limit->section, &c->aim);

	c->entry = sight.entry;
	c->head = sight.head;
	return sight.entry != NULL;
}

/* The judges. Each says false when it is not to be judged here; true with an outcome, and if it
 * fits with what the swap needs. The head that was judged is one that the entry had while it was
 * the caller's: it was looked at before the tag, and is swapped, or was looked at again for a
 * refusal. The longer ones are functions of their own, so that they have the registers. */

/* Any kind of limit: by its plan. */
NOINLINE bool judge_any(struct chosen *c, struct round *r, struct throttle_outcome *o)
{
	const struct section *s = &c->limit->section;
	const uint64_t quota = c->limit->reported_quota, cost = c->charge->cost;
	struct plan plan = {.given = 0};
	uint64_t used;

	/* A plan that counts from another time than now's: of a clock that is far behind. */
	if (!look(c) ||
		s->ops->plan(&s->shape, c->entry, cost, r->now, HOW_TAKE, &plan) != ENTRY_READY ||
		plan.now != r->now || !entry_is_of(c->entry, c->aim.fingerprint))
		return false;
	if (s->shape.form == FORM_CONCURRENCY && (plan.head & CONCURRENCY_SHARED) != 0)
		return false;
	c->quick = QUICK_ANY;
	c->head = plan.head;
	c->next = plan.next;
	c->when = (struct when){plan.at, plan.given};
	used = plan.used + (plan.fits ? cost : 0);
	tell(o, quota, used < quota ? quota - used : 0, plan.more, plan.reset,
		plan.at + r->epoch_ns);
	if (!plan.fits)
		tell_violated(o, plan.retry, &r->sum);
	return true;
}

/* What doesn't fit at once is left to the plan. */
NOINLINE bool judge_window(struct chosen *c, struct round *r, struct throttle_outcome *o)
{
	const struct shape *s = &c->limit->section.shape;
	const uint64_t cost = c->charge->cost;
	struct window_verdict v;

	if (!look(c))
		return false;
	if (!window_judge_now(s, c->entry, c->head, cost, r->now, &v))
		return judge_any(c, r, o);
	c->next = v.next;
	c->when = (struct when){v.at, 0};
	tell(o, s->quota, s->quota - v.used - cost, v.more, v.reset, v.at + r->epoch_ns);
	return true;
}

INLINE void tell_short(const struct shape *s, const struct entry *e, const struct short_view *v,
	bool fits, struct throttle_outcome *o)
{
	tell(o, s->slots, fits ? s->slots - v->live - 1 : 0, ring_short_wait(s, v, v->age),
		ring_short_reset(s, e, v, fits), ring_short_at(s, v) + s->epoch_ns);
}

INLINE bool judge_short(struct chosen *c, struct round *r, struct throttle_outcome *o)
{
	const struct shape *s = &c->limit->section.shape;
	struct short_view v;

	if (!look(c) || !ring_short_view(s, c->entry, c->head,
				ring_short_is_past(s, c->head, r->now), r->now, &v))
		return false;
	if (!ring_short_fits(s, &v)) {
		tell_short(s, c->entry, &v, false, o);
		if (!head_still(c->entry, c->head))
			return false;
		tell_violated(o, o->more_ns, &r->sum);
		return true;
	}
	c->next = ring_short_next(s, &v);
	c->when = (struct when){ring_short_at(s, &v), 0};
	c->slot = v.position;
	c->old = ring_short_slot(c->entry, v.position);
	tell_short(s, c->entry, &v, true, o);
	return true;
}

INLINE bool judge(struct chosen *c, struct round *r, struct throttle_outcome *o)
{
	if (c->quick == QUICK_RING)
		return judge_short(c, r, o);
	return c->quick == QUICK_WINDOW ? judge_window(c, r, o) : judge_any(c, r, o);
}

/*
 * Another thread was faster, and is allowed to continue for a moment: with the line in its cache it
 * makes several verdicts in the time that two, who take it from each other for each, need for one.
 * It is waited for a time, not for that thread.
 */
SELDOM static void step_back(void)
{
#if defined(__x86_64__)
	const uint64_t begin = __rdtsc();

	while (__rdtsc() - begin < STEP_BACK_CYCLES)
		_mm_pause();
#else
	for (unsigned i = 0; i < STEP_BACK_CYCLES; i++)
		atomic_signal_fence(memory_order_seq_cst); /* an empty loop that stays */
#endif
}

/* False: the head has changed since. */
INLINE bool swap(const struct chosen *c)
{
	uint64_t head = c->head;

	/* acq_rel: as every change of a head */
	if (!atomic_compare_exchange_strong_explicit(
		    &c->entry->head, &head, c->next, memory_order_acq_rel, memory_order_relaxed))
		return false;
	if (c->quick == QUICK_RING) {
		ring_short_write(c->entry, c->slot, c->old, c->next);
	} else if (c->quick == QUICK_ANY) {
		const struct section *s = &c->limit->section;

		if (s->ops->finish != NULL)
			s->ops->finish(&s->shape, c->entry, c->next);
	}
	return true;
}

INLINE void conclude(struct throttle_verdict *v, size_t count, const struct sum *sum)
{
	v->admitted = sum->violated == 0;
	v->delay = false;
	v->count = (uint32_t)count;
	v->violated = sum->violated;
	v->shadowed = 0;
	v->retry_after_ns = sum->retry_after_ns;
}

/* The same of one that was admitted, to be copied at once. */
static const struct throttle_verdict admitted_one = {.admitted = true, .count = 1};

INLINE void hold(const struct limit_state *l, const struct throttle_charge *c, uint64_t at_ns,
	struct throttle_held *held)
{
	held->limit = c->limit;
	held->flags = held_flags(l->number, false);
	held->caller = c->caller;
	held->cost = c->cost;
	held->at_ns = at_ns;
	held->given_ns = 0;
	held->added = held->added_at_ns = held->added_given_ns = 0;
}

/* What is before the epoch comes to a time far off, which is not judged here. */
INLINE uint64_t time_of(
	const struct throttle_table *table, const struct generation *g, uint64_t now_ns)
{
	/* relaxed: set while no other thread is in a call */
	return now_ns + atomic_load_explicit(&table->offset_ns, memory_order_relaxed) - g->epoch_ns;
}

/* Where the caller is aimed at, or in the second place, which is aimed at then. */
INLINE bool look_near(
	const struct section *s, struct aim *aim, struct throttle_key key, uint64_t *head)
{
	if (section_look_by_key(aim->entry, key, head))
		return true;
	aim->entry = section_second(s, aim);
	return section_look_by_key(aim->entry, key, head);
}

/* One charge of 1 of a short ring: what most verdicts are. As judge_short and swap, with what is
 * needed until the swap in registers. */
INLINE bool take_one(const struct limit_state *l, struct entry *e, uint64_t head, bool is_past,
	const struct throttle_charge *charge, uint64_t now, struct throttle_verdict *verdict,
	struct throttle_receipt *receipt)
{
	const struct shape *s = &l->section.shape;
	struct throttle_outcome *o = &verdict->outcome[0];
	struct sum sum = {0};
	struct short_view v;
	uint64_t next;
	uint32_t old;

	if (!ring_short_view(s, e, head, is_past, now, &v))
		return false;
	if (!ring_short_fits(s, &v)) {
		tell_short(s, e, &v, false, o);
		if (!head_still(e, head))
			return false;
		tell_violated(o, o->more_ns, &sum);
		conclude(verdict, 1, &sum);
		if (receipt != NULL)
			receipt->count = 0;
		return true;
	}
	old = ring_short_slot(e, v.position);
	next = ring_short_next(s, &v);
	/* acq_rel: as every change of a head */
	if (!atomic_compare_exchange_strong_explicit(
		    &e->head, &head, next, memory_order_acq_rel, memory_order_relaxed)) {
		step_back();
		return false;
	}
	ring_short_write(e, v.position, old, next);
	tell_short(s, e, &v, true, o);
	memcpy(verdict, &admitted_one, offsetof(struct throttle_verdict, outcome));
	if (receipt != NULL) {
		receipt->count = 1;
		hold(l, charge, o->at_ns, &receipt->held[0]);
	}
	return true;
}

/* The same where the caller is in none of these places, another thread was in the way, or the last
 * charge was not before this one. */
NOINLINE int take_ring(struct throttle_table *table, const struct throttle_charge *charge,
	size_t count, uint64_t now_ns, struct throttle_verdict *verdict,
	struct throttle_receipt *receipt)
{
	const struct generation *g = table_current(table);
	const struct limit_state *l = table_limit(g, charge->limit);
	const uint64_t now = time_of(table, g, now_ns);
	int tries = l != NULL && l->quick == QUICK_RING ? QUICK_TRIES : 0;
	struct aim aim;

	if (tries > 0)
		section_aim(&l->section, charge->caller, &aim);
	for (; tries > 0; tries--) {
		const struct sight sight = section_look(&l->section, &aim);

		if (sight.entry == NULL)
			break;
		if (take_one(l, sight.entry, sight.head,
			    ring_short_is_past(&l->section.shape, sight.head, now), charge, now,
			    verdict, receipt))
			return 0;
	}
	return take_slowly(table, charge, count, now_ns, verdict, receipt);
}

/* One charge of a divided ring, in its first place or the second. */
INLINE bool take_window(const struct throttle_table *table, const struct generation *g,
	const struct limit_state *l, const struct throttle_charge *charge, uint64_t now_ns,
	struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	const struct shape *s = &l->section.shape;
	uint64_t head;
	const struct sum none = {0};
	struct window_verdict v;
	struct aim aim;

	section_aim(&l->section, charge->caller, &aim);
	section_prefetch_rest(&l->section, &aim);
	if (!look_near(&l->section, &aim, charge->caller, &head) ||
		!window_judge_now(s, aim.entry, head, charge->cost, time_of(table, g, now_ns), &v))
		return false;
	/* acq_rel: as every change of a head */
	if (!atomic_compare_exchange_strong_explicit(
		    &aim.entry->head, &head, v.next, memory_order_acq_rel, memory_order_relaxed)) {
		step_back();
		return false;
	}
	tell(&verdict->outcome[0], s->quota, s->quota - v.used - charge->cost, v.more, v.reset,
		v.at + g->epoch_ns);
	conclude(verdict, 1, &none);
	if (receipt != NULL) {
		receipt->count = 1;
		hold(l, charge, v.at + g->epoch_ns, &receipt->held[0]);
	}
	return true;
}

/* One charge of whatever it is. */
INLINE bool take_any(struct throttle_table *table, const struct throttle_charge *charge,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	struct generation *g = table_current(table);
	struct throttle_outcome *o = &verdict->outcome[0];
	struct round r = {.epoch_ns = g->epoch_ns};
	struct chosen c;

	c.slot = c.old = 0; /* not used here, but gcc can't know */
	if (!set_time(table, g, now_ns, &r.now) || !choose(g, charge, &c) || !judge(&c, &r, o))
		return false;
	if (r.sum.violated == 0 && !swap(&c)) {
		step_back();
		return false;
	}
	conclude(verdict, 1, &r.sum);
	if (receipt == NULL)
		return true;
	receipt->count = r.sum.violated == 0;
	if (r.sum.violated == 0) {
		hold(c.limit, charge, o->at_ns, &receipt->held[0]);
		receipt->held[0].given_ns = c.when.given;
	}
	return true;
}

/* What was taken of several, before one that could not be. */
SELDOM static void give_back(struct throttle_table *table, const struct generation *g,
	struct chosen *const *taken, size_t count, uint64_t now)
{
	while (count-- > 0) {
		const struct chosen *c = taken[count];
		const struct section *s = &c->limit->section;
		const struct place place = {.entry = c->entry,
			.section = s,
			.overflow = section_entry(
				s, section_bucket_of(s, c->charge->caller), BUCKET_WAYS)};

		charge_give_back(table, g, s, c->charge, &place, c->when, now);
	}
}

/* Puts one into the order that they are to be taken in, behind `count` that are: see
 * sort_by_address in take.c. */
INLINE void put_in_order(struct chosen *c, struct chosen **order, size_t count)
{
	for (; count > 0 && (uintptr_t)order[count - 1]->entry > (uintptr_t)c->entry; count--)
		order[count] = order[count - 1];
	order[count] = c;
}

/* Several: all or none. When threads meet here, who is refused may have been by what another gives
 * back the moment after; who fails begins again in take.c, which keeps what it has while it tries.
 */
INLINE bool take_several(struct throttle_table *table, const struct throttle_charge *charges,
	size_t count, uint64_t now_ns, struct throttle_verdict *verdict,
	struct throttle_receipt *receipt)
{
	struct generation *g = table_current(table);
	struct chosen chosen[THROTTLE_MAX_CHARGES], *order[THROTTLE_MAX_CHARGES];
	struct round r = {.epoch_ns = g->epoch_ns};

	if (count > THROTTLE_MAX_CHARGES || !set_time(table, g, now_ns, &r.now))
		return false;
	/* All of their memory is asked for before the first of it is waited for. */
	for (size_t i = 0; i < count; i++)
		if (!choose(g, &charges[i], &chosen[i]))
			return false;
	for (size_t i = 0; i < count; i++) {
		if (!judge(&chosen[i], &r, &verdict->outcome[i]))
			return false;
		put_in_order(&chosen[i], order, i);
		if (receipt == NULL)
			continue;
		hold(chosen[i].limit, &charges[i], verdict->outcome[i].at_ns, &receipt->held[i]);
		receipt->held[i].given_ns = chosen[i].when.given;
	}
	for (size_t i = 0; r.sum.violated == 0 && i < count; i++)
		if (!swap(order[i])) {
			give_back(table, g, order, i, r.now);
			step_back();
			return false;
		}
	conclude(verdict, count, &r.sum);
	if (receipt != NULL)
		receipt->count = r.sum.violated == 0 ? (uint32_t)count : 0;
	return true;
}

/* None, or several. */
NOINLINE int take_all(struct throttle_table *table, const struct throttle_charge *charges,
	size_t count, uint64_t now_ns, struct throttle_verdict *verdict,
	struct throttle_receipt *receipt)
{
	if (take_several(table, charges, count, now_ns, verdict, receipt))
		return 0;
	return take_slowly(table, charges, count, now_ns, verdict, receipt);
}

/* One charge that is none of 1 of a short ring. */
NOINLINE int take_otherwise(struct throttle_table *table, const struct throttle_charge *charges,
	size_t count, uint64_t now_ns, struct throttle_verdict *verdict,
	struct throttle_receipt *receipt)
{
	const struct generation *g = table_current(table);
	const struct limit_state *l = table_limit(g, charges->limit);

	if (l != NULL && l->quick == QUICK_WINDOW && charges->cost > 0 &&
		take_window(table, g, l, charges, now_ns, verdict, receipt))
		return 0;
	if (l != NULL && take_any(table, charges, now_ns, verdict, receipt))
		return 0;
	return take_slowly(table, charges, count, now_ns, verdict, receipt);
}

int throttle_take(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	const struct generation *g = table_current(table);
	const struct limit_state *l;
	uint64_t head, now;
	struct aim aim;

	if (count != 1)
		return take_all(table, charges, count, now_ns, verdict, receipt);
	l = table_limit(g, charges->limit);
	if (l == NULL || l->quick != QUICK_RING || charges->cost != 1)
		return take_otherwise(table, charges, 1, now_ns, verdict, receipt);
	section_aim(&l->section, charges->caller, &aim);
	section_prefetch_rest(&l->section, &aim);
	if (!look_near(&l->section, &aim, charges->caller, &head))
		return take_ring(table, charges, 1, now_ns, verdict, receipt);
	now = time_of(table, g, now_ns);
	if (!ring_short_is_past(&l->section.shape, head, now) ||
		!take_one(l, aim.entry, head, true, charges, now, verdict, receipt))
		return take_ring(table, charges, 1, now_ns, verdict, receipt);
	return 0;
}
