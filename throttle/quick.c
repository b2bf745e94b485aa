/*
 * The common case of a verdict: every caller has a throttle of its own, no other thread is in the
 * way, and no limit asks for more than yes or no.
 *
 *   find all --> judge all --> all fit: swap the heads, in the order of their addresses
 *     |              |    '--> one doesn't: refused, nothing was written
 *     | anything else, at any step: what was taken is given back
 *     v
 *   nothing was done: take.c begins anew
 *
 * It does what take.c does by the same parts, without what it takes to be general: that is worth
 * more than half of the time of a verdict. All of one charge is inlined into one function.
 */
#include "throttle/ring_short.h"
#include "throttle/take.h"

#define QUICK_TRIES 3 /* again, where threads meet at one caller; then take.c tries on */

#define INLINE static inline __attribute__((always_inline))

bool quick_is_for(const struct limit_state *l)
{
	return l->section.shape.scale == 1 && l->limit.mode == THROTTLE_ENFORCE && !l->has_bans &&
	       !l->limit.count_refused && l->limit.delay_max_ns == 0;
}

bool quick_is_for_one(const struct limit_state *l)
{
	return quick_is_for(l) && l->section.ops == &ring_short_ops;
}

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
	/* From a second behind the newest to a step ahead of it, in one comparison. */
	return *now + TIME_LAG_NS - generation_latest(g) <= TIME_LAG_NS + TIME_STEP_NS ||
	       generation_time(g, now_ns, offset) == *now;
}

/* One charge on its way to a verdict. */
struct chosen {
	const struct limit_state *limit;
	struct aim aim;
	struct entry *entry;
	uint64_t head, next; /* that it was judged by; that makes the charge */
	uint64_t at;
	uint64_t units;
	uint32_t slot, old; /* of a short ring: which one it takes, and what is in it */
	bool is_short;
};

INLINE bool choose(const struct generation *g, const struct throttle_charge *c, struct chosen *to)
{
	const struct limit_state *l = table_limit(g, c->limit);

	if (l == NULL || !l->is_quick || c->cost == 0)
		return false;
	to->limit = l;
	to->units = c->cost;
	to->is_short = l->section.ops == &ring_short_ops && c->cost == 1;
	section_aim(&l->section, c->caller, &to->aim);
	return true;
}

INLINE void tell(const struct plan *plan, uint64_t quota, uint64_t units, uint64_t epoch_ns,
	struct throttle_outcome *o)
{
	uint64_t used = plan->used + (plan->fits ? units : 0);

	o->quota = quota;
	o->remaining = used < quota ? quota - used : 0;
	o->more_ns = plan->more;
	o->reset_ns = plan->reset;
	o->retry_after_ns = plan->retry;
	o->at_ns = plan->at + epoch_ns;
	o->violated = !plan->fits;
	o->shadow = o->banned = o->overflow = o->absent = false;
}

INLINE void tell_short(const struct short_verdict *v, uint64_t quota, uint64_t epoch_ns,
	struct throttle_outcome *o)
{
	o->quota = quota;
	o->remaining = v->fits ? quota - v->used - 1 : 0;
	o->more_ns = v->more;
	o->reset_ns = v->reset;
	o->retry_after_ns = v->fits ? 0 : v->more;
	o->at_ns = v->at + epoch_ns;
	o->violated = !v->fits;
	o->shadow = o->banned = o->overflow = o->absent = false;
}

/* Any kind of limit: by its plan. */
INLINE bool judge_any(struct chosen *c, uint64_t now, uint64_t epoch_ns, struct throttle_outcome *o)
{
	const struct section *s = &c->limit->section;
	struct plan plan;

	/* A plan that counts from another time than now's: of a clock that is far behind. */
	if (s->ops->plan(&s->shape, c->entry, c->units, now, HOW_TAKE, &plan) != ENTRY_READY ||
		plan.now != now || !entry_is_of(c->entry, c->aim.fingerprint))
		return false;
	c->head = plan.head;
	c->next = plan.next;
	c->at = plan.at;
	tell(&plan, c->limit->told_quota, c->units, epoch_ns, o);
	return true;
}

INLINE bool judge_short(
	struct chosen *c, uint64_t now, uint64_t epoch_ns, struct throttle_outcome *o)
{
	const struct shape *s = &c->limit->section.shape;
	struct short_verdict v;

	if (!ring_short_judge(s, c->entry, c->head, now, &v))
		return false;
	c->next = v.next;
	c->at = v.at;
	c->slot = v.position;
	c->old = v.old;
	tell_short(&v, s->slots, epoch_ns, o);
	return true;
}

/* False: not to be judged here. The head that was judged is one that the entry had while it was the
 * caller's: it was looked at before the tag, and is swapped, or was looked at again for a refusal.
 */
INLINE bool judge(struct chosen *c, uint64_t now, uint64_t epoch_ns, struct throttle_outcome *o)
{
	c->entry = section_look(&c->limit->section, &c->aim, &c->head);
	if (c->entry == NULL)
		return false;
	return c->is_short ? judge_short(c, now, epoch_ns, o) : judge_any(c, now, epoch_ns, o);
}

/* False: the head has changed since. */
INLINE bool swap(const struct chosen *c)
{
	const struct section *s = &c->limit->section;
	uint64_t head = c->head;

	/* acq_rel: as every change of a head */
	if (!atomic_compare_exchange_strong_explicit(
		    &c->entry->head, &head, c->next, memory_order_acq_rel, memory_order_relaxed))
		return false;
	if (c->is_short)
		ring_short_write(c->entry, c->slot, c->old, c->next);
	else if (s->ops->finish != NULL)
		s->ops->finish(&s->shape, c->entry, c->next);
	return true;
}

INLINE void conclude(struct throttle_verdict *v, size_t count, uint32_t violated, uint64_t retry)
{
	v->admitted = violated == 0;
	v->delay = false;
	v->count = (uint32_t)count;
	v->violated = violated;
	v->shadowed = 0;
	v->retry_after_ns = retry;
}

INLINE void hold(const struct throttle_charge *c, uint64_t at_ns, struct throttle_held *held)
{
	held->limit = c->limit;
	held->flags = 0;
	held->caller = c->caller;
	held->cost = c->cost;
	held->at_ns = at_ns;
}

INLINE void hold_one(const struct throttle_charge *c, bool is_taken, uint64_t at_ns,
	struct throttle_receipt *receipt)
{
	if (receipt == NULL)
		return;
	receipt->count = is_taken;
	if (is_taken)
		hold(c, at_ns, &receipt->held[0]);
}

/* One charge of 1 of a short ring: what most verdicts are. As choose, judge and swap, with all of
 * it in registers. */
INLINE bool take_one(const struct throttle_table *table, const struct generation *g,
	const struct limit_state *l, const struct throttle_charge *charge, uint64_t now_ns,
	struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	struct throttle_outcome *o = &verdict->outcome[0];
	struct short_verdict v;
	struct aim aim;
	struct entry *e;
	uint64_t head, now;

	/* relaxed: set while no other thread is in a call. What is before the epoch comes to a time
	 * far off, which is not judged here. */
	now = now_ns + atomic_load_explicit(&table->offset_ns, memory_order_relaxed) - g->epoch_ns;
	section_aim(&l->section, charge->caller, &aim);
	section_prefetch(&l->section, &aim);
	for (int tries = QUICK_TRIES;; tries--) {
		e = section_look(&l->section, &aim, &head);
		if (e == NULL || !ring_short_judge(&l->section.shape, e, head, now, &v))
			return false;
		/* acq_rel: as every change of a head */
		if (!v.fits || atomic_compare_exchange_strong_explicit(&e->head, &head, v.next,
				       memory_order_acq_rel, memory_order_relaxed))
			break;
		if (tries == 0)
			return false;
	}
	if (v.fits)
		ring_short_write(e, v.position, v.old, v.next);
	tell_short(&v, l->section.shape.slots, g->epoch_ns, o);
	conclude(verdict, 1, !v.fits, o->retry_after_ns);
	hold_one(charge, v.fits, o->at_ns, receipt);
	return true;
}

/* One charge of whatever it is. */
INLINE bool take_any(struct throttle_table *table, const struct throttle_charge *charge,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	struct generation *g = table_current(table);
	struct throttle_outcome *o = &verdict->outcome[0];
	struct chosen c;
	uint64_t now;

	if (!set_time(table, g, now_ns, &now) || !choose(g, charge, &c))
		return false;
	section_prefetch(&c.limit->section, &c.aim);
	if (!judge(&c, now, g->epoch_ns, o) || (!o->violated && !swap(&c)))
		return false;
	conclude(verdict, 1, o->violated, o->retry_after_ns);
	hold_one(charge, !o->violated, o->at_ns, receipt);
	return true;
}

/* What was taken of several, before one that could not be. */
SELDOM static void give_back(struct throttle_table *table, const struct generation *g,
	const struct chosen *chosen, const struct throttle_charge *charges,
	const unsigned char *order, size_t taken, uint64_t now)
{
	while (taken-- > 0) {
		const struct chosen *c = &chosen[order[taken]];

		charge_give_back(
			table, g, &c->limit->section, &charges[order[taken]], c->entry, c->at, now);
	}
}

/* Puts the n-th into the order that they are to be taken in: see sort_by_address in take.c. */
INLINE void put_in_order(const struct chosen *chosen, size_t n, unsigned char *order)
{
	size_t i = n;

	for (; i > 0 && (uintptr_t)chosen[order[i - 1]].entry > (uintptr_t)chosen[n].entry; i--)
		order[i] = order[i - 1];
	order[i] = (unsigned char)n;
}

/* Several: all or none. When threads meet here, who is refused may have been by what another gives
 * back the moment after; who fails begins anew in take.c, which keeps what it has while it tries.
 */
static bool take_several(struct throttle_table *table, const struct throttle_charge *charges,
	size_t count, uint64_t now_ns, struct throttle_verdict *verdict,
	struct throttle_receipt *receipt)
{
	struct generation *g = table_current(table);
	struct chosen chosen[THROTTLE_MAX_CHARGES];
	uint64_t retry = 0, now;
	unsigned char order[THROTTLE_MAX_CHARGES];
	uint32_t violated = 0;

	if (count > THROTTLE_MAX_CHARGES || !set_time(table, g, now_ns, &now))
		return false;
	/* All of their memory is asked for before the first of it is waited for. */
	for (size_t i = 0; i < count; i++) {
		if (!choose(g, &charges[i], &chosen[i]))
			return false;
		section_prefetch(&chosen[i].limit->section, &chosen[i].aim);
	}
	for (size_t i = 0; i < count; i++) {
		struct throttle_outcome *o = &verdict->outcome[i];

		if (!judge(&chosen[i], now, g->epoch_ns, o))
			return false;
		put_in_order(chosen, i, order);
		violated += o->violated;
		retry = o->retry_after_ns > retry ? o->retry_after_ns : retry;
	}
	for (size_t i = 0; violated == 0 && i < count; i++)
		if (!swap(&chosen[order[i]])) {
			give_back(table, g, chosen, charges, order, i, now);
			return false;
		}
	conclude(verdict, count, violated, retry);
	if (receipt == NULL)
		return true;
	receipt->count = violated == 0 ? (uint32_t)count : 0;
	for (size_t i = 0; i < receipt->count; i++)
		hold(&charges[i], verdict->outcome[i].at_ns, &receipt->held[i]);
	return true;
}

int throttle_take(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	const struct generation *g = table_current(table);
	const struct limit_state *l = count > 0 ? table_limit(g, charges[0].limit) : NULL;
	bool is_done;

	if (count > 1)
		is_done = take_several(table, charges, count, now_ns, verdict, receipt);
	else if (l != NULL && l->is_quick_for_one && charges[0].cost == 1)
		is_done = take_one(table, g, l, charges, now_ns, verdict, receipt);
	else
		is_done = l != NULL && take_any(table, charges, now_ns, verdict, receipt);
	return is_done ? 0 : take_slowly(table, charges, count, now_ns, verdict, receipt);
}
