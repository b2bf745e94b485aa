/*
 * The common verdict: one charge of 1 of a ring of up to 31 slots, in one look at it.
 *
 *   head   flags 3 | type 2 | claimed 5 | fill 5 | position 5 | tick 44          (entry.h, ring.h)
 *
 * It is what ring.c does, with the widths known and nothing to help anybody with: a hole, a claim
 * whose slots are unwritten, any other cost are left to that. In a header because the few
 * instructions that a verdict costs are these, and a call would be a good part of them.
 */
#ifndef THROTTLE_RING_SHORT_H
#define THROTTLE_RING_SHORT_H

#include "throttle/ring.h"

#define SHORT_TICK_MASK   ((UINT64_C(1) << RING_SHORT_TICK_BITS) - 1)
#define SHORT_INDEX_MASK  ((1u << RING_SHORT_BITS) - 1)
#define SHORT_POSITION_AT RING_SHORT_TICK_BITS
#define SHORT_FILL_AT     (SHORT_POSITION_AT + RING_SHORT_BITS)
#define SHORT_CLAIMED_AT  (SHORT_FILL_AT + RING_SHORT_BITS)
#define SHORT_TYPE_AT     (SHORT_CLAIMED_AT + RING_SHORT_BITS)
#define SHORT_CLEAN       ((uint64_t)RING_CLEAN << SHORT_TYPE_AT)
#define SHORT_CLAIM                                                                                \
	(HEAD_BORN | (uint64_t)RING_OPEN << SHORT_TYPE_AT | UINT64_C(1) << SHORT_CLAIMED_AT)

/* Born, not special, OPEN or CLEAN: then the top bits, down to the upper one of the type, are. */
#define SHORT_READY_AT (SHORT_TYPE_AT + 1)
#define SHORT_READY    (HEAD_BORN >> SHORT_READY_AT)

static inline uint32_t ring_short_slot(const struct entry *e, uint32_t i)
{
	/* acquire: pairs with write_slot, for the look at the head that follows */
	return atomic_load_explicit(&e->slot[i], memory_order_acquire);
}

/* A verdict on one charge of 1. */
struct short_verdict {
	bool fits;
	uint32_t used;     /* before the charge */
	uint32_t position; /* of the slot that the charge takes */
	uint32_t old;      /* what is in that slot */
	uint64_t next;     /* the head that makes the charge */
	uint64_t more, reset, at;
};

/* Judges by a head that was loaded (acquire) from `e`. False: not to be judged here, or something
 * has happened meanwhile. `now` is never too far behind, or ahead of the newest time noted. */
static inline __attribute__((always_inline)) bool ring_short_judge(const struct shape *s,
	struct entry *e, uint64_t head, uint64_t now, struct short_verdict *v)
{
	uint64_t tick = now >> s->shift, ahead = (head - tick) & SHORT_TICK_MASK;
	uint64_t latest = atomic_load_explicit(s->latest, memory_order_relaxed), part;
	uint32_t position = (uint32_t)(head >> SHORT_POSITION_AT) & SHORT_INDEX_MASK;
	uint32_t live = (uint32_t)(head >> SHORT_FILL_AT) & SHORT_INDEX_MASK, newest, oldest;
	/* Signed: what a thread whose clock is ahead has recorded is younger than now. */
	int32_t window = (int32_t)s->window_ticks, age = 0;

	/* relaxed load, after the head's: as in time_after_head. In one comparison: is it from a
	 * second behind the newest to a step ahead of it? */
	if (head >> SHORT_READY_AT != SHORT_READY ||
		now + TIME_LAG_NS - latest > TIME_LAG_NS + TIME_STEP_NS)
		return false;
	newest = ring_short_slot(e, position > 0 ? position - 1 : s->slots - 1);
	if (newest != (uint32_t)head && !(head & SHORT_CLEAN))
		return false;
	v->old = ring_short_slot(e, position);
	v->position = position;

	/* `ahead` of the head before now; where that is more than clocks differ, it is behind. */
	if (ahead > s->lag_ticks) {
		if (SHORT_TICK_MASK + 1 - ahead >= s->window_ticks)
			live = 0;
		ahead = 0;
	}
	oldest = position >= live ? position - live : position + s->slots - live;
	for (; live > 0; live--) {
		age = (int32_t)((uint32_t)tick - ring_short_slot(e, oldest));
		if (age < window)
			break;
		oldest = oldest + 1 < s->slots ? oldest + 1 : 0;
	}

	v->used = live;
	v->fits = live < s->slots;
	/* What is live has more than `now`'s part of a tick to go. */
	part = now & (s->tick_ns - 1);
	v->more = live > 0 ? (uint64_t)(window - (int64_t)age) * s->tick_ns - part : 0;
	/* Recorded at the newest; after a refund a tick later than that, see ring.c. */
	if (v->fits && (head & SHORT_CLEAN) && (((tick + ahead) ^ head) & SHORT_TICK_MASK) == 0)
		ahead++;
	age = (int32_t)((uint32_t)tick - newest);
	v->reset =
		(s->window_ticks + (v->fits ? ahead : -(uint64_t)(int64_t)age)) * s->tick_ns - part;
	if (live == 0)
		v->more = v->reset;
	tick += ahead;
	v->at = tick * s->tick_ns;
	position = position + 1 < s->slots ? position + 1 : 0;
	v->next = SHORT_CLAIM | (uint64_t)(live + 1) << SHORT_FILL_AT |
		  (uint64_t)position << SHORT_POSITION_AT | (tick & SHORT_TICK_MASK);
	return v->fits || head_still(e, head);
}

/*
 * Writes the slot of the charge that the head `made` stands for. While the head before it stood,
 * nobody wrote that slot: so if it isn't the `old` one that it was then, another thread has written
 * it for this one, and all is well.
 */
static inline void ring_short_write(struct entry *e, uint32_t slot, uint32_t old, uint64_t made)
{
	/* release: pairs with the acquire loads of slots */
	atomic_compare_exchange_strong_explicit(
		&e->slot[slot], &old, (uint32_t)made, memory_order_release, memory_order_relaxed);
}

#endif
