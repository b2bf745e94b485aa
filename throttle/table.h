/* The handle: names of limits, and the generation in use. See table.c. */
#ifndef THROTTLE_TABLE_H
#define THROTTLE_TABLE_H

#include "throttle/generation.h"

struct throttle_table {
	_Atomic(struct generation *) current;
	_Atomic(uint64_t) offset_ns; /* added to the times passed in; throttle_rebase */
	_Atomic(int64_t)
		wall_shift_ns;      /* added to the table's time for calendars; throttle_set_wall */
	struct generation *retired; /* awaiting collection */
	char *folder;               /* NULL: memory only */
	bool is_in_use;             /* was opened */
	bool is_changing;           /* a change is prepared */
	bool grows;                 /* by throttle_table_grow, from few buckets on */
	uint32_t name_count, name_room;
	char (*names)[THROTTLE_NAME_BYTES];
};

/* A change of limits that was prepared. */
struct throttle_change {
	struct throttle_table *table;
	struct generation *next; /* NULL: nothing changes */
	int lock;                /* of the folder; -1: none */
};

static inline struct generation *table_current(const struct throttle_table *table)
{
	/* acquire: pairs with the store in throttle_table_commit */
	return atomic_load_explicit(&table->current, memory_order_acquire);
}

static inline struct limit_state *table_limit(const struct generation *g, uint32_t id)
{
	const _Atomic(struct limit_state *) *at =
		id < GENERATION_NEAR_IDS ? &g->near_ids[id] : &g->far_ids[id - GENERATION_NEAR_IDS];

	/* Of the near ones those that are none are NULL. acquire: pairs with the store of a level
	 * whose callers are all there */
	return id < GENERATION_NEAR_IDS || id < g->ids
		       ? atomic_load_explicit(at, memory_order_acquire)
		       : NULL;
}

#endif
