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

#define SHORT_INLINE static inline __attribute__((always_inline))

SHORT_INLINE uint32_t ring_short_slot(const struct entry *e, uint32_t i)
{
	/* acquire: pairs with write_slot, for the look at the head that follows */
	return atomic_load_explicit(&e->slot[i], memory_order_acquire);
}

/* The result of one look at a ring. As little as a charge needs until it is made: what its outcome
 * says is read again, and counted, when that is done. */
struct short_view {
	uint64_t now, tick; /* that it is in, */
	uint64_t ahead;     /* and how much later it is to be recorded: ticks */
	int64_t age;        /* of the oldest that is live, the charge's own if none is: ticks */
	uint32_t live, position;
};

/* Is the head older than now? Else it is of now; or, where that is more than clocks differ, of
 * after it. */
SHORT_INLINE bool ring_short_is_past(const struct shape *s, uint64_t head, uint64_t now)
{
	return (((now >> s->shift) - head) & SHORT_TICK_MASK) - 1 < s->since_max;
}

/* Looks at it by a head that was loaded (acquire) from `e`, and is older than now or not. False:
 * not to be judged here. */
SHORT_INLINE bool ring_short_view(const struct shape *s, const struct entry *e, uint64_t head,
	bool is_past, uint64_t now, struct short_view *v)
{
	uint64_t tick = now >> s->shift, behind = (tick - head) & SHORT_TICK_MASK;
	uint32_t position = (uint32_t)(head >> SHORT_POSITION_AT) & SHORT_INDEX_MASK;
	uint32_t live = (uint32_t)(head >> SHORT_FILL_AT) & SHORT_INDEX_MASK, oldest;

	v->now = now;
	v->tick = tick;
	v->position = position;
	v->ahead = 0;
	/* Else the charge is recorded at the newest, after a refund one later (ring.c). */
	if (is_past)
		live = behind < s->window_ticks ? live : 0;
	else
		v->ahead = (-behind & SHORT_TICK_MASK) + ((head & SHORT_CLEAN) != 0);
	if (head >> SHORT_READY_AT != SHORT_READY || !time_is_near(s, now))
		return false;
	/* Of a claim that is not written yet. */
	if (ring_short_slot(e, (position > 0 ? position : s->slots) - 1) != (uint32_t)head &&
		(head & SHORT_CLEAN) == 0 && (head >> SHORT_CLAIMED_AT & SHORT_INDEX_MASK) != 0)
		return false;
	oldest = position >= live ? position - live : position + s->slots - live;
	for (v->age = -(int64_t)v->ahead; live > 0; live--) {
		/* Signed: what a thread whose clock is ahead has recorded is younger than now. */
		int32_t age = (int32_t)((uint32_t)tick - ring_short_slot(e, oldest));

		if (age < (int32_t)s->window_ticks) {
			v->age = age;
			break;
		}
		if (!is_past)
			return false; /* is_next in ring.c */
		oldest = oldest + 1 < s->slots ? oldest + 1 : 0;
	}
	v->live = live;
	return true;
}

SHORT_INLINE bool ring_short_fits(const struct shape *s, const struct short_view *v)
{
	return v->live < s->slots;
}

/* The time that a charge is recorded at. */
SHORT_INLINE uint64_t ring_short_at(const struct shape *s, const struct short_view *v)
{
	return (v->tick + v->ahead) * s->tick_ns;
}

/* The head that makes a charge that fits. */
SHORT_INLINE uint64_t ring_short_next(const struct shape *s, const struct short_view *v)
{
	uint32_t position = v->position + 1 < s->slots ? v->position + 1 : 0;

	return SHORT_CLAIM | (uint64_t)(v->live + 1) << SHORT_FILL_AT |
	       (uint64_t)position << SHORT_POSITION_AT | ((v->tick + v->ahead) & SHORT_TICK_MASK);
}

/* ns from now until what is of that age has left the window: more than now's part of a tick. */
SHORT_INLINE uint64_t ring_short_wait(
	const struct shape *s, const struct short_view *v, int64_t age)
{
	return s->span - (uint64_t)age * s->tick_ns - (v->now & (s->tick_ns - 1));
}

/* ... until all has, with the charge taken if it fits. (If not, the head is to be looked at again
 * after this.) */
SHORT_INLINE uint64_t ring_short_reset(
	const struct shape *s, const struct entry *e, const struct short_view *v, bool fits)
{
	uint32_t newest;

	if (fits)
		return ring_short_wait(s, v, -(int64_t)v->ahead);
	newest = ring_short_slot(e, (v->position > 0 ? v->position : s->slots) - 1);
	return ring_short_wait(s, v, (int32_t)((uint32_t)v->tick - newest));
}

/*
 * Writes the slot of the charge that produced the head `made`. While the head before it was in
 * place, no thread wrote that slot: so if it isn't the `old` one that it was then, another thread
 * has written it for this one, and all is well.
 */
static inline void ring_short_write(struct entry *e, uint32_t slot, uint32_t old, uint64_t made)
{
	/* release: pairs with the acquire loads of slots */
	atomic_compare_exchange_strong_explicit(
		&e->slot[slot], &old, (uint32_t)made, memory_order_release, memory_order_relaxed);
}

#endif
