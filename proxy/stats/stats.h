/*
 * Counters: each worker adds to a block of its own without an atomic read-modify-write, and a
 * thread that wants a sum adds the blocks up.
 *
 *   name --stats_register--> row number --> [block of worker 0][block of worker 1]... --stats_sum
 *
 * A name keeps its row for the life of the process, so counters continue over a reload, also those
 * of a name that left and came back. There are at most STATS_ROWS rows a scope; names beyond that
 * share row 0, whose name is STATS_OTHER.
 */
#ifndef STATS_STATS_H
#define STATS_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "stats/metrics.h"

#define STATS_ROWS       16384
#define STATS_CHUNK_ROWS 64
#define STATS_CHUNKS     (STATS_ROWS / STATS_CHUNK_ROWS)

/* Row 0 of every scope: what has no name of its own (a request that no route matched). */
#define STATS_OTHER "-"

/* One worker's counters; only that worker writes them. */
struct stats_block {
	_Atomic uint64_t *_Atomic chunks[STATS_SCOPES][STATS_CHUNKS];
};

struct stats;

/* Counters for `workers` threads. NULL without memory. */
struct stats *stats_new(unsigned workers);
/* No thread counts any more. NULL is ignored. */
void stats_free(struct stats *stats);

/* The row of `name`, made if need be; 0 (STATS_OTHER) without memory or when all rows are taken.
 * Any thread; takes a lock: for loading a configuration, not for a request. */
unsigned stats_register(struct stats *stats, enum stats_scope scope, const char *name);

struct stats_block *stats_block(struct stats *stats, unsigned worker);

/* How many rows a scope has, and the name of one; valid as long as `stats`. */
unsigned stats_row_count(const struct stats *stats, enum stats_scope scope);
const char *stats_row_name(const struct stats *stats, enum stats_scope scope, unsigned row);

/* Adds up a row's slots over all workers: stats_slots[scope] numbers. Any thread; of a sum that is
 * being added to, a recent value. */
void stats_sum(const struct stats *stats, enum stats_scope scope, unsigned row, uint64_t *slots);

/* The slots of a row of this worker. */
static inline _Atomic uint64_t *stats_row(
	struct stats_block *block, enum stats_scope scope, unsigned row)
{
	/* relaxed: the row's number came to this thread after the chunk was made */
	_Atomic uint64_t *chunk = atomic_load_explicit(
		&block->chunks[scope][row / STATS_CHUNK_ROWS], memory_order_relaxed);

	return chunk + (size_t)(row % STATS_CHUNK_ROWS) * stats_slots_of(scope);
}

static inline void stats_add(_Atomic uint64_t *slot, uint64_t n)
{
	/* relaxed: one writer; readers take any recent value */
	atomic_store_explicit(
		slot, atomic_load_explicit(slot, memory_order_relaxed) + n, memory_order_relaxed);
}

/* The histogram bucket of a duration: how many bounds it is above. */
static inline unsigned stats_bucket(uint64_t ns)
{
	unsigned bucket = stats_bounds_below[63 - __builtin_clzll(ns | 1)];

	return bucket + (bucket < STATS_BOUNDS && ns > stats_bounds_ns[bucket]);
}

/* Adds a duration to the histogram that begins at `slots`. */
static inline void stats_observe(_Atomic uint64_t *slots, uint64_t ns)
{
	if (ns == 0) { /* what waited for nothing */
		stats_add(&slots[0], 1);
		return;
	}
	stats_add(&slots[stats_bucket(ns)], 1);
	stats_add(&slots[STATS_BOUNDS + 1], ns);
}

#endif
