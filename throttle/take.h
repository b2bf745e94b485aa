/* The two ways of throttle_take: the common case in quick.c, and all of it in take.c. */
#ifndef THROTTLE_TAKE_H
#define THROTTLE_TAKE_H

#include "throttle/table.h"

/* ---- charge --------------------------------------------------------------------------------- */

/* One charge on its way: found, judged, taken, given back. Shared by take.c and settle.c. */

/* throttle_held.flags: was it charged to an overflow, and in which of the handle's generations? */
#define HELD_OVERFLOW 1u

static inline uint32_t held_flags(uint32_t generation, bool is_overflow)
{
	return generation << 1 | (is_overflow ? HELD_OVERFLOW : 0);
}

enum charged {
	CHARGED,       /* judged (and taken, where that was asked) */
	CHARGED_MOVED, /* the generation is frozen there: begin again with the current one */
	CHARGED_NONE,  /* no throttle, and none was to be made */
};

/* A caller's throttle and its verdict. */
struct judged {
	struct limit_state *limit;
	struct section *section;
	struct place place;
	struct plan plan;
	uint64_t units;
};

static inline uint64_t units_of_cost(const struct shape *shape, uint64_t cost)
{
	return shape->scale == 1 ? cost : cost / shape->scale + (cost % shape->scale != 0);
}

/* Judges `j->units` of a caller, in its own throttle (made, when `how` isn't HOW_LOOK) or the
 * overflow's. */
enum charged charge_judge(
	struct judged *j, struct throttle_key key, uint64_t now, enum how how, bool is_overflow);

/* Puts the plan in force. False: the throttle has changed since, judge again. */
bool charge_commit(struct judged *j);

/* Gives back a charge of a take that came to nothing: made at this place. */
void charge_give_back(struct throttle_table *table, const struct generation *generation,
	const struct section *section, const struct throttle_charge *charge,
	const struct place *place, struct when when, uint64_t now);

/* Charges whether it fits or not. */
enum charged charge_force(
	struct judged *j, struct throttle_key key, uint64_t now, bool is_overflow);

/* ---- take ----------------------------------------------------------------------------------- */

/* As throttle_take, whatever the limits are and other threads do. */
int take_slowly(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt);

#endif
