/*
 * The head of a divided ring (window.c), and the common verdict on one: a charge that fits, in the
 * quantum that the last one was in. Then nothing has to be closed, and all that is in use is in the
 * head.
 *
 *   head   flags 3 | closing | used | quantum          slot   tag 8 | count 24
 */
#ifndef THROTTLE_WINDOW_H
#define THROTTLE_WINDOW_H

#include "throttle/entry.h"

#define WINDOW_CLOSING    (UINT64_C(1) << (HEAD_OWN_BITS - 1))
#define WINDOW_COUNT_BITS 24
#define WINDOW_COUNT_MAX  ((1u << WINDOW_COUNT_BITS) - 1)

static inline unsigned window_used_at(const struct shape *s)
{
	return HEAD_OWN_BITS - 1 - s->used_bits;
}

static inline uint64_t window_used(const struct shape *s, uint64_t head)
{
	return (head & (WINDOW_CLOSING - 1)) >> window_used_at(s);
}

static inline uint64_t quantum_of(const struct shape *s, uint64_t now)
{
	/* A multiplication in a division's place: at most one too low. */
	uint64_t q = (uint64_t)((unsigned __int128)now * s->quantum_inverse >> 64);

	return now - q * s->quantum >= s->quantum ? q + 1 : q;
}

/* Where a quantum's slot is, and the tag that it has there. */
struct where {
	uint32_t index, tag;
};

static inline __attribute__((always_inline)) struct where where_of(
	const struct shape *s, uint64_t quantum)
{
	uint64_t lap = (uint64_t)((unsigned __int128)quantum * s->slots_inverse >> 64);

	lap += quantum - lap * s->slots >= s->slots;
	return (struct where){(uint32_t)(quantum - lap * s->slots), (uint32_t)(1 + lap % 255)};
}

/* A charge that fits. */
struct window_verdict {
	uint64_t used; /* before it */
	uint64_t next; /* the head that makes it */
	uint64_t at, more, reset;
};

/* Is anything noted in one of the slots from..to-1, of this lap? Then the first of them, else `to`.
 */
static inline __attribute__((always_inline)) uint32_t window_first_used(
	const struct entry *e, uint32_t from, uint32_t to, uint32_t tag)
{
	uint32_t least = (tag << WINDOW_COUNT_BITS) + 1;

	for (; from < to; from++)
		/* acquire: as all loads of slots, see window.c */
		if (atomic_load_explicit(&e->slot[from], memory_order_acquire) - least <
			WINDOW_COUNT_MAX)
			break;
	return from;
}

/*
 * Judges a charge of `cost`, not 0, by a head that was loaded (acquire) from `e`. The verdict is
 * good if the head can be swapped for `next`. False: not to be judged here.
 */
static inline __attribute__((always_inline)) bool window_judge_now(const struct shape *s,
	const struct entry *e, uint64_t head, uint64_t cost, uint64_t now, struct window_verdict *v)
{
	uint64_t quantum = quantum_of(s, now), start = quantum * s->quantum;
	struct where w;
	uint32_t steps;

	/* Born, not special, nor closing; of this quantum. */
	if (head >> (HEAD_OWN_BITS - 1) != HEAD_BORN >> (HEAD_OWN_BITS - 1) ||
		((head ^ quantum) & s->bucket_mask) != 0 || !time_is_near(s, now))
		return false;
	v->used = window_used(s, head);
	if (cost > s->quota || v->used > s->quota - cost)
		return false;
	v->next = head + (cost << window_used_at(s));
	v->at = start;
	/* The oldest of the slots is the one behind this quantum's, of the lap before it. (In a
	 * table's first lap there's nothing of such a tag.) */
	w = where_of(s, quantum);
	steps = window_first_used(e, w.index + 1, s->slots, w.tag > 1 ? w.tag - 1 : 255);
	if (steps == s->slots)
		steps += window_first_used(e, 0, w.index, w.tag);
	steps -= w.index;
	v->reset = start + s->slots * s->quantum - now;
	v->more = v->reset - (s->slots - steps) * s->quantum;
	return true;
}

#endif
