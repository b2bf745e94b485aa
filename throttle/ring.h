/* The inner parts of a ring that a verdict needs, for ring.c, which explains them, and quick.c. */
#ifndef THROTTLE_RING_H
#define THROTTLE_RING_H

#include "throttle/entry.h"

enum { TYPE_OPEN, TYPE_CLEAN, TYPE_HOLE };

/* OPEN: the last change was a charge of `claimed`, perhaps unwritten. CLEAN: nothing is unwritten.
 * HOLE: the slot at `hole` is being taken out. */
struct view {
	unsigned type;
	union {
		uint32_t hole, claimed;
	};
	uint32_t fill, position;
	uint64_t tick;
};

#define SHORT_BITS      5 /* of the positions of rings up to 31 */
#define TICK_BITS_SHORT (HEAD_OWN_BITS - 2 - 3 * SHORT_BITS)
#define INLINE          static inline __attribute__((always_inline))

INLINE unsigned tick_bits(const struct shape *s)
{
	return HEAD_OWN_BITS - 2 - 3 * s->index_bits;
}

INLINE uint64_t pack(const struct shape *s, const struct view *v)
{
	unsigned bits = s->index_bits, time_bits = tick_bits(s);
	uint64_t indexes = ((uint64_t)v->hole << bits | v->fill) << bits | v->position;

	return HEAD_BORN | (uint64_t)v->type << (HEAD_OWN_BITS - 2) | indexes << time_bits |
	       (v->tick & s->tick_mask);
}

INLINE struct view unpack(const struct shape *s, uint64_t head)
{
	unsigned bits = s->index_bits, time_bits = tick_bits(s);
	uint32_t mask = (uint32_t)bits_mask(bits);
	struct view v;

	v.tick = head & s->tick_mask;
	v.position = (uint32_t)(head >> time_bits) & mask;
	v.fill = (uint32_t)(head >> (time_bits + bits)) & mask;
	v.hole = (uint32_t)(head >> (time_bits + 2 * bits)) & mask;
	v.type = (unsigned)(head >> (HEAD_OWN_BITS - 2)) & 3;
	return v;
}

INLINE _Atomic(uint32_t) *slot_at(const struct shape *s, struct entry *e, uint32_t i)
{
	return &e->slot[s->first_slot + i];
}

INLINE uint32_t before(const struct shape *s, uint32_t i, uint32_t steps)
{
	return i >= steps ? i - steps : i + s->slots - steps;
}

INLINE uint32_t after(const struct shape *s, uint32_t i, uint32_t steps)
{
	i += steps;
	return i >= s->slots ? i - s->slots : i;
}

/* How far `tick` (of now) is ahead of the head's; a little behind counts as 0. */
INLINE uint64_t ticks_since(const struct shape *s, uint64_t tick, uint64_t head_tick)
{
	uint64_t d = (tick - head_tick) & s->tick_mask;

	return d > s->tick_mask - s->lag_ticks ? 0 : d;
}

INLINE bool is_claim_unwritten(const struct shape *s, struct entry *e, const struct view *v)
{
	/* acquire: pairs with write_slot */
	return v->type == TYPE_OPEN && v->claimed > 0 &&
	       atomic_load_explicit(slot_at(s, e, before(s, v->position, 1)),
		       memory_order_acquire) != (uint32_t)(v->tick & s->slot_mask);
}

INLINE uint64_t age_of(const struct shape *s, struct entry *e, uint32_t i, uint64_t tick)
{
	/* acquire: pairs with write_slot, for the head_still that follows */
	uint32_t slot = atomic_load_explicit(slot_at(s, e, i), memory_order_acquire);
	uint64_t age = (tick - slot) & s->slot_mask;

	/* A slot of a thread whose clock is ahead is new. */
	return age > s->slot_mask >> 1 ? 0 : age;
}

/* How many of `fill` have left the window at `tick`. */
INLINE uint32_t count_expired(
	const struct shape *s, struct entry *e, const struct view *v, uint64_t tick)
{
	uint32_t oldest = before(s, v->position, v->fill), low = 1, high = v->fill;

	if (age_of(s, e, oldest, tick) < s->window_ticks)
		return 0;
	/* In a full ring one expires at a time, as a rule. */
	if (high > 1 && age_of(s, e, after(s, oldest, 1), tick) < s->window_ticks)
		return 1;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (age_of(s, e, after(s, oldest, middle), tick) < s->window_ticks)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* ns from `now`, in `tick`, until slot i has left the window. */
INLINE uint64_t wait_for(
	const struct shape *s, struct entry *e, uint32_t i, uint64_t tick, uint64_t now)
{
	uint64_t age = age_of(s, e, i, tick), ahead = 0, then;

	if (age == 0)
		ahead = (atomic_load_explicit(slot_at(s, e, i), memory_order_acquire) - tick) &
			s->slot_mask;
	then = (tick + s->window_ticks + ahead - age) << s->shift;
	return then > now ? then - now : 0;
}

/* Fills in what the verdict says beyond yes and no. */
INLINE void tell(const struct shape *s, struct entry *e, const struct view *v, uint32_t live,
	uint64_t cost, uint64_t tick, uint64_t now, struct plan *plan)
{
	uint32_t oldest = before(s, v->position, live), last;

	plan->used = live;
	plan->more = plan->reset = plan->retry = 0;
	if (live > 0) {
		plan->more = wait_for(s, e, oldest, tick, now);
		plan->reset = wait_for(s, e, before(s, v->position, 1), tick, now);
	}
	if (plan->fits)
		return;
	if (cost > s->quota) {
		plan->retry = THROTTLE_NEVER;
		return;
	}
	last = after(s, oldest, (uint32_t)(live + cost - s->quota) - 1);
	plan->retry = wait_for(s, e, last, tick, now);
}

INLINE void plan_claim(const struct shape *s, const struct view *v, uint32_t live, uint64_t cost,
	uint64_t absolute, struct plan *plan)
{
	uint32_t n = cost < s->slots ? (uint32_t)cost : s->slots;
	struct view next = {
		.type = TYPE_OPEN,
		.claimed = n,
		.fill = live + n < s->slots ? live + n : s->slots,
		.position = after(s, v->position, n),
		.tick = absolute,
	};

	plan->next = pack(s, &next);
	plan->at = absolute << s->shift;
}

/* Judges by the head that it has; false when that has moved on meanwhile. */
INLINE bool judge(const struct shape *s, struct entry *e, uint64_t head, uint64_t cost,
	uint64_t now, enum how how, struct plan *plan)
{
	struct view v = unpack(s, head);
	uint64_t tick = now >> s->shift, since = ticks_since(s, tick, v.tick), recorded = tick;
	uint64_t wanted = cost > 0 ? cost : 1;
	uint32_t live = 0;

	/* Judged by its own time, recorded at the newest: both on the safe side. */
	if (since == 0)
		recorded += (v.tick - tick) & s->tick_mask;
	if (since < s->window_ticks && v.fill > 0)
		live = v.fill - count_expired(s, e, &v, tick);
	plan->head = head;
	plan->now = now;
	plan->fits = wanted <= s->quota && live <= s->quota - wanted;
	plan->at = recorded << s->shift;
	tell(s, e, &v, live, wanted, tick, now, plan);
	if (cost > 0 && (plan->fits || how == HOW_FORCE)) {
		plan_claim(
			s, &v, live, cost, recorded + (v.type == TYPE_CLEAN && since == 0), plan);
		if (plan->fits) { /* told with this charge, the newest, taken */
			plan->reset = plan->at + (s->window_ticks << s->shift) - now;
			if (live == 0)
				plan->more = plan->reset;
		}
		return true;
	}
	plan->next = head;
	return head_still(e, head);
}

/* What a verdict looks at, with what short rings have in common known to the compiler: then it all
 * stays in registers. */
INLINE void ring_short(const struct shape *s, struct shape *small)
{
	small->latest = s->latest;
	small->slots = s->slots;
	small->quota = s->quota;
	small->shift = s->shift;
	small->window_ticks = s->window_ticks;
	small->lag_ticks = s->lag_ticks;
	small->index_bits = SHORT_BITS;
	small->first_slot = 0;
	small->tick_mask = bits_mask(TICK_BITS_SHORT);
	small->slot_mask = UINT32_MAX;
}

#endif
