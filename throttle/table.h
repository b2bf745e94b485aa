/* The handle: names of limits, and the generation in use; and what table*.c share. */
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

/* `report` may be NULL; `detail` is "" where there is none. */
void table_report(struct throttle_report *report, enum throttle_found found, const char *text,
	const char *detail);

/* Checked copies, as they are stored, or NULL with errno. */
struct throttle_limit *table_copy_limits(
	const struct throttle_limit *limits, size_t count, struct throttle_report *report);

/* Gives the generation's limits their numbers. 0 or errno. */
int table_number_limits(struct throttle_table *table, struct generation *generation);

/* A new generation. NULL with errno, and no file of it is left. */
struct generation *table_create(struct throttle_table *table,
	const struct generation_source *source, const struct throttle_limit *limits, size_t count);

/* Moves all callers to it, which then takes the old one's name. 0 or errno. */
int table_settle(struct throttle_table *table, struct generation *generation);

/* The newest time that it has seen, since 1970; and time continues from one. */
uint64_t table_newest(const struct throttle_table *table);
void table_set_offset(struct throttle_table *table, uint64_t now_ns, uint64_t newest);

/* Of the folder, or of memory that is shared. */
void table_unlock(struct throttle_table *table, int lock);

#endif
