/*
 * The head of a ring, and its slots: what ring.c, ring_short.c and ring_move.c share. ring.c
 * explains them.
 *
 *   head   60 59    58 ..                                            .. 0
 *          type     hole or claimed | fill | position | tick
 *
 * The three indexes are of as many bits as the number of slots has, at least 5; the tick has what
 * they leave.
 */
#ifndef THROTTLE_RING_H
#define THROTTLE_RING_H

#include "throttle/entry.h"

enum { RING_OPEN, RING_CLEAN, RING_HOLE, RING_SINK };

/* OPEN: the last change was a charge of `claimed`, perhaps unwritten, or 0. CLEAN: nothing is
 * unwritten, and the next charge is recorded in a later tick. HOLE, SINK: the slot at `hole` is
 * being taken out, by newer slots or by older ones. */
struct view {
	unsigned type;
	union {
		uint32_t hole, claimed;
	};
	uint32_t fill, position;
	uint64_t tick;
};

#define RING_SHORT_BITS      5 /* of the indexes of rings of up to 31 slots */
#define RING_SHORT_TICK_BITS (HEAD_OWN_BITS - 2 - 3 * RING_SHORT_BITS)

static inline unsigned tick_bits(const struct shape *s)
{
	return HEAD_OWN_BITS - 2 - 3 * s->index_bits;
}

static inline uint64_t pack(const struct shape *s, const struct view *v)
{
	unsigned bits = s->index_bits, time_bits = tick_bits(s);
	uint64_t indexes = ((uint64_t)v->hole << bits | v->fill) << bits | v->position;

	return HEAD_BORN | (uint64_t)v->type << (HEAD_OWN_BITS - 2) | indexes << time_bits |
	       (v->tick & s->tick_mask);
}

static inline struct view unpack(const struct shape *s, uint64_t head)
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

static inline _Atomic(uint32_t) *slot_at(const struct shape *s, struct entry *e, uint32_t i)
{
	return &e->slot[s->first_slot + i];
}

/* Of long rings, in the place of two slots: when it was last used. */
static inline _Atomic(uint64_t) *stamp_of(struct entry *e)
{
	return (_Atomic(uint64_t) *)(void *)((unsigned char *)e + sizeof(struct entry));
}

static inline uint32_t before(const struct shape *s, uint32_t i, uint32_t steps)
{
	return i >= steps ? i - steps : i + s->slots - steps;
}

static inline uint32_t after(const struct shape *s, uint32_t i, uint32_t steps)
{
	i += steps;
	return i >= s->slots ? i - s->slots : i;
}

/* How far `tick` (of now) is ahead of the head's; a little behind counts as 0. */
static inline uint64_t ticks_since(const struct shape *s, uint64_t tick, uint64_t head_tick)
{
	uint64_t d = (tick - head_tick) & s->tick_mask;

	return d > s->since_max ? 0 : d;
}

static inline bool is_gap_open(const struct view *v)
{
	return v->type >= RING_HOLE;
}

static inline bool is_claim_unwritten(const struct shape *s, struct entry *e, const struct view *v)
{
	/* acquire: pairs with write_slot */
	return v->type == RING_OPEN && v->claimed > 0 &&
	       atomic_load_explicit(slot_at(s, e, before(s, v->position, 1)),
		       memory_order_acquire) != (uint32_t)(v->tick & s->slot_mask);
}

static inline uint64_t age_of(const struct shape *s, struct entry *e, uint32_t i, uint64_t tick)
{
	/* acquire: pairs with write_slot, for the head_still that follows */
	uint32_t slot = atomic_load_explicit(slot_at(s, e, i), memory_order_acquire);
	uint64_t age = (tick - slot) & s->slot_mask;

	/* A slot of a thread whose clock is ahead is new. */
	return age > s->slot_mask >> 1 ? 0 : age;
}

/* Any ring; and those of up to 31 slots, whose usual verdict has a function of its own. */
extern const struct form_ops ring_ops, ring_short_ops;

/* Is what a head that was loaded (acquire) before says from so long ago that its tick can't be told
 * from a new one? Of short rings it never is. */
bool ring_is_idle(const struct shape *s, struct entry *e, uint64_t head, uint64_t now);

/* form_ops.is_same, .remember and .recall: ring_move.c */
bool ring_is_same(const struct shape *s, const struct shape *old);
bool ring_remember(
	const struct shape *s, const struct entry *e, uint64_t now, struct history *history);
void ring_recall(
	const struct shape *s, const struct history *history, uint64_t now, struct image *image);

/* Ban rings only: since when the caller is banned, or 0. */
uint64_t ring_full_since(const struct shape *s, struct entry *e, uint64_t now);

/* An entry from a file: what can't be is made all used up, never a write out of bounds. */
void ring_repair(const struct shape *s, struct entry *e);

#endif
