/*
 * The common case of a verdict, all in one function: one charge of a ring, short or quantised,
 * whose caller's throttle is where it is looked for first.
 *
 *   glance --> judge --> fits: swap the head, write the slot
 *     | anything else, at any step before the swap succeeded
 *     v
 *   nothing was done: take.c begins anew
 *
 * It does what take.c, charge.c and ring.c do, by the same inner parts (ring.h, section.h), without
 * their generality: that is worth half of the time of a verdict.
 */
#include "throttle/quick.h"
#include "throttle/ring.h"

bool quick_is_for(const struct limit_state *l)
{
	return l->limit.kind == THROTTLE_RING && l->section.shape.scale == 1 &&
	       l->limit.mode == THROTTLE_ENFORCE && !l->has_bans && !l->limit.count_refused &&
	       l->limit.delay_max_ns == 0;
}

/* The charge is made: its slot, which another thread may come to write first. */
static inline void write_newest(struct entry *e, const struct plan *plan, uint32_t before_position)
{
	_Atomic(uint32_t) *slot = &e->slot[before_position];
	/* acquire, and the look at the head: as in write_slot */
	uint32_t old = atomic_load_explicit(slot, memory_order_acquire);

	if (head_still(e, plan->next))
		/* release: pairs with the acquire loads of slots */
		atomic_compare_exchange_strong_explicit(slot, &old, (uint32_t)plan->next,
			memory_order_release, memory_order_relaxed);
}

static inline void tell_quick(const struct shape *s, const struct plan *plan, uint64_t epoch_ns,
	struct throttle_verdict *v)
{
	struct throttle_outcome *o = &v->outcome[0];

	v->admitted = plan->fits;
	v->delay = false;
	v->count = 1;
	v->violated = !plan->fits;
	v->shadowed = 0;
	v->retry_after_ns = plan->retry;
	o->quota = s->quota;
	o->remaining = s->quota > plan->used + plan->fits ? s->quota - plan->used - plan->fits : 0;
	o->more_ns = plan->more;
	o->reset_ns = plan->reset;
	o->retry_after_ns = plan->retry;
	o->at_ns = plan->at + epoch_ns;
	o->violated = !plan->fits;
	o->shadow = o->banned = o->overflow = o->absent = false;
}

/* Judges a short ring by what ring.h has, if no other thread has left anything unfinished. */
static inline bool plan_short(
	const struct shape *s, struct entry *e, uint64_t now, struct plan *plan)
{
	/* acquire: pairs with the release of the swap that made this head */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
	struct shape small;
	struct view v;

	ring_short(s, &small);
	v = unpack(&small, head);
	return !(head & HEAD_SPECIAL) && head != 0 && v.type != TYPE_HOLE &&
	       !is_claim_unwritten(&small, e, &v) &&
	       judge(&small, e, head, 1, time_after_head(s, now), HOW_TAKE, plan);
}

static inline bool commit(
	const struct section *s, struct entry *e, const struct plan *plan, bool is_short)
{
	uint64_t head = plan->head;

	/* seq_cst: as in charge_commit */
	if (!atomic_compare_exchange_strong_explicit(
		    &e->head, &head, plan->next, memory_order_seq_cst, memory_order_relaxed))
		return false;
	if (is_short)
		write_newest(e, plan, (uint32_t)(head >> TICK_BITS_SHORT) & 31);
	else if (s->ops->finish != NULL)
		s->ops->finish(&s->shape, e, plan);
	return true;
}

bool quick_take(struct throttle_table *table, const struct throttle_charge *charge, uint64_t now_ns,
	struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	struct generation *g = table_current(table);
	struct limit_state *l = table_limit(g, charge->limit);
	/* relaxed: set while no other thread is in a call */
	uint64_t offset = atomic_load_explicit(&table->offset_ns, memory_order_relaxed);
	uint64_t now = now_ns + offset - g->epoch_ns, latest;
	const struct section *s;
	struct place place;
	struct plan plan;
	struct entry *e;
	bool is_short;

	if (l == NULL || !l->is_quick || charge->cost != 1 || now_ns + offset < g->epoch_ns)
		return false;
	s = &l->section;
	latest = atomic_load_explicit(s->shape.latest, memory_order_relaxed);
	if (now > latest + TIME_STEP_NS)
		generation_time(g, now_ns, offset); /* notes it, before the head that it makes */
	e = section_glance(s, charge->caller, &place);
	if (e == NULL || now + TIME_LAG_NS < latest)
		return false;
	is_short = s->shape.form == FORM_RING && s->shape.index_bits == SHORT_BITS;
	if (is_short ? !plan_short(&s->shape, e, now, &plan)
		     : s->ops->plan(&s->shape, e, 1, now, HOW_TAKE, &plan) != ENTRY_READY)
		return false;
	if (plan.now != now || !place_holds(&place) ||
		(plan.fits && !commit(s, e, &plan, is_short)))
		return false;
	tell_quick(&s->shape, &plan, g->epoch_ns, verdict);
	if (receipt == NULL)
		return true;
	receipt->count = plan.fits;
	receipt->held[0] = (struct throttle_held){
		.limit = charge->limit,
		.caller = charge->caller,
		.cost = 1,
		.at_ns = verdict->outcome[0].at_ns,
	};
	return true;
}
